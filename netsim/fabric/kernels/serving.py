"""Compiled service of coflows in order, anew whenever a flow ends, until a coflow completes.

Between two coflow events a policy's order stands, so that rates can be decided anew at each
flow's end without going back to Python. `serve_until` copies the unfinished flows in service
order, and goes from end to end; what each of its steps gives is what `FabricView.serve` gives
with the building blocks of `netsim.fabric.kernels.ordered`.

A *slot* is a link of one coflow, as its LOAD rows have them. A flow *wants* where all of its
links have room: who wants is kept from step to step, and brought up to date by the slots that
have gained or lost their room since.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled
from netsim.fabric.records import DUST

__all__ = ["GREEDY", "MADD", "MAXMIN", "NOBODY", "QUEUES", "serve_until"]

#: What comes first, in order: nothing, MADD, or max-min within the share of a queue.
#: Who gets the rest, in order: nobody, or the flows of each coflow, max-min or in list order.
NOBODY, MADD, QUEUES, MAXMIN, GREEDY = 0, 1, 2, 3, 4

#: A link of a coflow: it has ``load`` bytes to send, which were ``known`` when last added up, at
#: ``used`` bytes per second, ``held`` of them within its queue's share. ``open`` of its flows ``members[first:first + listed]`` have not
#: ended. While the coflow is filled, ``left`` bytes per second and ``waiting`` flows are left.
_SLOT = np.dtype([("load", "f8"), ("known", "f8"), ("used", "f8"), ("held", "f8"), ("left", "f8"),
                  ("link", "i4"), ("first", "i4"), ("listed", "i4"), ("open", "i4"),
                  ("waiting", "i4")], align=True)

#: A coflow in service order: where its flows, slots and runs begin, and their numbers; the bytes
#: that it has left, how fast it sends them, how fast within its queue's share, how few it may
#: have left before it is to stop; whether it is ``thinner`` than when it got that.
_COFLOW = np.dtype([("flow", "i8"), ("flows", "i8"), ("slot", "i8"), ("slots", "i8"),
                    ("run", "i8"), ("runs", "i8"), ("left", "f8"), ("speed", "f8"),
                    ("held", "f8"), ("limit", "f8"), ("row", "i8"), ("queue", "i8"), ("thinner", "i8")],
                   align=True)

#: Flows ``first`` to ``stop`` that follow one another in a coflow's list and have one last
#: ``slot``; ``busy`` if some of them may have a rate, ``holds`` if within the share of a
#: queue.
_RUN = np.dtype([("first", "i4"), ("stop", "i4"), ("slot", "i4"), ("busy", "i2"),
                 ("holds", "i2")], align=True)

_ENDED, _IDLE, _WANTS = -2, -1, 0


@compiled
def serve_until(coflows, flows, hops, loads, capacity, rule, now, until, carried):
    """Serve by `rule` from now on, anew whenever a flow ends, until a coflow completes.

    Writes bytes and rates as of the last instant back to the rows.

    Parameters
    ----------
    capacity : ndarray of float, shape (links,)
    rule : tuple
        ``(order, first, rest, queue, parts, limit)``, see `netsim.fabric.service.Service`: the
        coflows in order; what comes first and who gets the rest, as named here; each coflow's
        queue, each queue's part of the links, and the bytes at which each coflow is to stop.
    now, until : float
        From when, and before which instant to stop in any case, in seconds.
    carried : ndarray of float, shape (links,) or (0,)
        Collects the bytes that each link carries, if it has a value per link.

    Returns
    -------
    now : float
        The instant as of which the rows are; their rates are in force from then on.
    next_finish : float
        When the next flow ends, `now` if a coflow has completed; inf if none moves.
    crossing : float
        When the next coflow has sent as much as its limit; inf if none will.
    """
    while True:
        now, next_finish, crossing, thinned = _serve_while_crowded(
            coflows, flows, hops, loads, capacity, rule, now, until, carried)
        if not thinned:
            return now, next_finish, crossing


@compiled
def _serve_while_crowded(coflows, flows, hops, loads, capacity, rule, now, until, carried):
    """As `serve_until`, but stop, returning True, once a third of the flows have ended."""
    served, slots, senders, runs, fillings, members = _copy(coflows, flows, hops, loads, rule)
    left, rate = senders[0], senders[1]
    gone = 0
    step = 0
    completed = False
    while 3 * gone <= len(left) and not completed:
        step += 1
        _serve(served, slots, senders, runs, fillings, members, capacity, rule, step)
        dt = _soonest(left, rate, runs)
        crossing = _crossing(served)
        _mark_started(coflows, served, now)
        if now + dt >= until or crossing <= dt:
            _write_back(coflows, flows, served, senders, now)
            return now, now + dt, now + crossing, False
        now += dt
        ended, completed = _advance(coflows, flows, served, slots, senders, runs, fillings, dt,
                                    now, carried)
        gone += ended
    rate[:] = 0.0
    _write_back(coflows, flows, served, senders, now)
    return now, now, np.inf, not completed


# --- the copy to work on ---------------------------------------------------------------


@compiled
def _copy(coflows, flows, hops, loads, rule):
    """Return the coflows in service order, their slots, and their unfinished flows.

    Returns
    -------
    served, slots : ndarray of _COFLOW, _SLOT
        The last slot is no link: it fills up the paths of flows that cross fewer than others.
    senders : tuple of ndarray
        Per flow: bytes left, rate, bytes at which it has ended, place of its coflow in the
        order, position in `flows`, slots that it crosses, rate within its queue's share.
    runs : ndarray of _RUN
    fillings : pair of tuples of ndarray
        For each of two fillings: how many of the flows on each slot want more; whether the slot
        has room; and of each flow whether it has `_ENDED`, is `_IDLE`, `_WANTS`, or else the
        step in which it last got its rate.
    members : tuple of ndarray
        The flows on each slot, one after the other; the other slots that each crosses.
    """
    order, _, _, queue, _, limit = rule
    served = np.zeros(len(order), _COFLOW)
    count = 0
    slot_count = 0
    for k in range(len(order)):
        row = coflows[order[k]]
        served[k].row = order[k]
        served[k].queue = queue[order[k]]
        served[k].thinner = 1
        served[k].limit = row.total - limit[order[k]]
        served[k].flow = count
        served[k].slot = slot_count
        served[k].flows = row.open
        served[k].slots = row.loads
        count += row.open
        slot_count += row.loads
    slots = np.zeros(slot_count + 1, _SLOT)
    left = np.empty(count)
    floor = np.empty(count)
    place = np.empty(count, np.int32)
    index = np.empty(count, np.int64)
    longest = 1
    i = 0
    for k in range(len(order)):
        row = coflows[order[k]]
        for s in range(row.loads):
            slots[served[k].slot + s].link = loads[row.load + s].link
        for f in range(row.flow, row.flow + row.flows):
            if flows[f].remaining > 0.0:
                left[i] = flows[f].remaining
                floor[i] = DUST * flows[f].size
                place[i] = k
                index[i] = f
                served[k].left += left[i]
                longest = max(longest, flows[f].hops)
                i += 1
    path, runs = _paths(flows, hops, served, slots, place, index, longest)
    senders = (left, np.zeros(count), floor, place, index, path, np.zeros(count))
    fillings = (_filling(slot_count, count), _filling(slot_count, count))
    return served, slots, senders, runs, fillings, _members(slots, path)


@compiled
def _filling(slot_count, count):
    room = np.zeros(slot_count + 1, np.bool_)
    room[slot_count] = True
    return np.zeros(slot_count + 1, np.int32), room, np.full(count, _IDLE, np.int32)


@compiled
def _paths(flows, hops, served, slots, place, index, longest):
    """Return the slots that each flow crosses, and the runs of flows with one last slot."""
    count = len(index)
    path = np.full((count, longest), len(slots) - 1, np.int32)
    runs = np.zeros(count, _RUN)
    found = 0
    for i in range(count):
        flow = flows[index[i]]
        coflow = served[place[i]]
        for h in range(flow.hops):
            path[i, h] = coflow.slot + hops[flow.hop + h].slot
        last = path[i, flow.hops - 1]
        if i == coflow.flow or runs[found - 1].slot != last:
            if i == coflow.flow:
                coflow.run = found
            runs[found].first = i
            runs[found].slot = last
            found += 1
            coflow.runs = found - coflow.run
        runs[found - 1].stop = i + 1
    return path, runs[:found].copy()


@compiled
def _members(slots, path):
    """Return the flows on each slot, and the other slots that each of them crosses."""
    count, longest = path.shape
    nowhere = len(slots) - 1
    for i in range(count):
        for h in range(longest):
            slots[path[i, h]].listed += 1
    slots[nowhere].listed = 0
    first = 0
    for s in range(len(slots)):
        slots[s].first = first
        first += slots[s].listed
    members = np.empty(first, np.int32)
    others = np.full((first, max(longest - 1, 1)), nowhere, np.int32)
    for i in range(count):
        for h in range(longest):
            if path[i, h] == nowhere:
                continue
            slot = slots[path[i, h]]
            m = slot.first + slot.open
            slot.open += 1
            members[m] = i
            for g in range(longest - 1):
                others[m, g] = path[i, g if g < h else g + 1]
    return members, others


# --- one step --------------------------------------------------------------------------


@compiled
def _serve(served, slots, senders, runs, fillings, members, capacity, rule, step):
    """Give every flow its rate."""
    _, first, rest, _, parts, _ = rule
    _reset(served, slots, senders, runs)
    left = capacity.copy()
    if first == MADD:
        for k in range(len(served)):
            _madd(served[k], slots, senders, runs, capacity, left)
    elif first == QUEUES:
        left[:] = 0.0
        k = 0
        while k < len(served):
            k = _serve_queue(k, served, slots, senders, runs, fillings[0], members, capacity,
                             parts, left, step)
    for k in range(len(served)):
        if rest == MAXMIN:
            _fill(served[k], slots, senders, runs, fillings[1], members, capacity, left, step)
        elif rest == GREEDY:
            _greedy(served[k], slots, senders, runs, fillings[1], members, capacity, left)


@compiled
def _serve_queue(k, served, slots, senders, runs, filling, members, capacity, parts, left, step):
    """Fill the queue whose first coflow is the k-th within its share, and pool what it leaves.

    What a coflow gets there changes only once a flow of its own, or of one before it, has ended.

    Returns
    -------
    k : int
        The first coflow of the next queue.
    """
    queue = served[k].queue
    share = parts[queue] * capacity
    anew = False
    while k < len(served) and served[k].queue == queue:
        coflow = served[k]
        anew |= coflow.thinner == 1
        if anew:
            coflow.thinner = 0
            _fill_share(coflow, slots, senders, runs, filling, members, capacity, share, step)
        else:
            for s in range(coflow.slot, coflow.slot + coflow.slots):
                share[slots[s].link] -= slots[s].held
        k += 1
    left += np.maximum(share, 0.0)
    return k


@compiled
def _fill_share(coflow, slots, senders, runs, filling, members, capacity, share, step):
    """Fill a coflow within its queue's share, and keep what it gets for the next steps."""
    rate, held = senders[1], senders[6]
    for i in range(coflow.flow, coflow.flow + coflow.flows):
        rate[i] = 0.0
    for s in range(coflow.slot, coflow.slot + coflow.slots):
        slots[s].used = 0.0
    coflow.speed = 0.0
    _fill(coflow, slots, senders, runs, filling, members, capacity, share, step)
    for i in range(coflow.flow, coflow.flow + coflow.flows):
        held[i] = rate[i]
    for s in range(coflow.slot, coflow.slot + coflow.slots):
        slots[s].held = slots[s].used
    coflow.held = coflow.speed
    for r in range(coflow.run, coflow.run + coflow.runs):
        runs[r].holds = filling[0][runs[r].slot] > 0


