"""Jobs whose stages follow each other are left to the fabric; nothing may come of it but speed."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim.jobs.plan import JobPlan
from tests.examples import examples
from tests.jobs.test_single import NETWORKS, POLICIES

HOSTS = 6
TURNS = ["parrot", "parrot:work_conservation=none", "parrot:work_conservation=uniform",
         "aalo-lbsf", "aalo-lbsf:work_conservation=capped", "lccf:work_conservation=none",
         "lccf:work_conservation=shared_uniform", "srpt"]


def draw(seed, count=6, ties=True):
    """Chains of one to three stages, times on a grid of 1/4 s, some listed backwards.

    Without ties, flows end at times of their own.
    """
    rng = np.random.default_rng(seed)
    return [netsim.JobSpec(k, rng.integers(0, 20) / 4, hosts=range(HOSTS),
                           stages=_stages(rng, ties), iterations=int(rng.integers(1, 5)),
                           compute_s=rng.integers(0, 3) / 4)
            for k in range(count)]


def _stages(rng, ties):
    stages = []
    for k in range(rng.integers(1, 4)):
        width = int(rng.integers(1, 4))
        src = rng.integers(0, HOSTS, width)
        flows = netsim.Flows(src, (src + rng.integers(1, HOSTS, width)) % HOSTS,
                             rng.integers(1, 5, width) + (0.0 if ties else rng.random(width)))
        stages.append(netsim.Stage(
            f"s{k}", flows, compute_s=rng.integers(0, 3) / 4, after=[f"s{k - 1}"] if k else [],
            release_s=0 if k else rng.integers(0, 3) / 4, weight=1.0 + rng.integers(0, 3),
            deadline_s=2.0 + rng.integers(0, 9)))
    return stages[::-1] if rng.integers(2) else stages


def with_process(job):
    """The same job, with a stage beside its first that sends nothing: it is no chain."""
    return replace(job, stages=[*job.stages, netsim.Stage("idle")])


def both(network, jobs, **options):
    for job in jobs:
        for each, chain in ((job, True), (with_process(job), False)):
            plan = JobPlan(each, network, range(HOSTS), 0, network.capacity)
            assert plan.graph(0).runs_without_process() == chain
    options = {"record": ("coflows", "flows")} | options
    return [netsim.simulate(network, each, **options)
            for each in (jobs, list(map(with_process, jobs)))]


def alike(fast, slow):
    """Compare the tables: stages by name, coflows by what they are of rather than by number."""
    assert fast.recorded == slow.recorded
    for name in fast.recorded:
        if name in ("jobs", "coflows", "flows"):
            one, two = (_plain(getattr(each, name), name, each) for each in (fast, slow))
            pd.testing.assert_frame_equal(one, two, rtol=1e-9, atol=1e-9)


def _plain(table, name, result):
    if name == "jobs":
        return table
    if name == "flows":
        table = table.merge(result.coflows[["coflow", "iteration", "stage"]], on="coflow")
    table = table.assign(stage=table["stage"].astype(str)).drop(columns="coflow")
    by = ["job", "iteration", "stage", *(["flow"] if name == "flows" else [])]
    return table.sort_values(by, ignore_index=True)


@pytest.mark.parametrize("policy", [*POLICIES, *TURNS[1:]])
@settings(deadline=None, max_examples=examples(8, fewest=3), derandomize=True)
@given(seed=st.integers(0, 10**6), network=st.sampled_from(NETWORKS),
       interval=st.sampled_from([0, 0.1]), watched=st.booleans())
def test_as_with_a_process(policy, seed, network, interval, watched):
    """Watched flow by flow the fabric does not run ahead; unwatched it may.

    Without ties under FIFO: of two coflows that become valid at one instant but for its last bit,
    the first starts, if only for that long, and which is first is rounding.
    """
    record = ("coflows", "flows") if watched else ("coflows",)
    jobs = draw(seed, ties=policy != "fifo")
    alike(*both(network, jobs, allocator=policy, observe_interval=interval, record=record))


@pytest.mark.parametrize("policy", ["maxmin", "sebf", *TURNS])
@pytest.mark.parametrize("record", [(), ("coflows",), ("decisions",), ("links",)])
def test_the_same_decisions(policy, record):
    """As often as with processes, whatever is recorded."""
    fast, slow = both(NETWORKS[0], draw(1, 12, ties=False), allocator=policy, record=record)
    assert fast.run["decisions"] == slow.run["decisions"]
    alike(fast, slow)
    if "decisions" in record:
        pd.testing.assert_frame_equal(fast.decisions, slow.decisions)


@pytest.mark.parametrize("policy", ["maxmin", "fifo", "parrot", "lccf"])
@pytest.mark.parametrize("until", [0.1, 3.3, 7.0, 11.0])
def test_stopped_half_way(policy, until):
    fast, slow = both(NETWORKS[0], draw(2, 30), allocator=policy, until=until)
    alike(fast, slow)
    assert fast.jobs["finish_s"].isna().any()


@pytest.mark.parametrize("policy", ["maxmin", "sebf", "parrot", "lccf"])
@pytest.mark.parametrize("interval", [0, 0.5])
def test_stopped_as_it_decides(policy, interval):
    """Two jobs of ten coflows of 1 s on one link: one ends at 5 s, where the run does, too."""
    stages = [netsim.Stage("s", [(0, 1, 1.0)])]
    jobs = [netsim.JobSpec(k, hosts=[0, 1], stages=stages, iterations=10) for k in range(2)]
    fast, slow = both(netsim.big_switch(2, 1.0), jobs, allocator=policy, until=5,
                      observe_interval=interval)
    alike(fast, slow)
    assert fast.run["stopped_at_s"] == 5
    assert fast.coflows["finish_s"].max() <= 5
    assert fast.run["decisions"] <= slow.run["decisions"]


@pytest.mark.parametrize("more", [-1, 1])
def test_a_pattern_that_draws_another_number_of_stages(more):
    """What is counted beforehand must be what is drawn, whichever way the job is run."""

    class Fickle:
        drawn = 0

        def stages(self, ranks, nbytes, rng):
            self.drawn += 1
            count = 2 + more * (self.drawn > 1)
            return tuple(netsim.Stage(f"s{k}", [(0, 1, nbytes)], after=[f"s{k - 1}"] if k else [])
                         for k in range(count))

    job = netsim.JobSpec(3, ranks=2, nbytes=1.0, pattern=Fickle(), iterations=2)
    with pytest.raises(netsim.InputError, match=f"job 3: its pattern draws {2 + more} stages"):
        netsim.simulate(netsim.big_switch(2, 1.0), [job])


@pytest.mark.parametrize("policy", ["maxmin", "sebf", *TURNS])
def test_among_others(policy):
    """Some jobs are chains, some single, some neither; a link fails and is repaired."""
    network, jobs = NETWORKS[0], draw(3, 8)
    singles = [netsim.JobSpec(100 + k, k / 3, hosts=range(HOSTS),
                              stages=[netsim.Stage("one", [(k % HOSTS, (k + 1) % HOSTS, 2.0)])])
               for k in range(9)]
    others = [with_process(replace(job, id=200 + job.id)) for job in draw(4, 5)]
    events = [{"at": 4.0, "link": 0, "capacity": 0}, {"at": 9.0, "link": 0, "capacity": 2.0}]
    alike(*(netsim.simulate(network, [*each, *singles, *others], allocator=policy, events=events)
            for each in (jobs, list(map(with_process, jobs)))))


@pytest.mark.parametrize("policy", ["maxmin", "parrot", "srpt"])
def test_a_pause_is_computation(policy):
    """One job alone, 3 iterations of 1 s of computation, 2 bytes at 1 byte/s, 1/2 s, 1 byte.

    It takes 3 (1 + 2 + 1/2 + 1) = 13.5 s. Its coflows become valid at 1, 3.5 and so on.
    """
    job = netsim.JobSpec(7, 0.25, hosts=[0, 1], iterations=3, compute_s=1.0, stages=[
        netsim.Stage("push", [(0, 1, 2.0)]),
        netsim.Stage("pull", [(1, 0, 1.0)], compute_s=0.5, after=["push"])])
    result = netsim.simulate(netsim.big_switch(2, 1.0), [job], allocator=policy)
    assert result.jobs["jct_s"].tolist() == [13.5]
    assert result.jobs["start_s"].tolist() == [1.25]
    assert (result.coflows["valid_s"] - 0.25).tolist() == [1, 3.5, 5.5, 8, 10, 12.5]
    assert result.coflows["stage"].tolist() == ["push", "pull"] * 3
    assert result.coflows["iteration"].tolist() == [0, 0, 1, 1, 2, 2]


def test_memory_of_chains_that_have_ended():
    """The arrays of flows hold what the chains that run send, and not what others have sent."""
    network = netsim.big_switch(4, 1.0)
    stages = [netsim.Stage("s", netsim.Flows([0, 1], [2, 3], [1.0, 1.0]))]
    sizes = []
    for count in (20, 200):
        jobs = [netsim.JobSpec(k, 3.0 * k, hosts=range(4), stages=stages, iterations=2)
                for k in range(count)]
        run = Held(network, jobs)
        sizes.append(max(run.sizes))
    assert sizes[0] == sizes[1]


class Held:
    """A run, and how many rows its flow arrays and its chains had at each decision."""

    def __init__(self, network, jobs):
        self.sizes = []
        held = self

        class Watching(netsim.Allocator):
            def allocate(self, view):
                table = view._table
                held.sizes.append(sum(map(len, table.flow_arrays.arrays))
                                  + len(table.graphs.coflows))
                return netsim.Allocation(shares=view.greedy(np.arange(len(view))))

        netsim.simulate(network, jobs, allocator=Watching())


def test_stages_that_send_the_same_have_their_rows_in_common():
    """64 stages of the same 1,024 flows need room for those and for the ones that are active."""
    hosts = np.arange(1024)
    flows = netsim.Flows(hosts, np.roll(hosts, 1), np.ones(1024))
    stages = [netsim.Stage(f"s{k}", flows, after=[f"s{k - 1}"][:k]) for k in range(64)]
    run = Held(netsim.big_switch(1024, 1.0), [netsim.JobSpec(0, hosts=hosts, stages=stages)])
    assert len(run.sizes) == 64
    assert max(run.sizes) < 64 * 1024


def test_ids_of_their_own():
    """A stage's own id goes to its coflow, whichever way the job is run."""
    stages = [netsim.Stage("a", [(0, 1, 1.0)], coflow_id=3),
              netsim.Stage("b", [(1, 0, 1.0)], after=["a"])]
    jobs = [netsim.JobSpec(k, hosts=[0, 1], stages=stages if not k else
                           [replace(stage, coflow_id=None) for stage in stages])
            for k in range(2)]
    result = netsim.simulate(netsim.big_switch(2, 1.0), jobs)
    found = {(row.job, row.stage): row.coflow for row in result.coflows.itertuples()}
    assert found == {(0, "a"): 3, (0, "b"): 1, (1, "a"): 2, (1, "b"): 4}
