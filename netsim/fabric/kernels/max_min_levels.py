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

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.filling import ROUNDED, freeze_of, release_all
from netsim.fabric.kernels.heap import heap_up, pop, rise
from netsim.fabric.kernels.max_min_state import (
    ALL,
    CLASSES_LEFT,
    COMMON,
    FROZEN,
    FULL_AT,
    GROWS,
    JOINED,
    KEYS,
    LEFT,
    MOVED,
    ORDER,
    PAIRS,
    PATH,
    QUEUE,
    UNFROZEN,
)

# --- a table of pairs of links -------------------------------------------------------------

#: A table of weights that are not all 1 is summed up again after `_OFTEN` changes, or sooner, once
#: changes times the largest weight exceed `_TRACES` times the least: at each change, rounding may
#: leave 1e-16 of a heavy weight, which has to stay below 1e-9 of a light one.
_OFTEN = 1024

_TRACES = 5e6


@in_place
def count_class(table, paths, c, by):
    """Count a class that has come (`by` = 1.0) or gone (`by` = -1.0)."""
    link, other = _links_of(table, paths, c)
    for here, there in ((link, other), (other, link)):
        table[PAIRS, here, there] += by
        if table[PAIRS, here, there] == 0:
            table[COMMON, here, there] = 0.0


@in_place
def add_weight(table, paths, links, row, c, weight):
    """Add a weight, which may be negative, to the common weight of the links of a class."""
    link, other = _links_of(table, paths, c)
    for here, there in ((link, other), (other, link)):
        table[COMMON, here, there] += weight
        at = links[here]
        at.low = min(at.low, there)
        at.high = max(at.high, there + 1)
    row.changed += 1


@inlined
def _links_of(table, paths, c):
    """Return the two links of a class; if it crosses only one, the other is the dummy."""
    wide = paths.shape[2] > 1
    return paths[PATH, c, 0], paths[PATH, c, 1] if wide else np.uint32(table.shape[1] - 1)


@inlined
def see_weight(row, weight):
    """Record a weight in use."""
    row.light = min(row.light, weight)
    row.heavy = max(row.heavy, weight)


@in_place
def sum_up(engine):
    """Recompute the sums of all that classes want, and count the classes."""
    row, table = engine.state[0], engine.table
    if table.shape[1] == 0:
        return
    for link in range(table.shape[1]):
        for other in range(table.shape[1]):
            table[COMMON, link, other] = table[PAIRS, link, other] = 0.0
    row.light, row.heavy = np.inf, 0.0
    for c in range(row.classes):
        weight = engine.numbers[engine.classes[c].unit].weight
        see_weight(row, weight)
        count_class(table, engine.paths, c, 1.0)
        add_weight(table, engine.paths, engine.links, row, c, weight * engine.classes[c].flows)
    row.changed = 0


@inlined
def split_again(engine, coflows):
    """Split each coflow's weight among its unfinished flows again, if some have ended."""
    row = engine.state[0]
    for c in range(len(coflows)):
        coflow = coflows[c]
        if coflow.thinner and coflow.open > 0:
            coflow.thinner = 0
            unit = engine.numbers[coflow.unit]
            more = coflow.split / coflow.open - unit.weight
            unit.weight = coflow.split / coflow.open
            row.stale = 1
            see_weight(row, unit.weight)
            if engine.table.shape[1]:
                _add_to_all(engine.table[COMMON], _cells_of(engine, coflow), more)
                row.changed += 1


@inlined
def _cells_of(engine, coflow):
    """Return the cells of the unfinished flows of a coflow."""
    return engine.cells[coflow.flow:coflow.flow + coflow.open]


@inlined
def _add_to_all(common, cells, more):
    """Add `more` to the weight of each of the flows with these cells."""
    for k in range(len(cells)):
        link, other = cells[k].link, cells[k].other
        common[link, other] += more
        common[other, link] += more


