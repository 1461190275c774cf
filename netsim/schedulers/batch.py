"""BatchSche: waiting jobs are dispatched in batches, each to edge workers or to the cloud."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from netsim.checks import LARGEST, is_number
from netsim.edge.schedule import Schedule, Training, begun_by, so_far
from netsim.edge.setting import CLOUD, EdgeSetting, Floats, Ints
from netsim.edge.stepped_run import SteppedRun
from netsim.errors import InputError, UnknownNameError
from netsim.plain import plain_numbers
from netsim.ties import below, rank
from netsim.units import Quantity, parse_seconds

__all__ = ["BatchSche"]

#: Relative tolerance within which instants are equal; see `netsim.edge.kernels.ROUNDING`.
_ROUNDING = 1e-12

_NOBODY = np.array([], np.int64)

_MODES = ("doubling", "periodic")


@plain_numbers
@dataclass(frozen=True)
class BatchSche:
    """BatchSche, in this project's interpretation: whole jobs in batches, without preemption.

    At each of the instants of `mode`, waiting jobs are dispatched in order of increasing D p1. A
    job goes to the edge if it is cheaper there, that is, if 0.8 * 10**u * p0 < p1, where u is the
    share of workers of its type that are busy. It then keeps min(D, free) workers until it ends.
    Other jobs go to the cloud.

    Parameters
    ----------
    mode : {"doubling", "periodic"}
        Whether batches are dispatched after 1, 2, 4, 8, ... times `first` slots, or after 1, 2,
        3, 4, ... times.
    first : float
        Slots before the first batch, greater than 0.
    slot : quantity
        Length of a slot.

    Raises
    ------
    InputError
        If a value is invalid.
    """

    mode: str = "doubling"
    first: float = 8
    slot: Quantity = "1h"

    def __post_init__(self) -> None:
        if self.mode not in _MODES:
            raise UnknownNameError("mode of BatchSche", self.mode, _MODES)
        if not (is_number(self.first) and 0 < self.first <= LARGEST):
            raise InputError(f"first must be a number of slots greater than 0, not {self.first!r}")
        slot = parse_seconds(self.slot, "slot", strict=True)
        if not 0 < self.first * slot <= LARGEST:
            raise InputError(f"first must be a number of slots of {slot:g} s that last more than 0 "
                             f"and at most {LARGEST:g} s, not {self.first!r}")

    def run(self, setting: EdgeSetting) -> SteppedRun:
        """Return the run of all jobs; see `netsim.edge.stepped_run.SteppedRun`."""
        return _BatchRun(self, setting)

    def instant(self, event: float) -> float:
        """Return the first dispatch instant that is not before an event."""
        instant = step = self.first * parse_seconds(self.slot, "slot")
        if self.mode == "periodic":
            count = event / step
            if count >= 2.0 ** 53:  # instants are closer to each other than floats
                return event
            instant = step * max(math.ceil(count) - 1, 1)
        while instant * (1 + _ROUNDING) < event:
            instant = 2 * instant if self.mode == "doubling" else step * (round(instant / step) + 1)
        return instant


class _BatchRun(SteppedRun):
    """A run under `BatchSche`; each event is an instant at which jobs are dispatched."""

    def __init__(self, policy: BatchSche, setting: EdgeSetting) -> None:
        self._policy, self._setting = policy, setting
        self._batches = _Batches(setting)
        self._waiting: list[int] = []
        self._come, self._now = 0, 0.0
        self._next = self._find_next()

    @property
    def arrived(self) -> int:
        """See `SteppedRun`."""
        return self._come

    @property
    def over(self) -> bool:
        """See `SteppedRun`."""
        return self._come == len(self._setting.jobs) and not self._waiting

    def next_at(self) -> float:
        """See `SteppedRun.next_at`."""
        return self._next

    def _find_next(self) -> float:
        """Return the next instant; those at which nothing can be dispatched are skipped."""
        if self.over:
            return math.inf
        arrival = self._setting.arrival
        coming = float(arrival[self._come]) if self._come < len(arrival) else math.inf
        return self._policy.instant(
            min(coming, self._batches.end(self._now) if self._waiting else math.inf))

    def step(self) -> None:
        """See `SteppedRun.step`."""
        self._now = now = self._next
        arrival = self._setting.arrival
        while self._come < len(arrival) and arrival[self._come] <= now * (1 + _ROUNDING):
            self._waiting.append(self._come)
            self._come += 1
        self._waiting = self._batches.dispatch(self._waiting, now)
        self._next = self._find_next()

    def times(self) -> tuple[Floats, Floats]:
        """See `SteppedRun.times`."""
        return self._batches.start, self._batches.finish

    def schedule(self, until: float) -> Schedule:
        """See `SteppedRun.schedule`."""
        return self._batches.schedule(until)

    def submit(self, place: int) -> None:
        """See `SteppedRun.submit`."""
        self._batches.make_room(place)
        self._next = self._find_next()


class _Batches:
    """The dispatched jobs, and the workers that they keep busy."""

    def __init__(self, setting: EdgeSetting) -> None:
        jobs = len(setting.jobs)
        self._setting = setting
        self._busy_until = np.zeros(setting.system.total)
        self._workers: list[Ints] = [_NOBODY] * jobs
        self.start, self.finish = np.full(jobs, np.nan), np.full(jobs, np.nan)
        self._uploads = np.zeros(jobs)

    def make_room(self, place: int) -> None:
        """Make room for a job that has been inserted in the setting."""
        self._workers.insert(place, _NOBODY)
        self.start = np.insert(self.start, place, np.nan)
        self.finish = np.insert(self.finish, place, np.nan)
        self._uploads = np.insert(self._uploads, place, 0.0)

    def dispatch(self, waiting: list[int], now: float) -> list[int]:
        """Dispatch waiting jobs at an instant; return those that have to wait longer."""
        setting = self._setting
        order = [waiting[place] for place in rank(setting.chunks[waiting] * setting.p1[waiting])]
        return sorted(job for job in order if not self._give(job, now))

    def end(self, now: float) -> float:
        """Return the instant at which the next busy worker becomes free; inf if none is busy."""
        return float(min(self._busy_until[self._busy_until > now * (1 + _ROUNDING)],
                         default=math.inf))

    def _give(self, job: int, now: float) -> bool:
        """Dispatch a job to the edge or the cloud if possible; return whether it was."""
        setting, workers = self._setting, self._setting.workers_of[job]
        free = workers[self._busy_until[workers] <= now * (1 + _ROUNDING)]
        cloud = setting.system.cloud
        if len(free):
            price = 0.8 * 10 ** (1 - len(free) / len(workers))
            if not cloud or below(price * setting.p0[job], setting.p1[job]):
                self._to_edge(job, free, now)
                return True
        if cloud:
            self.start[job] = now + setting.cloud_delay[job]
            self.finish[job] = self.start[job] + setting.p1[job]
            self._uploads[job] = setting.chunks[job] * setting.cloud_delay[job]
        return cloud

    def _to_edge(self, job: int, free: Ints, now: float) -> None:
        """Give a job the free workers with the shortest upload delays."""
        setting, chunks = self._setting, int(self._setting.chunks[job])
        delay = setting.delays[job, setting.system.server_of[free]]
        order = rank(delay)[:chunks]
        count = len(order)
        self._workers[job] = free[order]
        self.start[job] = now + delay[order].max()
        self.finish[job] = self.start[job] + -(-chunks // count) * setting.p0[job]
        self._uploads[job] = delay[order][np.arange(chunks) % count].sum()
        self._busy_until[self._workers[job]] = self.finish[job]

    def schedule(self, until: float) -> Schedule:
        """Return what has happened to all dispatched jobs by an instant."""
        setting = self._setting
        # In the cloud all chunks train at once, which is one row with the worker CLOUD.
        workers = [held if len(held) else np.array([CLOUD]) for held in self._workers]
        at_edge = np.array([len(held) > 0 for held in self._workers])
        in_cloud = ~at_edge & ~np.isnan(self.start)
        rows = np.repeat(np.arange(len(workers)), [len(held) for held in workers])
        training = Training(rows, np.full(len(rows), -1), np.concatenate(workers),
                            self.start[rows], self.finish[rows])
        finish = so_far(self.finish, until)
        exchanged = at_edge & ~np.isnan(finish)
        return Schedule(
            so_far(self.start, until), finish, np.where(in_cloud, setting.chunks, 0),
            np.zeros(len(workers), np.int64),
            self._uploads + np.where(exchanged, setting.exchange * setting.chunks, 0.0),
            begun_by(training, until), counts={"cloud_jobs": int(in_cloud.sum())})
