"""Preemption in runs, by hand: what jobs keep, pay and lose, and what schedulers may decide."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim import Cluster, History, JobSpec, Stage, Workload
from netsim.engine.view import Decision
from netsim.errors import AllocationError, InputError, StalledError
from tests.conformance.test_schedulers import ON_CLUSTERS, quick
from tests.examples import examples

#: In these an iteration of a ring without bytes takes its computation alone.
EXECUTIONS = ["rar-contention:time=continuous", "asrpt", "fabric", "cassini"]
in_all = pytest.mark.parametrize("execution", EXECUTIONS)

MB = 1e6
ONE, TWO = Cluster(gpus=[1]), Cluster(gpus=[1, 1], nic=MB)
ACCOUNTS = ["useful_gpu_s", "lost_gpu_s", "overhead_gpu_s"]


def ring(number, arrival_s, iterations, iteration_s, gpus=1, nbytes=0.0, **others):
    """A job; its estimate is exact if it has no bytes."""
    return JobSpec(number, arrival_s, iterations, pattern="ring-all-reduce", ranks=gpus,
                   nbytes=nbytes, compute_s=iteration_s,
                   **{"estimate_s": iterations * iteration_s} | others)


def run(jobs, scheduler, execution="asrpt", cluster=ONE, preemption=None, **options):
    return netsim.simulate(cluster, Workload(jobs), scheduler=scheduler, execution=execution,
                           preemption=preemption, **options)


def by_job(result):
    """The table of jobs in the order of their numbers."""
    return result.jobs.sort_values("job", ignore_index=True)


def ends(result):
    return by_job(result)["finish_s"].tolist()


class At:
    """Decides as given for some instants: jobs with GPUs to start, and jobs to preempt."""

    def __init__(self, decisions):
        self.decisions = decisions

    def decide(self, view):
        later = min((at for at in self.decisions if at > view.now), default=math.inf)
        start, preempt = self.decisions.get(view.now, ((), ()))
        return Decision(start, preempt, later)


# --- policies -------------------------------------------------------------------------------------

@in_all
@pytest.mark.parametrize("d", [1, 2, 3.5, 8])
@pytest.mark.parametrize("keep", ["iterations", "fraction"])
def test_a_short_job_comes(keep, d, execution):
    """Job 0, 12 iterations of d s, is preempted at t = 7 for job 1, one of d/2 s.

    It keeps k = floor(7/d) iterations or k = 7/d. With 2 s for a checkpoint and 1 s for a restore,
    where k > 0, job 1 ends at 7 + 2 + d/2, and job 0 at 7 + 2 + d/2 + 1 + (12 - k) d. Where k = 0,
    nothing is saved or restored, and all 7 s are lost.
    """
    result = run([ring(0, 0, 12, d), ring(1, 7, 1, d / 2)], "srtf", execution,
                 preemption={"keep": keep, "checkpoint_s": 2, "restore_s": 1})
    kept = 7 // d if keep == "iterations" else 7 / d
    short = 7 + 2 * (kept > 0) + d / 2
    assert ends(result) == pytest.approx([short + (kept > 0) + (12 - kept) * d, short])
    assert by_job(result).loc[0, ACCOUNTS].tolist() == pytest.approx(
        [12 * d, 7 - kept * d, 3 * (kept > 0)])
    assert by_job(result)["preemptions"].tolist() == [1, 0]


@in_all
@pytest.mark.parametrize("knob", [0.5, 0.75])
def test_a_wide_job_crosses_a_threshold_and_is_promoted(knob, execution):
    """Two jobs of two GPUs on two; with T = 8 GPU-seconds in the first queue each has T/2 s there.

    Job 0 (8 s) crosses at T/2 and waits. It has had T/2 s, is promoted k T/2 later, and is before
    job 1 (4 s) then, which started later. It crosses again after T/2 s, at (2 + k) T/2. Job 1 has
    had k T/2 s of its T/2 and ends at 3 T/2; job 0 has had T s of 2 T and ends at 5 T/2. It would
    have been promoted once more at (2 + 2 k) T/2: at that very instant if k = 1/2, not if k = 3/4.
    """
    result = run([ring(0, 0, 8, 2, gpus=2), ring(1, 1, 16, 0.25, gpus=2)],
                 {"name": "tiresias", "thresholds": [8], "promote_knob": knob}, execution, TWO)
    gpu = result.gpus[(result.gpus["server"] == 0)].sort_values("start_s")
    assert gpu["job"].tolist() == [0, 1, 0, 1, 0]
    assert gpu["end_s"].tolist() == pytest.approx([4, 4 + 4 * knob, 8 + 4 * knob, 12, 20])
    assert by_job(result)["promotions"].tolist() == [1 + (knob == 0.5), 0]


@in_all
@pytest.mark.parametrize("restore_s", [0, 0.5])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_jobs_in_a_ring(count, restore_s, execution):
    """Job i = 1 .. J of three slices of q s of progress takes every J-th slice.

    The first ones cost nothing; all others a restore of r s if J > 1. So it ends at
    J q + (J + i)(q + r).
    """
    q = 3
    result = run([ring(k, 0, 3 * q, 1) for k in range(count)],
                 {"name": "gandiva-rr", "quantum_s": q}, execution,
                 preemption={"restore_s": restore_s})
    each_s = q + restore_s * (count > 1)
    assert ends(result) == pytest.approx(
        [count * q + (count + place) * each_s for place in range(1, count + 1)])
    assert by_job(result)["preemptions"].tolist() == [2 * (count > 1)] * count


@in_all
def test_slices_that_are_too_short(execution):
    """Iterations of 2 s after a restore of 3/2 s, a quantum of 3 s: soon nothing is kept.

    Job 1 comes at 1, when job 0 has had 1 s, so that the two are never equal, and take turns. Each
    makes an iteration in its first 3 s, as there is nothing to restore yet, and then none.
    """
    with pytest.raises(StalledError, match=r"job [01] has been preempted 1000 times in a row by "
                                           r"scheduler .*las.* shorter than restore_s, 1\.5 s"):
        run([ring(0, 0, 5, 2), ring(1, 1, 5, 2)], {"name": "las", "quantum_s": 3}, execution,
            preemption={"restore_s": 1.5})


# --- what is moved and sent -------------------------------------------------------------------

def moved(count, source, target, execution, own=None, cluster=TWO):
    """Move jobs of ten iterations of 1 s at 4 s, and then restore for 1 s; return their ends."""
    jobs = [ring(k, 0, 10, 1, len(source[k]), state_bytes=own) for k in range(count)]
    return ends(run(jobs, At({0: (list(enumerate(source)), ()),
                              4: (list(enumerate(target)), range(count))}), execution, cluster,
                    {"restore_s": 1, "state_bytes": 3 * MB}))


@in_all
def test_a_job_moves_with_its_state(execution):
    """3 MB at 1 MB/s, or 5 MB of its own: it runs from 4 + 3 + 1 on, or 4 + 5 + 1, for 6 s."""
    assert moved(1, [[0]], [[1]], execution) == pytest.approx([14])
    assert moved(1, [[0]], [[1]], execution, own=5 * MB) == pytest.approx([16])
    same = Cluster(gpus=[2], nic=MB)
    assert moved(1, [[0]], [[1]], execution, cluster=same) == pytest.approx([11])  # 4 + 1 + 6


@pytest.mark.parametrize("spine", [0, 1])
def test_state_takes_another_path_when_a_link_fails(spine):
    """3 MB at 1 MB/s from 4 on, through either of two spines; one fails at 5, and stays dead.

    The job runs from 4 + 3 + 1 on for 6 s, as if both were there.
    """
    network = netsim.leaf_spine(2, 2, 1, MB, uplink=MB)
    result = run([ring(0, 0, 10, 1)], At({0: ([(0, [0])], ()), 4: ([(0, [1])], [0])}), "fabric",
                 Cluster(gpus=[1, 1], topology=network), {"restore_s": 1, "state_bytes": 3 * MB},
                 events=[{"at": 5, "kind": "fail", "switch": f"spine-{spine}"}])
    assert ends(result) == pytest.approx([14])


def fails(at, *servers, restart=True):
    """Servers are lost, for good."""
    return [{"at": at, "kind": "fail", "host": server, "restart": restart} for server in servers]


@in_all
def test_state_of_a_job_whose_servers_are_lost_comes_from_storage(execution):
    """Server 0 is lost at 5 with five iterations made: 3 MB at 1 MB/s and 1 s, then five more."""
    result = run([ring(0, 0, 10, 1)], "fifo", execution, TWO,
                 {"restore_s": 1, "state_bytes": 3 * MB}, events=fails(5, 0))
    assert ends(result) == pytest.approx([5 + 3 + 1 + 5])


@pytest.mark.parametrize("restart", [False, True])
def test_state_of_a_preempted_job_whose_server_is_lost_later(restart):
    """Preempted at 4, its server lost at 5, started elsewhere at 6: it runs from 6 + 3 + 1 on."""
    at = At({0: ([(0, [0])], ()), 4: ((), [0]), 6: ([(0, [1])], ())})
    result = run([ring(0, 0, 10, 1)], at, "fabric", TWO,
                 {"restore_s": 1, "state_bytes": 3 * MB}, events=fails(5, 0, restart=restart))
    assert ends(result) == pytest.approx([6 + 3 + 1 + 6])


def test_state_comes_from_a_server_that_is_left():
    """A job on servers 0 and 1 loses server 0 at 5, and goes on on 1 and 2: 3 MB from 1 to 2.

    Of three iterations of 1 s and 1 MB each way, which are 2 s, two were made by 4, and the third
    is made anew from 5 + 3 + 1 on. Server 1 sends the state and this iteration more than server 0.
    """
    result = run([ring(0, 0, 3, 1, 2, MB)], "fifo", "fabric", Cluster(gpus=[1, 1, 1], nic=MB),
                 {"restore_s": 1, "state_bytes": 3 * MB}, events=fails(5, 0), record=("links",))
    assert ends(result) == pytest.approx([5 + 3 + 1 + 2])
    sent = result.links.groupby("link", observed=True)["bytes"].sum()
    assert sent["egress-1"] - sent["egress-0"] == pytest.approx(3 * MB + MB)


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("others", [(), (1,)])
def test_a_server_is_lost_while_it_sends_state(others, restart):
    """Ten iterations of 1 s, on servers 0 and 1 until 4, on 2 and 3 from then on.

    Of 3 MB for each of the two, at 0.5 MB/s each, 2 MB are left at 6, when server 0 is lost. They
    come from server 1, in 4 s; or if that is lost as well, from storage, in 2 s as by formula. It
    restores for 1 s, and makes the last six iterations.
    """
    at = At({0: ([(0, [0, 1])], ()), 4: ([(0, [2, 3])], [0])})
    result = run([ring(0, 0, 10, 1, 2)], at, "fabric", Cluster(gpus=[1, 1, 1, 1], nic=MB),
                 {"restore_s": 1, "state_bytes": 3 * MB}, record=("coflows",),
                 events=fails(6, 0, *others, restart=restart))
    assert ends(result) == pytest.approx([6 + (2 if others else 4) + 1 + 6])
    moved = result.other_coflows.query("why == 'state'")["bytes"].tolist()
    assert moved == pytest.approx([2 * MB] if others else [2 * MB, 4 * MB])


def test_a_server_is_lost_as_it_has_sent_state():
    """All 3 MB have arrived at 4 + 3, and are not sent again."""
    at = At({0: ([(0, [0])], ()), 4: ([(0, [1])], [0])})
    result = run([ring(0, 0, 10, 1)], at, "fabric", TWO,
                 {"restore_s": 1, "state_bytes": 3 * MB}, events=fails(7, 0))
    assert ends(result) == pytest.approx([14])


def test_state_that_moves_is_active():
    """3 MB go to server 1 in [4, 7]: at 5 there are 2 MB left, of a coflow without a number."""
    at = At({0: ([(0, [0])], ()), 4: ([(0, [1])], [0])})
    sim = netsim.Simulation(TWO, [ring(7, 0, 10, 1)], scheduler=at, execution="fabric",
                            preemption={"state_bytes": 3 * MB})
    sim.run(until=5)
    (row,) = sim.active().to_dict("records")
    assert {name: row[name] for name in ("coflow", "job", "stage", "left_bytes", "rate")} == {
        "coflow": -1, "job": 7, "stage": "state", "left_bytes": 2 * MB, "rate": MB}
    assert sim.flows()[["coflow", "job", "src", "dst"]].to_numpy().tolist() == [[-1, 7, 0, 1]]
    assert sim.fork().active()["stage"].tolist() == ["state"]
    sim.run(until=7)
    assert sim.active().empty
    assert sim.flows().empty


@in_all
def test_state_shares_ports_on_the_fabric(execution):
    """To two servers, or two jobs from one server to another, 6 MB leave one port at 1 MB/s.

    By formula a move is one transfer at the rate of a NIC, whatever else moves.
    """
    move_s = 6 if execution in ("fabric", "cassini") else 3
    three = Cluster(gpus=[2, 2, 2], nic=MB)
    assert moved(1, [[0, 1]], [[2, 4]], execution, cluster=three) == pytest.approx([11 + move_s])
    assert moved(2, [[0], [1]], [[2], [3]], execution, cluster=three) == pytest.approx(
        [11 + move_s] * 2)


@pytest.mark.parametrize("allocator", ["maxmin", "parrot"])
@pytest.mark.parametrize(("keep", "end", "lost_s", "lost_bytes"), [
    ("iterations", 12, 2, 2 * MB), ("fraction", 10, 0, 0)])
def test_coflows_in_flight(keep, end, lost_s, lost_bytes, allocator):
    """Three iterations of d = 1 + 2 s: each of two servers sends 2 MB at 1 MB/s. Stopped in [5, 6].

    By 5, two seconds of the second one are made, and 1 MB of each flow is sent. From 6 on two
    iterations are left, or 1 s and an iteration. Links carry 3 * 4 MB, and what was lost.
    """
    gpus = [(0, [0, 1])]
    result = run([ring(0, 0, 3, 1, 2, 2 * MB)], At({0: (gpus, ()), 5: ((), [0]), 6: (gpus, ())}),
                 "fabric", TWO, {"keep": keep}, allocator=allocator, record=("links",))
    assert ends(result) == pytest.approx([end])
    assert by_job(result).loc[0, ACCOUNTS].tolist() == pytest.approx([18, 2 * lost_s, 0])
    assert by_job(result).loc[0, ["bytes", "lost_bytes"]].tolist() == pytest.approx(
        [12 * MB, lost_bytes])
    carried = result.links.groupby("link", observed=True)["bytes"].sum()
    assert carried[["egress-0", "egress-1"]].sum() == pytest.approx(12 * MB + lost_bytes)
    assert result.summary()["lost_bytes"] == pytest.approx(lost_bytes)
    assert not {"lost_s", "restarts"} & {*result.summary()}  # no server can be lost


@pytest.mark.parametrize("keep", ["iterations", "fraction"])
def test_computation_that_is_left(keep):
    """As above, but stopped in [3.5, 6], half a second into the computation of 1 s.

    From 6 on two iterations of 3 s are left, or those but for half a second; nothing was sent.
    """
    gpus = [(0, [0, 1])]
    result = run([ring(0, 0, 3, 1, 2, 2 * MB)], At({0: (gpus, ()), 3.5: ((), [0]), 6: (gpus, ())}),
                 "fabric", TWO, {"keep": keep})
    assert ends(result) == pytest.approx([12 if keep == "iterations" else 11.5])
    assert result.jobs["lost_bytes"].tolist() == [0]


# --- lost servers -----------------------------------------------------------------------------

class Interrupts:
    """Preempts the job at 5 s, and starts it at 0 s and from 8 s on."""

    def decide(self, view):
        room = view.room()
        placed = [(job, room.place(job)) for job in view.pending if view.now == 0 or view.now >= 8]
        starts = [(job, gpus) for job, gpus in placed if gpus is not None]
        later = min((at for at in (5, 8) if at > view.now), default=math.inf)
        return Decision(starts, [0] if view.now == 5 and view.running else (), later)


@in_all
@pytest.mark.parametrize(("on_fault", "lost_at", "whole", "part"), [
    ("iterations", 3, 1, 1), ("iterations", 6, 2, 2.5), ("iterations", 9, 2, 2.5),
    ("iterations", 14, 3, 4), ("checkpoint", 3, 0, 0), ("checkpoint", 6, 0, 0),
    ("checkpoint", 9, 2, 2.5), ("checkpoint", 14, 2, 2.5)])
@pytest.mark.parametrize("keep", ["iterations", "fraction"])
def test_a_server_is_lost(keep, on_fault, lost_at, whole, part, execution):
    """Iterations of 2 s: two and a half until 5, saved until 7; restored in [8, 11], and so on.

    The server is lost while the job runs (at 3), saves (6), restores (9), or runs (14), and is
    repaired at 20. With "iterations" a job keeps its whole ones, 1, 2, 2 and 2 + 1; or what it has
    saved, or was saving, if that is more. So where parts are saved it keeps 5/2 at 6 and 9; at 14
    it has made 5/2 + 3/2. With "checkpoint" it keeps what it had when it got its GPUs.
    """
    kept = whole if keep == "iterations" else part
    events = [{"at": lost_at, "host": 0, "kind": "fail", "restart": True},
              {"at": 20, "host": 0, "kind": "repair"}]
    result = run([ring(0, 0, 12, 2)], Interrupts(), execution, events=events,
                 preemption={"keep": keep, "checkpoint_s": 2, "restore_s": 3, "on_fault": on_fault})
    assert ends(result) == pytest.approx([20 + 3 * (kept > 0) + (12 - kept) * 2])
    ran_s = min(lost_at, 5) + max(lost_at - 11, 0)
    paid_s = min(max(lost_at - 5, 0), 2) + min(max(lost_at - 8, 0), 3) + 3 * (kept > 0)
    assert by_job(result).loc[0, ACCOUNTS].tolist() == pytest.approx([24, ran_s - 2 * kept, paid_s])
    assert by_job(result).loc[0, ["preemptions", "restarts"]].tolist() == [int(lost_at > 5), 1]


class Faulty(At):
    """Decides as given, unless the server is lost from `lost_at` on; it is back at 20 s."""

    def __init__(self, lost_at, decisions):
        super().__init__({20: (decisions[0][0], ())} | decisions)
        self.lost_at = lost_at

    def decide(self, view):
        now = super().decide(view)
        there = not self.lost_at <= view.now < 20
        return Decision([(job, gpus) for job, gpus in now.start if there and job in view.pending],
                        [job for job in now.preempt if job in view.running], now.wake_at)


RING = ring(0, 0, 5, 1, 2, 2 * MB)
#: The coflow of "a" ends after 1 s, and is held until "b" ends after 3 s.
HELD = JobSpec(0, 0, 4, ranks=2, stages=[
    Stage("a", [(0, 1, MB)], finishes_before=["b"]), Stage("b", [(1, 0, 2 * MB)], "1s")])
#: On GPUs 0, 1 and 2, a flow of "b" is inside a server, and has a stage of its own.
INSIDE = JobSpec(0, 0, 4, ranks=3, stages=[
    Stage("a", [(0, 2, MB)]),
    Stage("b", [(0, 1, 2 * MB), (0, 2, 2 * MB)], "1s", after=["a"])])


@pytest.mark.parametrize("on_fault", ["iterations", "checkpoint"])
@pytest.mark.parametrize(("job", "cluster", "gpus", "others", "nbytes"), [
    (RING, TWO, [0, 1], [0, 1], 20 * MB), (HELD, TWO, [0, 1], [0, 1], 12 * MB),
    (INSIDE, Cluster(gpus=[2, 2], nic=MB, intra=10 * MB), [0, 1, 2], [0, 2, 3], None)],
    ids=["ring", "held", "other stages"])
def test_links_carry_what_counts_and_what_is_lost(job, cluster, gpus, others, nbytes, on_fault):
    """Preempted at `first`, back at 6, perhaps preempted again until 12, and lost at `lost_at`.

    Whatever was sent, in whole coflows and in parts of them, is of use once or is lost.
    """
    for first, second, lost_at, checkpoint_s in itertools.product(
            [0.5, 2, 4.5], [None, 6.5, 8.5], [6.75, 8.5, 13, 16], [0, 0.75]):
        decisions = {0: ([(0, gpus)], ()), first: ((), [0]), 6: ([(0, others)], ())}
        if second is not None:
            decisions |= {second: ((), [0]), 12: ([(0, gpus)], ())}
        result = run([job], Faulty(lost_at, decisions), "fabric", cluster,
                     {"keep": "fraction", "checkpoint_s": checkpoint_s, "on_fault": on_fault},
                     record=("links",), events=[
                         {"at": lost_at, "host": 0, "kind": "fail", "restart": True},
                         {"at": 20, "host": 0, "kind": "repair"}])
        row, = result.jobs.to_dict("records")
        carried = result.links.groupby("link", observed=True)["bytes"].sum().filter(like="egress")
        assert carried.sum() == pytest.approx(row["bytes"] + row["lost_bytes"])
        if nbytes is not None:
            assert row["bytes"] == pytest.approx(nbytes)


def test_an_iteration_that_has_other_stages_elsewhere_is_lost():
    """On GPUs 0, 1 and 2 an iteration takes 1 + 1 + 2 s, and on 0, 2 and 3 it takes 1 + 1 + 4 s.

    Preempted at 7, after 3 s of the second one, with 1 MB of "a" and of "b" sent, the job begins it
    again at 8: three of 6 s. It held GPUs for 7 + 18 s, of which 3 are lost.
    """
    jobs = run([INSIDE], At({0: ([(0, [0, 1, 2])], ()), 7: ((), [0]), 8: ([(0, [0, 2, 3])], ())}),
               "fabric", Cluster(gpus=[2, 2], nic=MB, intra=10 * MB), {"keep": "fraction"}).jobs
    assert jobs[["finish_s", "lost_bytes", *ACCOUNTS]].to_numpy().tolist() == [
        [26, 2 * MB, 3 * 22, 3 * 3, 0]]


#: A start on GPUs of two servers, and a preemption within the first iteration.
BEFORE = {0: ([(0, [0, 1, 2])], ()), 0.75: ((), [0])}


class Redrawn:
    """Half of the iterations have a second flow, which is inside a server on GPUs 0, 1 and 2."""

    def stages(self, ranks, nbytes, rng):
        more = [(0, 1, nbytes)] if rng.random() < 0.5 else []
        return [Stage("a", [(0, 2, nbytes)]),
                Stage("b", [(0, 2, nbytes), *more], "0.5s", after=["a"]),
                Stage("c", [(2, 0, nbytes)], finishes_before=["b"])]


@pytest.mark.parametrize("gpus", [[0, 1, 2], [0, 2, 3], [0, 2, 1]])
@pytest.mark.parametrize("number", range(8))
def test_going_back_is_continuing_where_it_began(gpus, number):
    """Preempted at 0.75, back at 1.75, lost at 4, in a later iteration, and back on `gpus` at 20.

    This is as if it were back at 20 only, whichever stages the iterations in between had.
    """
    job = JobSpec(number, 0, 4, ranks=3, pattern=Redrawn(), nbytes=MB, redraw=True)
    lost, late = (run([job], scheduler, "fabric", Cluster(gpus=[2, 2], nic=MB, intra=10 * MB),
                      {"keep": "fraction", "on_fault": "checkpoint"}, events=[
                          {"at": 4, "host": 0, "kind": "fail", "restart": True},
                          {"at": 20, "host": 0, "kind": "repair"}])
                  for scheduler in (
                      Faulty(4, BEFORE | {1.75: BEFORE[0], 20: ([(0, gpus)], ())}),
                      Faulty(4, BEFORE | {20: ([(0, gpus)], ())})))
    columns = ["finish_s", "bytes", "coflows"]
    assert lost.jobs[columns].to_numpy().tolist() == late.jobs[columns].to_numpy().tolist()


def test_parts_that_were_sent_before_the_last_start_count_once():
    """Each of two flows of 2 MB has 1 MB left at 2, when the job is preempted; it is back at 6.

    The first iteration ends at 7, and a server is lost: the job goes back to where it was at 6. The
    2 MB since then are lost, and are sent again from 20 to 21; four iterations of 3 s follow.
    """
    gpus = [(0, [0, 1])]
    result = run([RING], Faulty(7, {0: (gpus, ()), 2: ((), [0]), 6: (gpus, ())}), "fabric", TWO,
                 {"keep": "fraction", "on_fault": "checkpoint"}, events=[
                     {"at": 7, "host": 0, "kind": "fail", "restart": True},
                     {"at": 20, "host": 0, "kind": "repair"}])
    assert result.jobs[["finish_s", "bytes", "lost_bytes"]].to_numpy().tolist() == [
        [33, 20 * MB, 2 * MB]]
    assert result.other_coflows[["end_s", "bytes", "why"]].to_numpy().tolist() == [
        [2, 2 * MB, "withdrawn"], [7, 2 * MB, "repeated"]]


# --- what is no decision ----------------------------------------------------------------------

@pytest.mark.parametrize(("at_4", "later", "message"), [
    (((), [0, 0]), {}, "preempts the job with index 0 twice in one decision"),
    (((), [0]), {5: ((), [0])}, "preempts job 5, which saves its progress already, until 6 s"),
    (((), [0]), {5: ([(1, [0])], ())},
     r"gives job 6 GPUs that are taken: \[0\]; job 5 saves its progress on \[0\] until 6 s"),
    (((), [0]), {5: ([(0, [1])], ())},
     "starts the job with index 0, job 5, which is not waiting; it saves its progress until 6 s"),
    (([(0, [1])], [0]), {}, "moves job 5, which has to save its progress first, until 6 s"),
    (([(1, [0])], [0]), {},
     r"gives job 6 GPUs that are taken: \[0\]; job 5 saves its progress on \[0\] until 6 s"),
    (((), [1]), {}, "preempts job 6, which holds no GPUs"),
    (((), [2]), {}, "preempts job 7, which holds no GPUs"),  # yet to come
    (([(2, [1])], ()), {}, "starts the job with index 2, job 7, which is not waiting"),
    (([(1, [1])], ()), {10: ((), [0])}, "preempts job 5, which holds no GPUs"),  # it is done
    (([(0, [1])], ()), {}, "starts the job with index 0, job 5, which is not waiting$")])
def test_illegal_decisions(at_4, later, message):
    """Two GPUs; job 5 runs for 10 s, and saves for 2 s; job 6 waits, and job 7 comes at 100 s."""
    jobs = [ring(5, 0, 10, 1), ring(6, 0, 10, 1), ring(7, 100, 1, 1)]
    with pytest.raises(AllocationError, match=rf"scheduler \S*At {message}"):
        run(jobs, At({0: ([(0, [0])], ()), 4: at_4} | later), cluster=TWO,
            preemption={"checkpoint_s": 2})


@pytest.mark.parametrize(("second", "message"), [
    (Decision(preempt=[0]), "preempts job 5, which has been started at this very instant, 0 s"),
    (Decision(wake_at=0.0), "asks to be woken at 0.0 s, which is not after 0")])
def test_second_decisions_of_an_instant(second, message):
    class Twice:
        def decide(self, view):
            return second if view.running else Decision([(0, [0])], wake_at=view.now)

    with pytest.raises(AllocationError, match=rf"scheduler \S*Twice {message}"):
        run([ring(5, 0, 10, 1)], Twice())


@pytest.mark.parametrize(("second", "named"), [
    (((), [0]), r"1 waiting: job 5 \(1 GPUs\); it has preempted 1 of them, .* again: job 5$"),
    (([(1, [0])], [0]), r"it has preempted 1 of them, .*: job 5$")])
def test_preempted_and_never_started_again(second, named):
    """Job 5 runs on the only GPU, and is preempted at 4 s for nobody, or for job 6."""
    with pytest.raises(StalledError, match=named):
        run([ring(5, 0, 10, 1), ring(6, 0, 1, 1)] if second[0] else [ring(5, 0, 10, 1)],
            At({0: ([(0, [0])], ()), 4: second}))


def test_moved_to_the_gpus_that_it_had():
    """In whichever order they are named; on others, it moves."""
    def end(gpus):
        cluster = Cluster(gpus=[3])
        return ends(run([ring(5, 0, 10, 1, 2)], At({0: ([(0, [0, 1])], ()), 4: ([(0, gpus)], [0])}),
                        cluster=cluster, preemption={"restore_s": 1}))

    assert end([1, 2]) == [11]
    with pytest.raises(AllocationError, match=r"At moves job 5 to the GPUs that it had: \[1, 0\]"):
        end([1, 0])


# --- whatever the jobs ----------------------------------------------------------------------------

#: Arrival, iterations and seconds of one, in eighths of a second: there are ties.
one_gpu = st.tuples(st.integers(0, 80), st.integers(1, 6), st.integers(1, 16))
#: Jobs of the past, which some schedulers learn from.
PAST = History(np.array([0, 0, 1]), np.array([0, 0, 0]), np.array([2.0, 4.0, 3.0]))
#: Schedulers that plan for jobs which are there from the beginning.
PLANS = {"ff", "ls", "rand", "sjf-bco"}


def finish_of(scheduler, jobs):
    """The ends under a scheduler; None if it refuses the jobs."""
    try:
        return netsim.simulate(ONE, Workload(jobs, history=PAST), scheduler=scheduler,
                               execution="rar-contention:time=continuous",
                               preemption={"keep": "fraction"}).jobs["finish_s"]
    except InputError:
        return None


@settings(max_examples=examples(30))
@given(st.lists(one_gpu, min_size=2, max_size=5), st.booleans())
def test_srtf_has_the_least_mean_jct(rows, at_once):
    """On one GPU without costs, of all schedulers that run there (Schrage 1968)."""
    jobs = [ring(k, 0 if at_once else arrival / 8, iterations, d / 8)
            for k, (arrival, iterations, d) in enumerate(rows)]
    least = finish_of("srtf", jobs).mean()
    found = {name: finish_of(quick(name), jobs) for name in ON_CLUSTERS}
    means = {name: finish.mean() for name, finish in found.items() if finish is not None}
    late = any(job.arrival_s for job in jobs)
    assert set(ON_CLUSTERS) - means.keys() == (PLANS if late else set())
    assert {name: mean for name, mean in means.items() if mean < least * (1 - 1e-9)} == {}


#: Jobs that take all sorts of times; at 1 EB/s their bytes take none of it.
jobs_on_links = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 4), st.integers(1, 6), st.integers(1, 20)),
    min_size=1, max_size=6).map(lambda rows: [
        ring(k, arrival / 7, iterations, d / 11, gpus, nbytes=100.0)
        for k, (arrival, gpus, iterations, d) in enumerate(rows)])
#: Slices and queues last for an iteration on four GPUs and a restore at least, so that runs end.
policies = st.sampled_from([
    "srtf", "srsf", {"name": "las", "quantum_s": 3}, {"name": "gandiva-rr", "quantum_s": 3},
    {"name": "tiresias", "thresholds": [8, 16], "promote_knob": 3},
    {"name": "tiresias", "thresholds": [7], "service": "run"},
    {"name": "tiresias-g", "thresholds": [9], "history": [1, 3, 5, 9, 30]}])
costs = st.fixed_dictionaries({
    "keep": st.sampled_from(["iterations", "fraction"]),
    "checkpoint_s": st.sampled_from([0, 1 / 13]), "restore_s": st.sampled_from([0, 1 / 17])})


@settings(max_examples=examples(100))
@given(jobs_on_links, policies, costs)
def test_the_same_by_formula_and_on_ample_links(jobs, scheduler, options):
    """Ends, preemptions and accounts; what is held is useful, lost or overhead.

    Useful are g N d GPU-seconds. Where parts of iterations are kept nothing is lost, and without
    costs nothing is paid.
    """
    cluster = Cluster(gpus=[2, 3], nic=1e18, intra=1e18)
    one, other = (by_job(run(jobs, scheduler, execution, cluster, options))
                  for execution in ("rar-contention:time=continuous", "fabric"))
    for column in ("start_s", "finish_s", *ACCOUNTS, "held_gpu_s", "waited_s"):
        assert other[column].tolist() == pytest.approx(one[column].tolist(), abs=1e-9), column
    for column in ("preemptions", "promotions"):
        assert other[column].tolist() == one[column].tolist(), column
    for table in (one, other):
        assert table[ACCOUNTS].sum(axis=1).tolist() == pytest.approx(table["held_gpu_s"].tolist())
        assert table["useful_gpu_s"].tolist() == pytest.approx(
            [job.ranks * job.iterations * job.compute_s for job in jobs])
        if options["keep"] == "fraction":
            assert table["lost_gpu_s"].tolist() == pytest.approx([0] * len(jobs), abs=1e-9)
        if not options["checkpoint_s"] and not options["restore_s"]:
            assert table["overhead_gpu_s"].tolist() == [0] * len(jobs)


# --- what is kept on the fabric ---------------------------------------------------------------

@pytest.mark.parametrize("costs_s", [0, 0.1])
@pytest.mark.parametrize("estimate_s", [0.3, 30.0])
def test_what_is_kept_does_not_hang_on_estimates(estimate_s, costs_s):
    """Three rings of 3 iterations of d = 1 + 1 s take turns of 1/2 s on two GPUs.

    Sending 2 * 1 MB * (2 - 1)/2 takes 1 s at 8 Mbps. Each job runs 12 slices, with keep =
    "fraction" nothing is lost, and the last one has its last slice at the end. A slice costs a
    restore, but for the first one, and a checkpoint, but for the last one.
    """
    jobs = [ring(k, 0.0, 3, 1.0, 2, MB, estimate_s=estimate_s) for k in range(3)]
    result = run(jobs, {"name": "gandiva-rr", "quantum_s": 0.5}, "fabric", TWO,
                 {"keep": "fraction", "checkpoint_s": costs_s, "restore_s": costs_s})
    assert by_job(result)["preemptions"].tolist() == [11, 11, 11]
    assert result.jobs["lost_gpu_s"].tolist() == [0, 0, 0]
    assert result.jobs["useful_gpu_s"].tolist() == pytest.approx([12, 12, 12])
    # Before the last slice of the last job there were 35 slices.
    assert max(ends(result)) == pytest.approx(18 + 33 * 2 * costs_s)


# --- what is not told ---------------------------------------------------------------------------

def test_tiresias_l_takes_the_mean_service_of_jobs_without_estimates():
    """Three rings of 4 GPUs, 100 iterations of 10 s: 4,000 GPU-seconds each; queues at 500, 2,000.

    With queues at other thresholds jobs take turns at other instants.
    """
    jobs = [ring(k, 50.0 * k, 100, 10.0, gpus=4, estimate_s=None) for k in range(3)]
    where = Cluster(servers=1, gpus=4)
    found, same, others = (run(jobs, scheduler, cluster=where).jobs["finish_s"].tolist()
                           for scheduler in ("tiresias-l",
                                             {"name": "tiresias-l", "thresholds": [500, 2000]},
                                             {"name": "tiresias-l", "thresholds": [2.5, 10]}))
    assert found == pytest.approx(same)
    assert found != pytest.approx(others)


@pytest.mark.parametrize("execution", ["asrpt", "fabric"])
def test_progress_in_a_first_iteration_without_an_estimate(execution):
    """At 1 s, a ring on one GPU of 3 iterations of 10 s has made a tenth, and has 29 s left."""
    seen = []

    class Looks:
        def decide(self, view):
            if view.now == 1:
                seen.extend((view.progress(0), view.remaining_s(0)))
            return Decision([(job, [job]) for job in view.waiting],
                            wake_at=1.0 if view.now < 1 else math.inf)

    run([ring(0, 0.0, 3, 10.0, estimate_s=None)], Looks(), execution)
    assert seen == pytest.approx([0.1, 29])


def test_gpus_are_promised_what_is_left_of_jobs_that_are_preempted():
    """Two jobs of 1,000 s in turns of 100 s on one GPU: before the last turn, it gave 1,900 s."""
    promised = []

    class Looks:
        def begin(self, context):
            self._run = netsim.schedulers.registry.make_scheduler(
                {"name": "gandiva-rr", "quantum_s": 100}).begin(context)
            return self

        def decide(self, view):
            promised.append(float(view.load[0]))
            return self._run.decide(view)

    done = run([ring(k, 0.0, 1000, 1.0) for k in range(2)], Looks())
    assert done.jobs["preemptions"].sum() > 10
    assert promised[-1] == max(promised) == pytest.approx(1900)


@pytest.mark.parametrize("name", ["fifo", "sjf", "srtf", "las", "tiresias", "tiresias-l",
                                  "gandiva-rr"])
def test_backfill_is_true_or_false(name):
    with pytest.raises(InputError, match="backfill must be true or false, not 'no'"):
        run([ring(0, 0.0, 1, 1.0)], {"name": name, "backfill": "no"})


# --- coflows that have no rows of their own ------------------------------------------------------

STAY = {"valid_s": 4, "end_s": 5, "bytes": 2 * MB, "why": "withdrawn"}


@pytest.mark.parametrize("keep", ["iterations", "fraction"])
def test_a_coflow_that_is_withdrawn_can_be_seen(keep):
    """It sends 1 of 2 MB in each direction in [4, 5], and then the rest, or all of it again."""
    gpus = [(0, [0, 1])]
    result = run([ring(0, 0, 3, 1, 2, 2 * MB)], At({0: (gpus, ()), 5: ((), [0]), 6: (gpus, ())}),
                 "fabric", TWO, {"keep": keep}, record=("coflows",))
    (row,) = result.other_coflows.to_dict("records")
    assert {name: row[name] for name in STAY} == STAY
    assert (row["job"], row["iteration"], row["stage"]) == (0, 1, "all-reduce")
    spans = [(each["name"], each["ts"] / 1e6, each["dur"] / 1e6)
             for each in netsim.timeline(result)["traceEvents"]
             if each["ph"] == "X" and each["cat"] == "coflow"]
    again = [("all-reduce", 7, 2), ("all-reduce", 10, 2)] if keep == "iterations" else [
        ("all-reduce", 6, 1), ("all-reduce", 8, 2)]
    assert spans == [("all-reduce", 1, 2), ("all-reduce (withdrawn)", 4, 1), *again]


def test_state_that_moves_can_be_seen():
    """3 MB go to a new server at 1 MB/s in [6, 9]; then 1 s to restore, and 1 s of the coflow."""
    three = Cluster(gpus=[2, 2, 2], nic=MB)
    at = At({0: ([(0, [0, 2])], ()), 5: ((), [0]), 6: ([(0, [0, 4])], ())})
    result = run([ring(0, 0, 3, 1, 2, 2 * MB)], at, "fabric", three,
                 {"keep": "fraction", "state_bytes": 3 * MB, "restore_s": 1}, record=("coflows",))
    others = result.other_coflows
    assert others[["stage", "valid_s", "end_s", "bytes", "why"]].to_numpy().tolist() == [
        ["all-reduce", 4, 5, 2 * MB, "withdrawn"], ["state", 6, 9, 3 * MB, "state"]]
    ax = result.plot("gantt")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "all-reduce", "state", "did not finish", "no coflow"]
    spans = [each["name"] for each in netsim.timeline(result)["traceEvents"]
             if each["ph"] == "X" and each["cat"] == "coflow"]
    assert spans == ["all-reduce", "all-reduce (withdrawn)", "state", "all-reduce", "all-reduce"]


@pytest.mark.parametrize("allocator", ["maxmin", "parrot"])
@pytest.mark.parametrize("options", [
    {"keep": "iterations"}, {"keep": "fraction"},
    {"keep": "fraction", "state_bytes": 5 * MB, "checkpoint_s": 1, "restore_s": 1}], ids=str)
def test_links_carry_what_coflows_with_rows_and_without_have_sent(allocator, options):
    """On a switch each byte crosses one link from a host."""
    jobs = [ring(k, 3 * k, 9, 1 + k % 2, 2, (1 + k % 3) * MB) for k in range(8)]
    cluster = Cluster(gpus=[2, 2, 2], nic=MB)
    result = netsim.simulate(cluster, jobs, scheduler="gandiva-rr:quantum_s=15", placement="random",
                             execution="fabric", allocator=allocator, preemption=options,
                             record=("jobs", "coflows", "links"))
    assert len(result.other_coflows)
    links = result.links[result.links["link"].astype(str).str.startswith("egress")]
    assert links["bytes"].sum() == pytest.approx(
        result.coflows["bytes"].sum() + result.other_coflows["bytes"].sum(), rel=1e-9)
    lost = result.other_coflows.query("why != 'state'")["bytes"].sum()
    if options["keep"] == "iterations":
        assert lost == pytest.approx(result.jobs["lost_bytes"].sum(), rel=1e-9)
    again = result.other_coflows
    assert (again["end_s"] >= again["valid_s"]).all()


def test_a_run_without_preemptions_has_no_such_coflows(tmp_path):
    result = netsim.simulate(TWO, [ring(0, 0, 3, 1, 2, MB)], execution="fabric")
    assert result.other_coflows.empty
    back = netsim.load_result(result.save(tmp_path / "r"))
    assert list(back.other_coflows) == list(result.other_coflows)
    assert "other_coflows" not in netsim.simulate("parrot-fig2", "parrot-fig2").recorded
