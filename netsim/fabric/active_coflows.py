"""Coflows that somebody waits for: from when they are submitted until they have arrived."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from netsim.fabric.clock import call_at
from netsim.fabric.coflow_event import CoflowEvent
from netsim.fabric.flow_table import FlowTable
from netsim.fabric.routed_coflow import RoutedCoflow

__all__ = ["ActiveCoflows"]


class ActiveCoflows:
    """The transfers of a fabric.

    A transfer first waits until its overhead is over and it begins, then is active until it has
    sent its bytes, and is on its way until these have arrived.

    Parameters
    ----------
    table : FlowTable
        Has the rows of those that are active.
    env : simpy.Environment
        Has the clock.

    Attributes
    ----------
    active : dict of int to CoflowEvent
        By the key of its row.
    """

    def __init__(self, table: FlowTable, env: simpy.Environment) -> None:
        self._table, self._env = table, env
        self._waiting: dict[CoflowEvent, None] = {}
        self._submitted: list[CoflowEvent] = []
        self.active: dict[int, CoflowEvent] = {}
        self._on_their_way: dict[CoflowEvent, None] = {}

    def wait(self, transfer: CoflowEvent, begin: Callable[[CoflowEvent], None]) -> None:
        """Take in one whose overhead passes; call a function with it when it begins."""
        self._waiting[transfer] = None
        call_at(self._env, transfer.begin_s, partial(self._begin, transfer, begin))

    def _begin(self, transfer: CoflowEvent, begin: Callable[[CoflowEvent], None], _: Any) -> None:
        if _taken(self._waiting, transfer):
            begin(transfer)

    def submit(self, transfer: CoflowEvent) -> None:
        """Take in one that becomes active when the fabric decides next."""
        self._submitted.append(transfer)

    def send_last(self, transfer: CoflowEvent, arrival: float) -> None:
        """Take in one that has sent its last byte; it is complete when that has arrived."""
        self._on_their_way[transfer] = None
        call_at(self._env, arrival, partial(self._arrive, transfer))

    def _arrive(self, transfer: CoflowEvent, _: Any) -> None:
        if _taken(self._on_their_way, transfer):
            transfer.complete()

    def has_sent_all(self, transfer: CoflowEvent) -> bool:
        """Whether one has sent its last byte, which may not have been noticed yet."""
        rows = self._table.coflows
        return transfer in self._on_their_way or bool(
            (rows["open"][rows["key"] == transfer.key] == 0).any())

    def admit(self, now: float) -> None:
        """Let those submitted be active, in order of (job, order), with others that are valid."""
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
        """Add those submitted to a copy of the table; return all that are active then, in order.

        None stands for those that nobody has submitted.
        """
        active = [self.active.get(key) for key in table.coflows["key"].tolist()]
        for transfer in self._in_order():
            table.add(transfer.demand, transfer.job, transfer.begin_s, transfer.order)
            active.append(transfer)
        return active

    def withdraw(self, transfer: CoflowEvent) -> NDArray[np.float64]:
        """Forget one that has not completed; return what is left of it, flow by flow.

        When it first sent a byte, if it did, it says then. What has left before arrives nowhere.
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
        """Let some take other links from now on: those of demands with the same flows."""
        for transfer, demand in demands.items():
            if transfer in self._on_their_way:
                continue
            # What it would take alone is as of when it became valid, in records as in the view.
            transfer.demand = replace(demand, gamma=transfer.demand.gamma)
            if transfer.key in self.active:
                self._table.reroute(transfer.key, demand)

    def waiting(self) -> list[tuple[int, float, float]]:
        """Return job, validity and deadline of those that have not arrived and are not active."""
        return [(each.job, each.valid_s, each.valid_s + each.demand.deadline_s)
                for each in (*self._waiting, *self._submitted, *self._on_their_way)]


def _taken(transfers: dict[CoflowEvent, None], transfer: CoflowEvent) -> bool:
    """Remove a transfer if it is among some; return whether it was."""
    found = transfer in transfers
    transfers.pop(transfer, None)
    return found
