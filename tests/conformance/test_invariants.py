"""What holds in every run: on random workloads and networks, under every kind of allocator.

Decisions fall at exact instants or on a grid; links degrade, fail and are repaired.
"""

import hashlib

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim.jobs.patterns import make_pattern
from netsim.testing import networks, workloads
from tests.examples import examples
from tests.pairs import in_turn

HOSTS = 4
NETWORKS = networks(min_hosts=HOSTS, max_hosts=HOSTS)
INTERVALS = st.sampled_from([0.0, 0.1, 0.3, 2.0])
PROPORTIONAL = [
    *({"name": "parrot", "work_conservation": work}
      for work in ("none", "uniform", "backfill", "per_flow")),
    *({"name": name, "work_conservation": work} for name in ("aalo-lbsf", "lccf", "srpt")
      for work in ("none", "greedy", "shared_uniform", "capped")),
]
ALLOCATORS = [*PROPORTIONAL, {"name": "maxmin"}, {"name": "maxmin", "decisions": "coflow"}]
FEW = [{"name": "parrot"}, {"name": "parrot", "work_conservation": "per_flow"},
       {"name": "aalo-lbsf"}, {"name": "lccf", "work_conservation": "none"}, {"name": "srpt"},
       {"name": "maxmin"}, {"name": "maxmin", "decisions": "coflow"}]
COFLOW_POLICIES = [
    *({"name": name} for name in (
        "aalo", "coflow-fair", "edf", "equal-split", "fifo", "lcf", "maxmin", "ncf", "scf", "sebf",
        "sincronia", "srtf", "varys-deadline", "coflowsim-dark", "coflowsim-sebf")),
    {"name": "sebf", "work_conservation": "greedy"}, {"name": "fifo", "decisions": "coflow"},
    {"name": "aalo", "weights": "strict"}, {"name": "aalo", "observe": "coflow"},
    {"name": "sincronia", "reorder": "arrival"}, {"name": "maxmin", "weights": "coflow"},
    *({"name": name, "work_conservation": "maxmin"} for name in ("aalo-lbsf", "lccf", "srpt")),
    {"name": "ring-contention"}, {"name": "ring-contention", "count": "running"},
    {"name": "ring-contention", "degradation": "power"}, {"name": "adadual"},
]
#: Of four hosts, with one path from host to host: the tests tell which links a flow takes.
TOPOLOGIES = [
    netsim.leaf_spine(2, 2, 2, 2.0, oversubscription=2, routing="shortest"),
    netsim.leaf_spine(4, 1, 1, 2.0, routing="shortest", name="loops", loopback_uses_ports=True),
    netsim.rail_pod(2, 2, 1, 1.0, intra=4.0, routing="shortest"),
    netsim.ring(HOSTS, 1.0, routing="shortest"),
    netsim.torus([2, 2], 1.0, routing="shortest"),
    netsim.edge_cloud(2, 2, 1.0, 0.25, cloud_hosts=0, routing="shortest"),
]
EVERYTHING = ("jobs", "coflows", "flows", "links", "decisions")
#: Relative: a flow with less than that of its bytes left has ended.
DUST = 1e-9


def text(policy):
    return "-".join(policy.values())


@st.composite
def capacity_events(draw):
    """Up to two links that change, by 0 to 2 times their capacity, and are repaired later."""
    events = []
    for link in draw(st.lists(st.integers(0, 2 * HOSTS - 1), max_size=2, unique=True)):
        at = draw(st.integers(0, 8)) / 4
        factor = draw(st.sampled_from([0.0, 0.5, 2.0]))
        events += [(at, link, factor), (at + draw(st.integers(1, 8)) / 4, link, 1.0)]
    return events


def resolve(events, network):
    return [{"at": at, "link": link, "capacity": factor * network.capacity[link]}
            for at, link, factor in events]


def stages_of(workload):
    """Yield (job, iteration, stage) as the workload says, patterns with sizes of their own."""
    for job in workload:
        for iteration in range(job.iterations):
            stages = job.stages or make_pattern(job.pattern).stages(
                job.ranks, job.nbytes, np.random.default_rng(0))
            for stage in stages:
                yield job, iteration, stage


@pytest.mark.parametrize("policy", FEW, ids=text)
@settings(deadline=None, max_examples=examples(50), derandomize=True)
@given(NETWORKS, workloads(HOSTS), INTERVALS, capacity_events())
def test_every_run(policy, network, workload, interval, changes):
    events = resolve(changes, network)
    result = netsim.simulate(network, workload, allocator=policy, observe_interval=interval,
                             events=events, record=EVERYTHING)
    everything_is_delivered(result, network, workload)
    no_link_carries_more_than_it_can(result, network, events, interval)
    times_are_in_order(result)
    dependencies_come_first(result, workload)
    jobs = result.jobs
    assert (jobs["jct_s"] >= jobs["lower_bound_s"] * (1 - DUST) - 1e-12).all()


@pytest.mark.parametrize(("policy", "network"), in_turn(COFLOW_POLICIES, TOPOLOGIES),
                         ids=lambda each: text(each) if isinstance(each, dict) else each.name)
