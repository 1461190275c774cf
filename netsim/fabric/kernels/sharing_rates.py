"""The rates of classes, and which of them ends next; see `sharing`.

Every rate may change at every event, but hardly any flow is about to end. During a *stretch* of
time, only the classes that may end in it are *tracked*. A class is *deferred* if it cannot end
before the *horizon*, even if its rate grew by the factor `_GROWS` squared. The levels of its links
are recorded, event by event. What it has sent is summed up when the stretch ends: at the horizon,
or when a rate has grown by more.

Where levels are repaired, so that most stay the same, the ends of classes are kept in a heap
instead: classes that an event does not affect are not visited. What the head of a class has left is
then valid at the time when the class was last ``seen``. If its end becomes earlier, it is pushed
again; the old entry is ignored when it reaches the top. The valid entry has the time in ``listed``.
A later end is corrected when the entry reaches the top.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.heap import heap_up, pop, rise, sink
from netsim.fabric.kernels.lazy import send
from netsim.fabric.kernels.sharing_parts import ALL, LONGEST, MANY, swap

#: How much the level of a link, or the weight of a coflow's flows, may grow over a stretch.
_GROWS = 2.0

#: With fewer classes, it is faster to look at each end.
_MANY_ENDS = 1024


@inlined
def set_rates(parts):
    """Set the rates of tracked classes, if levels have moved since."""
    row = parts.state[0]
    if row.moved == ALL:
        _set_all(parts)
    else:
        _set_moved(parts)
    row.moved = 0


@in_place
def _set_all(parts):
    """Give each tracked class the lowest level on its path, times its weight."""
    count, full_at, units = parts.state[0].tracked, parts.full_at, parts.units
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
    """Begin a stretch once all rates are known: move the classes to track to the front."""
    row, head_left, rate, floor = parts.state[0], parts.head_left, parts.rate, parts.floor
    if (row.keeps_ends or row.classes < MANY or row.reach == 0.0
            or parts.past.shape[1] == 0):
        return
    row.horizon = now + row.reach
    most = _GROWS * _GROWS * row.reach
    tracked, deferred = 0, row.classes
    while tracked < deferred:
        if head_left[tracked] <= rate[tracked] * most + 2.0 * floor[tracked]:
            tracked += 1
            continue
        deferred -= 1
        if head_left[deferred] <= rate[deferred] * most + 2.0 * floor[deferred]:
            swap(parts, tracked, deferred)
            tracked += 1
    if 4 * tracked > row.classes:
        row.reach *= 0.5
    row.tracked = tracked
    row.steps = 0
    _mark(parts)


@inlined
def _mark(parts):
    """Mark the levels and weights that limit deferred classes; others may rise freely."""
    full_at, full_then, path, row = parts.full_at, parts.full_then, parts.path, parts.state[0]
    first = len(parts.classes)
    for link in range(len(full_at)):
        full_then[link] = np.inf
    for k in range(row.split):
        parts.unit_then[k] = np.inf
    for c in range(row.tracked, row.classes):
        if parts.unit_of[c] >= first:
            parts.unit_then[parts.unit_of[c] - first] = parts.units[parts.unit_of[c]]
        one, two = path[c, 0], path[c, 1]
        lowest = one if full_at[one] < full_at[two] else two
        full_then[lowest] = full_at[lowest]


@in_place
def holds(parts):
    """Return whether deferred classes, if any, can still be skipped."""
    row, full_at, full_then = parts.state[0], parts.full_at, parts.full_then
    if row.tracked == row.classes:
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
    if row.tracked == row.classes or dt == 0.0:
        return
    for link in range(len(parts.full_at)):
        parts.past[link, row.steps] = parts.full_at[link]
    parts.seconds[row.steps] = dt
    for k in range(row.split):
        parts.past_unit[k, row.steps] = parts.units[len(parts.classes) + k]
    row.steps += 1


@in_place
def catch_up(parts):
    """Flush deferred progress to every class, and track all classes again."""
    row = parts.state[0]
    if row.tracked == row.classes:
        return
    row.reach *= 0.8 if row.steps == LONGEST else 1.25
    steps, first = row.steps, row.tracked
    if row.plain:
        _flush(parts, first, row.classes, parts.seconds[:steps])
    else:
        for k in range(row.split):
            for t in range(steps):
                parts.past_unit[k, t] *= parts.seconds[t]
        for c in range(row.tracked, row.classes):  # those of a coflow mostly stand side by side
            if c + 1 == row.classes or parts.unit_of[c + 1] != parts.unit_of[first]:
                _flush(parts, first, c + 1, _weights(parts, parts.unit_of[first], steps))
                first = c + 1
    row.tracked = row.classes
    _set_all(parts)
    row.moved = 0


@in_place
def _flush(parts, first, stop, weights):
    """Subtract what classes have sent, with the same weight in each step."""
    send(parts.head_left[first:stop], parts.floor[first:stop], parts.path[first:stop], parts.past,
         0, weights)


@inlined
def _weights(parts, unit, steps):
    """Return the seconds of each step times the weight of flows in it."""
    if unit >= len(parts.classes):
        return parts.past_unit[unit - len(parts.classes), :steps]
    for t in range(steps):
        parts.weights[t] = parts.seconds[t] * parts.units[unit]
    return parts.weights[:steps]


@inlined
def _set_moved(parts):
    """Give the classes on moved links the lowest level on their paths, for weights of 1."""
    links, others, full_at, row = parts.links, parts.others, parts.full_at, parts.state[0]
    for k in range(row.moved):
        at = links[parts.moved[k]]
        level = full_at[parts.moved[k]]
        for m in range(np.uint64(at.first), np.uint64(at.stop)):
            c = parts.place[m]
            lowest = level
            for h in range(others.shape[1]):
                lowest = min(lowest, full_at[others[m, h]])
            if not row.keeps_ends:
                parts.rate[c] = lowest
            elif lowest != parts.rate[c]:
                see(parts, c)
                parts.rate[c] = lowest
                expect(parts, c)


# --- a heap of ends ---------------------------------------------------------------------


@in_place
def left_of(parts, c):
    """Return how many bytes a class still has to send until its next flow ends."""
    row = parts.state[0]
    if not row.keeps_ends or row.now <= parts.seen[c]:
        return parts.head_left[c]
    return parts.head_left[c] - parts.rate[c] * (row.now - parts.seen[c])


@inlined
def see(parts, c):
    """Advance what the head of a class has left to now, before its rate or its flows change."""
    parts.head_left[c] = left_of(parts, c)
    parts.seen[c] = parts.state[0].now


@inlined
def _end_of(parts, c):
    """Return when the next flow of a class ends."""
    rate = parts.rate[c]
    return parts.seen[c] + max(parts.head_left[c], 0.0) / rate if rate > 0.0 else np.inf


@in_place
def expect(parts, c):
    """Push a class's end if it is earlier now, after its rate or its flows have changed."""
    row = parts.state[0]
    end, number = _end_of(parts, c), parts.classes[c].number
    if end >= parts.listed[number]:
        return
    if row.listed == len(parts.ends):
        _drop_old(parts)
    parts.listed[number] = end
    parts.ends[row.listed], parts.ending[row.listed] = end, number
    rise(parts.ends, parts.ending, row.listed)
    row.listed += 1


