"""Base of schedulers that define an order of jobs.

The order contains jobs that hold GPUs and jobs that wait. A job loses its GPUs only to jobs before
it. Decisions follow from the order by the same rules for all policies:

- Jobs started at this instant keep their GPUs. All jobs do if the policy does not preempt.
- In order, a job that holds GPUs keeps them if that leaves room for the jobs before it;
  otherwise it is preempted. A waiting job *comes* if it can be placed beside the jobs before it.
- Jobs that come are placed, in order, on GPUs that are free then. If these do not suffice
  because other jobs still save their progress, GPUs are reserved for the job, and it does not
  start yet.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.values import as_flag, convert
from netsim.cluster.context import RunContext
from netsim.cluster.ring import is_sliced
from netsim.engine.view import ClusterView, Decision, Start
from netsim.errors import AllocationError
from netsim.placements.placement import Room
from netsim.schedulers import kernels
from netsim.schedulers.waiting_jobs import QueuePlace, WaitingJobs, places_of, precedes
from netsim.ties import EQUAL, is_now


class Keys(NamedTuple):
    """The sort keys of jobs, ascending: by level, then value, then tie.

    Values that differ by no more than 1e-9 of the larger one are equal. Jobs with equal keys are in
    order of arrival, then id.

    Attributes
    ----------
    level, value, tie : ndarray of float, shape (jobs,); or float
        Values are finite; levels may also be inf, ties inf and -inf.
    """

    level: Floats | float = 0.0
    value: Floats | float = 0.0
    tie: Floats | float = 0.0


@dataclass(frozen=True)
class After:
    """The effects of a decision.

    Attributes
    ----------
    view : ClusterView
    preempt : sequence of int
    start : sequence of Start
    fresh : sequence of int
        Jobs that this decision preempts, and that wait from now on.
    """

    view: ClusterView
    preempt: Sequence[int]
    start: Sequence[Start]
    fresh: Sequence[int]

    def holding(self) -> tuple[Ints, Floats]:
        """Return the jobs that will hold GPUs, and when their progress on them begins.

        Times are in seconds; inf as long as they are not known.
        """
        view, jobs = self.view, self.view.holding
        if self.preempt:
            jobs = jobs[~np.isin(jobs, self.preempt)]
        ready = [view.ready_on(job, gpus) for job, gpus in self.start]
        return (np.concatenate((jobs, np.array([job for job, _ in self.start], np.int64))),
                np.concatenate((view.ready(jobs), np.array(ready, np.float64))))


class Order:
    """Base class of the order of jobs in one run; by default, the order never changes by itself.

    Attributes
    ----------
    promotions : mapping of int to int
        How often each promoted job was promoted.
    """

    promotions: Mapping[int, int] = MappingProxyType({})

    def see(self, view: ClusterView, fresh: Sequence[int]) -> Collection[int]:
        """Update the order; return waiting jobs with changed keys.

        Parameters
        ----------
        view : ClusterView
        fresh : sequence of int
            Jobs that have begun to wait since the last call.
        """
        return ()

    def keys(self, view: ClusterView, jobs: Ints) -> Keys:
        """Return the keys of jobs; the keys of waiting jobs may only change during `see`."""
        raise NotImplementedError

    def wake_at(self, view: ClusterView, after: After) -> float:
        """Return the next instant at which the order changes by itself; inf if it does not."""
        return math.inf

    def add_job(self, job: int, context: RunContext) -> None:
        """Add a job that has been submitted and has not arrived."""

    def check_open(self) -> None:
        """Check that more jobs can be submitted; see `netsim.engine.view.Scheduler`."""


@dataclass(frozen=True)
class InOrder(Order):
    """Base of schedulers that define an order of jobs.

    A subclass defines `keys`, by which jobs are sorted. If the order changes by itself, the
    subclass also overrides `wake_at`. If the order has a state, the subclass overrides `order_of`,
    which then returns a new `Order` for each run. A run ends with an `AllocationError` if keys do
    not have the form of `Keys`.

    Parameters
    ----------
    backfill : bool
        Whether jobs may start that come after one that does not fit.

    Raises
    ------
    InputError
        If `backfill` is neither true nor false.
    """

    #: Whether jobs that wait may take GPUs from those that hold some.
    preempts: ClassVar[bool] = True

    backfill: bool = True

    def __post_init__(self) -> None:
        convert(self, backfill=as_flag)

    @property
    def work_conserving(self) -> bool:
        """Whether it claims to start every job that fits."""
        return self.backfill

    def begin(self, context: RunContext) -> InOrderRun:
        """Return the object that decides in a run; see `netsim.engine.view.Scheduler`."""
        return InOrderRun(self, self.order_of(context), context)

    def order_of(self, context: RunContext) -> Order:
        """Return the order of a run."""
        return self


def _brief(values: NDArray[Any], given: Any) -> str:
    """Describe what was returned instead of numbers."""
    if values.dtype.kind in "biuf":
        return f"an array of shape {values.shape}"
    return reprlib.repr(given)


class InOrderRun:
    """Decisions by an order, in one run."""

    def __init__(self, policy: InOrder, order: Order, context: RunContext) -> None:
        self._policy, self._order, self._name = policy, order, type(policy).__name__
        self.line = WaitingJobs()  #: the jobs that wait, in order
        #: Whether jobs may start that come after one that does not fit.
        self.backfill = policy.backfill
        self._fresh: list[int] = []
        self._sliced = any(is_sliced(job.model) for job in context.jobs)

    @property
    def promotions(self) -> Mapping[int, int]:
        """How often jobs have been promoted."""
        return self._order.promotions

    def add_job(self, job: int, context: RunContext) -> None:
        """Add a job submitted during the run; see `Scheduler`."""
        self._sliced = self._sliced or is_sliced(context.jobs[job].model)
        self._order.add_job(job, context)

    def check_open(self) -> None:
        """Check that more jobs can be submitted; see `Scheduler`."""
        self._order.check_open()

    def decide(self, view: ClusterView) -> Decision:
        """Choose the jobs to start and to preempt; see `netsim.engine.view.Scheduler`."""
        self._see(view)
        if not view.pending and not view.saving:
            return Decision()
        if not self._policy.preempts:
            return Decision(self._starts_in_line(view))
        refuses = self._sliced or getattr(view.placement, "refuses", True) or view.lost
        preempt, come = _by_placing(self, view) if refuses else _by_counting(self, view)
        return self._decision(view, preempt, come)

    def _see(self, view: ClusterView) -> None:
        """Add jobs that have begun to wait, and update those with changed keys."""
        fresh = [*(job for job in self._fresh if job in view.pending), *view.arrived]
        self._fresh = []
        changed = self._order.see(view, fresh)
        for job in changed:
            self.line.remove(job)
        if queued := list(dict.fromkeys([*fresh, *changed])):
            jobs = np.array(queued)
            keys = self._keys(view, jobs)
            for place in places_of(keys, queued, [view.jobs[job].ranks for job in queued]):
                self.line.add(place)

    def _keys(self, view: ClusterView, jobs: Ints) -> list[Floats]:
        """The keys of jobs as arrays, checked."""
        found = self._order.keys(view, jobs)
        if not isinstance(found, Keys):
            raise AllocationError(f"scheduler {self._name}: keys must return Keys(level, value, "
                                  f"tie), not {reprlib.repr(found)}")
        return [self._column(view, jobs, field, given)
                for field, given in zip(Keys._fields, found, strict=True)]

    def _column(self, view: ClusterView, jobs: Ints, field: str, given: Any) -> Floats:
        """Check a field of the keys of jobs, and copy it to an array."""
        try:
            values = np.asarray(given)
        except ValueError:  # lists of different lengths
            values = np.array(None)
        if values.dtype.kind not in "biuf" or values.shape not in ((), jobs.shape):
            raise AllocationError(
                f"scheduler {self._name}: {field} of the keys of {len(jobs)} jobs at {view.now:g} "
                f"s must be a number, or an array of numbers of shape {jobs.shape}, not "
                f"{_brief(values, given)}")
        column = np.empty(len(jobs))
        column[:] = values
        # Infinite values would tie with all others; the first level is for jobs that must stay.
        wrong = (~np.isfinite(column) if field == "value" else
                 np.isnan(column) | (column == -math.inf) if field == "level" else
                 np.isnan(column))
        if wrong.any():
            place = int(np.flatnonzero(wrong)[0])
            allowed = {"level": "a number, or inf", "value": "finite",
                       "tie": "a number, inf or -inf"}
            raise AllocationError(
                f"scheduler {self._name}: {field} of the keys of job {view.jobs[jobs[place]].id} "
                f"must be {allowed[field]}, not {column[place]:g} (at {view.now:g} s)")
        return column

    def holding(self, view: ClusterView) -> tuple[Ints, Ints, list[Floats]]:
        """The jobs that hold GPUs, their numbers of GPUs, and their keys in the order."""
        jobs = view.holding
        keys = self._keys(view, jobs)
        keys[0][is_now(view.got(jobs), view.now)] = -math.inf  # nothing is stopped at once
        return jobs, view.ranks(jobs), keys

    def out_of_line(self, view: ClusterView) -> list[int]:
        """Find the waiting jobs whose keys differ from those with which they were queued.

        There are none, unless keys changed and `Order.see` did not report it.
        """
        filed = [*self.line.places.values()]
        jobs, gpus = [place.job for place in filed], [place.gpus for place in filed]
        if not jobs:
            return []
        found = places_of(self._keys(view, np.array(jobs)), jobs, gpus)
        return [place.job for place, now in zip(filed, found, strict=True) if place != now]

    def _starts_in_line(self, view: ClusterView) -> list[Start]:
        """Place all waiting jobs that fit, or those before the first that does not."""
        waiting = _Waiting(self, view, view.idle, view.room())
        waiting.come_before(None)
        for job, _ in waiting.come:
            self.line.remove(job)
        return waiting.come

    def refuses_alike(self, view: ClusterView) -> bool:
        """Whether a placement that refuses a job also refuses all others with as many GPUs."""
        placement = view.placement
        return not self._sliced and (getattr(placement, "refuses_by_size", False)
                                     or not getattr(placement, "refuses", True))

    # --- from jobs that come to GPUs -------------------------------------------------------

    def _decision(self, view: ClusterView, preempt: Sequence[int], come: Sequence[int]) -> Decision:
        """Preempt jobs, then place those that come, in order."""
        saves = {job for job in preempt if view.saves(job)}
        starts, stay = self._placed(view, preempt, come, saves)
        preempt = [job for job in preempt if job not in stay]
        started = {job for job, _ in starts}
        for job in started:
            self.line.remove(job)
        self._fresh = [job for job in preempt if job not in saves and job not in started]
        waits = (len(view.pending) > len(started.difference(preempt))
                 or view.saving or saves or self._fresh)
        wake_at = math.inf
        if waits:
            wake_at = self._order.wake_at(view, After(view, preempt, starts, self._fresh))
        return Decision(starts, preempt, wake_at)

    @staticmethod
    def _placed(view: ClusterView, preempt: Sequence[int], come: Sequence[int],
                saves: Collection[int]) -> tuple[list[Start], set[int]]:
        """Place jobs on free GPUs; reserve others for jobs that cannot be placed yet.

        Returns the starts, and the jobs that stay because they would move to the GPUs that they
        have.
        """
        if not come:
            return [], set()
        free, coming = view.free, view.free
        if preempt or view.saving:
            free, coming = view.free.copy(), view.free.copy()
            for job in preempt:
                coming[view.running[job]] = True
                free[view.running[job]] = job not in saves
            for saving in view.saving.values():
                coming[saving.gpus] = True
            if view.lost:
                live = _live(view)
                free, coming = free & live, coming & live
        now, later = view.room_on(free), view.room_on(coming)
        starts: list[Start] = []
        stay: set[int] = set()
        for job in come:
            gpus = now.place(job)
            if gpus is None:
                kept = later.place(job)
                if kept is not None:
                    now.take(kept)
                continue
            later.take(gpus)
            if job in view.running and set(gpus.tolist()) == set(view.running[job].tolist()):
                stay.add(job)
            else:
                starts.append((job, gpus))
        return starts, stay


# --- the walk along the order ------------------------------------------------------------------


def _by_counting(run: InOrderRun, view: ClusterView) -> tuple[list[int], list[int]]:
    """Find the jobs to preempt and those that come, if any free GPUs suit any job."""
    held = int(view.ranks(view.holding).sum())
    room = view.idle + sum(len(saving.gpus) for saving in view.saving.values())
    come: list[int] = []
    waiting = run.line.in_order(room + held if run.backfill else math.inf)
    holders: _Holders | None = None
    for place in waiting:
        if place.gpus > room:
            holders = holders or _Holders(run, view)
            before = holders.before(place)
            if held - before + room < place.gpus:
                if not run.backfill:
                    break
                run.line.reject(place)  # nor do jobs behind it that need as many GPUs
                continue
            return _displacing(run, holders, waiting, [*come, place.job], place,
                               room + held - before - place.gpus)
        come.append(place.job)
        room -= place.gpus
        if not room and not held:
            break
    return [], come


def _displacing(run: InOrderRun, holders: _Holders, waiting: Iterator[QueuePlace], come: list[int],
                first: QueuePlace, left: int) -> tuple[list[int], list[int]]:
    """Continue after the first job that displaces others, with `left` GPUs left."""
    holders.sort_after(first)
    preempt: list[int] = []
    for place in waiting:
        left, lose = holders.stay(left, holders.place_of(place))
        preempt += lose
        if place.gpus <= left:
            come.append(place.job)
            left -= place.gpus
        elif run.backfill:
            run.line.reject(place)
        else:
            break
    return preempt + holders.stay(left)[1], come


class _Holders:
    """The jobs that hold GPUs, sorted as far as needed."""

    def __init__(self, run: InOrderRun, view: ClusterView) -> None:
        self._jobs, self._gpus, self._keys = run.holding(view)
        self._last = _last(self._keys)
        self._sum = int(self._gpus.sum())
        self._passed = 0

    def before(self, place: QueuePlace) -> int:
        """The number of GPUs of jobs that come before a place."""
        if place[:2] > self._last:
            return self._sum
        return int(kernels.before(*self._keys, self._jobs, self._gpus, *place[:4])[0])

    def sort_after(self, place: QueuePlace) -> None:
        """Drop the jobs before a place, and sort the others."""
        after = np.flatnonzero(~_before(self._keys, self._jobs, place))
        keys, jobs = [key[after] for key in self._keys], self._jobs[after]
        order = _sorted(keys, jobs)
        self._jobs, self._gpus = jobs[order], self._gpus[after][order]
        self._keys = [key[order] for key in keys]
        self._sums = np.concatenate(([0], np.cumsum(self._gpus)))

    def place_of(self, place: QueuePlace) -> int:
        """The number of sorted jobs that come before a place."""
        return int(kernels.before(*self._keys, self._jobs, self._gpus, *place[:4])[1])

    def stay(self, left: int, stop: int | None = None) -> tuple[int, list[int]]:
        """Keep the next sorted jobs, up to `stop`, on their GPUs as long as they fit into `left`.

        Returns the GPUs left then, and the jobs that do not fit.
        """
        lose: list[int] = []
        stop = len(self._jobs) if stop is None else stop
        while self._passed < stop:
            passed = self._sums[self._passed]
            fits = int(np.searchsorted(self._sums, passed + left, "right")) - 1
            fits = min(fits, stop)
            left -= int(self._sums[fits] - passed)
            if fits < stop:
                lose.append(int(self._jobs[fits]))
                fits += 1
            self._passed = fits
        return left, lose


def _by_placing(run: InOrderRun, view: ClusterView) -> tuple[list[int], list[int]]:
    """Find the jobs to preempt and those that come, if a placement may refuse free GPUs."""
    jobs, gpus, keys = run.holding(view)
    order = _sorted(keys, jobs)
    walk, preempt = _Walk(run, view), []
    for holder in places_of([key[order] for key in keys], jobs[order].tolist(),
                          gpus[order].tolist()):
        walk.come_before(holder)
        if walk.stays(holder):
            continue
        preempt.append(holder.job)
        if not view.saves(holder.job):
            walk.moves(holder)
    walk.come_before(None)
    return preempt, [job for job, _ in walk.come]


class _Waiting:
    """The waiting jobs that come, in order, as long as there are suitable GPUs."""

    def __init__(self, run: InOrderRun, view: ClusterView, left: int, room: Room) -> None:
        self._line, self._backfill, self._alike = run.line, run.backfill, run.refuses_alike(view)
        self._room, self._left = room, left
        self._blocked = False
        self.come: list[Start] = []  #: the jobs that come, with their GPUs in the room
        self._line.rewind(left if run.backfill else math.inf)

    def come_before(self, end: QueuePlace | None) -> None:
        """Go through the waiting jobs up to a place in the order; None is its end."""
        line = self._line
        while (not self._blocked and (place := line.first())
               and (end is None or precedes(place, end))):
            if self._comes(place):
                line.take(place)
                self._look_again(place)
            elif not self._backfill:
                self._blocked = True
            elif self._alike:
                line.skip(place)
            else:
                line.take(place)

    def _comes(self, place: QueuePlace) -> bool:
        """Place a job beside those that stay and come, if possible; return whether it was."""
        gpus = self._room.place(place.job) if place.gpus <= self._left else None
        if gpus is None:
            return False
        self.come.append((place.job, gpus))
        self._left -= place.gpus
        return True

    def _look_again(self, place: QueuePlace) -> None:
        """Reconsider skipped jobs behind a place, if other GPUs are left than before."""
        if self._backfill:
            self._line.at_most(self._left)
        for skipped in self._line.skipped():
            if self._room.fits(skipped.job):
                self._line.skip_to(skipped, place)


class _Walk(_Waiting):
    """A pass through the order, in which waiting jobs come, and others stay or move."""

    def __init__(self, run: InOrderRun, view: ClusterView) -> None:
        self._view, self._free = view, _live(view)
        super().__init__(run, view, int(np.count_nonzero(self._free)), view.room_on(self._free))

    def stays(self, holder: QueuePlace) -> bool:
        """Keep a job on its GPUs beside those before it, if possible; return whether it stays."""
        gpus = self._view.running[holder.job]
        own = int(np.count_nonzero(self._free[gpus]))
        if self.come and own > self._left:
            return False
        free = self._free.copy()
        free[gpus] = False
        room = self._view.room_on(free)
        if any(room.place(job) is None for job, _ in self.come):
            return False
        self._free, self._room, self._left = free, room, self._left - own
        self._look_again(holder)
        return True

    def moves(self, holder: QueuePlace) -> None:
        """Place a job that cannot stay on other GPUs, if possible."""
        if not self._blocked and self._comes(holder):
            self._look_again(holder)


def _live(view: ClusterView) -> Bools:
    """The mask of GPUs of servers that are not lost."""
    return ~np.isin(view.cluster.server_of, list(view.lost))


def _last(keys: list[Floats]) -> tuple[float, float]:
    """A level and a value that sort after those of every job."""
    if not len(keys[0]):
        return -math.inf, -math.inf
    value = float(keys[1].max())
    return float(keys[0].max()), value + EQUAL * abs(value)


def _before(keys: list[Floats], jobs: Ints, place: QueuePlace) -> Bools:
    """The mask of jobs that come before a place in the order."""
    level, value, tie = keys
    apart = value - place.value
    same = np.abs(apart) <= EQUAL * np.maximum(np.abs(value), abs(place.value))
    tied = (tie < place.tie) | ((tie == place.tie) & (jobs < place.job))
    return (level < place.level) | ((level == place.level) & np.where(same, tied, apart < 0))


def _sorted(keys: list[Floats], jobs: Ints) -> Ints:
    """The indices that sort jobs by their keys."""
    level, value, tie = keys
    order = np.lexsort((value, level))
    high, low = value[order][1:], value[order][:-1]
    apart = ((high - low > EQUAL * np.maximum(np.abs(high), np.abs(low)))
             | (level[order][1:] != level[order][:-1]))
    run = np.empty(len(jobs), np.int64)
    run[order] = np.concatenate(([0], np.cumsum(apart)))[:len(jobs)]
    return np.lexsort((jobs, tie, run))
