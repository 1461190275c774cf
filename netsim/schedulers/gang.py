"""Gang schedulers of the edge: a job gets all its workers or none, and is preempted as a whole.

Jobs of different types share no workers, so each type is scheduled separately.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from netsim.edge.schedule import Schedule, Training, begun_by, so_far
from netsim.edge.setting import EdgeSetting, Floats, Ints
from netsim.edge.stepped_run import SteppedRun
from netsim.errors import InputError
from netsim.forking import Rows
from netsim.plain import plain_numbers
from netsim.ties import merge_equal, rank, reached
from netsim.units import Quantity, parse_seconds

__all__ = ["SRTF", "TiresiasL"]

#: Relative tolerance within which instants are equal; see `netsim.edge.kernels.ROUNDING`.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class SRTF:
    """Shortest remaining time first, for whole jobs at the edge.

    At every event, jobs in order of (remaining training, arrival) get workers as long as they fit.
    The others are suspended, at no cost; their data stays where it is.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"edge workers"})

    def run(self, setting: EdgeSetting) -> SteppedRun:
        """Return the run of all jobs; see `netsim.edge.stepped_run.SteppedRun`."""
        return _GangRun(setting, _Gang.remaining, ())


@plain_numbers
@dataclass(frozen=True)
class TiresiasL:
    """Tiresias-L: least attained service first, in discrete levels, for whole jobs at the edge.

    It works as `SRTF`, but with jobs in order of (level, arrival). The level of a job is the number
    of thresholds that its attained service has reached: its workers times the time for which it has
    held them.

    Parameters
    ----------
    thresholds : sequence of quantity, optional
        Ascending thresholds in worker-seconds, such as ``["6h", "24h"]``. By default 1/8 and 1/2 of
        the mean service that jobs need.

    Raises
    ------
    InputError
        If the thresholds are not positive and ascending.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"edge workers"})

    thresholds: Sequence[Quantity] | None = None

    def __post_init__(self) -> None:
        if self.thresholds is not None:
            self._given()

    def _given(self) -> tuple[float, ...]:
        """Return the given thresholds in worker-seconds, after checking them."""
        given: Any = self.thresholds
        listed = (given,) if isinstance(given, str | int | float) else tuple(given)
        found = tuple(parse_seconds(each, "thresholds", strict=True) for each in listed)
        if any(low >= high for low, high in pairwise(found)):
            raise InputError(f"thresholds must ascend, unlike {list(listed)!r}")
        return found

    def run(self, setting: EdgeSetting) -> SteppedRun:
        """Return the run of all jobs; see `SRTF.run`."""
        if self.thresholds is not None:
            given = self._given()
            return _GangRun(setting, partial(_Gang.level, thresholds=given), given)
        mean = float(np.mean([gang.size * gang.left for gang in _gangs(setting)]))
        given = mean / 8, mean / 2
        return _MeanRun(setting, partial(_Gang.level, thresholds=given), given)


@dataclass(slots=True, eq=False)
class _Gang:
    """The state of a job, which holds all its workers or none.

    Attributes
    ----------
    size : int
        Number of workers that the job takes, k'.
    left : float
        Seconds of training left when it last got or lost its workers.
    service : float
        Service attained by then, in worker-seconds.
    since, ready : float
        Instants at which it got its current workers, and at which its data is on all their servers.
    workers : ndarray of int
    data_at : dict of int to float
        Instant at which its data is, or will be, on each server used so far.
    """

    job: int
    size: int
    left: float
    service: float = 0.0
    since: float = math.inf
    ready: float = math.inf
    workers: Ints = field(default_factory=lambda: np.array([], np.int64))
    data_at: dict[int, float] = field(default_factory=dict)

    @property
    def end(self) -> float:
        """Instant at which the job ends if it keeps its workers; inf without workers."""
        return self.ready + self.left

    def remaining(self, now: float) -> float:
        """Return the seconds of training left."""
        return self.left - max(now - self.ready, 0.0) if len(self.workers) else self.left

    def attained(self, now: float) -> float:
        """Return the attained service in worker-seconds, including time for uploads."""
        return self.service + (self.size * (now - self.since) if len(self.workers) else 0.0)

    def level(self, now: float, thresholds: Sequence[float]) -> int:
        """Return the number of thresholds that its service has reached, up to rounding."""
        return reached(self.attained(now), thresholds, slack=self.size * now * _ROUNDING)

    def reaches(self, now: float, thresholds: Sequence[float]) -> float:
        """Return the instant at which its service reaches the next threshold; inf if never."""
        if not len(self.workers):
            return math.inf
        level = self.level(now, thresholds)
        if level == len(thresholds):
            return math.inf
        return self.since + (thresholds[level] - self.service) / self.size


def _gangs(setting: EdgeSetting) -> list[_Gang]:
    """Return the states of all jobs, without workers."""
    return [_gang(setting, job) for job in range(len(setting.jobs))]


def _gang(setting: EdgeSetting, job: int) -> _Gang:
    """Return the state of a job, without workers."""
    spec = setting.jobs[job]
    size = min(spec.workers, len(setting.workers_of[job]))
    return _Gang(job, size, -(-spec.chunks // size) * float(setting.p0[job]))


#: Sort key of jobs at an instant; ties go by (arrival, id).
Key = Callable[[_Gang, float], float]


class _GangRun(SteppedRun):
    """A run in which jobs are served in order of a sort key, in a loop for each type of workers.

    Parameters
    ----------
    setting : EdgeSetting
    key : callable
        A function of a module, as a copy of the run shares it.
    thresholds : sequence of float
        Service at which the keys of jobs change, in worker-seconds.
    """

    def __init__(self, setting: EdgeSetting, key: Key, thresholds: Sequence[float]) -> None:
        self._setting, self._key, self._thresholds = setting, key, thresholds
        self._record = _Record(setting)
        self._loops: dict[Any, _TypeLoop] = {}
        for gang in _gangs(setting):
            self._loop_of(gang).come_later(gang)

    def _loop_of(self, gang: _Gang) -> _TypeLoop:
        kind = self._setting.jobs[gang.job].worker_type
        if kind not in self._loops:
            self._loops[kind] = _TypeLoop(self._setting, self._setting.workers_of[gang.job],
                                          self._key, self._thresholds, self._record)
        return self._loops[kind]

    @property
    def arrived(self) -> int:
        """See `SteppedRun`."""
        return max(loop.last + 1 for loop in self._loops.values())

    @property
    def over(self) -> bool:
        """See `SteppedRun`."""
        return all(loop.over for loop in self._loops.values())

    def next_at(self) -> float:
        """See `SteppedRun.next_at`."""
        return min(loop.next_at for loop in self._loops.values())

    def step(self) -> None:
        """See `SteppedRun.step`."""
        min(self._loops.values(), key=attrgetter("next_at")).step()

    def times(self) -> tuple[Floats, Floats]:
        """See `SteppedRun.times`."""
        start, finish = self._record.start.copy(), self._record.finish.copy()
        for gang in self._active():
            if len(gang.workers):
                start[gang.job] = np.fmin(start[gang.job], gang.ready)
                finish[gang.job] = gang.end
        return start, finish

    def _active(self) -> list[_Gang]:
        return [gang for loop in self._loops.values() for gang in loop.active]

    def schedule(self, until: float) -> Schedule:
        """See `SteppedRun.schedule`."""
        return self._record.schedule(self._active(), until)

    def submit(self, place: int) -> None:
        """See `SteppedRun.submit`."""
        self._record.make_room(place)
        for loop in self._loops.values():
            loop.renumber(place)
        gang = _gang(self._setting, place)
        self._loop_of(gang).come_later(gang)


class _MeanRun(_GangRun):
    """A run with thresholds that were derived from all jobs."""

    def check_open(self) -> None:
        """See `SteppedRun.check_open`."""
        raise InputError("scheduler 'tiresias-l' has derived its thresholds from all jobs, and "
                         "takes no more; give thresholds")


class _Record:
    """Times, preemptions and uploads of all jobs."""

    def __init__(self, setting: EdgeSetting) -> None:
        jobs = len(setting.jobs)
        self._setting = setting
        self._rows: list[tuple[int, int, float, float]] = Rows()
        self.start, self.finish = np.full(jobs, np.nan), np.full(jobs, np.nan)
        self.preemptions = np.zeros(jobs, np.int64)
        self.uploads = np.zeros(jobs)
        self.workers = self.migrations = 0

    def trained(self, gang: _Gang, until: float) -> None:
        """Record that a gang stops training on its current workers."""
        self._rows += [(gang.job, worker, gang.ready, until) for worker in gang.workers.tolist()]
        self.start[gang.job] = np.fmin(self.start[gang.job], gang.ready)

    def make_room(self, place: int) -> None:
        """Make room for a job that has been inserted in the setting; it has not arrived."""
        self.start = np.insert(self.start, place, np.nan)
        self.finish = np.insert(self.finish, place, np.nan)
        self.preemptions = np.insert(self.preemptions, place, 0)
        self.uploads = np.insert(self.uploads, place, 0.0)

    def schedule(self, active: Sequence[_Gang], until: float) -> Schedule:
        """Return what has happened by an instant; active jobs go on training if they can."""
        setting, jobs, start = self._setting, len(self._setting.jobs), self.start.copy()
        rows = self._rows.copy()
        for gang in active:
            if len(gang.workers):
                start[gang.job] = np.fmin(start[gang.job], gang.ready)
                rows += [(gang.job, worker, gang.ready, gang.end)
                         for worker in gang.workers.tolist()]
        rows.sort(key=lambda row: (row[0], row[2], row[1]))
        job, worker = (np.array([row[k] for row in rows], np.int64) for k in (0, 1))
        begin, end = (np.array([row[k] for row in rows], np.float64) for k in (2, 3))
        finish = so_far(self.finish, until)
        exchanged = np.where(np.isnan(finish), 0.0, setting.chunks * setting.exchange)
        return Schedule(
            so_far(start, until), finish, np.zeros(jobs, np.int64), self.preemptions,
            self.uploads + exchanged,
            begun_by(Training(job, np.full(len(job), -1), worker, begin, end), until),
            counts={"preempted_workers": self.workers, "migrations": self.migrations})


class _TypeLoop:
    """Event loop for the jobs of one type of workers.

    Attributes
    ----------
    active : list of _Gang
        Jobs that have arrived and have not ended, in order of (arrival, id).
    last : int
        The job that arrived last; -1 if none has.
    next_at : float
        Instant of the next event; inf if there is none.
    """

    def __init__(self, setting: EdgeSetting, workers: Ints, key: Key, thresholds: Sequence[float],
                 record: _Record) -> None:
        self._setting, self._key, self._record = setting, key, record
        self._thresholds, self._workers = thresholds, workers
        self._coming: list[_Gang] = []  # in order of (arrival, id)
        self.active: list[_Gang] = []
        self.last, self._now, self.next_at = -1, 0.0, math.inf
        self._free = np.ones(setting.system.total, np.bool_)

    @property
    def over(self) -> bool:
        """Whether all jobs have ended."""
        return not (self._coming or self.active)

    def come_later(self, gang: _Gang) -> None:
        """Take in a job that has not arrived."""
        insort(self._coming, gang, key=attrgetter("job"))
        self.next_at = self._next(self._now)

    def renumber(self, place: int) -> None:
        """Take note that a job has been inserted in the setting."""
        for gang in self._coming:
            gang.job += gang.job >= place

    def step(self) -> None:
        """Process the events of an instant: ends and arrivals, then a choice of jobs."""
        self._now = now = self.next_at
        for gang in [gang for gang in self.active if gang.end <= now * (1 + _ROUNDING)]:
            self._record.finish[gang.job] = gang.end
            self._record.trained(gang, gang.end)
            self.active.remove(gang)
            self._free[gang.workers] = True
        while self._coming and self._arrival(self._coming[0]) <= now * (1 + _ROUNDING):
            self.active.append(self._coming.pop(0))
            self.last = self.active[-1].job
        self._choose(now)
        self.next_at = self._next(now)

    def _arrival(self, gang: _Gang) -> float:
        """Return the arrival of a job, in seconds."""
        return float(self._setting.arrival[gang.job])

    def _next(self, now: float) -> float:
        """Return the instant of the next event."""
        soonest = self._arrival(self._coming[0]) if self._coming else math.inf
        for gang in self.active:
            soonest = min(soonest, gang.end)
            if self._thresholds:
                soonest = min(soonest, gang.reaches(now, self._thresholds))
        return soonest

    def _choose(self, now: float) -> None:
        """Suspend jobs that are not among the first that fit, and start those that are."""
        left, chosen = len(self._workers), []
        for place in rank([self._key(gang, now) for gang in self.active]).tolist():
            gang = self.active[place]
            if gang.size <= left:
                chosen.append(gang)
                left -= gang.size
            elif len(gang.workers):
                self._suspend(gang, now)
        for gang in chosen:
            if not len(gang.workers):
                self._start(gang, now)

    def _suspend(self, gang: _Gang, now: float) -> None:
        """Take the workers from a job."""
        record = self._record
        record.preemptions[gang.job] += 1
        record.workers += gang.size
        gang.service = gang.attained(now)
        if now > gang.ready * (1 + _ROUNDING):
            record.trained(gang, now)
            gang.left = gang.remaining(now)
        self._free[gang.workers] = True
        gang.workers, gang.since, gang.ready = gang.workers[:0], math.inf, math.inf

    def _start(self, gang: _Gang, now: float) -> None:
        """Give a job free workers, preferably where its data is or arrives soonest."""
        system, delays = self._setting.system, self._setting.delays[gang.job]
        free = self._workers[self._free[self._workers]]
        server = system.server_of[free]
        fetched = ~np.isin(server, list(gang.data_at))
        gang.workers = free[np.lexsort((free, merge_equal(delays[server]), fetched))[:gang.size]]
        self._free[gang.workers] = False
        # Chunk i goes to worker i modulo k'. Chunks for servers new to the job are uploaded.
        chunks = self._setting.jobs[gang.job].chunks
        used = np.bincount(system.server_of[gang.workers[np.arange(chunks) % gang.size]],
                           minlength=system.servers)
        new = [each for each in np.flatnonzero(used).tolist() if each not in gang.data_at]
        self._record.migrations += bool(new) and bool(gang.data_at)
        self._record.uploads[gang.job] += float((used[new] * delays[new]).sum())
        for each in new:
            gang.data_at[each] = now + float(delays[each])
        servers = np.unique(system.server_of[gang.workers]).tolist()
        gang.since, gang.ready = now, max(now, *(gang.data_at[each] for each in servers))
