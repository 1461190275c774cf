"""Compiled greedy service of flows in order: an engine of the event loop.

Each flow in order takes all that its links have left. Little changes when a flow ends: flows behind
it on its links may get more, which leaves less to those behind them on their other links, and so
on. The engine follows these changes in order, link by link, and visits nothing else. Each step
gives every flow the rate of `maxmin.greedy_flows`.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled, in_place, inlined
from netsim.fabric.kernels.greedy_rows import (
    MOVED,
    NONE,
    STALE,
    copy_rows,
    find_rows,
    goes_first,
    write_back,
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
from netsim.fabric.kernels.progress import mark_started
from netsim.fabric.records import DUST

#: A flow with more than this many times the bytes of another goes behind it, despite roundings.
_ABOVE = 1.0 + 2.0 * DUST


@in_place
def _hop(engine, i, link):
    """Return the position of a link on the path of flow i."""
    h = 0
    while engine.crossings[i, h].link != link:
        h += 1
    return h


@in_place
def mark(engine, i, left):
    """Store on the links of flow i that it waits with `left` bytes, or moves, if `left` is 0."""
    crossings, members = engine.crossings, engine.members
    for h in range(crossings.shape[1]):
        if crossings[i, h].link < len(engine.links) - 1:
            members[crossings[i, h].place].left = left


@in_place
def _left_for(engine, i, k):
    """Return the bandwidth that the flows before flow i on link k leave for it."""
    senders, crossings, link = engine.senders, engine.crossings, engine.links[k]
    free, entry = link.capacity, link.head
    while entry != NONE and entry != i and goes_first(engine, entry, i):
        free -= senders[entry].rate
        entry = crossings[entry, _hop(engine, entry, k)].behind
    return free


@in_place
def _find_filler(engine, k):
    """Find the first flow that leaves nothing of link k to the flows behind it."""
    senders, crossings, link = engine.senders, engine.crossings, engine.links[k]
    free, entry = link.capacity, link.head
    link.filler = len(senders) - 1
    while entry != NONE:
        free -= senders[entry].rate
        if free <= link.dust:
            link.filler = entry
            return
        entry = crossings[entry, _hop(engine, entry, k)].behind


@in_place
def _link_up(engine, i, h):
    """Insert flow i into the list of moving flows of its h-th link."""
    crossings, k = engine.crossings, engine.crossings[i, h].link
    entry, last = engine.links[k].head, NONE
    while entry != NONE and goes_first(engine, entry, i):
        last = entry
        entry = crossings[entry, _hop(engine, entry, k)].behind
    crossings[i, h].behind = entry
    if last == NONE:
        engine.links[k].head = i
    else:
        crossings[last, _hop(engine, last, k)].behind = i


@in_place
def _unlink(engine, i, h):
    """Remove flow i from the list of moving flows of its h-th link."""
    crossings, k = engine.crossings, engine.crossings[i, h].link
    entry = engine.links[k].head
    if entry == i:
        engine.links[k].head = crossings[i, h].behind
        return
    hop = _hop(engine, entry, k)
    while crossings[entry, hop].behind != i:
        entry = crossings[entry, hop].behind
        hop = _hop(engine, entry, k)
    crossings[entry, hop].behind = crossings[i, h].behind


@in_place
def note(engine, i, h, last):
    """Record that rates change on the h-th link of flow i, from its place at least to `last`."""
    changes, state = engine.changes, engine.state[0]
    k, here = engine.crossings[i, h].link, engine.crossings[i, h].place
    if k == len(engine.links) - 1:
        return
    link, change = engine.links[k], changes[k]
    new = not link.changes
    if new:
        link.changes = 1
        change.flow = NONE
        change.size = np.inf
        change.place = state.changing
        changes[state.changing].heap = k
        state.changing += 1
    change.last = last if new else max(last, change.last)
    if new or here < change.cursor:
        more = 0.0 if new else change.left - change.before
        change.cursor = here
        change.left = _left_for(engine, i, k)
        change.before = change.left - more


# --- by size, flows overtake each other ---------------------------------------------------
@inlined
def promote(engine):
    """Move flows ahead of those that have more bytes left, and note where rates change.

    The flow with the least bytes left goes first. The flows before it are then in order, and no
    other waiting flow is between it and its new place.
    """
    senders, crossings, waiting = engine.senders, engine.crossings, engine.waiting
    moving = engine.moving[:engine.state[0].moving]
    hops = crossings.shape[1]
    most = len(moving) * (1 + hops)
    count = 0  # of waiting flows, of which the first to go ahead comes last
    for i in moving:
        if senders[i].left > senders[i].look:
            continue
        if _has_overtaken(engine, i):
            count = _insert(engine, i, count)
        else:
            senders[i].look = _next_look(engine, i)
    while count:
        count -= 1
        i = waiting[count]
        if not _has_overtaken(engine, i):
            continue
        for h in range(hops):
            behind = crossings[i, h].place + 1
            _promote(engine, i, h)
            link = engine.links[crossings[i, h].link]
            if crossings[i, h].place + 1 < behind < link.stop and count < most:
                # It was behind the flow that has gone ahead, and may now follow.
                count = _insert(engine, engine.members[behind].flow, count)


@in_place
def _insert(engine, i, count):
    """Insert a flow into the ordered list of waiting flows; return the list's length."""
    waiting, n = engine.waiting, count
    while n and goes_first(engine, waiting[n - 1], i):
        waiting[n] = waiting[n - 1]
        n -= 1
    waiting[n] = i
    return count + 1


