"""CASSINI: circles of one link, the affinity graph of several, and runs with delayed jobs."""

import numpy as np
import pytest

import netsim
from netsim import JobSpec, Stage, Workload
from netsim.errors import InputError
from netsim.jobs.cassini import ANGLES, Phases, compatibility, interleave

MB = 1e6


def phases(period_s, *up):
    return Phases(period_s, up)


def test_two_jobs_of_vgg16():
    """Quoted from the paper: 255 ms, of which 141 ms without communication, on 50 Gbit/s."""
    job = phases(0.255, (0.141, 0.255, 50e9 / 8))
    found = compatibility([job, job], "50Gbps")
    assert found.score == pytest.approx(1.0)
    assert 0.114 <= found.shifts_s[1] <= 0.141
    assert found.circle_s == pytest.approx(0.255)


def test_phases_are_quantities():
    written = phases("255ms", ("141ms", 0.255, "50Gbps"))
    parsed = phases(0.255, (0.141, 0.255, 6.25e9))
    assert compatibility([written] * 2, "50Gbps").shifts_s.tolist() == (
        compatibility([parsed] * 2, 6.25e9).shifts_s.tolist())


@pytest.mark.parametrize(("job", "message"), [
    (phases("255MB", (0, 1, 1)), "255MB"), (phases(1.0, (0, 1)), "begin, end, rate"),
    (phases(1.0, (0, 1, "1ms")), "rate of a phase"), (phases(1.0, (1, 0.5, 1.0)), "end of a phase"),
    (phases(0.0), "take some time"), (5, "must be Phases")])
def test_phases_that_are_none(job, message):
    with pytest.raises(InputError, match=message):
        compatibility([job], 1.0)


def test_the_common_circle_of_the_paper():
    """Iterations of 40 and 60 ms: a circle of 120, on which they turn three times and twice."""
    pair = [phases(0.04, (0, 0.01, 1.0)), phases(0.06, (0, 0.01, 1.0))]
    found = compatibility(pair, 1.0)
    assert found.circle_s == pytest.approx(0.12)
    # At multiples of 40 and of 60 + s: they meet, unless s is from 10 to 10 (20 apart, 10 long).
    assert found.score == pytest.approx(1.0)
    assert found.shifts_s == pytest.approx([0, 0.01], abs=0.06 / ANGLES)


def test_what_cannot_be_shifted_apart():
    """Two jobs that send for 3/4 of the time overlap for half of it, at twice the capacity."""
    job = phases(1.0, (0.0, 0.75, 2.0))
    assert compatibility([job, job], 2.0).score == pytest.approx(0.5)
    assert compatibility([job], 2.0).score == pytest.approx(1.0)
    assert compatibility([job, job, job], 2.0).score < 0


def test_phases_that_end_in_later_iterations():
    """From 3/4 of an iteration to 1/4 of the next; and one that sends all the time, and beyond."""
    across, split = phases(1.0, (0.75, 1.25, 2.0)), phases(1.0, (0.0, 0.25, 2.0), (0.75, 1.0, 2.0))
    other = phases(1.0, (0.0, 0.4, 1.5))
    for pair in ([across, other], [split, other]):
        found = compatibility(pair, 2.0)
        assert (found.score, found.shifts_s[1]) == pytest.approx((1.0, 0.25), abs=1 / ANGLES)
    always = phases(1.0, (0.5, 3.0, 1.0))  # two or three at a time
    assert compatibility([always], 2.0).score == pytest.approx(1 - 0.5 / 2)


@pytest.mark.parametrize("count", [3, 5])
def test_many_jobs(count):
    """Jobs that send for 1/n of the time each fit, one after the other."""
    jobs = [phases(1.0, (0.0, 1 / count, 1.0))] * count
    found = compatibility(jobs, 1.0)
    assert found.score == pytest.approx(1.0, abs=count / ANGLES)
    assert np.diff(np.sort(found.shifts_s)).min() >= 1 / count - 1.01 / ANGLES


