"""Jobs in the order of their completion in a linear programme, solved before the run.

Tian, Tian, Dai, Wang, "Scheduling Coflows of Multi-stage Jobs to Minimize the Total Weighted Job
Completion Time" (INFOCOM'18), which is [26] in the Parrot paper. The programme is solved by cutting
planes, which needs the extra ``ilp`` (SciPy).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import ClassVar, NamedTuple

import numpy as np

from netsim.allocators.first import JobFirst
from netsim.base.arrays import Floats, Ints
from netsim.base.values import as_choice, known_names
from netsim.errors import MissingExtraError, NetsimWarning
from netsim.fabric.allocation import Information
from netsim.fabric.allocator import Coming
from netsim.fabric.view import FabricView
from netsim.ties import merge_equal

# --- the programme -------------------------------------------------------------------------

_NONE, _NO_GAPS = np.empty(0, np.int64), np.empty(0)

#: Feasibility tolerance of the solver, for numbers near 1.
_SOLVER = 1e-9

#: Constraints with more slack than `_ROOM`, in units of the busiest link's seconds, are dropped
#: whenever the optimum has risen by the relative amount `_RISEN`; the latter prevents cycling.
_ROOM = 0.01

_RISEN = 1e-9

#: Largest number of times that the LP is solved.
_ROUNDS = 2000

#: Largest number of times at which coflows of a link begin that are distinguished.
_MOST_TIMES = 32


class _Cut(NamedTuple):
    """A constraint ``part @ finish[of] >= least``, whose coefficients sum to 1."""

    of: Ints
    part: Floats
    least: float


class _Link(NamedTuple):
    """The coflows `of` a link: for how long each loads it, and the time at which it can begin.

    `times` are the distinct times at which coflows begin, or some of them if they are many.
    """

    of: Ints
    seconds: Floats
    begin: Floats
    times: Floats


class _After(NamedTuple):
    """Pairs of a coflow and one before it, and the least time between their finishes."""

    child: Ints
    parent: Ints
    gap: Floats


class Ordering(NamedTuple):
    """The solution of an LP: finish times in seconds, and their weighted sum, a lower bound."""

    finish: Floats
    bound: float


def ordering(earliest: Floats, weight: Floats, owner: Ints, links: Ints, seconds: Floats,
             child: Ints = _NONE, parent: Ints = _NONE, gap: Floats = _NO_GAPS,
             begin: Floats | None = None, tolerance: float = 1e-7) -> Ordering:
    """Find the finish times C of least weighted sum subject to ordering constraints.

    The constraints are ``C >= earliest``, ``C[child] >= C[parent] + gap`` and, for every link and
    every set of coflows, ``sum(d*C) >= (sum(d)**2 + sum(d**2)) / 2``, where d is the time in
    seconds that each coflow of the set needs on the link (Queyranne, 1993). If none of the set can
    begin before some time, C counts from it. Of the coflows that begin at some time or later, the
    set whose constraint is violated most is a prefix when they are sorted by C, so that few sets
    have to be generated.

    A load is what one coflow (`owner`) sends over one link (`links`), and takes `seconds` alone. A
    `parent` has a smaller number than its `child`, and pairs are in order of the child. Coflows
    `begin` at 0 by default. At the end, no constraint is violated by more than `tolerance`,
    relatively. The optimum exceeds the returned bound by at most this factor, as finish times later
    by it satisfy all constraints. If the method is stopped before, it warns.
    """
    if find_spec("scipy") is None:
        raise MissingExtraError("scipy", "ilp")
    unit = float(np.bincount(links, seconds).max(initial=0.0)) or 1.0
    loads = _by_link(owner, links, seconds / unit,
                     np.zeros(len(earliest)) if begin is None else begin / unit)
    after = _After(child, parent, gap / unit)
    finish = lowest = earliest / unit
    inside = _in_order(finish, lowest, loads, after)
    cuts: list[_Cut] = []
    reached = 0.0
    for _ in range(_ROUNDS):
        candidate = _in_order(finish, lowest, loads, after)
        inside = min(inside, candidate, key=weight.dot)
        # Cuts at a point half-way to a feasible one are deeper, so that fewer are needed.
        new = (_violated((finish + inside) / 2, loads, tolerance)
               or _violated(finish, loads, tolerance))
        if not new:
            return Ordering(unit * finish, unit * float(weight @ finish))
        if weight @ finish > reached * (1 + _RISEN):
            reached = float(weight @ finish)
            cuts = [cut for cut in cuts if cut.part @ finish[cut.of] < cut.least + _ROOM]
        cuts += new
        solved = _solve(cuts, weight, lowest, after)
        if solved is None:
            break
        finish = solved
    found, most = (unit * float(weight @ each) for each in (finish, inside))
    warnings.warn(NetsimWarning(
        f"the LP bound was stopped early: {found:.6g} s is a lower bound, but the LP's optimum "
        f"may be up to {most:.6g} s"), stacklevel=2)
    return Ordering(unit * finish, found)


def _by_link(owner: Ints, links: Ints, seconds: Floats, begin: Floats) -> list[_Link]:
    """Group loads by link; links without loads are left out."""
    used = np.flatnonzero(seconds > 0)
    if not len(used):
        return []
    used = used[np.argsort(links[used], kind="stable")]
    parts = np.split(used, np.flatnonzero(np.diff(links[used])) + 1)
    found = []
    for part in parts:
        of = owner[part]
        times = np.unique(begin[of])
        few = np.linspace(0, len(times) - 1, min(len(times), _MOST_TIMES)).astype(np.int64)
        found.append(_Link(of, seconds[part], begin[of], times[few]))
    return found


def _in_order(finish: Floats, lowest: Floats, loads: Sequence[_Link], after: _After) -> Floats:
    """Compute feasible finish times: every link serves coflows one after the other, in order.

    Those of children are moved back as far as they must.
    """
    place = np.argsort(np.argsort(finish, kind="stable"))
    found = lowest.copy()
    for link in loads:
        order = np.argsort(place[link.of])
        seconds, of = link.seconds[order], link.of[order]
        served = np.cumsum(seconds)
        idle = np.maximum.accumulate(link.begin[order] - (served - seconds))
        found[of] = np.maximum(found[of], served + np.maximum(idle, 0.0))
    for child, parent, gap in zip(*(column.tolist() for column in after), strict=True):
        found[child] = max(found[child], found[parent] + gap)
    return found


def _violated(finish: Floats, loads: Sequence[_Link], tolerance: float) -> list[_Cut]:
    """Find the most violated constraint of each link that has one."""
    found = []
    for link in loads:
        order = np.argsort(finish[link.of], kind="stable")
        of, since = link.of[order], link.times[:, None]
        part = np.where(link.begin[order] >= since, link.seconds[order], 0.0)  # by time, coflow
        total = np.cumsum(part, axis=1)
        some = np.where(total > 0, total, 1.0)
        least = (total + np.cumsum(part * part, axis=1) / some) / 2 + since
        lack = np.where(total > 0, 1 - np.cumsum(part * finish[of], axis=1) / some / np.where(
            total > 0, least, 1.0), -np.inf)
        time, last = np.unravel_index(int(np.argmax(lack)), lack.shape)
        if lack[time, last] > tolerance:
            chosen = np.flatnonzero(part[time, :last + 1])
            found.append(_Cut(of[chosen], part[time, chosen] / total[time, last],
                              float(least[time, last])))
    return found


def _solve(cuts: Sequence[_Cut], weight: Floats, lowest: Floats, after: _After) -> Floats | None:
    """Find the finish times with the least weighted sum; None if the solver failed."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    pairs = len(after.gap)
    ptr = np.cumsum([0, *(len(cut.of) for cut in cuts), *[2] * pairs])
    rows = csr_array((np.concatenate([*(cut.part for cut in cuts), np.tile((1.0, -1.0), pairs)]),
                      np.concatenate([*(cut.of for cut in cuts),
                                      np.column_stack((after.child, after.parent)).ravel()]),
                      ptr), (len(cuts) + pairs, len(weight)))
    least = np.concatenate(([cut.least for cut in cuts], after.gap))
    solved = linprog(weight / weight.max(), A_ub=-rows, b_ub=-least,
                     bounds=np.column_stack((lowest, np.full(len(lowest), np.inf))),
                     method="highs", options={"primal_feasibility_tolerance": _SOLVER,
                                              "dual_feasibility_tolerance": _SOLVER})
    return solved.x if solved.success else None


