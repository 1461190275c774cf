"""A-SRPT and its baselines: invariants on random instances, and rules by hand."""

from itertools import pairwise

import numpy as np
import pytest
import simpy
from hypothesis import example, given, settings
from hypothesis import strategies as st

import netsim
from netsim import Cluster, History, JobSpec, ModelStage, ParallelModel, Workload
from netsim.cluster.cluster import server_kind
from netsim.cluster.context import RunContext
from netsim.engine.engine import Engine
from netsim.engine.executions import IterationTimeExecution
from netsim.engine.view import decider_of
from netsim.errors import InputError, UnknownNameError
from netsim.models.iteration_time import alpha_max, alpha_min_bound
from netsim.placements.registry import make_placement
from netsim.schedulers.a_srpt import ASRPT, VirtualMachine
from netsim.schedulers.competitive import competitive_ratio
from netsim.schedulers.registry import make_scheduler
from tests.examples import examples

#: One GPU, data parallel with much to reduce, a pipeline, and one that exchanges little.
MODELS = (
    ParallelModel([ModelStage(1, 0.02, 0.03)], name="single"),
    ParallelModel([ModelStage(4, 0.01, 0.02, param_bytes=1e8)], name="heavy"),
    ParallelModel([ModelStage(2, 0.01, 0.02, out_bytes=1e6, param_bytes=2e7),
                   ModelStage(1, 0.02, 0.03, in_bytes=2e6)], name="pipeline"),
    ParallelModel([ModelStage(2, 0.05, 0.05, param_bytes=1e4)], name="light"),
)
ALL = ["a-srpt", "spjf", "spwf", "wcs-duration", "wcs-workload", "wcs-subtime"]

jobs_of = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 3), st.integers(1, 400),
                             st.integers(0, 2)), min_size=1, max_size=10)
clusters = st.tuples(st.integers(1, 3), st.integers(2, 4)).filter(lambda c: c[0] * c[1] >= 4)


def workload_of(listed, history=True):
    jobs = [JobSpec(k, arrival_s=tenths / 10, iterations=iterations, model=MODELS[model],
                    group=group, user=0)
            for k, (tenths, model, iterations, group) in enumerate(listed)]
    known = History([0, 0, 1], [0, 0, 0], [50, 150, 300]) if history else None
    return Workload(jobs, history=known)


def cluster_of(servers, gpus):
    return Cluster(servers, gpus, nic=1e9, intra=100e9)


class Watched:
    """Passes questions on, and keeps what was asked and answered."""

    def __init__(self, decider):
        self.decider, self.seen = decider, []

    def decide(self, view):
        answer = self.decider.decide(view)
        starts = getattr(answer, "start", answer)
        self.seen.append((view.now, tuple(view.arrived), view.idle, view.waiting,
                          [job for job, _ in starts]))
        return answer


def run(cluster, workload, scheduler, placement="mapped"):
    """Run to the end; return the engine and what the scheduler was asked."""
    env = simpy.Environment(0.0)
    context = RunContext(cluster, workload.jobs, None, workload.history)
    watched = Watched(decider_of(make_scheduler(scheduler), context))
    engine = Engine(env, cluster, workload.jobs, watched,
                    IterationTimeExecution(env, cluster, workload.jobs), make_placement(placement))
    while engine.ended < len(workload):
        env.step()
    return engine, watched.seen


@settings(max_examples=examples(60), deadline=None)
@given(clusters, jobs_of, st.sampled_from(ALL), st.sampled_from(["index", "most", "least"]),
       st.sampled_from(["mean", "perfect"]))
