"""Compiled service of coflows in order, anew whenever a flow ends, until a coflow completes.

Between two coflow events a policy's order stands, so that rates can be decided anew at each
flow's end without going back to Python. `serve_until` copies the unfinished flows in service
order, and goes from end to end; what each of its steps gives is what `FabricView.serve` gives
with the building blocks of `netsim.fabric.kernels.ordered`.

A *slot* is a link of one coflow. A flow *wants* where all of its links have room: how much flows
want of each slot is kept from step to step, and brought up to date by the slots that have gained
or lost their room since.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled, in_place
from netsim.fabric.kernels.serving_fill import fill, see_room
from netsim.fabric.kernels.serving_rows import copy_rows, strike, write_back
from netsim.fabric.kernels.serving_stretch import (
    ends,
    let_pass_over,
    note_least,
    settle,
    soonest_of,
)
from netsim.fabric.kernels.serving_time import (
    advance,
    crossing_in,
    end,
    let_pass,
    mark_started,
    soonest,
)
from netsim.fabric.records import DUST

__all__ = ["GREEDY", "MADD", "MAXMIN", "NOBODY", "QUEUES", "serve_until", "serve_while_crowded"]

#: What comes first, in order: nothing, MADD, or max-min within the share of a queue.
#: Who gets the rest, in order: nobody, or the flows of each coflow, max-min or in list order.
NOBODY, MADD, QUEUES, MAXMIN, GREEDY = 0, 1, 2, 3, 4

# Not a literal, for which a kernel is compiled once more.
_NONE = np.int64(0)


@compiled
def serve_until(coflows, flows, hops, loads, capacity, rule, now, until, carried):
    """Serve by `rule` from now on, anew whenever a flow ends, until a coflow completes.

    Writes bytes and rates as of the last instant back to the rows.

    Parameters
    ----------
    capacity : ndarray of float, shape (links,)
    rule : tuple
        ``(order, primary, backfill, queue, queue_shares, limit)``, see `PriorityService`: the
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
        copy = copy_rows(coflows, flows, hops, loads, rule)
        now, next_finish, crossing, thinned = serve_while_crowded(
            copy, _NONE, coflows, flows, capacity, rule, now, until, carried)
        if not thinned:
            return now, next_finish, crossing


@compiled
def serve_while_crowded(copy, gone, coflows, flows, capacity, rule, now, until, carried):
    """As `serve_until`, on a copy, but stop once a fifth of its flows have ended.

    Parameters
    ----------
    copy : tuple
        See `serving_rows.copy_rows`; up to date, see `serving_rows.resume`.
    gone : int
        How many of its flows have ended by now.

    Returns
    -------
    now, next_finish, crossing : float
    thinned : bool
        Whether it has stopped for that, and there is more to do on a new copy.
    """
    (groups, slots, runs, link, traffic, senders, path, spot, fillings, members, past,
     (_, rows)) = copy
    left, rate, floor, place, index = senders
    _, first, rest, _, _, _ = rule
    holds = first == QUEUES
    turn = _turn(rows, rule)
    completed = False
    while 5 * gone <= len(left) and not completed:
        _serve(turn, groups, slots, runs, link, traffic, senders, path, fillings, members, past,
               capacity, rule)
        if rest == GREEDY:
            dt = soonest(left, rate, runs)
        else:
            dt = soonest_of(groups, runs, left, floor, path, fillings, past, holds)
        crossing = crossing_in(groups)
        mark_started(coflows, groups, now)
        if now + dt >= until or crossing <= dt:
            if rest != GREEDY:
                _settle_all(groups, runs, senders, path, fillings, past, first, rest)
            write_back(coflows, flows, runs, senders, rows, now)
            return now, now + dt, now + crossing, False
        now += dt
        let_pass(groups, link, traffic, dt, carried)
        if rest != GREEDY:
            let_pass_over(groups, runs, left, floor, path, fillings, past, holds, dt)
        for r in range(len(runs)):
            run = runs[r]
            if run.busy and (advance(left, rate, floor, run, dt) if rest == GREEDY else
                             ends(run, groups[run.group], left, floor, path, past, holds)):
                for i in range(run.first, run.stop):
                    if left[i] <= floor[i]:
                        gone += 1
                        strike(groups, slots, senders, path, spot, fillings, members, i)
                        completed |= end(coflows[rows[place[i]]], flows[index[i]], now)
                # Else those that are left, at MADD's rates alone, would never be next.
                note_least(run, left[run.first:run.stop], floor[run.first:run.stop])
    for k in range(len(groups)):
        settle(groups[k], runs, left, floor, path, past, holds)
    for r in range(len(runs)):
        runs[r].busy = 0
    write_back(coflows, flows, runs, senders, rows, now)
    return now, now, np.inf, not completed


