"""Tells listeners of events on an edge-cloud."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from netsim.edge.setting import EdgeSetting, Floats
from netsim.fabric.coflow_event import CoflowEvent
from netsim.fabric.fabric_process import FabricProcess
from netsim.simulation.run_events import RunEvent

#: Events of jobs, in the order in which listeners are notified.
_KINDS = ("job-arrived", "job-started", "job-done")

#: When each job first trains, and when it ends, so far as known; else NaN.
Times = tuple[Floats, Floats]


class EdgeTeller:
    """Compares the state after each step with what listeners know, and tells them the changes.

    `now` is the time up to which events have been told, in seconds; -inf before the first step. The
    first `links` links of the fabric are those of the network.
    """

    def __init__(self, tell: Callable[[RunEvent], None], setting: EdgeSetting, now: float,
                 arrived: int, times: Times, fabric: FabricProcess | None, links: int) -> None:
        self.tell_to, self._setting, self._fabric, self._links = tell, setting, fabric, links
        self._told = [each <= now for each in self._instants(times)]
        self._told[0][arrived:] = False
        if fabric is not None:
            self._see(fabric)

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        """Return None: listeners are not copied."""

    def _instants(self, times: Times) -> tuple[Floats, Floats, Floats]:
        return self._setting.arrival, *times

    def _see(self, fabric: FabricProcess) -> None:
        """Save the state of the fabric, to find what changes."""
        self._decisions, self._last_key = fabric.decisions, fabric.table.last_key
        self._active: dict[int, CoflowEvent] = fabric.in_flight.active.copy()
        self._capacity = fabric.table.capacity[:self._links].copy()

    def make_room(self, place: int) -> None:
        """Make room for a job that has been inserted in the setting."""
        self._told = [np.insert(told, place, False) for told in self._told]

    def next_at(self, times: Times) -> float:
        """Return the time of the next event of a job, in seconds; inf if not known."""
        return min(float(np.nanmin(each[~told], initial=np.inf))
                   for each, told in zip(self._instants(times), self._told, strict=True))

    def tell(self, now: float, times: Times) -> None:
        """Tell listeners what has happened since the last call."""
        for event in [*self._of_jobs(now, times), *self._of_fabric(now)]:
            self.tell_to(event)

    def _of_jobs(self, now: float, times: Times) -> Iterator[RunEvent]:
        for kind, instants, told in zip(_KINDS, self._instants(times), self._told, strict=True):
            for job in np.flatnonzero((instants <= now) & ~told).tolist():
                told[job] = True
                yield RunEvent(kind, now, job=self._setting.jobs[job].id)

    def _of_fabric(self, now: float) -> Iterator[RunEvent]:
        fabric = self._fabric
        if fabric is None:
            return
        decisions, last_key = self._decisions, self._last_key
        active, capacity = self._active, self._capacity
        self._see(fabric)
        for key, coflow in active.items():
            # A coflow that was withdrawn has not finished.
            if key not in self._active and coflow.finish_s >= 0:
                yield self._of_coflow("coflow-done", now, coflow)
        for key, coflow in self._active.items():
            if key > last_key:
                yield self._of_coflow("coflow-valid", now, coflow)
        if fabric.decisions > decisions:
            yield RunEvent("decision", now)
        for link in np.flatnonzero(self._capacity != capacity).tolist():
            yield RunEvent("capacity", now, link=fabric.network.link_names[link],
                           capacity=float(self._capacity[link]))

    def _of_coflow(self, kind: str, now: float, coflow: CoflowEvent) -> RunEvent:
        return RunEvent(kind, now, job=self._setting.jobs[coflow.job].id, coflow=coflow.key)
