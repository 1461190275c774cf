"""The engine of docs/developers/add-an-engine.md does what a policy that is asked at each end does.

`equal-split` gives each flow the least equal part on its path, in Python.
"""

import numpy as np
import pytest

import netsim
from netsim.base.compiling import Direct
from netsim.fabric import event_loop
from netsim.fabric.allocation import PriorityService
from netsim.fabric.flow_table import FlowArrays, PriorityEngine
from netsim.fabric.kernels import priority
from tests.fabric import even_engine
from tests.fabric.test_room import MIXED


def test_the_code_of_an_engine_elsewhere_is_not_kept():
    """Nothing would say when that has changed; netsim's own is in the name of the folder."""
    assert even_engine.run.stats.cache_path is None
    assert priority.run.stats.cache_path is not None


class Even(netsim.Allocator):
    """Has the engine serve all flows, whatever their order."""

    def allocate(self, view):
        return netsim.Allocation(service=PriorityService(np.arange(len(view)), backfill="greedy"))


def begin(self, coflows, arrays, capacity, service, interval):
    self.current = even_engine.state_of(coflows, arrays.flows, len(capacity))
    return self.current


@pytest.fixture
def even(monkeypatch):
    """Put the engine in the place of service in order, and return its policy."""
    monkeypatch.setitem(event_loop._LOOPS, even_engine.EvenState, Direct(even_engine.run))
    monkeypatch.setattr(PriorityEngine, "begin", begin)
    return Even()


@pytest.mark.parametrize("options", [{}, {"observe_interval": "20ms"}, {"record": ["links"]}])
def test_the_example_is_right(options, even):
    jobs = [netsim.JobSpec(k, hosts=range(4), arrival_s=0.05 * (k // 2), iterations=2, stages=[
        netsim.Stage("push", [(k % 3, 3, 1e5 + k), (k % 3, (k + 1) % 3, 2e5)], compute_s=0.01),
        netsim.Stage("pull", [(3, k % 3, 1e5)], after=["push"])]) for k in range(4)]
    network = netsim.big_switch(4, "8Mbps")
    expected = netsim.simulate(network, jobs, allocator="equal-split", **options)
    found = netsim.simulate(network, jobs, allocator=even, **options)
    np.testing.assert_allclose(found.jobs["finish_s"], expected.jobs["finish_s"], rtol=1e-9)
    if "record" in options:
        carried = [each.links.groupby("link")["bytes"].sum() for each in (found, expected)]
        assert carried[0].to_dict() == pytest.approx(carried[1].to_dict())


@pytest.mark.filterwarnings("ignore:jobs .* compute on host")
def test_flows_move_while_the_loop_is_held(even, monkeypatch):
    """As `test_room` does it for the policies."""
    network = netsim.big_switch(4, "8Mbps")
    usual = netsim.simulate(network, MIXED, allocator=even, record=["flows"])
    monkeypatch.setattr(FlowArrays, "have_room", lambda self, wanted: not np.any(wanted))
    moved = netsim.simulate(network, MIXED, allocator=even, record=["flows"])
    assert moved.flows.equals(usual.flows)