@in_place
def _settle_all(groups, runs, senders, path, fillings, past, first, rest):
    """Bring bytes and rates of all flows up to date."""
    for k in range(len(groups)):
        settle(groups[k], runs, senders[0], senders[2], path, past, first == QUEUES)
        _set_rates(groups[k], runs, senders, path, fillings, first, rest)


@compiled
def _turn(rows, rule):
    """Return the groups in service order."""
    order = rule[0]
    group_of = np.empty(len(order), np.int64)
    for k in range(len(rows)):
        if rows[k] >= 0:
            group_of[rows[k]] = k
    return group_of[order]


# --- one step --------------------------------------------------------------------------


@compiled
def _serve(turn, groups, slots, runs, link, traffic, senders, path, fillings, members, past,
           capacity, rule):
    """Give every flow its rate."""
    _, first, rest, _, parts, _ = rule
    dust = DUST * capacity
    left = capacity.copy()
    desk = _desk(groups)
    for k in turn:
        groups[k].speed = groups[k].held
        groups[k].gamma = 0.0
    _, used, held = traffic
    used[:] = held
    if first == MADD:
        for k in turn:
            _madd(groups[k], slots, runs, link, traffic, senders, path, past, dust, left)
    elif first == QUEUES:
        left[:] = 0.0
        n = 0
        while n < len(turn):
            n = _serve_queue(n, turn, groups, slots, link, traffic, dust, fillings[0], members,
                             capacity, parts, left, desk)
    for k in turn:
        group = groups[k]
        stays = first == QUEUES and rest != GREEDY and not (group.anew or group.gains)
        if rest == MAXMIN:
            group.gains = fill(group, slots, link, used, dust, fillings[1], members, left, desk)
        elif rest == GREEDY:
            see_room(group, link, dust, slots, fillings[1], members, left)
        if rest != GREEDY:
            if not stays or group.gains:
                _set_pace(group, runs, fillings, first)
        else:
            _set_rates(group, runs, senders, path, fillings, first, rest)
            _greedy(group, used, runs, link, senders, path, fillings[1], dust, left)


@compiled
def _desk(groups):
    """Return room for the slots of a group that is filled: their order, places, heap, levels."""
    most = groups["slots"].max()
    return (np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64),
            np.empty(most))


@compiled
def _serve_queue(n, turn, groups, slots, link, traffic, dust, filling, members, capacity, parts,
                 left, desk):
    """Fill the queue whose first coflow is the n-th within its share, and pool what it leaves.

    What a coflow gets there changes only once a flow of its own, or of one before it, has ended.

    Returns
    -------
    n : int
        The first coflow of the next queue.
    """
    _, used, held = traffic
    queue = groups[turn[n]].queue
    share = parts[queue] * capacity
    anew = False
    while n < len(turn) and groups[turn[n]].queue == queue:
        group = groups[turn[n]]
        anew |= group.thinner == 1
        group.anew = anew
        if anew:
            group.thinner = 0
            group.renewed = 1
            group.speed = 0.0
            for s in range(group.slot, group.slot + group.slots):
                used[s] = 0.0
            fill(group, slots, link, used, dust, filling, members, share, desk)
            group.held = group.speed
            group.held_top = group.top
            for s in range(group.slot, group.slot + group.slots):
                held[s] = used[s]
        else:
            for s in range(group.slot, group.slot + group.slots):
                share[link[s]] -= held[s]
        n += 1
    left += np.maximum(share, 0.0)
    return n