@pytest.mark.parametrize("seed", range(10))
def test_no_shifts_of_a_finer_grid_are_much_better(seed):
    random = np.random.default_rng(seed)
    jobs = [phases(1.0, (0.0, part, 1.0)) for part in random.uniform(0.2, 0.6, 2)]
    times = np.arange(2000) / 2000
    on = [times < job.up[0][1] for job in jobs]
    best = 1 - min(np.maximum(on[0] * 1.0 + np.roll(on[1], shift) - 1, 0).mean()
                   for shift in range(0, 2000, 10))
    assert compatibility(jobs, 1.0).score == pytest.approx(best, abs=2 / ANGLES)


def test_bad_jobs():
    for jobs in ([], [phases(0.0)]):
        with pytest.raises(InputError, match="take some time"):
            compatibility(jobs, 1.0)


# --- on a network --------------------------------------------------------------------------
NET = netsim.big_switch(6, MB)


def training(job, *ends, sends=0.5, arrival=0.0, period=1.0):
    """A job that sends to some hosts from others for a part of each period."""
    return JobSpec(job, arrival, iterations=10, hosts=range(6), stages=[
        Stage("all", [(src, dst, sends * MB) for src, dst in ends], compute_s=period - sends)])


def jct_s(workload):
    return netsim.simulate(NET, workload, allocator="maxmin").jobs["jct_s"].to_numpy()


def test_jobs_on_one_link_send_in_turn():
    """Beside each other they take 3/2 of the time alone under fair sharing; shifted, no more."""
    jobs = Workload([training(k, (0, 1 + k)) for k in range(2)])
    assert jct_s(jobs) == pytest.approx([14.5, 14.5], rel=0.05)
    found = interleave(NET, jobs)
    assert found.delay_s == pytest.approx([0.0, 0.5], abs=1 / ANGLES)
    assert jct_s(found.workload) == pytest.approx([10, 10], rel=0.01)
    (link,) = found.links
    assert (link.jobs, link.best_score, link.score) == ((0, 1), *[pytest.approx(1.0)] * 2)


def test_arrivals_count():
    jobs = Workload([training(0, (0, 1)), training(1, (0, 2), arrival=0.3)])
    assert interleave(NET, jobs).delay_s == pytest.approx([0.0, 0.2], abs=1 / ANGLES)


@pytest.mark.parametrize("middle", [1, 2])
def test_shifts_are_consistent_over_several_links(middle):
    """One meets two others, at hosts 0 and 3: these may send at the same time."""
    others = iter([(0, 1), (3, 2)])
    jobs = Workload([training(k, *([(0, 4), (3, 5)] if k == middle else [next(others)]))
                     for k in range(3)])
    found = interleave(NET, jobs)
    assert found.delay_s == pytest.approx([0.5 * (k == middle) for k in range(3)], abs=2 / ANGLES)
    assert [link.score for link in found.links] == pytest.approx([1, 1], abs=2 / ANGLES)
    assert jct_s(found.workload) == pytest.approx([10, 10, 10], rel=0.02)


def test_a_loop_may_have_no_shifts_that_suit_all():
    """Three jobs, of which each two share a link for half of the time: two must overlap."""
    jobs = Workload([training(0, (0, 1), (2, 4)), training(1, (0, 5), (3, 1)),
                     training(2, (2, 5), (3, 4))])
    found = interleave(NET, jobs)
    assert [link.best_score for link in found.links] == pytest.approx([1] * len(found.links))
    assert min(link.score for link in found.links) == pytest.approx(0.5, abs=0.05)


def test_jobs_that_meet_nobody_begin_when_they_arrive():
    """The third does nothing at all."""
    idle = JobSpec(2, 0.5, hosts=range(2), stages=[Stage("all", [(0, 1, 0)])])
    jobs = [training(0, (0, 1)), training(1, (2, 3), arrival=0.25), idle]
    found = interleave(NET, Workload(jobs))
    assert found.delay_s.tolist() == [0, 0, 0]
    assert found.links == ()
