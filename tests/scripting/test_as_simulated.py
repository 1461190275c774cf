"""Jobs written as SimPy processes end when `simulate` says, to the last bit."""

import json

import numpy as np
import pytest

import netsim
from netsim.allocators.registry import ALLOCATORS
from tests.golden.test_golden_coflow import options_of
from tests.golden.test_golden_parrot import policy
from tests.pairs import in_turn, some
from tests.scripting.jobs import are_chains, scripted, times

NET = netsim.big_switch(6, "8Mbps")


def assert_same(network, workload, **options):
    expected = netsim.simulate(network, workload, **options)
    _, found = scripted(network, workload, **options)
    assert len(found.coflows) == len(expected.coflows) > 0
    np.testing.assert_array_equal(times(found), times(expected, workload))


def chains(rng):
    """Return jobs of two coflows after each other, over and over, with and without computation."""
    def flows(count):
        src, dst = rng.integers(0, 6, count), rng.integers(0, 5, count)
        return [(int(a), int(b + (b >= a)), float(nbytes)) for a, b, nbytes in zip(
            src, dst, rng.uniform(1e5, 8e5, count), strict=True)]
    return netsim.Workload([netsim.JobSpec(
        k, float(at), hosts=range(6), iterations=5,
        compute_s=float(rng.choice([0.0, 0.1])),
        stages=[netsim.Stage("a", flows(3)), netsim.Stage("b", flows(2), after=["a"])])
        for k, at in enumerate(np.sort(rng.uniform(0, 3, 5)))])


#: Those that need to know of jobs what scripts do not tell.
ELSEWHERE = {"crux", "lp-order", "reserved"}


@pytest.mark.parametrize(("allocator", "interval"), in_turn(sorted(
    {*ALLOCATORS.names, *ALLOCATORS.presets} - ELSEWHERE), [0, "300ms"]))
def test_every_policy(allocator, interval):
    workload = chains(np.random.default_rng(1))
    assert_same(NET, workload, allocator=allocator, observe_interval=interval)


@pytest.mark.parametrize("size", [1, 3])
def test_records_are_the_same_in_batches_of_any_size(monkeypatch, size):
    options = {"allocator": "sebf", "record": ["jobs", "coflows", "flows"]}
    _, whole = scripted(NET, chains(np.random.default_rng(3)), **options)
    monkeypatch.setattr("netsim.scripting.coflow._MOST_ENDED", size)
    _, found = scripted(NET, chains(np.random.default_rng(3)), **options)
    for name in options["record"]:
        assert getattr(found, name).equals(getattr(whole, name))


def test_on_paths_of_several_links():
    rng = np.random.default_rng(2)
    assert_same(netsim.fat_tree(4, "8Mbps"), chains(rng), allocator="maxmin")


def test_golden_cases_of_parrot(parrot_case):
    case = json.loads(parrot_case.read_text())
    network, workload = netsim.read_network(parrot_case), netsim.read_workload(parrot_case)
    if not are_chains(network, workload.jobs):
        pytest.skip("its jobs are no chains")
    for expected in some(case["results"], 0, of=3):
        assert_same(network, workload, allocator=policy(case, expected),
                    observe_interval=expected["observe_interval_s"])


def test_golden_cases_of_coflow_policies(coflow_case):
    case = json.loads(coflow_case.read_text())
    network, workload = netsim.read_network(coflow_case), netsim.read_workload(coflow_case)
    if not are_chains(network, workload.jobs):
        pytest.skip("its jobs are no chains")
    for expected in case["results"]:
        assert_same(network, workload, allocator=options_of(expected))