@in_place
def _has_overtaken(engine, i):
    """Whether flow i has fewer bytes left than the flow before it on some link."""
    crossings, links = engine.crossings, engine.links
    for h in range(crossings.shape[1]):
        k, place = crossings[i, h].link, crossings[i, h].place
        if k < len(links) - 1 and place > links[k].first and _passes(engine, i, place - 1):
            return True
    return False


@in_place
def _passes(engine, i, place):
    """Whether flow i goes before the one at a place; for one that waits, its bytes are there."""
    member = engine.members[place]
    return member.left > engine.senders[i].left * _ABOVE or goes_first(engine, i, member.flow)


@inlined
def _next_look(engine, i):
    """Return at how many bytes left flow i may overtake a flow; inf if that flow moves, too."""
    crossings, links = engine.crossings, engine.links
    look = 0.0
    for h in range(crossings.shape[1]):
        k, place = crossings[i, h].link, crossings[i, h].place
        if k < len(links) - 1 and place > links[k].first:
            before = engine.senders[engine.members[place - 1].flow]
            look = max(look, np.inf if before.rate > 0.0 else before.left * _ABOVE)
    return look


@in_place
def _promote(engine, i, h):
    """Move flow i to its new place on its h-th link."""
    senders, crossings, members = engine.senders, engine.crossings, engine.members
    k, last = crossings[i, h].link, crossings[i, h].place
    if k == len(engine.links) - 1:
        return
    link, here = engine.links[k], last
    member_left, other = members[last].left, members[last].other
    passed = False
    while here > link.first and _passes(engine, i, here - 1):
        j = members[here - 1].flow
        passed |= members[here - 1].left == 0.0 and senders[j].rate > 0.0
        members[here] = members[here - 1]
        crossings[j, _hop(engine, j, k)].place = here
        here -= 1
    if here == last:
        return
    members[here].left = member_left
    members[here].flow = i
    members[here].other = other
    crossings[i, h].place = here
    for place in (here, here + 1, last + 1):  # what is listed before these is another flow now
        if place < link.stop:
            senders[members[place].flow].look = np.inf
    if passed:
        _unlink(engine, i, h)
        _link_up(engine, i, h)
        _find_filler(engine, k)
        note(engine, i, h, last)


