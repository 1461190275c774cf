"""Compiled max-min fair sharing of all links among all flows, by weight: an engine of the loop.

The engine, a `MaxMinState`, is kept between decisions: flows join and leave it. While it is in use,
only it knows the bytes left of each flow; `flush_rows` writes them to the rows.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import anywhere, in_place, inlined
from netsim.fabric.kernels.filling import lowest_on, sooner
from netsim.fabric.kernels.loop import WAITS, end_flow, loop_of, never, write_nothing
from netsim.fabric.kernels.max_min_levels import (
    add_cell,
    add_weight,
    count_class,
    drop_cell,
    find_levels,
    note,
    see_weight,
    split_again,
    sum_up,
)
from netsim.fabric.kernels.max_min_rates import (
    begin,
    expect,
    flush,
    forget_ends,
    holds,
    keep_ends,
    left_of,
    next_class,
    remember,
    see,
    set_rates,
)
from netsim.fabric.kernels.max_min_state import (
    ALL,
    FLOOR,
    FULL_AT,
    HEAD_LEFT,
    JOINED,
    LEFT,
    LONGEST,
    NONE,
    PATH,
    RATE,
    SEEN,
    SPOT,
    swap,
)
from netsim.fabric.kernels.progress import begin_row, mark_started, row_of, write_flow
from netsim.fabric.records import DUST

# --- what the loop calls -------------------------------------------------------------------

#: Classes in a piece: only in pieces where one ends, or may end next, each class is looked at.
_PIECE = 64


@in_place
def _find_rates(engine, coflows, _jobs, arrays, capacity, loop):
    """Fill the links where flows have come or gone, and set the rates of tracked classes."""
    row = engine.state[0]
    row.now = loop.now
    if not row.plain and (row.by_flow or row.stale):
        split_again(engine, coflows)
    if row.stale:
        find_levels(engine, capacity)
        if row.waits > 0:
            _mark_started(engine, coflows, arrays.flows, arrays.hops, loop)
        if row.moved == ALL:
            forget_ends(row, engine.progress)
        else:
            flush(engine)
            keep_ends(engine)
    if holds(engine):
        set_rates(engine)
    else:
        flush(engine)
    begin(engine)
    loop.decides &= row.classes > 0  # else no flow is left to share
    return WAITS


@inlined
def _find_end(engine, _coflows, loop):
    """Find when the next flow ends, among all once the epoch is over; see `loop.find_end`."""
    row = engine.state[0]
    if row.keeps_ends:
        _, end = next_class(row, engine.progress, engine.numbers, engine.ends, engine.ending)
        loop.end = max(end, loop.now)
        loop.dt = loop.end - loop.now
        return
    dt = _soonest_tracked(row.tracked, engine.progress)
    if row.tracked < row.classes and (loop.now + dt > row.horizon or row.steps == LONGEST):
        flush(engine)
        dt = _soonest_tracked(row.tracked, engine.progress)
    loop.dt, loop.end = dt, loop.now + dt


@in_place
def _soonest_tracked(count, progress):
    """Return in how many seconds the next flow of a tracked class ends."""
    soonest = np.inf
    for first in range(0, count, _PIECE):
        stop = min(first + _PIECE, count)
        soonest = sooner(progress[HEAD_LEFT, first:stop], progress[RATE, first:stop], soonest)
    return soonest


@inlined
def _join(engine, coflows, arrays):
    """Add the coflows that the engine does not have yet; return whether there was room."""
    flush(engine)
    return add_coflows(engine, coflows, arrays.flows, arrays.hops)


@inlined
def _leave(engine, _coflows, _arrays, _loop):
    """Flush the progress of deferred classes before the loop returns."""
    flush(engine)


@in_place
def _advance(engine, coflows, arrays, capacity, dt, now, slack, loop, finished, carried):
    """Move bytes for `dt` seconds; see `loop.advance`."""
    row, progress = engine.state[0], engine.progress
    head_left, floor, rate = progress[HEAD_LEFT], progress[FLOOR], progress[RATE]
    remember(engine, dt)
    if len(carried):
        _carry(engine, dt, carried)
    row.now = now
    # From the last piece on: what takes the place of a class that ends has been looked at.
    count = 0 if row.keeps_ends else row.tracked
    for piece in range((count - 1) // _PIECE, -1, -1):
        first = piece * _PIECE
        stop = min(first + _PIECE, count)
        lefts, rates, floors = head_left[first:stop], rate[first:stop], floor[first:stop]
        ends = 0
        for c in range(len(lefts)):
            lefts[c] -= rates[c] * dt
            ends += lefts[c] <= floors[c] + rates[c] * slack
        if ends == 0:
            continue
        for c in range(stop - 1, first - 1, -1):
            here = row.classes
            while row.classes == here and head_left[c] <= floor[c] + rate[c] * slack:
                _end(engine, coflows, arrays.flows, c, now, loop, finished)
    while row.keeps_ends:
        c, end = next_class(row, progress, engine.numbers, engine.ends, engine.ending)
        if c < 0 or (end > now + slack
                     and left_of(row, progress, c) > floor[c] + rate[c] * slack):
            break
        _end(engine, coflows, arrays.flows, c, now, loop, finished)


@inlined
def _carry(engine, dt, carried):
    """Add what the classes send to each link that they cross."""
    nowhere, paths = len(engine.links) - 1, engine.paths
    for c in range(engine.state[0].classes):
        kind = engine.classes[c]
        lowest = lowest_on(paths[PATH, c], engine.levels[FULL_AT])
        sent = lowest * engine.numbers[kind.unit].weight * kind.flows * dt
        for h in range(paths.shape[2]):
            if paths[PATH, c, h] < nowhere:
                carried[paths[PATH, c, h]] += sent


@in_place
def _end(engine, coflows, flows, c, now, loop, finished):
    """End the next flow of a class, and its coflow if it is the last."""
    f = _take_head(engine, flows, c)
    at = row_of(coflows, engine.flows[f].owner)
    coflows[at].thinner = coflows[at].split > 0.0
    if coflows[at].thinner and len(engine.cells):
        drop_cell(engine, coflows[at], f)
    end_flow(coflows, at, flows[f], now, loop, finished)
    engine.state[0].stale |= coflows[at].open == 0


@inlined
def _mark_started(engine, coflows, flows, hops, loop):
    """Store the start of coflows that begin to send now; the newest are last in the list."""
    c = len(coflows) - 1
    unseen = engine.state[0].waits
    while c >= 0 and unseen > 0:
        row = coflows[c]
        if row.start < 0.0:
            unseen -= 1
            for f in range(row.flow, row.flow + row.flows):
                if (flows[f].remaining > 0.0 and engine.flows[f].number >= 0
                        and _lowest(engine.levels[FULL_AT], flows[f], hops) > 0.0):
                    mark_started(row, loop)
                    engine.state[0].waits -= 1
                    break
        c -= 1


@inlined
def _lowest(full_at, flow, hops):
    """Return the lowest level of the links that a flow crosses."""
    lowest = np.inf
    for h in range(flow.hop, flow.hop + flow.hops):
        lowest = min(lowest, full_at[hops[h].link])
    return lowest


#: See `loop_of`.
run = loop_of("max_min", find_rates=_find_rates, find_end=_find_end, limit_in=never,
              advance=_advance, write_rows=write_nothing, join=_join, leave=_leave)


# --- flows that join and leave -------------------------------------------------------------

#: Whether flows are put into classes. The benchmark of regimes sets it to False, so that each flow
#: is a class of its own.
_CLASSES_MERGE = True


@anywhere
def add_coflows(engine, coflows, flows, hops):
    """Add the flows of coflows that the engine does not have yet.

    Return whether there was room for all; if not, a new engine must be made.
    """
    row = engine.state[0]
    first = len(coflows)
    while first > 0 and coflows[first - 1].key > row.known:
        first -= 1
    for c in range(first, len(coflows)):
        coflow = coflows[c]
        if coflow.max_hops > engine.paths.shape[2]:
            return False
        if coflow.split > 0.0:
            coflow.unit = engine.progress.shape[1] + row.split
            if coflow.unit == len(engine.numbers):
                return False
            row.split += 1
            engine.numbers[coflow.unit].weight = coflow.split / coflow.open
        joined = 0
        for f in range(coflow.flow, coflow.flow + coflow.flows):
            if flows[f].remaining > 0.0:
                engine.flows[f].owner = coflow.key
                if not _join_class(engine, coflow, flows, hops, f):
                    return False
                if coflow.split > 0.0 and engine.flows[f].number >= 0 and len(engine.cells):
                    add_cell(engine, coflow, f, joined)
                joined += 1
        row.known = coflow.key
        row.waits += coflow.start < 0.0
    for c in range(first, len(coflows)):
        _see_what_changes(engine, coflows[c], flows, hops)
    return True


@inlined
def _join_class(engine, coflow, flows, hops, f):
    """Add a flow to the class of its path and weight; return whether there is room."""
    flow, row, progress = engine.flows[f], engine.state[0], engine.progress
    flow.number = NONE
    split = coflow.split > 0.0
    weight = engine.numbers[coflow.unit].weight if split else flows[f].weight
    if weight == 0.0:
        return True
    if row.plain and (weight != 1.0 or split):
        row.plain = 0
        sum_up(engine)
    see_weight(row, weight)
    c = _class_of(engine, coflow, flows, hops, f, weight)
    if c == NONE:
        return False
    kind = engine.classes[c]
    served = 0.0  # bytes to each flow of the class
    if kind.head >= 0:
        served = engine.flows[kind.head].virtual_finish - left_of(row, progress, c)
    flow.virtual_finish = served + flows[f].remaining
    flow.one = flow.two = NONE
    flow.number = kind.number
    kind.flows += 1
    kind.head = _meld(engine.flows, np.int64(kind.head), f)
    if kind.head == f:
        progress[HEAD_LEFT, c] = flows[f].remaining
        progress[FLOOR, c] = DUST * flows[f].size
        progress[SEEN, c] = row.now
        if row.keeps_ends:
            expect(engine, c)
    row.weight += weight
    _weigh(engine, c, weight)
    for h in range(flows[f].hop, flows[f].hop + flows[f].hops):
        engine.links[hops[h].link].more += weight
    return True


@inlined
def _weigh(engine, c, weight):
    """Add a weight, which may be negative, to what a class wants."""
    row, links, paths = engine.state[0], engine.links, engine.paths
    for h in range(paths.shape[2]):
        link = paths[PATH, c, h]
        if link == len(links) - 1:
            break
        engine.members[paths[SPOT, c, h]].share = engine.classes[c].flows
        links[link].wants += weight
        note(row, links, engine.lists, link)
    if engine.table.shape[1]:
        add_weight(engine.table, paths, links, row, c, weight)


@inlined
def _class_of(engine, coflow, flows, hops, f, weight):
    """Return the class of a flow, a new one if needed; `NONE` if there is no room."""
    links, members = engine.links, engine.members
    flow = flows[f]
    rarest, at = links[hops[flow.hop].link], 0
    fits = engine.state[0].classes < engine.progress.shape[1]
    for h in range(flow.hop, flow.hop + flow.hops):
        link = links[hops[h].link]
        fits &= link.stop - link.first < link.room
        if link.stop - link.first < rarest.stop - rarest.first:
            rarest, at = link, h - flow.hop
    # The next link on the flow's path, which is quick to compare, rules out most classes.
    beside = np.uint32(len(links) - 1)
    if flow.hops > 1:
        beside = np.uint32(hops[flow.hop + (at == 0)].link)
    for m in range(rarest.stop - 1, (rarest.first if _CLASSES_MERGE else rarest.stop) - 1, -1):
        if coflow.split > 0.0 and members[m].unit != coflow.unit:
            break  # those of a coflow, which is new, are the last
        c = np.int64(members[m].place)
        if engine.others[m, 0] == beside and _belongs(engine, coflow, flows, hops, f, weight, c):
            return c
    return _new_class(engine, coflow, flow, hops, weight) if fits else NONE


@inlined
def _belongs(engine, coflow, flows, hops, f, weight, c):
    """Whether a flow belongs in a class.

    It does not if another coflow of its job has begun the class: how an end is rounded depends on
    what else is in the class, and ranks that do the same must have the same times to the last bit.

    A flow that represents others is not put into one class with a flow on the same links between
    other hosts, because the flows that they represent may cross different links.
    """
    kind, flow, paths = engine.classes[c], flows[f], engine.paths
    head = flows[kind.head]
    same = kind.coflow == coflow.key or kind.job != coflow.job
    same &= coflow.split > 0.0 or (kind.unit == kind.number
                                   and engine.numbers[kind.unit].weight == weight)
    same &= head.src == flow.src and head.dst == flow.dst
    for h in range(flow.hops):
        same &= paths[PATH, c, h] == hops[flow.hop + h].link
    return same and (flow.hops == paths.shape[2]
                     or paths[PATH, c, flow.hops] == len(engine.links) - 1)


@inlined
def _new_class(engine, coflow, flow, hops, weight):
    """Make a class of the path of a flow, and list it on its links; return its place."""
    row, links, paths = engine.state[0], engine.links, engine.paths
    c = row.classes
    row.classes += 1
    row.tracked += 1
    kind = engine.classes[c]
    kind.number, kind.coflow, kind.job = engine.numbers[c].free, coflow.key, coflow.job
    kind.unit = coflow.unit if coflow.split > 0.0 else kind.number
    kind.flows, kind.head = 0, NONE
    engine.numbers[kind.unit].weight = weight
    engine.numbers[kind.number].place = c
    engine.progress[RATE, c] = 0.0
    engine.progress[SEEN, c] = row.now
    for h in range(paths.shape[2]):
        paths[PATH, c, h] = hops[flow.hop + h].link if h < flow.hops else len(links) - 1
    for h in range(flow.hops):
        link = links[paths[PATH, c, h]]
        m = link.stop
        row.used += link.stop == link.first
        link.stop += 1
        paths[SPOT, c, h] = m
        member = engine.members[m]
        member.share, member.place, member.unit = 0.0, c, kind.unit
        for g in range(paths.shape[2] - 1):
            engine.others[m, g] = paths[PATH, c, g + (g >= h)]
    if engine.table.shape[1] and not row.plain:
        count_class(engine.table, paths, c, 1.0)
    return c


@inlined
def _see_what_changes(engine, coflow, flows, hops):
    """Lower the bounds of levels on the links of a coflow that has joined.

    A link that was full at level x, with weight w still growing, is not full before x w/(w + v)
    once weight v has joined. One that was not full has at least what was left.
    """
    row, levels = engine.state[0], engine.levels
    for f in range(coflow.flow, coflow.flow + coflow.flows):
        if flows[f].remaining > 0.0:
            for h in range(flows[f].hop, flows[f].hop + flows[f].hops):
                at = hops[h].link
                link = engine.links[at]
                if link.more == 0.0:
                    continue
                if link.least == np.inf:
                    engine.lists[JOINED, row.joined] = at
                    row.joined += 1
                if levels[FULL_AT, at] < np.inf:
                    level = levels[FULL_AT, at] * link.grew / (link.grew + link.more)
                else:
                    level = max(levels[LEFT, at], 0.0) / link.more
                link.least = min(link.least, level)
                row.stale = 1


@inlined
def _take_head(engine, flows, c):
    """Remove the flow of a class that ends next; return its row."""
    row, kind, progress = engine.state[0], engine.classes[c], engine.progress
    weight = engine.numbers[kind.unit].weight
    gone = np.int64(kind.head)
    flow = engine.flows[gone]
    nearest = _meld(engine.flows, np.int64(flow.one), np.int64(flow.two))
    kind.head = nearest
    kind.flows -= 1
    flow.number = NONE
    row.stale |= row.by_flow
    row.weight -= weight
    _weigh(engine, c, -weight)
    if nearest >= 0:
        see(row, progress, c)
        between = engine.flows[nearest].virtual_finish - flow.virtual_finish
        progress[HEAD_LEFT, c] = max(progress[HEAD_LEFT, c] + between, 0.0)
        progress[FLOOR, c] = DUST * flows[nearest].size
    else:
        _remove(engine, c)
    return gone


@inlined
def _remove(engine, c):
    """Remove a tracked class without flows from its links."""
    row, links, members, paths = engine.state[0], engine.links, engine.members, engine.paths
    row.tracked -= 1
    row.classes -= 1
    swap(engine, c, row.tracked)
    swap(engine, row.tracked, row.classes)
    c = row.classes
    if engine.table.shape[1] and not row.plain:
        count_class(engine.table, paths, c, -1.0)
    for h in range(paths.shape[2]):
        at = paths[PATH, c, h]
        if at == len(links) - 1:
            break
        link = links[at]
        link.stop -= 1
        row.used -= link.stop == link.first
        m, end = paths[SPOT, c, h], link.stop
        last = members[end].place
        members[m] = members[end]
        for g in range(engine.others.shape[1]):
            engine.others[m, g] = engine.others[end, g]
        for g in range(paths.shape[2]):
            if paths[PATH, last, g] == at:
                paths[SPOT, last, g] = m
    number = engine.classes[c].number
    engine.numbers[c].free = number
    engine.numbers[number].listed = np.inf


@in_place
def _meld(flows, a, b):
    """Merge two skew heaps, the first to finish on top; return the top. Either may be `NONE`."""
    if a < 0:
        return b
    if b < 0:
        return a
    if flows[b].virtual_finish < flows[a].virtual_finish:
        a, b = b, a
    top = a
    while True:
        flow = flows[a]
        below = np.int64(flow.two)
        flow.two = flow.one
        if below < 0:
            flow.one = b
            return top
        if flows[b].virtual_finish < flows[below].virtual_finish:
            below, b = b, below
        flow.one = below
        a = below


# --- what Python calls ---------------------------------------------------------------------
@in_place
def flush_rows(state, classes, progress, numbers, in_class, coflows, flows):
    """Write bytes and rates as of the last event to the rows of known coflows.

    The first arrays are those of the engine; `in_class` has its flows.
    """
    engine = state[0]
    for c in range(len(coflows)):
        row = coflows[c]
        if row.key > engine.known:
            break
        begin_row(row)
        for f in range(row.flow, row.flow + row.flows):
            flow = flows[f]
            if flow.remaining <= 0.0:
                continue
            left, rate = flow.remaining, 0.0
            if in_class[f].number >= 0:
                k = np.int64(numbers[in_class[f].number].place)
                # A trifle past its virtual finish, its end is still to be noticed.
                finish = in_class[f].virtual_finish
                after = finish - in_class[classes[k].head].virtual_finish
                left = max(left_of(engine, progress, k) + after, 1e-12 * finish)
                rate = progress[RATE, k]
            write_flow(row, flow, left, rate, engine.now)
