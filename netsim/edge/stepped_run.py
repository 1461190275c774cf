"""Runs on an edge-cloud, event by event, which can be held, inspected and continued."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from netsim.base.arrays import Floats
from netsim.base.values import Rows
from netsim.edge.schedule import ChunkPlacement, Schedule, Storage, begun_by, of_chunks, so_far
from netsim.edge.setting import CLOUD, EdgeSetting
from netsim.edge.transport import Transport
from netsim.errors import InputError, StalledError


class SteppedRun(ABC):
    """Base class of runs of jobs under a scheduler of an edge-cloud.

    All state is in attributes, so a deep copy is an independent run. A run that has events defines
    `next_at` and `step`, and one that takes more jobs `submit`.

    Attributes
    ----------
    arrived : int
        The number of jobs that have arrived from the scheduler's point of view.
    over : bool
        Whether the end of every job is known, so that `times` does not change any more unless
        another job is submitted.
    """

    @property
    @abstractmethod
    def arrived(self) -> int: ...

    @property
    @abstractmethod
    def over(self) -> bool: ...

    def next_at(self) -> float:
        """Return the instant of the next event, in seconds; inf if there is none."""
        return math.inf

    def step(self) -> None:
        """Process the next event."""
        raise NotImplementedError

    @abstractmethod
    def times(self) -> tuple[Floats, Floats]:
        """Return when each job first trains, and when it ends, as far as known; otherwise NaN.

        Future times may change with the next event. Both have shape (jobs,).
        """

    @abstractmethod
    def schedule(self, until: float) -> Schedule:
        """Return the schedule up to an instant that is not after the next event."""

    def check_open(self) -> None:  # noqa: B027 (by default, they can)
        """Check that more jobs can be submitted.

        Raises
        ------
        InputError
            If the scheduler takes no more jobs.
        """

    def submit(self, place: int) -> None:
        """Add a job that has been inserted in the setting and has not arrived."""
        raise NotImplementedError

    def shared(self) -> list[Any]:
        """List the objects that a fork of the run may share with it, as they never change."""
        return []

    def stalled(self) -> StalledError:
        """Make the error for jobs that wait although no event is left."""
        return StalledError("stalled: jobs wait, and nothing will happen any more")


class AtOnce(SteppedRun):
    """The run of a scheduler that makes the schedule of all jobs at the beginning."""

    def __init__(self, schedule: Schedule, title: str) -> None:
        self._schedule, self._title = schedule, title

    @property
    def arrived(self) -> int:
        return len(self._schedule.start)

    @property
    def over(self) -> bool:
        return True

    def times(self) -> tuple[Floats, Floats]:
        return self._schedule.start, self._schedule.finish

    def schedule(self, until: float) -> Schedule:
        """Return the schedule up to an instant.

        Preemptions and communication are those of the whole run, because their times are not known;
        the counts of the scheduler are left out.
        """
        whole = self._schedule
        finish = so_far(whole.finish, until)
        if not np.isnan(finish).any():
            return whole
        training, chunks = begun_by(whole.training, until), whole.chunks
        if chunks is not None:
            chunks = replace(chunks, ready=so_far(chunks.ready, until),
                             start=so_far(chunks.start, until),
                             finish=so_far(chunks.finish, until))
        return replace(whole, start=so_far(whole.start, until), finish=finish, training=training,
                       chunks=chunks, held=None, counts={})

    def check_open(self) -> None:
        raise InputError(f"scheduler {self._title!r} has worked out all jobs beforehand, and takes "
                         "no more")


class ChunkRun(SteppedRun):
    """A run under a scheduler of chunks, which dispatches the chunks of each job that arrives."""

    def __init__(self, setting: EdgeSetting, dispatcher: Any, transport: Transport) -> None:
        # `dispatcher` is a `netsim.schedulers.a_online.Dispatcher`.
        self._setting, self._dispatcher, self.transport = setting, dispatcher, transport
        self._storage = Storage(setting)
        self._placed: list[ChunkPlacement] = Rows()
        self._expect()

    @property
    def arrived(self) -> int:
        return len(self._placed)

    @property
    def over(self) -> bool:
        return self.arrived == len(self._setting.jobs) and self.transport.settled

    def _expect(self) -> None:
        """Tell the transport when the next job arrives."""
        come, arrival = self.arrived, self._setting.arrival
        self.transport.expect(float(arrival[come]) if come < len(arrival) else math.inf)

    def next_at(self) -> float:
        return self.transport.next_at()

    def step(self) -> None:
        if self.transport.step():
            self._dispatch(self.arrived)
            self._expect()

    def _dispatch(self, job: int) -> None:
        """Dispatch the chunks of a job that arrives now."""
        setting, storage, transport = self._setting, self._storage, self.transport
        now = float(setting.arrival[job])
        # With limited storage, chunks that have ended on any worker release it.
        transport.advance(now, np.arange(setting.system.total) if storage.limited
                          else setting.workers_of[job])
        storage.release(now, transport.ended)
        placed = self._dispatcher.place(job, transport.queues, storage)
        if storage.limits(job):
            servers = setting.system.server_of[placed.worker[placed.worker != CLOUD]]
            storage.take(job, np.bincount(servers, minlength=setting.system.servers))
        transport.dispatch(job, placed)
        self._placed.append(placed)

    def times(self) -> tuple[Floats, Floats]:
        return self.transport.times()

    def schedule(self, until: float) -> Schedule:
        none = ChunkPlacement(np.empty(0, np.int64), np.empty(0), np.empty(0))
        given = ChunkPlacement(*map(np.concatenate, zip(none, *self._placed, strict=True)))
        return of_chunks(self._setting, given, self.transport.log(), self.arrived, until)

    def submit(self, place: int) -> None:
        self.transport.make_room(place)
        self._expect()

    def stalled(self) -> StalledError:
        return self.transport.stalled()
