"""Service in order: the compiled run from flow end to flow end against one decision at each."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
import netsim.fabric.flow_table
from netsim.allocators import make_allocator
from netsim.errors import AllocationError, UnknownNameError
from netsim.fabric.allocation import PriorityService
from netsim.fabric.kernels import max_min_state
from netsim.testing import make_view, networks, workloads
from tests.examples import examples
from tests.pairs import exhaustive, in_turn
from tests.twins import kernels as reference

HOSTS = 4
SERVICES = [
    *({"name": "sebf", "work_conservation": work} for work in ("maxmin", "greedy", "none")),
    {"name": "fifo"}, {"name": "ncf", "key": "remaining"},
    *({"name": "aalo", "first_threshold": 2.0, "factor": 3.0, "weights": weights, "fifo": fifo}
      for weights in ("linear", "strict") for fifo in ("id", "entry")),
    {"name": "aalo", "first_threshold": 2.0, "factor": 3.0, "observe": 0.5},
    {"name": "sincronia"}, {"name": "srtf"},
    *({"name": name, "work_conservation": "maxmin"} for name in ("aalo-lbsf", "lccf", "srpt")),
]
TOPOLOGIES = [
    netsim.leaf_spine(2, 2, 2, 2.0, oversubscription=2),
    netsim.ring(HOSTS, 2.0),
]


class Stepwise(netsim.Allocator):
    """Asks another allocator, and puts its service into force by itself, flow end by flow end."""

    wakes_on = netsim.Event.ANY

    def __init__(self, options):
        self.inner = make_allocator(options)
        self.information = self.inner.information
        self.service = None

    def allocate(self, view):
        due = view.events & netsim.Event.COFLOW
        if self.service is None or due:
            allocation = self.inner.allocate(view)
            self.service, self.asks_at = allocation.service, allocation.revisit_at
            if self.service is None:  # an order, of which nothing is left to flows
                self.service = PriorityService(allocation.order, primary="madd")
        rates = view.serve(self.service)
        speed = np.bincount(view.coflow, rates, len(view))
        moving = (speed > 0) & np.isfinite(self.service.limit)
        crossing = (self.service.limit - view.sent)[moving] / speed[moving]
        at = view.now + crossing.min(initial=math.inf)
        if np.any((speed == 0) & (view.sent >= self.service.limit * (1 - 1e-9))):
            at = view.now  # a flow has ended just as its coflow reached the limit
        at = max(at, math.nextafter(view.now, math.inf))
        return netsim.Allocation(rates, revisit_at=min(self.asks_at, at))


def text(options):
    return "-".join(map(str, options.values()))


def agree(network, workload, options, interval=0.0):
    fast, slow = (netsim.simulate(network, workload, allocator=policy, observe_interval=interval,
                                  record=("coflows", "flows"))
                  for policy in (options, Stepwise(options)))
    for table, column in (("coflows", "finish_s"), ("coflows", "start_s"), ("flows", "finish_s")):
        np.testing.assert_allclose(getattr(fast, table)[column], getattr(slow, table)[column],
                                   rtol=1e-9, atol=1e-12)
    assert fast.run["decisions"] <= slow.run["decisions"]


@pytest.mark.parametrize("options", SERVICES, ids=text)
@settings(deadline=None, max_examples=examples(40), derandomize=True)
@given(networks(min_hosts=HOSTS, max_hosts=HOSTS), workloads(HOSTS, chains=True),
       st.sampled_from([0.0, 0.0, 0.3]))
def test_on_a_switch(options, network, workload, interval):
    agree(network, workload, options, interval)


@pytest.mark.parametrize(("options", "network"), in_turn(SERVICES, TOPOLOGIES),
                         ids=lambda each: text(each) if isinstance(each, dict) else each.name)
@settings(deadline=None, max_examples=examples(20), derandomize=True)
@given(workload=workloads(HOSTS, chains=True))
def test_on_links_that_are_shared(options, network, workload):
    agree(network, untied(workload), options)


def untied(workload):
    """Make the bytes of jobs unequal: of two that sent as much, roundings choose."""
    return netsim.Workload([replace(job, stages=[
        stage if stage.flows is None else replace(stage, flows=netsim.Flows(
            stage.flows.src, stage.flows.dst, stage.flows.nbytes * (1 + k / 997)))
        for stage in job.stages]) for k, job in enumerate(workload)])


@pytest.mark.parametrize("options", SERVICES, ids=text)
def test_with_many_flows(options):
    """Wide coflows of unequal flows, so that copies are thinned and greedy changes run far."""
    rng = np.random.default_rng(7)
    jobs = []
    for k in range(6):
        width = 60
        flows = netsim.Flows(rng.integers(0, 12, width), rng.integers(0, 12, width),
                             rng.integers(1, 40, width).astype(float))
        jobs.append(netsim.JobSpec(k, float(k), stages=[netsim.Stage("shuffle", flows)],
                                   hosts=range(12)))
    workload = netsim.Workload(jobs)
    for network in (netsim.big_switch(12, 1.0), netsim.big_switch(12, [1.0 + h % 3 for h in
                                                                      range(12)]),
                    netsim.leaf_spine(3, 2, 4, 1.0, oversubscription=2)):
        agree(network, workload, options)


@pytest.mark.parametrize(("options", "interval"), in_turn(SERVICES, [0.0, 0.3]),
                         ids=lambda each: text(each) if isinstance(each, dict) else str(each))
def test_with_many_coflows_that_wait(options, interval):
    """Narrow coflows, of which most stand still behind full links and are passed over."""
    rng = np.random.default_rng(3)
    jobs = []
    for k in range(60):
        width = 1 + k % 3
        src = rng.integers(0, 6, width)
        flows = netsim.Flows(src, (src + rng.integers(1, 6, width)) % 6,
                             rng.uniform(1, 9, width))
        jobs.append(netsim.JobSpec(k, float(k // 20), hosts=range(6),
                                   stages=[netsim.Stage("flows", flows)]))
    agree(netsim.big_switch(6, 2.0), netsim.Workload(jobs), options, interval)


@pytest.mark.parametrize("options", [{"name": "fifo"}, {"name": "sebf"}], ids=text)
def test_a_flow_at_madd_rates_alone_ends_after_another_of_its_run(options):
    """Both flows of job 1 enter host 4, so that they are one run; gamma is 1/0.25 = 4 s.

    By MADD they have 0.75/4 and 0.25 bytes/s. The rest of ingress 4, 0.5625, goes to the first,
    which ends at 0.75/0.75 = 1 s; the other has the slow port all along, and ends at 4 s. Job 0
    has enough flows, and goes on long enough, for neither end to be found otherwise.
    """
    network = netsim.big_switch(5, egress=[1.0, 1.0, 1.0, 0.25, 1.0], ingress=1.0)
    jobs = [netsim.JobSpec(k, hosts=range(5), stages=[netsim.Stage("flows", flows)])
            for k, flows in enumerate([[(0, 1, 16.0)] * 4, [(2, 4, 0.75), (3, 4, 1.0)]])]
    result = netsim.simulate(network, jobs, allocator=options, record=["flows"])
    np.testing.assert_allclose(result.flows["finish_s"], [64.0] * 4 + [1.0, 4.0], rtol=1e-9)


class Turned(netsim.Allocator):
    """Serves flow by flow, the coflows in turned order whenever an odd number of them is there."""

    wakes_on = netsim.Event.COFLOW

    def allocate(self, view):
        order = np.arange(len(view))
        return netsim.Allocation(service=PriorityService(order[::-1] if len(view) % 2 else order,
                                                         backfill="greedy"))


def test_with_an_order_that_turns_round():
    """What is kept of the last order holds no more."""
    rng = np.random.default_rng(8)
    jobs = [netsim.JobSpec(k, float(k), hosts=range(12), stages=[netsim.Stage("s", netsim.Flows(
        rng.integers(0, 12, 40), rng.integers(0, 12, 40), rng.uniform(1, 40, 40)))])
        for k in range(7)]
    agree(netsim.big_switch(12, 1.0), netsim.Workload(jobs), Turned())


class Regrouped(netsim.Allocator):
    """Serves from one to three queues, another number whenever a coflow comes or completes."""

    wakes_on = netsim.Event.COFLOW

    def allocate(self, view):
        queues = 1 + len(view) % 3
        queue = np.arange(len(view)) % queues
        return netsim.Allocation(service=PriorityService(
            np.argsort(queue, kind="stable"), primary="queues", backfill="maxmin", queue=queue,
            queue_shares=np.full(queues, 1 / queues)))


def test_with_a_number_of_queues_that_changes():
    """The engine of the decision before has the shares of other queues."""
    rng = np.random.default_rng(9)
    jobs = [netsim.JobSpec(k, 0.5 * k, hosts=range(12), stages=[netsim.Stage("s", netsim.Flows(
        rng.integers(0, 12, 40), rng.integers(0, 12, 40), rng.uniform(1, 40, 40)))])
        for k in range(7)]
    agree(netsim.big_switch(12, 1.0), netsim.Workload(jobs), Regrouped())


@pytest.mark.parametrize("options", [SERVICES[0], {"name": "fifo"}, SERVICES[5], SERVICES[7]],
                         ids=text)
@pytest.mark.parametrize("hosts", [20, 120], ids=["close", "far-apart"])
def test_long_between_coflow_events(options, hosts):
    """Many flows end before the first coflow does, more than a kernel remembers instants."""
    rng = np.random.default_rng(11)
    jobs = []
    for k in range(3):
        flows = netsim.Flows(rng.integers(0, hosts, 200), rng.integers(0, hosts, 200),
                             rng.uniform(1, 40, 200))
        jobs.append(netsim.JobSpec(k, stages=[netsim.Stage("shuffle", flows)],
                                   hosts=range(hosts)))
    agree(netsim.big_switch(hosts, 1.0), netsim.Workload(jobs), options)


def test_two_links_of_a_flow_change_one_before_it_and_one_behind_it():
    """Flows 0 and 5 end at 1 s. What flow 5 leaves of port 1 is nothing to flow 1, before it."""
    flows = [(1, 0, 1.0), (1, 1, 3.0), (1, 0, 2.0), (1, 0, 3.0), (0, 0, 4.0), (0, 1, 1.0)]
    job = netsim.JobSpec(0, hosts=[0, 1], stages=[netsim.Stage("one", flows)])
    network = netsim.big_switch(2, [1.0, 3.0], loopback_uses_ports=True)
    result = netsim.simulate(network, [job], allocator="sincronia", record=("flows",))
    assert result.flows["finish_s"].tolist() == pytest.approx([1, 4 / 3, 10 / 3, 19 / 3, 10, 1])


def test_two_flows_go_ahead_of_a_third_at_once():
    """At 1 s flows 1 and 3 have 2 bytes left, as flow 5 has: by list position both precede it."""
    flows = [(3, 4, 1.0), (4, 1, 3.0), (1, 3, 1.0), (4, 4, 3.0), (4, 3, 1.0), (4, 3, 2.0),
             (4, 3, 4.0), (3, 5, 3.0), (2, 3, 2.0)]
    job = netsim.JobSpec(0, hosts=range(6), stages=[netsim.Stage("one", flows)])
    network = netsim.big_switch(6, [1.0, 1.0, 1.0, 2.0, 3.0, 1.0], loopback_uses_ports=True)
    result = netsim.simulate(network, [job], allocator="srtf", record=("flows",))
    assert result.flows["finish_s"].tolist() == pytest.approx([0.5, 3, 1, 2, 1, 3.5, 5.5, 3.5, 3])


@pytest.mark.parametrize("options", [{"name": "sincronia"}, {"name": "srtf"}], ids=text)
@settings(deadline=None, max_examples=examples(150), derandomize=True)
@given(seed=st.integers(0, 10**6), network=st.sampled_from([
    netsim.big_switch(HOSTS, [1.0, 3.0, 1.0, 2.0], loopback_uses_ports=True),
    netsim.leaf_spine(2, 2, 2, 2.0, oversubscription=2, loopback_uses_ports=True)]))
def test_flow_by_flow_in_one_coflow(options, seed, network):
    """Up to 20 flows of few sizes, many of which end together: changes meet on many links."""
    rng = np.random.default_rng(seed)
    width = rng.integers(3, 20)
    flows = netsim.Flows(rng.integers(0, HOSTS, width), rng.integers(0, HOSTS, width),
                         rng.integers(1, 5, width).astype(float))
    job = netsim.JobSpec(0, hosts=range(HOSTS), stages=[netsim.Stage("one", flows)])
    agree(network, netsim.Workload([job]), options)


def weights_of(view):
    """Weights from 1 to 1e6, or all 1, that stay with a flow."""
    return 10.0 ** ((3 * view.src + view.dst) % 7)


def plain(view):
    """Return a weight of 1 for each flow."""
    return np.ones(view.flows)


class Plain(netsim.Allocator):
    """Max-min fairness by weight, decided anew at each flow's end in plain Python."""

    def __init__(self, weights):
        self.weights = weights

    def allocate(self, view):
        problem = reference.Problem(view.flow_remaining, view.coflow, *view.paths, view.capacity)
        return netsim.Allocation(reference.maxmin(problem, self.weights(view)))


