"""Messages, waits, steps and times of collectives, exactly."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from netsim import JobSpec, big_switch, gpu_cluster, simulate
from netsim.collectives import (
    NcclCosts,
    SwitchCosts,
    aggregated_s,
    auto,
    bandwidths,
    closed_form_s,
    fastest,
    schedule,
    stepwise_s,
    waits,
)
from netsim.jobs.patterns.base import stages_of
from netsim.network import Wire
from tests.pairs import in_turn, some

RTOL = 1e-9
OPTIONS = ("chunks", "root", "group", "inner", "outer", "order", "pairs")
#: Files that do not list the messages of one algorithm.
OTHERS = ("auto", "fastest", "two_at_once")


@pytest.fixture
def listed(collectives_case):
    if collectives_case.stem in OTHERS:
        pytest.skip("lists no messages")
    case = json.loads(collectives_case.read_text())
    assert case["instances"]
    return case


def options_of(instance):
    return {name: instance[name] for name in OPTIONS if name in instance}


def made_of(case, instance):
    """Return the schedule and the sizes of its pieces, and the matrix if there is one."""
    made = schedule(case["collective"], instance["ranks"], case["algorithm"],
                    **options_of(instance))
    matrix = np.array(instance["matrix"], float) if "matrix" in instance else None
    return made, made.sizes(instance["bytes"]["value"], instance.get("unit"), matrix), matrix


def test_messages(listed):
    for instance in listed["instances"]:
        made, sizes, _ = made_of(listed, instance)
        assert made.pieces == instance["pieces"]
        assert made.steps == instance["steps"]
        assert list(made.phases) == instance["phases"]
        messages = made.messages(sizes)
        found = zip(messages.step.tolist(), messages.src.tolist(), messages.dst.tolist(),
                    messages.pieces, waits(messages, made.in_turn), strict=True)
        assert [list(each) for each in found] == [
            [step, src, dst, pieces, after]
            for step, src, dst, _, pieces, after in instance["messages"]]
        assert messages.nbytes.tolist() == pytest.approx(
            [float(Fraction(each[3])) for each in instance["messages"]], rel=RTOL)
        of_pieces = [each["value"] for each in instance["piece_bytes"]]
        one = np.ones(made.pieces, np.int64)
        assert sizes.of(one, np.arange(made.pieces), wrap=made.pieces).tolist() == pytest.approx(
            of_pieces * (made.pieces if len(of_pieces) == 1 else 1), rel=RTOL)


def test_times_on_an_idle_switch(listed):
    """The formulas; max-min fairness ends some double trees later than their fullest port."""
    costs = [listed["switch"][name]["value"]
             for name in ("port_bytes_per_s", "path_latency_s", "overhead_s")]
    for instance in listed["instances"]:
        made, sizes, matrix = made_of(listed, instance)
        expected, options = instance["switch"], options_of(instance)
        time = stepwise_s(made, sizes, *costs)
        assert time == pytest.approx(expected["stepwise_s"]["value"], rel=RTOL)
        aggregated = aggregated_s(made, sizes, *costs)
        if listed["algorithm"] == "double-tree":
            assert aggregated <= expected["aggregated_s"]["value"] * (1 + RTOL)
        else:
            assert aggregated == pytest.approx(expected["aggregated_s"]["value"], rel=RTOL)
        if "closed_form_s" in expected:
            formula = {name: value for name, value in options.items()
                       if name not in ("root", "order")}
            assert closed_form_s(
                listed["collective"], listed["algorithm"], instance["ranks"], sizes.nbytes, *costs,
                unit=instance.get("unit"), matrix=matrix, **formula) == pytest.approx(
                    expected["closed_form_s"]["value"], rel=RTOL)
        if instance["ranks"] > 1:
            found = bandwidths(listed["collective"], instance["ranks"], instance["bytes"]["value"],
                               time, matrix=matrix, pairs=options.get("pairs"))
            for name, value in found._asdict().items():
                told = expected.get(f"{name}_bytes_per_s", {"value": math.nan})["value"]
                assert value == pytest.approx(told, rel=RTOL, nan_ok=True)


def switch(given, instance):
    """A big switch whose ports have half of a path's latency each."""
    network = big_switch(instance["ranks"], given["port_bytes_per_s"]["value"])
    network.wire = Wire(network.links, latency=given["path_latency_s"]["value"] / 2,
                        overhead=given["overhead_s"]["value"])
    return network


def two_level(given, instance):
    """Servers of GPUs, each with a leaf of its own, and an uplink for all of its NICs."""
    servers, gpus = (instance["two_level"][name] for name in ("servers", "gpus"))
    nic, inside = (given[f"{name}_bytes_per_s"]["value"] for name in ("nic", "nvlink"))
    latency = {name: given[f"{name}_latency_s"]["value"] for name in ("nic", "nvlink", "uplink")}
    return gpu_cluster(
        servers, gpus, inside, nic, rails=1, leaf=1, spine=1,
        uplink=nic * gpus * given["uplink_share"]["value"], overhead=given["overhead_s"]["value"],
        latency={"*server-*": latency["nvlink"], "nic-*->rail-*": latency["nic"],
                 "rail-*->nic-*": latency["nic"], "*spine-*": latency["uplink"]})


TOLD = {"steps": "stepwise_s", "messages": "per_message_s", "aggregate": "aggregated_s"}


@pytest.mark.parametrize(("network_of", "form"), in_turn([switch, two_level], TOLD, first=1))
def test_runs_alone(listed, network_of, form):
    """Max-min fair, on a switch and on servers of GPUs."""
    kind, told = network_of.__name__, TOLD[form]
    for instance in some(listed["instances"], 0, of=2):
        if instance["ranks"] == 1:
            continue
        made, sizes, _ = made_of(listed, instance)
        job = JobSpec(0, stages=stages_of(made, sizes, form), hosts=range(instance["ranks"]))
        result = simulate(network_of(listed[kind], instance), [job], allocator="maxmin")
        assert float(result.jobs["jct_s"].iloc[0]) == pytest.approx(
            instance[kind][told]["value"], rel=RTOL)


def test_auto(collectives_auto_case):
    for given in json.loads(collectives_auto_case.read_text())["results"]:
        inside = "pcie" if given.get("inside") == "pci" else "nvlink"
        costs = NcclCosts(given["bus_GB_per_s"] * 1e9, given["nodes"], given["gen"],
                          given.get("cpu", "intel"), inside)
        found = auto("all-reduce", given["ranks"], given["bytes"], costs)
        assert [found.algorithm.removeprefix("double-"), found.protocol] == given["choice"]
        assert {name.removeprefix("double-"): time * 1e6 for name, time in found.times_s.items()
                } == {name: pytest.approx(time, rel=RTOL)
                      for name, time in given["times_us"].items()}


def test_fastest(collectives_fastest_case):
    case = json.loads(collectives_fastest_case.read_text())
    costs = SwitchCosts(*(case[name]["value"] for name in
                          ("port_bytes_per_s", "path_latency_s", "overhead_s")))
    for given in case["results"]:
        found = fastest("all-reduce", given["ranks"], given["bytes"], costs)
        assert found.algorithm == given["choice"]
        assert list(found.times_s) == list(given["times_s"])
        assert found.times_s == {name: pytest.approx(time["value"], rel=RTOL)
                                 for name, time in given["times_s"].items()}