def test_capacity_gangs_and_nobody_waits_who_would_not_have_to(size, listed, name, rule, predictor):
    """No GPU twice, all GPUs of a job at once and to its end, and who is passed over.

    Under WCS nobody waits who would fit; in strict queues the others wait for one who does not.
    """
    cluster, workload = cluster_of(*size), workload_of(listed)
    options = {} if name == "wcs-subtime" else {"predictor": predictor}
    engine, seen = run(cluster, workload, {"name": name, **options},
                       {"name": "mapped", "servers": rule})
    for gpu in range(cluster.total):
        held = sorted((engine.start_s[job], engine.end_s[job])
                      for job, gpus in engine.gpus.items() if gpu in gpus)
        assert all(end <= start for (_, end), (start, _) in pairwise(held))
    kind = server_kind(cluster)
    for job, spec in enumerate(workload):
        took = engine.end_s[job] - engine.start_s[job]
        assert len(engine.gpus[job]) == spec.model.gpus
        low, high = alpha_min_bound(spec.model, kind), alpha_max(spec.model, kind)
        assert low * (1 - 1e-9) <= took / spec.iterations <= high * (1 + 1e-9)
    for _, _, idle, waiting, started in seen:
        left = idle - sum(workload.jobs[job].ranks for job in started)
        passed = set(waiting) - set(started)
        if name.startswith("wcs"):
            assert all(workload.jobs[job].ranks > left for job in passed)
        elif name != "a-srpt" and passed:
            assert any(workload.jobs[job].ranks > left for job in passed)


@settings(max_examples=examples(60), deadline=None)
@given(clusters, jobs_of, st.sampled_from([0.0, 3.0]))
@example((1, 4), [(1, 0, 304, 0), (39, 0, 1, 0)], 0.0)  # one ends a rounding after one arrives
def test_jobs_start_in_the_order_of_the_virtual_machine_and_not_before_it(size, listed, tau):
    """Sizes are (g/G) n alpha~_min; the queue is first in, first out."""
    cluster, workload = cluster_of(*size), workload_of(listed)
    scheduler = ASRPT(predictor="perfect", tau=tau)
    engine, _ = run(cluster, workload, scheduler)
    decider = scheduler.begin(RunContext(cluster, workload.jobs, None))
    machine, order, instants = VirtualMachine(), [], {}

    def collect(now):
        for job in machine.completed(now):
            instants[job] = now
            order.append(job)

    for job, spec in enumerate(workload):
        while machine.next_completion <= spec.arrival_s:
            collect(machine.next_completion)
        collect(spec.arrival_s)  # what ends there but for a rounding
        work = spec.ranks / cluster.total * decider._predictions.seconds(job)
        machine.arrive(spec.arrival_s, job, work)
    while machine.next_completion < np.inf:
        collect(machine.next_completion)
    starts = engine.start_s[order]
    assert (np.diff(starts) >= -1e-9).all()
    assert (starts >= np.array([instants[job] for job in order]) - 1e-9).all()


@settings(max_examples=examples(100), deadline=None)
@given(clusters, jobs_of, st.sampled_from([0.0, 1.0]))
@example((2, 4), [(0, 0, 1, 2)], 0.0)  # one job: the machine for all is 12 times as fast
def test_theorem_1(size, listed, tau):
    """The sum of completion times is within the ratio of what every schedule needs.

    That is at least what one machine for all needs, of sizes (g/G) n alpha_min, by SRPT; and at
    least r + n alpha_min for each job. With the safe bound for alpha_min both are below the
    optimum. The theorem needs a job of all GPUs to be absent.
    """
    cluster = cluster_of(size[0] + 1, size[1])
    workload = workload_of(listed)
    engine, _ = run(cluster, workload, {"name": "a-srpt", "predictor": "mean", "tau": tau})
    kind = server_kind(cluster)
    least = [alpha_min_bound(job.model, kind) for job in workload]
    most = [alpha_max(job.model, kind) for job in workload]
    machine, clock = VirtualMachine(), []
    for job, spec in enumerate(workload):
        while machine.next_completion <= spec.arrival_s:
            clock += [machine.next_completion] * len(machine.completed(machine.next_completion))
        machine.arrive(spec.arrival_s, job,
                       spec.ranks / cluster.total * spec.iterations * least[job])
    while (instant := machine.next_completion) < np.inf:
        clock += [instant] * len(machine.completed(instant))
    alone = sum(job.arrival_s + job.iterations * low
                for job, low in zip(workload, least, strict=True))
    predicted = {0: 100.0, 1: 300.0, 2: 0.0}
    error = np.mean([abs(spec.iterations - predicted[spec.group]) for spec in workload])
    ratio = competitive_ratio(
        rho=max(high / low for high, low in zip(most, least, strict=True)), tau=tau,
        gpus=cluster.total, most_gpus=max(spec.ranks for spec in workload),
        alpha_max=max(most), alpha_min=min(least), error=float(error))
    assert engine.end_s.sum() <= ratio * max(sum(clock), alone) * (1 + 1e-9)


