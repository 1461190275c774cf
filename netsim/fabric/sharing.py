"""Max-min fair sharing that is kept between decisions, while flows join and leave it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels.sharing import settle, take_in
from netsim.fabric.kernels.sharing_rates import Parts, make, moved


class MaxMinEngine:
    """Shares all links among all flows; while in use, only it knows the bytes left of each flow."""

    def __init__(self) -> None:
        self.parts: Parts | None = None  #: what the event loop works on, if in use
        #: Whether bytes left are rounded independently of the number of flows; slower with many.
        self.deterministic_rounding = False
        self._by_flow = True

    @property
    def known(self) -> int:
        """The key of the last coflow in the sharing; -1 if the engine is not in use."""
        return -1 if self.parts is None else int(self.parts.state["known"][0])

    def decide(self, by_flow: bool) -> None:
        """Share links again now, and later whenever a flow, or only when a coflow, ends."""
        if self.parts is not None:
            self.parts.state["by_flow"] = by_flow
            if not (by_flow and self._by_flow):  # else it is known where flows have ended
                self.parts.state["stale"] = 1
        self._by_flow = by_flow

    def take_in(self, rows: NDArray[Any], count: int, pools: tuple[NDArray[Any], ...],
                capacity: NDArray[np.float64], longest: int) -> Parts:
        """Add the flows of the first `count` rows, which are active; build new arrays if needed.

        `longest` is the largest number of links on a path of these coflows or of those that may
        join later.
        """
        flows, hops, _ = pools
        while self.parts is None or not take_in(self.parts, rows[:count], flows, hops):
            self.end(rows[:count], flows)
            self.parts = make(rows[:count], flows, hops, capacity, longest, self._by_flow,
                              self.deterministic_rounding)
        return self.parts

    def move(self, coflows: NDArray[Any], before: NDArray[np.int64], flows: int) -> None:
        """Adjust to flows that have moved to other rows; see `sharing_rates.moved`."""
        if self.parts is not None:
            self.parts = moved(self.parts, coflows, before, flows)

    def settle(self, coflows: NDArray[Any], flows: NDArray[Any]) -> None:
        """Write bytes and rates to the rows, if the engine is in use."""
        if self.parts is not None:
            settle(self.parts, coflows, flows)

    def end(self, coflows: NDArray[Any], flows: NDArray[Any]) -> None:
        """Write bytes and rates to the rows, and stop using the engine."""
        self.settle(coflows, flows)
        self.parts = None
