"""Progressive filling of links, for `max_min`, `priority` and the blocks of the view.

The rates of all flows grow in proportion to their weights. When a link is full, its flows *freeze*:
they keep their rates, and the others grow on. The *level* of a link is the rate per weight at which
it was full. Levels only rise, so a flow's rate is its weight times the lowest level on its path. A
link is full at the level left/unfrozen: ``unfrozen`` is the weight of its flows that still grow,
and ``left`` is the bytes per second available to them.

Links fill in nearly the same order each time, so the last order is tried first. If it is wrong, or
there is none, a heap finds the lowest level.

The input is a *filling*, a NamedTuple of arrays. Its ``links`` have their members in the places
``first`` to ``stop``. A member is a flow or a class of flows; it has a weight ``share`` and
``others``, the further links on its path. By link, there are ``unfrozen``, ``left`` and the level
``full_at``, which is inf until the link is full. The last link is a dummy that fills up paths
shorter than others. `freeze_of` makes the kernel for a kind of filling.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled, in_place, inlined
from netsim.fabric.kernels.heap import TOP, heap_up, pop, sink

#: Relative error of a level by rounding.
ROUNDED = 1e-11

#: The next link is looked for among this many in the order.
_NEXT = 4


def freeze_of(release):
    """Return the kernel `freeze` for a kind of filling.

    ``release(filling, link, level)``, a kernel, freezes the growing members of this link at this
    level: it takes them off their other links.
    """
    @in_place
    def freeze(order, levels, grows, filling, late):
        """Freeze links until no flow grows.

        `order` has the links in roughly the order in which they will freeze or, if `levels` is not
        empty, as a heap by lower bounds of their levels. `grows` is the total weight of growing
        flows, inf if not known. ``unfrozen`` and ``left`` of the filling are overwritten, and
        ``full_at`` is set. `late` is space for links that come too late in the order: some of their
        flows froze at a higher level.

        Return the sum of the rates of all frozen flows, the highest level, the total weight of
        flows that still grow, and the number of links in `late`.
        """
        unfrozen, left, full_at = filling.unfrozen, filling.left, filling.full_at
        highest = speed = 0.0
        first, count = TOP, 0
        stop = len(order)
        while first < stop and grows > 0.0:
            if len(levels):
                link, stop = _lowest_of(order, levels, stop, unfrozen, left)
            else:
                link, first = _next_of(order, first, unfrozen, left)
            if link < 0:
                break
            level = max(left[link], 0.0) / unfrozen[link]
            if len(levels) or level >= highest * (1.0 - ROUNDED):
                level = highest = max(highest, level)
            elif _is_late(filling, link, level):
                late[count] = link
                count += 1
            speed += unfrozen[link] * level
            grows -= unfrozen[link]
            release(filling, link, level)
            full_at[link] = level
        return speed, highest, grows, count

    return freeze


@inlined
def _is_late(filling, link, level):
    """Whether some flow of a link froze at a higher level than the link's own."""
    share, others, full_at = filling.share, filling.others, filling.full_at
    for m in range(filling.links[link].first, filling.links[link].stop):
        rate = lowest_on(others[m], full_at)
        if share[m] > 0.0 and level < rate * (1.0 - ROUNDED) and rate < np.inf:
            return True
    return False


@inlined
def lowest_on(path, levels):
    """Return the lowest level of the links on a path."""
    lowest = np.inf
    for link in path:
        lowest = min(lowest, levels[link])
    return lowest


@in_place
def _next_of(order, first, unfrozen, left):
    """Return the link with the lowest level among the next few, -1 if there is none.

    The order may thus be off by a few places. Links without growing flows are skipped. The links
    from `first` on are still to come; finished ones are moved before it.
    """
    best = -1
    level = np.inf
    k = first
    while k < len(order) and k < first + _NEXT:
        link = order[k]
        if unfrozen[link] <= 0.0:
            order[k], order[first] = order[first], link
            if best == first:
                best = k
            first += 1
        elif left[link] < level * unfrozen[link]:
            level = left[link] / unfrozen[link]
            best = k
        k += 1
    if best < 0:
        return -1, first
    link = order[best]
    order[best], order[first] = order[first], link
    return link, first + 1


@inlined
def _lowest_of(heap, levels, stop, unfrozen, left):
    """Remove the link with the lowest level from a heap; return it, or -1, and the heap's end.

    Removed links stand behind the end, the last one first.
    """
    while stop > 0:
        link = heap[0]
        if unfrozen[link] > 0.0:
            # Levels only rise as others fill, so only the lowest known one needs a look.
            level = max(left[link], 0.0) / unfrozen[link]
            if level > levels[0]:
                levels[0] = level
                sink(levels, heap, TOP, stop)
                continue
        heap[stop - 1] = pop(levels, heap, stop)
        stop -= 1
        if unfrozen[link] > 0.0:
            return link, stop
    return -1, stop


@compiled
def heap_of(links, unfrozen, left):
    """Return links as a heap by their levels, and the levels."""
    levels = left[links] / unfrozen[links]
    heap_up(levels, links)
    return links, levels


@inlined
def release_members(first, stop, share, others, unfrozen, left, full_at, level):
    """Remove the growing members of a full link from the other links on their paths.

    The members are `first` to `stop`; `share` has the weight of each, and `others`, of shape
    (members, most links on a path - 1), the other links that it crosses.
    """
    if others.shape[1] == 1:
        # Frozen members need no test: of their other link, which is full, no more is read.
        # Unsigned: a place that may be negative costs a check each time.
        for m in range(np.uint64(first), np.uint64(stop)):
            other = others[m, 0]
            unfrozen[other] -= share[m]
            left[other] -= share[m] * level
        return
    for m in range(first, stop):
        grows = share[m] > 0.0
        for h in range(others.shape[1]):
            if full_at[others[m, h]] < np.inf:
                grows = False
                break
        if grows:
            for h in range(others.shape[1]):
                unfrozen[others[m, h]] -= share[m]
                left[others[m, h]] -= share[m] * level


@inlined
def release_all(weights, unfrozen, lefts, level):
    """Subtract the flows of a full link from all other links, in a vectorized loop."""
    for m in range(len(weights)):
        unfrozen[m] -= weights[m]
        lefts[m] -= weights[m] * level


@in_place
def sooner(lefts, rates, soonest):
    """Return when the next flow ends, in seconds, or `soonest` if that is earlier.

    Slices count from 0 and the first loop has no branches, so that the compiler vectorizes it.
    """
    ends = 0
    for i in range(len(lefts)):
        ends += lefts[i] < soonest * rates[i]
    if ends:
        for i in range(len(lefts)):
            if lefts[i] < soonest * rates[i]:
                soonest = lefts[i] / rates[i]
    return soonest
