"""The virtual machine of A-SRPT: one machine under preemptive SRPT."""

from __future__ import annotations

import math
from typing import NamedTuple

from netsim.schedulers.waiting_jobs import TiedQueue
from netsim.ties import equal

#: Relative error of the clock of a run.
_ROUNDING = 1e-12

#: Error of a job's remaining time, in units in the last place of the current instant.
_ULPS = 4


class _Served(NamedTuple):
    """The job being served: its remaining time, and its (arrival, number)."""

    left: float
    job: tuple[float, int]


class VirtualMachine:
    """Preemptive shortest remaining processing time (SRPT) at unit speed.

    Jobs with the same remaining time go in order of arrival, then number. At one instant,
    completions come before arrivals, and a job of size 0 completes on arrival. Remaining times are
    the same if they are equal by `netsim.ties`, or differ by no more than the error of the clock.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._served: _Served | None = None
        self._waiting: TiedQueue[tuple[float, int]] = TiedQueue(self._tie)
        self._done: list[int] = []

    def arrive(self, now: float, job: int, size: float) -> None:
        """Add a job of a given size in seconds. Calls must be in order of `now`."""
        self._advance(now)
        if size == 0:
            self._done.append(job)
            return
        self._waiting.push(size, (now, job))
        if self._served is not None:
            self._waiting.push(*self._served)
        self._serve_next()

    def completed(self, now: float) -> list[int]:
        """List the jobs that have completed since the last call, in order of completion."""
        self._advance(now)
        done, self._done = self._done, []
        return done

    @property
    def next_completion(self) -> float:
        """Instant of the next completion if no job arrives before it; inf if there is no job."""
        return math.inf if self._served is None else self._now + self._served.left

    def _tie(self, one: float, other: float) -> bool:
        """Whether two remaining times tie."""
        return equal(one, other) or abs(one - other) <= _ULPS * math.ulp(self._now)

    def _serve_next(self) -> None:
        """Take the first waiting job into service."""
        self._served = _Served(*self._waiting.pop()) if self._waiting else None

    def _advance(self, now: float) -> None:
        """Serve jobs up to `now`; without arrivals, the order does not change meanwhile."""
        until = now + _ROUNDING * abs(now)
        while self._served is not None and self._now + self._served.left <= until:
            self._now += self._served.left
            self._done.append(self._served.job[1])
            self._serve_next()
        if self._served is not None and now > self._now:
            left, job = self._served
            self._served = _Served(left - (now - self._now), job)
        self._now = max(self._now, now)