@in_place
def _drop_old(parts):
    """Rebuild the heap with one entry per class, so that at least half of its space is free."""
    row, kept = parts.state[0], 0
    for c in range(row.classes):
        number = parts.classes[c].number
        if parts.listed[number] < np.inf:
            parts.ends[kept], parts.ending[kept] = parts.listed[number], number
            kept += 1
    row.listed = kept
    heap_up(parts.ends[:kept], parts.ending[:kept])


@in_place
def next_class(parts):
    """Return the class that ends next, and when; -1 and inf if no class sends."""
    row, ends, ending = parts.state[0], parts.ends, parts.ending
    while row.listed > 0:
        number = ending[0]
        if ends[0] == parts.listed[number]:
            c = parts.place_of[number]
            end = _end_of(parts, c)
            if end == ends[0]:
                return c, end
            parts.listed[number] = end
            if end < np.inf:
                ends[0] = end
                sink(ends, ending, 0, row.listed)
                continue
        pop(ends, ending, row.listed)
        row.listed -= 1
    return -1, np.inf


@in_place
def keep_ends(parts):
    """Keep the ends of all classes in a heap from now on, if there are many classes."""
    row = parts.state[0]
    if row.keeps_ends or row.classes < _MANY_ENDS or len(parts.ends) == 0:
        return
    row.keeps_ends = 1
    row.listed = 0
    for c in range(row.classes):
        parts.seen[c] = row.now
        parts.listed[parts.classes[c].number] = np.inf
        expect(parts, c)


@in_place
def forget_ends(parts):
    """Bring what each head has left up to now, and stop using the heap."""
    row = parts.state[0]
    if row.keeps_ends:
        for c in range(row.classes):
            parts.head_left[c] = left_of(parts, c)
        row.keeps_ends = 0