class Shared(Plain):
    wakes_on = netsim.Event.COFLOW

    def allocate(self, view):
        if self.weights in OF_COFLOWS:
            return netsim.Allocation(coflow_weights=OF_COFLOWS[self.weights](view))
        return netsim.Allocation(weights=self.weights(view))


def split(view):
    """Weights of coflows over the number of their unfinished flows."""
    return (OF_COFLOWS[split](view) / view.width)[view.coflow]


def uneven(view):
    """As `split`, with weights of which sums are rounded, up to 20,000 times another."""
    return (OF_COFLOWS[uneven](view) / view.width)[view.coflow]


OF_COFLOWS = {split: lambda view: 1.0 + view.id % 3, uneven: lambda view: 7.3 ** (view.id % 6) / 3}


def agrees_with_plain(network, jobs, weights):
    """Check that coflows begin and end as plain Python says."""
    fast, slow = (netsim.simulate(network, jobs, allocator=policy(weights))
                  for policy in (Shared, Plain))
    for column in ("start_s", "finish_s"):
        np.testing.assert_allclose(fast.coflows[column], slow.coflows[column], rtol=1e-9)


@pytest.mark.parametrize(("network", "weights"), in_turn([
    netsim.big_switch(12, [1.0 + h % 3 for h in range(12)]), netsim.fat_tree(4, 1.0),
    netsim.leaf_spine(3, 2, 4, 1.0, oversubscription=3), netsim.ring(12, 1.0),
    netsim.big_switch(12, 1.0, loopback_uses_ports=True),
], [weights_of, plain, split, uneven], rounds=2),
    ids=lambda each: getattr(each, "name", None) or each.__name__)
