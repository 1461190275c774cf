"""Checks of allocations, and the errors for those that an allocator must not return."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.lazy import simpy
from netsim.errors import AllocationError
from netsim.fabric.allocation import Allocation, not_once
from netsim.fabric.allocator import Allocator
from netsim.fabric.clock import Alarm
from netsim.fabric.flow_table import FlowTable
from netsim.fabric.kernels.rules import NO_ORDER
from netsim.fabric.view import FabricView
from netsim.network import Topology

#: How many times in a row a policy may ask to be woken while flows have rates but no byte moves.
_MOST_VAIN = 1000

#: How many times in a row it may ask to be woken while no flow has a rate and nothing else is due.
_MOST_IDLE = 100_000


class AllocationChecker:
    """Checks the answers of an allocator, and makes errors that name it."""

    def __init__(self, env: simpy.Environment, network: Topology, allocator: Allocator,
                 table: FlowTable, alarm: Alarm) -> None:
        self._env, self._network, self._table, self._alarm = env, network, table, alarm
        self._name = allocator.title
        self._vain = 0
        self._left_then = b""
        self._idle = 0
        self._left_idle = b""
        self.asked_s = float(env.now)  #: when the policy was last asked

    @property
    def _now(self) -> float:
        """The time of the last decision if that is ahead of the clock; otherwise now."""
        return max(self._env.now, self.asked_s)

    def refuse(self, what: str) -> AllocationError:
        """Return an error that names the allocator, its fault and the time."""
        return AllocationError(f"allocator {self._name} at t = {self._now:g} s {what}")

    def check(self, allocation: Allocation, view: FabricView) -> None:
        """Raise an error unless the answer is an allocation that this policy may give now."""
        if not isinstance(allocation, Allocation):
            raise self.refuse(f"returned {type(allocation).__name__}, not an Allocation")
        at = allocation.revisit_at
        if not (isinstance(at, float | int) and at > self._now):
            raise self.refuse(f"asks to be woken at {at!r} s, which is not after now, "
                              f"{self._now!r} s")
        if view.uses_sizes(allocation):
            raise self.refuse("returned shares or MADD, which use sizes, but it declares that "
                              'it is agnostic')
        if misfit := allocation.misfit(len(view), view.flows):
            raise self.refuse(misfit)

    def infeasible(self, given: NDArray[Any], link: int) -> AllocationError:
        """Make the error for an overloaded link, or for invalid values if `link` is negative.

        These are an order if `link` is `NO_ORDER`, and else rates, shares or weights.
        """
        if link == NO_ORDER:
            return self.refuse(not_once(given))
        if link < 0:
            bad = given[~(np.isfinite(given) & (given >= 0))][0]
            return self.refuse(f"returned {bad!r}; rates, shares and weights must be "
                               "finite and not negative")
        return self.refuse(
            f"overloads link {self._network.link_names[link]!r}: it would carry "
            f"{self._table.used[link]:.6g} of {self._table.capacity[link]:.6g} bytes/s")

    def see_progress(self, asked: bool, next_end: float) -> bool:
        """Raise an error if no byte moves although the policy asks to be woken again and again.

        Return whether waking the policy is pointless: all coflows need dead links, and no event is
        due.
        """
        self._vain = self._vain + 1 if asked else 0
        if asked and next_end == math.inf == self._table.next_arrival and self._alarm.alone:
            self._table.refresh()
            self._see_idleness()
            return bool(np.isinf(self._table.coflows["gamma"]).all())
        self._idle = 0
        if self._vain % _MOST_VAIN or not asked:
            return False
        left, self._left_then = self._left_then, self._table.bytes_left().tobytes()
        if self._left_then == left and next_end < math.inf:
            raise self.refuse(f"has asked to be woken {_MOST_VAIN} times in a row, so soon that "
                              "rates of its own did not move a byte")
        return False

    def _see_idleness(self) -> None:
        """Raise an error if a policy lets no coflow send, and asks to be woken without end."""
        self._idle += 1
        if self._idle == 1:
            self._left_idle = self._table.bytes_left().tobytes()
        elif self._idle > _MOST_IDLE:
            if self._table.bytes_left().tobytes() == self._left_idle:
                raise self.refuse(f"has asked to be woken {_MOST_IDLE:,} times in a row and lets "
                                  "nobody move, and nothing else will happen")
            self._idle = 0