@pytest.mark.parametrize("name", ALL)
def test_nobody_looks_at_iterations_before_a_job_ends(name):
    """Other numbers of iterations change nothing until the first end."""
    listed = [(10 * k, k % 4, 200 + 37 * k, k % 3) for k in range(8)]
    cluster = cluster_of(2, 4)
    scheduler = {"name": name} if name == "wcs-subtime" else {"name": name, "predictor": "mean"}
    found, ends = [], []
    for factor in (1, 3):
        changed = [(at, model, count * factor, group) for at, model, count, group in listed]
        engine, _ = run(cluster, workload_of(changed), scheduler)
        found.append(engine)
        ends.append(engine.end_s.min())
    early = found[0].start_s < min(ends)
    assert early.any()
    assert (found[1].start_s[early] == found[0].start_s[early]).all()
    for job in np.flatnonzero(early).tolist():
        assert found[1].gpus[job].tolist() == found[0].gpus[job].tolist()


@pytest.mark.parametrize(("tau", "start_s", "servers"), [
    (0, 2.1, 2), (0.5, 2.65, 2), (1, 3.0, 1)])
def test_a_job_waits_for_a_better_placement_until_its_deadline(tau, start_s, servers):
    """Two servers of 2 GPUs. Singles of 1 and 3 s are on server 0, one of 10 s on server 1.

    They are of a group that nobody knows, expected to take nothing, and start at once. A pair that
    reduces 1 GB comes at 1 s: on one server it takes 0.1 + 1/100 s per iteration, apart 0.1 + 2, at
    half of 1 GB/s. Of 20 iterations it is 2/4 of 2.2 s of work, so that its turn comes at 2.1 s,
    when there is a GPU on each server. It waits 1.1 tau; at 3 s server 0 becomes free.
    """
    single = ParallelModel([ModelStage(1, 0.04, 0.06)])
    pair = ParallelModel([ModelStage(2, 0.04, 0.06, param_bytes=1e9)])
    jobs = [JobSpec(k, iterations=count, model=single, group=1, user=0)
            for k, count in enumerate((10, 30, 100))]
    jobs.append(JobSpec(3, arrival_s=1, iterations=20, model=pair, group=0, user=0))
    workload = Workload(jobs, history=History([0], [0], [20]))
    result = netsim.simulate(cluster_of(2, 2), workload, execution="asrpt", scheduler={
        "name": "a-srpt", "predictor": "mean", "tau": tau})
    assert result.jobs["placement"].tolist()[:3] == ["0:1", "0:1", "1:1"]
    assert result.jobs["start_s"][3] == pytest.approx(start_s)
    assert result.jobs["servers"][3] == servers


def test_a_forecast_that_is_trained_anew_changes_the_order():
    """One GPU. Without a history all jobs are expected to take nothing, and go as they come.

    After 10 s the job of group 0 is known to take 100 iterations, and group 1 nothing yet: the job
    of group 1 that comes last goes first.
    """
    model = ParallelModel([ModelStage(1, 0.04, 0.06)])
    jobs = [JobSpec(0, iterations=100, model=model, group=0, user=0),
            JobSpec(1, arrival_s=5, iterations=100, model=model, group=1, user=0),
            JobSpec(2, arrival_s=12, iterations=100, model=model, group=0, user=0),
            JobSpec(3, arrival_s=13, iterations=10, model=model, group=2, user=0)]
    cluster = Cluster(1, 1)
    result = netsim.simulate(cluster, jobs, execution="asrpt", scheduler={
        "name": "spjf", "predictor": "mean", "retrain": "10s"})
    assert result.jobs["start_s"].tolist() == pytest.approx([0, 10, 21, 20])


