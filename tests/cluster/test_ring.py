"""Rings of placed jobs: edges, bytes and times."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import netsim
from netsim.cluster import RingLayout, ring_stages
from netsim.errors import InputError

TWO_BY_TWO = RingLayout([(3, 0), (1, 1), (3, 1), (1, 0)])


@given(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1))
def test_each_server_is_entered_and_left_once(workers):
    ring = RingLayout(workers)
    used = sorted({server for server, _ in workers})
    assert list(ring.servers) == used
    assert ring.size == len(ring.workers) == len(workers)
    if len(used) > 1:
        assert sorted(src for src, _ in ring.edges) == sorted(dst for _, dst in ring.edges) == used
    assert ring.edges_inside + len(ring.edges) == (ring.size if ring.size > 1 else 0)


def test_an_iteration_between_servers():
    """Of w = 4 and m = 8 MB: 12 MB on each edge; 6 MB added up at 1 GB/s.

    10 + 2 * 2 + 6 = 20 ms of computation.
    """
    stage, = ring_stages(TWO_BY_TWO, "8MB", compute_s="10ms", server_s="2ms", reduction="1GB/s",
                         intra="1GB/s")
    assert [*stage.flows] == [(0, 1, 12e6), (1, 0, 12e6)]
    assert stage.compute_s == pytest.approx(0.020)


def test_an_iteration_inside_a_server():
    """Of w = 2 and m = 8 MB: 8 MB at 2 GB/s, 4 ms; 4 MB added up at 1 GB/s, 4 ms; 2 and 10 ms."""
    ring = RingLayout([(3, 0), (3, 1)])
    stage, = ring_stages(ring, "8MB", compute_s="10ms", server_s="2ms", reduction="1GB/s",
                         intra="2GB/s")
    assert stage.flows is None
    assert stage.compute_s == pytest.approx(0.020)
    alone, = ring_stages(RingLayout([(3, 0)]), "8MB", compute_s="10ms", server_s="2ms",
                         reduction="1GB/s", intra="2GB/s", stepwise=True)
    assert (alone.flows, alone.compute_s) == (None, pytest.approx(0.012))


def test_steps():
    """2(w-1) = 6 steps of m/w = 2 MB, one after the other; only the first waits for computation."""
    stages = ring_stages(TWO_BY_TWO, 8e6, compute_s=0.5, stepwise=True)
    assert [stage.after for stage in stages] == [(), *((f"step-{k}",) for k in range(5))]
    assert [stage.compute_s for stage in stages] == [0.5, 0, 0, 0, 0, 0]
    assert all([*stage.flows] == [(0, 1, 2e6), (1, 0, 2e6)] for stage in stages)


@pytest.mark.parametrize("stepwise", [False, True])
def test_steps_take_as_long_as_their_sum(stepwise):
    """Alone 0.5 s + 12 MB over 1 MB/s, twice over; hosts are the servers."""
    job = netsim.JobSpec(0, iterations=2, hosts=TWO_BY_TWO.servers,
                         stages=ring_stages(TWO_BY_TWO, 8e6, compute_s=0.5, stepwise=stepwise))
    result = netsim.simulate(netsim.big_switch(4, 1e6), [job], allocator="ring-contention",
                             record=["flows"])
    assert result.jobs["jct_s"].tolist() == pytest.approx([25])
    assert set(zip(result.flows["src"], result.flows["dst"], strict=True)) == {(1, 3), (3, 1)}


def test_numbers_of_numpy_are_numbers():
    ring = RingLayout(np.array([[1, 0], [0, 2]]))
    assert ring.workers == ((0, 2), (1, 0))
    assert all(type(number) is int for worker in ring.workers for number in worker)


@pytest.mark.parametrize(("workers", "message"), [
    ([], "at least one worker; workers is empty"),
    ([(0, 1), (0, 1)], "two are on GPU 1 of server 0"),
    ([(-1, 0)], "workers: a server must be a whole number of at least 0, not -1"),
    ([(0, 0.5)], "workers: a GPU must be a whole number of at least 0, not 0.5"),
    ([0, 1], r"must be a list of pairs \(server, gpu\), not \[0, 1\]"),
    (3, r"must be a list of pairs \(server, gpu\), not 3"),
])
def test_refused_workers(workers, message):
    with pytest.raises(InputError, match=message):
        RingLayout(workers)


@pytest.mark.parametrize(("change", "message"), [
    ({"nbytes": -1}, "nbytes must be at least 0, not -1"),
    ({"compute_s": math.inf}, "compute_s must be finite, not inf"),
    ({"server_s": "1MB"}, "server_s '1MB' has the unknown unit 'MB'"),
    ({"reduction": 0}, "reduction must be greater than 0, not 0"),
    ({"intra": "0Gbps"}, "intra must be greater than 0, not '0Gbps'"),
])
def test_refused_quantities(change, message):
    with pytest.raises(InputError, match=message):
        ring_stages(**{"ring": TWO_BY_TWO, "nbytes": 8e6} | change)
