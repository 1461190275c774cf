"""Decisions that the fabric makes by a policy's rule are those that the policy would make."""

import numpy as np
import pytest

import netsim
from netsim.allocators import make_allocator
from netsim.errors import AllocationError
from netsim.fabric.allocation import Event
from netsim.fabric.turns import Turns

POLICIES = [f"{name}:work_conservation={each}" for name, choices in (
    ("parrot", ("none", "uniform", "backfill")),
    ("aalo-lbsf", ("greedy", "none", "capped", "shared_uniform")),
    ("lccf", ("greedy", "none", "capped", "shared_uniform")),
    ("srpt", ("greedy", "none", "capped", "shared_uniform"))) for each in choices]


class WithoutTurns(netsim.Allocator):
    """The same policy, asked each time."""

    wakes_on = Event.COFLOW

    def __init__(self, policy):
        self._policy = make_allocator(policy)
        self.information = self._policy.information

    def allocate(self, view):
        allocation = self._policy.allocate(view)
        assert allocation.turns is not None
        return netsim.Allocation(shares=allocation.shares)


def lines(seed, count=12, hosts=8):
    rng = np.random.default_rng(seed)
    jobs = []
    for k in range(count):
        ranks = int(rng.integers(2, hosts))
        src, dst = np.nonzero(~np.eye(ranks, dtype=bool))
        flows = netsim.Flows(src, dst, rng.uniform(1, 9, len(src)))
        stages = [netsim.Stage("a", flows),
                  netsim.Stage("b", [(0, 1, rng.uniform(1, 9))], compute_s=rng.integers(0, 2) * 0.7,
                               after=["a"])]
        jobs.append(netsim.JobSpec(k, rng.uniform(0, 20), hosts=rng.permutation(hosts)[:ranks],
                                   stages=stages, iterations=int(rng.integers(1, 30))))
    return jobs


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("interval", [0, 0.5])
def test_bit_for_bit(policy, interval):
    """Each decision is the same arithmetic in the same order, so that nothing differs at all."""
    network, jobs = netsim.big_switch(8, 1.0, loopback_uses_ports=True), lines(5)
    fast, slow = (netsim.simulate(network, jobs, allocator=each, observe_interval=interval)
                  for each in (policy, WithoutTurns(policy)))
    assert fast.jobs.equals(slow.jobs)
    assert fast.coflows.equals(slow.coflows)
    assert fast.run["decisions"] == slow.run["decisions"]
    assert fast.run["simpy_events"] < slow.run["simpy_events"] / 4


@pytest.mark.parametrize("policy", POLICIES)
def test_bit_for_bit_with_dead_links(policy):
    """A port that many jobs use is dead for a while, and so is one from host to host."""
    network = netsim.big_switch(8, 1.0, loopback_uses_ports=True)
    events = [{"at": at, "link": link, "capacity": capacity} for at, link, capacity in (
        (50.3, "egress-0", 0), (170.1, "egress-0", 1), (100.7, "ingress-3", 0),
        (300.2, "ingress-3", 1))]
    fast, slow = (netsim.simulate(network, lines(7), allocator=each, events=events)
                  for each in (policy, WithoutTurns(policy)))
    assert fast.jobs.equals(slow.jobs)
    assert fast.run["decisions"] == slow.run["decisions"]


@pytest.mark.parametrize("policy", ["parrot", "aalo-lbsf", "lccf", "srpt"])
def test_several_coflows_of_a_job(policy):
    """Turns are of jobs: where one has two coflows at once, the policy is asked each time."""
    asked = []

    class Asked(WithoutTurns):
        def allocate(self, view):
            asked.append(len(view) > view.jobs)
            return self._policy.allocate(view)

    stages = [netsim.Stage("a", [(0, 1, 2.0)]), netsim.Stage("b", [(1, 0, 1.0)])]
    jobs = [netsim.JobSpec(99, hosts=[0, 1], stages=stages, iterations=5), *lines(6, 3)]
    result = netsim.simulate(netsim.big_switch(8, 1.0), jobs, allocator=Asked(policy))
    assert any(asked)
    assert len(asked) < result.run["decisions"]


@pytest.mark.parametrize(("by", "rest"), [("size", "greedy"), ("average", "most")])
def test_unknown_turns(by, rest):
    with pytest.raises(AllocationError, match="choose from: average"):
        Turns(by, rest)


def test_turns_that_are_not_what_was_decided():
    """The shortest first is not the one with the fewest completed coflows first."""

    class Wrong(netsim.Allocator):
        wakes_on = Event.COFLOW

        def allocate(self, view):
            return netsim.Allocation(shares=view.greedy(np.argsort(view.gamma)),
                                     turns=Turns("completed", "greedy"))

    with pytest.raises(AllocationError, match="by its turns it would get"):
        netsim.simulate(netsim.big_switch(8, 1.0), lines(5), allocator=Wrong())


def test_turns_go_with_shares():
    with pytest.raises(AllocationError, match="shares only"):
        netsim.Allocation(rates=[1.0], turns=Turns("attained", "greedy"))
