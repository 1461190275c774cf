"""Kernels that are called without a look at the types of their arguments get the same ones."""

from __future__ import annotations

import numba
import numpy as np
import pytest
import simpy

import netsim
from netsim import JobSpec, Stage
from netsim.allocators import ALLOCATORS
from netsim.base.compiling import Direct, compiled
from tests.pairs import some

SWITCH = netsim.big_switch(4, "8Mbps")
CHAINS = [JobSpec(k, hosts=range(4), arrival_s=0.1 * k, iterations=3, stages=[
    Stage("push", [(k % 3, 3, 1e5), (k % 3, (k + 1) % 3, 2e5)], compute_s=0.01),
    Stage("pull", [(3, k % 3, 1e5)], after=["push"])]) for k in range(5)]
RANKS = [netsim.llm_job({"layers": 2, "hidden": 64, "ffn": 256, "heads": 2, "vocab": 256,
                         "sequence": 16}, tp=2, dp=2, global_batch=4, id=k, forward_s=[0.001] * 3)
         for k in range(2)]
MANY = [JobSpec(k, hosts=range(4), stages=[Stage("a", [(k % 4, (k + 1) % 4, 1e5 + k)] * 25)])
        for k in range(90)]
PROBLEMS = {
    "chains": (CHAINS, {}),
    "processes": (CHAINS, {"events": [{"at": 0.2, "host": 0, "kind": "fail", "restart": True},
                                      {"at": 0.4, "host": 0, "kind": "repair"}]}),
    "faults": (CHAINS, {"events": [{"at": 0.2, "link": "ingress-3", "kind": "fail"},
                                   {"at": 0.4, "link": "ingress-3", "kind": "repair"}]}),
    "interval": (CHAINS, {"observe_interval": "50ms"}),
    "recorded": (CHAINS, {"record": ["coflows", "flows", "links", "decisions"]}),
    "graphs": (RANKS, {}),
    "many": (MANY, {}),
}


@pytest.fixture
def watched(monkeypatch):
    """Hold all arguments to the types of the first call; return those of each kernel."""
    types = {}

    def call(self, *args):
        found = tuple(map(numba.typeof, args))
        assert types.setdefault(self.kernel, found) == found
        return self.kernel(*args)

    monkeypatch.setattr(Direct, "__call__", call)
    return types


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.filterwarnings("ignore:jobs .* compute on host")
def test_types_are_always_the_same(watched, problem):
    jobs, options = PROBLEMS[problem]
    for name in some(ALLOCATORS.names, list(PROBLEMS).index(problem), of=5):
        allocator = "reserved:shares=0.01" if name == "reserved" else name
        netsim.simulate(SWITCH, jobs, allocator=allocator, **options)
    assert len(watched) > 1


@netsim.compiled(leftover="maxmin")
def last_first(coflows, jobs, now, order):
    for c in range(len(coflows)):
        order.key[c] = coflows[c].id if now < 0.05 else -coflows[c].id


@pytest.mark.parametrize("zero", [0, 0.0])
def test_a_clock_that_says_a_whole_number(zero):
    """3 coflows of 1,024 flows of 4 MB, 32 of them a port: 0.1024 s each, the last one second."""
    env = simpy.Environment(zero)
    fabric = netsim.Fabric(env, netsim.big_switch(64, "10Gbps"), allocator=last_first)
    flows = [(s, d, "4MB") for s in range(32) for d in range(32, 64)]
    for _ in range(3):
        fabric.coflow(flows)
    env.run()
    assert fabric.result().coflows["finish_s"].tolist() == pytest.approx([0.1024, 0.3072, 0.2048])


def test_calls():
    """The first call goes by the types; the next ones do not, and return the same."""
    @compiled
    def doubled(values):
        return values[0] * 2

    direct = Direct(doubled)
    assert [direct(np.array([value])) for value in (1.5, 2.5)] == [3.0, 5.0]
    assert direct._entry(np.array([3.5])) == 7.0
    assert len(doubled.overloads) == 1


def test_exceptions_pass():
    @compiled
    def picked(values, which):
        if which >= len(values):
            raise IndexError("too far")
        return values[which]

    direct = Direct(picked)
    assert direct((1, 2), 1) == 2
    with pytest.raises(IndexError, match="too far"):
        direct((1, 2), 2)
