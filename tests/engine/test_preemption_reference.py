"""The twin of preemption: hand-made cases, the best schedule, and what always holds."""

from fractions import Fraction
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.errors import AllocationError, InputError, StalledError
from tests.examples import examples
from tests.twins.job_orders import ORDERS
from tests.twins.preemption import ClusterJob, Costs, GivenDecision, Script, ServerFault, run_jobs


def jobs_of(*rows):
    """Jobs in exact numbers: (arrival, GPUs, iterations, seconds of one)."""
    return [ClusterJob(number, Fraction(arrival), gpus, iterations, Fraction(iteration_s))
            for number, (arrival, gpus, iterations, iteration_s) in enumerate(rows)]


def finishes(jobs):
    return [job.finish for job in jobs]


# --- by hand --------------------------------------------------------------------------------------

@pytest.mark.parametrize("d", [1, 2, 3, Fraction(7, 2), 8])
@pytest.mark.parametrize("keep", ["iterations", "fraction"])
def test_one_preemption_under_srtf(keep, d):
    """Job 0, of 12 iterations of d s, is preempted at t = 7 by job 1, of d/2 s: shorter.

    It keeps k = floor(7/d) iterations or k = 7/d. With c = 2 s for a checkpoint and r = 1 s for a
    restore, where k > 0, job 1 ends at 7 + c + d/2 and job 0 at 7 + c + d/2 + r + (12 - k) d.
    Where k = 0, nothing is saved or restored, and all 7 s are lost.
    """
    long, short = run_jobs(
        [1], jobs_of((0, 1, 12, d), (7, 1, 1, Fraction(d) / 2)), ORDERS["srtf"](),
        costs=Costs(keep=keep, checkpoint_s=Fraction(2), restore_s=Fraction(1)))
    kept = 7 // d if keep == "iterations" else Fraction(7) / d
    saved = kept > 0
    assert short.finish == 7 + 2 * saved + Fraction(d) / 2
    assert long.finish == short.finish + saved + (12 - kept) * d
    assert long.segments[0].kept == kept
    assert (long.lost_gpu_s, long.overhead_gpu_s) == (7 - kept * d, 3 * saved)


@pytest.mark.parametrize("q", [1, 3])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_jobs_in_a_ring(q, count):
    """Job i = 1 .. J of three slices of q s takes every J-th: it ends at (2 J + i) q."""
    jobs = run_jobs([1], jobs_of(*[(0, 1, 3 * q, 1)] * count),
                    ORDERS["gandiva-rr"](quantum_s=Fraction(q)))
    assert finishes(jobs) == [(2 * count + place) * q for place in range(1, count + 1)]
    assert [job.preemptions for job in jobs] == [2 * (count > 1)] * count


@pytest.mark.parametrize("knob", [2, Fraction(9, 4)])
def test_a_job_crosses_a_threshold_and_is_promoted(knob):
    """One GPU, T = 8: job 0 (2 T) crosses at T, and jobs 1 .. 5 (T/2 each) run one after another.

    Job 0 has waited k T, k times its service, at (1 + k) T. It is then in the first queue, first
    there as it started first: it runs for T and ends as it would cross again. Job 5 would begin at
    3 T; it is preempted if k > 2, and ends T later than without the promotion, at 9/2 T.
    """
    long, *_, last = run_jobs(
        [1], jobs_of((0, 1, 16, 1), *[(0, 1, 4, 1)] * 5),
        ORDERS["tiresias"](thresholds=[Fraction(8)], promote_knob=knob))
    assert [(each.got, each.free) for each in long.segments] == [
        (0, 8), (8 + 8 * knob, 16 + 8 * knob)]
    assert (last.finish, last.preemptions) == (36, knob > 2)
    assert (long.promotions, last.promotions) == (1, 0)


def test_a_job_comes_back_elsewhere_with_its_state():
    """Servers of 1 and 1 GPU. Job 0 is preempted at 4 and starts on server 1 at 5.

    It has 10 bytes to move at 4 bytes/s, then restores for 1 s: it runs from 5 + 10/4 + 1 = 17/2
    on, and ends 10 - 4 s later. Back on its own server it would not move: 5 + 1 + 6 = 12.
    """
    def finish(gpu):
        script = Script([GivenDecision(0, (), [(0, [0])]), GivenDecision(4, [0]),
                         GivenDecision(5, (), [(0, [gpu])])])
        job, = run_jobs([1, 1], jobs_of((0, 1, 10, 1)), script, costs=Costs(
            restore_s=Fraction(1), state_bytes=Fraction(10), move_bytes_per_s=Fraction(4)))
        return job.finish

    assert (finish(0), finish(1)) == (12, Fraction(29, 2))


