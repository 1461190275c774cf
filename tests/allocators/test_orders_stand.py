"""What a policy has said of order stands while only capacities change; equal keys are ties."""

import numpy as np
import pytest

import netsim
from netsim.allocators import make_allocator
from tests.conformance.test_allocators import ALLOCATORS, text
from tests.pairs import few, in_turn

JobSpec, Stage = netsim.JobSpec, netsim.Stage

#: Those that redistribute what flows that have ended leave idle, when a capacity changes; and one
#: whose guarantees depend on the time left.
IDLE = {"varys-deadline"}


class InPython(netsim.Allocator):
    """A policy without its compiled rule."""

    def __init__(self, policy):
        self._policy = make_allocator(policy)
        self.information, self.wakes_on = self._policy.information, self._policy.wakes_on
        self.predictor = self._policy.predictor

    def allocate(self, view):
        return self._policy.allocate(view)


def finishes(network, jobs, allocator, events=(), **options):
    return netsim.simulate(network, jobs, allocator=allocator, events=events,
                           **options).jobs["finish_s"].to_numpy()


def drawn(flows, seed=2):
    """Jobs on four of six hosts whose coflows have up to so many flows."""
    rng = np.random.default_rng(seed)
    jobs = []
    for k in range(8):
        sent = [(*rng.choice(4, 2, replace=False), rng.uniform(1, 9))
                for _ in range(rng.integers(1, flows + 1))]
        jobs.append(JobSpec(k, rng.uniform(0, 9), iterations=int(rng.integers(1, 4)), stages=[
            Stage("a", sent, weight=0.05, deadline_s=rng.uniform(5, 60))], hosts=range(6)))
    return jobs


def ways(policy):
    """A policy as it is, and without its rule if it has one."""
    return (policy, InPython(policy)) if make_allocator(policy).compiled_rule else (policy,)


def named(policy):
    """Options that fit the sizes of these tests, and shares that always fit."""
    more = {"aalo": {"first_threshold": 2.0, "factor": 3.0}, "reserved": {"shares": "weight"}}
    return policy | more.get(policy["name"], {})


@pytest.mark.parametrize(("policy", "interval"), few(in_turn(ALLOCATORS, [0, 0.25]), 74),
                         ids=lambda each: text(each) if isinstance(each, dict) else str(each))
def test_links_that_nobody_uses(policy, interval):
    """They may change, fail and be repaired: no event for any policy, compiled or not."""
    network, jobs = netsim.big_switch(6, 1.0), drawn(5)
    events = [{"at": at + 0.013, "link": "egress-5", "capacity": capacity}
              for at, capacity in enumerate([0.5, 0.25, 0, 1, 2] * 4)]
    for each in ways(named(policy)):
        np.testing.assert_allclose(
            finishes(network, jobs, each, events, observe_interval=interval, until=60),
            finishes(network, jobs, each, observe_interval=interval, until=60), rtol=1e-9)


@pytest.mark.parametrize("policy", few([
    policy for policy in ALLOCATORS
    if policy["name"] not in IDLE and "coflow" not in policy.values()], 32), ids=text)
def test_a_small_change_changes_little(policy):
    """A link in use has a millionth less from some instants on: rates follow, no order does."""
    network, jobs = netsim.big_switch(6, 1.0), drawn(1)
    events = [{"at": at + 0.013, "link": f"ingress-{at % 4}", "capacity": 1 - 1e-6}
              for at in range(40)]
    for each in ways(named(policy)):
        np.testing.assert_allclose(finishes(network, jobs, each, events),
                                   finishes(network, jobs, each), rtol=1e-5)


TWO = [JobSpec(0, hosts=range(4), stages=[Stage("a", [(0, 1, 9e6)])]),
       JobSpec(1, arrival_s=1.0, hosts=range(4), stages=[Stage("a", [(2, 1, 6e6)])])]


@pytest.mark.parametrize("policy", [
    *(f"{name}:work_conservation={each}" for name in ("aalo-lbsf", "lccf")
      for each in ("greedy", "none", "capped", "shared_uniform", "maxmin"))])
def test_who_has_sent_least_when_a_link_slows_down(policy):
    """Both send to host 1 at 1 MB/s. Job 1, which has sent nothing, is first from 1 s on.

    At 4 s it has sent 3 MB, job 0 one, and the link slows to 0.5 MB/s: job 1 stays first and ends
    its other 3 MB at 10 s, job 0 its other 8 MB at 26 s.
    """
    events = [{"at": 4.0, "link": "ingress-1", "capacity": 5e5}]
    for each in ways(policy):
        np.testing.assert_allclose(finishes(netsim.big_switch(4, 1e6), TWO, each, events),
                                   [26, 10])


