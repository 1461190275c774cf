"""The whole simulator against a slow, obviously right one, on random chains of coflows.

Policies are written here again, from the paper's text and on the blocks of the twins.
"""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_series_equal

import netsim
from netsim.jobs.plan import ecmp_key
from netsim.testing import networks, workloads
from tests.examples import examples
from tests.fabric.test_blocks_in_order import line_of_hosts
from tests.pairs import in_turn
from tests.twins import kernels as reference
from tests.twins.fabric import ChainJob, finish_times

HOSTS = 4

#: Where flows cross one to three links, and no two ways lead from host to host.
LINE = line_of_hosts([500_000.0, 250_000.0, 750_000.0])


def parrot(work, theta_max=0.9):
    """Algorithm 1: theta for the least bytes per completed coflow, the rest shared."""
    def decide(active, problem):
        count = len(active)
        attained = [job.sent for job in active]
        average = [sent / job.completed if job.completed else math.inf
                   for sent, job in zip(attained, active, strict=True)]
        order = sorted(range(count), key=lambda c: (average[c], attained[c], c))
        theta = 1.0
        if count > 1:
            theta = min(theta_max, (1 / count) ** (1 / (math.log(sum(attained) + 1) + 1)))
        shares = np.array([theta if c == order[0] else (1 - theta) / (count - 1)
                           for c in range(count)])
        if work == "per_flow":
            return reference.stretch_flows(problem, reference.lp_rates(problem, shares))
        factor = reference.common_factor(problem, shares, np.zeros(count))
        if work in ("uniform", "backfill") and factor < math.inf:
            shares *= factor
        if work == "backfill":
            shares = reference.greedy(problem, order, np.ones(count), shares)
        return reference.lp_rates(problem, shares)
    return decide


def first(work, key):
    """The job of least `key` that can move at its LP rates; the others by work conservation."""
    def decide(active, problem):
        count = len(active)
        order = sorted(range(count), key=lambda c: (key(active[c]), c))
        moves = [c for c in order if reference.gamma(problem)[c] < math.inf]
        one = np.array([float(c in moves[:1]) for c in range(count)])
        if work == "none":
            shares = one
        elif work == "shared_uniform":
            factor = reference.common_factor(problem, 1 - one, one) if count > 1 else 0.0
            shares = one + (1 - one) * min(factor, 1.0)
        else:
            cap = 1 / max(count - 1, 1) if work == "capped" else 1.0
            shares = reference.greedy(problem, order, np.where(one > 0, 1.0, cap), 0 * one)
        return reference.lp_rates(problem, shares)
    return decide


def fair(_, problem):
    return reference.maxmin(problem, np.ones(len(problem.remaining)))


def chains(workload, network):
    """The jobs of a workload as the twin takes them."""
    for job in workload:
        coflows, compute = [], []
        for stage in job.stages:
            # A job's own compute_s comes before each iteration's first coflow.
            compute.append(stage.compute_s + (0.0 if stage.after else job.compute_s))
            coflows.append([(network.route(src, dst), nbytes) for src, dst, nbytes in stage.flows])
        yield ChainJob(job.arrival_s, coflows * job.iterations, compute * job.iterations)


POLICIES = {
    **{f"parrot-{work}": ({"name": "parrot", "work_conservation": work}, parrot(work), False)
       for work in ("none", "uniform", "backfill", "per_flow")},
    "parrot-0.6": ({"name": "parrot", "theta_max": 0.6}, parrot("backfill", 0.6), False),
    **{f"aalo-{work}": ({"name": "aalo-lbsf", "work_conservation": work},
                        first(work, lambda job: job.sent), False)
       for work in ("none", "greedy", "shared_uniform", "capped")},
    **{f"lccf-{work}": ({"name": "lccf", "work_conservation": work},
                        first(work, lambda job: (job.completed, job.sent)), False)
       for work in ("none", "greedy", "shared_uniform", "capped")},
    "maxmin-coflow": ({"name": "maxmin", "decisions": "coflow"}, fair, False),
    "maxmin-flow": ({"name": "maxmin", "decisions": "flow"}, fair, True),
}


@pytest.mark.parametrize("name", POLICIES)
@settings(deadline=None, max_examples=examples(100), derandomize=True)
@given(networks(min_hosts=HOSTS, max_hosts=HOSTS), workloads(HOSTS, chains=True),
       st.sampled_from([0.0, 0.1, 0.3, 2.0]))
def test_finish_times(name, network, workload, interval):
    allocator, policy, wakes_on_flows = POLICIES[name]
    found = netsim.simulate(network, workload, allocator=allocator, observe_interval=interval)
    expected = finish_times(list(chains(workload, network)), network.capacity, policy, interval,
                            wakes_on_flows)
    np.testing.assert_allclose(found.jobs["finish_s"], expected, rtol=1e-9, atol=1e-12)


