"""What allocators are told of predictions, and shortest predicted jobs first."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim import Allocation, Allocator, History, JobSpec, Stage, Workload
from netsim.errors import InputError, UnknownNameError
from tests.examples import examples

NET = netsim.big_switch(2, 1.0)

#: Jobs of group 0 have made 2 iterations, those of group 1 have made 8 and 10.
PAST = History(np.array([0, 1, 1]), np.array([0, 0, 0]), np.array([2.0, 8.0, 10.0]))


def job(number, iterations, nbytes, group=None, **named):
    """Iterations of a push and a pull of some bytes, at 1 B/s."""
    return JobSpec(number, iterations=iterations, group=group, user=0, hosts=(0, 1), stages=[
        Stage("push", [(0, 1, nbytes)]), Stage("pull", [(1, 0, nbytes)], after=["push"])], **named)


class Watching(Allocator):
    """Serves by id, and notes what it is told."""

    information = "predicted"

    def __init__(self, predictor="mean"):
        self.predictor, self.seen = predictor, []

    def __deepcopy__(self, memo):
        return self

    def allocate(self, view):
        self.seen.append((view.now, dict(zip(view.job.tolist(), view.job_predicted_s.tolist(),
                                             strict=True))))
        return Allocation(order=np.argsort(view.job, kind="stable"))


def told(jobs, predictor="mean", history=PAST, **options):
    policy = Watching(predictor)
    netsim.simulate(NET, Workload(jobs, history=history), allocator=policy, **options)
    return policy.seen


def test_predictions_count_down_to_nothing():
    """2 iterations of 2 + 2 s are expected: 8 s, of which the active coflow is not ahead.

    There are 3 iterations; nothing is ahead from the fourth coflow, at 6 s, on.
    """
    expected = [(0, 6), (2, 4), (4, 2), (6, 0), (8, 0), (10, 0)]
    assert told([job(0, 3, 2.0, group=0)]) == [(at, {0: left}) for at, left in expected]


@pytest.mark.parametrize(("predictor", "group", "iterations"), [
    ("perfect", None, 3), ("perfect", 7, 3), ("mean", 1, 9), ("median", 1, 9), ("mean", 7, 0),
    ("mean", None, 0), ("mean:scope=global", 0, 20 / 3)])
def test_what_predictors_make_of_history(predictor, group, iterations):
    """A job of an unseen group is not expected to send anything after what it sends."""
    first = told([job(0, 3, 2.0, group=group)], predictor)[0]
    assert first[1][0] == pytest.approx(max(4 * iterations - 2, 0))


@pytest.mark.parametrize("observe_interval", [0, 0.5])
def test_jobs_that_processes_run_are_predicted_alike(observe_interval):
    """Jobs with other sizes in each iteration, with ranks that compute, of one coflow."""
    ranked = JobSpec(0, iterations=3, group=0, hosts=(0, 1), stages=[
        Stage("pass", ranks=[0], compute_s=1, after_previous=["send"]),
        Stage("send", [(0, 1, 2.0)], after=["pass"])])
    single = JobSpec(0, group=1, hosts=(0, 1), stages=[Stage("send", [(0, 1, 2.0)])])
    assert [seen[0] for _, seen in told([ranked], observe_interval=observe_interval)] == [2, 0, 0]
    assert [seen[0] for _, seen in told([single], observe_interval=observe_interval)] == [16]
    drawn = JobSpec(0, iterations=2, group=0, hosts=(0, 1), ranks=2, nbytes=2.0, redraw=True,
                    pattern="parameter-server")
    (_, first), *_, (_, last) = told([drawn])
    assert 0 < first[0] < 2 * 4
    assert last[0] >= 0


def test_a_cluster_predicts_when_jobs_start_and_go_on():
    """Job 0 of 9 expected iterations begins at once, job 1 when it has ended, 6 s later."""
    cluster = netsim.Cluster(servers=2, gpus=1, nic=1.0)
    policy = Watching()
    jobs = [JobSpec(k, iterations=3, group=k, ranks=2, stages=[Stage("send", [(0, 1, 2.0)])])
            for k in (1, 0)]
    netsim.simulate(cluster, Workload(jobs, history=PAST), allocator=policy, execution="fabric",
                    scheduler="fifo")
    assert [seen for _, seen in policy.seen] == [{0: 2}, {0: 0}, {0: 0}, {1: 16}, {1: 14}, {1: 12}]


def test_shortest_predicted_job_first():
    """Of 6 iterations of 2 s and 2 of 4 s, the first is expected to make 2, the second 9.

    The truth is 12 s and 8 s: with it, job 1 has the links it needs. Both need one link at a time,
    but in opposite phases the other may send beside. By predictions job 0 is first throughout: it
    is expected to take 4 s, and, from then on, no more than its active coflow; job 1 takes at least
    2 s for each. So job 0 ends at 12, alone at its own speed.
    """
    jobs = Workload([job(0, 6, 1.0, group=0), job(1, 2, 2.0, group=1)], history=PAST)
    true, predicted, perfect = (netsim.simulate(NET, jobs, allocator=policy).jobs for policy in (
        "srpt", "srpt:predictor=mean", "srpt:predictor=perfect"))
    assert predicted["finish_s"][0] == 12
    assert true["finish_s"][1] == 8
    assert perfect.equals(true)


@settings(max_examples=examples(25), deadline=None)
@given(sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(0, 6)),
                      min_size=1, max_size=5),
       work=st.sampled_from(["greedy", "none", "capped", "shared_uniform", "maxmin"]),
       record=st.sampled_from([["jobs"], ["jobs", "decisions"]]))
def test_a_perfect_prediction_is_knowledge(sizes, work, record):
    jobs = [job(k, iterations, float(nbytes), arrival_s=arrival)
            for k, (iterations, nbytes, arrival) in enumerate(sizes)]
    one, other = (netsim.simulate(NET, jobs, record=record, allocator={
        "name": "srpt", "work_conservation": work} | more).jobs
        for more in ({}, {"predictor": "perfect"}))
    assert one.equals(other)


def test_rules_and_policies_in_python_are_told_alike():
    @netsim.compiled(information="predicted")
    def least_predicted(coflows, jobs, now, order):
        for c in range(len(coflows)):
            order.key[c] = jobs[coflows[c].job].predicted_s

    class LeastPredicted(Allocator):
        information = "predicted"

        def allocate(self, view):
            return Allocation(order=np.lexsort((view.job, view.job_predicted_s)))

    jobs = Workload([job(0, 6, 1.0, group=0), job(1, 2, 2.0, group=1), job(2, 3, 3.0, group=1)],
                    history=PAST)
    one, other = (netsim.simulate(NET, jobs, allocator=policy).jobs
                  for policy in (least_predicted, LeastPredicted))
    assert one.equals(other)
    for policy in (least_predicted, LeastPredicted):
        netsim.testing.check_allocator(policy, examples=examples(20))


def test_predictions_are_for_those_who_declare_them():
    class Undeclared(Allocator):
        def allocate(self, view):
            return Allocation(order=np.argsort(view.job_predicted_s, kind="stable"))

    with pytest.raises(InputError, match=r"reads view.job_predicted_s, but declares information="
                                         r"'clairvoyant'.*, declare information='predicted'"):
        netsim.simulate(NET, [job(0, 1, 1.0)], allocator=Undeclared)
    with pytest.raises(InputError, match=r"reads 'predicted_s'.*, declare information='predicted'"):
        @netsim.compiled
        def undeclared(coflows, jobs, now, order):
            order.key[0] = jobs[0].predicted_s

    class Peeking(Watching):
        def allocate(self, view):
            return Allocation(view.maxmin(1 + view._table.jobs["ahead"][view.job][view.coflow]))

    with pytest.raises(AssertionError, match="depends on coflows not emitted yet"):
        netsim.testing.check_allocator(Peeking, examples=50)


@pytest.mark.parametrize("network", [NET, netsim.Cluster(servers=2, gpus=1, nic=1.0)])
def test_there_must_be_something_to_learn_from(network):
    options = {} if network is NET else {"execution": "fabric"}
    with pytest.raises(InputError, match="goes by predictions, and the workload has no history"):
        netsim.simulate(network, [job(0, 1, 1.0)], allocator="srpt:predictor=mean", **options)
    with pytest.raises(UnknownNameError, match=r"'meen' \(did you mean 'mean'\?\)"):
        netsim.make_allocator("srpt:predictor=meen")


def test_a_run_that_stops_is_predicted_as_one_that_does_not():
    """And so is a fork of it, and a job that is submitted."""
    given = [job(0, 6, 1.0, group=0), job(1, 2, 2.0, group=1)]
    late = job(2, 3, 1.0, group=0, arrival_s=5.0)
    straight = netsim.simulate(NET, Workload([*given, late], history=PAST),
                               allocator="srpt:predictor=mean").jobs
    sim = netsim.Simulation(NET, Workload(given, history=PAST), allocator="srpt:predictor=mean")
    sim.run(until=3)
    sim.submit(late)
    other = sim.fork()
    for run in (sim, other):
        assert run.run().result().jobs.equals(straight)


def test_predictions_are_made_when_jobs_begin():
    sim = netsim.Simulation(NET, Workload([job(0, 6, 1.0, group=0)], history=PAST)).run(until=1)
    with pytest.raises(InputError, match="the run must begin under one with the same predictor"):
        sim.allocator = "srpt:predictor=mean"
    sim = netsim.Simulation(NET, Workload([job(0, 6, 1.0, group=0)], history=PAST),
                            allocator="srpt:predictor=mean").run(until=1)
    with pytest.raises(InputError, match="the run must begin under one with the same predictor"):
        sim.allocator = "srpt:predictor=median"
    sim.allocator = "srpt"
    sim.allocator = "srpt:predictor=mean"
    assert sim.run().result().jobs["finish_s"].tolist() == [12]
