"""Jobs in LP order: the bound, the policy and the optimum of small cases."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim import Allocation, Allocator, JobSpec, Stage, Workload
from netsim.errors import InputError
from netsim.testing import make_view
from tests.examples import examples

HOSTS = 3
NET = netsim.big_switch(HOSTS, 1.0)
RELAXATIONS = ("coflows", "jobs")


class InOrder(Allocator):
    """Serves coflows by place, which it is given by (job, order)."""

    def __init__(self, place):
        self.place = place

    def allocate(self, view):
        places = [self.place[key] for key in zip(view.job.tolist(), view.order.tolist(),
                                                 strict=True)]
        return Allocation(order=np.argsort(places, kind="stable"))


def total(jobs, allocator):
    """Return the weighted sum of JCTs."""
    weight = {job.id: max(stage.weight for stage in job.stages) for job in jobs}
    done = netsim.simulate(NET, jobs, allocator=allocator).jobs
    return float(done["job"].map(weight) @ done["jct_s"])


def bound_of(jobs, relaxation):
    run = netsim.simulate(NET, jobs, allocator={"name": "lp-order", "relaxation": relaxation})
    return run.summary()["weighted_jct_bound_s"]


def best(jobs):
    """Return the least weighted sum of JCTs of all orders of the coflows of all jobs."""
    coflows = [(k, place) for k, job in enumerate(sorted(jobs, key=lambda job: job.arrival_s))
               for place in range(len(job.stages) * job.iterations)]
    return min(total(jobs, InOrder({key: at for at, key in enumerate(order)}))
               for order in permutations(coflows))


def chain(number, *sizes, weight=1.0, **named):
    """A job of coflows one after the other, each of one flow (src, dst, bytes)."""
    return JobSpec(number, hosts=range(HOSTS), stages=[
        Stage(f"s{k}", [flow], weight=weight, after=[f"s{k - 1}"] if k else [])
        for k, flow in enumerate(sizes)], **named)


@pytest.mark.parametrize("relaxation", RELAXATIONS)
def test_one_link_is_smith_s_rule(relaxation):
    """On one link, the LP is exact: by seconds over weight, here 3, 1 and 2 s over 1, 1 and 4.

    Ratios 3, 1 and 1/2: job 2 ends at 2, job 1 at 3, job 0 at 6: 4 * 2 + 3 + 6 = 17.
    """
    jobs = [chain(k, (0, 1, size), weight=weight)
            for k, (size, weight) in enumerate(((3.0, 1.0), (1.0, 1.0), (2.0, 4.0)))]
    done = netsim.simulate(NET, jobs, allocator={"name": "lp-order", "relaxation": relaxation})
    assert done.jobs["finish_s"].tolist() == [6, 3, 2]
    assert done.summary()["weighted_jct_bound_s"] == pytest.approx(17, rel=2e-3)


@pytest.mark.parametrize("relaxation", RELAXATIONS)
def test_a_long_chain_of_short_coflows_is_a_long_job(relaxation):
    """Job 0 sends 4 times 1 B from 0 to 1; job 1 sends 3 B there. By coflows, job 0 is shortest.

    SEBF serves it first throughout: 4 + 7. The LP knows that it takes 4 s: job 1 first, 3 + 7.
    """
    jobs = [chain(0, *[(0, 1, 1.0)] * 4), chain(1, (0, 1, 3.0))]
    assert total(jobs, "sebf") == 11
    assert total(jobs, {"name": "lp-order", "relaxation": relaxation}) == 10 == best(jobs)
    assert bound_of(jobs, relaxation) == pytest.approx(10, rel=2e-3)


def test_dependencies_tighten_the_bound():
    """Job 0 sends 1 B over 0 -> 1, then 4 B over 1 -> 2; job 1 sends 2 B over 0 -> 1. Both at 0.

    As jobs, on port 0, 1 C0 + 2 C1 >= (9 + 5)/2 = 7 with C0 >= 5 and C1 >= 2: C0 = 5, C1 = 2, in
    sum 7. The first coflow of job 0 cannot end later than C0 - 4. If C0 = 5 it ends at 1, so that
    1 * 1 + 2 C1 >= 7 and C1 = 3: in sum 8, which is the optimum. Job 1 to the end, before job 0, is
    2 + 7.
    """
    jobs = [chain(0, (0, 1, 1.0), (1, 2, 4.0)), chain(1, (0, 1, 2.0))]
    assert bound_of(jobs, "jobs") == pytest.approx(7, rel=2e-3)
    assert bound_of(jobs, "coflows") == pytest.approx(8, rel=2e-3)
    assert (best(jobs), total(jobs, "lp-order:relaxation=coflows")) == (8, 9)


def test_iterations_dags_and_ranks_are_steps():
    """Two iterations of a diamond: 1 s of computation, 2 and 3 B side by side, then 1 B: 5 s each.

    Alone, the bound is the job's lower bound, and so it is for a job whose ranks compute.
    """
    diamond = JobSpec(0, hosts=range(HOSTS), iterations=2, stages=[
        Stage("a", [(0, 1, 2.0)], compute_s=1), Stage("b", [(2, 0, 3.0)], compute_s=1),
        Stage("c", [(1, 2, 1.0)], after=["a", "b"], finishes_before=[])])
    pattern = "parameter-server:staleness=1:servers=1:sizes=split"
    ranks = JobSpec(0, hosts=range(HOSTS), iterations=3, pattern=pattern, ranks=3, nbytes=2.0,
                    compute_s=1.0)
    for job, least in ((diamond, 10), (ranks, None)):
        alone = netsim.simulate(NET, [job], allocator="lp-order:relaxation=coflows")
        bound_s = alone.summary()["weighted_jct_bound_s"]
        assert bound_s >= alone.jobs["lower_bound_s"][0] * (1 - 1e-9)
        assert bound_s <= alone.jobs["jct_s"][0] * (1 + 1e-9)
        assert least is None or bound_s == least


JOBS = st.lists(
    st.tuples(st.lists(st.tuples(st.integers(0, HOSTS - 1), st.integers(1, HOSTS - 1),
                                 st.integers(1, 5)), min_size=1, max_size=2),
              st.integers(1, 4), st.integers(0, 3)),
    min_size=2, max_size=3).filter(lambda jobs: sum(len(job[0]) for job in jobs) <= 4)


@settings(max_examples=examples(15), deadline=None)
@given(JOBS)
def test_the_bound_is_below_the_optimum_and_the_policy_not_far_above(drawn):
    """The sum of completion times is at most 2 M + 1 times the LP's, here with M = 3 hosts."""
    jobs = [chain(k, *((src, (src + to) % HOSTS, float(size)) for src, to, size in sizes),
                  weight=float(weight), arrival_s=float(arrival))
            for k, (sizes, weight, arrival) in enumerate(drawn)]
    early = sum(job.arrival_s * job.stages[0].weight for job in jobs)
    least = best(jobs)
    bounds = {relaxation: bound_of(jobs, relaxation) for relaxation in RELAXATIONS}
    assert bounds["jobs"] <= bounds["coflows"] * (1 + 2e-3) + 1e-9
    for relaxation, bound_s in bounds.items():
        assert bound_s <= least * (1 + 1e-9)
        for work in ("none", "greedy", "maxmin"):
            found = total(jobs, {"name": "lp-order", "relaxation": relaxation,
                                 "work_conservation": work})
            assert found + early <= (2 * HOSTS + 1) * (bound_s + early) * (1 + 2e-3)


