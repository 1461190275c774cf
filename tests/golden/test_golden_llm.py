"""Training of language models: worked cases of the generator, to the integer, and of times."""

import json
from fractions import Fraction

import numpy as np
import pytest

import netsim
from netsim.jobs.longest_path import longest_path
from netsim.llm import Transformer, llm_operations
from netsim.llm.job import RankGrid, groups_of
from netsim.llm.passes import buckets_of, cost_of, passes_of, shards_of, units_of
from netsim.llm.rank_program import rank_program
from netsim.llm.setup import TrainingSetup
from tests.twins.kernels import ends_of

RTOL = 1e-9


def number(value):
    return float(Fraction(value))


def cases_of(path):
    """The cases of a file, each with its setup."""
    document = json.loads(path.read_text())
    assert document["cases"]
    for case in document["cases"]:
        setup = dict(case.get("setup", {}))
        if setup:
            model = setup.pop("model")
            shape = document["models"][model] if isinstance(model, str) else model
            if "forward_s" in setup:
                setup["forward_s"] = list(map(number, setup["forward_s"]))
            if "optimizer_s" in setup:
                setup["optimizer_s"] = number(setup["optimizer_s"])
            setup = TrainingSetup(model=Transformer(**shape), **setup)
        yield case, setup


def test_groups(llm_groups_case):
    for case, _ in cases_of(llm_groups_case):
        grid = RankGrid.make(*(case[name] for name in ("tp", "cp", "ep", "dp", "pp", "order")))
        found = groups_of(grid)
        assert {name: found[name] for name in case["groups"]} == case["groups"]


def test_order(llm_order_case):
    for case, _ in cases_of(llm_order_case):
        chunks = case["vpp"]
        setup = TrainingSetup(
            model=Transformer(layers=case["pp"] * chunks, hidden=8, ffn=8, heads=1, vocab=8,
                              sequence=1),
            global_batch=case["micro_batches"], schedule=case["schedule"], pp=case["pp"],
            vpp=chunks, group=case["group"] if chunks > 1 else None)
        assert [" ".join(map(str, passes_of(setup, stage)))
                for stage in range(case["pp"])] == case["stages"]


def test_parameters(llm_parameters_case):
    for case, setup in cases_of(llm_parameters_case):
        model = setup.model
        assert (setup.padded_vocab, setup.micro_batches) == (case["padded_vocab"],
                                                             case["micro_batches"])
        assert (model.parameters, model.active_parameters) == (case["total_parameters"],
                                                               case["active_parameters"])
        flops = 0
        for rank in case["per_rank"]:
            units = [unit for chunk in range(setup.vpp)
                     for unit in units_of(setup, chunk * setup.pp + rank["stage"])]
            tensors = [tensor for unit in units for tensor in unit.tensors]
            costs = [cost_of(setup, unit.kind) for unit in units]
            for expert, name in ((False, "dense_parameters"), (True, "expert_parameters")):
                assert rank[name] == sum(each.elements for each in tensors
                                         if each.expert == expert)
            own = sum(cost.flops for cost in costs)
            assert own == rank["forward_flops_per_micro_batch"]
            assert sum(cost.main_s + cost.core_s + cost.shared_s for cost in costs
                       ) == pytest.approx(rank["forward_s"], rel=RTOL)
            flops += 3 * own * setup.world // setup.pp * setup.micro_batches
        assert flops == case["megatron_flops_of_global_batch"]


def test_buckets(llm_buckets_case):
    for case, setup in cases_of(llm_buckets_case):
        for stage in case["virtual_stages"]:
            tensors = [[each.unit, each.name, each.elements, each.expert]
                       for unit in units_of(setup, stage["virtual"]) for each in unit.tensors]
            listed = stage["tensors"]
            assert (len(tensors) if isinstance(listed, int) else tensors) == listed
            for name in ("dense", "expert"):
                made = buckets_of(setup, stage["virtual"], name == "expert")
                assert [each.elements for each in made] == stage[name]
        if "gather_shards" in case:
            assert shards_of(setup) == case["gather_shards"]


def test_traffic(llm_traffic_case):
    for case, setup in cases_of(llm_traffic_case):
        grid = RankGrid.of(setup)
        for rank, listed in case["ranks"].items():
            stage = next(k for k in range(setup.pp) if int(rank) in grid.stage(k))
            assert sent_by(setup, stage) == {
                name: (each["count"], each["payload_bytes"], Fraction(each["ring_exact"]))
                for name, each in listed.items()}


