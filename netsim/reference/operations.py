"""The longest path through the operations of all iterations, readable."""

from __future__ import annotations

from collections.abc import Sequence

from netsim.operations import Operations


def ends_of(operations: Operations, seconds: Sequence[float], iterations: int
            ) -> list[list[float]]:
    """Compute the end of each operation of each iteration; see `netsim.jobs.longest_path`."""
    after, after_previous = operations.after.lists(), operations.after_previous.lists()
    ends: list[list[float]] = [[0.0] * len(operations)]
    for _ in range(iterations):
        own = [0.0] * len(operations)
        for k in operations.sequence.tolist():
            start = max([own[other] for other in after[k]]
                        + [ends[-1][other] for other in after_previous[k]])
            own[k] = start + seconds[k]
        ends.append(own)
    return ends[1:]
