"""The levels of links: one max-min fair fill of all, or a repair of the few that change.

A fill freezes links in the order of the last one, corrects the order where it proves wrong, or
looks for the lowest level, link after link; see `filling`.

A repair looks only where flows have come or gone. The level of a full link is that at which its
flows take up its capacity, each limited to the lowest level on its other links. If that holds on
all links at once, the sharing is max-min fair: each flow is as fast as any other on the link of its
path with the lowest level. So it is enough to examine the links of flows that have come or gone,
then the neighbours of links with a new level, and so on. This ends: the lowest level is right once
it has been examined, then the next, and so on. With few flows per link, a repair visits few links
where a fill visits most. With many, a change spreads far, and a fill is faster.

If there are few links and short paths, a table has what each pair of links has in common. With its
sums of weights, a fill takes all flows of a full link off the others at once. If weights are not
all 1, sums pick up rounding errors as flows come and go. Classes are therefore counted as well,
which shows where nothing is left, and the sums are recomputed now and then.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.filling import (
    ROUNDED,
    freeze_of,
    release_all,
    release_members,
)
from netsim.fabric.kernels.heap import heap_up, pop, rise
from netsim.fabric.kernels.sharing_rates import ALL

# --- a table of pairs of links -------------------------------------------------------------

#: A table of weights that are not all 1 is summed up again after `_OFTEN` changes, or sooner, once
#: changes times the largest weight exceed `_TRACES` times the least: at each change, rounding may
#: leave 1e-16 of a heavy weight, which has to stay below 1e-9 of a light one.
_OFTEN = 1024

_TRACES = 5e6


@in_place
def cross(parts, c, by):
    """Count a class that has come (`by` = 1) or gone (`by` = -1)."""
    link, other = _ends(parts, c)
    for here, there in ((link, other), (other, link)):
        parts.pairs[here, there] += by
        if parts.pairs[here, there] == 0:
            parts.common[here, there] = 0.0


@in_place
def enter(parts, c, weight):
    """Add a weight, which may be negative, to the common weight of the links of a class."""
    link, other = _ends(parts, c)
    _add(parts, link, other, weight)
    _add(parts, other, link, weight)
    parts.state[0].changed += 1


@in_place
def _ends(parts, c):
    """Return the two links of a class; if it crosses only one, the other is the dummy."""
    wide = parts.path.shape[1] > 1
    return parts.path[c, 0], parts.path[c, 1] if wide else np.uint32(len(parts.links) - 1)


@in_place
def _add(parts, link, other, weight):
    parts.common[link, other] += weight
    row = parts.links[link]
    row.low = min(row.low, other)
    row.high = max(row.high, other + 1)


@inlined
def split_anew(parts, coflows):
    """Split each coflow's weight among its unfinished flows again, if some have ended."""
    row = parts.state[0]
    for c in range(len(coflows)):
        coflow = coflows[c]
        if coflow.thinner and coflow.open > 0:
            coflow.thinner = 0
            before = parts.units[coflow.unit]
            parts.units[coflow.unit] = coflow.split / coflow.open
            row.stale = 1
            see_weight(row, parts.units[coflow.unit])
            if len(parts.common):
                _enter_all(parts, coflow, parts.units[coflow.unit] - before)


@in_place
def see_weight(row, weight):
    """Record a weight in use."""
    row.light = min(row.light, weight)
    row.heavy = max(row.heavy, weight)


@inlined
def _enter_all(parts, coflow, more):
    """Add `more` to the weight of each unfinished flow of a coflow."""
    common, cells = parts.common, parts.cells[coflow.flow:coflow.flow + coflow.open]
    for k in range(len(cells)):
        link, other = cells[k].link, cells[k].other
        common[link, other] += more
        common[other, link] += more
    parts.state[0].changed += 1


@inlined
def add_cell(parts, coflow, f, k):
    """Give a flow of a coflow, its `k`-th unfinished one, a cell."""
    c = parts.place_of[parts.senders[f].number]
    cell = parts.cells[coflow.flow + k]
    cell.link, cell.other = _ends(parts, c)
    cell.flow = f - coflow.flow
    parts.senders[f].cell = k


@inlined
def drop_cell(parts, coflow, f):
    """Drop the cell of a flow that is about to end; the coflow's last cell takes its place."""
    cells = parts.cells[coflow.flow:coflow.flow + coflow.open]
    k = parts.senders[f].cell
    cells[k] = cells[coflow.open - 1]
    parts.senders[coflow.flow + cells[k].flow].cell = k