@pytest.mark.parametrize("relaxation", RELAXATIONS)
def test_jobs_that_come_later_are_counted_from_there(relaxation):
    """At 10 s, two jobs of 4 and 2 s come to one link: 12 + 16, less the arrivals 2 + 6 = 8.

    Counted from 0, 4 C0 + 2 C1 >= (36 + 20) / 2 says nothing beside C0 >= 14 and C1 >= 12: 6.
    """
    jobs = [chain(k, (0, 1, size), arrival_s=10.0) for k, size in enumerate((4.0, 2.0))]
    assert bound_of(jobs, relaxation) == pytest.approx(8, rel=1e-2)
    assert total(jobs, {"name": "lp-order", "relaxation": relaxation}) == 8 == best(jobs)


def test_the_order_stands_to_the_end():
    """Job 1, of 2 s, arrives at 9 s, and is first from then on; job 0, of 20 s, has 11 s left.

    20 C0 + 2 C1 >= (22^2 + 20^2 + 2^2) / 2 = 444, C0 >= 20 and C1 >= 11: C0 = 21.1 and C1 = 11.
    """
    jobs = [chain(0, (0, 1, 20.0)), chain(1, (0, 1, 2.0), weight=9.0, arrival_s=9.0)]
    done = netsim.simulate(NET, jobs, allocator="lp-order").jobs["finish_s"].tolist()
    assert done == [22, 11]


def test_without_a_plan_jobs_are_in_order_of_arrival():
    """As in a view made by hand."""
    view = make_view(NET, [[(0, 1, 5.0)], [(0, 1, 1.0)]])
    assert netsim.make_allocator("lp-order").allocate(view).order.tolist() == [0, 1]


def test_who_knows_no_jobs_before_the_run_is_refused():
    jobs = [chain(0, (0, 1, 1.0))]
    with pytest.raises(InputError, match="the scheduler of a cluster chooses their hosts"):
        netsim.simulate(netsim.Cluster(servers=3, gpus=1), jobs, allocator="lp-order",
                        execution="fabric")
    import simpy
    with pytest.raises(InputError, match="plans for all jobs before they begin"):
        netsim.Fabric(simpy.Environment(), NET, allocator="lp-order")
    sim = netsim.Simulation(NET, jobs)
    with pytest.raises(InputError, match="the run must begin under it"):
        sim.allocator = "lp-order"
    sim = netsim.Simulation(NET, jobs, allocator="lp-order")
    with pytest.raises(InputError, match="job 1: allocator LPOrder has planned for the jobs"):
        sim.submit(chain(1, (0, 1, 1.0)))


def test_a_policy_of_ones_own_may_plan():
    """What it is told: a step for each job, or for each stage of each iteration."""
    told = {}

    class Planner(Allocator):
        plans_ahead = True

        def prepare(self, coming):
            told.update(arrival_s=coming.arrival_s.tolist(), weight=coming.weight.tolist(),
                        jobs=coming.jobs(), coflows=coming.coflows())

        def allocate(self, view):
            return Allocation(order=np.arange(len(view)))

    jobs = [chain(0, (0, 1, 2.0), (1, 2, 3.0), weight=5.0, iterations=2, arrival_s=1.0)]
    netsim.simulate(NET, Workload(jobs), allocator=Planner)
    assert (told["arrival_s"], told["weight"]) == ([1], [5])
    whole = told["jobs"]
    assert whole.earliest_s.tolist() == [1 + 10]
    assert list(zip(whole.link.tolist(), whole.seconds.tolist(), strict=True)) == [
        (0, 4), (1, 6), (4, 4), (5, 6)]
    steps = told["coflows"]
    assert steps.begin_s.tolist() == [1, 3, 6, 8]
    assert steps.earliest_s.tolist() == [3, 6, 8, 11]
    assert (steps.child.tolist(), steps.parent.tolist()) == ([1, 2, 3], [0, 1, 2])
    assert steps.gap_s.tolist() == [3, 2, 3]
    assert steps.owner.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
