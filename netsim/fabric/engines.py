"""The engines that a table keeps between decisions: service in order, and max-min sharing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.compiling import Direct
from netsim.fabric.allocation import PriorityService
from netsim.fabric.kernels import flow_order, priority_rows
from netsim.fabric.kernels.flow_order_state import FlowOrderState
from netsim.fabric.kernels.max_min import add_coflows, flush_rows
from netsim.fabric.kernels.max_min_state import MaxMinState, moved, new_state
from netsim.fabric.kernels.priority_state import PriorityState, no_flows

_arrays_of_copy, _update, _add_coflows, _flush_rows = map(Direct, (
    priority_rows.arrays_of_copy, priority_rows.update, add_coflows, flush_rows))


class PriorityEngine:
    """Keeps the engine with which the event loop serves coflows or flows in order.

    The engine is rebuilt only after a coflow has come or many flows have ended, or, if flows are
    served one by one, after the order has changed.
    """

    def __init__(self) -> None:
        self._current: PriorityState | FlowOrderState | None = None

    def suspend(self) -> None:
        """Drop the engine: coflows have come, or rates or links have changed."""
        self._current = None

    def begin(self, coflows: NDArray[Any], arrays: tuple[NDArray[Any], ...],
              capacity: NDArray[np.float64], service: PriorityService, interval: float) -> Any:
        """Return the engine for a decision, updated from the current one if possible."""
        flows, hops, loads = arrays
        current = self._current
        if service.flow_by_flow:
            current = flow_order.engine_for(
                current if isinstance(current, FlowOrderState) else None, coflows, flows, hops,
                capacity, service.order, service.by_size)
        elif (isinstance(current, PriorityState) and not current.status["admitted"][0]
              and current.status["queues"][0] == len(service.queue_shares)):
            _update(None, current, coflows, flows, service.for_kernels, interval)
        else:
            current = PriorityState(*_arrays_of_copy(None, coflows, flows, hops, loads, capacity,
                                                  service.for_kernels, interval))
        self._current = current
        return current

    def to_serve_by_rule(self) -> PriorityState:
        """Return the engine for a rule in the event loop; one without flows if there is none."""
        return self._current if isinstance(self._current, PriorityState) else no_flows()

    def keep(self, engine: PriorityState) -> None:
        """Keep the engine with which a rule in the event loop has served."""
        self._current = engine

    def move(self, coflows: NDArray[Any], before: NDArray[np.int64]) -> None:
        """Adjust the engine to flows that have moved to other rows.

        The rows have the current places of flows; the first flow of each coflow was at `before`.
        """
        engine = self._current
        if engine is None or not len(coflows):
            return
        # The last flow of a `FlowOrderState` is a dummy.
        flows = engine.flows if isinstance(engine, PriorityState) else engine.flows[:-1]
        keys, owner, flow = engine.coflows["key"], flows["coflow"], flows["row"]
        # Rows are in order of their keys; the engine may have coflows that are complete.
        row = np.minimum(np.searchsorted(coflows["key"], keys), len(coflows) - 1)
        moved = np.where(coflows["key"][row] == keys, (coflows["flow"] - before)[row], 0)
        flow += moved[owner]


class MaxMinEngine:
    """Shares all links among all flows; while in use, only it knows the bytes left of each flow."""

    def __init__(self) -> None:
        self.current: MaxMinState | None = None  #: what the event loop works on, if in use
        #: Whether bytes left are rounded independently of the number of flows; slower with many.
        self.deterministic_rounding = False
        self._by_flow = True

    @property
    def known(self) -> int:
        """The key of the last coflow in the engine; -1 if the engine is not in use."""
        return -1 if self.current is None else int(self.current.state["known"][0])

    def decide(self, by_flow: bool) -> None:
        """Share links again now, and later whenever a flow, or only when a coflow, ends."""
        if self.current is not None:
            self.current.state["by_flow"] = by_flow
            if not (by_flow and self._by_flow):  # else it is known where flows have ended
                self.current.state["stale"] = 1
        self._by_flow = by_flow

    def take_in(self, rows: NDArray[Any], count: int, arrays: tuple[NDArray[Any], ...],
                capacity: NDArray[np.float64], longest: int) -> MaxMinState:
        """Add the flows of the first `count` rows, which are active; build new arrays if needed.

        `longest` is the largest number of links on a path of these coflows or of those that may
        join later.
        """
        flows, hops, _ = arrays
        while self.current is None or not _add_coflows(None, self.current, rows[:count], flows,
                                                       hops):
            self.suspend(rows[:count], flows)
            self.current = new_state(rows[:count], flows, hops, capacity, longest, self._by_flow,
                              self.deterministic_rounding)
        return self.current

    def move(self, coflows: NDArray[Any], before: NDArray[np.int64], flows: int) -> None:
        """Adjust to flows that have moved to other rows; see `moved`."""
        if self.current is not None:
            self.current = moved(self.current, coflows, before, flows)

    def flush(self, coflows: NDArray[Any], flows: NDArray[Any]) -> None:
        """Write bytes and rates to the rows, if the engine is in use."""
        if (engine := self.current) is not None:
            _flush_rows(None, engine.state, engine.classes, engine.progress, engine.numbers,
                        engine.flows, coflows, flows)

    def suspend(self, coflows: NDArray[Any], flows: NDArray[Any]) -> None:
        """Write bytes and rates to the rows, and stop using the engine."""
        self.flush(coflows, flows)
        self.current = None
