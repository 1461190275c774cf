"""A wake-up call that can be moved to an earlier time, unlike an event of SimPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heappush

from netsim.errors import InputError, closed_by, interruption_of
from netsim.fabric.allocator import Undecided
from netsim.late import simpy

#: After everything else at its instant, so that one decision sees all of an instant's events.
_LATE = 2


class Alarm:
    """An alarm that rings at the earliest of the times set since it last rang.

    A scheduled SimPy event cannot be cancelled. If it is later than a newly set time, an earlier
    event is scheduled as well; otherwise no event is added, so few are ever pending. If `ring`
    fails, the fabric has been left in the middle of an instant, and is closed.
    """

    def __init__(self, env: simpy.Environment, ring: Callable[[], None]) -> None:
        self._env = env
        self._ring = ring
        self._at = math.inf
        self._set: list[float] = []
        self._closed = ""  # why

    @property
    def alone(self) -> bool:
        """Whether the environment has no other event than this alarm."""
        return len(self._env._queue) == len(self._set)

    def set(self, at: float) -> None:
        """Ring at `at`, in seconds, unless the alarm rings earlier anyway."""
        self._at = min(self._at, at)
        self._arm()

    def _arm(self) -> None:
        if self._set and self._set[-1] <= self._at:
            return
        self._set.append(self._at)
        event = simpy.Event(self._env)
        event._ok, event._value = True, None
        event.callbacks.append(self._on_event)
        # SimPy would add a delay to now, and not every instant is a sum of that kind.
        heappush(self._env._queue, (max(self._at, self._env.now), _LATE,  # type: ignore[misc]
                                    next(self._env._eid), event))

    def _on_event(self, _: simpy.Event) -> None:
        if self._set.pop() < self._at:
            if self._at < math.inf:
                self._arm()
            return
        self._at = math.inf
        self.check_open()
        with self.closing(Undecided):
            self._ring()

    @contextmanager
    def closing(self, *unless: type[Exception]) -> Iterator[None]:
        """Close the fabric if the body of this context fails with an error other than these."""
        try:
            yield
        except unless:
            raise
        except BaseException as error:
            self._closed = closed_by("fabric", interruption_of(error) or error, self._env.now,
                                     "Make a new environment, and a new fabric in it.")
            self.set(self._env.now)  # so that running the environment again is an error
            raise

    def check_open(self) -> None:
        """Raise an error if an earlier one has closed the fabric."""
        if self._closed:
            raise InputError(self._closed)