# --- in order, flows get the rates that they have now --------------------------------------
@in_place
def follow(engine):
    """Visit the flows on changing links, in order, until nothing changes any more."""
    changes, state = engine.changes, engine.state[0]
    noted, state.changing = state.changing, 0
    for n in range(noted):
        _seek(engine, changes[n].heap)
    for n in range(noted):
        _keep(engine, changes[n].heap)
    while state.changing:
        _visit(engine, changes[changes[0].heap].flow)


@inlined
def _visit(engine, i):
    """Give flow i what its links have left for it, and look on behind it on these."""
    crossings, links, members = engine.crossings, engine.links, engine.members
    old, new = engine.senders[i].rate, _most(engine, i)
    if new != old:
        for h in range(crossings.shape[1]):
            note(engine, i, h, crossings[i, h].place)
        engine.senders[i].rate = new
        _list(engine, i, old)
    for h in range(crossings.shape[1]):
        if links[crossings[i, h].link].changes:
            _take_out(engine, crossings[i, h].link)
    for h in range(crossings.shape[1]):
        k = crossings[i, h].link
        if links[k].changes:
            change = engine.changes[k]
            if members[change.cursor].flow == i:
                change.left -= new
                change.before -= old
                change.cursor += 1
            _seek(engine, k)
    for h in range(crossings.shape[1]):
        if links[crossings[i, h].link].changes:
            _keep(engine, crossings[i, h].link)


@in_place
def _seek(engine, k):
    """Find the next flow on a changing link that may get another rate.

    A waiting flow may get a rate if no link on its path is full. If flows before it on the path are
    still to change and would free bandwidth, the flow is found from their link.
    """
    change, link = engine.changes[k], engine.links[k]
    senders, links, members = engine.senders, engine.links, engine.members
    by_size, end = engine.state[0].by_size, link.stop
    if change.left == change.before or max(change.left, change.before) <= link.dust:
        end = min(end, change.last + 1)
    change.flow = NONE
    change.size = np.inf
    while change.cursor < end:
        i = members[change.cursor].flow
        other = links[members[change.cursor].other]
        blocked = not other.changes and (
            (by_size and members[change.cursor].left > senders[other.filler].left * _ABOVE)
            or goes_first(engine, other.filler, i))
        if not blocked and (senders[i].rate > 0.0 or (
                change.left > link.dust and senders[i].left > 0.0 and _has_room(engine, i))):
            change.flow = i
            change.size = senders[i].left if by_size else i
            return
        change.cursor += 1


@inlined
def _has_room(engine, i):
    """Whether no link on the path of flow i is full, as far as its changes are known."""
    crossings, links, changes = engine.crossings, engine.links, engine.changes
    room = True
    for h in range(crossings.shape[1]):
        k = crossings[i, h].link
        # A change that is only behind the flow does not tell what is left for it.
        if not links[k].changes or changes[k].cursor > crossings[i, h].place:
            room &= not goes_first(engine, links[k].filler, i)
        else:
            room &= changes[k].left > links[k].dust
    return room


@inlined
def _most(engine, i):
    """Return the bandwidth that the links of flow i have left for it.

    A changing link has that stored, unless it only changes behind flow i.
    """
    crossings, links, changes = engine.crossings, engine.links, engine.changes
    if engine.senders[i].left == 0.0:
        return 0.0
    most = np.inf
    for h in range(crossings.shape[1]):
        k = crossings[i, h].link
        if links[k].changes and changes[k].cursor <= crossings[i, h].place:
            free = changes[k].left
        else:
            free = _left_for(engine, i, k)
        if free <= links[k].dust:
            return 0.0
        most = min(most, free)
    return most


