"""Flows served one by one in order: an engine of the event loop.

Each flow in order takes all that its links have left. Little changes when a flow ends: flows behind
it on its links may get more, which leaves less to those behind them on their other links, and so
on. The engine follows these changes in order, link by link, and visits nothing else. Each step
gives every flow the rate of `blocks.greedy_flows`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.compiling import Direct
from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.flow_order_state import (
    COFLOW_ORDERED,
    ENDED,
    FLOW_ORDERED,
    LINK,
    MEMBER,
    MOVED,
    MOVING,
    NONE,
    STALE,
    STEP,
    TOTALS,
    FlowOrderState,
    find_filler,
    free_for,
    hop_of,
    insert_moving,
    mark,
    precedes,
    remove_moving,
    take_rows,
)
from netsim.fabric.kernels.loop import (
    REDO,
    WAITS,
    end_flow,
    join_never,
    loop_of,
    never,
    write_nothing,
)
from netsim.fabric.kernels.progress import begin_row, mark_started, write_flow
from netsim.fabric.records import DUST

#: A flow with more than this many times the bytes of another goes behind it, despite roundings.
_ABOVE = 1.0 + 2.0 * DUST

#: A new state is made once more than one in this many of its flows has ended.
_MOST_GONE = 3


# --- from Python ---------------------------------------------------------------------------
def engine_for(kept: FlowOrderState | None, coflows: NDArray[Any], flows: NDArray[Any],
               hops: NDArray[Any], capacity: NDArray[np.float64], order: NDArray[np.int64],
               by_size: bool) -> FlowOrderState:
    """Return the engine for a decision, updated from the one that is kept if possible.

    By size it never is: sizes that differ by less than `DUST` might be ranked differently when
    ranked step by step.
    """
    if (kept is not None and not by_size and not kept.totals["by_size"][0]
            and _resume(kept, coflows, flows, order)):
        return kept
    count = int(coflows["open"][order].sum())
    longest = int(coflows["max_hops"][order].max(initial=1))
    engine = FlowOrderState(
        np.zeros(1, TOTALS), np.zeros(len(order), COFLOW_ORDERED),
        np.zeros(count + 1, FLOW_ORDERED),
        np.empty((count, longest), STEP), np.zeros(len(capacity) + 1, LINK),
        np.empty(count * longest, MEMBER), np.empty((2, count), np.int64),
        np.empty(len(capacity) + 1, np.int64), np.empty(count * (1 + longest), np.int64))
    engine.totals["by_size"] = by_size
    _take_rows(engine, coflows, flows, hops, capacity, order)
    engine.lists[MOVING] = _ranked(engine.flows["left"][:-1]) if by_size else np.arange(count)
    _serve_all(engine)
    return engine


def _ranked(left: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rank flows by bytes left, then by place; within `DUST` of the flow before counts as equal."""
    ranked = _by_size(left)
    sizes = left[ranked]
    equal = sizes[1:] <= sizes[:-1] * (1.0 + DUST)
    if not (equal & (ranked[1:] < ranked[:-1])).any():
        return ranked
    runs = np.concatenate(([0], np.cumsum(~equal)))
    return ranked[np.argsort(runs * len(left) + ranked, kind="stable")]  # fast if nearly sorted


