"""What several allocators share: orders that stand between events, and instants at an interval."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Generic, TypeVar

from netsim.fabric.allocation import Event
from netsim.fabric.view import FabricView

T = TypeVar("T")

#: Distance from a multiple of an interval, relative to it, that counts as rounding.
GRID_SLACK = 1e-6


def next_multiple(now: float, interval: float) -> float:
    """The first multiple of an interval that comes after now."""
    return max((math.floor(now / interval + GRID_SLACK) + 1) * interval,
               math.nextafter(now, math.inf))


def reorders(events: Event) -> bool:
    """Whether coflows are reordered: not where flows have ended or capacities changed."""
    return bool(events & (Event.COFLOW_VALID | Event.COFLOW_DONE | Event.REVISIT | Event.JOB))


class Standing(Generic[T]):
    """A policy's last decision on the order of coflows, which stands until `reorders`."""

    def __init__(self) -> None:
        self._last: T | None = None

    def at(self, view: FabricView, decide: Callable[[FabricView], T]) -> T:
        """The standing decision, made now if need be."""
        if self._last is None or reorders(view.events):
            self._last = decide(view)
        return self._last