@inlined
def _list(engine, i, old):
    """Update the lists of moving flows for a new rate of flow i."""
    senders, crossings, moving = engine.senders, engine.crossings, engine.moving
    sender, state = senders[i], engine.state[0]
    mark(engine, i, sender.left if sender.rate == 0.0 else 0.0)
    for h in range(crossings.shape[1]):
        if crossings[i, h].link < len(engine.links) - 1:
            if old == 0.0:
                _link_up(engine, i, h)
            elif sender.rate == 0.0:
                _unlink(engine, i, h)
            _find_filler(engine, crossings[i, h].link)
    if old == 0.0:
        sender.where = state.moving
        moving[state.moving] = i
        state.moving += 1
    elif sender.rate == 0.0:
        state.moving -= 1
        moving[sender.where] = moving[state.moving]
        senders[moving[state.moving]].where = sender.where


# --- a heap of changes, by the flows that are next on their links -----------------------
@in_place
def _keep(engine, k):
    """Put the change of link k into the heap unless it is over."""
    state = engine.state[0]
    if engine.changes[k].flow == NONE:
        engine.links[k].changes = 0
        return
    state.changing += 1
    _put(engine, k, state.changing - 1)


@in_place
def _take_out(engine, k):
    """Remove the change of link k from the heap."""
    changes, state = engine.changes, engine.state[0]
    state.changing -= 1
    if changes[k].place < state.changing:
        _put(engine, changes[state.changing].heap, changes[k].place)