@settings(deadline=None, max_examples=examples(3), derandomize=True)
@given(workload=workloads(HOSTS), interval=INTERVALS)
def test_every_coflow_policy_on_every_topology(policy, network, workload, interval):
    result = netsim.simulate(network, workload, allocator=policy, observe_interval=interval,
                             record=EVERYTHING)
    everything_is_delivered(result, network, workload)
    no_link_carries_more_than_it_can(result, network, [], interval)
    times_are_in_order(result)
    dependencies_come_first(result, workload)
    jobs = result.jobs
    assert (jobs["jct_s"] >= jobs["lower_bound_s"] * (1 - DUST) - 1e-12).all()


def everything_is_delivered(result, network, workload):
    """Bytes offered are those of all flows that cross links, on each of the links they cross."""
    coflows, flows = result.coflows, result.flows
    assert result.jobs["finish_s"].notna().all()
    offered = [stage for _, _, stage in stages_of(workload) if stage.flows is not None]
    assert len(coflows) == len(offered)
    per_coflow = flows.groupby("coflow")["bytes"].sum().reindex(coflows["coflow"], fill_value=0.0)
    np.testing.assert_allclose(per_coflow, coflows["bytes"], rtol=1e-12)
    explicit = sum(nbytes for job, _, stage in stages_of(workload) if job.stages and stage.flows
                   for src, dst, nbytes in stage.flows if src != dst or network.loopback_uses_ports)
    drawn = {job.id for job in workload if not job.stages}
    np.testing.assert_allclose(coflows.loc[~coflows["job"].isin(drawn), "bytes"].sum(), explicit)

    expected = np.zeros(network.links)
    for flow in flows.itertuples():
        expected[network.route(flow.src, flow.dst)] += flow.bytes
    carried = result.links.groupby("link", observed=False)["bytes"].sum()
    assert list(carried.index) == list(network.link_names)
    np.testing.assert_allclose(carried, expected, rtol=DUST)
    np.testing.assert_allclose(result.jobs["bytes"].sum(), coflows["bytes"].sum(), rtol=1e-12)


def no_link_carries_more_than_it_can(result, network, events, interval):
    """No more than capacity x time between two events.

    But a flow may end that little early that ends with an observation (1e-6 of the interval)
    or as dust, and its last bytes count as carried.
    """
    links = result.links
    if links.empty:
        return
    at = np.array([0.0, *(event["at"] for event in events)])
    capacity = {name: [(0.0, network.capacity[link])] for link, name
                in enumerate(network.link_names)}
    for event in sorted(events, key=lambda event: event["at"]):
        capacity[network.link_names[event["link"]]].append((event["at"], event["capacity"]))
    largest = result.flows["bytes"].sum()
    for row in links.itertuples():
        # A capacity changes between the recorded intervals, never inside one.
        assert not np.any((row.start_s + 1e-12 < at) & (at < row.end_s - 1e-12))
        now = [value for since, value in capacity[row.link] if since <= row.start_s + 1e-12][-1]
        slack = DUST * largest + 2e-6 * interval * now
        assert row.bytes <= now * (row.end_s - row.start_s) * (1 + DUST) + slack, row


def times_are_in_order(result):
    coflows, flows = result.coflows, result.flows
    assert (coflows["valid_s"] <= coflows["start_s"]).all()
    assert (coflows["start_s"] <= coflows["finish_s"]).all()
    assert (flows["valid_s"] <= flows["finish_s"]).all()
    assert (result.jobs["arrival_s"] <= result.jobs["finish_s"]).all()
    last = coflows.groupby("job")["finish_s"].max()
    ends = result.jobs.set_index("job")["finish_s"]
    assert (ends[last.index] >= last).all()
    finish = coflows.set_index("coflow")["finish_s"]
    per_flow = flows.groupby("coflow")["finish_s"].max()
    # A coflow with finishes_before ends after its own flows.
    assert (per_flow <= finish[per_flow.index] + 1e-12).all()


def dependencies_come_first(result, workload):
    rows = {(row.job, row.iteration, row.stage): row for row in result.coflows.itertuples()}
    for job, iteration, stage in stages_of(workload):
        row = rows.get((job.id, iteration, stage.name))
        if row is None:
            continue
        assert row.valid_s >= job.arrival_s + stage.release_s * (iteration == 0)
        parents = [rows.get((job.id, iteration, name)) for name in stage.after]
        if not stage.after:
            parents = [other for (owner, before, _), other in rows.items()
                       if owner == job.id and before == iteration - 1]
        for parent in parents:
            if parent is not None:
                assert row.valid_s >= parent.finish_s + stage.compute_s - 1e-12
        for name in stage.finishes_before:
            held_by = rows.get((job.id, iteration, name))
            assert held_by is None or row.finish_s >= held_by.finish_s