@inlined
def take_sums(parts, unfrozen, count):
    """Write the weight wanted on each link to `unfrozen`, and the number of classes to `count`."""
    row = parts.state[0]
    if row.changed >= _OFTEN or row.changed * row.heavy > _TRACES * row.light:
        sum_up(parts)
    links, common = parts.links, parts.common
    two_sided = True
    for link in range(len(common)):
        count[link] = links[link].stop - links[link].first
        unfrozen[link] = 0.0
        two_sided &= links[link].low > link or links[link].high <= link
    for link in range(len(common)):
        wants = common[link, links[link].low:links[link].high]
        if not two_sided:
            unfrozen[link] = _sum_of(wants)
        elif links[link].low > link:  # one row says it of both
            unfrozen[link] = _sum_of(wants)
            _add_to(unfrozen[links[link].low:links[link].high], wants)
    unfrozen[len(common) - 1] = 0.0


@inlined
def _add_to(sums, wants):
    for m in range(len(wants)):
        sums[m] += wants[m]


@in_place
def _sum_of(wants):
    """Sum four values at a time, since compilers may not reorder a sum by themselves."""
    one = two = three = four = 0.0
    for m in range(0, len(wants) - 3, 4):
        one += wants[m]
        two += wants[m + 1]
        three += wants[m + 2]
        four += wants[m + 3]
    for m in range(len(wants) - len(wants) % 4, len(wants)):
        one += wants[m]
    return (one + two) + (three + four)


@in_place
def sum_up(parts):
    """Recompute the sums of all that classes want, and count the classes."""
    row = parts.state[0]
    if not len(parts.common):
        return
    for link in range(len(parts.common)):
        for other in range(len(parts.common)):
            parts.common[link, other] = 0.0
            parts.pairs[link, other] = 0
    row.light, row.heavy = np.inf, 0.0
    for c in range(row.classes):
        see_weight(row, parts.units[parts.unit_of[c]])
        cross(parts, c, 1)
        enter(parts, c, parts.units[parts.unit_of[c]] * parts.classes[c].flows)
    row.changed = 0


# --- a fill --------------------------------------------------------------------------------

#: How often a guess is corrected before the lowest level is searched for, link after link.
_ATTEMPTS = 4

#: Where more links than this prove wrong at once, a guess is not worth correcting.
_MOST_WRONG = 16

#: How often links of a guess may change places, per link: most are in order.
_MOVES = 8

#: A full link is released by the table if it has more than one class per this many links of the
#: range in which it shares flows.
_CROWDED = 6

#: Levels are repaired with at most this many classes per link in use, or one per link of all, as a
#: fill visits all; unless more than one in `_FEW_TOUCHED` links is touched. The second number is
#: for paths of more than two links.
_SPARSE, _SPARSE_LONG = 4, 3

_FEW_TOUCHED = 4

#: After this many looks per link, a repair gives up.
_MOST_LOOKS = 2

#: Relative: by how much a level may be off, and a link that is not full have too much to carry.
_CLOSE = 1e-14

_OVER = 1e-13

#: Relative: a link that is not full, with less left than this, must be looked at.
_SCARCE = 1e-6

#: How often the level of one link is corrected at most: each time but the first it rises.
_PASSES = 64