@inlined
def add_cell(engine, coflow, f, k):
    """Give a flow of a coflow, its `k`-th unfinished one, a cell."""
    c = engine.numbers[engine.flows[f].number].place
    cell = engine.cells[coflow.flow + k]
    cell.link, cell.other = _links_of(engine.table, engine.paths, c)
    cell.flow = f - coflow.flow
    engine.flows[f].cell = k


@inlined
def drop_cell(engine, coflow, f):
    """Drop the cell of a flow that is about to end; the coflow's last cell takes its place."""
    cells = _cells_of(engine, coflow)
    k = engine.flows[f].cell
    cells[k] = cells[coflow.open - 1]
    engine.flows[coflow.flow + cells[k].flow].cell = k


@inlined
def _take_sums(engine):
    """Find the weight that is wanted on each link, and the number of its classes."""
    row, links, common = engine.state[0], engine.links, engine.table[COMMON]
    unfrozen, count = engine.levels[UNFROZEN], engine.levels[CLASSES_LEFT]
    if row.changed >= _OFTEN or row.changed * row.heavy > _TRACES * row.light:
        sum_up(engine)
    two_sided = True
    for link in range(len(common)):
        count[link] = links[link].stop - links[link].first
        unfrozen[link] = 0.0
        two_sided &= links[link].low > link or links[link].high <= link
    for link in range(len(common)):
        low, high = links[link].low, links[link].high
        if not two_sided:
            unfrozen[link] = _sum_of(common[link, low:high])
        elif low > link:  # one row says it of both
            unfrozen[link] = _sum_of(common[link, low:high])
            _add_to(unfrozen[low:high], common[link, low:high])
    unfrozen[len(common) - 1] = 0.0


@inlined
def _add_to(sums, wants):
    """Add to each sum what is wanted."""
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


class Filling(NamedTuple):
    """A filling of `kernels.filling` with classes as members, and what freezes them."""

    links: NDArray[Any]
    share: NDArray[np.float64]
    others: NDArray[np.uint32]
    unfrozen: NDArray[np.float64]
    left: NDArray[np.float64]
    full_at: NDArray[np.float64]
    classes_left: NDArray[np.float64]
    grows: NDArray[np.float64]
    frozen: NDArray[np.int64]
    state: NDArray[Any]
    members: NDArray[Any]
    numbers: NDArray[Any]
    table: NDArray[np.float64]


@inlined
def _release(filling, link, level):
    """Mark a link as full, and remove its flows from their other links; see `filling`."""
    row, at, table = filling.state[0], filling.links[link], filling.table
    unfrozen, left = filling.unfrozen, filling.left
    at.grew = unfrozen[link]
    filling.frozen[row.frozen] = link
    row.frozen += 1
    if table.shape[1] and _CROWDED * (at.stop - at.first) > at.high - at.low:
        release_all(table[COMMON, link, at.low:at.high], unfrozen[at.low:at.high],
                    left[at.low:at.high], level)
        if not row.plain:
            _count_off(table[PAIRS, link, at.low:at.high], filling.classes_left[at.low:at.high],
                       unfrozen[at.low:at.high])
    elif row.plain and filling.others.shape[1] == 1:
        # Frozen classes need no test: of their other link, which is full, no more is read.
        for m in range(np.uint64(at.first), np.uint64(at.stop)):
            other, wants = filling.others[m, 0], filling.members[m].share
            unfrozen[other] -= wants
            left[other] -= wants * level
    else:
        _release_marked(filling, at, level, row.plain == 1)


@inlined
def _release_marked(filling, at, level, plain):
    """Remove classes of long paths, or of weights whose sums pick up rounding errors.

    On a long path, a look at each link would take longer than a mark that the class still grows.
    """
    unfrozen, left, others = filling.unfrozen, filling.left, filling.others
    for m in range(np.uint64(at.first), np.uint64(at.stop)):
        member = filling.members[m]
        if others.shape[1] > 1:
            c = np.uint64(member.place)
            if filling.grows[c] == 0.0:
                continue
            filling.grows[c] = 0.0
        wants = member.share if plain else filling.numbers[member.unit].weight * member.share
        for h in range(others.shape[1]):
            other = others[m, h]
            unfrozen[other] -= wants
            left[other] -= wants * level
            if not plain:
                filling.classes_left[other] -= 1.0
                if filling.classes_left[other] == 0.0:
                    unfrozen[other] = 0.0