@in_place
def _madd(group, slots, runs, link, traffic, senders, path, past, dust, left):
    """Let a coflow end all its flows at once on what is left, or none where a link is full."""
    load, used, _ = traffic
    gamma = 0.0
    stale = False
    for s in range(group.slot, group.slot + group.slots):
        slot = slots[s]
        if slot.open > 0:
            if left[link[s]] <= dust[link[s]]:
                return
            stale |= load[s] <= slot.known / 2
    if stale:
        settle(group, runs, senders[0], senders[2], path, past, False)
        _add_up(group, slots, load, senders[0], path)
    for s in range(group.slot, group.slot + group.slots):
        if slots[s].open > 0:
            gamma = max(gamma, load[s] / left[link[s]])
    if gamma == 0.0:
        return
    group.gamma = gamma
    group.speed = group.left / gamma
    for s in range(group.slot, group.slot + group.slots):
        if slots[s].open > 0:
            used[s] = load[s] / gamma
            left[link[s]] -= used[s]


@in_place
def _add_up(group, slots, load, remaining, path):
    """Add up the bytes that a coflow has left on each of its links."""
    for s in range(group.slot, group.slot + group.slots):
        load[s] = 0.0
    for i in range(group.flow, group.flow + group.flows):
        for h in range(path.shape[1]):
            load[path[i, h]] += remaining[i]
    for s in range(group.slot, group.slot + group.slots):
        slots[s].known = load[s]


@in_place
def _set_pace(group, runs, fillings, first):
    """Note how fast the flows of each run are at most; see `serving_stretch`."""
    (held, held_room, held_level, _, _, _), (wants, room, level, _, _, _) = fillings
    for r in range(group.run, group.run + group.runs):
        run = runs[r]
        run.most = 0.0
        if first == QUEUES and held_room[run.slot] and held[run.slot] > 0.0:
            run.most += min(held_level[run.slot], group.held_top)
        if room[run.slot] and wants[run.slot] > 0.0:
            run.most += min(level[run.slot], group.top)
        run.busy = run.least < np.inf and (run.most > 0.0 or group.gamma > 0.0)
        run.idle &= not run.busy


@in_place
def _set_rates(group, runs, senders, path, fillings, first, rest):
    """Give the flows of a group what MADD and the fillings have found."""
    left, rate = senders[0], senders[1]
    (held, held_room, held_level, _, _, _), (wants, room, level, _, _, _) = fillings
    for r in range(group.run, group.run + group.runs):
        run = runs[r]
        holds = first == QUEUES and held_room[run.slot] and held[run.slot] > 0.0
        gets = room[run.slot] and wants[run.slot] > 0.0
        run.busy = holds or gets or group.gamma > 0.0
        run.idle &= not run.busy
        if not run.busy:
            continue
        lefts, rates = left[run.first:run.stop], rate[run.first:run.stop]
        paths = path[run.first:run.stop]
        if group.gamma > 0.0:
            for i in range(len(lefts)):
                rates[i] = lefts[i] / group.gamma
        else:
            rates[:] = 0.0
        if holds:
            _add_levels(rates, lefts, paths, held_level, run.slot)
        if gets and rest == MAXMIN:
            _add_levels(rates, lefts, paths, level, run.slot)


@in_place
def _add_levels(rates, lefts, paths, level, slot):
    """Add to each flow's rate the lowest level on its path."""
    if paths.shape[1] == 2:
        last = level[slot]
        for i in range(len(rates)):
            rates[i] += min(last, level[paths[i, 0]]) if lefts[i] > 0.0 else 0.0
        return
    for i in range(len(rates)):
        lowest = np.inf
        for h in range(paths.shape[1]):
            lowest = min(lowest, level[paths[i, h]])
        rates[i] += lowest if lefts[i] > 0.0 else 0.0


@in_place
def _greedy(group, used, runs, link, senders, path, filling, dust, left):
    """Give each flow of a coflow, in list order, all that the links on its path have left."""
    wants, room, _, _, _, _ = filling
    remaining, rate = senders[0], senders[1]
    nowhere = len(used) - 1
    for r in range(group.run, group.run + group.runs):
        last = runs[r].slot
        if not room[last] or wants[last] == 0.0:
            continue
        for i in range(runs[r].first, runs[r].stop):
            if left[link[last]] <= dust[link[last]]:
                break
            most = left[link[last]] if remaining[i] > 0.0 else 0.0
            for h in range(path.shape[1]):
                s = path[i, h]
                if s < nowhere:
                    free = left[link[s]]
                    most = min(most, free) if free > dust[link[s]] else 0.0
            if most > 0.0:
                rate[i] += most
                group.speed += most
                for h in range(path.shape[1]):
                    if path[i, h] < nowhere:
                        used[path[i, h]] += most
                        left[link[path[i, h]]] -= most
