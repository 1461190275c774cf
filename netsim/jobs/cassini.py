"""CASSINI: shifts in time by which jobs that share links send in turn.

Rajasekaran, Ghobadi, Akella, "CASSINI: Network-Aware Job Scheduling in Machine Learning Clusters"
(NSDI'24).
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.base.units import Quantity, parse_rate, parse_seconds
from netsim.base.values import about, known_names
from netsim.errors import InputError
from netsim.jobs.fitting import all_fitted
from netsim.jobs.graph import IterationAlone, alone
from netsim.jobs.plan import JobPlan, place_randomly
from netsim.network import Topology
from netsim.network.files import as_network
from netsim.traces.formats import as_workload
from netsim.workload import Workload

#: Angles on the circle of the longest iteration: 5 degrees each.
ANGLES = 72

#: The most iterations of the longest job on the common circle.
_MOST_TURNS = 24

#: Combinations of shifts that are tried, in each of which the last job takes its best one.
_MOST_TRIED = 600

#: Parts of the capacity that are rounding.
_SLACK = 1e-9


class Phases(NamedTuple):
    """An iteration of a job on one link, over and over: when it sends, and at which rate.

    Attributes
    ----------
    period_s : quantity
        How long an iteration takes: seconds, or a quantity such as ``"255ms"``.
    up : sequence of tuple
        Phases in which it sends: when each begins and ends, from the beginning of the iteration,
        and its rate, in bytes per second or as a quantity such as ``"50Gbps"``. Phases may end in
        later iterations. Rates of phases that overlap add up.
    """

    period_s: Quantity
    up: Sequence[tuple[Quantity, Quantity, Quantity]]


class Compatibility(NamedTuple):
    """How well jobs can share a link.

    Attributes
    ----------
    score : float
        1 less the mean of the demand that exceeds the capacity, over the capacity: 1 if jobs that
        are shifted get all that they want.
    shifts_s : ndarray of float, shape (jobs,)
        By how much each job is shifted, in seconds; 0 for the first.
    circle_s : float
        The perimeter of the common circle, after which all repeats itself, in seconds.
    """

    score: float
    shifts_s: Floats
    circle_s: float


@known_names
def compatibility(jobs: Sequence[Phases], capacity: Quantity) -> Compatibility:
    """Return how well jobs can share a link, and the shifts with which they do.

    The common circle is a multiple of the longest iteration that is a multiple of all others, to
    within an angle of 5 degrees. Demand is averaged over each angle. All shifts of up to three jobs
    are tried; of more, one job after the other gets its best one, until no job gains.

    Parameters
    ----------
    jobs : sequence of Phases
    capacity : quantity
        That of the link.

    Raises
    ------
    InputError
        If there is no job, if an iteration takes no time, or if something is not as in `Phases`.
    """
    rate = parse_rate(capacity, "capacity", strict=True)
    with about("jobs"):
        parsed = [_parsed(each) for each in jobs]
        if not parsed or not all(each.period_s for each in parsed):
            raise InputError("jobs must be Phases with iterations that take some time")
    return _compatible(parsed, rate)


class _Phases(NamedTuple):
    """`Phases` in seconds and bytes per second."""

    period_s: float
    up: Sequence[tuple[float, float, float]]


def _parsed(job: Phases) -> _Phases:
    """Parse the quantities of a job."""
    try:
        period, up = job
        given = [(begin, end, rate) for begin, end, rate in up]
    except (TypeError, ValueError):
        raise InputError("jobs must be Phases of a time and of phases (begin, end, rate), not "
                         f"{reprlib.repr(job)}") from None
    found = []
    for begin, end, rate in given:
        begin_s = parse_seconds(begin, "begin of a phase")
        found.append((begin_s, parse_seconds(end, "end of a phase", least=begin_s),
                      parse_rate(rate, "rate of a phase")))
    return _Phases(parse_seconds(period, "period_s"), found)


def _compatible(jobs: Sequence[_Phases], rate: float) -> Compatibility:
    """Find the shifts of `compatibility`."""
    circle = _Circle.of(jobs, rate)
    ranges = [math.ceil(circle.angles / turns) for turns in circle.turns]
    search = _all_tried if math.prod(ranges[1:-1]) <= _MOST_TRIED else _one_by_one
    shifts = np.array(search(circle.demands, ranges)) * circle.step_s
    return Compatibility(circle.score(shifts), shifts, circle.angles * circle.step_s)


def _best_shift(others: Floats, demand: Floats, choices: int) -> tuple[float, int]:
    """The least excess of one more job, and the first shift at which it is reached."""
    excess = _excess(others, demand, np.arange(choices))
    best = int(np.flatnonzero(excess <= excess.min() + _SLACK)[0])
    return float(excess[best]), best


def _excess(others: Floats, demand: Floats, shifts: Ints) -> Floats:
    """The mean demand beyond the capacity, over the capacity, for each shift of one more job."""
    at = (np.arange(len(demand)) - shifts[:, np.newaxis]) % len(demand)
    excess: Floats = np.maximum(others + demand[at] - 1.0, 0.0).mean(1)
    return excess


def _all_tried(demands: Sequence[Floats], ranges: Sequence[int]) -> list[int]:
    """Try all shifts of all jobs but the first."""
    if len(demands) == 1:
        return [0]
    least, found = math.inf, []
    for shifts in product(*map(range, ranges[1:-1])):
        others = demands[0] + sum((np.roll(demand, shift) for demand, shift in zip(
            demands[1:-1], shifts, strict=True)), np.zeros(len(demands[0])))
        excess, last = _best_shift(others, demands[-1], ranges[-1])
        if excess < least - _SLACK:
            least, found = excess, [0, *shifts, last]
    return found


def _one_by_one(demands: Sequence[Floats], ranges: Sequence[int]) -> list[int]:
    """Give each job its best shift beside the others, until none gains."""
    shifts, turned = [0] * len(demands), [demands[0], *(np.zeros(len(demands[0]))
                                                        for _ in demands[1:])]
    before = math.inf
    while True:
        for k in range(1, len(demands)):
            others = sum(turned[:k] + turned[k + 1:], np.zeros(len(demands[0])))
            excess, shifts[k] = _best_shift(others, demands[k], ranges[k])
            turned[k] = np.roll(demands[k], shifts[k])
        if excess >= before - _SLACK:
            return shifts
        before = excess


@dataclass(frozen=True)
class _Circle:
    """The common circle of jobs, in angles."""

    step_s: float  #: seconds of an angle
    angles: int  #: on the whole circle
    turns: Sequence[int]  #: iterations of each job on it
    demands: Sequence[Floats]  #: the mean rate of each job in each angle, over the capacity

    @classmethod
    def of(cls, jobs: Sequence[_Phases], capacity: float) -> _Circle:
        """Find the least multiple of the longest iteration that all others divide, or nearly."""
        periods = [each.period_s for each in jobs]
        longest = max(periods)
        multiples = np.arange(1, _MOST_TURNS + 1)
        off = np.zeros(len(multiples))
        for period in periods:
            turns = multiples * longest / period
            # What is off shifts the last iteration of the job by this part of the longest one.
            off = np.maximum(off, np.abs(turns - np.round(turns)) * period / longest)
        near = np.flatnonzero(off <= 0.5 / ANGLES)
        count = int(multiples[near[0] if len(near) else off.argmin()])
        angles = count * ANGLES
        made = [max(round(count * longest / period), 1) for period in periods]
        return cls(longest / ANGLES, angles, made, [
            _demand(each, own, angles) / capacity for each, own in zip(jobs, made, strict=True)])

    def score(self, shifts_s: Floats) -> float:
        """1 less the mean demand beyond the capacity, over the capacity, with these shifts."""
        return 1.0 - float(np.maximum(sum(self.turned(shifts_s)) - 1.0, 0.0).mean())

    def turned(self, shifts_s: Floats) -> list[Floats]:
        """The demand of each job in each angle, with these shifts."""
        return [np.roll(demand, shift) for demand, shift in zip(
            self.demands, self.angles_of(shifts_s).tolist(), strict=True)]

    def angles_of(self, shifts_s: Floats) -> Ints:
        """Shifts in angles."""
        shifts: Ints = np.round(shifts_s / self.step_s).astype(np.int64)
        return shifts


def _demand(job: _Phases, turns: int, angles: int) -> Floats:
    """The mean rate of a job in each angle, in bytes per second."""
    whole, part = np.divmod(np.arange(angles + 1) * (turns / angles), 1.0)  # iterations
    sent = np.zeros(angles + 1)
    for begin, end, rate in job.up:
        sent += rate * whole * (end - begin)
        for earlier in range(int(end // job.period_s) + 1):  # iterations in which it began
            sent += rate * np.clip((part + earlier) * job.period_s - begin, 0.0, end - begin)
    return np.diff(sent) / (job.period_s * turns / angles)


# --- several links -------------------------------------------------------------------------
@dataclass(frozen=True)
class SharedLink:
    """Links that the same jobs share.

    Attributes
    ----------
    link : int
        The one of them on which these jobs demand most.
    jobs : tuple of int
        The places of the jobs in the workload.
    best_score : float
        The score with the best shifts for these links alone; see `Compatibility`.
    score : float
        The score with the delays. It may be less if jobs meet in a loop.
    """

    link: int
    jobs: tuple[int, ...]
    best_score: float
    score: float


@dataclass(frozen=True)
class Interleaving:
    """Shifts of the jobs of a workload.

    Attributes
    ----------
    delay_s : ndarray of float, shape (jobs,)
        By how much each job should begin later, in seconds.
    links : tuple of SharedLink
        The links on which jobs meet.
    workload : Workload
        The same jobs, each of which arrives later by its delay.
    """

    delay_s: Floats
    links: tuple[SharedLink, ...]
    workload: Workload


@known_names
def interleave(network: Topology | str | Path, workload: Workload | str | Path, *, seed: int = 0
               ) -> Interleaving:
    """Delay jobs on a network so that those that share links send in turn, as far as they can.

    On each link that several jobs use, `compatibility` gives shifts. The affinity graph, of jobs
    and the links that they share, is traversed from one job of each component on, which is not
    delayed, so that the shifts between jobs are those of the link on which the traversal meets them
    (Algorithm 1 of the paper). Links that the same jobs share count as one.

    Parameters
    ----------
    network : Topology, str or path
    workload : Workload, str or path
        Jobs whose iterations are alike; all begin when they arrive.
    seed : int
        That of the run, by which jobs without hosts get some.
    """
    network = as_network(network)
    workload = all_fitted(as_workload(workload, seed), network, seed)
    iterations = alone_on(network, workload, seed)
    periods = [each.period_s for each in iterations]
    meetings = _meetings(iterations, network.usable)
    best = [_compatible(phases, network.usable[link]) for _, link, phases in meetings]
    phase = _traverse(periods, [dict(zip(jobs, found.shifts_s.tolist(), strict=True))
                                for (jobs, _, _), found in zip(meetings, best, strict=True)])
    links = tuple(
        SharedLink(link, jobs, found.score, _Circle.of(phases, network.usable[link]).score(
            np.array([phase[job][1] for job in jobs])))
        for (jobs, link, phases), found in zip(meetings, best, strict=True))
    arrival = np.array([spec.arrival_s for spec in workload])
    delay = np.zeros(len(periods))
    for job, (first, shift_s) in phase.items():
        later = (arrival[first] + shift_s - arrival[job]) % periods[job]
        # All but a whole iteration is rounding.
        delay[job] = later if periods[job] - later > _SLACK * periods[job] else 0.0
    return Interleaving(delay, links, replace(workload, jobs=tuple(
        replace(spec, arrival_s=spec.arrival_s + later)
        for spec, later in zip(workload, delay.tolist(), strict=True))))


def alone_on(network: Topology, workload: Workload, seed: int) -> list[IterationAlone]:
    """The first iteration of each job alone on a network; `seed` places those without hosts."""
    return [alone(JobPlan(spec, network, place_randomly(spec, network, seed), workload.seed,
                          network.usable).graph(0), max(spec.ranks, 1)) for spec in workload]


class Begun(NamedTuple):
    """A job that repeats an iteration, and the instant at which one of its iterations begins."""

    iteration: IterationAlone
    begin_s: float


class BestDelay(NamedTuple):
    """By how much a job should begin later, and the mean score of the links that it shares then.

    The score is 1 if it shares none.
    """

    delay_s: float
    score: float


def best_delay(job: Begun, others: Sequence[Begun], capacity: Floats) -> BestDelay:
    """Delay a job so that it sends in turn with others, which are not shifted any more.

    The least of the best delays is chosen, from none and all those by which an iteration begins a
    multiple of 5 degrees after one of the first job that it meets on its busiest link. The mean
    score of all its links counts. `capacity` is that of links, in bytes per second.
    """
    meetings = [each for each in _meetings([job.iteration, *(
        other.iteration for other in others)], capacity) if each.jobs[0] == 0]
    if not meetings:
        return BestDelay(0.0, 1.0)
    period_s, begin_s = job.iteration.period_s, np.array([each.begin_s for each in (job, *others)])
    begin_s -= begin_s[meetings[0].jobs[1]]
    turns = np.arange(ANGLES) * (period_s / ANGLES)
    delays_s = np.append(0.0, np.sort((turns - begin_s[0]) % period_s))
    excess = np.zeros(len(delays_s))
    for jobs, link, phases in meetings:
        circle = _Circle.of(phases, capacity[link])
        theirs = np.sum(circle.turned(begin_s[list(jobs)])[1:], 0)
        excess += _excess(theirs, circle.demands[0],
                          circle.angles_of(begin_s[0] + delays_s)) / len(meetings)
    best = int(np.flatnonzero(excess <= excess.min() + _SLACK)[0])
    return BestDelay(float(delays_s[best]), 1.0 - float(excess[best]))


class _Meeting(NamedTuple):
    """The jobs that share links, the busiest of these links, and the phases of the jobs on it."""

    jobs: tuple[int, ...]
    link: int
    phases: list[_Phases]


def _meetings(iterations: Sequence[IterationAlone], capacity: Floats) -> list[_Meeting]:
    """Find where jobs meet; the busiest links come first."""
    demand = np.array([each.link_seconds(capacity) / (each.period_s or 1.0)
                       for each in iterations])
    busiest: dict[tuple[int, ...], int] = {}
    for link in np.argsort(-demand.sum(0), kind="stable").tolist():
        jobs = tuple(np.flatnonzero(demand[:, link]).tolist())
        if len(jobs) > 1:
            busiest.setdefault(jobs, link)
    return [_Meeting(jobs, link, [_phases(iterations[job], link) for job in jobs])
            for jobs, link in busiest.items()]


def _phases(iteration: IterationAlone, link: int) -> _Phases:
    """The phases of a job on a link."""
    nbytes = np.array([demand.loads["nbytes"][demand.loads["link"] == link].sum()
                       for demand in iteration.routed])[iteration.which]
    here = nbytes > 0
    begin, end = iteration.begin_s[here], iteration.end_s[here]
    return _Phases(iteration.period_s, [*zip(
        begin.tolist(), end.tolist(), (nbytes[here] / (end - begin)).tolist(), strict=True)])


def _traverse(periods: Sequence[float], shifts: Sequence[Mapping[int, float]]
              ) -> dict[int, tuple[int, float]]:
    """The first job of the component of each job that shares links, and its shift against it."""
    found: dict[int, tuple[int, float]] = {}
    for first in sorted({job for on_link in shifts for job in on_link}):
        if first in found:
            continue
        found[first], queue = (first, 0.0), [first]
        for job in queue:
            for on_link in shifts:
                for other in on_link if job in on_link else ():
                    if other not in found:
                        later = found[job][1] - on_link[job] + on_link[other]
                        found[other] = first, later % periods[other]
                        queue.append(other)
    return found
