"""A heap of the times at which classes end, used while levels are repaired; see `sharing`.

If an event changes few levels, most rates stay the same, and so do the times at which flows end:
classes that an event does not affect are not visited. A class's gap is valid at the time when the
class was last ``seen``. If its end becomes earlier, it is pushed again; the old entry is ignored
when it reaches the top. The valid entry has the time in ``listed``. A later end is corrected when
the entry reaches the top.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.heap import heap_up, pop, rise, sink

__all__ = ["expect", "forget_ends", "keep_ends", "left_of", "next_class", "see"]

#: Of fewer classes it is faster to look at each.
_MANY = 1024


@in_place
def left_of(parts, c):
    """Return how many bytes a class still has to send until its next flow ends."""
    row = parts.state[0]
    if not row.keeps_ends or row.now <= parts.seen[c]:
        return parts.gap[c]
    return parts.gap[c] - parts.rate[c] * (row.now - parts.seen[c])


@inlined
def see(parts, c):
    """Advance a class's gap to now, before its rate or its flows change."""
    parts.gap[c] = left_of(parts, c)
    parts.seen[c] = parts.state[0].now


@inlined
def _end_of(parts, c):
    """Return when the next flow of a class ends."""
    rate = parts.rate[c]
    return parts.seen[c] + max(parts.gap[c], 0.0) / rate if rate > 0.0 else np.inf


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
    if row.keeps_ends or row.classes < _MANY:
        return
    row.keeps_ends = 1
    row.listed = 0
    for c in range(row.classes):
        parts.seen[c] = row.now
        parts.listed[parts.classes[c].number] = np.inf
        expect(parts, c)


@in_place
def forget_ends(parts):
    """Advance all gaps to now, and stop using the heap."""
    row = parts.state[0]
    if row.keeps_ends:
        for c in range(row.classes):
            parts.gap[c] = left_of(parts, c)
        row.keeps_ends = 0
