"""Repair of levels only where flows have come or gone; see `sharing`.

The level of a full link is that at which its flows take up its capacity, each limited to the lowest
level on its other links. If that holds on all links at once, the sharing is max-min fair: each flow
is as fast as any other on the link of its path with the lowest level. So it is enough to examine
the links of flows that have come or gone, then the neighbours of links with a new level, and so on.
This ends: the lowest level is right once it has been examined, then the next, and so on. With few
flows per link, a repair visits few links where a fill visits most. With many, a change spreads far,
and a fill is faster.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.heap import heap_up, pop, rise
from netsim.fabric.kernels.sharing_ends import expect, see

__all__ = ["note", "repair", "set_moved_rates"]

#: Up to so many classes per link, and of so large a part of them all touched, levels are repaired;
#: of more links, where a change stays among few of them, up to so many.
_SPARSE = 2
_MANY_LINKS, _SPARSE_IN_MANY = 1024, 8
_FEW_TOUCHED = 4

#: After so many looks per link it is not worth it any more.
_MOST_LOOKS = 2

#: Relative: by how much a level may be off, and a link that is not full have too much to carry.
_CLOSE = 1e-14
_OVER = 1e-13

#: Relative: a link that is not full, with less left than this, is to be looked at.
_SCARCE = 1e-6

#: How often the level of one link is corrected at most: each time but the first it rises.
_PASSES = 64


@in_place
def note(parts, link):
    """Record that flows of a link have come or gone."""
    row = parts.state[0]
    if not parts.links[link].due:
        parts.links[link].due = 1
        parts.queue[row.due] = link
        row.due += 1


@in_place
def _clear(parts):
    """Clear the list of links with flows that have come or gone."""
    row = parts.state[0]
    for k in range(row.due):
        parts.links[parts.queue[k]].due = 0
    row.due = 0


@inlined
def repair(parts, capacity):
    """Repair levels if that takes little time; return whether it did.

    If so, `moved` lists the links with flows that may have another rate. The freezing order of the
    last fill is then no longer valid.
    """
    row = parts.state[0]
    sparse = _SPARSE if len(capacity) <= _MANY_LINKS else _SPARSE_IN_MANY
    if (not row.plain or row.classes > sparse * len(capacity)
            or row.due * _FEW_TOUCHED > len(capacity)):
        _clear(parts)
        return False
    row.frozen = 0
    row.moved = row.due
    for k in range(row.due):
        parts.moved[k] = parts.queue[k]
        parts.links[parts.queue[k]].moved = 1
    done = _settle(parts, capacity)
    for k in range(row.moved):
        parts.links[parts.moved[k]].moved = 0
    return done


@inlined
def _settle(parts, capacity):
    """Examine due links, the lowest level first, and their neighbours; return whether all are done.

    In this order, most links are right at the first look.
    """
    links, queue, full_at, row = parts.links, parts.queue, parts.full_at, parts.state[0]
    levels = parts.yet
    for k in range(row.due):
        levels[k] = full_at[queue[k]]
    heap_up(levels[:row.due], queue[:row.due])
    looks = _MOST_LOOKS * len(capacity)
    while row.due > 0 and looks > 0:
        link = pop(levels, queue, row.due)
        row.due -= 1
        looks -= 1
        at = links[link]
        at.due = 0
        before = full_at[link]
        level = _level_of(parts, link, capacity[link])
        if level == before or abs(level - before) <= _CLOSE * min(level, before):
            continue
        full_at[link] = level
        if not at.moved:
            at.moved = 1
            parts.moved[row.moved] = link
            row.moved += 1
        _see_neighbours(parts, at, before, level, capacity)
    done = row.due == 0
    _clear(parts)
    return done


@inlined
def _see_neighbours(parts, at, before, level, capacity):
    """Queue the links whose level may change because this link's level did.

    Flows that another link limits have no effect. A link that is not full, and has more left than
    its flows now want, needs no examination.
    """
    links, full_at, left, row = parts.links, parts.full_at, parts.left, parts.state[0]
    others = parts.others
    for m in range(at.first, at.stop):
        lowest = full_at[others[m, 0]]
        for h in range(1, others.shape[1]):
            lowest = min(lowest, full_at[others[m, h]])
        was, rate = min(before, lowest), min(level, lowest)
        if was == rate:
            continue
        known = max(was, rate) < np.inf
        for h in range(others.shape[1]):
            other = others[m, h]
            if links[other].due or other >= len(capacity):
                continue
            if known and full_at[other] == np.inf:
                left[other] -= parts.share[m] * (rate - was)
                if left[other] > _SCARCE * capacity[other]:
                    continue
            links[other].due = 1
            parts.queue[row.due], parts.yet[row.due] = other, full_at[other]
            rise(parts.yet, parts.queue, row.due)
            row.due += 1


@inlined
def _level_of(parts, link, capacity):
    """Return the level at which a link is full, given the levels of others; inf if it is not full.

    What its flows send is a concave function of the level, so Newton's method applies: wherever it
    starts, the first step does not go too far, and the next ones go up.
    """
    at, others, share, full_at = parts.links[link], parts.others, parts.share, parts.full_at
    level, before = full_at[link], -1.0
    for _ in range(_PASSES):
        held, wants = 0.0, 0.0
        for m in range(at.first, at.stop):
            rate = full_at[others[m, 0]]
            for h in range(1, others.shape[1]):
                rate = min(rate, full_at[others[m, h]])
            if rate < level:
                held += share[m] * rate
            else:
                wants += share[m]
        before = level
        if wants > 0.0:
            level = max(capacity - held, 0.0) / wants
        elif held <= capacity * (1.0 + _OVER):
            parts.left[link] = capacity - held
            return np.inf
        else:
            level = 0.0
        if level == before:
            break
    return level


@inlined
def set_moved_rates(parts):
    """Give the classes on moved links the lowest level on their paths, for weights of 1."""
    links, path, full_at, row = parts.links, parts.path, parts.full_at, parts.state[0]
    for k in range(row.moved):
        at = links[parts.moved[k]]
        for m in range(at.first, at.stop):
            c = parts.place[m]
            lowest = full_at[path[c, 0]]
            for h in range(1, path.shape[1]):
                lowest = min(lowest, full_at[path[c, h]])
            if not row.keeps_ends:
                parts.rate[c] = lowest
            elif lowest != parts.rate[c]:
                see(parts, c)
                parts.rate[c] = lowest
                expect(parts, c)
