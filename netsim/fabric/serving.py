"""Service in order on a copy of the rows that outlives decisions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels import greedy, serving, serving_rows
from netsim.fabric.service import PriorityService

__all__ = ["PriorityEngine"]

#: Of so many flows a copy to serve is worth keeping; of fewer, handing it over costs more.
_MANY = 2000

#: Coflows, flows, hops, loads.
_Rows = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]


class PriorityEngine:
    """Serves coflows or flows in order.

    What it works on is made anew only after a coflow has come or many flows have gone, or, flow
    by flow, if the order has changed.
    """

    def __init__(self) -> None:
        self._copy: Any = None
        self._flow_by_flow = False

    def end(self) -> None:
        """Begin anew at the next decision: coflows have come, or rates or links have changed."""
        self._copy = None

    def serve_until(self, rows: _Rows, capacity: NDArray[np.float64], service: PriorityService,
                    now: float, until: float, carried: NDArray[np.float64]
                    ) -> tuple[float, float, float]:
        """Serve from now on; see `kernels.serving.serve_until`, `kernels.greedy.greedy_until`."""
        if service.flow_by_flow != self._flow_by_flow:
            self._copy = None
            self._flow_by_flow = service.flow_by_flow
        if rows[0]["flows"].sum() < _MANY:
            self._copy = None
            return _serve_few(rows, capacity, service, now, until, carried)
        serve = self._serve_flows if self._flow_by_flow else self._serve_coflows
        while True:
            now, next_finish, crossing, thinned = serve(rows, capacity, service, now, until,
                                                        carried)
            if not thinned:
                return now, next_finish, crossing
            self._copy = None

    def _serve_coflows(self, rows: _Rows, capacity: NDArray[np.float64], service: PriorityService,
                       now: float, until: float, carried: NDArray[np.float64]
                       ) -> tuple[float, float, float, bool]:
        coflows, flows, hops, loads = rows
        gone = 0
        if self._copy is None:
            self._copy = serving_rows.copy_rows(coflows, flows, hops, loads, service.rule)
        else:
            gone = serving_rows.resume(self._copy, coflows, flows, service.rule)
        return serving.serve_while_crowded(self._copy, gone, coflows, flows, capacity,
                                           service.rule, now, until, carried)

    def _serve_flows(self, rows: _Rows, capacity: NDArray[np.float64], service: PriorityService,
                     now: float, until: float, carried: NDArray[np.float64]
                     ) -> tuple[float, float, float, bool]:
        coflows, flows, hops, _ = rows
        order, by_size = service.order, service.by_size
        if self._copy is None or not greedy.resume(self._copy, coflows, flows, order, by_size):
            self._copy = greedy.begin(coflows, flows, hops, capacity, order, by_size)
        now, next_finish, thinned = greedy.greedy_while_crowded(
            self._copy, coflows, flows, by_size, now, until, carried)
        return now, next_finish, np.inf, thinned


def _serve_few(rows: _Rows, capacity: NDArray[np.float64], service: PriorityService, now: float,
               until: float, carried: NDArray[np.float64]) -> tuple[float, float, float]:
    coflows, flows, hops, loads = rows
    if not service.flow_by_flow:
        return serving.serve_until(coflows, flows, hops, loads, capacity, service.rule, now, until,
                                   carried)
    now, next_finish = greedy.greedy_until(coflows, flows, hops, capacity, service.order,
                                           service.by_size, now, until, carried)
    return now, next_finish, np.inf
