"""Compiled service of coflows in order, anew whenever a flow ends, until a coflow completes.

Between two coflow events a policy's order stands, so that rates can be decided anew at each
flow's end without going back to Python. `serve_until` copies the unfinished flows in service
order, and goes from end to end; what each of its steps gives is what `FabricView.serve` gives
with the building blocks of `netsim.fabric.kernels.ordered`. Plain fairness is the service of one
group: all flows together, by their weights.

A *slot* is a link of one group. A flow *wants* where all of its links have room: how much flows
want of each slot is kept from step to step, and brought up to date by the slots that have gained
or lost their room since.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled
from netsim.fabric.kernels.serving_fill import fill, see_room
from netsim.fabric.kernels.serving_rows import copy_rows, weights_of, write_back
from netsim.fabric.records import DUST

__all__ = ["GREEDY", "MADD", "MAXMIN", "NOBODY", "QUEUES", "maxmin", "serve_until"]

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
        ``(order, first, rest, queue, parts, limit, together)``, see
        `netsim.fabric.service.Service`: the coflows in order; what comes first and who gets the
        rest, as named here; each coflow's queue, each queue's part of the links, and the bytes
        at which each coflow is to stop; whether all are one group, shared by weight.
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
def maxmin(coflows, flows, hops, loads, capacity, rule, weights):
    """Return the weighted max-min fair rates of all unfinished flows.

    Parameters
    ----------
    capacity : ndarray of float, shape (links,)
        What there is to share out.
    rule : tuple
        As for `serve_until`: that all share as one group.
    weights : ndarray of float, shape (unfinished flows,)
        A flow of weight 0 gets nothing.
    """
    groups, slots, runs, link, senders, path, _, fillings, members = copy_rows(
        coflows, flows, hops, loads, len(capacity), rule, weights)
    _serve(groups, slots, runs, link, senders, path, fillings, members, capacity, rule)
    return senders[1]


@compiled
def _serve_while_crowded(coflows, flows, hops, loads, capacity, rule, now, until, carried):
    """As `serve_until`, but stop, returning True, once a third of the flows have ended."""
    weights = weights_of(coflows, flows) if rule[6] else np.empty(0)
    groups, slots, runs, link, senders, path, spot, fillings, members = copy_rows(
        coflows, flows, hops, loads, len(capacity), rule, weights)
    order = rule[0]
    left, rate, floor = senders[:3]
    gone = 0
    completed = False
    while 3 * gone <= len(left) and not completed:
        _serve(groups, slots, runs, link, senders, path, fillings, members, capacity, rule)
        dt = _soonest(left, rate, runs)
        crossing = _crossing(groups)
        _mark_started(coflows, groups, now)
        if gone == 0 and rule[6]:
            _mark_each(coflows, senders, now)
        if now + dt >= until or crossing <= dt:
            write_back(coflows, flows, runs, senders, order, now)
            return now, now + dt, now + crossing, False
        now += dt
        _pass(groups, slots, link, dt, carried)
        for r in range(len(runs)):
            if runs[r].busy and _advance(left, rate, floor, runs[r], dt):
                for i in range(runs[r].first, runs[r].stop):
                    if left[i] <= floor[i]:
                        gone += 1
                        completed |= _end(coflows, flows, groups, slots, senders, path, spot,
                                          fillings, members, i, now)
    for r in range(len(runs)):
        runs[r].busy = 0
    write_back(coflows, flows, runs, senders, order, now)
    return now, now, np.inf, not completed


# --- one step --------------------------------------------------------------------------


@compiled
def _serve(groups, slots, runs, link, senders, path, fillings, members, capacity, rule):
    """Give every flow its rate."""
    _, first, rest, _, parts, _, _ = rule
    dust = DUST * capacity
    left = capacity.copy()
    for k in range(len(groups)):
        groups[k].speed = groups[k].held
        groups[k].gamma = 0.0
    for s in range(len(slots)):
        slots[s].used = slots[s].held
    if first == MADD:
        for k in range(len(groups)):
            _madd(groups[k], slots, link, senders, path, dust, left)
    elif first == QUEUES:
        left[:] = 0.0
        k = 0
        while k < len(groups):
            k = _serve_queue(k, groups, slots, link, dust, fillings[0], members, capacity, parts,
                             left)
    for k in range(len(groups)):
        if rest == MAXMIN:
            fill(groups[k], slots, link, dust, fillings[1], members, left)
        elif rest == GREEDY:
            see_room(groups[k], link, dust, slots, fillings[1], members, left)
        _set_rates(groups[k], runs, senders, path, fillings, first, rest)
        if rest == GREEDY:
            _greedy(groups[k], slots, runs, link, senders, path, fillings[1], dust, left)


@compiled
def _serve_queue(k, groups, slots, link, dust, filling, members, capacity, parts, left):
    """Fill the queue whose first coflow is the k-th within its share, and pool what it leaves.

    What a coflow gets there changes only once a flow of its own, or of one before it, has ended.

    Returns
    -------
    k : int
        The first coflow of the next queue.
    """
    queue = groups[k].queue
    share = parts[queue] * capacity
    anew = False
    while k < len(groups) and groups[k].queue == queue:
        group = groups[k]
        anew |= group.thinner == 1
        if anew:
            group.thinner = 0
            group.speed = 0.0
            for s in range(group.slot, group.slot + group.slots):
                slots[s].used = 0.0
            fill(group, slots, link, dust, filling, members, share)
            group.held = group.speed
            for s in range(group.slot, group.slot + group.slots):
                slots[s].held = slots[s].used
        else:
            for s in range(group.slot, group.slot + group.slots):
                share[link[s]] -= slots[s].held
        k += 1
    left += np.maximum(share, 0.0)
    return k


@compiled
def _madd(group, slots, link, senders, path, dust, left):
    """Let a coflow end all its flows at once on what is left, or none where a link is full."""
    gamma = 0.0
    stale = False
    for s in range(group.slot, group.slot + group.slots):
        slot = slots[s]
        if slot.open > 0:
            if left[link[s]] <= dust[link[s]]:
                return
            stale |= slot.load <= slot.known / 2
    if stale:
        _add_up(group, slots, senders[0], path)
    for s in range(group.slot, group.slot + group.slots):
        if slots[s].open > 0:
            gamma = max(gamma, slots[s].load / left[link[s]])
    if gamma == 0.0:
        return
    group.gamma = gamma
    group.speed = group.left / gamma
    for s in range(group.slot, group.slot + group.slots):
        if slots[s].open > 0:
            slots[s].used = slots[s].load / gamma
            left[link[s]] -= slots[s].used


@compiled
def _add_up(group, slots, remaining, path):
    """Add up the bytes that a coflow has left on each of its links."""
    for s in range(group.slot, group.slot + group.slots):
        slots[s].load = 0.0
    for i in range(group.flow, group.flow + group.flows):
        for h in range(path.shape[1]):
            slots[path[i, h]].load += remaining[i]
    for s in range(group.slot, group.slot + group.slots):
        slots[s].known = slots[s].load


@compiled
def _set_rates(group, runs, senders, path, fillings, first, rest):
    """Give the flows of a group what MADD and the fillings have found."""
    left, rate, weight = senders[0], senders[1], senders[3]
    (held, held_room, held_level), (wants, room, level) = fillings
    nowhere = len(room) - 1
    for r in range(group.run, group.run + group.runs):
        run = runs[r]
        holds = first == QUEUES and held_room[run.slot] and held[run.slot] > 0.0
        gets = (room[run.slot] and wants[run.slot] > 0.0) or run.slot == nowhere
        run.busy = holds or gets or group.gamma > 0.0
        if not run.busy:
            continue
        lefts, rates = left[run.first:run.stop], rate[run.first:run.stop]
        weights, paths = weight[run.first:run.stop], path[run.first:run.stop]
        if group.gamma > 0.0:
            for i in range(len(lefts)):
                rates[i] = lefts[i] / group.gamma
        else:
            rates[:] = 0.0
        if holds:
            _add_levels(rates, lefts, weights, paths, held_level, run.slot)
        if gets and rest == MAXMIN:
            _add_levels(rates, lefts, weights, paths, level, run.slot)


@compiled
def _add_levels(rates, lefts, weights, paths, level, slot):
    """Add to each flow's rate its weight times the lowest level on its path."""
    if paths.shape[1] == 2 and slot < len(level) - 1:
        last = level[slot]
        for i in range(len(rates)):
            rates[i] += min(last, level[paths[i, 0]]) if lefts[i] > 0.0 else 0.0
        return
    for i in range(len(rates)):
        lowest = np.inf
        for h in range(paths.shape[1]):
            lowest = min(lowest, level[paths[i, h]])
        rates[i] += weights[i] * lowest if lefts[i] > 0.0 and weights[i] > 0.0 else 0.0


