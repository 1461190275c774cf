"""One coflow shares what is left of the links max-min fairly among its flows; see `serving`."""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled
from netsim.fabric.kernels.serving_rows import ENDED, IDLE, WANTS
from netsim.fabric.records import DUST

__all__ = ["fill", "see_room"]


@compiled
def fill(coflow, slots, senders, runs, filling, members, capacity, left, step):
    """Let the flows of a coflow share what is left max-min fairly."""
    see_room(coflow, slots, senders, filling, members, capacity, left)
    wants, _, state = filling
    live = np.empty(coflow.slots, np.int32)
    levels = np.empty(coflow.slots)
    lives = 0
    for s in range(coflow.slot, coflow.slot + coflow.slots):
        slot = slots[s]
        if wants[s] > 0:
            slot.waiting = wants[s]
            slot.left = left[slot.link]
            levels[lives] = slot.left / slot.waiting
            live[lives] = s
            lives += 1
    for at in range(lives // 2 - 1, -1, -1):
        _sift(levels, live, at, lives)
    while lives > 0:
        slot = slots[live[0]]
        if slot.waiting > 0:
            # Levels only rise as others fill, so that the lowest one known is the one to look at.
            level = max(slot.left, 0.0) / slot.waiting
            if level > levels[0]:
                levels[0] = level
                _sift(levels, live, 0, lives)
                continue
            coflow.speed += slot.waiting * level
            _freeze(slots, members, state, senders[1], live[0], step, level)
        lives -= 1
        levels[0], live[0] = levels[lives], live[lives]
        _sift(levels, live, 0, lives)
    for s in range(coflow.slot, coflow.slot + coflow.slots):
        slot = slots[s]
        if wants[s] > 0:
            slot.used += left[slot.link] - slot.left
            left[slot.link] = max(slot.left, 0.0)
    for r in range(coflow.run, coflow.run + coflow.runs):
        runs[r].busy |= wants[runs[r].slot] > 0


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
def see_room(coflow, slots, senders, filling, members, capacity, left):
    """Bring up to date which flows want more, by the slots that gained or lost their room."""
    path = senders[5]
    wants, room, state = filling
    for s in range(coflow.slot, coflow.slot + coflow.slots):
        slot = slots[s]
        has = left[slot.link] > DUST * capacity[slot.link]
        if has == room[s]:
            continue
        room[s] = has
        for i in members[0][slot.first:slot.first + slot.listed]:
            if state[i] == ENDED:
                continue
            want = has
            for h in range(path.shape[1]):
                want &= room[path[i, h]]
            if want != (state[i] != IDLE):
                state[i] = WANTS if want else IDLE
                for h in range(path.shape[1]):
                    wants[path[i, h]] += 1 if want else -1


@compiled
def _freeze(slots, members, state, rate, full, step, level):
    """Settle the flows that wait on a full slot."""
    slot = slots[full]
    first, stop = slot.first, slot.first + slot.listed
    flows, others = members[0][first:stop], members[1][first:stop]
    slot.left -= slot.waiting * level
    slot.waiting = 0
    for m in range(len(flows)):
        i = flows[m]
        if state[i] < 0 or state[i] == step:
            continue
        state[i] = step
        rate[i] += level
        for h in range(others.shape[1]):
            other = slots[others[m, h]]
            other.waiting -= 1
            other.left -= level