@pytest.mark.parametrize(("on_fault", "kept"), [("iterations", 2), ("checkpoint", 0)])
def test_a_server_is_lost_while_a_checkpoint_is_written(on_fault, kept):
    """Job 0 is preempted at 4 after two iterations of 2 s; its checkpoint would last until 6.

    Its server is lost at 5: what was being written counts, or it does not. Job 1 (1 s) starts at
    the repair at 7. Job 0 then restores for 1 s and makes 8 - 2 iterations: 8 + 1 + 12 = 21; or all
    eight of them, without a restore: 8 + 16 = 24.
    """
    jobs = run_jobs([1], jobs_of((0, 1, 8, 2), (4, 1, 1, 1)), ORDERS["srtf"](),
                    costs=Costs(checkpoint_s=Fraction(2), restore_s=Fraction(1),
                                on_fault=on_fault),
                    faults=[ServerFault(Fraction(5), 0, "fail"),
                            ServerFault(Fraction(7), 0, "repair")])
    assert finishes(jobs) == [21 if kept else 24, 8]
    assert (jobs[0].preemptions, jobs[0].restarts) == (1, 1)
    assert (jobs[0].segments[0].kept, jobs[0].segments[0].free) == (kept, 5)


def test_slices_that_are_too_short():
    """Iterations of 2 s after a restore of 3/2 s, a quantum of 3 s: soon nothing is kept.

    Job 1 comes at 1, when job 0 has had 1 s, so that the two are never equal, and take turns. Each
    makes an iteration in its first 3 s, as there is nothing to restore yet, and then none.
    """
    with pytest.raises(StalledError, match=r"1000 times in a row .* shorter than restore_s"):
        run_jobs([1], [ClusterJob(0, 0.0, 1, 5, 2.0), ClusterJob(1, 1.0, 1, 5, 2.0)],
                 ORDERS["las"](quantum_s=3.0), costs=Costs(restore_s=1.5))


def test_a_job_that_fits_nowhere():
    with pytest.raises(StalledError, match="jobs 1 wait"):
        run_jobs([2, 2], jobs_of((0, 4, 1, 1), (0, 5, 1, 1)), ORDERS["srtf"]())


@pytest.mark.parametrize(("preempt", "start", "wake_at", "problem"), [
    ([1], [], None, "job 1 is preempted, but neither restores nor runs"),
    ([0, 0], [], None, "job 0 is preempted, but neither restores nor runs"),
    ([], [(0, [1])], None, "job 0 is started, but does not wait"),
    ([0], [(0, [0])], None, "job 0 is moved to the GPUs that it had"),
    ([], [(1, [0])], None, "job 1 is started on GPUs .* not free"),
    ([], [(1, [1, 1])], None, "job 1 is started on GPUs .* needs 1"),
    ([], [(1, [2])], None, "job 1 is started on GPUs .* not free"),
    ([], [], 2, "asks to be woken at 2 s, but it is 2 s"),
])
def test_illegal_decisions(preempt, start, wake_at, problem):
    script = Script([GivenDecision(0, (), [(0, [0])]), GivenDecision(2, preempt, start, wake_at)])
    with pytest.raises(AllocationError, match=problem):
        run_jobs([2], jobs_of((0, 1, 9, 1), (1, 1, 9, 1)), script)


def test_options_that_mean_nothing():
    with pytest.raises(InputError, match="promote_knob must be positive, not 0"):
        ORDERS["tiresias"](promote_knob=0)
    with pytest.raises(InputError, match="needs a history"):
        ORDERS["tiresias-g"]()


# --- the best schedule --------------------------------------------------------------------------

@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), min_size=1, max_size=4))
@settings(max_examples=examples(200))
def test_srtf_has_the_least_mean_jct(rows):
    """On one GPU without costs no schedule of unit slots is better, whoever runs in each of them.

    Nor is any other: with whole arrivals and durations, preemptions at whole seconds do.
    """
    jobs = run_jobs([1], jobs_of(*((arrival, 1, 1, seconds) for arrival, seconds in rows)),
                    ORDERS["srtf"](), costs=Costs(keep="fraction"))
    assert sum(finishes(jobs)) == least_sum(tuple(rows))


def least_sum(rows):
    """The least sum of finishes, by trying in each unit slot all jobs that are there, and none."""
    arrivals = [arrival for arrival, _ in rows]

    @cache
    def after(slot, left):
        if not any(left):
            return 0
        there = [job for job, arrival in enumerate(arrivals) if left[job] and arrival <= slot]
        tried = [after(slot + 1, left)] if len(there) < sum(map(bool, left)) else []
        for job in there:
            then = (*left[:job], left[job] - 1, *left[job + 1:])
            tried.append((0 if then[job] else slot + 1) + after(slot + 1, then))
        return min(tried)

    return after(0, tuple(seconds for _, seconds in rows))


# --- what always holds ----------------------------------------------------------------------------

#: Thirds and sevenths: floats round them.
lengths = st.sampled_from([Fraction(each, parts) for each in (1, 2) for parts in (1, 3, 7)])
costs_s = st.sampled_from([Fraction(0), Fraction(1, 7), Fraction(1, 3)])


