"""Service in order, on a copy of the rows that is kept between decisions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels import greedy, serving_rows
from netsim.fabric.service import PriorityService

__all__ = ["MANY", "PriorityEngine", "see_moved"]

#: Of so many flows a copy to serve is worth keeping; of fewer, handing it over costs more.
MANY = 2000


def see_moved(engine: Any, coflows: NDArray[Any], before: NDArray[np.int64]) -> None:
    """Adjust an engine to flows that have moved in their pool.

    Parameters
    ----------
    engine : Served or Greedy
    coflows : ndarray of COFLOW
        The rows, with the current places of flows.
    before : ndarray of int, shape (coflows,)
        The previous place of the first flow of each coflow.
    """
    rows, senders = engine.groups["row"], engine.senders
    if isinstance(engine, greedy.Greedy):
        owner, flow = senders["owner"][:-1], senders["flow"][:-1]
    else:
        owner, flow = senders.place, senders.flow
    flow += np.where(rows >= 0, (coflows["flow"] - before)[rows], 0)[owner]


class PriorityEngine:
    """Keeps the engine with which the event loop serves coflows or flows in order.

    The engine is rebuilt only after a coflow has come or many flows have ended, or, if flows are
    served one by one, after the order has changed.
    """

    def __init__(self) -> None:
        self._copy: Any = None
        self._flow_by_flow = False

    def end(self) -> None:
        """Drop the engine: coflows have come, or rates or links have changed."""
        self._copy = None

    @staticmethod
    def is_worth_keeping(coflows: NDArray[Any]) -> bool:
        """Whether there are so many flows that a copy of them should outlive a decision."""
        return bool(coflows["flows"].sum() >= MANY)

    def begin(self, coflows: NDArray[Any], pools: tuple[NDArray[Any], ...],
              capacity: NDArray[np.float64], service: PriorityService, interval: float) -> Any:
        """Return a copy of the rows, updated from the kept one if possible."""
        flows, hops, loads = pools
        if service.flow_by_flow != self._flow_by_flow:
            self._copy, self._flow_by_flow = None, service.flow_by_flow
        kept = self._copy
        if not service.flow_by_flow:
            self._copy = (
                serving_rows.copy_rows(coflows, flows, hops, loads, capacity, service.rule,
                                       interval)
                if kept is None else
                serving_rows.resume(kept, coflows, flows, service.rule, interval))
        elif kept is None or not greedy.resume(kept, coflows, flows, service.order,
                                               service.by_size):
            self._copy = greedy.begin(coflows, flows, hops, capacity, service.order,
                                      service.by_size)
        return self._copy
