"""Max-min fair sharing that outlives decisions: flows join it and leave it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels import sharing
from netsim.fabric.kernels.sharing_parts import make

__all__ = ["MaxMinEngine"]


class MaxMinEngine:
    """Shares all links among all flows; while in use, it alone knows what flows have left.

    Attributes
    ----------
    known : int
        The key of the last coflow that takes part; -1 if it is not in use.
    """

    def __init__(self) -> None:
        self._parts: Any = None

    @property
    def known(self) -> int:
        return -1 if self._parts is None else int(self._parts.state["known"][0])

    def share_until(self, table: tuple[Any, ...], count: int, coming: NDArray[Any],
                    lines: tuple[Any, ...], key: int, stands: bool, capacity: NDArray[np.float64],
                    now: float, until: float, carried: NDArray[np.float64]
                    ) -> tuple[float, float, int, int, int, int]:
        """Share from now on, new coflows included; see `kernels.sharing.share_until`."""
        rows, _, (flows, hops, _), _ = table
        joined = -1
        while joined < 0:  # there was no room for those that are active
            if self._parts is None:
                coflows = rows[:count]
                longest = max([1, *(int(each["crosses"].max(initial=1))
                                    for each in (coflows, coming, lines[2]))])
                self._parts = make(coflows, flows, hops, capacity, longest)
            found = sharing.share_until(self._parts, table, count, coming, lines, key, stands,
                                        capacity, now, until, carried)
            joined = found[3]
            if joined < 0:
                self.end(rows[:count], flows)
        count += joined + found[4]
        if self.known < rows["key"][count - 1]:  # there was no room for the last
            self.end(rows[:count], flows)
        return found

    def advance(self, coflows: NDArray[Any], flows: NDArray[Any], capacity: NDArray[np.float64],
                dt: float, now: float, slack: float, carried: NDArray[np.float64]
                ) -> tuple[int, int]:
        """Let time pass at the rates in force; see `kernels.sharing.pass_time`."""
        return sharing.pass_time(self._parts, coflows, flows, capacity, dt, now, slack, carried)

    def settle(self, coflows: NDArray[Any], flows: NDArray[Any]) -> None:
        """Write bytes and rates to the rows, if it is in use."""
        if self._parts is not None:
            sharing.settle(self._parts, coflows, flows)

    def end(self, coflows: NDArray[Any], flows: NDArray[Any]) -> None:
        """Write bytes and rates to the rows, which are what counts from now on."""
        self.settle(coflows, flows)
        self._parts = None