@settings(deadline=None, max_examples=examples(12), derandomize=True)
@given(seed=st.integers(0, 10**6), crowd=st.sampled_from([1, 3, 30]))
def test_sharing_is_what_the_reference_gives(network, weights, seed, crowd):
    """Flows join and leave a sharing that goes from end to end, against plain Python.

    Sizes are whole numbers every other time, so that many end together.
    """
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(crowd, 60 // crowd))
    jobs = []
    for k, arrival in enumerate(arrivals):
        sizes = rng.uniform(1, 9, crowd)
        flows = netsim.Flows(rng.integers(0, 12, crowd), rng.integers(0, 12, crowd),
                             np.round(sizes) if seed % 2 else sizes)
        jobs.append(netsim.JobSpec(k, float(arrival), hosts=range(12),
                                   stages=[netsim.Stage("s", flows)]))
    agrees_with_plain(network, jobs, weights)


@pytest.mark.parametrize("hosts", [3, 12])
def test_heavy_coflows_leave_no_traces_of_their_weights(hosts):
    """Six coflows of 60 flows, of weights up to 20,000 times another, many on each path.

    The heavy ones are short. After them, sums of weights on links are those of light ones.
    """
    rng = np.random.default_rng(hosts)
    jobs = []
    for k in range(6):
        flows = netsim.Flows(rng.integers(0, hosts, 60), rng.integers(0, hosts, 60),
                             rng.uniform(1, 9, 60) / (1 + k))
        jobs.append(netsim.JobSpec(k, k / 8, hosts=range(hosts),
                                   stages=[netsim.Stage("s", flows)]))
    agrees_with_plain(netsim.big_switch(hosts, 1.0), jobs, uneven)


def test_an_order_of_links_that_turns_round():
    """Of 64 hosts, the first send and get least, until 2,000 more flows make them the busiest."""
    hosts, rng = 64, np.random.default_rng(3)
    often = (1.0 + np.arange(hosts)) / np.arange(1, hosts + 1).sum()
    jobs = []
    for k, parts in enumerate((often, often[::-1])):
        ends = rng.choice(hosts, (2, 1000 + 1000 * k), p=parts)
        flows = netsim.Flows(*ends, rng.uniform(50, 90, ends.shape[1]))
        jobs.append(netsim.JobSpec(k, float(k), hosts=range(hosts),
                                   stages=[netsim.Stage("s", flows)]))
    left = []
    for policy in (Shared, Plain):
        sim = netsim.Simulation(netsim.big_switch(hosts, 1.0), jobs,
                                allocator=policy(lambda view: np.ones(view.flows)))
        sim.run(until=3.0)
        left.append(sim.view().flow_remaining)
    assert len(left[0]) > 2900
    np.testing.assert_allclose(*left, rtol=1e-12)


def test_a_link_that_was_not_full_becomes_so():
    """Ports carry 8 bytes/s. Host 0 sends to 1, as do seven others, and to 2, as does host 3.

    At first the flow to 1 has 1 of 8 bytes/s, and that to 2 has 4. When those of the others have
    sent their byte, at 1 s, all of port 1 is left to the first, but host 0 has only 4 besides. Of
    5 bytes, 4 are left then, and sent at 2 s.
    """
    flows = [(0, 1, 5.0), (0, 2, 100.0), (3, 2, 100.0), *((k, 1, 1.0) for k in range(3, 10))]
    job = netsim.JobSpec(0, hosts=range(10), stages=[netsim.Stage("one", flows)])
    result = netsim.simulate(netsim.big_switch(10, 8.0), [job], allocator="maxmin",
                             record=("flows",))
    assert result.flows["finish_s"].tolist()[:1] == pytest.approx([2.0])


@pytest.mark.parametrize(("network", "first", "repaired"), [
    pytest.param(netsim.big_switch(12, [1.0 + h % 7 / 8 for h in range(12)]), 500, False,
                 marks=exhaustive),
    (netsim.big_switch(40, [1.0 + h % 7 / 8 for h in range(40)]), 120, True),
    (netsim.big_switch(600, 1.0), 120, True), (netsim.fat_tree(6, 1.0), 120, True)],
    ids=["12-hosts", "40-hosts", "600-hosts", "fat-tree"])
def test_links_are_filled_in_the_last_order_or_levels_repaired(network, first, repaired,
                                                               monkeypatch):
    """Many flows come at once and 60 more one by one; plain Python decides anew at each end.

    With few flows per link in use, levels are repaired once all of the first flows have come. A
    fill keeps the order in which links became full, from which the next one starts; a repair keeps
    none.
    """
    rng = np.random.default_rng(8)
    hosts = min(network.hosts, 40)
    made = []
    monkeypatch.setattr(netsim.fabric.flow_table, "new_state",
                        lambda *given: made.append(max_min_state.new_state(*given)) or made[-1])

    def flows(count):
        return netsim.Flows(rng.integers(0, hosts, count), rng.integers(0, hosts, count),
                            rng.uniform(1, 9, count))

    jobs = [netsim.JobSpec(k, k / 4, hosts=range(hosts),
                           stages=[netsim.Stage("s", flows(1 if k else first))]) for k in range(61)]
    sim = netsim.Simulation(network, jobs, allocator="maxmin")
    for until in np.arange(0.6, 15):
        sim.run(until=until)
        engine = made[-1]
        assert (engine.state["frozen"][0] == 0) == repaired
        assert engine.state["used"][0] == np.sum(engine.links["stop"] > engine.links["first"])
    assert len(made) == 1
    fast = sim.run().result()
    slow = netsim.simulate(network, jobs, allocator=Plain(lambda view: np.ones(view.flows)))
    np.testing.assert_allclose(fast.coflows["finish_s"], slow.coflows["finish_s"], rtol=1e-9)


def many_at_once():
    """2,400 flows at once and 130 more later, no two of a coflow on the same path of two links.

    So many classes are followed in epochs.
    """
    network = netsim.big_switch(64, [1.0 + h % 7 / 8 for h in range(64)])
    rng = np.random.default_rng(9)
    jobs = []
    for k, (count, arrival) in enumerate([(1500, 0.0), (900, 0.0), (100, 20.0), (30, 40.0)]):
        pairs = rng.choice(network.hosts * (network.hosts - 1), count, replace=False)
        src, dst = pairs // (network.hosts - 1), pairs % (network.hosts - 1)
        flows = netsim.Flows(src, dst + (dst >= src), rng.uniform(0.1, 3, count))
        jobs.append(netsim.JobSpec(k, arrival, hosts=range(network.hosts),
                                   stages=[netsim.Stage("s", flows, weight=1.0 + k % 3)]))
    return network, jobs


@pytest.mark.parametrize("allocator", ["maxmin", "maxmin:weights=coflow", "coflow-fair"])
def test_what_is_far_from_its_end_is_caught_up_with(allocator, monkeypatch):
    """In an epoch, flows far from their ends are passed over, and what they sent is summed up.

    That changes when flows end by roundings only, some 1e-14 of it: a run in which all flows are
    followed all the time says the same. Whether links are recorded changes nothing at all.
    """
    network, jobs = many_at_once()
    made = []
    monkeypatch.setattr(netsim.fabric.flow_table, "new_state",
                        lambda *given: made.append(max_min_state.new_state(*given)) or made[-1])

    def ends(record):
        found = netsim.simulate(network, jobs, allocator=allocator, record=record).flows
        return found.sort_values(["coflow", "flow"])["finish_s"].to_numpy()

    found = ends(["flows"])
    assert any(engine.past.any() for engine in made)  # levels, step by step: there were epochs
    assert np.array_equal(ends(["flows", "links"]), found)
    made.clear()
    monkeypatch.setattr(max_min_state, "MANY", 1 << 60)
    followed = ends(["flows"])
    assert made
    assert not any(engine.past.size for engine in made)
    np.testing.assert_allclose(found, followed, rtol=1e-12)


def test_weights_may_change_at_any_decision():
    """Two flows on a link of 1 byte/s, by weights 1:1 until the policy asks for 3:1 at 2 s.

    1 byte each by 2 s. Then the first has 3 of 4 bytes left at 3/4 byte/s and ends at 6 s; the
    second has 2 of its 4 left by then, alone, and ends at 8 s.
    """
    class Changing(netsim.Allocator):
        wakes_on = netsim.Event.COFLOW

        def allocate(self, view):
            heavy, again = (3.0, np.inf) if view.now >= 2 else (1.0, 2.0)
            return netsim.Allocation(weights=np.where(view.job[view.coflow] == 0, heavy, 1.0),
                                     revisit_at=again)

    jobs = [netsim.JobSpec(k, hosts=range(2), stages=[netsim.Stage("s", [(0, 1, 4.0)])])
            for k in range(2)]
    result = netsim.simulate(netsim.big_switch(2, 1.0), jobs, allocator=Changing)
    assert result.jobs["finish_s"].tolist() == pytest.approx([6.0, 8.0])


def test_the_links_carry_what_the_flows_sent():
    rng = np.random.default_rng(3)
    flows = netsim.Flows(rng.integers(0, 5, 40), rng.integers(0, 5, 40), rng.uniform(1, 9, 40))
    job = netsim.JobSpec(0, stages=[netsim.Stage("shuffle", flows)], hosts=range(5))
    network = netsim.big_switch(5, 1.0, loopback_uses_ports=True)
    for options in SERVICES:
        result = netsim.simulate(network, [job], allocator=options, record=("links", "flows"))
        carried = result.links.groupby("link", observed=False)["bytes"].sum()
        sent = np.bincount(flows.src, flows.nbytes, 5)
        np.testing.assert_allclose([carried[f"egress-{h}"] for h in range(5)], sent, rtol=1e-9)
        assert (result.flows["finish_s"] <= result.jobs["finish_s"][0] + 1e-12).all()


class TestService:
    def test_limit_asks_again(self):
        """On a link of 1 byte/s each of two may send 2 of its 5 bytes: asked at 2 s, and 7 s."""
        asked = []

        class Limited(netsim.Allocator):
            wakes_on = netsim.Event.COFLOW
            information = "agnostic"

            def allocate(self, view):
                asked.append(view.now)
                limit = np.where(view.sent < 2, 2.0, np.inf)
                return netsim.Allocation(service=PriorityService(
                    np.arange(len(view)), backfill="maxmin", limit=limit))

        jobs = [netsim.JobSpec(k, hosts=[0, 1], stages=[netsim.Stage("s", [(0, 1, 5.0)])])
                for k in range(2)]
        result = netsim.simulate(netsim.big_switch(2, 1.0), jobs, allocator=Limited)
        assert asked == pytest.approx([0.0, 2.0, 5.0, 7.0])
        assert result.jobs["finish_s"].tolist() == pytest.approx([5.0, 10.0])

    @pytest.mark.parametrize(("changes", "words"), [
        ({"order": [0, 0]}, "each coflow once"),
        ({"queue": [0, 1], "queue_shares": [0.5, 0.5]}, 'with primary="queues"'),
        ({"primary": "queues", "queue": [1, 0], "queue_shares": [0.5, 0.5]}, "queue by queue"),
        ({"primary": "queues", "queue": [0, 2], "queue_shares": [0.5, 0.5]}, "from 0 to 1"),
        ({"primary": "queues", "queue": [0, 1], "queue_shares": [0.8, 0.5]}, "add up to 1"),
        ({"primary": "queues", "queue": [0], "queue_shares": [0.5]}, "as many"),
        ({"limit": [1.0]}, "as many"),
        ({"by_size": True}, "by_size"),
    ])
    def test_refuses(self, changes, words):
        with pytest.raises(AllocationError, match=words):
            PriorityService(**{"order": [0, 1]} | changes)

    def test_refuses_unknown_names(self):
        with pytest.raises(UnknownNameError, match="madd"):
            PriorityService([0], primary="mad")

    def test_of_another_length_than_the_view(self):
        class Wrong(netsim.Allocator):
            def allocate(self, view):
                return netsim.Allocation(service=PriorityService([0, 1], backfill="maxmin"))

        job = netsim.JobSpec(0, hosts=[0, 1], stages=[netsim.Stage("s", [(0, 1, 5.0)])])
        with pytest.raises(AllocationError, match=r"service of shape \(2,\), not \(1,\)"):
            netsim.simulate(netsim.big_switch(2, 1.0), [job], allocator=Wrong)


def test_a_view_of_a_blind_policy_tells_no_sizes_by_a_service():
    view = make_view(netsim.big_switch(2, "1MB/s"), [[(0, 1, 3e6)]], information="agnostic")
    for service in (PriorityService([0], primary="madd"),
                    PriorityService([0], backfill="greedy", by_size=True)):
        with pytest.raises(AllocationError, match="needs flow sizes"):
            view.serve(service)


class WeighsOtherwise(netsim.Allocator):
    """Weighs coflows at first, and flows from the first end on."""

    def allocate(self, view):
        if view.now < 0.9:
            return netsim.Allocation(coflow_weights=np.ones(len(view)))
        return netsim.Allocation(weights=np.full(int(view.flows), 2.0))


def of_one_stage(job, flows, arrival_s=0.0):
    return netsim.JobSpec(job, arrival_s, hosts=range(64), stages=[netsim.Stage("s", flows)])


def test_weights_of_flows_after_those_of_coflows():
    """A coflow that loses a flow and its own weight at the same time has no weight to split.

    At 10 bytes/s per port, 0->1 and 1->0 are alone and end at 1 s. Up to there and after it, 4->3
    and 4->5 share port 4, 5 bytes/s each, so that 2->3 has the other 5 of port 3. 4->5 ends after
    40/5 = 8 s, and 2->3 and 4->3 go on to share port 3, until 80/5 = 16 s.
    """
    jobs = [of_one_stage(0, [(0, 1, 10.0), (2, 3, 80.0)]), of_one_stage(1, [(1, 0, 10.0)]),
            of_one_stage(2, [(4, 3, 80.0)]), of_one_stage(3, [(4, 5, 40.0)])]
    result = netsim.simulate(netsim.big_switch(64, 10.0), jobs, allocator=WeighsOtherwise())
    np.testing.assert_allclose(result.jobs["finish_s"], [16, 1, 16, 8], rtol=1e-12)


def test_weights_of_flows_after_those_of_coflows_on_longer_paths():
    """120 flows of 10 bytes from 20 hosts to 6, from 1 s on: 200 bytes for each of the 6.

    2->3 is alone, and ends after 8 s.
    """
    crowd = [(src, dst, 10.0) for src in range(20, 40) for dst in range(40, 46)]
    jobs = [of_one_stage(0, [(0, 1, 10.0), (2, 3, 80.0)]), of_one_stage(1, [(1, 0, 10.0)]),
            of_one_stage(2, [(4, 5, 80.0)]), of_one_stage(3, crowd, 1.0)]
    result = netsim.simulate(netsim.leaf_spine(2, 32, 32, 10.0), jobs,
                             allocator=WeighsOtherwise())
    np.testing.assert_allclose(result.jobs["finish_s"], [8, 1, 8, 21], rtol=1e-12)
