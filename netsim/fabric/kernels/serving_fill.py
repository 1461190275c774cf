"""Max-min fair sharing among the flows of one group, on what links have left; see `serving`."""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.filling import (
    ROUNDED,
    freeze,
    register_release,
    release_all,
    release_members,
)
from netsim.fabric.kernels.heap import heap_up
from netsim.fabric.kernels.serving_parts import Filling


@in_place
def fill(served, group, filling, left):
    """Share what is left among the flows of a group, max-min fairly; return whether any gets some.

    The freezing order of the last time is tried first. It is right if no slot comes too late and no
    slot is overloaded. Otherwise the lowest level is searched for. `filling` is one of the two of
    `served`. `left`, by link, is updated, and what the group uses of it is added to ``used``.
    """
    see_room(served, group, filling, left)
    link, used = served.link, served.traffic.used
    slots, turns = served.desk.slots, served.desk.turns
    count = 0
    for k in range(group.slot, group.slot + group.slots):
        s = filling.turn[k]
        if filling.room[s] and filling.wants[s] > 0.0:
            slots[count] = s
            turns[count] = k
            count += 1
    if count == 0:
        return False
    slots = slots[:count]
    speed = _freeze_as_before(served, slots, group, filling, left)
    if speed < 0.0:
        speed = _freeze_by_level(served, slots, group, filling, left)
    group.speed += speed
    for k in range(count):
        s = slots[k]
        filling.turn[turns[k]] = s
        rest = 0.0 if filling.full_at[s] < np.inf else max(filling.left[s], 0.0)
        used[s] += left[link[s]] - rest
        left[link[s]] = rest
    return True


@inlined
def _freeze_as_before(served, order, group, filling, left):
    """Freeze slots in the given order; return the sum of rates, or -1 if the order is wrong."""
    grows = _thaw(served, order, group, filling, left)
    speed, group.top, _, late = freeze(order, filling.unfrozen[:0], grows, filling,
                                       served.desk.heap)
    if late:
        return -1.0
    for s in order:
        overloads = filling.left[s] < -ROUNDED * left[served.link[s]]
        if filling.full_at[s] == np.inf and overloads:
            return -1.0
    return speed


@inlined
def _freeze_by_level(served, slots, group, filling, left):
    """Freeze slots, the lowest level first, and store that order; return the sum of rates."""
    heap, levels = served.desk.heap[:len(slots)], served.desk.levels[:len(slots)]
    grows = _thaw(served, slots, group, filling, left)
    for k in range(len(slots)):
        heap[k] = slots[k]
        levels[k] = filling.left[slots[k]] / filling.unfrozen[slots[k]]
    heap_up(levels, heap)
    speed, group.top, _, _ = freeze(heap, levels, grows, filling, slots)
    for k in range(len(slots)):
        slots[k] = heap[len(slots) - 1 - k]
    return speed


@in_place
def _thaw(served, slots, group, filling, left):
    """Reset the flows on the given slots to grow from 0; return their number, inf if not known."""
    grows = 0.0
    for s in slots:
        filling.unfrozen[s] = filling.wants[s]
        filling.left[s] = left[served.link[s]]
        filling.full_at[s] = np.inf
        grows += filling.unfrozen[s]
    return 0.5 * grows if group.paired else np.inf


def _release(filling, slot, level):
    """Remove the flows of a full slot from their other slots; see `filling`."""
    at = filling.links[slot]
    if at.begin >= 0:
        end = at.begin + at.stop - at.first
        release_all(filling.share[at.first:at.stop], filling.unfrozen[at.begin:end],
                    filling.left[at.begin:end], level)
    else:
        release_members(at.first, at.stop, filling.share, filling.others, filling.unfrozen,
                        filling.left, filling.full_at, level)


register_release(Filling, _release)


@in_place
def see_room(served, group, filling, left):
    """Update what flows want, from the slots that became full or are no longer full."""
    link, dust = served.link, served.on_links.dust
    wants, room, share, others = filling.wants, filling.room, filling.share, filling.others
    for s in range(group.slot, group.slot + group.slots):
        has = left[link[s]] > dust[link[s]]
        if has == room[s]:
            continue
        room[s] = has
        filling.full_at[s] = 0.0
        sign = 1.0 if has else -1.0
        slot = filling.links[s]
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