@inlined
def _count_off(pairs, counts, unfrozen):
    """Remove the classes of a full link from the counts of the others; zero counts clear sums."""
    for m in range(len(pairs)):
        counts[m] -= pairs[m]
        unfrozen[m] = unfrozen[m] if counts[m] > 0.0 else 0.0


_freeze = freeze_of(_release)


@inlined
def find_levels(engine, capacity):
    """Compute the level at which each link is full, or repair the few levels that may change."""
    row = engine.state[0]
    sparse = _SPARSE if engine.paths.shape[2] <= 2 else _SPARSE_LONG
    pays = (row.plain and row.classes <= max(sparse * row.used, len(capacity))
            and row.due * _FEW_TOUCHED <= len(capacity))
    if not _repair(row, engine.links, engine.levels, engine.lists, engine.members, engine.others,
                   capacity, pays):
        _fill(engine, capacity)
    row.stale = 0


@in_place
def _fill(engine, capacity):
    """Fill all links, in the order of a guess while there is one, else the lowest level first."""
    row, levels, order = engine.state[0], engine.levels, engine.lists[ORDER]
    filling = Filling(
        engine.links, engine.members["share"], engine.others, levels[UNFROZEN], levels[LEFT],
        levels[FULL_AT], levels[CLASSES_LEFT], engine.progress[GROWS], engine.lists[FROZEN],
        engine.state, engine.members, engine.numbers, engine.table)
    row.moved = ALL
    for attempt in range(_ATTEMPTS + 1):
        guessed = keys = 0
        # There is nothing to go by without a last fill, or if its order proves quite wrong.
        if attempt < _ATTEMPTS and row.frozen > 0 and row.wrong <= _MOST_WRONG:
            guessed = _guess(engine)
        if not guessed:
            _forget_levels(engine)
        grows = _thaw(engine, capacity)
        if not guessed:
            keys = _list_by_level(order, levels, len(capacity))
        _, _, grows, late = _freeze(order[:guessed + keys], levels[KEYS, :keys], grows, filling,
                                    engine.lists[QUEUE])
        row.wrong = 0
        if guessed:
            _check(engine, grows, late, capacity)
        if row.wrong == 0:
            break


@inlined
def _forget_levels(engine):
    """Reset all links to not full, and to links that no flow has joined."""
    for link in range(len(engine.links)):
        engine.levels[FULL_AT, link] = engine.links[link].least = np.inf
        engine.links[link].more = 0.0
    engine.state[0].joined = 0


@inlined
def _list_by_level(order, levels, count):
    """Make a heap of the links on which flows grow, by their levels; return their number."""
    keys, found = levels[KEYS], 0
    for link in range(count):
        if levels[UNFROZEN, link] > 0.0:
            order[found], keys[found] = link, levels[LEFT, link] / levels[UNFROZEN, link]
            found += 1
    heap_up(keys[:found], order[:found])
    return found


@inlined
def _thaw(engine, capacity):
    """Reset all flows to grow from 0; return their total weight, inf if it may be inexact."""
    row, links, levels = engine.state[0], engine.links, engine.levels
    unfrozen = levels[UNFROZEN]
    row.frozen = 0
    for link in range(len(capacity)):
        levels[LEFT, link] = capacity[link]
    if engine.others.shape[1] > 1:
        for c in range(row.classes):
            engine.progress[GROWS, c] = 1.0
    if row.plain:
        for link in range(len(links)):
            unfrozen[link] = links[link].wants
        return row.weight
    # Weights that come and go leave traces: classes are counted, too.
    if engine.table.shape[1]:
        _take_sums(engine)
        return np.inf
    for link in range(len(links)):
        levels[CLASSES_LEFT, link] = links[link].stop - links[link].first
        unfrozen[link] = 0.0
        for m in range(links[link].first, links[link].stop):
            member = engine.members[m]
            unfrozen[link] += engine.numbers[member.unit].weight * member.share
    return np.inf


