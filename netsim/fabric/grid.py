"""The times at which events are noticed: all times, or multiples of an observation interval."""

from __future__ import annotations

import math
from typing import Protocol

from netsim.fabric.kernels.chains import GRID_SLACK, MOST_TICKS
from netsim.fabric.kernels.loop import NOTICE_SLACK


class HasClock(Protocol):
    """Anything with a time, such as SimPy's environment."""

    @property
    def now(self) -> float: ...


class Grid:
    """Computes when events are noticed: at multiples of `interval` seconds, at once if it is 0."""

    def __init__(self, interval: float, env: HasClock) -> None:
        self.interval = interval
        self._env = env

    def observed(self, at: float) -> float:
        """Return the time at which an event at `at` is noticed."""
        if not self.interval:
            return at
        if at / self.interval > MOST_TICKS:
            return max(at, self._env.now)
        instant = math.ceil(at / self.interval - GRID_SLACK) * self.interval
        return max(instant, self._env.now)

    def slack(self) -> float:
        """Return by how many seconds an event may lie in the future and still count as due now."""
        return max(NOTICE_SLACK * self.interval, 4 * math.ulp(self._env.now))

    def due(self, at: float, since: float = -math.inf) -> float:
        """Return when to act on an event: at `at`, or, if that is over, at the next instant.

        A time is over if it is noticed no later than now or `since`.
        """
        now = max(self._env.now, since)
        if at < math.inf and self.observed(at) <= now:
            return max(now + self.interval, math.nextafter(now, math.inf))
        return at
