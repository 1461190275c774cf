"""One group shares what is left of the links max-min fairly among its flows; see `serving`.

Progressive filling: all flows grow alike; the link that is full first freezes its flows; and so
on with the rest. What comes of it is the *level* at which each link was full: a flow's rate is the
lowest level on its path, since levels only rise.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.filling import ROUNDED, heap_up, lowest_of, next_of, release_all

__all__ = ["fill", "see_room"]


@in_place
def fill(group, slots, link, used, dust, filling, members, left, desk):
    """Let the flows of a group share what is left max-min fairly; return whether any does.

    The order in which slots were full last time is tried first: it is right if levels never fall
    and no slot gets more than there is. Only if not, the lowest level is searched for each time.
    """
    see_room(group, link, dust, slots, filling, members, left)
    wants, room, level, _, free, turn = filling
    live, spot, _, _ = desk
    lives = 0
    for k in range(group.slot, group.slot + group.slots):
        s = turn[k]
        if room[s] and wants[s] > 0.0:
            live[lives] = s
            spot[lives] = k
            lives += 1
    if lives == 0:
        return False
    live = live[:lives]
    speed = _freeze_as_before(live, group, slots, link, filling, members, left)
    if speed < 0.0:
        speed = _freeze_by_level(live, group, slots, link, filling, members, left, desk)
    group.speed += speed
    for k in range(lives):
        s = live[k]
        turn[spot[k]] = s
        rest = 0.0 if level[s] < np.inf else max(free[s], 0.0)
        used[s] += left[link[s]] - rest
        left[link[s]] = rest
    return True


@inlined
def _freeze_as_before(order, group, slots, link, filling, members, left):
    """Freeze slots in about this order; return the sum of flows' rates, -1 if it proves wrong."""
    _, _, level, _, free, _ = filling
    _thaw(order, link, filling, left)
    speed = _freeze(order, free[:0], group, slots, filling, members)
    for s in order:
        if level[s] == np.inf and free[s] < -ROUNDED * left[link[s]]:
            return -1.0
    return speed


@inlined
def _freeze_by_level(live, group, slots, link, filling, members, left, desk):
    """Freeze slots, the lowest level first, and put them in that order; return as before."""
    _, _, _, yet, free, _ = filling
    _, _, heap, levels = desk
    heap, levels = heap[:len(live)], levels[:len(live)]
    _thaw(live, link, filling, left)
    for k in range(len(live)):
        heap[k] = live[k]
        levels[k] = free[live[k]] / yet[live[k]]
    heap_up(heap, levels)
    speed = _freeze(heap, levels, group, slots, filling, members)
    for k in range(len(live)):
        live[k] = heap[len(live) - 1 - k]
    return speed


@in_place
def _thaw(live, link, filling, left):
    wants, _, level, yet, free, _ = filling
    for s in live:
        yet[s] = wants[s]
        free[s] = left[link[s]]
        level[s] = np.inf


@in_place
def _freeze(order, levels, group, slots, filling, members):
    """Freeze slots, in about this order or, if they come with levels, from a heap by these."""
    _, _, level, yet, free, _ = filling
    share, others = members
    speed = 0.0
    lowest = 0.0
    first = 0
    stop = len(order)
    nowhere = len(yet) - 1
    yet[nowhere] = 0.0
    # On how many slots flows still grow, two each; those of one link are taken off `nowhere` as
    # well. Longer paths are not counted.
    grows = np.inf if others.shape[1] > 1 else 0.0
    for s in order:
        grows += yet[s]
    while first < stop and grows > yet[nowhere]:
        if len(levels):
            s, stop = lowest_of(order, levels, stop, yet, free)
        else:
            s, first = next_of(order, first, yet, free)
        if s < 0:
            break
        now = max(free[s], 0.0) / yet[s]
        if now < lowest * (1.0 - ROUNDED) and not len(levels):
            return -1.0
        lowest = max(lowest, now)
        speed += yet[s] * lowest
        grows -= 2.0 * yet[s]
        slot = slots[s]
        if slot.begin >= 0:
            end = slot.begin + slot.stop - slot.first
            release_all(share[slot.first:slot.stop], yet[slot.begin:end], free[slot.begin:end],
                        lowest)
        elif others.shape[1] == 1:
            # Those frozen already need no test: of their other slot, which is full, no more is
            # read. Unsigned: a place that may be negative costs a check each time.
            for m in range(np.uint64(slot.first), np.uint64(slot.stop)):
                other = others[m, 0]
                yet[other] -= share[m]
                free[other] -= share[m] * lowest
        else:
            _release(slot, share, others, yet, free, level, lowest)
        level[s] = lowest
    group.top = lowest
    return speed


@inlined
def _release(slot, share, others, yet, free, level, lowest):
    """Take the flows that grow on a full slot off the other slots on their paths."""
    for m in range(slot.first, slot.stop):
        grows = share[m] > 0.0
        for h in range(others.shape[1]):
            if level[others[m, h]] < np.inf:
                grows = False
                break
        if grows:
            for h in range(others.shape[1]):
                yet[others[m, h]] -= share[m]
                free[others[m, h]] -= share[m] * lowest


@in_place
def see_room(group, link, dust, slots, filling, members, left):
    """Bring up to date what flows want, by the slots that gained or lost their room."""
    wants, room, level, _, _, _ = filling
    share, others = members
    for s in range(group.slot, group.slot + group.slots):
        has = left[link[s]] > dust[link[s]]
        if has == room[s]:
            continue
        room[s] = has
        level[s] = 0.0
        sign = 1.0 if has else -1.0
        slot = slots[s]
        if slot.begin >= 0:
            _want_all(share[slot.first:slot.stop],
                      wants[slot.begin:slot.begin + slot.stop - slot.first], sign)
            continue
        for m in range(slot.first, slot.stop):
            for h in range(others.shape[1]):
                free = True
                for g in range(others.shape[1]):
                    free &= g == h or room[others[m, g]]
                if free:
                    wants[others[m, h]] += sign * share[m]


@inlined
def _want_all(share, wants, sign):
    for m in range(len(share)):
        wants[m] += sign * share[m]
