"""A run on an edge-cloud, event by event, which can be held, inspected and continued."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from netsim.edge.schedule import Schedule, begun_by, so_far
from netsim.edge.setting import Floats
from netsim.errors import InputError, StalledError


class SteppedRun:
    """Base class of runs of jobs under a scheduler of an edge-cloud.

    All state is in attributes, so a deep copy is an independent run.

    Attributes
    ----------
    arrived : int
        The number of jobs that have arrived from the scheduler's point of view.
    over : bool
        Whether the end of every job is known, so that `times` does not change any more unless
        another job is submitted.
    """

    @property
    def arrived(self) -> int:
        raise NotImplementedError

    @property
    def over(self) -> bool:
        raise NotImplementedError

    def next_at(self) -> float:
        """Return the instant of the next event, in seconds; inf if there is none."""
        raise NotImplementedError

    def step(self) -> None:
        """Process the next event."""
        raise NotImplementedError

    def times(self) -> tuple[Floats, Floats]:
        """Return when each job first trains, and when it ends, as far as known; otherwise NaN.

        Future times may change with the next event. Both have shape (jobs,).
        """
        raise NotImplementedError

    def schedule(self, until: float) -> Schedule:
        """Return the schedule up to an instant that is not after the next event."""
        raise NotImplementedError

    def check_open(self) -> None:
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
        """See `SteppedRun`."""
        return len(self._schedule.start)

    @property
    def over(self) -> bool:
        """See `SteppedRun`."""
        return True

    def next_at(self) -> float:
        """See `SteppedRun.next_at`."""
        return math.inf

    def times(self) -> tuple[Floats, Floats]:
        """See `SteppedRun.times`."""
        return self._schedule.start, self._schedule.finish

    def schedule(self, until: float) -> Schedule:
        """See `SteppedRun.schedule`.

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
        """See `SteppedRun.check_open`."""
        raise InputError(f"scheduler {self._title!r} has worked out all jobs beforehand, and takes "
                         "no more")
