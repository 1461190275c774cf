"""Runs the compiled event loop on the table, and tells who watches where it pauses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.flow_table import FlowTable
from netsim.fabric.kernels.greedy import serve_greedily
from netsim.fabric.kernels.loop import AT_ENDS, FULL, PAUSED, REDO, WAITS, run
from netsim.fabric.kernels.serving import serve
from netsim.fabric.kernels.turns import Room, Ruled, decide
from netsim.fabric.records import COFLOW, LOOP
from netsim.fabric.service import PriorityService
from netsim.fabric.turns import Turns

__all__ = ["EventLoop"]

#: How many coflows that have completed are kept at most before those who record them are told.
_DONE = 512

_NO_COFLOWS = np.empty(0, COFLOW)
_NOTHING = np.empty(0)


class EventLoop:
    """Goes from event to event in compiled code, ahead of the clock.

    Parameters
    ----------
    table : FlowTable
    interval : float
        The observe interval, in seconds.
    pause : int
        When to tell `watch`; see `kernels.loop`.
    carries : bool
        Whether to add up the bytes that each link carries.
    completed : callable
        Called with the COFLOW rows of some that have completed, and all FLOW rows.
    watch : callable
        ``watch(start, now, carried, decisions)`` is called when bytes have been moved, or the rule
        has decided.

    Attributes
    ----------
    interval : float
    now : float
        The instant as of which bytes are.
    end : float
        When the next flow ends; `now` if something has happened that others must act on.
    crossing : float
        When the next coflow has sent as much as its limit; inf if none will.
    ended : int
        How many flows have ended since the loop began.
    link : int
        A link that the rule's allocation overloads, -1 if there is none.
    """

    def __init__(self, table: FlowTable, interval: float, pause: int, carries: bool,
                 completed: Callable[[NDArray[Any], NDArray[Any]], None],
                 watch: Callable[[float, float, NDArray[np.float64], int], None]) -> None:
        self._table = table
        self.interval, self._pause = interval, pause
        self._carries = carries
        self._completed, self._watch = completed, watch
        self._state = np.zeros(1, LOOP)
        self._finished = np.empty(0, np.int64)
        self._done = np.empty(_DONE, COFLOW)
        self._links = np.empty((2, len(table.capacity)))
        self._room = _room(0)
        self._keep(0)
        self.now = 0.0

    # --- the ways of an allocation into force ----------------------------------------

    def share(self, now: float, until: float) -> None:
        """Share max-min fairly, by weight, from now on, until a coflow completes."""
        parts = self._table.sharing_parts(_NO_COFLOWS)
        self._begin(now, until, notice=now)
        self._run(parts, _NO_COFLOWS)

    def share_all(self, now: float, until: float) -> bool:
        """As `share`, but go on when coflows complete and others come, all with weight 1.

        Returns
        -------
        bool
            Whether there is only no room for more, and the loop should begin again.
        """
        table = self._table
        coming = table.coming
        table.make_room_to_join(now)
        parts = table.sharing_parts(coming)
        self._begin(now, until, notice=now, goes_on=True)
        why = self._run(parts, coming)
        table.came(coming, int(self._state["joined"][0]))
        return why == FULL

    def serve(self, service: PriorityService, now: float, until: float) -> None:
        """Serve coflows in order from now on, until a coflow completes."""
        table = self._table
        table.leave_sharing()
        keeps = table.serving.is_worth_keeping(table.coflows)
        if not keeps:
            table.serving.end()
        self._begin(now, until, notice=now)
        if not keeps and self._pause != AT_ENDS:
            self._serve_few(service)
            return
        why = REDO
        while why == REDO:
            engine = table.serving.begin(table.coflows, table.pools.arrays, table.capacity,
                                         service, self.interval)
            why = self._run(engine, _NO_COFLOWS)
            if why == REDO or not keeps:
                table.serving.end()

    def _serve_few(self, service: PriorityService) -> None:
        """As `serve`, with an engine that nobody keeps."""
        self._make_room()
        carried = self._carried()
        args = (self._state, self._table.kernel_view, self._table.lines.kernel_view, _NO_COFLOWS,
                self._finished, self._done, self._table.capacity, carried)
        if service.flow_by_flow:
            serve_greedily(service.order, service.by_size, *args)
        else:
            serve(service.rule, *args)
        self._tell(carried)

    def shares(self, turns: Turns) -> NDArray[np.float64]:
        """Return the shares that a rule gives now. Shape (active coflows,)."""
        table = self._table
        self._make_room()
        decide(table.coflows, table.jobs, table.loads, table.capacity, turns.rule, self._room,
               self._links)
        return self.last_shares

    @property
    def last_shares(self) -> NDArray[np.float64]:
        """The shares of the rule's last decision. Shape (active coflows,)."""
        return self._room.shares[:len(self._table.coflows)]

    def take_turns(self, turns: Turns, now: float, until: float, check: bool) -> None:
        """Go on from the shares that are in force now, deciding by a rule at coflow events."""
        table = self._table
        self._begin(now, until, notice=np.inf, goes_on=True, drops=True, together=True)
        why = FULL
        while why == FULL:
            table.make_room_for_lines(self.now)
            self._make_room()
            why = self._run(Ruled(turns.rule, self._room, self._links, table.used, check),
                            _NO_COFLOWS)

    def pass_time(self, now: float, until: float) -> None:
        """Let time pass until an instant while links are shared, at the rates in force."""
        self._begin(now, np.inf, notice=until, only_moves=True, together=True)
        self._run(self._table.sharing.parts, _NO_COFLOWS)

    # --- the loop --------------------------------------------------------------------

    def _begin(self, now: float, until: float, *, notice: float, goes_on: bool = False,
               drops: bool = False, only_moves: bool = False, together: bool = False) -> None:
        table = self._table
        self.now = now
        self._state[0] = (now, 0.0, now, np.inf, until, self.interval, notice,
                          table.lines.next_due if goes_on else np.inf, now, self._pause,
                          len(table.coflows), table.last_key + 1, 0, 0, 0, 0, 0, 0, goes_on, drops,
                          only_moves, together, False, 0, -1)
        self.ended = 0

    def _run(self, engine: Any, coming: NDArray[Any]) -> int:
        """Run until the loop stops for good; return why."""
        table = self._table
        self._make_room()
        while True:
            carried = self._carried()
            run(engine, self._state, table.kernel_view, table.lines.kernel_view, coming,
                self._finished, self._done, table.capacity, carried)
            why = self._tell(carried)
            if why != PAUSED:
                return why

    def _carried(self) -> NDArray[np.float64]:
        return np.zeros(len(self._table.capacity)) if self._carries else _NOTHING

    def _tell(self, carried: NDArray[np.float64]) -> int:
        """Update the table, tell who records and watches, and return why the loop stopped."""
        table, state = self._table, self._state
        start = self.now
        (self.now, _, self.end, crossing, _, _, _, due, _, _, count, key, _, idle, gone, ended,
         decisions, _, goes_on, _, _, _, _, why, self.link) = state[0].item()
        self.crossing = crossing if why == WAITS else math.inf
        self.ended += ended
        if goes_on:
            table.lines.next_due = due
            table.went_on(count, key - 1, idle)
        if gone:
            self._completed(self._done[:gone].copy(), table.flows)
        state["idle"] = state["gone"] = state["ended"] = state["decisions"] = 0
        if self.now > start or decisions:
            self._watch(start, self.now, carried, decisions)
        return why

    def _make_room(self) -> None:
        """See that there is a place for each row that there may be."""
        if len(self._table.rows) > len(self._room.shares):
            self._keep(len(self._table.rows))

    def _keep(self, size: int) -> None:
        self._room = _room(size)
        self._finished = np.empty(size, np.int64)
        if size > len(self._done):
            self._done = np.empty(size, COFLOW)


def _room(size: int) -> Room:
    floats, ints = np.empty((4, size)), np.empty((2, size), np.int64)
    return Room(*floats, *ints)
