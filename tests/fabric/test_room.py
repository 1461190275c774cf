"""Where flows are kept changes nothing, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

import netsim
from netsim.allocators import ALLOCATORS
from netsim.fabric.routed_coflow import FlowArrays
from tests.fabric.test_direct import CHAINS, RANKS
from tests.pairs import in_turn

MIXED = [*CHAINS, *(netsim.JobSpec(10 + k, 0.05 + 0.11 * k, hosts=range(4), iterations=2, stages=[
    netsim.Stage("a", [(0, 1, 1e5), (1, 2, 3e5), (k % 4, 3, 7e4)])]) for k in range(3)),
    *(netsim.JobSpec(20 + k, 0.07 * k, hosts=range(4), operations=job.operations)
      for k, job in enumerate(RANKS))]


@pytest.mark.parametrize(("allocator", "latency"), in_turn(ALLOCATORS.names, [0, "3ms"]))
@pytest.mark.filterwarnings("ignore:jobs .* compute on host")
def test_flows_that_move(allocator, latency, monkeypatch):
    """They move in their arrays whenever jobs begin, as if there never were room."""
    policy = "reserved:shares=0.05" if allocator == "reserved" else allocator
    network = netsim.big_switch(4, "8Mbps", latency=latency)
    usual = netsim.simulate(network, MIXED, allocator=policy, record=["coflows", "flows"])
    monkeypatch.setattr(FlowArrays, "have_room", lambda self, wanted: not np.any(wanted))
    moved = netsim.simulate(network, MIXED, allocator=policy, record=["coflows", "flows"])
    assert moved.coflows.equals(usual.coflows)
    assert moved.flows.equals(usual.flows)


@pytest.mark.parametrize("network", [netsim.big_switch(6, 1.0), netsim.ring(6, 1.0)],
                         ids=["switch", "ring"])
def test_wide_coflows_that_move(network, monkeypatch):
    """Coflows of 40 flows that split a weight move when many of these have ended.

    Every third flow of the ring crosses one link, the others more.
    """
    rng = np.random.default_rng(6)
    jobs = []
    for k in range(6):
        src, hop = rng.integers(0, 6, 40), np.where(np.arange(40) % 3, rng.integers(1, 4, 40), 1)
        flows = netsim.Flows(src, (src + hop) % 6, rng.uniform(1, 9, 40))
        jobs.append(netsim.JobSpec(k, 25.0 * k, hosts=range(6),
                                   stages=[netsim.Stage("a", flows)]))
    usual = netsim.simulate(network, jobs, allocator="coflow-fair", record=["flows"])
    monkeypatch.setattr(FlowArrays, "have_room", lambda self, wanted: not np.any(wanted))
    moved = netsim.simulate(network, jobs, allocator="coflow-fair", record=["flows"])
    assert moved.flows.equals(usual.flows)
    ended = np.count_nonzero(moved.flows["finish_s"] < jobs[-1].arrival_s)
    assert 40 < ended < 160
