"""The longest path through the operations of all iterations, compiled."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from netsim.base.arrays import Floats
from netsim.base.compiling import compiled
from netsim.workload.operations import Operations


def longest_path(operations: Operations, seconds: Floats, iterations: int) -> Iterator[Floats]:
    """Yield the end of each operation, iteration by iteration, given how long each takes.

    These are the ends in a run if no operations slow each other down or take turns, and lower
    bounds otherwise.

    Parameters
    ----------
    operations : Operations
    seconds : ndarray of float, shape (operations,) or (period, operations)
        Duration of each operation; with several rows, they are for the iterations in turn.
    iterations : int

    Yields
    ------
    ndarray of float, shape (operations,)
        Seconds after the job's start.
    """
    before, rows = np.zeros(len(operations)), np.atleast_2d(seconds)
    for iteration in range(iterations):
        ends = np.empty(len(operations))
        propagate(operations.sequence, *operations.after, *operations.after_previous,
                  rows[iteration % len(rows)], before, ends)
        yield ends
        before = ends


@compiled
def propagate(sequence, first, others, first_previous, previous, seconds, before, ends):  # type: ignore[no-untyped-def]
    """Compute the ends of operations in an iteration from those of the previous iteration."""
    for k in sequence:
        start = 0.0
        for at in range(first[k], first[k + 1]):
            start = max(start, ends[others[at]])
        for at in range(first_previous[k], first_previous[k + 1]):
            start = max(start, before[previous[at]])
        ends[k] = start + seconds[k]
