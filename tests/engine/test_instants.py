"""Instants that differ by rounding are one: jobs that end, save, restore or lose their servers.

Floats make 0.1 + 0.2 later than 0.3, and 0.7 + 0.1 earlier than 0.8, by one unit in the last place.
"""

from fractions import Fraction

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim import Cluster, JobSpec
from netsim.engine.executions import TimedExecution
from netsim.engine.view import Decision
from netsim.errors import AllocationError, StalledError
from tests.examples import examples
from tests.twins.job_orders import ORDERS
from tests.twins.preemption import ClusterJob, Costs, ServerFault, run_jobs

#: In all of these, an iteration of a ring without bytes takes its computation alone.
EXECUTIONS = ["rar-contention:time=continuous:xi2=0", "asrpt", "fabric:xi2=0", "cassini:xi2=0"]
in_all = pytest.mark.parametrize("execution", EXECUTIONS)


def ring(number, arrival_s, iterations, iteration_s, gpus=1):
    return JobSpec(number, arrival_s, iterations, pattern="ring-all-reduce", ranks=gpus,
                   nbytes=0, compute_s=iteration_s, estimate_s=iterations * iteration_s)


def run(jobs, scheduler, execution, gpus=(1,), **options):
    return netsim.simulate(Cluster(gpus=list(gpus), nic=1e9), jobs, scheduler=scheduler,
                           execution=execution, **options)


def table(result, *columns):
    return result.jobs.sort_values("job")[list(columns)].to_numpy().tolist()


def lost(at, until, server=0):
    return [{"at": at, "kind": "fail", "host": server, "restart": True},
            {"at": until, "kind": "repair", "host": server}]


@in_all
def test_a_job_preempted_as_it_has_restored_saves_nothing(execution):
    """Checkpoints and restores of 0.1 s; jobs of 10 x 1 s at 0, 0.2 s at 0.4, and 0.3 s at 0.8.

    Job 0 saves 0.4 s of progress until 0.5 and restores from 0.7 to 0.7 + 0.1, which is 0.8 as
    reals. It has made nothing since: job 2 starts at once, and ends at 1.1. Job 0 restores until
    1.2 and has 9.6 s left.
    """
    jobs = [ring(0, 0, 10, 1.0), ring(1, 0.4, 1, 0.2), ring(2, 0.8, 1, 0.3)]
    result = run(jobs, "srtf", execution,
                 preemption={"keep": "fraction", "checkpoint_s": 0.1, "restore_s": 0.1})
    assert table(result, "finish_s", "preemptions", "overhead_gpu_s") == [
        pytest.approx([10.8, 2, 0.3]), pytest.approx([0.7, 0, 0]), pytest.approx([1.1, 0, 0])]


@in_all
@pytest.mark.parametrize(("iterations", "iteration_s"), [(1, 0.2), (2, 0.1)])
def test_a_job_that_ends_as_its_server_fails_has_ended(execution, iterations, iteration_s):
    """It runs from 0.1 for 0.2 s; the server is lost at 0.3, and the job loses nothing."""
    result = run([ring(0, 0.1, iterations, iteration_s)], "fifo", execution, events=lost(0.3, 1))
    assert table(result, "finish_s", "restarts") == [pytest.approx([0.3, 0])]


@in_all
def test_an_iteration_that_ends_as_its_server_fails_is_kept(execution):
    """Three iterations of 0.2 s from 0.1 on, one of them by 0.3; two from 1 on, until 1.4."""
    result = run([ring(0, 0.1, 3, 0.2)], "fifo", execution, events=lost(0.3, 1))
    assert table(result, "finish_s", "restarts", "lost_gpu_s") == [
        pytest.approx([1.4, 1, 0], abs=1e-12)]


@in_all
def test_a_checkpoint_that_ends_as_a_server_fails_is_complete(execution):
    """Job 0 on two servers makes 2 of 5 iterations of 0.05 s by 0.1, and saves for 0.2 s.

    Server 0 is lost at 0.3, between GPUs and jobs: job 0 waits already and keeps what it saved,
    also with on_fault = "checkpoint". From 1 on it makes the other three, until 1.15.
    """
    jobs = [ring(0, 0, 5, 0.05, gpus=2), ring(1, 0.1, 1, 0.1)]
    result = run(jobs, "srtf", execution, gpus=(1, 1), events=lost(0.3, 1),
                 preemption={"checkpoint_s": 0.2, "on_fault": "checkpoint"})
    assert table(result, "finish_s", "preemptions", "restarts") == [
        pytest.approx([1.15, 1, 0]), pytest.approx([0.4, 0, 0])]


@in_all
def test_holding_a_run_at_an_instant_does_not_split_it(execution):
    """Job 0 ends at 0.1 + 0.2 as the shorter job 1 comes at 0.3, at which the run is held."""
    cluster, jobs = Cluster(gpus=[1], nic=1e9), [ring(0, 0.1, 2, 0.1), ring(1, 0.3, 1, 0.05)]
    sim = netsim.Simulation(cluster, jobs, scheduler="srtf", execution=execution)
    sim.run(until=0.3)
    sim.run()
    assert table(sim.result(), "finish_s", "preemptions") == [
        pytest.approx([0.3, 0]), pytest.approx([0.35, 0])]


class Thrashing:
    """Starts job 0, asks to be woken `later` than now, and preempts it then."""

    def __init__(self, later):
        self.later = later

    def decide(self, view):
        if view.running:
            return Decision((), [0])
        return Decision([(job, np.array([0])) for job in view.waiting], wake_at=self.later)