class Asked(netsim.Allocator):
    """Weights of flows or coflows, shared again at coflow events: as rates, or by the fabric."""

    wakes_on = netsim.Event.COFLOW

    def __init__(self, split, by_rates):
        self.split, self.by_rates = split, by_rates

    def allocate(self, view):
        weights = 1.0 + np.asarray(view.job) % 3
        each = weights[view.coflow]
        if self.by_rates:
            return netsim.Allocation(view.maxmin(
                each / np.bincount(view.coflow)[view.coflow] if self.split else each))
        return netsim.Allocation(decisions="coflow", **(
            {"coflow_weights": weights} if self.split else {"weights": each}))


@pytest.mark.parametrize("split", [False, True])
@settings(deadline=None, max_examples=examples(50), derandomize=True)
@given(networks(min_hosts=HOSTS, max_hosts=HOSTS), workloads(HOSTS, chains=True),
       st.sampled_from([0.0, 0.3]))
def test_weights_at_coflow_events(split, network, workload, interval):
    one, other = (netsim.simulate(network, workload, allocator=Asked(split, by_rates),
                                  observe_interval=interval) for by_rates in (False, True))
    np.testing.assert_allclose(one.jobs["finish_s"], other.jobs["finish_s"], rtol=1e-9, atol=1e-12)
    assert one.summary()["decisions"] == other.summary()["decisions"]


@st.composite
def changes(draw, network):
    """Up to four links degrade or fail for a while, as events and as the twin takes them."""
    found = []
    for link in draw(st.lists(st.integers(0, network.links - 1), max_size=4, unique=True)):
        at = draw(st.integers(0, 12)) / 4
        factor = draw(st.sampled_from([0.0, 0.0, 0.25, 0.5, 2.0]))
        found += [(at, link, factor * network.capacity[link]),
                  (at + draw(st.integers(1, 12)) / 4, link, network.capacity[link])]
    return sorted(found)


@pytest.mark.parametrize("name", POLICIES)
@settings(deadline=None, max_examples=examples(30), derandomize=True)
@given(data=st.data(), workload=workloads(HOSTS, chains=True),
       network=st.one_of(networks(min_hosts=HOSTS, max_hosts=HOSTS), st.just(LINE)),
       interval=st.sampled_from([0.0, 0.1, 0.3, 2.0]))
def test_capacities_that_change(name, data, network, workload, interval):
    """What is too fast for a link slows down at once; the policy hears of it when it observes."""
    allocator, policy, wakes_on_flows = POLICIES[name]
    ahead = data.draw(changes(network))
    events = [{"at": at, "link": link, "capacity": capacity} for at, link, capacity in ahead]
    found = netsim.simulate(network, workload, allocator=allocator, observe_interval=interval,
                            events=events)
    expected = finish_times(
        list(chains(workload, network)), network.capacity, policy, interval, wakes_on_flows,
        changes=ahead, in_step=not name.startswith("maxmin") and not name.endswith("per_flow"))
    np.testing.assert_allclose(found.jobs["finish_s"], expected, rtol=1e-9, atol=1e-12)


def test_what_has_ended_unnoticed_slows_nobody_down():
    """Two coflows at 2 bytes/s each: one has ended at 1 s when 2 bytes/s are left at 2 s.

    That is enough for the other, whose 10 bytes end at 5 s, before anything is observed.
    """
    class Halves(netsim.Allocator):
        wakes_on = netsim.Event.COFLOW

        def allocate(self, view):
            return netsim.Allocation(shares=np.full(len(view), 1 / len(view)))

    jobs = [netsim.JobSpec(k, hosts=range(3), stages=[netsim.Stage("s", [(0, k + 1, nbytes)])])
            for k, nbytes in enumerate([2.0, 10.0])]
    found = netsim.simulate(netsim.big_switch(3, 4.0), jobs, allocator=Halves, observe_interval=10,
                            events=[{"at": 2, "link": "egress-0", "capacity": 2.0}])
    assert found.jobs["finish_s"].tolist() == [1.0, 5.0]


@pytest.mark.parametrize(("loaded", "ties"), in_turn([
    (netsim.big_switch(24, 1.0), 0.9), (netsim.big_switch(12, [k / 6 for k in range(1, 13)]), 0.5),
    (netsim.fat_tree(4, 1.0), 0.7), (netsim.ring(12, 1.0), 0.3)], [False, True]))
def test_few_flows_that_come_and_go(loaded, ties):
    """So few on each link that levels are repaired, not filled; with ties many are alike."""
    network, load = loaded
    rng = np.random.default_rng(1)
    count = 200
    at = np.cumsum(rng.exponential(2 / (load * network.hosts), count))
    size = rng.integers(1, 4, count) * 1.0
    if ties:
        at = np.ceil(at)
    else:
        size *= rng.uniform(0.5, 1.5, count)
    jobs, expected = [], []
    for k in range(count):
        src, dst = rng.choice(network.hosts, 2, replace=False)
        jobs.append(netsim.JobSpec(k, at[k], hosts=range(network.hosts), stages=[
            netsim.Stage("flow", [(src, dst, size[k])])]))
        _, path = network.routes(*np.array([[src], [dst], [ecmp_key(k, "flow")]]))
        expected.append(ChainJob(at[k], [[(path, size[k])]], [0.0]))
    found = netsim.simulate(network, jobs)
    assert found.run["decisions"] > 100
    np.testing.assert_allclose(
        found.jobs["finish_s"],
        finish_times(expected, network.capacity, fair, 0.0, True), rtol=1e-9)