def test_slices_wait_for_a_server_that_holds_them():
    """Servers with one free GPU each cannot hold a pair of slices; under WCS another job passes."""
    single = ParallelModel([ModelStage(1, 0.04, 0.06)])
    sliced = ParallelModel([ModelStage(1, 0.04, 0.06, slices=2)])
    two = ParallelModel([ModelStage(2, 0.04, 0.06)])
    jobs = [JobSpec(0, iterations=10, model=ParallelModel([ModelStage(3, 0.04, 0.06)])),
            JobSpec(1, arrival_s=0.1, iterations=30, model=single),
            JobSpec(2, arrival_s=0.2, iterations=10, model=sliced),
            JobSpec(3, arrival_s=0.3, iterations=10, model=two)]
    cluster = cluster_of(3, 2)
    result = netsim.simulate(cluster, jobs, execution="asrpt", scheduler="wcs-subtime",
                             placement="mapped:servers=index")
    # 0: server 0, and one of 1; 1: the other of 1; 2: server 2; 3 waits for 0 and 2 till 1.0.
    assert result.jobs["placement"].tolist() == ["0:2 1:1", "1:1", "2:2", "0:2"]
    narrow = [JobSpec(0, iterations=10, model=single), JobSpec(1, iterations=50, model=two),
              JobSpec(2, arrival_s=0.1, iterations=10, model=sliced),
              JobSpec(3, arrival_s=0.2, iterations=5, model=single)]
    result = netsim.simulate(cluster_of(2, 2), narrow, execution="asrpt", scheduler="wcs-subtime",
                             placement="mapped:servers=index")
    # 1 has a half of each server: 2 fits in nothing until it ends at 5, and 3 passes at once.
    assert result.jobs["start_s"].tolist() == pytest.approx([0, 0, 5, 0.2])


def test_instants_that_rounding_tells_apart_are_one():
    """Servers of 2. A pair from 0.1 s on for 0.2 s ends at 0.30000000000000004, as another comes.

    That gets the server that becomes free, although it comes at 0.3.
    """
    single = ParallelModel([ModelStage(1, 0.05, 0.05)])
    pair = ParallelModel([ModelStage(2, 0.005, 0.005, param_bytes=0)])
    heavy = ParallelModel([ModelStage(2, 0.0, 0.01, param_bytes=1e8)])
    jobs = [JobSpec(0, iterations=100, model=single), JobSpec(1, iterations=100, model=single),
            JobSpec(2, arrival_s=0.1, iterations=20, model=pair),
            JobSpec(3, arrival_s=0.3, iterations=1, model=heavy)]
    cluster = cluster_of(2, 2)
    result = netsim.simulate(cluster, jobs, execution="asrpt", scheduler="wcs-subtime")
    assert 0.1 + 0.2 != 0.3
    assert result.jobs["placement"].tolist() == ["0:1", "0:1", "1:2", "1:2"]
    assert result.jobs["start_s"][3] == pytest.approx(0.3)


@pytest.mark.parametrize("order", [(3, 4, 8, 8, 0), (8, 8, 0, 4, 3), (3, 4, 8, 0, 8)])
def test_a_wake_waits_for_ends_at_the_same_instant(order):
    """Servers of 2 GPUs; singles of 3, 4, 8, 8 iterations of 0.1 s, and a pair of 2.

    Work is n 0.1/4 s of a single, and 2 (0.1 + 1/10)/2 = 0.2 s of the pair: turns come at 0.075,
    0.175, 0.375, 0.575 and 0.775 s. The first two share server 0. The single of 3 ends at 0.375 s,
    but for rounding, and the turn that comes then is for its GPU, so that server 1 stays free for
    the pair: it takes 0.4 s there, and 2 (0.1 + 2) = 4.2 s apart.
    """
    one = ParallelModel([ModelStage(1, 0, 0.1)])
    two = ParallelModel([ModelStage(2, 0, 0.1, param_bytes=1e9)])
    jobs = [JobSpec(k, model=one if n else two, iterations=n or 2) for k, n in enumerate(order)]
    found = netsim.simulate(Cluster(2, 2, nic="8Gbps", intra="10GB/s"), jobs, execution="asrpt",
                            scheduler="a-srpt-perfect").jobs
    pair = found.loc[order.index(0)]
    assert pair["placement"] == "1:2"
    assert pair["finish_s"] - pair["start_s"] == pytest.approx(0.4)


