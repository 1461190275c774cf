"""Lazy progress: the bytes that flows have sent while only the levels of links were recorded.

Every rate may change at every event, but hardly any flow is about to end. For flows that cannot end
next, only the levels of links are recorded, event by event. Their bytes are computed when one of
them may end next. `max_min_rates` and `priority_progress` determine which flows may.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import in_place, inlined


@in_place
def send(lefts, floors, paths, levels, first, weights):
    """Subtract what flows sent at the lowest level on their paths, ``weights[t]`` s at instant t.

    `levels` has a row per link and a column per instant, which count from `first` on. `weights` are
    seconds, or seconds times the weight of each flow at the time. `floors`, the bytes left at which
    flows count as ended, are negative for flows that have ended.
    """
    stop = first + len(weights)
    for i in range(len(lefts)):
        if floors[i] < 0.0:
            continue
        if paths.shape[1] == 2:
            lefts[i] -= _sum_of_minima(levels[paths[i, 0], first:stop],
                                       levels[paths[i, 1], first:stop], weights)
            continue
        sent = 0.0
        for t in range(len(weights)):
            lowest = np.inf
            for h in range(paths.shape[1]):
                lowest = min(lowest, levels[paths[i, h], first + t])
            sent += weights[t] * lowest
        lefts[i] -= sent


@inlined
def _sum_of_minima(one, other, weights):
    """Return the weighted sum of the smaller of two numbers, in eight parts.

    One part waits for its last addition. A compiler that may add in any order would do so by the
    width of the machine, and results would depend on that.
    """
    whole = len(weights) - len(weights) % 8
    a = b = c = d = e = f = g = h = 0.0
    for t in range(0, whole, 8):
        a += weights[t] * (one[t] if one[t] < other[t] else other[t])
        b += weights[t + 1] * (one[t + 1] if one[t + 1] < other[t + 1] else other[t + 1])
        c += weights[t + 2] * (one[t + 2] if one[t + 2] < other[t + 2] else other[t + 2])
        d += weights[t + 3] * (one[t + 3] if one[t + 3] < other[t + 3] else other[t + 3])
        e += weights[t + 4] * (one[t + 4] if one[t + 4] < other[t + 4] else other[t + 4])
        f += weights[t + 5] * (one[t + 5] if one[t + 5] < other[t + 5] else other[t + 5])
        g += weights[t + 6] * (one[t + 6] if one[t + 6] < other[t + 6] else other[t + 6])
        h += weights[t + 7] * (one[t + 7] if one[t + 7] < other[t + 7] else other[t + 7])
    for t in range(whole, len(weights)):
        a += weights[t] * (one[t] if one[t] < other[t] else other[t])
    return ((a + b) + (c + d)) + ((e + f) + (g + h))