@in_place
def find_levels(parts, capacity):
    """Compute the level at which each link is full, or repair the few levels that may change."""
    row = parts.state[0]
    if _repair(parts, capacity):
        _forget_joined(parts)
        row.stale = 0
        return
    row.moved = ALL
    for _ in range(_ATTEMPTS):
        if row.frozen == 0 or row.wrong > _MOST_WRONG:  # nothing to go by
            break
        count = _guess(parts)
        if count == 0:
            break
        _follow(parts.order[:count], parts, capacity)
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
    """Write the links that will probably freeze to `order`; return their number, 0 without a guess.

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
    return count if _insert(guess[:count], levels[:count]) else 0


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


@in_place
def _thaw(parts, capacity):
    """Reset all flows to grow from 0; return their total weight, inf if it may be inexact."""
    links, unfrozen, row = parts.links, parts.unfrozen, parts.state[0]
    row.frozen = 0
    for link in range(len(capacity)):
        parts.left[link] = capacity[link]
    if parts.others.shape[1] > 1:
        for c in range(row.classes):
            parts.still[c] = True
    if row.plain:
        for link in range(len(links)):
            unfrozen[link] = links[link].wants
        return row.weight
    # Weights that come and go leave traces: classes are counted, too.
    if len(parts.common):
        take_sums(parts, unfrozen, parts.classes_left)
        return np.inf
    for link in range(len(links)):
        parts.classes_left[link] = links[link].stop - links[link].first
        unfrozen[link] = 0.0
        for m in range(links[link].first, links[link].stop):
            unfrozen[link] += parts.units[parts.unit[m]] * parts.share[m]
    return np.inf


@inlined
def _follow(guess, parts, capacity):
    """Freeze links in the guessed order, and check the result.

    The result is right if each flow crosses a full link on which no flow is faster, and no link is
    overloaded. A link that fails this check gets another place in the next guess.
    """
    row, late = parts.state[0], parts.queue
    row.stale = row.wrong = 0
    _, _, grows, count = _freeze(guess, parts.unfrozen[:0], _thaw(parts, capacity), parts, late)
    for link in late[:count]:
        _put_elsewhere(parts, link, capacity[link])
    for link in range(len(capacity)):
        if parts.full_at[link] == np.inf:
            waits = (grows > 0.0 and parts.unfrozen[link] > 0.0 if row.plain
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
        for m in range(np.uint64(at.first), np.uint64(at.stop)):
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
    heap, levels, unfrozen = parts.order, parts.levels, parts.unfrozen
    count = 0
    for link in range(len(capacity)):
        if unfrozen[link] > 0.0:
            heap[count], levels[count] = link, parts.left[link] / unfrozen[link]
            count += 1
    heap, levels = heap[:count], levels[:count]
    heap_up(levels, heap)
    _freeze(heap, levels, grows, parts, parts.queue)


@inlined
def _release(parts, link, level):
    """Mark a link as full, and remove its flows from their other links; see `filling`."""
    row, at, unfrozen, left = parts.state[0], parts.links[link], parts.unfrozen, parts.left
    at.grew = unfrozen[link]
    parts.frozen[row.frozen] = link
    row.frozen += 1
    if len(parts.common) and _CROWDED * (at.stop - at.first) > at.high - at.low:
        release_all(parts.common[link, at.low:at.high], unfrozen[at.low:at.high],
                    left[at.low:at.high], level)
        if not row.plain:
            _count_off(parts.pairs[link, at.low:at.high], parts.classes_left[at.low:at.high],
                       unfrozen[at.low:at.high])
    elif row.plain and parts.others.shape[1] == 1:
        release_members(at.first, at.stop, parts.share, parts.others, unfrozen, left, parts.full_at,
                        level)
    else:
        _release_marked(parts, at, level, row.plain == 1)


@inlined
def _release_marked(parts, at, level, plain):
    """As `release_members`, for long paths, and for weights whose sums pick up rounding errors.

    On a long path, a look at each link would take longer than a mark that the class still grows.
    """
    unfrozen, left, others, count = parts.unfrozen, parts.left, parts.others, parts.classes_left
    for m in range(np.uint64(at.first), np.uint64(at.stop)):
        if others.shape[1] > 1:
            c = np.uint64(parts.place[m])
            if not parts.still[c]:
                continue
            parts.still[c] = False
        wants = parts.share[m] if plain else parts.units[parts.unit[m]] * parts.share[m]
        for h in range(others.shape[1]):
            other = others[m, h]
            unfrozen[other] -= wants
            left[other] -= wants * level
            if not plain:
                count[other] -= 1
                if count[other] == 0:
                    unfrozen[other] = 0.0


@inlined
def _count_off(pairs, counts, unfrozen):
    """Remove the classes of a full link from the counts of the others; zero counts clear sums."""
    for m in range(len(pairs)):
        counts[m] -= pairs[m]
        unfrozen[m] = unfrozen[m] if counts[m] > 0 else 0.0


_freeze = freeze_of(_release)


# --- a repair ---------------------------------------------------------------------------
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
def _repair(parts, capacity):
    """Repair levels if that takes little time; return whether it did.

    If so, `moved` lists the links with flows that may have another rate. The freezing order of the
    last fill is then no longer valid.
    """
    row = parts.state[0]
    sparse = _SPARSE if parts.path.shape[1] <= 2 else _SPARSE_LONG
    if (not row.plain or row.classes > max(sparse * row.used, len(capacity))
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
    levels = parts.levels
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
    for m in range(np.uint64(at.first), np.uint64(at.stop)):
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
            parts.queue[row.due], parts.levels[row.due] = other, full_at[other]
            rise(parts.levels, parts.queue, row.due)
            row.due += 1


@inlined
def _level_of(parts, link, capacity):
    """Return the level at which a link is full, given the levels of others; inf if it is not full.

    What its flows send is a concave function of the level, so Newton's method applies: wherever it
    starts, the first step does not go too far, and the next ones go up. The level is found when the
    same flows as before are limited by other links.
    """
    at, others, share, full_at = parts.links[link], parts.others, parts.share, parts.full_at
    level = full_at[link]
    for _ in range(_PASSES):
        held, wants, highest, lowest = 0.0, 0.0, -1.0, np.inf
        for m in range(np.uint64(at.first), np.uint64(at.stop)):
            rate = full_at[others[m, 0]]
            for h in range(1, others.shape[1]):
                rate = min(rate, full_at[others[m, h]])
            # Selected, not branched on, as it cannot be foreseen which of the two it is.
            below = rate < level
            held += share[m] * (rate if below else 0.0)
            wants += 0.0 if below else share[m]
            highest = max(highest, rate if below else -1.0)
            lowest = min(lowest, np.inf if below else rate)
        if wants > 0.0:
            level = max(capacity - held, 0.0) / wants
        elif held <= capacity * (1.0 + _OVER):
            parts.left[link] = capacity - held
            return np.inf
        else:
            level = 0.0
        if highest < level <= lowest:
            break
    return level
