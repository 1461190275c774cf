"""A binary heap of items with keys, in two parallel arrays; the smallest key is on top.

There are two other heaps. Entries of the one in `flow_order` change while they are in it, so each
link knows its place there, and ties break by more than a key. Those of `max_min`, one for each
class of flows, are merged; they are skew heaps, linked in the rows of the flows.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import in_place, inlined

#: The place of the top. Numba compiles functions once more for arguments that are literals.
TOP = np.int64(0)


@in_place
def heap_up(keys, items):
    """Make a heap of items by their keys."""
    for at in range(len(items) // 2 - 1, -1, -1):
        sink(keys, items, at, len(items))


@in_place
def sink(keys, items, at, count):
    """Move one item of a heap of `count` items down to its place."""
    key, item = keys[at], items[at]
    while True:
        below = 2 * at + 1
        if below >= count:
            break
        # Selected, not branched on, as it cannot be foreseen which of the two is smaller.
        below += int(below + 1 < count and keys[below + 1] < keys[below])
        if keys[below] >= key:
            break
        keys[at], items[at] = keys[below], items[below]
        at = below
    keys[at], items[at] = key, item


@inlined
def pop(keys, items, count):
    """Remove the item on top of a heap of `count` items, and return it."""
    item = items[0]
    keys[0], items[0] = keys[count - 1], items[count - 1]
    sink(keys, items, TOP, count - 1)
    return item


@in_place
def rise(keys, items, at):
    """Move one item of a heap up to its place."""
    key, item = keys[at], items[at]
    while at > 0 and key < keys[(at - 1) // 2]:
        above = (at - 1) // 2
        keys[at], items[at] = keys[above], items[above]
        at = above
    keys[at], items[at] = key, item


@in_place
def sort(items):
    """Sort numbers in place; NumPy's sort takes long to compile."""
    heap_up(items, items)
    for stop in range(len(items) - 1, 0, -1):
        items[0], items[stop] = items[stop], items[0]
        sink(items, items, TOP, stop)
    for at in range(len(items) // 2):
        other = len(items) - 1 - at
        items[at], items[other] = items[other], items[at]
