"""Lazy progress: what flows have sent over a time in which only the levels of links were noted.

Every rate may change at every instant, but hardly any flow is about to end. So for those that
cannot be next only the levels of links are remembered, instant by instant, and what they have sent
is summed up when one of them may be. `sharing_stretch` and `serving_stretch` say who can be next.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import summing

__all__ = ["send"]


@summing
def send(lefts, floors, paths, levels, first, weights):
    """Let flows send at the lowest level on their paths, ``weights[t]`` seconds at instant t.

    Parameters
    ----------
    lefts, floors : ndarray of float, shape (flows,)
        Bytes left, which are kept up to date; those at which a flow has ended, negative if it has.
    paths : ndarray of int, shape (flows, links on a path)
    levels : ndarray of float, shape (links, instants)
    first : int
        The first instant.
    weights : ndarray of float, shape (instants from the first on,)
        Seconds, or seconds times the weight that each flow had.
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