def test_a_held_coflow_finishes_with_its_holder_on_the_grid():
    """Alone a ends at 2.4, and b, which it holds, at 2.3; both are noticed at 3: b ends at 2.4."""
    stages = [netsim.Stage("a", [(0, 1, 2.4)]),
              netsim.Stage("b", [(2, 3, 2.3)], finishes_before=["a"])]
    result = netsim.simulate(netsim.big_switch(4, 1.0), observe_interval=1, workload=(
        netsim.Workload([netsim.JobSpec(0, stages=stages, hosts=range(4))])))
    assert result.coflows["finish_s"].tolist() == pytest.approx([2.4, 2.4])


def test_a_flow_that_has_ended_keeps_its_end():
    """Rates, then a share, then rates: flow 0 ended at 1, whatever moves flow 1 until 4."""
    class Alternating(netsim.Allocator):
        def allocate(self, view):
            if 1 <= view.now < 2:
                return netsim.Allocation(shares=[1.0], revisit_at=2.0)
            return netsim.Allocation(view.maxmin())

    stages = [netsim.Stage("both", [(0, 1, 1.0), (2, 3, 4.0)])]
    result = netsim.simulate(netsim.big_switch(4, 1.0), allocator=Alternating, record=["flows"],
                             workload=netsim.Workload([netsim.JobSpec(0, stages=stages,
                                                                      hosts=range(4))]))
    assert result.flows["finish_s"].tolist() == [1, 4]


@pytest.mark.parametrize("policy", PROPORTIONAL, ids=text)
@settings(deadline=None, max_examples=examples(40), derandomize=True)
@given(NETWORKS, workloads(HOSTS, max_jobs=1, chains=True))
def test_a_job_alone_meets_its_lower_bound(policy, network, workload):
    """Alone it has share 1 throughout: each coflow takes its Gamma, and the sum is the bound."""
    jobs = netsim.simulate(network, workload, allocator=policy).jobs
    np.testing.assert_allclose(jobs["jct_s"], jobs["lower_bound_s"], rtol=1e-9)


@pytest.mark.parametrize("theta_max", [0.5, 0.9])
@pytest.mark.parametrize("work", ["none", "uniform", "backfill", "per_flow"])
@settings(deadline=None, max_examples=examples(40), derandomize=True)
@given(NETWORKS, workloads(HOSTS, chains=True))
def test_theorem_4(work, theta_max, network, workload):
    """Total JCT <= M/(1 - theta_max) * sum of (tau_m + sum of Gamma).

    Since the n-1 <= M-1 others share 1 - theta >= 1 - theta_max, and theta >= 1/n, each job
    has at least (1 - theta_max)/M of its LP rates at any time: what it sends takes at most
    M/(1 - theta_max) times as long as alone. This is the bound job by job, which implies the
    theorem's; waiting for computation only lowers it.
    """
    policy = {"name": "parrot", "work_conservation": work, "theta_max": theta_max}
    jobs = netsim.simulate(network, workload, allocator=policy).jobs
    factor = len(jobs) / (1 - theta_max)
    assert (jobs["jct_s"] <= factor * jobs["lower_bound_s"] * (1 + DUST)).all()
    total = factor * (jobs["arrival_s"] + jobs["lower_bound_s"]).sum()
    assert jobs["jct_s"].sum() <= total * (1 + DUST)


def digest(result):
    frames = [getattr(result, name) for name in EVERYTHING]
    sums = [pd.util.hash_pandas_object(frame).to_numpy().tobytes() for frame in frames]
    return hashlib.sha256(b"".join(sums)).hexdigest()


@pytest.mark.parametrize("policy", FEW, ids=text)
@settings(deadline=None, max_examples=examples(10), derandomize=True)
@given(NETWORKS, workloads(HOSTS), INTERVALS, capacity_events(), st.integers(0, 3))
def test_the_same_run_twice_is_the_same_bytes(policy, network, workload, interval, changes, seed):
    first, second = (
        digest(netsim.simulate(network, workload, allocator=policy, observe_interval=interval,
                               events=resolve(changes, network), seed=seed, record=EVERYTHING))
        for _ in range(2))
    assert first == second


def test_the_digest_can_tell_runs_apart():
    """Another seed places the job elsewhere."""
    jobs = netsim.Workload([netsim.JobSpec(0, pattern="all-to-all", ranks=2, nbytes=1e6)])
    net = netsim.big_switch(16, "8Mbps")
    assert len({digest(netsim.simulate(net, jobs, seed=seed, record=EVERYTHING))
                for seed in range(4)}) > 1


@pytest.mark.parametrize("policy", ALLOCATORS, ids=text)
@settings(deadline=None, max_examples=examples(15), derandomize=True)
@given(NETWORKS, workloads(HOSTS))
def test_recording_changes_nothing(policy, network, workload):
    """The fabric moves the same bytes whether someone looks or not."""
    plain = netsim.simulate(network, workload, allocator=policy)
    watched = netsim.simulate(network, workload, allocator=policy, record=EVERYTHING)
    pd.testing.assert_frame_equal(plain.jobs, watched.jobs, check_exact=True)
    pd.testing.assert_frame_equal(plain.coflows, watched.coflows, check_exact=True)
    assert plain.run["decisions"] == watched.run["decisions"]
