"""One group shares what is left of the links max-min fairly among its flows; see `serving`.

Progressive filling: all flows grow alike; the link that is full first freezes its flows; and so
on with the rest. What comes of it is the *level* at which each link was full: a flow's rate is the
lowest level on its path, since levels only rise.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled

__all__ = ["fill", "see_room"]


@compiled
def fill(group, slots, link, dust, filling, members, left):
    """Let the flows of a group share what is left max-min fairly; return whether any does."""
    see_room(group, link, dust, slots, filling, members, left)
    wants, room, level = filling
    live = np.empty(group.slots, np.int32)
    levels = np.empty(group.slots)
    lives = 0
    for s in range(group.slot, group.slot + group.slots):
        if not room[s] or wants[s] == 0.0:
            continue
        slot = slots[s]
        slot.waiting = wants[s]
        slot.left = left[link[s]]
        level[s] = np.inf
        levels[lives] = slot.left / slot.waiting
        live[lives] = s
        lives += 1
    if lives == 0:
        return False
    filled = live[:lives].copy()
    group.speed += _rise(slots, live, levels, lives, level, members)
    for s in filled:
        rest = 0.0 if level[s] < np.inf else max(slots[s].left, 0.0)
        slots[s].used += left[link[s]] - rest
        left[link[s]] = rest
    return True


@compiled
def _rise(slots, live, levels, lives, level, members):
    """Raise the level until every flow is frozen; return the sum of their rates."""
    for at in range(lives // 2 - 1, -1, -1):
        _sift(levels, live, at, lives)
    speed = 0.0
    lowest = 0.0
    while lives > 0:
        slot = slots[live[0]]
        if slot.waiting > 0.0:
            # Levels only rise as others fill, so that the lowest one known is the one to look at.
            now = max(slot.left, 0.0) / slot.waiting
            if now > levels[0]:
                levels[0] = now
                _sift(levels, live, 0, lives)
                continue
            lowest = max(lowest, now)
            speed += slot.waiting * lowest
            slot.waiting = 0.0
            _freeze(slots, slot, lowest, level, members)
            level[live[0]] = lowest
        lives -= 1
        levels[0], live[0] = levels[lives], live[lives]
        _sift(levels, live, 0, lives)
    return speed


@compiled
def _freeze(slots, slot, lowest, level, members):
    """Take the flows that grow on a full slot off the other slots on their paths."""
    share, others = members
    shares, paths = share[slot.first:slot.stop], others[slot.first:slot.stop]
    if others.shape[1] == 1:
        # Those frozen already need no test: of their other slot, which is full, no more is read.
        for m in range(len(shares)):
            other = slots[paths[m, 0]]
            other.waiting -= shares[m]
            other.left -= shares[m] * lowest
        return
    for m in range(len(shares)):
        grows = shares[m] > 0.0
        for h in range(paths.shape[1]):
            if level[paths[m, h]] < np.inf:
                grows = False
                break
        if not grows:
            continue
        for h in range(paths.shape[1]):
            other = slots[paths[m, h]]
            other.waiting -= shares[m]
            other.left -= shares[m] * lowest


@compiled
def _sift(levels, live, at, count):
    """Let one level of a heap, the lowest on top, sink to its place."""
    level, slot = levels[at], live[at]
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
    levels[at], live[at] = level, slot


@compiled
def see_room(group, link, dust, slots, filling, members, left):
    """Bring up to date what flows want, by the slots that gained or lost their room."""
    wants, room, level = filling
    share, others = members
    for s in range(group.slot, group.slot + group.slots):
        has = left[link[s]] > dust[link[s]]
        if has == room[s]:
            continue
        room[s] = has
        level[s] = 0.0
        sign = 1.0 if has else -1.0
        for m in range(slots[s].first, slots[s].stop):
            for h in range(others.shape[1]):
                free = True
                for g in range(others.shape[1]):
                    free &= g == h or room[others[m, g]]
                if free:
                    wants[others[m, h]] += sign * share[m]
