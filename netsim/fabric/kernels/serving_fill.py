"""Max-min fair sharing among the flows of one group, on what links have left; see `serving`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.filling import (
    ROUNDED,
    freeze,
    register_release,
    release_all,
    release_members,
)
from netsim.fabric.kernels.heap import heap_up

__all__ = ["Filling", "fill", "see_room"]


class Filling(NamedTuple):
    """What is filled, group by group; the links of a group are its slots.

    Attributes
    ----------
    links : ndarray of _SLOT
    share, others : ndarray
        For the flows on each slot, slot by slot: the number of unfinished flows at this place, and
        the other slots that they cross.
    wants : ndarray of float, shape (slots,)
        The number of flows on each slot whose other links all have room.
    room : ndarray of bool, shape (slots,)
        Whether the slot itself has room.
    full_at : ndarray of float, shape (slots,)
        The level at which the slot was full; inf if it was not, 0 if it has no room.
    unfrozen, left : ndarray of float, shape (slots,)
        During a fill: the flows that are not frozen yet, and the bandwidth left for them.
    turn : ndarray of int, shape (slots,)
        Each group's slots in the order in which they froze last time.
    """

    links: NDArray[Any]
    share: NDArray[np.float64]
    others: NDArray[np.uint32]
    wants: NDArray[np.float64]
    room: NDArray[np.bool_]
    full_at: NDArray[np.float64]
    unfrozen: NDArray[np.float64]
    left: NDArray[np.float64]
    turn: NDArray[np.int64]


@in_place
def fill(group, filling, link, used, dust, left, desk):
    """Share what is left among the flows of a group, max-min fairly; return whether any gets some.

    The freezing order of the last time is tried first. It is right if no slot comes too late and no
    slot is overloaded. Otherwise the lowest level is searched for.

    Parameters
    ----------
    group : record of _GROUP
    filling : Filling
    link : ndarray of int, shape (slots,)
    used : ndarray of float, shape (slots,)
        Bytes per second of the group on each slot; is added to.
    dust, left : ndarray of float, shape (links,)
        Bandwidth below which a link counts as full, and what links have left; `left` is updated.
    desk : tuple of ndarray
        See `serving_rows.Served`.
    """
    see_room(group, filling, link, dust, left)
    live, spot, _, _ = desk
    lives = 0
    for k in range(group.slot, group.slot + group.slots):
        s = filling.turn[k]
        if filling.room[s] and filling.wants[s] > 0.0:
            live[lives] = s
            spot[lives] = k
            lives += 1
    if lives == 0:
        return False
    live = live[:lives]
    speed = _freeze_as_before(live, group, filling, link, left, desk)
    if speed < 0.0:
        speed = _freeze_by_level(live, group, filling, link, left, desk)
    group.speed += speed
    for k in range(lives):
        s = live[k]
        filling.turn[spot[k]] = s
        rest = 0.0 if filling.full_at[s] < np.inf else max(filling.left[s], 0.0)
        used[s] += left[link[s]] - rest
        left[link[s]] = rest
    return True


@inlined
def _freeze_as_before(order, group, filling, link, left, desk):
    """Freeze slots in the given order; return the sum of rates, or -1 if the order is wrong."""
    grows = _thaw(order, group, filling, link, left)
    speed, group.top, _, late = freeze(order, filling.unfrozen[:0], grows, filling, desk[2])
    if late:
        return -1.0
    for s in order:
        if filling.full_at[s] == np.inf and filling.left[s] < -ROUNDED * left[link[s]]:
            return -1.0
    return speed


@inlined
def _freeze_by_level(live, group, filling, link, left, desk):
    """Freeze slots, the lowest level first, and store that order; return the sum of rates."""
    _, _, heap, levels = desk
    heap, levels = heap[:len(live)], levels[:len(live)]
    grows = _thaw(live, group, filling, link, left)
    for k in range(len(live)):
        heap[k] = live[k]
        levels[k] = filling.left[live[k]] / filling.unfrozen[live[k]]
    heap_up(levels, heap)
    speed, group.top, _, _ = freeze(heap, levels, grows, filling, live)
    for k in range(len(live)):
        live[k] = heap[len(live) - 1 - k]
    return speed


@in_place
def _thaw(live, group, filling, link, left):
    """Reset the flows on the given slots to grow from 0; return their number, inf if not known."""
    grows = 0.0
    for s in live:
        filling.unfrozen[s] = filling.wants[s]
        filling.left[s] = left[link[s]]
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
def see_room(group, filling, link, dust, left):
    """Update what flows want, from the slots that became full or are no longer full."""
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