# --- the policy ----------------------------------------------------------------------------

#: Largest relative violation of a constraint: the bound is below the LP's optimum by as much.
_TOLERANCE = 1e-3


@dataclass(slots=True)
class _Plan:
    """The place of each job in the order, and the bound on the sum of weighted JCTs in seconds."""

    place: Ints | None = None
    bound_s: float = math.nan


@known_names
@dataclass(frozen=True)
class LPOrder(JobFirst):
    """Jobs in the order of a linear programme over all jobs, which it knows before the run.

    The LP minimises the weighted sum of the completion times of jobs. A job completes when all its
    coflows have, and weighs as much as the heaviest of them. Jobs keep their places to the end;
    within a job, coflows are in order of validity.

    Parameters
    ----------
    work_conservation : {"greedy", "none", "capped", "shared_uniform", "maxmin"}
        What the other n-1 jobs get of their LP rates, in order. ``"greedy"``: as much as fits.
        ``"capped"``: likewise, up to 1/(n-1). ``"shared_uniform"``: one common share, the largest
        that fits. ``"none"``: nothing. ``"maxmin"``: as ``"greedy"``, and then the flows of each
        job share max-min fairly.
    relaxation : {"jobs", "coflows"}
        What the LP orders. ``"jobs"``: jobs as a whole, each at least its time alone after its
        arrival. ``"coflows"``: also the coflows of all stages and iterations, each at least its
        computation and its Gamma after those that it waits for. The bound is tighter, and takes
        far longer: minutes for a few hundred wide coflows.

    Notes
    -----
    The variables are completion times C. For every link and every set S of coflows, with d the
    seconds that a coflow needs on the link, ``sum(d*C) >= (sum(d)**2 + sum(d**2)) / 2`` over S
    holds in any schedule, since a link serves one second per second (Queyranne, 1993); C counts
    from the time at which the first of S can begin. So it does for jobs, with d that of all coflows
    of a job; both relaxations have the constraints of jobs.
    With the constraints of dependencies and arrivals, the optimum is a lower bound; constraints are
    added until none is violated by more than 0.1 %. A run has it in its summary, less the arrivals,
    as ``weighted_jct_bound_s``.

    On M equal machines, if jobs do not compute, the weighted sum of completion times is at most
    2 M + 1 times the LP's optimum. The jobs up to the k-th in order have arrived by some time r,
    which is at most C_k. Until all of them are complete, the first that is not has an
    active coflow, whose Gamma falls by a second per second. So they are complete at
    r + sum(Gamma). Gamma is at most the seconds of a coflow on all senders together, and for each
    sender, the constraint of these jobs, with C <= C_k, says that C_k is at least half of the sum
    of their seconds: sum(Gamma) <= 2 M C_k.

    The paper's own algorithm was not followed step by step: which of several coflows of a job goes
    first, and which gets the bandwidth left over, is as for other policies here.
    """

    relaxation: str = "jobs"
    _plan: _Plan = field(default_factory=_Plan, init=False, repr=False, compare=False)

    information: ClassVar[Information] = "job-clairvoyant"
    plans_ahead: ClassVar[bool] = True
    needs_extra: ClassVar[tuple[str, str] | None] = ("scipy", "ilp")

    def __post_init__(self) -> None:
        super().__post_init__()
        as_choice(self.relaxation, "relaxation", ("coflows", "jobs"))

    def prepare(self, coming: Coming) -> None:
        """Solve the LP; see `Allocator.prepare`."""
        solved = (_of_jobs if self.relaxation == "jobs" else _of_coflows)(coming)
        finish = solved.finish[-len(coming.weight):]
        order = np.argsort(merge_equal(finish), kind="stable")
        self._plan.place = np.argsort(order)
        self._plan.bound_s = solved.bound - float(coming.weight @ coming.arrival_s)

    @property
    def counts(self) -> Mapping[str, float]:
        """The LP's lower bound on the weighted sum of JCTs, in seconds."""
        return {"weighted_jct_bound_s": self._plan.bound_s}

    def in_order(self, view: FabricView) -> Ints:
        """The coflows in order of their jobs; by arrival if it was not prepared."""
        place = self._plan.place
        return np.argsort(view.job if place is None else place[view.job], kind="stable")


def _of_jobs(coming: Coming) -> Ordering:
    """Solve the LP of jobs as a whole."""
    jobs = coming.jobs()
    return ordering(jobs.earliest_s, coming.weight, jobs.owner, jobs.link, jobs.seconds,
                    begin=jobs.begin_s, tolerance=_TOLERANCE)


def _of_coflows(coming: Coming) -> Ordering:
    """Solve the LP of steps and, after them, jobs; links count once for steps, once for jobs."""
    steps, jobs = coming.coflows(), coming.jobs()
    count = len(steps.job)
    links = int(jobs.link.max(initial=-1)) + 1
    join = np.concatenate
    return ordering(
        join((steps.earliest_s, jobs.earliest_s)), join((np.zeros(count), coming.weight)),
        join((steps.owner, jobs.owner + count)), join((steps.link, jobs.link + links)),
        join((steps.seconds, jobs.seconds)), join((steps.child, steps.job + count)),
        join((steps.parent, np.arange(count))), join((steps.gap_s, np.zeros(count))),
        join((steps.begin_s, jobs.begin_s)), _TOLERANCE)