@pytest.mark.parametrize("work", ["none", "uniform", "backfill", "per_flow"])
def test_parrots_shares_when_a_link_slows_down(work):
    """Job 1 has the share theta = 0.9 from 1 s on, whatever job 0 has sent.

    Neither has completed a coflow, so job 1, which has sent less, is inferred. It sends 0.9 MB/s,
    job 0 0.1. At 4 s the link slows to 0.5 MB/s, and job 1 has 3.3 MB left, at 0.45 MB/s until
    34/3 s. Job 0 has then sent 1.3 MB and 11/30 MB; its other 22/3 MB take 44/3 s.
    """
    events = [{"at": 4.0, "link": "ingress-1", "capacity": 5e5}]
    policy = {"name": "parrot", "work_conservation": work, "theta_max": 0.9}
    for each in ways(policy):
        np.testing.assert_allclose(finishes(netsim.big_switch(4, 1e6), TWO, each, events),
                                   [26, 34 / 3], rtol=1e-9)


def test_aalo_moves_coflows_only_at_their_events():
    """Two of 9 and 6 MB to one host, strict queues from 6 MB on: job 0 is past it at 6 s.

    It is moved when a coflow becomes valid or completes, and none does before its end at 9 s,
    though links change, used or not. Job 1 ends its 6 MB at 15 s.
    """
    policy = {"name": "aalo", "observe": "coflow", "weights": "strict", "first_threshold": 6e6}
    for link in ("egress-3", "egress-2", "ingress-1"):
        events = [{"at": 7.0, "link": link, "capacity": 1.0001e6}]
        np.testing.assert_allclose(finishes(netsim.big_switch(4, 1e6), TWO, policy, events),
                                   [9, 15], rtol=1e-4)


def test_a_policy_of_ones_own_is_not_asked_for_another_order():
    """But it is for other rates or shares, and for anything once a link fails or is repaired."""
    asked = []

    class Own(netsim.Allocator):
        wakes_on = netsim.Event.COFLOW

        def __init__(self, form):
            self.form = form

        def allocate(self, view):
            asked.append(view.now)
            order = np.arange(len(view))
            return netsim.Allocation(**{
                "order": {"order": order}, "leftover": {"order": order, "leftover": "maxmin"},
                "weights": {"weights": np.ones(view.flows)},
                "shares": {"shares": view.greedy(order)}, "rates": {"rates": view.maxmin()},
            }[self.form])

    events = [{"at": at, "link": link, "capacity": capacity} for at, link, capacity in (
        (2, "ingress-1", 5e5), (3, "ingress-3", 5e5), (4, "ingress-1", 0), (5, "ingress-1", 1e6))]
    for form, again in (("order", []), ("leftover", []), ("weights", [2]), ("shares", [2]),
                        ("rates", [2])):
        asked.clear()
        finishes(netsim.big_switch(4, 1e6), TWO, Own(form), events, until=6)
        assert asked == [0, 1, *again, 4, 5], form


@pytest.mark.parametrize("leftover", ["none", "maxmin"])
def test_a_rule_that_reads_the_clock(leftover):
    """Until 3 s job 0 is first, later job 1, but nothing happens then that the rule is asked for.

    At 4 s job 0 has 5 MB left, and the link slows to 0.5 MB/s: until 14 s. Job 1 takes 12 s more.
    Had the rule been asked for a new order, job 1 would end first, at 16 s.
    """
    @netsim.compiled(leftover=leftover, notes={"at": float})
    def by_the_hour(coflows, jobs, now, order):
        order.note[0] = now
        for c in range(len(coflows)):
            order.key[c] = coflows[c].job if now < 3 else -coflows[c].job

    class Waits(netsim.Allocator):
        wakes_on = netsim.Event.COFLOW

        def allocate(self, view):
            return netsim.Allocation(order=view.job if view.now < 3 else np.arange(len(view))[::-1],
                                     leftover=leftover)

    events = [{"at": 4.0, "link": "ingress-1", "capacity": 5e5}]
    for policy in (by_the_hour(), InPython(by_the_hour()), Waits()):
        run = netsim.simulate(netsim.big_switch(4, 1e6), TWO, allocator=policy, events=events,
                              record=["decisions"])
        np.testing.assert_allclose(run.jobs["finish_s"], [14, 26])
        if not isinstance(policy, Waits):
            np.testing.assert_allclose(run.decisions["at"], [0, 1, 1, 14])


# --- ties ----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["fifo", "scf", "lcf", "lcf:key=remaining", "ncf", "sebf",
                                    "sebf:key=original", "sebf:decisions=coflow", "edf", "srtf",
                                    "sincronia"])
def test_ties_of_coflows_that_arrive_at_once(policy):
    """Equal coflows of 3 bytes of two jobs, valid at 0.1 + 0.2 s and 0.3 s, over 1 byte/s.

    That is one instant, so the job that arrived first is first, though its coflow is valid a
    rounding later: they end at 3.3 and 6.3 s.
    """
    jobs = [JobSpec(k, arrival_s=at, hosts=[0, 1], stages=[
        Stage("s", [(0, 1, 3.0)], compute_s=compute)])
        for k, (at, compute) in enumerate([(0.1, 0.2), (0.3, 0.0)])]
    for each in ways(policy):
        np.testing.assert_allclose(finishes(netsim.big_switch(2, 1.0), jobs, each), [3.3, 6.3])
