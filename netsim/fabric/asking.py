"""Asks a Python policy that keeps coflows in step, at coflow events ahead of the clock."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from netsim.fabric.allocation import Allocation
from netsim.fabric.flow_table import FlowTable
from netsim.fabric.kernels import rules
from netsim.fabric.rule import Rule
from netsim.fabric.ruling import Ruling


def _none(coflows: object, jobs: object, now: float, order: object) -> None:
    """Stand in for a compiled rule; `Asking.answer` asks the policy instead."""


class Asking(Ruling):
    """Stores the answers of a Python policy where the event loop expects those of a compiled rule.

    ``ask(now)`` must return the policy's answer, checked.
    """

    def __init__(self, table: FlowTable, ask: Callable[[float], Allocation]) -> None:
        super().__init__(Rule(_none), table)
        self._ask = ask
        #: An answer that does not keep coflows in step, so that the event loop must stop.
        self.pending: Allocation | None = None
        self._given: Allocation | None = None

    def _find_address(self) -> int:
        return rules.NO_RULE

    def _make_room(self) -> None:
        super()._make_room()
        self._places = np.arange(len(self._sequence))

    def answer(self, now: float) -> bool:
        """Ask the policy for the next decision; return whether the event loop can apply it."""
        allocation = self._ask(now)
        if allocation.in_step:
            self.take(allocation)
            return True
        self.pending = allocation
        return False

    def take(self, allocation: Allocation) -> None:
        """Store an answer that keeps coflows in step, for the next decision."""
        self._given = allocation

    def engine(self, check: bool) -> rules.Ruled:
        """Return the engine as `Ruling.engine` does, with the stored answer, if any, in it."""
        engine, given = super().engine(check), self._given
        if given is None:
            return engine
        self._given = None
        order, count = self._order, len(self._table.coflows)
        order.wake_at[0] = given.revisit_at
        order.limit[:count] = np.inf
        if given.shares is not None:
            order.share[:count], order.most[:count] = given.shares, 0.0
            self._sequence[:count] = self._places[:count]
        else:
            assert given.order is not None
            order.share[:count], order.most[:count] = 0.0, 1.0
            self._sequence[:count] = given.order
        self._answered[0] = 1
        return engine