class Rates(netsim.Allocator):
    """Says the max-min fair rates itself, at each event."""

    def allocate(self, view):
        return netsim.Allocation(rates=view.maxmin())


def groups_of_four_hosts():
    """Return the jobs of 400 groups of four hosts: 8 flows each, some on one link."""
    rng = np.random.default_rng(1)
    return [[netsim.JobSpec(2 * k + j, float(rng.uniform(0, 1)), iterations=2,
                            hosts=rng.permutation(4).tolist(), stages=[netsim.Stage("s", [
                                (i, int(rng.choice([1, 2, 3]) + i) % 4, rng.uniform(1.0, 2.0))
                                for i in range(4)])])
             for j in range(2)] for k in range(400)]


def all_at_once(groups):
    """Return the jobs of all groups, each on hosts of its own."""
    return [replace(job, hosts=[4 * k + host for host in job.hosts])
            for k, jobs in enumerate(groups) for job in jobs]


def ends_of(*results):
    """Return when each job ends, by its number."""
    return pd.concat([result.jobs for result in results]).set_index("job")["finish_s"].sort_index()


def test_flows_that_share_no_link_have_nothing_to_do_with_each_other():
    """Of 1,600 flows the ends are kept in a heap; of the 8 of a group alone each is looked at."""
    groups = groups_of_four_hosts()
    found = netsim.simulate(netsim.big_switch(1600, 1.0), all_at_once(groups))
    alone = [netsim.simulate(netsim.big_switch(4, 1.0), jobs) for jobs in groups]
    assert_series_equal(ends_of(found), ends_of(*alone), rtol=1e-12)


class RatesAtCoflows(Rates):
    """Likewise, at coflow events only."""

    wakes_on = netsim.Event.COFLOW


@pytest.mark.parametrize(("name", "policy"), [
    ("maxmin", Rates), ("maxmin:decisions=coflow", RatesAtCoflows)])
def test_a_heap_of_ends_is_what_a_policy_says_that_is_asked_at_each_event(name, policy):
    """Also when a link fails, is slow and comes back while 1,200 flows are active."""
    jobs = all_at_once(groups_of_four_hosts()[:300])
    events = [{"at": "1.5s", "link": "egress-0", "kind": "fail"},
              {"at": "2.5s", "link": "egress-0", "capacity": 0.5},
              {"at": "4s", "link": "egress-0", "kind": "repair"}]
    found, expected = (netsim.simulate(netsim.big_switch(1200, 1.0), jobs, allocator=allocator,
                                       events=events) for allocator in (name, policy))
    assert_series_equal(ends_of(found), ends_of(expected), rtol=1e-9)


def test_ends_that_come_back_to_the_same_instant_do_not_fill_the_heap():
    """1,100 flows whose end moves from E to an earlier instant and back to E, bit for bit.

    Each time an entry is added to the heap, and the one of E counts again. All sizes are powers of
    two times small numbers, so that there are no roundings.
    """
    groups, end, capacity = 1100, 2.0**20, 4.0
    jobs = []

    def add(at, flows):
        jobs.append(netsim.JobSpec(len(jobs), at, hosts=range(6 * groups + 40),
                                   stages=[netsim.Stage("s", flows)]))

    def add_beside(at, nbytes, apart, times=1):
        add(at, [(g, apart * groups + g, nbytes) for _ in range(times) for g in range(groups)])

    add(0.0, [(g, groups + g, end * capacity / 2) for g in range(groups)])
    at = end / 4
    add_beside(0.0, capacity / 2 * at, 2)
    pace = []
    for k in range(12):
        left = end - at
        alone = left / 16
        add_beside(at + alone, capacity / 2 * alone, 3, 3)  # at a quarter for twice as long
        then = end - left / 4
        pace.append(end - left / 2 - left / 128)
        if k == 5:
            add(end - left * 3 / 8, [(4 * groups + g, 5 * groups + g, left / 64)
                                     for g in range(groups)])
        add_beside(at + 3 * alone, capacity / 2 * (then - at - 3 * alone), 2)
        at = then
    add(0.0, [(6 * groups + i, 6 * groups + 20 + i, capacity * x) for i, x in enumerate(pace)])
    network = netsim.big_switch(12_000, capacity)
    found, expected = (netsim.simulate(network, jobs, allocator=allocator)
                       for allocator in ("maxmin", Rates))
    assert_series_equal(ends_of(found), ends_of(expected), rtol=1e-12)
