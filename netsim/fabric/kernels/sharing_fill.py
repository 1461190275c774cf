"""One max-min fair fill of all links, or a repair of the few that change; see `sharing`."""

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
from netsim.fabric.kernels.sharing_parts import ALL, Parts
from netsim.fabric.kernels.sharing_repair import repair
from netsim.fabric.kernels.sharing_table import take_sums

__all__ = ["fill_up"]

#: How often a guess is corrected before the lowest level is searched for, link after link.
_ATTEMPTS = 4

#: Where more links than this prove wrong at once, a guess is not worth correcting.
_MOST_WRONG = 16

#: How often links of a guess change places, per link, before they are merged: most are in order.
_MOVES = 8

#: A link that shares flows with one in so many others is taken from the table.
_CROWDED = 6


@in_place
def fill_up(parts, capacity):
    """Compute the level at which each link is full, or repair the few levels that may change."""
    row = parts.state[0]
    if repair(parts, capacity):
        _forget_joined(parts)
        row.stale = 0
        return
    row.moved = ALL
    for _ in range(_ATTEMPTS):
        if row.frozen == 0 or row.wrong > _MOST_WRONG:  # nothing to go by
            break
        _follow(_guess(parts), parts, capacity)
        if not row.stale:
            return
    for link in range(len(parts.links)):
        parts.full_at[link] = parts.links[link].least = np.inf
        parts.links[link].more = 0.0
    _search(parts, capacity)
    row.stale = row.wrong = row.joined = 0


@in_place
def _forget_joined(parts):
    """Clear the list of links that flows have joined, with their lower bounds of the level."""
    for k in range(parts.state[0].joined):
        parts.links[parts.joined[k]].more = 0.0
        parts.links[parts.joined[k]].least = np.inf
    parts.state[0].joined = 0


@inlined
def _guess(parts):
    """Return the links that will probably freeze, in their probable order.

    The order is that of the last fill, except for links that flows have joined: of their levels,
    only a lower bound is known. All links are reset to not full.
    """
    links, full_at, row = parts.links, parts.full_at, parts.state[0]
    guess, levels = parts.order, parts.levels
    count = 0
    for k in range(row.frozen):
        link = parts.frozen[k]
        guess[count], levels[count] = link, min(full_at[link], links[link].least)
        count += 1
        links[link].least = np.inf
        full_at[link] = np.inf
    for k in range(row.joined):
        link = parts.joined[k]
        if links[link].least < np.inf:
            guess[count], levels[count] = link, links[link].least
            count += 1
    _forget_joined(parts)
    guess, levels = guess[:count], levels[:count]
    if not _insert(guess, levels):
        _merge(guess, levels, parts.spare[:count], parts.spared[:count])
    return guess


@in_place
def _insert(guess, levels):
    """Sort links by level, stably, by insertion; return False if that takes too long."""
    moves = _MOVES * len(guess)
    for k in range(1, len(guess)):
        link, level = guess[k], levels[k]
        at = k
        while at > 0 and levels[at - 1] > level:
            guess[at], levels[at] = guess[at - 1], levels[at - 1]
            at -= 1
        guess[at], levels[at] = link, level
        moves -= k - at
        if moves < 0:
            return False
    return True


@inlined
def _merge(guess, levels, guessed, known):
    """Sort links by level, stably, by merging, with space for both."""
    width = 1
    while width < len(guess):
        for k in range(len(guess)):
            guessed[k], known[k] = guess[k], levels[k]
        for first in range(0, len(guess), 2 * width):
            middle, stop = min(first + width, len(guess)), min(first + 2 * width, len(guess))
            one, two = first, middle
            for at in range(first, stop):
                if one < middle and (two == stop or known[one] <= known[two]):
                    guess[at], levels[at] = guessed[one], known[one]
                    one += 1
                else:
                    guess[at], levels[at] = guessed[two], known[two]
                    two += 1
        width *= 2