def _by_size(left: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rank flows by bytes left; fast if many in a row have the same size."""
    changes = np.flatnonzero(left[1:] != left[:-1]) + 1
    if len(changes) >= len(left) - 1:
        return np.argsort(left, kind="stable")
    starts = np.concatenate(([0], changes))
    runs = np.argsort(left[starts], kind="stable")
    lengths = np.diff(starts, append=len(left))[runs]
    return np.repeat(starts[runs] - (np.cumsum(lengths) - lengths), lengths) + np.arange(len(left))


@in_place
def serve_all(engine):
    """Give each flow, in the order of the list of moving ones, what its links have left."""
    flows, paths, links = engine.flows, engine.paths, engine.links
    moving = engine.lists[MOVING]
    _list_members(engine)
    count = 0
    for i in moving:
        most = np.inf
        for h in range(paths.shape[1]):
            link = links[paths[i, h].link]
            most = min(most, link.free if link.free > link.dust else 0.0)
        if most > 0.0:
            flows[i].rate = most
            flows[i].moving_at = count
            moving[count] = i
            count += 1
            mark(engine, i, 0.0)
            for h in range(paths.shape[1]):
                link = links[paths[i, h].link]
                link.free -= most
                if link.free <= link.dust:
                    link.filler = i
    for i in moving[:count][::-1]:
        for h in range(paths.shape[1]):
            if paths[i, h].link < len(links) - 1:
                link = links[paths[i, h].link]
                paths[i, h].next = link.head
                link.head = i
    engine.totals[0].moving = count


@inlined
def _list_members(engine):
    """List the flows of each link in order; on entry, ``stop`` is the number of flows there."""
    paths, links, members = engine.paths, engine.links, engine.members
    nowhere, second = len(links) - 1, min(1, paths.shape[1] - 1)
    first = 0
    for k in range(nowhere):
        first += links[k].stop
        links[k].first = links[k].stop = first - links[k].stop
    links[nowhere].first = links[nowhere].stop = first
    for i in engine.lists[MOVING]:
        for h in range(paths.shape[1]):
            link = links[paths[i, h].link]
            if paths[i, h].link < nowhere:
                members[link.stop].left = engine.flows[i].left
                members[link.stop].flow = i
                members[link.stop].other = paths[i, 0 if h else second].link
                paths[i, h].slot = link.stop
                link.stop += 1


@in_place
def resume(engine, coflows, flows, order):
    """Update the copy from its rows; return whether it can be used, because the order is the same.

    Rates only change where flows have ended, as only flows with a rate end.
    """
    if not _find_rows(engine.coflows, coflows, order):
        return False
    totals = engine.totals[0]
    passed = totals.ended > 0
    for i in engine.lists[MOVING][:totals.moving]:
        flow = engine.flows[i]
        if flow.left == 0.0:  # it is among those that have ended
            continue
        engine.coflows[flow.coflow].stale = 1
        flow.stale = STALE
        remaining = flows[flow.row].remaining
        passed |= flow.left != remaining
        flow.left = max(remaining, 0.0)
        if flow.left == 0.0:
            engine.lists[ENDED, totals.ended] = i
            totals.ended += 1
    if passed:
        _update_rates(engine)
    return True


@inlined
def _find_rows(mine, coflows, order):
    """Find the rows of the coflows again; return whether the order of the rest is the same."""
    n = 0
    for k in range(len(mine)):
        mine[k].row = -1
        if n < len(order) and coflows[order[n]].key == mine[k].key:
            mine[k].row = order[n]
            n += 1
    return n == len(order)


_take_rows, _serve_all, _resume = map(Direct, (take_rows, serve_all, resume))


# --- what the loop calls ---------------------------------------------------------------
@inlined
def _find_rates(engine, coflows, _jobs, _arrays, _capacity, loop):
    """Serve flows again after some have ended; return `REDO` if a new copy is worthwhile."""
    totals = engine.totals[0]
    if totals.ended:
        if _MOST_GONE * (totals.gone + totals.ended) > engine.lists.shape[1]:
            return REDO
        _update_rates(engine)
    for i in engine.lists[MOVING][:totals.moving]:
        flow = engine.flows[i]
        if flow.stale != MOVED:
            flow.stale = MOVED
            engine.coflows[flow.coflow].stale = 1
            mark_started(coflows[engine.coflows[flow.coflow].row], loop)
    return WAITS


@in_place
def _find_end(engine, _coflows, loop):
    """Find when the next flow ends; see `loop.find_end`."""
    dt = np.inf
    for i in engine.lists[MOVING][:engine.totals[0].moving]:
        flow = engine.flows[i]
        if 0.0 < flow.left < dt * flow.rate:
            dt = flow.left / flow.rate
    loop.dt, loop.end = dt, loop.now + dt


@in_place
def _advance(engine, coflows, arrays, _capacity, dt, now, slack, loop, finished, carried):
    """Move bytes for `dt` seconds; see `loop.advance`."""
    totals, paths = engine.totals[0], engine.paths
    for i in engine.lists[MOVING][:totals.moving]:
        flow = engine.flows[i]
        before = flow.left
        if before == 0.0:  # it has ended, which is not noticed yet
            continue
        flow.left -= flow.rate * dt
        if flow.left <= flow.floor + flow.rate * slack:
            flow.left = 0.0
            engine.lists[ENDED, totals.ended] = i
            totals.ended += 1
            end_flow(coflows, engine.coflows[flow.coflow].row, arrays.flows[flow.row], now, loop,
                     finished)
        if len(carried):
            for h in range(paths.shape[1]):
                if paths[i, h].link < len(carried):
                    carried[paths[i, h].link] += before - flow.left


@in_place
def _leave(engine, coflows, arrays, loop):
    """Write bytes to the rows, and also rates unless new ones are about to be set."""
    in_force = loop.reason == WAITS or loop.advance_only == 1
    for k in range(len(engine.coflows)):
        mine = engine.coflows[k]
        if not mine.stale or mine.row < 0:
            continue
        mine.stale = 0
        row = coflows[mine.row]
        begin_row(row)
        for i in range(mine.first, mine.stop):
            flow = engine.flows[i]
            if flow.left > 0.0 and flow.stale != 0:
                write_flow(row, arrays.flows[flow.row], flow.left, flow.rate if in_force else 0.0,
                           loop.now)
            elif flow.left > 0.0:
                row.base += flow.left
                row.finish = np.inf
            flow.stale = 0


#: See `loop_of`.
run = loop_of("flow_order", find_rates=_find_rates, find_end=_find_end, limit_in=never,
              advance=_advance, write_rows=write_nothing, join=join_never, leave=_leave)


# --- in order, flows get the rates that they have now --------------------------------------
@in_place
def _update_rates(engine):
    """Update the rates of all flows that the end of some flows changes."""
    totals, paths, heap = engine.totals[0], engine.paths, engine.heap
    if totals.by_size:
        _reorder(engine)
    for i in engine.lists[ENDED][:totals.ended]:
        for h in range(paths.shape[1]):
            _note_change(engine, i, h, paths[i, h].slot)
    totals.gone += totals.ended
    noted, totals.ended, totals.changing = totals.changing, 0, 0
    for n in range(noted):
        _find_next(engine, heap[n])
    for n in range(noted):
        _push(engine, heap[n])
    while totals.changing:
        _visit(engine, engine.links[heap[0]].flow)


@in_place
def _note_change(engine, i, h, last):
    """Record that rates change on the h-th link of flow i, from its slot at least to `last`."""
    k, slot = engine.paths[i, h].link, engine.paths[i, h].slot
    if k == len(engine.links) - 1:
        return
    link, totals = engine.links[k], engine.totals[0]
    new = not link.changes
    if new:
        link.changes = 1
        link.flow = NONE
        link.size = np.inf
        link.place = totals.changing
        engine.heap[totals.changing] = k
        totals.changing += 1
    link.last = last if new else max(last, link.last)
    if new or slot < link.cursor:
        more = 0.0 if new else link.free - link.before
        link.cursor = slot
        link.free = free_for(engine, i, k)
        link.before = link.free - more


@inlined
def _visit(engine, i):
    """Give flow i what its links have left for it, and look on behind it on these."""
    flows, paths, links = engine.flows, engine.paths, engine.links
    old, new = flows[i].rate, _most(engine, i)
    if new != old:
        for h in range(paths.shape[1]):
            _note_change(engine, i, h, paths[i, h].slot)
        flows[i].rate = new
        _update_lists(engine, i, old)
    for h in range(paths.shape[1]):
        if links[paths[i, h].link].changes:
            _pop(engine, paths[i, h].link)
    for h in range(paths.shape[1]):
        link = links[paths[i, h].link]
        if link.changes:
            if engine.members[link.cursor].flow == i:
                link.free -= new
                link.before -= old
                link.cursor += 1
            _find_next(engine, paths[i, h].link)
    for h in range(paths.shape[1]):
        if links[paths[i, h].link].changes:
            _push(engine, paths[i, h].link)


@in_place
def _find_next(engine, k):
    """Find the next flow on a changing link that may get another rate.

    A waiting flow may get a rate if no link on its path is full. If flows before it on the path are
    still to change and would free bandwidth, the flow is found from their link.
    """
    link, flows, links, members = engine.links[k], engine.flows, engine.links, engine.members
    by_size, stop = engine.totals[0].by_size, link.stop
    if link.free == link.before or max(link.free, link.before) <= link.dust:
        stop = min(stop, link.last + 1)
    link.flow = NONE
    link.size = np.inf
    while link.cursor < stop:
        i = members[link.cursor].flow
        other = links[members[link.cursor].other]
        blocked = not other.changes and (
            (by_size and members[link.cursor].left > flows[other.filler].left * _ABOVE)
            or precedes(engine, other.filler, i))
        if not blocked and (flows[i].rate > 0.0 or (
                link.free > link.dust and flows[i].left > 0.0 and _may_move(engine, i))):
            link.flow = i
            link.size = flows[i].left if by_size else i
            return
        link.cursor += 1


@inlined
def _may_move(engine, i):
    """Whether no link on the path of flow i is full, as far as its changes are known."""
    paths, links = engine.paths, engine.links
    free = True
    for h in range(paths.shape[1]):
        link = links[paths[i, h].link]
        # A change that is only behind the flow does not tell what is left for it.
        if not link.changes or link.cursor > paths[i, h].slot:
            free &= not precedes(engine, link.filler, i)
        else:
            free &= link.free > link.dust
    return free


@inlined
def _most(engine, i):
    """Return the bandwidth that the links of flow i have left for it.

    A changing link has that stored, unless it only changes behind flow i.
    """
    paths, links = engine.paths, engine.links
    if engine.flows[i].left == 0.0:
        return 0.0
    most = np.inf
    for h in range(paths.shape[1]):
        link = links[paths[i, h].link]
        free = link.free
        if not link.changes or link.cursor > paths[i, h].slot:
            free = free_for(engine, i, paths[i, h].link)
        if free <= link.dust:
            return 0.0
        most = min(most, free)
    return most


@inlined
def _update_lists(engine, i, old):
    """Update the lists of moving flows for a new rate of flow i."""
    flows, paths, moving = engine.flows, engine.paths, engine.lists[MOVING]
    flow, totals = flows[i], engine.totals[0]
    mark(engine, i, flow.left if flow.rate == 0.0 else 0.0)
    for h in range(paths.shape[1]):
        if paths[i, h].link < len(engine.links) - 1:
            if old == 0.0:
                insert_moving(engine, i, paths[i, h].link)
            elif flow.rate == 0.0:
                remove_moving(engine, i, paths[i, h].link)
            find_filler(engine, paths[i, h].link)
    if old == 0.0:
        flow.moving_at = totals.moving
        moving[totals.moving] = i
        totals.moving += 1
    elif flow.rate == 0.0:
        totals.moving -= 1
        moving[flow.moving_at] = moving[totals.moving]
        flows[moving[totals.moving]].moving_at = flow.moving_at


# --- a heap of changing links, by the flows that are next on them -------------------------
@in_place
def _push(engine, k):
    """Put link k into the heap unless its change is over."""
    if engine.links[k].flow == NONE:
        engine.links[k].changes = 0
        return
    totals = engine.totals[0]
    totals.changing += 1
    _put(engine, k, totals.changing - 1)


@in_place
def _pop(engine, k):
    """Remove link k from the heap."""
    totals, place = engine.totals[0], engine.links[k].place
    totals.changing -= 1
    if place < totals.changing:
        _put(engine, engine.heap[totals.changing], place)


@in_place
def _put(engine, k, at):
    """Insert link k into the heap, where the place `at` is free."""
    links, heap, count = engine.links, engine.heap, engine.totals[0].changing
    while at and _is_next(engine, k, heap[(at - 1) // 2]):
        heap[at] = heap[(at - 1) // 2]
        links[heap[at]].place = at
        at = (at - 1) // 2
    while True:
        below = 2 * at + 1
        if below + 1 < count and _is_next(engine, heap[below + 1], heap[below]):
            below += 1
        if below >= count or not _is_next(engine, heap[below], k):
            break
        heap[at] = heap[below]
        links[heap[at]].place = at
        at = below
    heap[at] = k
    links[k].place = at


@in_place
def _is_next(engine, k, other):
    """Whether the next flow on link k goes before the next flow on another link."""
    one, two = engine.links[k], engine.links[other]
    if one.size > two.size * _ABOVE or two.size > one.size * _ABOVE:
        return one.size < two.size
    return precedes(engine, one.flow, two.flow)


# --- by size, flows overtake each other ---------------------------------------------------
@in_place
def _reorder(engine):
    """Move flows ahead of those that have more bytes left, and note where rates change.

    The flow with the least bytes left goes first. The flows before it are then in order, and no
    other waiting flow is between it and its new place.
    """
    flows, paths, waiting = engine.flows, engine.paths, engine.waiting
    moving = engine.lists[MOVING][:engine.totals[0].moving]
    most = len(moving) * (1 + paths.shape[1])
    count = 0
    for i in moving:
        if flows[i].left > flows[i].overtakes_at:
            continue
        if _overtakes(engine, i):
            count = _enqueue(engine, i, count)
        else:
            flows[i].overtakes_at = _next_overtaking(engine, i)
    while count:
        count -= 1
        i = waiting[count]
        if not _overtakes(engine, i):
            continue
        for h in range(paths.shape[1]):
            behind = paths[i, h].slot + 1
            _move_ahead(engine, i, h)
            link = engine.links[paths[i, h].link]
            if paths[i, h].slot + 1 < behind < link.stop and count < most:
                # It was behind the flow that has gone ahead, and may now follow.
                count = _enqueue(engine, engine.members[behind].flow, count)


@in_place
def _enqueue(engine, i, count):
    """Insert a flow into the ordered list of waiting flows; return the list's length."""
    waiting, n = engine.waiting, count
    while n and precedes(engine, waiting[n - 1], i):
        waiting[n] = waiting[n - 1]
        n -= 1
    waiting[n] = i
    return count + 1


@in_place
def _overtakes(engine, i):
    """Whether flow i has fewer bytes left than the flow before it on some link."""
    paths, links = engine.paths, engine.links
    for h in range(paths.shape[1]):
        k, slot = paths[i, h].link, paths[i, h].slot
        if k < len(links) - 1 and slot > links[k].first and _passes(engine, i, slot - 1):
            return True
    return False


@in_place
def _passes(engine, i, slot):
    """Whether flow i goes before the one in a slot; for one that waits, its bytes are there."""
    member = engine.members[slot]
    return member.left > engine.flows[i].left * _ABOVE or precedes(engine, i, member.flow)


@inlined
def _next_overtaking(engine, i):
    """Return at how many bytes left flow i may overtake a flow; inf if that flow moves, too."""
    paths, links = engine.paths, engine.links
    look = 0.0
    for h in range(paths.shape[1]):
        k, slot = paths[i, h].link, paths[i, h].slot
        if k < len(links) - 1 and slot > links[k].first:
            before = engine.flows[engine.members[slot - 1].flow]
            look = max(look, np.inf if before.rate > 0.0 else before.left * _ABOVE)
    return look


@in_place
def _move_ahead(engine, i, h):
    """Move flow i to its new slot on its h-th link."""
    flows, paths, members = engine.flows, engine.paths, engine.members
    k, last = paths[i, h].link, paths[i, h].slot
    if k == len(engine.links) - 1:
        return
    link, slot = engine.links[k], last
    left, other = members[last].left, members[last].other
    passed = False
    while slot > link.first and _passes(engine, i, slot - 1):
        j = members[slot - 1].flow
        passed |= members[slot - 1].left == 0.0 and flows[j].rate > 0.0
        members[slot] = members[slot - 1]
        paths[j, hop_of(paths, j, k)].slot = slot
        slot -= 1
    if slot == last:
        return
    members[slot].left = left
    members[slot].flow = i
    members[slot].other = other
    paths[i, h].slot = slot
    for each in (slot, slot + 1, last + 1):  # what is listed before these is another flow now
        if each < link.stop:
            flows[members[each].flow].overtakes_at = np.inf
    if passed:
        remove_moving(engine, i, k)
        insert_moving(engine, i, k)
        find_filler(engine, k)
        _note_change(engine, i, h, last)