@compiled
def _reset(served, slots, senders, runs):
    """Take back all that was given in the last step, but for what is held."""
    rate, held = senders[1], senders[6]
    for k in range(len(served)):
        served[k].speed = served[k].held
    for s in range(len(slots)):
        slots[s].used = slots[s].held
    for r in range(len(runs)):
        if runs[r].busy:
            for i in range(runs[r].first, runs[r].stop):
                rate[i] = held[i]
            runs[r].busy = runs[r].holds


@compiled
def _madd(coflow, slots, senders, runs, capacity, left):
    """Give a coflow remaining/Gamma' of what is left, or nothing where a link is full."""
    remaining, rate = senders[0], senders[1]
    gamma = 0.0
    stale = False
    for s in range(coflow.slot, coflow.slot + coflow.slots):
        slot = slots[s]
        if slot.open > 0:
            if left[slot.link] <= DUST * capacity[slot.link]:
                return
            stale |= slot.load <= slot.known / 2
    if stale:
        _add_up(coflow, slots, senders)
    for s in range(coflow.slot, coflow.slot + coflow.slots):
        if slots[s].open > 0:
            gamma = max(gamma, slots[s].load / left[slots[s].link])
    if gamma == 0.0:
        return
    coflow.speed = coflow.left / gamma
    for s in range(coflow.slot, coflow.slot + coflow.slots):
        if slots[s].open > 0:
            slots[s].used = slots[s].load / gamma
            left[slots[s].link] -= slots[s].used
    for i in range(coflow.flow, coflow.flow + coflow.flows):
        rate[i] = remaining[i] / gamma
    for r in range(coflow.run, coflow.run + coflow.runs):
        runs[r].busy = 1


