"""CASSINI beside any scheduler: when jobs that share links begin, and on which servers."""

import numpy as np
import pandas as pd
import pytest

import netsim
from netsim import Cluster, JobSpec, Stage
from netsim.errors import AllocationError, InputError

MB = 1e6


class InOrder:
    """A placement that gives free GPUs in a given order."""

    def __init__(self, order):
        self.order = order

    def scope(self, cluster, job, load):
        return np.array([gpu for gpu in self.order if gpu < cluster.total])

    def choose(self, cluster, job, candidates, load):
        return candidates[:job.ranks]


def leaves(count, gpus=1):
    """Leaves of two servers each; one link of 1 MB/s to the only spine, and one from it."""
    return Cluster(gpus=gpus, topology=netsim.leaf_spine(count, 1, 2, "1MB/s", oversubscription=2))


#: The first two jobs of two ranks are on both leaves, and share their links.
ACROSS = InOrder([0, 2, 1, 3, 4, 6, 5, 7])


def training(job, arrival_s=0.0, sends=0.5, iterations=10, ranks=2):
    """A job that computes, then sends from rank 0 to the last for a part of each second."""
    return JobSpec(job, arrival_s, iterations, ranks=ranks, estimate_s=iterations, stages=[
        Stage("all", [(0, ranks - 1, sends * MB)], compute_s=1 - sends)])


def run(cluster, jobs, execution="cassini", scheduler="fifo", placement=ACROSS, **others):
    return netsim.simulate(cluster, jobs, scheduler=scheduler, placement=placement,
                           execution=execution, **others)


def waits(result):
    """By how much jobs run later than they get their first GPUs."""
    first = result.gpus.groupby("job").first()
    return (first["run_s"] - first["start_s"]).tolist()


def servers(result):
    return [{int(each.split(":")[0]) for each in held.split()}
            for held in result.jobs["placement"]]


# --- when jobs begin -----------------------------------------------------------------------
@pytest.mark.parametrize("scheduler", ["fifo", "sjf", "srtf", "las:quantum_s=60"])
def test_two_jobs_on_a_link_send_in_turn(scheduler):
    """Both send for half of a second: side by side, each takes 1.5 s."""
    jobs = [training(0), training(1)]
    assert run(leaves(2), jobs, "fabric").jobs["jct_s"].tolist() == pytest.approx([15, 15])
    done = run(leaves(2), jobs, scheduler=scheduler)
    assert waits(done) == pytest.approx([0, 0.5])
    assert done.jobs["jct_s"].tolist() == pytest.approx([10, 10.5])
    assert done.jobs["start_s"].tolist() == [0, 0]
    assert done.jobs["overhead_gpu_s"].tolist() == pytest.approx([0, 2 * 0.5])


@pytest.mark.parametrize(("arrival_s", "wait_s"), [(3.25, 0.25), (3.5, 0), (3.75, 0.75), (20, 0)])
def test_where_others_are_in_their_iterations_counts(arrival_s, wait_s):
    """Job 0 begins an iteration each second; job 1 should half a second later. At 20 it is gone."""
    done = run(leaves(2), [training(0), training(1, arrival_s)])
    assert waits(done) == pytest.approx([0, wait_s])
    assert done.jobs["jct_s"].tolist() == pytest.approx([10, 10 + wait_s])


def test_a_third_job_fits_to_both():
    """Jobs of a quarter of a second each; three have to begin at different quarters.

    Job 1 arrives 0.125 s after job 0 and waits for as long again. Job 2 arrives with job 1, which
    has not begun yet, and waits until it has begun for 0.25 s.
    """
    cluster = Cluster(gpus=1, topology=netsim.leaf_spine(2, 1, 3, "1MB/s", oversubscription=3))
    jobs = [training(0, 0, 0.25), training(1, 0.125, 0.25), training(2, 0.125, 0.25)]
    done = run(cluster, jobs, placement=InOrder([0, 3, 1, 4, 2, 5]))
    assert waits(done) == pytest.approx([0, 0.125, 0.375])
    assert done.jobs["jct_s"].tolist() == pytest.approx([10, 10.125, 10.375])


def test_who_shares_no_link_or_fits_already_does_not_wait():
    done = run(leaves(2), [training(0), training(1)], placement="first-fit")
    assert waits(done) == [0, 0]
    slow = [training(0, 0, 0.125), training(1, 0.25, 0.125)]
    assert waits(run(leaves(2), slow)) == [0, 0]


def test_jobs_of_one_iteration_neither_wait_nor_are_waited_for():
    jobs = [training(0, iterations=1), training(1), training(2, 30), training(3, 30, iterations=1)]
    assert waits(run(leaves(2), jobs)) == [0, 0, 0, 0]


def test_ranks_that_compute_wait_as_well():
    """The same two jobs, whose ranks compute for themselves."""
    jobs = [JobSpec(k, 0.0, 10, ranks=2, stages=[
        Stage("compute", ranks=[0], compute_s=0.5), Stage("send", [(0, 1, 0.5 * MB)],
                                                          after=["compute"])]) for k in range(2)]
    done = run(leaves(2), jobs)
    assert done.jobs["jct_s"].tolist() == pytest.approx([10, 10.5])