def test_ties_of_what_is_left_go_by_arrival():
    """Two servers of 1 GPU; 7 iterations of 0.1 s at 0.3 s, and 1 at 0.6 s: work 0.35 and 0.05 s.

    At 0.6 s both have 0.05 s left: the first one's turn comes at 0.65, the other's at 0.7 s.
    """
    model = ParallelModel([ModelStage(1, 0, 0.1)])
    jobs = [JobSpec(0, arrival_s=0.3, iterations=7, model=model),
            JobSpec(1, arrival_s=0.6, iterations=1, model=model)]
    found = netsim.simulate(Cluster(2, 1), jobs, execution="asrpt", scheduler="a-srpt-perfect")
    assert found.jobs["start_s"].tolist() == pytest.approx([0.65, 0.7])


tenths = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12), st.sampled_from([1, 1, 2, 4])),
                  min_size=1, max_size=9)


@settings(max_examples=examples(150), deadline=None)
@given(tenths, st.sampled_from(["a-srpt-perfect", "spjf", "spwf", "wcs-duration", "wcs-workload"]))
@example([(0, 8, 1), (0, 3, 1), (0, 2, 2), (0, 4, 1), (0, 8, 1)], "a-srpt-perfect")
@example([(0, 20, 4), (1, 6, 1), (2, 3, 2)], "spwf")
def test_the_unit_of_time_decides_nothing(listed, name):
    """Two servers of 2 GPUs, jobs of n iterations of u seconds of computation, arrivals of k u.

    1 GB of gradients takes u/10 per GB inside a server. With u = 10 s all is whole numbers, which
    are exact, those of the virtual machine being quarters; with u = 0.1 s all is rounded.
    Starts, ends and GPUs are the same.
    """
    def run_in(unit):
        models = {ranks: ParallelModel([ModelStage(ranks, 0, unit, param_bytes=(ranks > 1) * 1e9)])
                  for ranks in (1, 2, 4)}
        jobs = [JobSpec(k, arrival_s=at * unit, iterations=count, model=models[ranks])
                for k, (at, count, ranks) in enumerate(sorted(listed))]
        scheduler = {"name": name}
        if not name.startswith("a-"):
            scheduler["predictor"] = "perfect"
        cluster = Cluster(2, 2, nic=1e9 / unit, intra=1e10 / unit)
        context = RunContext(cluster, jobs, None)
        env = simpy.Environment(0.0)
        engine = Engine(env, cluster, jobs, decider_of(make_scheduler(scheduler), context),
                        IterationTimeExecution(env, cluster, jobs), make_placement("mapped"))
        while engine.ended < len(jobs):
            env.step()
        return engine

    exact, found = run_in(10.0), run_in(0.1)
    assert found.start_s == pytest.approx(exact.start_s / 100, abs=1e-9)
    assert found.end_s == pytest.approx(exact.end_s / 100, abs=1e-9)
    for job, gpus in exact.gpus.items():
        assert found.gpus[job].tolist() == gpus.tolist()


def test_slices_that_no_servers_hold_are_refused_at_once():
    sliced = ParallelModel([ModelStage(3, 0.01, 0.01, slices=2)], name="sliced")
    with pytest.raises(InputError, match="job 0: slices of a replica of model 'sliced' mu"):
        netsim.simulate(cluster_of(2, 3), [JobSpec(0, model=sliced)], execution="asrpt")