@in_place
def _thaw(parts, capacity):
    """Reset all flows to grow from 0; return their total weight, inf if it may be inexact."""
    links, yet, row = parts.links, parts.yet, parts.state[0]
    row.frozen = 0
    for link in range(len(capacity)):
        parts.left[link] = capacity[link]
    if parts.others.shape[1] > 1:
        for c in range(row.classes):
            parts.still[c] = True
    if row.plain:
        for link in range(len(links)):
            yet[link] = links[link].wants
        return row.weight
    # Weights that come and go leave traces: classes are counted, too.
    if len(parts.common):
        take_sums(parts, yet, parts.classes_left)
        return np.inf
    for link in range(len(links)):
        parts.classes_left[link] = links[link].stop - links[link].first
        yet[link] = 0.0
        for m in range(links[link].first, links[link].stop):
            yet[link] += parts.units[parts.unit[m]] * parts.share[m]
    return np.inf


@inlined
def _follow(guess, parts, capacity):
    """Freeze links in the guessed order, and check the result.

    The result is right if each flow crosses a full link on which no flow is faster, and no link is
    overloaded. A link that fails this check gets another place in the next guess.
    """
    row, late = parts.state[0], parts.queue
    row.stale = row.wrong = 0
    _, _, grows, count = freeze(guess, parts.yet[:0], _thaw(parts, capacity), parts, late)
    for link in late[:count]:
        _put_elsewhere(parts, link, capacity[link])
    for link in range(len(capacity)):
        if parts.full_at[link] == np.inf:
            waits = (grows > 0.0 and parts.yet[link] > 0.0 if row.plain
                     else parts.classes_left[link] > 0)
            if waits or parts.left[link] < -ROUNDED * capacity[link]:
                _put_elsewhere(parts, link, capacity[link])


@in_place
def _put_elsewhere(parts, link, capacity):
    """Estimate the level of a link that was in the wrong place, for the next guess."""
    at, others, full_at, row = parts.links[link], parts.others, parts.full_at, parts.state[0]
    level, before = 0.0, -1.0
    while level > before:
        before = level
        free, wants = capacity, 0.0
        for m in range(at.first, at.stop):
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
def _search(parts, capacity):
    """Freeze the link with the lowest level, again and again, until all flows are frozen."""
    grows = _thaw(parts, capacity)
    heap, levels, yet = parts.order, parts.levels, parts.yet
    count = 0
    for link in range(len(capacity)):
        if yet[link] > 0.0:
            heap[count], levels[count] = link, parts.left[link] / yet[link]
            count += 1
    heap, levels = heap[:count], levels[:count]
    heap_up(levels, heap)
    freeze(heap, levels, grows, parts, parts.queue)


def _release(parts, link, level):
    """Mark a link as full, and remove its flows from their other links; see `filling`."""
    row, at, yet, left = parts.state[0], parts.links[link], parts.yet, parts.left
    at.grew = yet[link]
    parts.frozen[row.frozen] = link
    row.frozen += 1
    if len(parts.common) and _CROWDED * (at.stop - at.first) > at.high - at.low:
        release_all(parts.common[link, at.low:at.high], yet[at.low:at.high],
                    left[at.low:at.high], level)
        if not row.plain:
            _count_off(parts.pairs[link, at.low:at.high], parts.classes_left[at.low:at.high],
                       yet[at.low:at.high])
    elif row.plain and parts.others.shape[1] == 1:
        release_members(at.first, at.stop, parts.share, parts.others, yet, left, parts.full_at,
                        level)
    else:
        _release_marked(parts, at, level, row.plain == 1)


@inlined
def _release_marked(parts, at, level, plain):
    """As `release_members`, for long paths, and for weights whose sums pick up rounding errors.

    On a long path, a look at each link would take longer than a mark that the class still grows.
    """
    yet, left, others, count = parts.yet, parts.left, parts.others, parts.classes_left
    for m in range(np.uint64(at.first), np.uint64(at.stop)):
        if others.shape[1] > 1:
            c = np.uint64(parts.place[m])
            if not parts.still[c]:
                continue
            parts.still[c] = False
        wants = parts.share[m] if plain else parts.units[parts.unit[m]] * parts.share[m]
        for h in range(others.shape[1]):
            other = others[m, h]
            yet[other] -= wants
            left[other] -= wants * level
            if not plain:
                count[other] -= 1
                if count[other] == 0:
                    yet[other] = 0.0


@inlined
def _count_off(pairs, counts, yets):
    """Remove the classes of a full link from the counts of the others; zero counts clear sums."""
    for m in range(len(pairs)):
        counts[m] -= pairs[m]
        yets[m] = yets[m] if counts[m] > 0 else 0.0


register_release(Parts, _release)