# --- on which servers ----------------------------------------------------------------------
@pytest.mark.parametrize("scheduler", ["fifo", "srtf"])
def test_the_candidate_that_fits_best_is_taken(scheduler):
    """Jobs that send for 3/4 of the time cannot share a link, and need not on four leaves."""
    jobs = [training(0, sends=0.75), training(1, sends=0.75)]
    own = run(leaves(4), jobs, "cassini:candidates=1", scheduler)
    assert servers(own) == [{0, 2}, {1, 3}]
    assert own.jobs["jct_s"].max() > 14
    done = run(leaves(4), jobs, scheduler=scheduler)
    assert servers(done)[0] == {0, 2}
    assert {server // 2 for server in servers(done)[1]} != {0, 1}
    assert done.jobs["jct_s"].tolist() == pytest.approx([10, 10])


def test_the_scheduler_s_own_placement_comes_first():
    """If it is among the best: here all are alike, as jobs fit."""
    jobs = [training(k, k / 4, 0.2) for k in range(2)]
    assert servers(run(leaves(4), jobs)) == servers(run(leaves(4), jobs, "fabric"))


@pytest.mark.parametrize("seed", range(3))
def test_candidates_are_like_the_placement_of_the_scheduler(seed):
    """All jobs of a decision get GPUs of their own, on as many servers as they had."""
    cluster = leaves(4, gpus=4)
    jobs = netsim.Workload([training(k, 0.5 * (k // 4), 0.75, ranks=3) for k in range(8)],
                           seed=seed)
    placement = f"random:seed={seed}"
    own, done = (run(cluster, jobs, each, placement=placement) for each in ("fabric", "cassini"))
    first = slice(4)  # which get GPUs at 0, before anything else has happened
    assert own.jobs["servers"].tolist()[first] == done.jobs["servers"].tolist()[first]
    assert own.jobs["placement"].tolist()[first] != done.jobs["placement"].tolist()[first]
    pd.testing.assert_frame_equal(done.jobs, run(cluster, jobs, placement=placement).jobs)


def test_slower_servers_are_no_candidates():
    """All free servers are slow, or the link would be shared."""
    jobs = [training(0, sends=0.75), training(1, sends=0.75)]
    done = run(leaves(4), jobs, stragglers=dict.fromkeys(range(4, 8), 2))
    assert servers(done) == [{0, 2}, {1, 3}]


def test_schedulers_that_choose_gpus_are_not_overruled():
    """Their jobs only wait."""
    jobs = [JobSpec(k, 0, 20, pattern="ring-all-reduce", ranks=2, nbytes=MB, compute_s=1)
            for k in range(2)]
    cluster = Cluster(gpus=[1] * 4, nic="1MB/s")
    own, done = (netsim.simulate(cluster, jobs, scheduler="sjf-bco", execution=each)
                 for each in ("fabric", "cassini"))
    assert own.jobs["placement"].tolist() == done.jobs["placement"].tolist()


def test_gpus_that_are_given_twice_are_refused():
    class Twice:
        def decide(self, view):
            return [(job, np.array([1, 3] if job else [0, 2])) for job in view.waiting]

    with pytest.raises(AllocationError, match="GPUs that are taken"):
        run(leaves(4), [training(0), training(1, 1), training(2, 1)], scheduler=Twice())


@pytest.mark.parametrize("candidates", [0, 1.5, "many"])
def test_bad_numbers_of_candidates(candidates):
    with pytest.raises(InputError, match="candidates must be a whole number of at least 1"):
        run(leaves(2), [training(0)], {"name": "cassini", "candidates": candidates})


# --- jobs that are stopped, and runs that are held ------------------------------------------
def test_a_job_may_be_preempted_while_it_waits():
    """The shorter job 2 takes the servers of job 1, which waits until 0.5; then it begins anew."""
    jobs = [training(0, iterations=5), training(1), training(2, 0.25, iterations=4)]
    done = run(leaves(2), jobs, "cassini:candidates=1", "srtf")
    assert done.jobs["preemptions"].tolist() == [0, 1, 0]
    assert done.gpus["stop_s"][2:4].tolist() == [0.25] * 2  # of job 1, which never ran
    assert waits(done) == pytest.approx([0, 0.25, 0.25])
    assert done.jobs["jct_s"].tolist()[::2] == pytest.approx([5, 4.25])
    assert done.jobs["jct_s"][1] == pytest.approx(4.5 + 10)


def test_a_job_that_comes_back_fits_to_others_again():
    """Server 3 fails at 2.7 and is back at 4.1: job 1 has made two iterations of one second."""
    lost = [{"at": 2.7, "kind": "fail", "host": 3, "restart": True},
            {"at": 4.1, "kind": "repair", "host": 3}]
    done = run(leaves(2), [training(0, iterations=20), training(1)], "cassini:candidates=1",
               events=lost)
    last = done.gpus[done.gpus["job"] == 1].iloc[-1]
    assert (last["start_s"], last["run_s"]) == pytest.approx((4.1, 4.5))
    assert done.jobs["jct_s"].tolist() == pytest.approx([20, 4.5 + 8])


@pytest.mark.parametrize("until", [0.25, 0.5, 1.3])
def test_held_and_forked_runs(until):
    """Held while a job waits, at the instant at which it begins, and later."""
    jobs = [training(0, sends=0.5), training(1, sends=0.5), training(2, 1.0, 0.75)]
    options = {"scheduler": "srtf", "placement": ACROSS, "execution": "cassini"}
    expected = run(leaves(4), jobs, scheduler="srtf")
    sim = netsim.Simulation(leaves(4), jobs, **options)
    sim.run(until=until)
    for each in (sim.fork(), sim):
        result = each.run().result()
        pd.testing.assert_frame_equal(result.jobs, expected.jobs)
        pd.testing.assert_frame_equal(result.gpus, expected.gpus)