@pytest.mark.parametrize(("scheduler", "message"), [
    ({"name": "a-srpt", "tau": -1}, "tau must be a finite number of at least 0, not -1"),
    ({"name": "a-srpt", "comm_heavy": 10**400}, "comm_heavy must be a finite number of at least"),
    ({"name": "a-srpt", "comm_heavy": 0.5}, "comm_heavy must be a finite number of at least"),
    ({"name": "a-srpt", "tau": True}, "tau must be a finite number of at least 0, not True"),
    ({"name": "wcs-subtime", "predictor": "mean"}, "unknown option of scheduler 'wcs-subtime' 'pr"),
    ({"name": "a-srpt-perfect", "retrain": "1d"}, "unknown option of scheduler 'a-srpt-perfect'"),
    ({"name": "a-srpt", "mapping": "best"}, "unknown mapping 'best'; choose from: heavy-edge"),
    ({"name": "a-srpt", "predictor": "oracle"}, "unknown predictor 'oracle'"),
    ({"name": "spjf", "predictor": "mean", "retrain": 0}, "retrain must be greater than 0"),
    ({"name": "spjf", "predictor": "mean"},
     "scheduler 'spjf' needs a history: the workload has none, so the predictor has nothing"),
])
def test_bad_options(scheduler, message):
    workload = workload_of([(0, 0, 10, 0)], history=False)
    with pytest.raises((InputError, UnknownNameError), match=message):
        netsim.simulate(cluster_of(2, 4), workload, scheduler=scheduler, execution="asrpt")


def test_bad_clusters_and_jobs():
    workload = workload_of([(0, 0, 10, 0)])
    with pytest.raises(InputError, match=r"servers must have equally many GPUs each, not \[2, 4\]"):
        netsim.simulate(Cluster(gpus=[4, 2]), workload, scheduler="wcs-subtime",
                        execution="asrpt")
    with pytest.raises(InputError, match="job 0 needs 4 GPUs; cluster 'cluster' has 2"):
        netsim.simulate(cluster_of(1, 2), workload_of([(0, 1, 10, 0)]), scheduler="fifo",
                        execution="asrpt")
    other = [JobSpec(0, pattern="all-to-all", ranks=2, nbytes=1e6)]
    with pytest.raises(InputError, match="job 0 has the pattern 'all-to-all': the time of an "):
        netsim.simulate(cluster_of(1, 2), other, scheduler="fifo", execution="asrpt")
    with pytest.raises(InputError, match="scheduler 'a-srpt' needs no placement: it chooses"):
        netsim.simulate(cluster_of(2, 2), workload, scheduler="a-srpt", placement="mapped",
                        execution="asrpt")
    for wrong, message in (({"servers": "last"}, "unknown servers 'last'"),
                           ({"mapping": "best"}, "unknown mapping 'best'")):
        with pytest.raises((InputError, UnknownNameError), match=message):
            netsim.simulate(cluster_of(2, 2), workload, placement={"name": "mapped", **wrong})
    with pytest.raises(UnknownNameError, match="unknown option of execution 'asrpt' 'alpha'"):
        netsim.simulate(cluster_of(2, 2), workload, execution="asrpt:alpha=1")


def test_slices_find_servers_on_an_idle_cluster():
    """Servers of 3 that give in turn give 3 and 1, which hold one pair: here they give 2 and 2.

    The first two do; what is left, a GPU each and 3, holds one pair, so that the other job waits.
    """
    sliced = ParallelModel([ModelStage(2, 0.04, 0.06, slices=2)])
    for scheduler in ({"name": "a-srpt-perfect"}, {"name": "wcs-subtime"}):
        jobs = [JobSpec(k, iterations=10, model=sliced) for k in range(2)]
        found = netsim.simulate(cluster_of(3, 3), jobs, execution="asrpt", scheduler=scheduler).jobs
        assert sorted(map(sorted, found["placement"].str.split())) == [["0:2", "1:2"]] * 2
        assert found["start_s"].max() == found["finish_s"].min()


def test_who_submits_first_needs_no_prediction():
    """WCS-SubTime takes jobs of any kind, on any servers, with a placement that does so."""
    jobs = [JobSpec(k, pattern="all-to-all", ranks=2, nbytes=1e6) for k in range(2)]
    cluster = netsim.Cluster(gpus=[3, 2], nic="8Mbps")
    found = netsim.simulate(cluster, jobs, scheduler="wcs-subtime", placement="first-fit",
                            execution="fabric")
    assert found.jobs["placement"].tolist() == ["0:2", "0:1 1:1"]
    with pytest.raises(InputError, match=r"placement 'mapped' needs known .*; another one, "):
        netsim.simulate(cluster, jobs, scheduler="wcs-subtime", execution="fabric")
