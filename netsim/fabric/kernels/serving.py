"""Compiled service of coflows in order: an engine of the event loop.

A policy's order stays the same between two coflow events, so rates can be set again at the end of
each flow without a call of Python. The engine works on a copy of the unfinished flows in service
order, `serving_parts.Served`. Each step gives the same rates as `FabricView.serve`, which uses the
building blocks of `netsim.fabric.kernels.ordered`.

A *slot* is a link of one coflow. A flow *wants* bandwidth on a slot if all of its other links have
some left. How much flows want on each slot is kept between steps, and updated for the slots that
have become full or are no longer full.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.loop import REDO, WAITS, Engine, end_flow, register
from netsim.fabric.kernels.progress import mark_started
from netsim.fabric.kernels.serving_fill import fill, see_room
from netsim.fabric.kernels.serving_parts import GREEDY, MADD, MAXMIN, QUEUES, Served
from netsim.fabric.kernels.serving_progress import (
    advance,
    advance_run,
    crossing_in,
    note_least,
    settle,
    soonest,
)
from netsim.fabric.kernels.serving_rows import can_resume, strike, write_back

__all__: list[str] = []  # the event loop has its functions, see the end

# --- what the loop calls ---------------------------------------------------------------


def _find_rates(served, coflows, _jobs, _pools, _capacity, state):
    """Set every flow's rate; return `REDO` if a new copy is needed or pays.

    It is needed when coflows have come or gone, and pays once a fifth of the flows have ended.
    """
    if served.state[0].stale or not can_resume(served):
        return REDO
    _serve(served)
    for k in served.moving[:served.state[0].moving]:
        group = served.groups[k]
        if group.row >= 0 and group.speed > 0.0:
            mark_started(coflows[group.row], state)
    return WAITS


def _find_end(served, _coflows, state):
    """Find when the next flow ends; see `loop.find_end`."""
    state.dt = soonest(served)
    state.end = state.now + state.dt


def _crossing_in(served):
    return 0.0 if served.state[0].reached else crossing_in(served)


def _advance(served, coflows, pools, _capacity, dt, now, slack, state, finished, carried):
    """Move bytes for `dt` seconds; see `loop.advance`."""
    senders, eager = served.senders, served.state[0].eager
    left, rate, floor = senders.left, senders.rate, senders.floor
    advance(served, dt, carried)
    for k in served.moving[:served.state[0].moving]:
        group = served.groups[k]
        for r in range(group.run, group.run + group.runs):
            run = served.runs[r]
            if advance_run(served, run, dt, slack):
                for i in range(run.first, run.stop):
                    if left[i] <= (floor[i] + rate[i] * slack if eager else floor[i]):
                        _end(served, i, coflows, pools[0], now, state, finished)
                # Else those that are left, at MADD's rates alone, would never be next.
                note_least(run, left[run.first:run.stop], floor[run.first:run.stop])
        group.gamma = max(group.gamma - dt, 0.0)


@inlined
def _end(served, i, coflows, flows, now, state, finished):
    """End a flow, and its coflow if it is the last; the bandwidth is idle until that is noticed."""
    rate, place = served.senders.rate, served.senders.place
    strike(served, i)
    served.state[0].gone += 1
    if served.state[0].eager:
        served.groups[place[i]].speed -= rate[i]
        for h in range(served.path.shape[1]):
            served.traffic.used[served.path[i, h]] -= rate[i]
        rate[i] = 0.0
    end_flow(coflows, served.rows[place[i]], flows[served.senders.flow[i]], now, state,
             finished)


def _write_rows(served, coflows, pools, state):
    """Write bytes to the rows; the copy is out of date from then on."""
    if not served.state[0].stale:
        _write(served, coflows, pools[0], state.now, False)
        served.state[0].stale = 1


def _join(served, _coflows, _pools):
    """Return True: a new copy is made, as `_write_rows` has been called before."""
    served.state[0].joined = 1
    return True


def _leave(served, coflows, pools, state):
    """Write bytes to the rows, and rates if these stay in force."""
    if not served.state[0].stale:  # else that has been done, and rows may have moved
        in_force = state.reason == WAITS or state.only_moves == 1
        _write(served, coflows, pools[0], state.now, in_force)


@in_place
def _write(served, coflows, flows, now, in_force):
    """Compute bytes and rates of all flows, and write them to the rows."""
    groups, eager = served.groups, served.state[0].eager
    if not eager:
        for k in range(len(groups)):
            if groups[k].steps:
                settle(served, groups[k])
    if not in_force:
        for r in range(len(served.runs)):
            served.runs[r].busy = 0
    elif not eager:
        for k in served.moving[:served.state[0].moving]:
            _set_rates(served, groups[k])
    write_back(served, coflows, flows, now)


# --- one step --------------------------------------------------------------------------


@inlined
def _serve(served):
    """Set the rate of every flow."""
    state = served.state[0]
    turn = served.turn[:state.coflows]
    _begin_step(served)
    if state.primary == MADD:
        for k in turn:
            if not _is_passed_over(served, k, served.on_links.left):
                _madd(served, served.groups[k])
                served.still[k] &= served.groups[k].gamma == 0.0
    elif state.primary == QUEUES:
        n = 0
        while n < len(turn):
            n = _serve_queue(n, served)
    fresh, state.fresh = state.fresh, 0
    state.moving = 0
    for k in turn:
        group = served.groups[k]
        if _is_passed_over(served, k, served.on_links.left):
            state.reached |= fresh and group.left <= group.reached
            continue
        _backfill(served, group)
        moves = group.speed > 0.0 or group.gamma > 0.0 or group.gains
        if not moves and (fresh or not served.still[k]):
            state.reached |= group.left <= group.reached
        served.still[k] = not moves
        if moves:
            served.moving[state.moving] = k
            state.moving += 1


@inlined
def _begin_step(served):
    """Give links all of their bandwidth, or none before queues; keep what groups are held to."""
    groups, traffic, state = served.groups, served.traffic, served.state[0]
    left, capacity = served.on_links.left, served.on_links.capacity
    for n in range(len(capacity)):
        left[n] = capacity[n] if state.primary != QUEUES else 0.0
    for k in served.moving[:state.moving]:
        groups[k].speed = groups[k].held
        groups[k].gamma = 0.0
    used, held = traffic.used, traffic.held
    for s in range(len(used)):
        used[s] = held[s]


@inlined
def _is_passed_over(served, k, left):
    """Whether a group gets nothing: it got nothing before, and a link of all its flows is full."""
    walls, dust = served.walls, served.on_links.dust
    one, two = walls[k, 0], walls[k, 1]
    return served.still[k] and (left[one] <= dust[one] or left[two] <= dust[two])


@inlined
def _backfill(served, group):
    """Give a group its part of what is left, and set the rates of its flows or their bounds."""
    state, left = served.state[0], served.on_links.left
    # If it got nothing of the rest in the last step, nor gets any now, rates are the same.
    stays = state.primary == QUEUES and not state.eager and not (group.anew or group.gains)
    if state.backfill == MAXMIN:
        group.gains = fill(served, group, served.rest, left)
    elif state.backfill == GREEDY:
        see_room(served, group, served.rest, left)
    if not state.eager:
        if not stays or group.gains:
            _set_pace(served, group)
    else:
        _set_rates(served, group)
        if state.backfill == GREEDY:
            _greedy(served, group)


@inlined
def _serve_queue(n, served):
    """Serve the queue whose first coflow is the n-th from its share, and add what it leaves.

    Return the place of the first coflow of the next queue. The rates of a coflow only change after
    one of its own flows, or of coflows before it, has ended.
    """
    link, used, held = served.link, served.traffic.used, served.traffic.held
    turn = served.turn[:served.state[0].coflows]
    share, capacity = served.on_links.share, served.on_links.capacity
    queues, queue = served.queues, served.queues[n]
    for c in range(len(capacity)):
        share[c] = served.queue_shares[queue] * capacity[c]
    anew = served.state[0].fresh == 1
    while n < len(turn) and queues[n] == queue:
        k = turn[n]
        n += 1
        if _is_passed_over(served, k, share):
            continue
        group = served.groups[k]
        anew |= group.thinner == 1
        group.anew = anew
        if anew:
            group.thinner = 0
            group.renewed = 1
            group.speed = 0.0
            for s in range(group.slot, group.slot + group.slots):
                used[s] = 0.0
            fill(served, group, served.held, share)
            group.held = group.speed
            group.held_top = group.top
            served.still[k] &= group.speed == 0.0
            for s in range(group.slot, group.slot + group.slots):
                held[s] = used[s]
        else:
            for s in range(group.slot, group.slot + group.slots):
                share[link[s]] -= held[s]
    _pool(served.on_links.left[:len(capacity)], share[:len(capacity)])
    return n


@in_place
def _pool(left, share):
    """Add positive values only, without branches, so that the compiler vectorizes the loop."""
    for c in range(len(left)):
        left[c] += share[c] if share[c] > 0.0 else 0.0


@inlined
def _madd(served, group):
    """Make the flows of a coflow end together on what is left; do nothing if a link is full."""
    slots, link, load, used = served.slots, served.link, served.traffic.load, served.traffic.used
    left, dust = served.on_links.left, served.on_links.dust
    gamma = 0.0
    stale = False
    for s in range(group.slot, group.slot + group.slots):
        slot = slots[s]
        if slot.open > 0:
            if left[link[s]] <= dust[link[s]]:
                return
            stale |= load[s] <= slot.known / 2
    if stale:
        settle(served, group)
        _add_up(served, group)
    for s in range(group.slot, group.slot + group.slots):
        if slots[s].open > 0:
            gamma = max(gamma, load[s] / left[link[s]])
    if gamma == 0.0:
        return
    group.gamma = group.whole = gamma
    group.speed = group.left / gamma
    for s in range(group.slot, group.slot + group.slots):
        if slots[s].open > 0:
            used[s] = load[s] / gamma
            left[link[s]] -= used[s]


@inlined
def _add_up(served, group):
    """Sum the bytes left of a coflow on each of its links."""
    load, remaining, path = served.traffic.load, served.senders.left, served.path
    for s in range(group.slot, group.slot + group.slots):
        load[s] = 0.0
    for i in range(group.flow, group.flow + group.flows):
        for h in range(path.shape[1]):
            load[path[i, h]] += remaining[i]
    for s in range(group.slot, group.slot + group.slots):
        served.slots[s].known = load[s]


@inlined
def _set_pace(served, group):
    """Store an upper bound of the rates in each run of flows; see `serving_progress`."""
    held, rest = served.held, served.rest
    for r in range(group.run, group.run + group.runs):
        run = served.runs[r]
        run.most = 0.0
        if (served.state[0].primary == QUEUES and held.room[run.slot]
                and held.wants[run.slot] > 0.0):
            run.most += min(held.full_at[run.slot], group.held_top)
        if rest.room[run.slot] and rest.wants[run.slot] > 0.0:
            run.most += min(rest.full_at[run.slot], group.top)
        run.busy = run.least < np.inf and (run.most > 0.0 or group.gamma > 0.0)
        run.idle &= not run.busy


@in_place
def _set_rates(served, group):
    """Give the flows of a group the sum of their rates from MADD and the fillings.

    Of x bytes, a flow sends x/whole per second by MADD, and f by the fillings. After t seconds,
    left = x - (x/whole + f) t and gamma = whole - t, so its rate is left/gamma + f whole/gamma.
    """
    times = group.whole / group.gamma if group.gamma > 0.0 else 1.0
    held, rest, state = served.held, served.rest, served.state[0]
    for r in range(group.run, group.run + group.runs):
        run = served.runs[r]
        holds = (state.primary == QUEUES and held.room[run.slot]
                 and held.wants[run.slot] > 0.0)
        gets = rest.room[run.slot] and rest.wants[run.slot] > 0.0
        run.busy = holds or gets or group.gamma > 0.0
        run.idle &= not run.busy
        if not run.busy:
            continue
        lefts = served.senders.left[run.first:run.stop]
        rates = served.senders.rate[run.first:run.stop]
        paths = served.path[run.first:run.stop]
        if group.gamma > 0.0:
            for i in range(len(lefts)):
                rates[i] = lefts[i] / group.gamma
        else:
            rates[:] = 0.0
        if holds:
            _add_levels(rates, lefts, paths, held.full_at, run.slot, 1.0)
        if gets and state.backfill == MAXMIN:
            _add_levels(rates, lefts, paths, rest.full_at, run.slot, times)


@in_place
def _add_levels(rates, lefts, paths, level, slot, times):
    """Add `times` times the lowest level on each flow's path to its rate."""
    if paths.shape[1] == 2:
        last = level[slot]
        for i in range(len(rates)):
            rates[i] += times * min(last, level[paths[i, 0]]) if lefts[i] > 0.0 else 0.0
        return
    for i in range(len(rates)):
        lowest = np.inf
        for h in range(paths.shape[1]):
            lowest = min(lowest, level[paths[i, h]])
        rates[i] += times * lowest if lefts[i] > 0.0 else 0.0


@inlined
def _greedy(served, group):
    """Give each flow of a coflow, in list order, all that its links have left."""
    runs, link, path, rate = served.runs, served.link, served.path, served.senders.rate
    left, dust, used = served.on_links.left, served.on_links.dust, served.traffic.used
    nowhere = len(used) - 1
    for r in range(group.run, group.run + group.runs):
        last = runs[r].slot
        if not served.rest.room[last] or served.rest.wants[last] == 0.0:
            continue
        for i in range(runs[r].first, runs[r].stop):
            if left[link[last]] <= dust[link[last]]:
                break
            most = left[link[last]] if served.senders.left[i] > 0.0 else 0.0
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


register(Served, Engine(_find_rates, _find_end, _crossing_in, _advance, _write_rows, _join,
                        _leave))
