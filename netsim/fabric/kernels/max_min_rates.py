"""Rates of classes in the max-min engine, and which class ends next.

Every rate may change at every event, but hardly any flow is about to end. During an *epoch*, only
the classes that may end in it are *tracked*. A class is *deferred* if it cannot end before the
*horizon*, even if its rate grew by the factor `_GROWS` squared. The levels of its links are
recorded, event by event. What it has sent is summed up when the epoch ends: at the horizon, or
when a rate has grown by more.

Where levels are repaired, so that most stay the same, the ends of classes are kept in a heap
instead: classes that an event does not affect are not visited. What the head of a class has left is
then valid at the time when the class was last ``seen``. If its end becomes earlier, it is pushed
again; the old entry is ignored when it reaches the top. The valid entry has the time in ``listed``.
A later end is corrected when the entry reaches the top.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.filling import lowest_on
from netsim.fabric.kernels.heap import TOP, heap_up, pop, rise, sink
from netsim.fabric.kernels.lazy import sum_of_minima
from netsim.fabric.kernels.max_min_state import (
    ALL,
    FLOOR,
    FULL_AT,
    FULL_THEN,
    HEAD_LEFT,
    LONGEST,
    MANY,
    MOVED,
    NONE,
    PATH,
    RATE,
    SCRATCH,
    SECONDS,
    SEEN,
    SPLIT,
    swap,
)

#: How much the level of a link, or the weight of a coflow's flows, may grow over an epoch.
_GROWS = 2.0

#: With fewer classes, it is faster to look at each end.
_MANY_ENDS = 1024


# --- rates -----------------------------------------------------------------------------------
@inlined
def set_rates(engine):
    """Set the rates of tracked classes, if levels have moved since."""
    row = engine.state[0]
    if row.moved == ALL:
        _set_tracked(engine)
    else:
        _set_moved(engine)
    row.moved = 0


@inlined
def _set_tracked(engine):
    """Set the rates of all tracked classes."""
    count = engine.state[0].tracked
    _set_all(engine.state[0], engine.levels[FULL_AT], engine.progress[RATE, :count],
             engine.paths[PATH, :count], engine.classes, engine.numbers)


@in_place
def _set_all(row, full_at, rates, paths, classes, numbers):
    """Give each of these classes the lowest level on its path, times its weight."""
    if paths.shape[1] == 2:
        for c in range(len(rates)):
            rates[c] = min(full_at[paths[c, 0]], full_at[paths[c, 1]])
    else:
        for c in range(len(rates)):
            rates[c] = lowest_on(paths[c], full_at)
    if not row.plain:
        for c in range(len(rates)):
            rates[c] *= numbers[classes[c].unit].weight


@inlined
def _set_moved(engine):
    """Give the classes on moved links the lowest level on their paths, for weights of 1."""
    row, others = engine.state[0], engine.others
    full_at, rate = engine.levels[FULL_AT], engine.progress[RATE]
    for link in engine.lists[MOVED, :row.moved]:
        at, level = engine.links[link], full_at[link]
        for m in range(np.uint64(at.first), np.uint64(at.stop)):
            c = np.int64(engine.members[m].place)
            lowest = min(level, lowest_on(others[m], full_at))
            if not row.keeps_ends:
                rate[c] = lowest
            elif lowest != rate[c]:
                see(row, engine.progress, c)
                rate[c] = lowest
                expect(engine, c)


# --- epochs ----------------------------------------------------------------------------------
@inlined
def begin(engine):
    """Begin an epoch, once all rates are known, if that pays."""
    row = engine.state[0]
    if (row.tracked == row.classes and not row.keeps_ends and row.classes >= MANY
            and row.reach > 0.0 and engine.past.shape[1] > 0):
        _begin(engine)


@in_place
def _begin(engine):
    """Move the classes that may end in the next epoch to the front, to be tracked."""
    row, progress = engine.state[0], engine.progress
    row.horizon = row.now + row.reach
    most = _GROWS * _GROWS * row.reach
    tracked, deferred = TOP, row.classes
    while tracked < deferred:
        if _is_near(progress, tracked, most):
            tracked += 1
            continue
        deferred -= 1
        if _is_near(progress, deferred, most):
            swap(engine, tracked, deferred)
            tracked += 1
    if 4 * tracked > row.classes:
        row.reach *= 0.5
    row.tracked = tracked
    row.steps = 0
    _mark(engine)


@inlined
def _is_near(progress, c, seconds):
    """Whether a class ends soon, also if its rate rose so that it would send for these seconds."""
    return progress[HEAD_LEFT, c] <= progress[RATE, c] * seconds + 2.0 * progress[FLOOR, c]


@inlined
def _mark(engine):
    """Mark the levels and weights that limit deferred classes; others may rise freely."""
    row, paths, numbers = engine.state[0], engine.paths[PATH], engine.numbers
    full_at, full_then = engine.levels[FULL_AT], engine.levels[FULL_THEN]
    for link in range(len(full_then)):
        full_then[link] = np.inf
    first = engine.progress.shape[1]
    for k in range(first, first + row.split):
        numbers[k].then = np.inf
    for c in range(row.tracked, row.classes):
        unit = engine.classes[c].unit
        numbers[unit].then = numbers[unit].weight
        one, two = paths[c, 0], paths[c, 1]
        lowest = one if full_at[one] < full_at[two] else two
        full_then[lowest] = full_at[lowest]


@inlined
def holds(engine):
    """Return whether deferred classes, if any, can still be skipped."""
    row, first = engine.state[0], engine.progress.shape[1]
    if row.tracked == row.classes:
        return True
    small = row.steps < LONGEST
    for link in range(len(engine.links) if small else 0):
        small &= engine.levels[FULL_AT, link] <= _GROWS * engine.levels[FULL_THEN, link]
    for k in range(first, first + row.split):
        small &= engine.numbers[k].weight <= _GROWS * engine.numbers[k].then
    return small


@inlined
def remember(engine, dt):
    """Record that the levels of all links have been in force for `dt` seconds."""
    row, past, full_at = engine.state[0], engine.past, engine.levels[FULL_AT]
    if row.reach == 0.0:
        row.reach = LONGEST * dt
    if row.tracked == row.classes or dt == 0.0:
        return
    count = len(full_at)
    for link in range(count):
        past[link, row.steps] = full_at[link]
    past[count + SECONDS, row.steps] = dt
    for k in range(row.split):
        past[count + SPLIT + k, row.steps] = engine.numbers[engine.progress.shape[1] + k].weight
    row.steps += 1


@inlined
def flush(engine):
    """Subtract what deferred classes have sent, and track all classes again."""
    if engine.state[0].tracked < engine.state[0].classes:
        _flush(engine)


@in_place
def _flush(engine):
    """Sum up an epoch, and set the length of the next one."""
    row, classes, links, past = engine.state[0], engine.classes, engine.links, engine.past
    left, paths = engine.progress[HEAD_LEFT], engine.paths[PATH]
    row.reach *= 0.8 if row.steps == LONGEST else 1.25
    behind, first = len(links), row.tracked
    seconds = past[behind + SECONDS, :row.steps]
    _find_bounds(links, past, row.steps)
    if row.plain:
        _send(left, first, row.classes, paths, links, past, seconds)
    else:
        for k in range(behind + SPLIT, behind + SPLIT + row.split):
            for t in range(row.steps):
                past[k, t] *= seconds[t]
        for c in range(row.tracked, row.classes):  # those of a coflow mostly stand side by side
            if c + 1 == row.classes or classes[c + 1].unit != classes[first].unit:
                weights = _weights(engine, classes[first].unit, seconds)
                _send(left, first, c + 1, paths, links, past, weights)
                first = c + 1
    row.tracked = row.classes
    _set_tracked(engine)
    row.moved = 0


@inlined
def _find_bounds(links, past, steps):
    """Find the lowest and the highest level of each link in the epoch."""
    for k in range(len(links)):
        link = links[k]
        link.lowest, link.highest, link.sent_to = np.inf, 0.0, NONE
        for t in range(steps):
            link.lowest = min(link.lowest, past[k, t])
            link.highest = max(link.highest, past[k, t])


@in_place
def _send(left, first, stop, paths, links, past, weights):
    """Subtract what classes have sent, with the same weight in each step.

    Mostly, one of the links on a path always had the lower level; then its sum does for all of
    these classes.
    """
    for c in range(first, stop):
        one, two = np.int64(paths[c, 0]), np.int64(paths[c, 1])
        if links[two].highest <= links[one].lowest:
            one, two = two, one
        always = links[one].highest <= links[two].lowest
        if not (always and links[one].sent_to == first):
            sent = sum_of_minima(past[one, :len(weights)], past[two, :len(weights)], weights)
            if always:
                links[one].sent, links[one].sent_to = sent, first
        left[c] -= links[one].sent if always else sent


@inlined
def _weights(engine, unit, seconds):
    """Return the seconds of each step times the weight of flows in it."""
    k, behind = unit - engine.progress.shape[1], len(engine.links)
    if k >= 0:
        return engine.past[behind + SPLIT + k, :len(seconds)]
    weights = engine.past[behind + SCRATCH, :len(seconds)]
    for t in range(len(seconds)):
        weights[t] = seconds[t] * engine.numbers[unit].weight
    return weights


# --- a heap of ends --------------------------------------------------------------------------
@inlined
def left_of(row, progress, c):
    """Return how many bytes a class still has to send until its next flow ends."""
    if not row.keeps_ends or row.now <= progress[SEEN, c]:
        return progress[HEAD_LEFT, c]
    return progress[HEAD_LEFT, c] - progress[RATE, c] * (row.now - progress[SEEN, c])


@inlined
def see(row, progress, c):
    """Advance what the head of a class has left to now, before its rate or its flows change."""
    progress[HEAD_LEFT, c] = left_of(row, progress, c)
    progress[SEEN, c] = row.now


@inlined
def _end_of(progress, c):
    """Return when the next flow of a class ends."""
    rate = progress[RATE, c]
    return progress[SEEN, c] + max(progress[HEAD_LEFT, c], 0.0) / rate if rate > 0.0 else np.inf


@inlined
def expect(engine, c):
    """Push a class's end if it is earlier now, after its rate or its flows have changed."""
    number = engine.classes[c].number
    end = _end_of(engine.progress, c)
    if end < engine.numbers[number].listed:
        _push(engine.state[0], engine.classes, engine.numbers, engine.ends, engine.ending, end,
              number)