@in_place
def _put(engine, k, at):
    """Insert the change of link k into the heap, where the place `at` is free."""
    changes, count = engine.changes, engine.state[0].changing
    while at and _is_next(engine, k, changes[(at - 1) // 2].heap):
        at = _take_place(changes, changes[(at - 1) // 2].heap, at)
    while True:
        below = 2 * at + 1
        if below + 1 < count and _is_next(engine, changes[below + 1].heap, changes[below].heap):
            below += 1
        if below >= count or not _is_next(engine, changes[below].heap, k):
            break
        at = _take_place(changes, changes[below].heap, at)
    _take_place(changes, k, at)


@inlined
def _take_place(changes, k, at):
    """Put the change of link k at a place in the heap; return the place it had."""
    before = changes[k].place
    changes[at].heap = k
    changes[k].place = at
    return before


@inlined
def _is_next(engine, k, other):
    """Whether the next flow on link k goes before the next flow on another link."""
    one, two = engine.changes[k], engine.changes[other]
    if one.size > two.size * _ABOVE or two.size > one.size * _ABOVE:
        return one.size < two.size
    return goes_first(engine, one.flow, two.flow)


# --- begin and resume ----------------------------------------------------------------------

#: A new copy is made once more than one in this many of its flows has ended.
_MOST_GONE = 3


@compiled
def begin(coflows, flows, hops, capacity, order, by_size):
    """Return a copy of the rows with rates for all flows."""
    engine = copy_rows(coflows, flows, hops, capacity, order, by_size)
    _serve_all(engine)
    return engine


@compiled
def resume(engine, coflows, flows, order, by_size):
    """Update a copy from its rows; return whether it can be used, because the order is the same.

    By size it never can: sizes that differ by less than `DUST` might be ranked differently when
    ranked step by step. Rates only change where flows have ended, as only flows with a rate end.
    """
    state, senders = engine.state[0], engine.senders
    if by_size or state.by_size or not find_rows(engine, coflows, order):
        return False
    passed = state.ended > 0
    for i in engine.moving[:state.moving]:
        sender = senders[i]
        if sender.left == 0.0:  # it is among those that have ended
            continue
        engine.groups[sender.owner].moved = 1
        sender.row = STALE
        remaining = flows[sender.flow].remaining
        passed |= sender.left != remaining
        sender.left = max(remaining, 0.0)
        if sender.left == 0.0:
            engine.ended[state.ended] = i
            state.ended += 1
    if passed:
        _serve_on(engine)
    return True


# --- what the loop calls ---------------------------------------------------------------
@in_place
def _find_rates(engine, coflows, _jobs, _pools, _capacity, state):
    """Serve flows again after some have ended; return `REDO` if a new copy is worthwhile."""
    mine, senders, groups = engine.state[0], engine.senders, engine.groups
    if mine.ended:
        if _MOST_GONE * (mine.gone + mine.ended) > len(engine.moving):
            return REDO
        _serve_on(engine)
    for i in engine.moving[:mine.moving]:
        if senders[i].row != MOVED:
            senders[i].row = MOVED
            group = groups[senders[i].owner]
            group.moved = 1
            mark_started(coflows[group.row], state)
    return WAITS


@in_place
def _find_end(engine, _coflows, state):
    """Find when the next flow ends; see `loop.find_end`."""
    dt, senders = np.inf, engine.senders
    for i in engine.moving[:engine.state[0].moving]:
        sender = senders[i]
        if 0.0 < sender.left < dt * sender.rate:
            dt = sender.left / sender.rate
    state.dt, state.end = dt, state.now + dt


@in_place
def _advance(engine, coflows, pools, _capacity, dt, now, slack, state, finished, carried):
    """Move bytes for `dt` seconds; see `loop.advance`."""
    senders, crossings, mine = engine.senders, engine.crossings, engine.state[0]
    groups, ended = engine.groups, engine.ended
    for i in engine.moving[:mine.moving]:
        sender = senders[i]
        before = sender.left
        if before == 0.0:  # it has ended, which is not noticed yet
            continue
        sender.left -= sender.rate * dt
        if sender.left <= sender.floor + sender.rate * slack:
            sender.left = 0.0
            ended[mine.ended] = i
            mine.ended += 1
            end_flow(coflows, groups[sender.owner].row, pools[0][sender.flow], now, state,
                     finished)
        if len(carried):
            for h in range(crossings.shape[1]):
                if crossings[i, h].link < len(carried):
                    carried[crossings[i, h].link] += before - sender.left


@in_place
def _leave(engine, coflows, pools, state):
    """Write bytes to the rows, and also rates unless new ones are about to be set."""
    in_force = state.reason == WAITS or state.only_moves == 1
    if not in_force and state.reason != REDO and engine.state[0].ended:
        _serve_on(engine)
    write_back(engine, coflows, pools[0], state.now, 1.0 if in_force else 0.0)


# --- one step --------------------------------------------------------------------------
@in_place
def _serve_on(engine):
    """Update the rates of all flows that the end of some flows changes."""
    state, crossings = engine.state[0], engine.crossings
    if state.by_size:
        promote(engine)
    for i in engine.ended[:state.ended]:
        for h in range(crossings.shape[1]):
            note(engine, i, h, crossings[i, h].place)
    state.gone += state.ended
    state.ended = 0
    follow(engine)


@in_place
def _serve_all(engine):
    """Give each flow, in order, what its links have left; put those that move first in the list."""
    senders, crossings, links, moving = (engine.senders, engine.crossings, engine.links,
                                         engine.moving)
    nowhere = len(links) - 1
    count = 0
    for i in moving:
        most = np.inf
        for h in range(crossings.shape[1]):
            link = links[crossings[i, h].link]
            most = min(most, link.left if link.left > link.dust else 0.0)
        if most > 0.0:
            senders[i].rate = most
            senders[i].where = count
            moving[count] = i
            count += 1
            mark(engine, i, 0.0)
            for h in range(crossings.shape[1]):
                link = links[crossings[i, h].link]
                link.left -= most
                if link.left <= link.dust:
                    link.filler = i
    for i in moving[:count][::-1]:
        for h in range(crossings.shape[1]):
            if crossings[i, h].link < nowhere:
                link = links[crossings[i, h].link]
                crossings[i, h].behind = link.head
                link.head = i
    engine.state[0].moving = count


#: See `loop_of`.
run = loop_of("greedy", find_rates=_find_rates, find_end=_find_end, crossing_in=never,
              advance=_advance, write_rows=write_nothing, join=join_never, leave=_leave)
