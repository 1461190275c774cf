"""Compiled max-min fair sharing of all links among all flows, by weight: an engine of the loop.

A *sharing* (`sharing_rates.Parts`) is kept between decisions: flows join and leave it. While it is
in use, only it knows the bytes left of each flow; `settle` writes them to the rows.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.filling import sooner
from netsim.fabric.kernels.loop import (
    WAITS,
    end_flow,
    loop_of,
    never,
    write_nothing,
)
from netsim.fabric.kernels.progress import begin_row, mark_started, row_of, write_flow
from netsim.fabric.kernels.sharing_levels import (
    add_cell,
    cross,
    drop_cell,
    enter,
    find_levels,
    note,
    see_weight,
    split_anew,
    sum_up,
)
from netsim.fabric.kernels.sharing_rates import (
    ALL,
    LONGEST,
    NONE,
    begin,
    catch_up,
    expect,
    forget_ends,
    holds,
    keep_ends,
    left_of,
    next_class,
    remember,
    see,
    set_rates,
    swap,
)
from netsim.fabric.records import DUST

# --- flows that join and leave -------------------------------------------------------------

#: Whether flows are put into classes. The benchmark of regimes sets it to False, so that each flow
#: is a class of its own.
_CLASSES_MERGE = True


@in_place
def add_coflows(parts, coflows, flows, hops):
    """Add the flows of coflows that the sharing does not have yet.

    Return whether there was room for all; if not, a new sharing must be made.
    """
    row = parts.state[0]
    first = len(coflows)
    while first > 0 and coflows[first - 1].key > row.known:
        first -= 1
    for c in range(first, len(coflows)):
        coflow = coflows[c]
        if coflow.max_hops > parts.path.shape[1]:
            return False
        if coflow.split > 0.0:
            coflow.unit = len(parts.classes) + row.split
            if coflow.unit == len(parts.units):
                return False
            row.split += 1
            parts.units[coflow.unit] = coflow.split / coflow.open
        joined = 0
        for f in range(coflow.flow, coflow.flow + coflow.flows):
            if flows[f].remaining > 0.0:
                parts.senders[f].owner = coflow.key
                if not _join_class(parts, coflow, flows, hops, f):
                    return False
                if coflow.split > 0.0 and parts.senders[f].number >= 0 and len(parts.cells):
                    add_cell(parts, coflow, f, joined)
                joined += 1
        row.known = coflow.key
        row.waits += coflow.start < 0.0
    for c in range(first, len(coflows)):
        _see_what_changes(parts, coflows[c], flows, hops)
    return True


@inlined
def _join_class(parts, coflow, flows, hops, f):
    """Add a flow to the class of its path and weight; return whether there is room."""
    flow, row = parts.senders[f], parts.state[0]
    flow.number = NONE
    split = coflow.split > 0.0
    weight = parts.units[coflow.unit] if split else flows[f].weight
    if weight == 0.0:
        return True
    if row.plain and (weight != 1.0 or split):
        row.plain = 0
        sum_up(parts)
    see_weight(row, weight)
    c = _class_of(parts, coflow, flows, hops, f, weight)
    if c == NONE:
        return False
    kind = parts.classes[c]
    flow.virtual_finish = _served(parts, c) + flows[f].remaining
    flow.one = flow.two = NONE
    flow.number = kind.number
    kind.flows += 1
    kind.head = _meld(parts.senders, kind.head, f)
    if kind.head == f:
        parts.head_left[c] = flows[f].remaining
        parts.floor[c] = DUST * flows[f].size
        parts.seen[c] = row.now
        if row.keeps_ends:
            expect(parts, c)
    row.weight += weight
    _weigh(parts, c, weight)
    for h in range(flows[f].hop, flows[f].hop + flows[f].hops):
        parts.links[hops[h].link].more += weight
    return True


@in_place
def _served(parts, c):
    """Return how many bytes a class has served to each of its flows; 0 without flows."""
    head = parts.classes[c].head
    return parts.senders[head].virtual_finish - left_of(parts, c) if head >= 0 else 0.0


@in_place
def _weigh(parts, c, weight):
    """Add a weight, which may be negative, to what a class wants."""
    links, path = parts.links, parts.path
    for h in range(path.shape[1]):
        link = path[c, h]
        if link == len(links) - 1:
            break
        parts.share[parts.spot[c, h]] = parts.classes[c].flows
        links[link].wants += weight
        note(parts, link)
    if len(parts.common):
        enter(parts, c, weight)


@inlined
def _class_of(parts, coflow, flows, hops, f, weight):
    """Return the class of a flow, a new one if needed; `NONE` if there is no room."""
    links, place = parts.links, parts.place
    flow = flows[f]
    rarest, at = links[hops[flow.hop].link], 0
    fits = parts.state[0].classes < len(parts.classes)
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
        if coflow.split > 0.0 and parts.unit[m] != coflow.unit:
            break  # those of a coflow, which is new, are the last
        if parts.others[m, 0] == beside and _belongs(parts, coflow, flows, hops, f, weight,
                                                     place[m]):
            return place[m]
    return _new_class(parts, coflow, flow, hops, weight) if fits else NONE


@inlined
def _belongs(parts, coflow, flows, hops, f, weight, c):
    """Whether a flow belongs in a class.

    It does not if another coflow of its job has begun the class: how an end is rounded depends on
    what else is in the class, and ranks that do the same must have the same times to the last bit.

    A flow that represents others is not put into one class with a flow on the same links between
    other hosts, because the flows that they represent may cross different links.
    """
    kind, flow, path = parts.classes[c], flows[f], parts.path
    head = flows[kind.head]
    same = kind.coflow == coflow.key or kind.job != coflow.job
    same &= coflow.split > 0.0 or (parts.unit_of[c] == kind.number
                                   and parts.units[parts.unit_of[c]] == weight)
    same &= head.src == flow.src and head.dst == flow.dst
    for h in range(flow.hops):
        same &= path[c, h] == hops[flow.hop + h].link
    return same and (flow.hops == path.shape[1] or path[c, flow.hops] == len(parts.links) - 1)


@inlined
def _new_class(parts, coflow, flow, hops, weight):
    links, path = parts.links, parts.path
    c = parts.state[0].classes
    parts.state[0].classes += 1
    parts.state[0].tracked += 1
    kind = parts.classes[c]
    kind.number, kind.coflow, kind.job = parts.free[c], coflow.key, coflow.job
    parts.unit_of[c] = coflow.unit if coflow.split > 0.0 else kind.number
    parts.units[parts.unit_of[c]] = weight
    kind.flows = 0
    kind.head = NONE
    parts.place_of[kind.number] = c
    parts.rate[c] = 0.0
    parts.seen[c] = parts.state[0].now
    for h in range(path.shape[1]):
        path[c, h] = hops[flow.hop + h].link if h < flow.hops else len(links) - 1
    for h in range(flow.hops):
        link = links[path[c, h]]
        m = link.stop
        parts.state[0].used += link.stop == link.first
        link.stop += 1
        parts.spot[c, h] = m
        parts.place[m] = c
        parts.share[m] = 0.0
        parts.unit[m] = parts.unit_of[c]
        for g in range(path.shape[1] - 1):
            parts.others[m, g] = path[c, g + (g >= h)]
    if len(parts.common) and not parts.state[0].plain:
        cross(parts, c, 1)
    return c


@inlined
def _see_what_changes(parts, coflow, flows, hops):
    """Lower the bounds of levels on the links of a coflow that has joined.

    A link that was full at level x, with weight w still growing, is not full before x w/(w + v)
    once weight v has joined. One that was not full has at least what was left.
    """
    links, full_at, row = parts.links, parts.full_at, parts.state[0]
    for f in range(coflow.flow, coflow.flow + coflow.flows):
        if flows[f].remaining > 0.0:
            for h in range(flows[f].hop, flows[f].hop + flows[f].hops):
                link = links[hops[h].link]
                if link.more == 0.0:
                    continue
                if link.least == np.inf:
                    parts.joined[row.joined] = hops[h].link
                    row.joined += 1
                if full_at[hops[h].link] < np.inf:
                    level = full_at[hops[h].link] * link.grew / (link.grew + link.more)
                else:
                    level = max(parts.left[hops[h].link], 0.0) / link.more
                link.least = min(link.least, level)
                row.stale = 1


@inlined
def leave(parts, flows, c):
    """Remove the flow of a class that ends next; return its row."""
    senders, row, kind = parts.senders, parts.state[0], parts.classes[c]
    weight = parts.units[parts.unit_of[c]]
    gone = kind.head
    nearest = _meld(senders, senders[gone].one, senders[gone].two)
    kind.head = nearest
    kind.flows -= 1
    senders[gone].number = NONE
    row.stale |= row.by_flow
    row.weight -= weight
    _weigh(parts, c, -weight)
    if nearest >= 0:
        see(parts, c)
        between = senders[nearest].virtual_finish - senders[gone].virtual_finish
        parts.head_left[c] = max(parts.head_left[c] + between, 0.0)
        parts.floor[c] = DUST * flows[nearest].size
    else:
        _remove(parts, c)
    return gone


@inlined
def _remove(parts, c):
    """Remove a tracked class without flows from its links."""
    row, links, path, spot = parts.state[0], parts.links, parts.path, parts.spot
    row.tracked -= 1
    row.classes -= 1
    swap(parts, c, row.tracked)
    swap(parts, row.tracked, row.classes)
    c = row.classes
    if len(parts.common) and not row.plain:
        cross(parts, c, -1)
    for h in range(path.shape[1]):
        at = path[c, h]
        if at == len(links) - 1:
            break
        link = links[at]
        link.stop -= 1
        row.used -= link.stop == link.first
        m, end = spot[c, h], link.stop
        last = parts.place[end]
        parts.share[m] = parts.share[end]
        parts.unit[m] = parts.unit[end]
        parts.place[m] = last
        for g in range(parts.others.shape[1]):
            parts.others[m, g] = parts.others[end, g]
        for g in range(path.shape[1]):
            if path[last, g] == at:
                spot[last, g] = m
    number = parts.classes[c].number
    parts.free[c] = number
    parts.listed[number] = np.inf


@in_place
def _meld(senders, a, b):
    """Merge two skew heaps, the first to finish on top; return the top. Either may be `NONE`."""
    if a < 0:
        return np.int64(b)
    if b < 0:
        return np.int64(a)
    if senders[b].virtual_finish < senders[a].virtual_finish:
        a, b = b, a
    top = a
    while True:
        flow = senders[a]
        below = flow.two
        flow.two = flow.one
        if below < 0:
            flow.one = b
            return np.int64(top)
        if senders[b].virtual_finish < senders[below].virtual_finish:
            below, b = b, below
        flow.one = below
        a = below


# --- what the loop calls -------------------------------------------------------------------

#: Classes in a piece: only in pieces where one ends, or may end next, each class is looked at.
_PIECE = 64


@in_place
def _find_rates(parts, coflows, _jobs, pools, capacity, state):
    """Fill the links where flows have come or gone, and set the rates of tracked classes."""
    row = parts.state[0]
    row.now = state.now
    if not row.plain and (row.by_flow or row.stale):
        split_anew(parts, coflows)
    if row.stale:
        find_levels(parts, capacity)
        if row.waits > 0:
            _mark_started(parts, coflows, pools[0], pools[1], state)
        if row.moved == ALL:
            forget_ends(parts)
        else:
            catch_up(parts)
            keep_ends(parts)
    if holds(parts):
        set_rates(parts)
    else:
        catch_up(parts)
    if row.tracked == row.classes:
        begin(parts, state.now)
    state.decides &= row.classes > 0  # else no flow is left to share
    return WAITS


@in_place
def _find_end(parts, _coflows, state):
    """Find when the next flow ends, among all once the stretch is over; see `loop.find_end`."""
    row = parts.state[0]
    if row.keeps_ends:
        _, end = next_class(parts)
        state.end = max(end, state.now)
        state.dt = state.end - state.now
        return
    dt = _soonest_tracked(parts)
    if row.tracked < row.classes and (state.now + dt > row.horizon or row.steps == LONGEST):
        catch_up(parts)
        dt = _soonest_tracked(parts)
    state.dt, state.end = dt, state.now + dt


@in_place
def _soonest_tracked(parts):
    count, head_left, rate = parts.state[0].tracked, parts.head_left, parts.rate
    soonest = np.inf
    for first in range(0, count, _PIECE):
        stop = min(first + _PIECE, count)
        soonest = sooner(head_left[first:stop], rate[first:stop], soonest)
    return soonest


@in_place
def _join(parts, coflows, pools):
    """Add the coflows that the sharing does not have yet; return whether there was room."""
    catch_up(parts)
    return add_coflows(parts, coflows, pools[0], pools[1])


@in_place
def _leave(parts, _coflows, _pools, _state):
    """Flush the progress of deferred classes before the loop returns."""
    catch_up(parts)


@in_place
def _advance(parts, coflows, pools, capacity, dt, now, slack, state, finished, carried):
    """Move bytes for `dt` seconds; see `loop.advance`."""
    head_left, floor, rate, row = parts.head_left, parts.floor, parts.rate, parts.state[0]
    remember(parts, dt)
    if len(carried):
        _carry(parts, dt, carried)
    row.now = now
    if row.keeps_ends:
        _end_due(parts, coflows, pools[0], now, slack, state, finished)
        return
    count = row.tracked
    # From the last piece on: what takes the place of a class that ends has been looked at.
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
                _end(parts, coflows, pools[0], c, now, state, finished)


@inlined
def _end_due(parts, coflows, flows, now, slack, state, finished):
    """End the flows whose ends in the heap are due."""
    c, end = next_class(parts)
    while c >= 0 and (end <= now + slack
                      or left_of(parts, c) <= parts.floor[c] + parts.rate[c] * slack):
        _end(parts, coflows, flows, c, now, state, finished)
        c, end = next_class(parts)


@inlined
def _carry(parts, dt, carried):
    """Add what the classes send to each link that they cross."""
    nowhere = len(parts.links) - 1
    for c in range(parts.state[0].classes):
        lowest = np.inf
        for h in range(parts.path.shape[1]):
            lowest = min(lowest, parts.full_at[parts.path[c, h]])
        sent = lowest * parts.units[parts.unit_of[c]] * parts.classes[c].flows * dt
        for h in range(parts.path.shape[1]):
            if parts.path[c, h] < nowhere:
                carried[parts.path[c, h]] += sent


@in_place
def _end(parts, coflows, flows, c, now, state, finished):
    """End the next flow of a class, and its coflow if it is the last."""
    f = leave(parts, flows, c)
    at = row_of(coflows, parts.senders[f].owner)
    coflows[at].thinner = coflows[at].split > 0.0
    if coflows[at].thinner and len(parts.cells):
        drop_cell(parts, coflows[at], f)
    end_flow(coflows, at, flows[f], now, state, finished)
    parts.state[0].stale |= coflows[at].open == 0


@inlined
def _mark_started(parts, coflows, flows, hops, state):
    """Store the start of coflows that begin to send now; the newest are last in the list."""
    c = len(coflows) - 1
    unseen = parts.state[0].waits
    while c >= 0 and unseen > 0:
        row = coflows[c]
        if row.start < 0.0:
            unseen -= 1
            for f in range(row.flow, row.flow + row.flows):
                if (flows[f].remaining > 0.0 and parts.senders[f].number >= 0
                        and _lowest(parts.full_at, flows[f], hops) > 0.0):
                    mark_started(row, state)
                    parts.state[0].waits -= 1
                    break
        c -= 1


@inlined
def _lowest(full_at, flow, hops):
    lowest = np.inf
    for h in range(flow.hop, flow.hop + flow.hops):
        lowest = min(lowest, full_at[hops[h].link])
    return lowest


@in_place
def take_in(parts, coflows, flows, hops):
    """Add coflows from Python; return whether there was room, see `add_coflows`."""
    return add_coflows(parts, coflows, flows, hops)


@in_place
def settle(parts, coflows, flows):
    """Write bytes and rates as of the last event to the rows of known coflows."""
    senders, now = parts.senders, parts.state[0].now
    for c in range(len(coflows)):
        row = coflows[c]
        if row.key > parts.state[0].known:
            break
        begin_row(row)
        for f in range(row.flow, row.flow + row.flows):
            flow = flows[f]
            if flow.remaining <= 0.0:
                continue
            left, rate = flow.remaining, 0.0
            if senders[f].number >= 0:
                k = parts.place_of[senders[f].number]
                # A trifle past its virtual finish, its end is still to be noticed.
                finish = senders[f].virtual_finish
                after = finish - senders[parts.classes[k].head].virtual_finish
                left = max(left_of(parts, k) + after, 1e-12 * finish)
                rate = parts.rate[k]
            write_flow(row, flow, left, rate, now)


#: See `loop_of`.
run = loop_of("sharing", find_rates=_find_rates, find_end=_find_end, crossing_in=never,
              advance=_advance, write_rows=write_nothing, join=_join, leave=_leave)