@inlined
def _guess(engine):
    """Write the links that will probably freeze to `ORDER`; return their number, 0 without a guess.

    The order is that of the last fill, except for links that flows have joined: of their levels,
    only a lower bound is known. All links are reset to not full.
    """
    row, links, full_at = engine.state[0], engine.links, engine.levels[FULL_AT]
    order, keys = engine.lists[ORDER], engine.levels[KEYS]
    count = 0
    for k in range(row.frozen):
        link = engine.lists[FROZEN, k]
        order[count], keys[count] = link, min(full_at[link], links[link].least)
        count += 1
        links[link].least = np.inf
        full_at[link] = np.inf
    for k in range(row.joined):
        link = engine.lists[JOINED, k]
        if links[link].least < np.inf:
            order[count], keys[count] = link, links[link].least
            count += 1
    _forget_joined(row, links, engine.lists)
    return count if _insert(order[:count], keys[:count]) else 0


@inlined
def _insert(order, keys):
    """Sort links by level, stably, by insertion; return False if that takes too long."""
    moves = _MOVES * len(order)
    for k in range(1, len(order)):
        link, level = order[k], keys[k]
        at = k
        while at > 0 and keys[at - 1] > level:
            order[at], keys[at] = order[at - 1], keys[at - 1]
            at -= 1
        order[at], keys[at] = link, level
        moves -= k - at
        if moves < 0:
            return False
    return True


@inlined
def _forget_joined(row, links, lists):
    """Clear the list of links that flows have joined, with their lower bounds of the level."""
    for k in range(row.joined):
        link = links[lists[JOINED, k]]
        link.more = 0.0
        link.least = np.inf
    row.joined = 0


@inlined
def _check(engine, grows, late, capacity):
    """Check a fill in a guessed order, and improve the guess where it is wrong.

    The result is right if each flow crosses a full link on which no flow is faster, and no link is
    overloaded. A link that fails this check gets another place in the next guess.
    """
    row, levels, wrong = engine.state[0], engine.levels, engine.lists[QUEUE]
    row.wrong = late
    for link in range(len(capacity)):
        if levels[FULL_AT, link] == np.inf:
            waits = (grows > 0.0 and levels[UNFROZEN, link] > 0.0 if row.plain
                     else levels[CLASSES_LEFT, link] > 0.0)
            if waits or levels[LEFT, link] < -ROUNDED * capacity[link]:
                wrong[row.wrong] = link
                row.wrong += 1
    for k in range(row.wrong):
        _put_elsewhere(engine, wrong[k], capacity[wrong[k]])


@inlined
def _put_elsewhere(engine, link, capacity):
    """Estimate the level of a link that was in the wrong place, for the next guess."""
    row, at, full_at = engine.state[0], engine.links[link], engine.levels[FULL_AT]
    level, before = 0.0, -1.0
    while level > before:
        before = level
        free, wants = capacity, 0.0
        for m in range(np.uint64(at.first), np.uint64(at.stop)):
            member = engine.members[m]
            weight = member.share
            if not row.plain:
                weight *= engine.numbers[member.unit].weight
            rate = _limit_elsewhere(engine.others, full_at, m)
            if rate < level:
                free -= weight * rate
            else:
                wants += weight
        level = max(free, 0.0) / wants if wants > 0.0 else level
    if at.least == np.inf and full_at[link] == np.inf:
        engine.lists[JOINED, row.joined] = link
        row.joined += 1
    at.least = min(at.least, level)


# --- a repair ------------------------------------------------------------------------------

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


@inlined
def note(row, links, lists, link):
    """Record that flows of a link have come or gone."""
    if not links[link].due:
        links[link].due = 1
        lists[QUEUE, row.due] = link
        row.due += 1


