"""Lazy progress: the bytes that flows have sent while only the levels of links were recorded.

Every rate may change at every event, but hardly any flow is about to end. For flows that cannot end
next, only the levels of links are recorded, event by event. Their bytes are computed when one of
them may end next. `max_min_rates` and `priority_progress` determine which flows may.
"""

from __future__ import annotations

from netsim.fabric.kernels import inlined


@inlined
def sum_of_minima(one, other, weights):
    """Return the weighted sum of the lower of two levels, instant by instant.

    It is taken in four parts, as one would wait for its last addition. A compiler that may add in
    any order would do so by the width of the machine, and results would depend on that.
    """
    whole = len(weights) - len(weights) % 4
    a = b = c = d = 0.0
    for t in range(0, whole, 4):
        a += weights[t] * (one[t] if one[t] < other[t] else other[t])
        b += weights[t + 1] * (one[t + 1] if one[t + 1] < other[t + 1] else other[t + 1])
        c += weights[t + 2] * (one[t + 2] if one[t + 2] < other[t + 2] else other[t + 2])
        d += weights[t + 3] * (one[t + 3] if one[t + 3] < other[t + 3] else other[t + 3])
    for t in range(whole, len(weights)):
        a += weights[t] * (one[t] if one[t] < other[t] else other[t])
    return (a + b) + (c + d)
