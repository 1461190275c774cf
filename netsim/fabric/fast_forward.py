"""Run ahead of the clock where a policy has said how it decides, and jobs what they send next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.flow_table import FlowTable
from netsim.fabric.kernels.ahead import FULL, Room, fast_forward
from netsim.fabric.kernels.turns import decide
from netsim.fabric.records import COFLOW
from netsim.fabric.turns import Turns

__all__ = ["FastForward"]

#: How many coflows that have completed are kept at most before those who record them are told.
_DONE = 512


class FastForward:
    """Goes from decision to decision of a policy that takes turns, in compiled code.

    Parameters
    ----------
    table : FlowTable
    tell : callable
        Called with the COFLOW rows of some that have completed, and all FLOW rows.

    Attributes
    ----------
    now, next_finish : float
        Up to when bytes have flowed, and when the first coflow ends at the shares in force.
    decisions : int
        How often shares have been decided.
    link : int
        A link that is overloaded; see `kernels.progress.apply_shares`.
    """

    def __init__(self, table: FlowTable,
                 tell: Callable[[NDArray[Any], NDArray[Any]], None]) -> None:
        self._table = table
        self._tell = tell
        self._done = np.empty(_DONE, COFLOW)
        self._links = np.empty((2, len(table.capacity)))
        self._room = self._make_room(0)
        self.now = self.next_finish = 0.0
        self.decisions = 0
        self.link = -1

    def _make_room(self, size: int) -> Room:
        if size > len(self._done):
            self._done = np.empty(size, COFLOW)
        floats, ints = np.empty((4, size)), np.empty((2, size), np.int64)
        return Room(*floats, *ints)

    def shares(self, turns: Turns) -> NDArray[np.float64]:
        """Return what a rule says now. Shape (active coflows,)."""
        table = self._table
        self._have_room()
        decide(table.coflows, table.jobs, table.loads, table.capacity, turns.rule, self._room,
               self._links)
        return self.last_shares

    def _have_room(self) -> None:
        if len(self._table.rows) > len(self._room.shares):
            self._room = self._make_room(len(self._table.rows))

    def fast_forward(self, turns: Turns, now: float, next_finish: float, until: float,
                     interval: float, check: bool) -> None:
        """Go on from the decision that is in force now; see `kernels.ahead.fast_forward`."""
        table, rule = self._table, turns.rule
        self.decisions, self.link = 0, -1
        why, undecided = FULL, False
        while why == FULL:
            table.make_room_for_lines(now)
            self._have_room()
            before = len(table.coflows)
            (why, now, next_finish, undecided, count, gone, idle, decisions,
             self.link) = fast_forward(
                table.kernel_view, table.lines.kernel_view, table.capacity, table.used, rule,
                self._room, self._links, self._done, (now, next_finish, until, interval, check),
                before, table.last_key + 1, undecided)
            table.went_on(count, count + gone - before, idle)
            self.decisions += decisions
            if gone:
                self._tell(self._done[:gone].copy(), table.flows)
        self.now, self.next_finish = now, next_finish

    @property
    def last_shares(self) -> NDArray[np.float64]:
        """The shares of the last decision. Shape (active coflows,)."""
        return self._room.shares[:len(self._table.coflows)]
