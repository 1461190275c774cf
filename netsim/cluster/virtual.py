"""The virtual machine of A-SRPT: one machine that always serves who has the least left."""

from __future__ import annotations

import math
from heapq import heappop, heappush

__all__ = ["VirtualMachine"]

#: Relative to the instant: what the clock of a run may be off.
_ROUNDING = 1e-12


class VirtualMachine:
    """Preemptive shortest remaining processing time, at unit speed.

    Ties go by (what is left, arrival, number). At one instant jobs complete before others arrive,
    and a job of size 0 completes as it arrives.

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
        self._heap: list[tuple[float, float, int]] = []
        self._done: list[int] = []

    def arrive(self, now: float, job: int, size: float) -> None:
        """Take in a job that needs so many seconds; `now` never falls."""
        self._advance(now)
        if size == 0:
            self._done.append(job)
        else:
            heappush(self._heap, (size, now, job))

    def completed(self, now: float) -> list[int]:
        """Return who has completed by now and was not returned before, in order of completion."""
        self._advance(now)
        done, self._done = self._done, []
        return done

    @property
    def next_completion(self) -> float:
        """When the next job will, in seconds, if none arrives before; inf if there is none."""
        return self._now + self._heap[0][0] if self._heap else math.inf

    def _advance(self, now: float) -> None:
        """Serve the first until it has completed or `now` has come; nobody overtakes meanwhile."""
        heap = self._heap
        while heap and self._now + heap[0][0] <= now + _ROUNDING * abs(now):
            left, _, job = heappop(heap)
            self._now += left
            self._done.append(job)
        if heap and now > self._now:
            left, arrival, job = heap[0]
            # What is left of the first is still the least: its place in the heap stands.
            heap[0] = (left - (now - self._now), arrival, job)
        self._now = max(self._now, now)
