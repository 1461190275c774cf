"""One max-min fair fill of all links; see `sharing`.

Progressive filling: all flows grow in proportion to their weights; the link that is full first
freezes its flows; and so on with the rest. What comes of it is the *level* at which each link was
full: a flow's rate is its weight times the lowest level on its path, since levels only rise.

The order in which links are full hardly changes: that of the last fill is tried first, and only if
it proves wrong the lowest level is searched for, link after link.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled, in_place, inlined
from netsim.fabric.kernels.filling import ROUNDED, heap_of, lowest_of, next_of, release_all
from netsim.fabric.kernels.sharing_parts import ALL
from netsim.fabric.kernels.sharing_repair import repair
from netsim.fabric.kernels.sharing_table import take_sums

__all__ = ["fill_up"]

#: How often a guess is corrected before the lowest level is searched for, link after link.
_ATTEMPTS = 4

#: Where more links than this prove wrong at once, a guess is not worth correcting.
_MOST_WRONG = 16

#: A link that shares flows with one in so many others is taken from the table.
_CROWDED = 6


@compiled
def fill_up(parts, capacity):
    """Find the level at which each link is full, or set right the few that may be others."""
    row = parts.state[0]
    if repair(parts, capacity):
        _forget_joined(parts)
        row.stale = 0
        return
    row.moved = ALL
    for _ in range(_ATTEMPTS):
        if row.frozen == 0 or row.wrong > _MOST_WRONG:  # nothing to go by
            break
        guess = _guess(parts)
        _follow(guess, parts, _thaw(parts, capacity), capacity)
        if not row.stale:
            return
    parts.full_at[:] = np.inf
    _forget_joined(parts)
    _search(parts, _thaw(parts, capacity), capacity)
    row.stale = row.wrong = 0


@in_place
def _forget_joined(parts):
    """Forget which links may be full, and where; what they want is no news any more."""
    for k in range(parts.state[0].joined):
        parts.links[parts.joined[k]].more = 0.0
        parts.links[parts.joined[k]].least = np.inf
    parts.state[0].joined = 0


@inlined
def _guess(parts):
    """Return the links that are likely to be frozen, in their likely order.

    That of the last fill, but for the links that flows have joined: of these only the least level
    is known. From here on they are not known to be full.
    """
    links, full_at, row = parts.links, parts.full_at, parts.state[0]
    guess = np.empty(row.frozen + row.joined, np.int64)
    levels = np.empty(len(guess))
    count = 0
    for k in range(row.frozen):
        link = parts.frozen[k]
        count = _insert(guess, levels, count, link, min(full_at[link], links[link].least))
        links[link].least = np.inf
        full_at[link] = np.inf
    for k in range(row.joined):
        link = parts.joined[k]
        if links[link].least < np.inf:
            count = _insert(guess, levels, count, link, links[link].least)
    _forget_joined(parts)
    return guess[:count]


@in_place
def _insert(guess, levels, count, link, level):
    at = count
    while at > 0 and levels[at - 1] > level:
        guess[at], levels[at] = guess[at - 1], levels[at - 1]
        at -= 1
    guess[at], levels[at] = link, level
    return count + 1


@compiled
def _thaw(parts, capacity):
    """Let all flows grow again, from 0; return how many classes do per link.

    Their numbers matter only where weights are not 1, and what they add up to may be off.
    """
    links, yet, row = parts.links, parts.yet, parts.state[0]
    row.frozen = 0
    row.grows = row.weight if row.plain else np.inf
    for link in range(len(capacity)):
        parts.left[link] = capacity[link]
    if row.plain:
        for link in range(len(links)):
            yet[link] = links[link].wants
        return np.zeros(0, np.int64)
    count = np.zeros(len(links), np.int64)
    if len(parts.common):
        take_sums(parts, yet, count)
        return count
    for link in range(len(links)):
        # Weights that come and go leave traces.
        count[link] = links[link].length
        yet[link] = 0.0
        for m in range(links[link].first, links[link].first + links[link].length):
            yet[link] += parts.units[parts.unit[m]] * parts.share[m]
    return count


@inlined
def _follow(guess, parts, count, capacity):
    """Freeze links in about this order; if it was right, the fill holds altogether.

    It is if each flow has a full link on which none is faster, and no link carries more than it
    can. A link that proves wrong is put elsewhere in the next guess.
    """
    row = parts.state[0]
    row.stale = row.wrong = 0
    _freeze(guess, np.empty(0), parts, count, capacity)
    for link in range(len(capacity)):
        if parts.full_at[link] == np.inf:
            grows = count[link] > 0 if len(count) else row.grows > 0.0 and parts.yet[link] > 0.0
            if grows or parts.left[link] < -ROUNDED * capacity[link]:
                _put_elsewhere(parts, link, capacity[link])


@in_place
def _put_elsewhere(parts, link, capacity):
    """Note the level at which a link is full if others are as they are now."""
    at, others, full_at, row = parts.links[link], parts.others, parts.full_at, parts.state[0]
    level, before = 0.0, -1.0
    while level > before:
        before = level
        free, wants = capacity, 0.0
        for m in range(at.first, at.first + at.length):
            weight = parts.share[m] if row.plain else parts.share[m] * parts.units[parts.unit[m]]
            rate = np.inf
            for h in range(others.shape[1]):
                rate = min(rate, full_at[others[m, h]])
            if rate < level:
                free -= weight * rate
            else:
                wants += weight
        level = max(free, 0.0) / wants if wants > 0.0 else level
    if at.least == np.inf and full_at[link] == np.inf:
        parts.joined[row.joined] = link
        row.joined += 1
    at.least = min(at.least, level)
    row.stale = 1
    row.wrong += 1


@inlined
def _search(parts, count, capacity):
    """Freeze the link with the lowest level, and so on, until all flows are frozen."""
    yet, left = parts.yet, parts.left
    live = np.empty(len(capacity), np.int64)
    lives = 0
    for link in range(len(capacity)):
        if yet[link] > 0.0 and parts.full_at[link] == np.inf:
            live[lives] = link
            lives += 1
    heap, levels = heap_of(live[:lives], yet, left)
    _freeze(heap, levels, parts, count, capacity)


@in_place
def _freeze(order, levels, parts, count, capacity):
    """Freeze links until no flow grows.

    Parameters
    ----------
    order : ndarray of int
        The links in about the order in which they are to be frozen; or, if they come with least
        levels, a heap by these.
    """
    row, links, yet, left, full_at = (parts.state[0], parts.links, parts.yet, parts.left,
                                      parts.full_at)
    share, others, common = parts.share, parts.others, parts.common
    simple = row.plain and others.shape[1] == 1
    highest = 0.0
    first = 0
    stop = len(order)
    while first < stop and row.grows > 0.0:
        if len(levels):
            link, stop = lowest_of(order, levels, stop, yet, left)
        else:
            link, first = next_of(order, first, yet, left)
        if link < 0:
            break
        at = links[link]
        level = max(left[link], 0.0) / yet[link]
        if level < highest * (1.0 - ROUNDED) and not len(levels):
            if _too_late(at, others, full_at, level):
                _put_elsewhere(parts, link, capacity[link])
        else:
            level = highest = max(highest, level)
        row.grows -= yet[link]
        at.grew = yet[link]
        if len(common) and _CROWDED * at.length > at.stop - at.begin:
            release_all(common[link, at.begin:at.stop], yet[at.begin:at.stop],
                         left[at.begin:at.stop], level)
            if len(count):
                _count_off(parts.pairs[link, at.begin:at.stop], count[at.begin:at.stop],
                           yet[at.begin:at.stop])
        elif simple:
            # Those frozen already need no test: of their other link, which is full, no more is
            # read. Unsigned: a place that may be negative costs a check each time.
            for m in range(np.uint64(at.first), np.uint64(at.first + at.length)):
                other = others[m, 0]
                yet[other] -= share[m]
                left[other] -= share[m] * level
        else:
            _release(at, share, parts.unit, parts.units, others, yet, left, full_at, count,
                     level)
        full_at[link] = level
        parts.frozen[row.frozen] = link
        row.frozen += 1


@inlined
def _too_late(link, others, full_at, level):
    """Whether flows of a link were frozen at a higher level than its own, and slow it down."""
    for m in range(link.first, link.first + link.length):
        rate = np.inf
        for h in range(others.shape[1]):
            rate = min(rate, full_at[others[m, h]])
        if level < rate * (1.0 - ROUNDED) and rate < np.inf:
            return True
    return False


@inlined
def _count_off(pairs, counts, yets):
    """Take the classes of a full link off all others; what grows on none is nothing."""
    for m in range(len(pairs)):
        counts[m] -= pairs[m]
        yets[m] = yets[m] if counts[m] > 0 else 0.0


@inlined
def _release(link, share, unit, units, others, yet, left, full_at, count, lowest):
    """Take the flows that grow on a full link off the other links on their paths."""
    for m in range(link.first, link.first + link.length):
        grows = True
        for h in range(others.shape[1]):
            if full_at[others[m, h]] < np.inf:
                grows = False
                break
        if not grows:
            continue
        wants = units[unit[m]] * share[m]
        for h in range(others.shape[1]):
            other = others[m, h]
            left[other] -= wants * lowest
            yet[other] -= wants
            if len(count):
                count[other] -= 1
                if count[other] == 0:
                    yet[other] = 0.0
