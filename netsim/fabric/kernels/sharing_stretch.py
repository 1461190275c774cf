"""During a *stretch* of time, only the flows that may end in it are followed; see `sharing`.

Every rate may change at every event, but hardly any flow is about to end. A flow is *far* if it
cannot end before the *horizon*, even if its rate grew by the factor `_GROWS` squared. The levels of
its links are recorded, event by event. What it has sent is summed up when the stretch ends: at the
horizon, or when a rate has grown by more.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.lazy import send
from netsim.fabric.kernels.sharing_parts import ALL, LONGEST, MANY
from netsim.fabric.kernels.sharing_repair import set_moved_rates
from netsim.fabric.kernels.sharing_rows import swap

__all__ = ["begin", "catch_up", "holds", "remember", "set_rates"]

#: How much the level of a link, or the weight of a coflow's flows, may grow over a stretch.
_GROWS = 2.0


@inlined
def set_rates(parts):
    """Set the rates of followed classes, if levels have moved since."""
    row = parts.state[0]
    if row.moved == ALL:
        _set_all(parts)
    else:
        set_moved_rates(parts)
    row.moved = 0


@in_place
def _set_all(parts):
    """Give each followed class the lowest level on its path, times its weight."""
    count, full_at, units = parts.state[0].near, parts.full_at, parts.units
    rates, paths, unit = parts.rate[:count], parts.path[:count], parts.unit_of[:count]
    if paths.shape[1] == 2:
        for c in range(len(rates)):
            rates[c] = min(full_at[paths[c, 0]], full_at[paths[c, 1]])
    else:
        for c in range(len(rates)):
            lowest = np.inf
            for h in range(paths.shape[1]):
                lowest = min(lowest, full_at[paths[c, h]])
            rates[c] = lowest
    if not parts.state[0].plain:
        for c in range(len(rates)):
            rates[c] *= units[unit[c]]


@in_place
def begin(parts, now):
    """Begin a stretch once all rates are known: move the classes to follow to the front."""
    row, gap, rate, floor = parts.state[0], parts.gap, parts.rate, parts.floor
    if (row.keeps_ends or row.classes < MANY or row.reach == 0.0
            or parts.past.shape[1] == 0):
        return
    row.horizon = now + row.reach
    most = _GROWS * _GROWS * row.reach
    near, far = 0, row.classes
    while near < far:
        if gap[near] <= rate[near] * most + 2.0 * floor[near]:
            near += 1
            continue
        far -= 1
        if gap[far] <= rate[far] * most + 2.0 * floor[far]:
            swap(parts, near, far)
            near += 1
    if 4 * near > row.classes:
        row.reach *= 0.5
    row.near = near
    row.steps = 0
    _mark(parts)


@inlined
def _mark(parts):
    """Mark the levels and weights that limit classes that are far; others may rise freely."""
    full_at, full_then, path, row = parts.full_at, parts.full_then, parts.path, parts.state[0]
    first = len(parts.classes)
    for link in range(len(full_at)):
        full_then[link] = np.inf
    for k in range(row.split):
        parts.unit_then[k] = np.inf
    for c in range(row.near, row.classes):
        if parts.unit_of[c] >= first:
            parts.unit_then[parts.unit_of[c] - first] = parts.units[parts.unit_of[c]]
        one, two = path[c, 0], path[c, 1]
        lowest = one if full_at[one] < full_at[two] else two
        full_then[lowest] = full_at[lowest]


@in_place
def holds(parts):
    """Return whether the far classes, if any, can still be skipped."""
    row, full_at, full_then = parts.state[0], parts.full_at, parts.full_then
    if row.near == row.classes:
        return True
    if row.steps == LONGEST:
        return False
    for link in range(len(full_at)):
        if full_at[link] > _GROWS * full_then[link]:
            return False
    for k in range(row.split):
        if parts.units[len(parts.classes) + k] > _GROWS * parts.unit_then[k]:
            return False
    return True


@inlined
def remember(parts, dt):
    """Record that the levels of all links have been in force for `dt` seconds."""
    row = parts.state[0]
    if row.reach == 0.0:
        row.reach = LONGEST * dt
    if row.near == row.classes or dt == 0.0:
        return
    for link in range(len(parts.full_at)):
        parts.past[link, row.steps] = parts.full_at[link]
    parts.seconds[row.steps] = dt
    for k in range(row.split):
        parts.past_unit[k, row.steps] = parts.units[len(parts.classes) + k]
    row.steps += 1


@in_place
def catch_up(parts):
    """End a stretch: sum up what far classes have sent, and follow all classes again."""
    row = parts.state[0]
    if row.near == row.classes:
        return
    row.reach *= 0.8 if row.steps == LONGEST else 1.25
    steps, near, gap, floor, path = row.steps, row.near, parts.gap, parts.floor, parts.path
    if row.plain:
        send(gap[near:row.classes], floor[near:row.classes], path[near:row.classes], parts.past, 0,
             parts.seconds[:steps])
    else:
        for k in range(row.split):
            for t in range(steps):
                parts.past_unit[k, t] *= parts.seconds[t]
        first = near
        for c in range(near, row.classes):  # classes of a coflow mostly stand side by side
            if c + 1 == row.classes or parts.unit_of[c + 1] != parts.unit_of[first]:
                send(gap[first:c + 1], floor[first:c + 1], path[first:c + 1], parts.past, 0,
                     _weights(parts, parts.unit_of[first], steps))
                first = c + 1
    row.near = row.classes
    _set_all(parts)
    row.moved = 0


@inlined
def _weights(parts, unit, steps):
    """Return the seconds of each step times the weight of flows in it."""
    if unit >= len(parts.classes):
        return parts.past_unit[unit - len(parts.classes), :steps]
    for t in range(steps):
        parts.weights[t] = parts.seconds[t] * parts.units[unit]
    return parts.weights[:steps]