@in_place
def _repair(row, links, levels, lists, members, others, capacity, pays):
    """Repair levels, if that pays and takes little time; return whether they are right.

    If so, `MOVED` lists the links with flows that may have another rate. The freezing order of the
    last fill is then no longer valid.
    """
    if pays:
        row.frozen = 0
        row.moved = row.due
        for k in range(row.due):
            lists[MOVED, k] = lists[QUEUE, k]
            links[lists[QUEUE, k]].moved = 1
        _examine_due(row, links, levels, lists, members, others, capacity)
        for k in range(row.moved):
            links[lists[MOVED, k]].moved = 0
    done = pays and row.due == 0
    if done:
        _forget_joined(row, links, lists)
    for k in range(row.due):
        links[lists[QUEUE, k]].due = 0
    row.due = 0
    return done


@inlined
def _examine_due(row, links, levels, lists, members, others, capacity):
    """Examine due links, the lowest level first, and their neighbours, unless it takes too long.

    In this order, most links are right at the first look.
    """
    queue, keys, full_at, left = lists[QUEUE], levels[KEYS], levels[FULL_AT], levels[LEFT]
    for k in range(row.due):
        keys[k] = full_at[queue[k]]
    heap_up(keys[:row.due], queue[:row.due])
    looks = _MOST_LOOKS * len(capacity)
    while row.due > 0 and looks > 0:
        link = pop(keys, queue, row.due)
        row.due -= 1
        looks -= 1
        at, before = links[link], full_at[link]
        at.due = 0
        level, free = _level_of(at, members, others, full_at, before, capacity[link])
        if level == np.inf:
            left[link] = free
        if level == before or abs(level - before) <= _CLOSE * min(level, before):
            continue
        full_at[link] = level
        if not at.moved:
            at.moved = 1
            lists[MOVED, row.moved] = link
            row.moved += 1
        _see_neighbours(row, links, at, keys, full_at, left, queue, members, others, before, level,
                        capacity)


@inlined
def _see_neighbours(row, links, at, keys, full_at, left, queue, members, others, before, level,
                    capacity):
    """Queue the links whose level may change because this link's level did.

    Flows that another link limits have no effect. A link that is not full, and has more left than
    its flows now want, needs no examination.
    """
    for m in range(np.uint64(at.first), np.uint64(at.stop)):
        lowest = _limit_elsewhere(others, full_at, m)
        was, rate = min(before, lowest), min(level, lowest)
        if was == rate:
            continue
        known = max(was, rate) < np.inf
        for h in range(others.shape[1]):
            other = others[m, h]
            if links[other].due or other >= len(capacity):
                continue
            if known and full_at[other] == np.inf:
                left[other] -= members[m].share * (rate - was)
                if left[other] > _SCARCE * capacity[other]:
                    continue
            links[other].due = 1
            queue[row.due], keys[row.due] = other, full_at[other]
            rise(keys, queue, row.due)
            row.due += 1


@in_place
def _level_of(at, members, others, full_at, level, capacity):
    """Return the level at which a link is full, given those of others, and what is left below it.

    The level is inf if the link is not full.

    What its flows send is a concave function of the level, so Newton's method applies: wherever it
    starts, the first step does not go too far, and the next ones go up. The level is found when the
    same flows as before are limited by other links.
    """
    for _ in range(_PASSES):
        held, wants, highest, lowest = 0.0, 0.0, -1.0, np.inf
        for m in range(np.uint64(at.first), np.uint64(at.stop)):
            rate = _limit_elsewhere(others, full_at, m)
            # Selected, not branched on, as it cannot be foreseen which of the two it is.
            below = rate < level
            share = members[m].share
            held += share * (rate if below else 0.0)
            wants += 0.0 if below else share
            highest = max(highest, rate if below else -1.0)
            lowest = min(lowest, np.inf if below else rate)
        if wants > 0.0:
            level = max(capacity - held, 0.0) / wants
        elif held <= capacity * (1.0 + _OVER):
            level = np.inf
            break
        else:
            level = 0.0
        if highest < level <= lowest:
            break
    return level, capacity - held


@inlined
def _limit_elsewhere(others, full_at, m):
    """Return the lowest level on the other links of a class on a link."""
    lowest = full_at[others[m, 0]]
    for h in range(1, others.shape[1]):
        lowest = min(lowest, full_at[others[m, h]])
    return lowest
