"""Moves bytes at the rates in the rows, and tells the observer."""

from __future__ import annotations

import math

import numpy as np

from netsim.fabric.flow_table import FlowTable
from netsim.fabric.kernels.loop import AT_ENDS, NEVER
from netsim.fabric.protocols import Observer


class RowMover:
    """Moves bytes at the rates in the rows of a table, and tells the observer what links carry."""

    def __init__(self, table: FlowTable, observer: Observer | None) -> None:
        self._table, self._observer = table, observer
        self.pause = NEVER if observer is None else observer.pause
        self.carries = observer is not None and observer.carries

    def move(self, start: float, now: float, slack: float, next_s: float) -> tuple[int, int]:
        """Move bytes between two times; return how many coflows and flows have ended.

        Flows that end up to `slack` after `now` count as ended. The next flow ends at `next_s`.
        """
        table = self._table
        if table.in_step:
            # From end to end, as the event loop does, so that both have the same roundings.
            while next_s < now and start < (end := table.next_end_after(start)) < now:
                self._move_in_step(start, end, 4 * math.ulp(end))
                start = end
            return self._move_in_step(start, now, slack)
        if self._observer is not None and now > start:
            begin = start
            while self.pause == AT_ENDS and (end := table.next_end_after(begin)) < now:
                self._observer.moved(begin, end, table.carried(begin, end))
                begin = end
            self._observer.moved(begin, now, table.carried(begin, now))
        return table.advance(max(now - start, 0.0), now, slack)

    def _move_in_step(self, start: float, now: float, slack: float) -> tuple[int, int]:
        carried = np.zeros(len(self._table.capacity) if self.carries else 0)
        done = self._table.advance(max(now - start, 0.0), now, slack, carried)
        if self._observer is not None and now > start:
            self._observer.moved(start, now, carried)
        return done
