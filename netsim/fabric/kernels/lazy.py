"""Lazy progress: the bytes that flows have sent while only the levels of links were recorded.

Every rate may change at every event, but hardly any flow is about to end. For flows that cannot end
next, only the levels of links are recorded, event by event. Their bytes are computed when one of
them may end next. `max_min_rates` and `priority_progress` determine which flows may.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import summing


@summing
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