def test_a_job_is_not_preempted_at_the_instant_of_its_start_up_to_rounding():
    with pytest.raises(AllocationError, match="started at this very instant, 1 s"):
        run([ring(0, 1, 1, 1.0)], Thrashing(np.nextafter(1, 2)), "asrpt")


@pytest.mark.parametrize("name", ["tiresias", "tiresias-g"])
def test_who_starts_is_not_promoted(name):
    """One GPU, a threshold of 1, promotion after waiting twice the service; history 2, 3 and 9.

    Job 0 (4 s) is preempted at 1, at the threshold, by job 1 (2 s), which crosses at 2. Both are in
    the second queue then, with the same index: job 0 started first and goes on. It would have been
    promoted at 1 + 2. Nobody is asked at 3, when the index of job 1, 3/(1 + 2 + 8), is above that
    of job 0, 2/(1 + 7). At 2 + 2 job 1 is promoted, and makes its last second; job 0 ends at 6.
    """
    options = {"history": [2, 3, 9]} if name == "tiresias-g" else {}
    result = run([ring(0, 0, 4, 1.0), ring(1, 1, 2, 1.0)],
                 {"name": name, "thresholds": [1], "promote_knob": 2} | options, "asrpt")
    assert table(result, "finish_s", "promotions") == [[6, 0], [5, 1]]


# --- as the twin ----------------------------------------------------------------------------------

def tenths(least, most):
    """Seconds of which floats round the sums, so that instants differ in their last digits."""
    return st.integers(least, most).map(lambda each: Fraction(each, 10))


@st.composite
def cases(draw):
    """Servers, jobs, a policy with its options, costs and at most one fault."""
    servers = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    jobs = draw(st.lists(st.tuples(tenths(0, 40), st.integers(1, min(3, sum(servers))),
                                   st.integers(1, 12), tenths(1, 12)), min_size=1, max_size=6))
    name = draw(st.sampled_from(sorted(ORDERS)))
    options = {}
    if name == "sjf":
        options = {"by": draw(st.sampled_from(["gpus", "service", "time"]))}
    elif name in ("las", "gandiva-rr"):
        options = {"quantum_s": draw(tenths(30, 60))}
    elif name.startswith("tiresias"):
        low = draw(tenths(30, 60))
        options = {"thresholds": [low, low + draw(tenths(30, 60))],
                   "promote_knob": draw(st.none() | tenths(1, 30)),
                   "service": draw(st.sampled_from(["held", "run"]))}
    if name == "tiresias-g":
        options["history"] = draw(st.lists(tenths(1, 120), min_size=1, max_size=5))
    costs = {"keep": draw(st.sampled_from(["iterations", "fraction"])),
             "checkpoint_s": draw(tenths(0, 9)), "restore_s": draw(tenths(0, 9)),
             "on_fault": draw(st.sampled_from(["iterations", "checkpoint"]))}
    fault = draw(st.none() | st.tuples(tenths(0, 60), tenths(1, 60)))
    return servers, jobs, name, options, costs, fault


def in_floats(value):
    if isinstance(value, dict):
        return {key: in_floats(each) for key, each in value.items()}
    if isinstance(value, list):
        return [in_floats(each) for each in value]
    return float(value) if isinstance(value, Fraction) else value


def by_the_reference(servers, jobs, name, options, costs, fault):
    """The ends and counts of all jobs in exact arithmetic; None if they stall."""
    rows = [ClusterJob(number, *row) for number, row in enumerate(jobs)]
    faults = [] if fault is None else [ServerFault(fault[0], 0, "fail"),
                                       ServerFault(sum(fault), 0, "repair")]
    try:
        done = run_jobs(servers, rows, ORDERS[name](**options), costs=Costs(**costs),
                        faults=faults)
    except StalledError:
        return None
    return [[float(job.finish), job.preemptions, job.restarts, job.promotions]
            for job in sorted(done, key=lambda job: job.id)]


@pytest.mark.parametrize("execution", [EXECUTIONS[0], EXECUTIONS[2]])
@given(case=cases())
@settings(max_examples=examples(60), deadline=None)
def test_runs_are_those_of_the_reference(execution, case):
    """The engine in floats decides as the twin does in fractions."""
    servers, jobs, name, options, costs, fault = case
    expected = by_the_reference(*case)
    if expected is None:
        return
    specs = [ring(number, float(arrival), iterations, float(iteration_s), gpus)
             for number, (arrival, gpus, iterations, iteration_s) in enumerate(jobs)]
    result = run(specs, {"name": name} | in_floats(options), execution, servers,
                 preemption=in_floats(costs),
                 events=[] if fault is None else lost(float(fault[0]), float(sum(fault))))
    found = table(result, "finish_s", "preemptions", "restarts", "promotions")
    assert found == [pytest.approx(row, rel=1e-9) for row in expected]


class _SlowerOnHigherGpus(TimedExecution):
    """An iteration takes as many seconds as the number of its GPU."""

    def seconds(self, job, gpus):
        return float(gpus[0])


def test_a_job_that_moves_as_it_begins_ends_by_its_last_start():
    """4 iterations of 1 s; moved at once, of 3 s: the end is at 12 s, not at 4 s."""
    env, ends = simpy.Environment(), []
    execution = _SlowerOnHigherGpus(env, [ring(0, 0, 4, 1)])
    for gpu in (1, 3):
        execution.start(0, np.array([gpu]), 0.0, lambda job: ends.append((job, env.now)))
        if gpu == 1:
            assert execution.stop(0, 0.0, False) == 0.0
    env.run()
    assert ends == [(0, 12.0)]