def sent_by(setup, stage):
    """Count, payload and ring bytes of what a rank sends, by stream or group and kind."""
    members = {"tp": setup.tp, "cp": setup.cp, "ep": setup.ep, "dp-cp": setup.dp * setup.cp,
               "edp": setup.dp * setup.cp // setup.ep, "embedding": 2, "pp": 2}
    found = {}
    for step in rank_program(setup, stage):
        if step.kind not in ("compute", "barrier"):
            name, n = step.name.rpartition("/")[2], members[step.group]
            share = {"send": Fraction(1), "all-reduce": Fraction(2 * (n - 1), n)}.get(
                step.kind, Fraction(n - 1, n))
            count, payload, ring = found.get(name, (0, 0, Fraction(0)))
            found[name] = count + 1, payload + step.payload, ring + share * step.payload
    return found


# --- times -----------------------------------------------------------------------------------


def test_times_of_longest_paths(llm_times_case):
    """Each operation takes what it takes by itself; the compiled path is the readable one."""
    for case, setup in cases_of(llm_times_case):
        made = llm_operations(setup)
        seconds = seconds_of(made, case)
        ends = list(longest_path(made, seconds, case["iterations"]))
        assert np.array_equal(ends, ends_of(made, seconds.tolist(), case["iterations"]))
        computes = made.rank >= 0
        step = np.array([name == "optimizer/compute" for name in made.names])[made.name]
        for kind, which in (("step_end", step), ("compute_end", computes & ~step)):
            assert [each[which].max() for each in ends] == [
                pytest.approx(each["s"], rel=RTOL) for each in case[kind]]
        assert max(each.max() for each in ends) == pytest.approx(case["makespan"]["s"], rel=RTOL)
        check_passes(made, case, ends[0] - seconds, ends[0], computes & ~step)
        for rank, idle in case.get("idle_share", {}).items():
            own = computes & ~step & (made.rank == int(rank))
            assert 1 - seconds[own].sum() / case["compute_end"][0]["s"] == pytest.approx(
                number(idle), rel=1e-6, abs=1e-9)


def seconds_of(made, case):
    """What each operation takes on the idle network of a case."""
    slow = np.ones(made.ranks)
    for rank, factor in case.get("slow", {}).items():
        slow[int(rank)] = number(factor)
    seconds = made.slowed(slow).compute_s.copy()
    if case["network"] is not None:
        rate, alpha = (number(case["network"][name]) for name in ("bytes_per_s", "alpha_s"))
        alone = np.array([np.bincount(each.flows.src, each.flows.nbytes).max() / rate
                          + alpha * (each.steps[0][1] if each.steps else 1)
                          for each in made.sendings])
        sends = made.sends >= 0
        seconds[sends] += alone[made.sends[sends]]
    return seconds


def check_passes(made, case, starts, ends, computes):
    for rank, listed in case.get("passes", {}).items():
        found = {}
        for k in np.flatnonzero(computes & (made.rank == int(rank))):
            name = made.name_of(k).partition(".")[0], made.name_of(k).partition("/")[0]
            start, end = found.get(name, (starts[k], ends[k]))
            found[name] = min(start, starts[k]), max(end, ends[k])
        passes = sorted((start, end, name) for (name, _), (start, end) in found.items())
        wanted = sorted((number(start), number(end), name) for name, _, start, end in listed)
        assert [name for *_, name in passes] == [name for *_, name in wanted]
        for own, other in zip(passes, wanted, strict=True):
            assert own[:2] == pytest.approx(other[:2], rel=RTOL, abs=1e-15)


def test_times_on_the_fabric(llm_times_case):
    """Where no rank sends two things at once, a big switch gives the times of the longest path.

    Half of the latency of a step is that of a port.
    """
    run = 0
    for case, setup in cases_of(llm_times_case):
        if not (case["exclusive"] and case["network"]):
            continue
        job = netsim.JobSpec(0, iterations=case["iterations"], hosts=range(setup.world),
                             operations=llm_operations(setup))
        switch = netsim.big_switch(setup.world, float(case["network"]["bytes_per_s"]),
                                   latency=number(case["network"]["alpha_s"]) / 2)
        result = netsim.simulate(switch, [job], record=["jobs", "coflows", "computations"])
        steps = result.computations[result.computations["stage"] == "optimizer/compute"]
        assert steps.groupby("iteration")["finish_s"].max().tolist() == [
            pytest.approx(each["s"], rel=RTOL) for each in case["step_end"]]
        assert result.jobs["finish_s"][0] == pytest.approx(case["makespan"]["s"], rel=RTOL)
        assert result.jobs["lower_bound_s"][0] == pytest.approx(case["makespan"]["s"], rel=RTOL)
        run += 1
    assert run >= 15
