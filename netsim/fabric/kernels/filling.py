"""Which link is full next, as all flows grow alike, and who ends; for `sharing` and `serving`.

A link with ``left`` bytes per second for ``yet`` that still grows is full at the level left/yet.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled, in_place

__all__ = ["ROUNDED", "heap_of", "heap_up", "lowest_of", "next_of", "release_all", "sooner"]

#: Relative: what rounding may do to a level.
ROUNDED = 1e-11

#: Among so many links the next one is looked for first.
_NEXT = 4


@in_place
def next_of(order, first, yet, left):
    """Return that of the next few links which has the lowest level, -1 if there is none.

    So a link may be later than guessed, or a little earlier. Those without flows that grow are
    passed over. Those from `first` on remain; the others are put before it in turn.
    """
    best = -1
    level = np.inf
    k = first
    while k < len(order) and k < first + _NEXT:
        link = order[k]
        if yet[link] <= 0.0:
            order[k], order[first] = order[first], link
            if best == first:
                best = k
            first += 1
        elif left[link] < level * yet[link]:
            level = left[link] / yet[link]
            best = k
        k += 1
    if best < 0:
        return -1, first
    link = order[best]
    order[best], order[first] = order[first], link
    return link, first + 1


@in_place
def lowest_of(heap, levels, stop, yet, left):
    """Take the link with the lowest level off a heap; return it, -1 if none grows, and its end.

    Behind its end stand those that are off it, the last one first.
    """
    while stop > 0:
        link = heap[0]
        if yet[link] > 0.0:
            # Levels only rise as others fill, so that the lowest one known is the one to look at.
            level = max(left[link], 0.0) / yet[link]
            if level > levels[0]:
                levels[0] = level
                _sift(levels, heap, 0, stop)
                continue
        stop -= 1
        levels[0], heap[0] = levels[stop], heap[stop]
        _sift(levels, heap, 0, stop)
        heap[stop] = link
        if yet[link] > 0.0:
            return link, stop
    return -1, stop


@compiled
def heap_of(links, yet, left):
    """Return links as a heap by their levels, and the levels."""
    levels = left[links] / yet[links]
    heap_up(links, levels)
    return links, levels


@in_place
def heap_up(links, levels):
    """Make a heap of links by their levels."""
    for at in range(len(links) // 2 - 1, -1, -1):
        _sift(levels, links, at, len(links))


@in_place
def _sift(levels, live, at, count):
    """Let one level of a heap, the lowest on top, sink to its place."""
    level, link = levels[at], live[at]
    while True:
        below = 2 * at + 1
        if below >= count:
            break
        if below + 1 < count and levels[below + 1] < levels[below]:
            below += 1
        if levels[below] >= level:
            break
        levels[at], live[at] = levels[below], live[below]
        at = below
    levels[at], live[at] = level, link


@in_place
def release_all(weights, yets, lefts, level):
    """Take the flows of a full link off all others: the compiler takes several at a time."""
    for m in range(len(weights)):
        yets[m] -= weights[m]
        lefts[m] -= weights[m] * level


@in_place
def sooner(lefts, rates, soonest):
    """Return in how many seconds the next of some ends, or another that is as soon or sooner.

    Slices count from 0, and the first loop has no branches: the compiler takes several at a time.
    """
    ends = 0
    for i in range(len(lefts)):
        ends += lefts[i] < soonest * rates[i]
    if ends:
        for i in range(len(lefts)):
            if lefts[i] < soonest * rates[i]:
                soonest = lefts[i] / rates[i]
    return soonest
