"""Levels of links set right only where flows have come or gone; see `sharing`.

A link that is full has the level at which its flows, each no faster than the lowest level of its
other links lets it be, take up its capacity. Where that is so of all links at once, the sharing is
max-min fair: each flow is as fast as any on that link of its path which has the lowest level. So
it is enough to look at the links of flows that have come or gone, and then at the neighbours of
those whose level was another, until none is. That ends, as the lowest level is right once it has
been looked at, then the next, and so on. With few flows per link it takes a few links where a fill
goes through most; with many, a change goes far, and a fill is faster.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.heap import heap_up, rise, sink
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
    """Note that flows of a link have come or gone."""
    row = parts.state[0]
    if not parts.links[link].due:
        parts.links[link].due = 1
        parts.queue[row.due] = link
        row.due += 1


@in_place
def _clear(parts):
    """Forget which links flows have come to or gone from."""
    row = parts.state[0]
    for k in range(row.due):
        parts.links[parts.queue[k]].due = 0
    row.due = 0


@inlined
def repair(parts, capacity):
    """Set levels right, if that takes little; return whether they are.

    If so, `moved` are the links whose flows may have another rate. The order in which the last fill
    froze links is no guide any more.
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
    """Look at links that are due, the lowest first, and at neighbours; return whether none is left.

    From the lowest on, most are right at the first look.
    """
    links, queue, full_at, row = parts.links, parts.queue, parts.full_at, parts.state[0]
    levels = parts.yet
    for k in range(row.due):
        levels[k] = full_at[queue[k]]
    heap_up(levels[:row.due], queue[:row.due])
    looks = _MOST_LOOKS * len(capacity)
    while row.due > 0 and looks > 0:
        link = queue[0]
        row.due -= 1
        levels[0], queue[0] = levels[row.due], queue[row.due]
        sink(levels, queue, 0, row.due)
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
    """Queue the links whose level may change because this link's did.

    A flow that another link holds back concerns none. Nor is a link concerned that is not full and
    has more left than flows now want.
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
    """Return the level at which a link is full as others are now, inf if it is not.

    What its flows can send grows with the level, ever more slowly: so from wherever the first step
    leads, it is not too far, and the next ones go up.
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
    """Give the classes on links that have moved the lowest level on their paths; weights are 1."""
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
