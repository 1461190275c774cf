"""The virtual machine of A-SRPT: one machine that always serves who has the least left."""

from __future__ import annotations

import math
from typing import NamedTuple

from netsim.schedulers.tied_queue import TiedQueue
from netsim.ties import equal

__all__ = ["VirtualMachine"]

#: Relative to the instant: what the clock of a run may be off.
_ROUNDING = 1e-12

#: Units in the last place of the instant: what is left of a job may be off by as much.
_ULPS = 4


class _Served(NamedTuple):
    """The job that is served: what is left of it, and its arrival and number."""

    left: float
    job: tuple[float, int]


class VirtualMachine:
    """Preemptive shortest remaining processing time, at unit speed.

    Ties go by (what is left, arrival, number). At one instant jobs complete before others arrive,
    and a job of size 0 completes as it arrives. What is left of two jobs ties if it is equal, as
    `netsim.ties` has it, or differs by no more than the clock is off, from which it is computed.

    Examples
    --------
    The first has 8 s left when the second arrives, which needs 3 and goes ahead.

    >>> machine = VirtualMachine()
    >>> machine.arrive(0.0, 0, 10.0)
    >>> machine.arrive(2.0, 1, 3.0)
    >>> machine.completed(5.0), machine.next_completion, machine.completed(13.0)
    ([1], 13.0, [0])
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._served: _Served | None = None
        self._waiting: TiedQueue[tuple[float, int]] = TiedQueue(self._tie)
        self._done: list[int] = []

    def arrive(self, now: float, job: int, size: float) -> None:
        """Take in a job that needs so many seconds; `now` never falls."""
        self._advance(now)
        if size == 0:
            self._done.append(job)
            return
        self._waiting.push(size, (now, job))
        if self._served is not None:
            self._waiting.push(*self._served)
        self._serve_next()

    def completed(self, now: float) -> list[int]:
        """Return who has completed by now and was not returned before, in order of completion."""
        self._advance(now)
        done, self._done = self._done, []
        return done

    @property
    def next_completion(self) -> float:
        """When the next job will, in seconds, if none arrives before; inf if there is none."""
        return math.inf if self._served is None else self._now + self._served.left

    def _tie(self, one: float, other: float) -> bool:
        return equal(one, other) or abs(one - other) <= _ULPS * math.ulp(self._now)

    def _serve_next(self) -> None:
        self._served = _Served(*self._waiting.pop()) if self._waiting else None

    def _advance(self, now: float) -> None:
        """Serve the first until it has completed or `now` has come; nobody overtakes meanwhile."""
        until = now + _ROUNDING * abs(now)
        while self._served is not None and self._now + self._served.left <= until:
            self._now += self._served.left
            self._done.append(self._served.job[1])
            self._serve_next()
        if self._served is not None and now > self._now:
            left, job = self._served
            self._served = _Served(left - (now - self._now), job)
        self._now = max(self._now, now)
