"""Coflows that processes wait for, as events: from submission until the last byte arrives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.lazy import simpy
from netsim.fabric.clock import call_at
from netsim.fabric.flow_table import FlowTable
from netsim.fabric.routed_coflow import RoutedCoflow


class CoflowEvent(simpy.Event):
    """A submitted coflow: an event that fires when its completion is noticed.

    `done`, if given, is called with the coflow instead, which saves SimPy a step.
    """

    def __init__(self, env: simpy.Environment, job: int, order: int, demand: RoutedCoflow,
                 done: Callable[[CoflowEvent], None] | None = None) -> None:
        super().__init__(env)
        self._done = done
        self.job = job  #: numbered by (arrival, id)
        self.order = order  #: its place among the coflows of its job, which breaks ties
        self.demand = demand
        self.valid_s = float(env.now)  #: when its stage became valid
        self.begin_s = self.valid_s + demand.overhead_s  #: when it can send
        #: When its first byte was sent, its last byte was sent, and its last byte arrived; NaN
        #: until then.
        self.start_s = self.sent_s = self.finish_s = math.nan
        self.key = 0  #: of its row in the fabric's table, once it has one

    def complete_at_once(self) -> None:
        """Complete the coflow in a separate SimPy step.

        A long chain of coflows without bytes would otherwise exceed Python's recursion limit.
        """
        if self._done is not None:
            self.callbacks.append(self._done)
        self.succeed(self)

    def complete(self) -> None:
        """Fire the event, or call `done`."""
        if self._done is None:
            self.succeed(self)
        else:
            self._done(self)


class ActiveCoflows:
    """The submitted coflows of a fabric.

    A coflow first waits until its overhead is over. It is then active until it has sent its last
    byte, and in transit until that byte has arrived.
    """

    def __init__(self, table: FlowTable, env: simpy.Environment) -> None:
        self._table, self._env = table, env
        self._waiting: dict[CoflowEvent, None] = {}
        self._submitted: list[CoflowEvent] = []
        self.active: dict[int, CoflowEvent] = {}  #: by the keys of their rows
        self._on_their_way: dict[CoflowEvent, None] = {}

    def wait(self, transfer: CoflowEvent, begin: Callable[[CoflowEvent], None]) -> None:
        """Hold a coflow during its overhead; call `begin` with it when the overhead is over."""
        self._waiting[transfer] = None
        call_at(self._env, transfer.begin_s, partial(self._begin, transfer, begin))

    def _begin(self, transfer: CoflowEvent, begin: Callable[[CoflowEvent], None], _: Any) -> None:
        if _taken(self._waiting, transfer):
            begin(transfer)

    def submit(self, transfer: CoflowEvent) -> None:
        """Add a coflow that becomes active at the fabric's next decision."""
        self._submitted.append(transfer)

    def send_last(self, transfer: CoflowEvent, arrival: float) -> None:
        """Hold a coflow that has sent its last byte; complete it when that byte arrives."""
        self._on_their_way[transfer] = None
        call_at(self._env, arrival, partial(self._arrive, transfer))

    def _arrive(self, transfer: CoflowEvent, _: Any) -> None:
        if _taken(self._on_their_way, transfer):
            transfer.complete()

    def has_sent_all(self, transfer: CoflowEvent, table: FlowTable) -> bool:
        """Whether a coflow has sent its last byte, according to a table that is up to date."""
        rows = table.coflows
        return transfer in self._on_their_way or bool(
            (rows["open"][rows["key"] == transfer.key] == 0).any())

    def admit(self, now: float) -> None:
        """Activate the submitted coflows and others that are valid, in order of (job, order)."""
        table = self._table
        for transfer in self._in_order():
            table.admit(now, transfer.job)
            transfer.key = table.add(transfer.demand, transfer.job, transfer.begin_s,
                                     transfer.order)
            self.active[transfer.key] = transfer
        self._submitted.clear()

    def _in_order(self) -> list[CoflowEvent]:
        return sorted(self._submitted, key=lambda transfer: (transfer.job, transfer.order))

    def all_in(self, table: FlowTable) -> list[CoflowEvent | None]:
        """Add the submitted coflows to a copy of the table; return all its active coflows in order.

        Coflows that no process has submitted are None.
        """
        active = [self.active.get(key) for key in table.coflows["key"].tolist()]
        for transfer in self._in_order():
            table.add(transfer.demand, transfer.job, transfer.begin_s, transfer.order)
            active.append(transfer)
        return active

    def withdraw(self, transfer: CoflowEvent) -> NDArray[np.float64]:
        """Remove a coflow that is not complete; return the bytes left of each flow.

        Sets its `start_s` if it is active. Bytes that are still in transit are lost.
        """
        if _taken(self._on_their_way, transfer):
            return np.zeros(len(transfer.demand.flows))
        if transfer.key not in self.active:
            if not _taken(self._waiting, transfer):
                self._submitted.remove(transfer)
            return np.array(transfer.demand.flows["size"])
        del self.active[transfer.key]
        rows = self._table.coflows
        start = float(rows["start"][rows["key"] == transfer.key][0])
        transfer.start_s = math.nan if start < 0 else start
        return self._table.withdraw(transfer.key)

    def reroute(self, demands: Mapping[CoflowEvent, RoutedCoflow]) -> None:
        """Move active coflows to the links of the given demands, which have the same flows."""
        for transfer, demand in demands.items():
            if transfer in self._on_their_way:
                continue
            # In records as in the view, its gamma is as of the time when it became valid.
            transfer.demand = replace(demand, gamma=transfer.demand.gamma)
            if transfer.key in self.active:
                self._table.reroute(transfer.key, demand)

    def all(self) -> list[CoflowEvent]:
        """Return all coflows that are not complete."""
        return [*self._waiting, *self._submitted, *self.active.values(), *self._on_their_way]

    def waiting(self) -> list[tuple[int, float, float]]:
        """Return job, valid time and deadline of coflows that are neither active nor complete."""
        return [(each.job, each.valid_s, each.valid_s + each.demand.deadline_s)
                for each in (*self._waiting, *self._submitted, *self._on_their_way)]


def _taken(transfers: dict[CoflowEvent, None], transfer: CoflowEvent) -> bool:
    """Remove a coflow from a collection; return whether it was there."""
    found = transfer in transfers
    transfers.pop(transfer, None)
    return found
