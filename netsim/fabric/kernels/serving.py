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
from netsim.fabric.kernels.serving_fill import fill, see_room
from netsim.fabric.kernels.serving_rows import ENDED, copy_rows, write_back
from netsim.fabric.records import DUST

__all__ = ["GREEDY", "MADD", "MAXMIN", "NOBODY", "QUEUES", "serve_until"]

#: What comes first, in order: nothing, MADD, or max-min within the share of a queue.
#: Who gets the rest, in order: nobody, or the flows of each coflow, max-min or in list order.
NOBODY, MADD, QUEUES, MAXMIN, GREEDY = 0, 1, 2, 3, 4

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
    served, slots, senders, runs, fillings, members = copy_rows(coflows, flows, hops, loads, rule)
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
            write_back(coflows, flows, served, senders, now)
            return now, now + dt, now + crossing, False
        now += dt
        ended, completed = _advance(coflows, flows, served, slots, senders, runs, fillings, dt,
                                    now, carried)
        gone += ended
    rate[:] = 0.0
    write_back(coflows, flows, served, senders, now)
    return now, now, np.inf, not completed


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
            fill(served[k], slots, senders, runs, fillings[1], members, capacity, left, step)
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
    fill(coflow, slots, senders, runs, filling, members, capacity, share, step)
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
            rate[runs[r].first:runs[r].stop] = held[runs[r].first:runs[r].stop]
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
    end = coflow.flow + coflow.flows
    rate[coflow.flow:end] = remaining[coflow.flow:end] / gamma
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
def _greedy(coflow, slots, senders, runs, filling, members, capacity, left):
    """Give each flow of a coflow, in list order, all that the links on its path have left."""
    see_room(coflow, slots, senders, filling, members, capacity, left)
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
        # Slices count from 0 and have no branches: the compiler takes several flows at a time.
        lefts, rates = left[runs[r].first:runs[r].stop], rate[runs[r].first:runs[r].stop]
        sooner = 0
        for i in range(len(lefts)):
            sooner += lefts[i] < soonest * rates[i]
        if sooner:
            for i in range(len(lefts)):
                if lefts[i] < soonest * rates[i]:
                    soonest = lefts[i] / rates[i]
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
        first, stop = runs[r].first, runs[r].stop
        lefts, rates, floors = left[first:stop], rate[first:stop], floor[first:stop]
        ended = 0
        for i in range(len(lefts)):
            lefts[i] -= rates[i] * dt
            ended += lefts[i] <= floors[i]
        if ended:
            gone += ended
            for i in range(len(lefts)):
                if lefts[i] <= floors[i]:
                    completed |= _end(coflows, flows, served, slots, senders, fillings, first + i,
                                      now)
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
        state[i] = ENDED
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