@st.composite
def runs(draw):
    """The arguments of a run, in fractions.

    Slices and queues last for a move, a restore and an iteration at least, so that runs end.
    """
    servers = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    gpus, iterations = st.integers(1, min(3, sum(servers))), st.integers(1, 12)
    jobs = draw(st.lists(st.tuples(lengths, gpus, iterations, lengths), min_size=1, max_size=7))
    name = draw(st.sampled_from(sorted(ORDERS)))
    options = {}
    if name in ("las", "gandiva-rr"):
        options = {"quantum_s": 3 + draw(lengths)}
    elif name.startswith("tiresias"):
        options = {"thresholds": [8 + draw(lengths), 16 + draw(lengths)],
                   "promote_knob": draw(st.none() | lengths),
                   "service": draw(st.sampled_from(["held", "run"]))}
    if name == "tiresias-g":
        options["history"] = draw(st.lists(lengths, min_size=1, max_size=5))
    costs = {"keep": draw(st.sampled_from(["iterations", "fraction"])),
             "checkpoint_s": draw(costs_s), "restore_s": draw(costs_s),
             "state_bytes": draw(costs_s), "move_bytes_per_s": Fraction(1),
             "on_fault": draw(st.sampled_from(["iterations", "checkpoint"]))}
    faults = draw(st.lists(st.tuples(lengths, st.integers(0, len(servers) - 1), lengths),
                           max_size=2))
    return {"servers": servers, "jobs": jobs, "name": name, "options": options, "costs": costs,
            "placement": draw(st.sampled_from(["first-fit", "consolidated"])), "faults": faults}


def run(arguments, number):
    """Run with numbers of one kind; None if it stalls."""
    def of(value):
        if isinstance(value, Fraction):
            return number(value)
        return [of(each) for each in value] if isinstance(value, list) else value

    jobs = [ClusterJob(place, number(arrival), gpus, iterations, number(iteration_s))
            for place, (arrival, gpus, iterations, iteration_s) in enumerate(arguments["jobs"])]
    faults = [fault for at, server, seconds in arguments["faults"]
              for fault in (ServerFault(number(at), server, "fail"),
                            ServerFault(number(at + seconds), server, "repair"))]
    options = {key: of(value) for key, value in arguments["options"].items()}
    costs = Costs(**{key: of(value) for key, value in arguments["costs"].items()})
    try:
        return run_jobs(arguments["servers"], jobs, ORDERS[arguments["name"]](**options),
                        costs=costs, placement=arguments["placement"], faults=faults)
    except StalledError:
        return None


@given(runs())
@settings(max_examples=examples(300))
def test_every_gpu_second_is_accounted_for(arguments):
    """What is held is useful, g N d, or lost or overhead; nothing is lost where all is kept."""
    costs = Costs(**arguments["costs"])
    for job in run(arguments, Fraction) or ():
        assert job.useful_gpu_s == job.gpus * job.iterations * job.iteration_s
        assert job.held_gpu_s == job.useful_gpu_s + job.lost_gpu_s + job.overhead_gpu_s
        assert job.lost_gpu_s >= 0
        if costs.keep == "fraction" and not job.restarts:
            assert job.lost_gpu_s == 0
        check_costs(job, costs)


def check_costs(job, costs):
    """Restores where something was kept, checkpoints where that has grown, and nothing else."""
    for segment in job.segments:
        assert segment.got <= segment.run <= segment.stop <= segment.free
        paid, most = segment.run - segment.got, costs.restore_s + costs.state_bytes
        if segment.kept_before == 0:
            assert paid == 0
        elif segment.stop > segment.run:
            assert costs.restore_s <= paid <= most
        if segment.reason != "fault":
            grown = segment.reason == "preempt" and segment.kept > segment.kept_before
            assert segment.free - segment.stop == costs.checkpoint_s * grown
    assert sum(each.reason == "finish" for each in job.segments) == 1


@given(runs())
@settings(max_examples=examples(200))
def test_no_gpu_is_held_twice(arguments):
    """Nor is any held at an instant at which its server is lost, or by a job not yet there."""
    jobs = run(arguments, Fraction) or ()
    held = [(gpu, each.got, each.free) for job in jobs for each in job.segments
            for gpu in each.gpus]
    held += [(gpu, at, at + seconds) for at, server, seconds in arguments["faults"]
             for gpu in range(sum(arguments["servers"][:server]),
                              sum(arguments["servers"][:server + 1]))
             if len(arguments["faults"]) == 1]
    held.sort()
    for (gpu, _, end), (other, start, _) in pairwise(held):
        assert gpu != other or end <= start
    assert all(job.start >= job.arrival for job in jobs)


@given(runs())
@settings(max_examples=examples(300))
def test_floats_decide_as_fractions(arguments):
    """Rounding moves no job to other GPUs, and no instant by more than rounding."""
    exact, rounded = run(arguments, Fraction), run(arguments, float)
    assert (exact is None) == (rounded is None)
    for job, other in zip(exact or (), rounded or (), strict=True):
        assert [each.gpus for each in job.segments] == [each.gpus for each in other.segments]
        assert [float(each.free) for each in job.segments] == pytest.approx(
            [each.free for each in other.segments], rel=1e-9, abs=1e-9)
        assert job.promotions == other.promotions