@in_place
def _push(row, classes, numbers, ends, ending, end, number):
    """Push the end of a class onto the heap; drop entries that are not valid if it is full."""
    if row.listed == len(ends):  # with one entry per class, at least half of the space is free
        row.listed = 0
        for c in range(row.classes):
            other = classes[c].number
            if numbers[other].listed < np.inf:
                ends[row.listed], ending[row.listed] = numbers[other].listed, other
                row.listed += 1
        heap_up(ends[:row.listed], ending[:row.listed])
    numbers[number].listed = end
    ends[row.listed], ending[row.listed] = end, number
    rise(ends, ending, row.listed)
    row.listed += 1


@in_place
def next_class(row, progress, numbers, ends, ending):
    """Return the class that ends next, and when; -1 and inf if no class sends."""
    while row.listed > 0:
        of_class = numbers[ending[0]]
        if ends[0] == of_class.listed:
            c = np.int64(of_class.place)
            end = _end_of(progress, c)
            if end == ends[0]:
                return c, end
            of_class.listed = end
            if end < np.inf:
                ends[0] = end
                sink(ends, ending, TOP, row.listed)
                continue
        pop(ends, ending, row.listed)
        row.listed -= 1
    return -1, np.inf


@inlined
def keep_ends(engine):
    """Keep the ends of all classes in a heap from now on, if there are many classes."""
    row = engine.state[0]
    if row.keeps_ends or row.classes < _MANY_ENDS or len(engine.ends) == 0:
        return
    row.keeps_ends = 1
    row.listed = 0
    for c in range(row.classes):
        engine.progress[SEEN, c] = row.now
        engine.numbers[engine.classes[c].number].listed = np.inf
        expect(engine, c)


@inlined
def forget_ends(row, progress):
    """Bring what each head has left up to now, and stop using the heap."""
    if row.keeps_ends:
        for c in range(row.classes):
            progress[HEAD_LEFT, c] = left_of(row, progress, c)
        row.keeps_ends = 0