@compiled
def _add_up(coflow, slots, senders):
    """Add up the bytes that a coflow has left on each of its links."""
    remaining, path = senders[0], senders[5]
    for s in range(coflow.slot, coflow.slot + coflow.slots):
        slots[s].load = 0.0
    for i in range(coflow.flow, coflow.flow + coflow.flows):
        for h in range(path.shape[1]):
            slots[path[i, h]].load += remaining[i]
    for s in range(coflow.slot, coflow.slot + coflow.slots):
        slots[s].known = slots[s].load


@compiled
def _fill(coflow, slots, senders, runs, filling, members, capacity, left, step):
    """Let the flows of a coflow share what is left max-min fairly."""
    _see_room(coflow, slots, senders, filling, members, capacity, left)
    wants, _, state = filling
    live = np.empty(coflow.slots, np.int32)
    levels = np.empty(coflow.slots)
    lives = 0
    for s in range(coflow.slot, coflow.slot + coflow.slots):
        slot = slots[s]
        if wants[s] > 0:
            slot.waiting = wants[s]
            slot.left = left[slot.link]
            levels[lives] = slot.left / slot.waiting
            live[lives] = s
            lives += 1
    for at in range(lives // 2 - 1, -1, -1):
        _sift(levels, live, at, lives)
    while lives > 0:
        slot = slots[live[0]]
        if slot.waiting > 0:
            # Levels only rise as others fill, so that the lowest one known is the one to look at.
            level = max(slot.left, 0.0) / slot.waiting
            if level > levels[0]:
                levels[0] = level
                _sift(levels, live, 0, lives)
                continue
            coflow.speed += slot.waiting * level
            _freeze(slots, members, state, senders[1], live[0], step, level)
        lives -= 1
        levels[0], live[0] = levels[lives], live[lives]
        _sift(levels, live, 0, lives)
    for s in range(coflow.slot, coflow.slot + coflow.slots):
        slot = slots[s]
        if wants[s] > 0:
            slot.used += left[slot.link] - slot.left
            left[slot.link] = max(slot.left, 0.0)
    for r in range(coflow.run, coflow.run + coflow.runs):
        runs[r].busy |= wants[runs[r].slot] > 0


@compiled
def _sift(levels, live, at, count):
    """Let one level of a heap, the lowest on top, sink to its place."""
    level, slot = levels[at], live[at]
    while True:
        below = 2 * at + 1
        if below >= count:
            break
        if below + 1 < count and levels[below + 1] < levels[below]:
            below += 1
        if levels[below] >= level:
            break
        levels[at], live[at] = levels[below], live[below]
        at = below
    levels[at], live[at] = level, slot


@compiled
def _see_room(coflow, slots, senders, filling, members, capacity, left):
    """Bring up to date which flows want more, by the slots that gained or lost their room."""
    path = senders[5]
    wants, room, state = filling
    for s in range(coflow.slot, coflow.slot + coflow.slots):
        slot = slots[s]
        has = left[slot.link] > DUST * capacity[slot.link]
        if has == room[s]:
            continue
        room[s] = has
        for m in range(slot.first, slot.first + slot.listed):
            i = members[0][m]
            if state[i] == _ENDED:
                continue
            want = has
            for h in range(path.shape[1]):
                want &= room[path[i, h]]
            if want != (state[i] != _IDLE):
                state[i] = _WANTS if want else _IDLE
                for h in range(path.shape[1]):
                    wants[path[i, h]] += 1 if want else -1


@compiled
def _freeze(slots, members, state, rate, full, step, level):
    """Settle the flows that wait on a full slot."""
    flows, others = members
    slot = slots[full]
    slot.left -= slot.waiting * level
    slot.waiting = 0
    for m in range(slot.first, slot.first + slot.listed):
        i = flows[m]
        if state[i] < 0 or state[i] == step:
            continue
        state[i] = step
        rate[i] += level
        for h in range(others.shape[1]):
            other = slots[others[m, h]]
            other.waiting -= 1
            other.left -= level


@compiled
def _greedy(coflow, slots, senders, runs, filling, members, capacity, left):
    """Give each flow of a coflow, in list order, all that the links on its path have left."""
    _see_room(coflow, slots, senders, filling, members, capacity, left)
    wants, _, state = filling
    for r in range(coflow.run, coflow.run + coflow.runs):
        if wants[runs[r].slot] == 0:
            continue
        link = slots[runs[r].slot].link
        for i in range(runs[r].first, runs[r].stop):
            if left[link] <= DUST * capacity[link]:
                break
            if state[i] >= 0:
                runs[r].busy = 1
                coflow.speed += _grab(slots, senders, i, capacity, left)


@compiled
def _grab(slots, senders, i, capacity, left):
    """Give a flow all that its links have left; return how much that is."""
    rate, path = senders[1], senders[5]
    most = np.inf
    for h in range(path.shape[1]):
        if path[i, h] < len(slots) - 1:
            link = slots[path[i, h]].link
            most = min(most, left[link] if left[link] > DUST * capacity[link] else 0.0)
    if most > 0.0:
        rate[i] += most
        for h in range(path.shape[1]):
            if path[i, h] < len(slots) - 1:
                slots[path[i, h]].used += most
                left[slots[path[i, h]].link] -= most
    return most


# --- time ------------------------------------------------------------------------------


@compiled
def _soonest(left, rate, runs):
    """Return in how many seconds the next flow ends; inf if none moves."""
    soonest = np.inf
    for r in range(len(runs)):
        if not runs[r].busy:
            continue
        sooner = 0
        for i in range(runs[r].first, runs[r].stop):  # without branches, several at a time
            sooner += left[i] < soonest * rate[i]
        if sooner:
            for i in range(runs[r].first, runs[r].stop):
                if left[i] < soonest * rate[i]:
                    soonest = left[i] / rate[i]
    return soonest


@compiled
def _crossing(served):
    """Return in how many seconds the next coflow has sent as much as its limit."""
    crossing = np.inf
    for k in range(len(served)):
        coflow = served[k]
        if coflow.speed > 0.0:
            crossing = min(crossing, max(coflow.left - coflow.limit, 0.0) / coflow.speed)
    return crossing


@compiled
def _advance(coflows, flows, served, slots, senders, runs, fillings, dt, now, carried):
    """Let `dt` seconds pass; return how many flows have ended, and whether a coflow has."""
    left, rate, floor = senders[0], senders[1], senders[2]
    gone = 0
    completed = False
    for k in range(len(served)):
        served[k].left -= served[k].speed * dt
    for s in range(len(slots) - 1):
        slots[s].load -= slots[s].used * dt
        if len(carried):
            carried[slots[s].link] += slots[s].used * dt
    for r in range(len(runs)):
        if not runs[r].busy:
            continue
        ended = 0
        for i in range(runs[r].first, runs[r].stop):
            left[i] -= rate[i] * dt
            ended += left[i] <= floor[i]
        if ended:
            gone += ended
            for i in range(runs[r].first, runs[r].stop):
                if left[i] <= floor[i]:
                    completed |= _end(coflows, flows, served, slots, senders, fillings, i, now)
    return gone, completed


@compiled
def _end(coflows, flows, served, slots, senders, fillings, i, now):
    """Take a flow that has ended off its slots; return whether its coflow has completed."""
    left, _, floor, place, index, path, held = senders
    for h in range(path.shape[1]):
        slots[path[i, h]].open -= 1
    for wants, _, state in fillings:
        if state[i] >= 0:
            for h in range(path.shape[1]):
                wants[path[i, h]] -= 1
        state[i] = _ENDED
    left[i] = 0.0
    held[i] = 0.0
    served[place[i]].thinner = 1
    floor[i] = -1.0  # it cannot end again
    flows[index[i]].finish = now
    row = coflows[served[place[i]].row]
    row.open -= 1
    row.last = now
    return row.open == 0


@compiled
def _mark_started(coflows, served, now):
    for k in range(len(served)):
        row = coflows[served[k].row]
        if served[k].speed > 0.0 and row.start < 0.0:
            row.start = now


@compiled
def _write_back(coflows, flows, served, senders, now):
    left, rate, _, place, index, _, _ = senders
    for k in range(len(served)):
        row = coflows[served[k].row]
        row.base = 0.0
        row.finish = row.last
        row.fresh = 0
    for i in range(len(left)):
        flow = flows[index[i]]
        flow.remaining = left[i]
        if left[i] > 0.0:
            row = coflows[served[place[i]].row]
            flow.rate = rate[i]
            flow.finish = now + left[i] / rate[i] if rate[i] > 0.0 else np.inf
            row.base += left[i]
            row.finish = max(row.finish, flow.finish)