@compiled
def _greedy(group, slots, runs, link, senders, path, filling, dust, left):
    """Give each flow of a coflow, in list order, all that the links on its path have left."""
    wants, room, _ = filling
    for r in range(group.run, group.run + group.runs):
        slot = runs[r].slot
        if not room[slot] or wants[slot] == 0.0:
            continue
        for i in range(runs[r].first, runs[r].stop):
            if left[link[slot]] <= dust[link[slot]]:
                break
            if senders[0][i] > 0.0:
                most = _grab(slots, link, path[i], dust, left)
                senders[1][i] += most
                group.speed += most


@compiled
def _grab(slots, link, path, dust, left):
    """Take all that the links on a path have left; return how much that is."""
    most = np.inf
    for s in path:
        if s < len(slots) - 1:
            most = min(most, left[link[s]] if left[link[s]] > dust[link[s]] else 0.0)
    if most > 0.0:
        for s in path:
            if s < len(slots) - 1:
                slots[s].used += most
                left[link[s]] -= most
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
def _crossing(groups):
    """Return in how many seconds the next coflow has sent as much as its limit."""
    crossing = np.inf
    for k in range(len(groups)):
        group = groups[k]
        if group.speed > 0.0:
            crossing = min(crossing, max(group.left - group.limit, 0.0) / group.speed)
    return crossing


