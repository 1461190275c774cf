"""What each pattern sends."""

import numpy as np
import pytest

from netsim.errors import InputError, UnknownNameError
from netsim.jobs.patterns import PATTERNS, make_pattern
from netsim.workload.job import JobSpec


def rng():
    return np.random.default_rng(7)


def test_parameter_server_is_all_to_all_both_ways():
    """3 workers and 2 servers: 6 flows up, 6 down, the servers being the last ranks."""
    push, pull = make_pattern({"name": "parameter-server", "servers": 2}).stages(5, 10.0, rng())
    pairs = {(w, s) for w in (0, 1, 2) for s in (3, 4)}
    assert set(zip(push.flows.src, push.flows.dst, strict=True)) == pairs
    assert set(zip(pull.flows.dst, pull.flows.src, strict=True)) == pairs
    assert pull.after == ("push",)
    for stage in (push, pull):
        assert ((stage.flows.nbytes > 0) & (stage.flows.nbytes <= 10)).all()
    assert not np.array_equal(push.flows.nbytes, pull.flows.nbytes)


def test_parameter_server_splits_the_model():
    """Each worker's gradients of 12 bytes go in equal parts to 3 servers: 4 bytes a flow."""
    push, pull = make_pattern({"name": "parameter-server", "servers": 3, "sizes": "split"}
                              ).stages(5, 12.0, rng())
    assert set(push.flows.nbytes) == set(pull.flows.nbytes) == {4.0}


def test_uniform_sizes_fill_the_interval():
    push, _ = make_pattern("parameter-server").stages(100, 1.0, rng())
    assert len(push.flows) == 2500
    assert push.flows.nbytes.mean() == pytest.approx(0.5, abs=0.02)
    assert push.flows.nbytes.max() > 0.99


def test_ring_sends_twice_all_but_a_share():
    """With w = 4, m = 12: 2 * 12 * 3/4 = 18 bytes over each edge of the ring."""
    (stage,) = make_pattern("ring-all-reduce").stages(4, 12.0, rng())
    assert list(stage.flows) == [(0, 1, 18.0), (1, 2, 18.0), (2, 3, 18.0), (3, 0, 18.0)]


def test_stepwise_ring_sends_the_same_in_steps():
    """2(w-1) = 6 steps of m/w = 3 bytes, one after the other."""
    steps = make_pattern({"name": "ring-all-reduce", "stepwise": True}).stages(4, 12.0, rng())
    assert [step.after for step in steps] == [(), *((f"step-{k}",) for k in range(5))]
    assert sum(step.flows.nbytes for step in steps).tolist() == [18.0] * 4
    assert {tuple(step.flows.nbytes) for step in steps} == {(3.0,) * 4}


def test_a_ring_of_one_sends_nothing():
    (stage,) = make_pattern("ring-all-reduce").stages(1, 12.0, rng())
    assert len(stage.flows) == 0


def test_all_to_all_skips_oneself():
    (stage,) = make_pattern("all-to-all").stages(3, 12.0, rng())
    assert list(stage.flows) == [(s, d, 4.0) for s in range(3) for d in range(3) if s != d]
    (stage,) = make_pattern({"name": "all-to-all", "sizes": "uniform"}).stages(3, 12.0, rng())
    assert len(set(stage.flows.nbytes)) == 6


@pytest.mark.parametrize("name", PATTERNS)
def test_pure(name):
    """The same ranks, bytes and stream give the same stages, within the ranks."""
    first, second = (make_pattern(name).stages(6, 100.0, rng()) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert list(one.flows) == list(other.flows)
        assert one.flows.ranks <= 6
    assert JobSpec(0, stages=first).ranks == 6


@pytest.mark.parametrize(("pattern", "error", "message"), [
    ("gossip", UnknownNameError, "unknown pattern 'gossip'; choose from: all-gather, all-r"),
    ({"name": "ring-all-reduce", "step": 1}, UnknownNameError, "did you mean 'stepwise'"),
    ({"name": "all-to-all", "sizes": "big"}, UnknownNameError, "choose from: split, uniform"),
    ({"name": "parameter-server", "sizes": "x"}, UnknownNameError, "choose from: split, uniform"),
    ({"name": "parameter-server", "servers": 0}, InputError, "servers must be .* not 0"),
    ({"name": "ring-all-reduce", "stepwise": "yes"}, InputError, "stepwise must be true or false"),
    (42, InputError, "42 is not a pattern"),
])
def test_refused(pattern, error, message):
    with pytest.raises(error, match=message):
        make_pattern(pattern)


def test_parameter_server_needs_a_worker_and_a_server():
    for ranks, servers in ((1, None), (3, 3)):
        with pytest.raises(InputError, match=f"{ranks} ranks cannot be workers and"):
            make_pattern({"name": "parameter-server", "servers": servers}).stages(ranks, 1, rng())


@pytest.mark.parametrize("pattern", ["parameter-server", "all-to-all",
                                     {"name": "ring-all-reduce", "stepwise": True}])
def test_more_flows_than_there_is_memory_for_are_refused_before_any_is_made(pattern):
    with pytest.raises(InputError, match=r"10,000 ranks would have .* at most 20,000,000"):
        make_pattern(pattern).stages(10_000, 1e6, np.random.default_rng(0))


def test_netsims_patterns_are_made_once():
    """By name and options, of which True is not 1."""
    assert make_pattern("all-reduce") is make_pattern({"name": "all-reduce"})
    assert make_pattern({"name": "broadcast", "chunks": 1}) is make_pattern(
        {"name": "broadcast", "chunks": 1})
    with pytest.raises(InputError, match="chunks must be a whole number"):
        make_pattern({"name": "broadcast", "chunks": True})
