"""Lazy progress: the bytes that flows have sent while only the levels of links were recorded.

Every rate may change at every event, but hardly any flow is about to end. For flows that cannot end
next, only the levels of links are recorded, event by event. Their bytes are computed when one of
them may end next. `sharing_rates` and `serving_progress` determine which flows may.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import summing

__all__ = ["send"]


@summing
def send(lefts, floors, paths, levels, first, weights):
    """Subtract what flows sent at the lowest level on their paths, ``weights[t]`` s at instant t.

    Parameters
    ----------
    lefts, floors : ndarray of float, shape (flows,)
        Bytes left, which are updated; bytes left at which a flow counts as ended, negative if it
        has ended.
    paths : ndarray of int, shape (flows, links on a path)
    levels : ndarray of float, shape (links, instants)
    first : int
        The first recorded instant to count.
    weights : ndarray of float, shape (instants from the first on,)
        Seconds, or seconds times the weight of each flow at the time.
    """
    stop = first + len(weights)
    for i in range(len(lefts)):
        if floors[i] < 0.0:
            continue
        sent = 0.0
        if paths.shape[1] == 2:
            one, other = levels[paths[i, 0], first:stop], levels[paths[i, 1], first:stop]
            for t in range(len(weights)):
                sent += weights[t] * min(one[t], other[t])
        else:
            for t in range(len(weights)):
                lowest = np.inf
                for h in range(paths.shape[1]):
                    lowest = min(lowest, levels[paths[i, h], first + t])
                sent += weights[t] * lowest
        lefts[i] -= sent
