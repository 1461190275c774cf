"""Crux: priority by GPU intensity, in few levels.

Cao et al., "Crux: GPU-Efficient Communication Scheduling for Deep Learning Training" (SIGCOMM'24).
Numbers of sections, equations and algorithms are those of the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import ClassVar

import numpy as np

from netsim.allocators.options import Standing
from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.values import as_whole, convert, known_names
from netsim.fabric.allocation import Allocation, Information
from netsim.fabric.allocator import Allocator
from netsim.fabric.records import DUST
from netsim.fabric.view import FabricView
from netsim.ties import merge_equal
from netsim.workload import IterationProfile

#: Iterations of the slower one of two jobs, over which their priorities are compared (Section 4.2),
#: and the most iterations of the faster one.
_ITERATIONS, _MOST = 30, 1000

#: Topological orders that are tried (m in Algorithm 1).
_ORDERS = 10


@known_names
@dataclass(frozen=True)
class Crux(Allocator):
    """Crux: jobs that compute more for each second of communication go first, in few levels.

    The GPU intensity of a job is what it computes in an iteration, in GPU-seconds, over the time
    for which its bytes fill its busiest link (Eq. 2). Its priority is its intensity times the
    correction factor of `correction` (Eq. 3). Priorities are compressed to levels (Algorithm 1).
    Levels are served in strict priority, and the flows of a level share what is left max-min
    fairly.

    Parameters
    ----------
    levels : int
        The number of levels, at least 1; with 1, rates are max-min fair.

    Notes
    -----
    Jobs get priorities among those that have an active coflow, whenever a coflow becomes valid or
    completes, and may meet on the links of their unfinished flows. The reference job is that with
    the longest time on its busiest link. Ties go to the earlier arrival, then id. Paths are those
    of the network; `netsim.jobs.crux.choose_paths` selects them as in Section 4.1.
    """

    levels: int = 8
    _level: Standing[Ints] = field(default_factory=Standing, init=False, repr=False, compare=False)

    information: ClassVar[Information] = "job-clairvoyant"
    leftover = "maxmin"  # among the flows of a level
    work_conserving = True  # what a level leaves over goes to the next

    def __post_init__(self) -> None:
        convert(self, levels=partial(as_whole, least=1))

    def allocate(self, view: FabricView) -> Allocation:
        """Serve level after level; see `Allocator.allocate`."""
        level = self._level.at(view, self._levels)[view.coflow]
        rates, left = np.zeros(view.flows), view.capacity
        for each in np.unique(level):
            rates += view.maxmin((level == each).astype(np.float64), left)
            left = np.maximum(view.capacity - view.link_load(rates), 0.0)
            left[left < DUST * view.capacity] = 0.0
        return Allocation(rates)

    def _levels(self, view: FabricView) -> Ints:
        """The level of each coflow, 0 for the first."""
        jobs, first, place = np.unique(view.job, return_index=True, return_inverse=True)
        profiles = self._profiles(view)
        intensity, priority = priorities([profiles[c] for c in first.tolist()])
        order = np.lexsort((jobs, -merge_equal(priority)))
        ptr, links = view.paths
        _, link = np.unique(links, return_inverse=True)
        uses = np.zeros((len(jobs), int(link.max(initial=-1)) + 1))
        uses[np.repeat(place[view.coflow], np.diff(ptr)), link] = 1.0
        meets = np.triu((uses @ uses.T > 0)[np.ix_(order, order)], 1)
        level = np.empty(len(jobs), np.int64)
        level[order] = compress(meets * intensity[order, np.newaxis], meets, self.levels)
        return level[place]

    def _profiles(self, view: FabricView) -> list[IterationProfile]:
        """What the job of each coflow tells of its iterations."""
        return [IterationProfile(*each) for each in view.job_profile.tolist()]


# --- priorities ----------------------------------------------------------------------------
def priorities(profiles: list[IterationProfile]) -> tuple[Floats, Floats]:
    """The GPU intensity and the priority of each job (Eq. 2 and 3)."""
    link_s = np.array([each.link_s for each in profiles])
    work = np.array([each.gpus * each.compute_s for each in profiles])
    intensity = np.divide(work, link_s, out=np.zeros(len(work)), where=link_s > 0)
    reference = profiles[int(np.argmax(link_s))]
    factor = np.array([correction(each, reference) for each in profiles])
    return intensity, np.multiply(intensity, factor, out=np.zeros(len(work)), where=intensity > 0)


@lru_cache(maxsize=4096)
def correction(job: IterationProfile, reference: IterationProfile) -> float:
    """What a second of the reference's communication is worth, in seconds of the job's (k).

    If the two share one link, each sends for longer when it goes first than when it goes second.
    The factor is the gain of the job over that of the reference; inf if only the job gains.
    """
    if job == reference or job.link_s <= 0 or reference.link_s <= 0:
        return 1.0
    fast, slow = sorted((_period(job), _period(reference)))
    horizon = min(_ITERATIONS * slow, _MOST * fast)
    gain, loss = (_sent_s(each, None, horizon) - _sent_s(each, other, horizon)
                  for each, other in ((job, reference), (reference, job)))
    if max(gain, loss) <= DUST * horizon:
        return 1.0
    return max(gain, 0.0) / loss if loss > DUST * horizon else math.inf


def _period(job: IterationProfile) -> float:
    return max(job.compute_s, job.begin_s + job.link_s) + job.rest_s


def _sent_s(job: IterationProfile, first: IterationProfile | None, horizon: float) -> float:
    """For how long a job sends until the horizon, beside another that goes first, if any."""
    begin, sent = 0.0, 0.0
    while begin + job.begin_s < horizon:
        free = _free_s(begin + job.begin_s, first)
        end = _free_at(free + job.link_s, first)
        if end >= horizon:
            return sent + _free_s(horizon, first) - free
        sent += job.link_s
        begin = max(begin + job.compute_s, end) + job.rest_s
    return sent


def _free_s(until: float, first: IterationProfile | None) -> float:
    """For how long the link is free until a time."""
    if first is None:
        return until
    iterations, part = divmod(until, _period(first))
    return (iterations * (_period(first) - first.link_s) + min(part, first.begin_s)
            + max(part - first.begin_s - first.link_s, 0.0))


def _free_at(seconds: float, first: IterationProfile | None) -> float:
    """When the link has been free for this long; inf if never."""
    if first is None:
        return seconds
    each = _period(first) - first.link_s
    if each <= DUST * first.link_s:
        return math.inf
    iterations, part = divmod(seconds, each)
    if part <= DUST * seconds and iterations:  # it ends where the next iteration begins
        iterations, part = iterations - 1, each
    late = part - first.begin_s > DUST * seconds
    return iterations * _period(first) + part + (first.link_s if late else 0.0)


# --- levels --------------------------------------------------------------------------------
def compress(weight: Floats, meets: Bools, levels: int) -> Ints:
    """Put jobs in levels so that the weight between levels is large (Algorithm 1).

    Jobs are in order of priority. `weight` is what is lost if two jobs that meet are in one level,
    above the diagonal. The levels of two that meet are in the order of their priority.
    """
    count = len(weight)
    if count <= levels:
        return np.arange(count)
    random = np.random.default_rng(0)  # the same answer whenever it is asked again
    best, found = -1.0, np.zeros(count, np.int64)
    for _ in range(_ORDERS):
        order = _topological_order(meets, random)
        cut, ends = _max_cut(weight[np.ix_(order, order)], levels)
        if cut > best * (1 + DUST):
            best, found[order] = cut, np.searchsorted(ends, np.arange(count), side="right")
    return found


def _topological_order(meets: Bools, random: np.random.Generator) -> Ints:
    """A random order in which each job comes before those of lower priority that it meets."""
    blockers = meets.sum(0)
    ready = np.flatnonzero(blockers == 0).tolist()
    order = []
    while ready:
        order.append(ready.pop(int(random.integers(len(ready)))))
        after = np.flatnonzero(meets[order[-1]])
        blockers[after] -= 1
        ready += after[blockers[after] == 0].tolist()
    return np.array(order)


def _max_cut(weight: Floats, levels: int) -> tuple[float, Ints]:
    """The largest weight between consecutive groups of a sequence, and where groups end."""
    count = len(weight)
    sums = np.zeros((count + 1, count + 1))
    sums[1:, 1:] = weight.cumsum(0).cumsum(1)
    # From the first j to those after them until i; no group ends before it begins.
    between = np.where(np.tri(count + 1).T > 0, sums - np.diag(sums)[:, np.newaxis], -np.inf)
    cut, ends = np.zeros(count + 1), []
    for _ in range(levels - 1):
        reached = cut[:, np.newaxis] + between
        ends.append(reached.argmax(0))
        cut = reached.max(0)
    last, found = count, []
    for before in reversed(ends):
        last = int(before[last])
        found.append(last)
    return float(cut[count]), np.array(found[::-1], np.int64)