@compiled
def _pass(groups, slots, link, dt, carried):
    """Let `dt` seconds pass for groups and slots."""
    for k in range(len(groups)):
        groups[k].left -= groups[k].speed * dt
    for s in range(len(slots) - 1):
        slots[s].load -= slots[s].used * dt
        if len(carried):
            carried[link[s]] += slots[s].used * dt


@compiled
def _advance(left, rate, floor, run, dt):
    """Let `dt` seconds pass for the flows of a run; return how many of them have ended."""
    lefts, rates = left[run.first:run.stop], rate[run.first:run.stop]
    floors = floor[run.first:run.stop]
    ended = 0
    for i in range(len(lefts)):
        lefts[i] -= rates[i] * dt
        ended += lefts[i] <= floors[i]
    return ended


@compiled
def _end(coflows, flows, groups, slots, senders, path, spot, fillings, members, i, now):
    """Take a flow that has ended off its slots; return whether its coflow has completed."""
    left, _, floor, weight, place, owner, index = senders
    longest = path.shape[1]
    for h in range(longest):
        s = path[i, h]
        if s == len(slots) - 1:
            continue
        slots[s].open -= 1
        members[0][spot[i, h]] = 0.0
        for wants, room, _ in fillings:
            free = True
            for g in range(longest):
                free &= g == h or room[path[i, g]]
            if free:
                wants[s] -= weight[i]
    left[i] = 0.0
    floor[i] = -1.0  # it cannot end again
    groups[place[i]].thinner = 1
    flows[index[i]].finish = now
    row = coflows[owner[i]]
    row.open -= 1
    row.last = now
    return row.open == 0


@compiled
def _mark_started(coflows, groups, now):
    for k in range(len(groups)):
        group = groups[k]
        if group.row >= 0 and group.speed > 0.0 and coflows[group.row].start < 0.0:
            coflows[group.row].start = now


@compiled
def _mark_each(coflows, senders, now):
    _, rate, _, _, _, owner, _ = senders
    for i in range(len(rate)):
        if rate[i] > 0.0 and coflows[owner[i]].start < 0.0:
            coflows[owner[i]].start = now
