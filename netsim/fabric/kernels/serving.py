"""Compiled service of coflows in order: an engine of the event loop.

A policy's order stays the same between two coflow events, so rates can be set again at the end of
each flow without a call of Python. The engine works on a copy of the unfinished flows in service
order, `serving_rows.Served`. Each step gives the same rates as `FabricView.serve`, which uses the
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
from netsim.fabric.kernels.serving_rows import (
    BACKFILL,
    COFLOWS,
    EAGER,
    FRESH,
    GONE,
    GREEDY,
    JOINED,
    MADD,
    MAXMIN,
    MOVING,
    PRIMARY,
    QUEUES,
    REACHED,
    STALE,
    Served,
    can_resume,
    strike,
    write_back,
)
from netsim.fabric.kernels.serving_stretch import (
    ends,
    let_pass_over,
    note_least,
    settle,
    soonest_of,
)
from netsim.fabric.kernels.serving_time import advance, crossing_in, let_pass, soonest

__all__: list[str] = []  # the event loop has its functions, see the end

# --- what the loop calls ---------------------------------------------------------------


def _find_rates(served, coflows, _jobs, _pools, _capacity, state):
    """Set every flow's rate; return `REDO` if a new copy is needed or pays.

    It is needed when coflows have come or gone, and pays once a fifth of the flows have ended.
    """
    if served.form[STALE] or not can_resume(served):
        return REDO
    _serve(served)
    for k in served.moving[:served.form[MOVING]]:
        group = served.groups[k]
        if group.row >= 0 and group.speed > 0.0:
            mark_started(coflows[group.row], state)
    return WAITS


def _find_end(served, _coflows, state):
    """Find when the next flow ends; see `loop.find_end`."""
    moving = served.moving[:served.form[MOVING]]
    if served.form[EAGER]:
        dt = soonest(served.groups, moving, served.senders, served.runs)
    else:
        dt = soonest_of(served.groups, moving, served.runs, served.senders, served.path,
                        served.held, served.rest, served.past, served.form[PRIMARY] == QUEUES)
    state.dt, state.end = dt, state.now + dt


def _crossing_in(served):
    if served.form[REACHED]:
        return 0.0
    return crossing_in(served.groups, served.moving[:served.form[MOVING]])


def _advance(served, coflows, pools, _capacity, dt, now, slack, state, finished, carried):
    """Let `dt` seconds pass; see `loop.advance`."""
    groups, runs, path, past = served.groups, served.runs, served.path, served.past
    senders = served.senders
    left, rate, floor = senders.left, senders.rate, senders.floor
    holds, eager = served.form[PRIMARY] == QUEUES, served.form[EAGER]
    moving = served.moving[:served.form[MOVING]]
    let_pass(groups, moving, served.link, served.links, served.traffic, dt, carried)
    if not eager:
        let_pass_over(groups, moving, runs, senders, path, served.held, served.rest, past, holds,
                      dt)
    for k in moving:
        for r in range(groups[k].run, groups[k].run + groups[k].runs):
            run = runs[r]
            if run.busy and (advance(senders, run, dt, slack) if eager else
                             ends(run, groups[k], senders, path, past, holds)):
                for i in range(run.first, run.stop):
                    if left[i] <= (floor[i] + rate[i] * slack if eager else floor[i]):
                        _end(served, i, coflows, pools[0], now, state, finished)
                # Else those that are left, at MADD's rates alone, would never be next.
                note_least(run, left[run.first:run.stop], floor[run.first:run.stop])
        groups[k].gamma = max(groups[k].gamma - dt, 0.0)


@inlined
def _end(served, i, coflows, flows, now, state, finished):
    """End a flow, and its coflow if it is the last; the bandwidth is idle until that is noticed."""
    rate, place = served.senders.rate, served.senders.place
    strike(served, i)
    served.form[GONE] += 1
    if served.form[EAGER]:
        served.groups[place[i]].speed -= rate[i]
        for h in range(served.path.shape[1]):
            served.traffic[1][served.path[i, h]] -= rate[i]
        rate[i] = 0.0
    end_flow(coflows, served.rows[place[i]], flows[served.senders.flow[i]], now, state,
             finished)


def _write_rows(served, coflows, pools, state):
    """Write bytes to the rows; the copy is out of date from then on."""
    if not served.form[STALE]:
        _write(served, coflows, pools[0], state.now, False)
        served.form[STALE] = 1


def _join(served, _coflows, _pools):
    """Return True: a new copy is made, as `_write_rows` has been called before."""
    served.form[JOINED] = 1
    return True


def _leave(served, coflows, pools, state):
    """Write bytes to the rows, and rates if these stay in force."""
    if not served.form[STALE]:  # else that has been done, and rows may have moved
        in_force = state.reason == WAITS or state.only_moves == 1
        _write(served, coflows, pools[0], state.now, in_force)


@in_place
def _write(served, coflows, flows, now, in_force):
    """Compute bytes and rates of all flows, and write them to the rows."""
    groups, runs = served.groups, served.runs
    first, eager = served.form[PRIMARY], served.form[EAGER]
    if not eager:
        for k in range(len(groups)):
            if groups[k].steps:
                settle(groups[k], runs, served.senders, served.path, served.past,
                       first == QUEUES)
    if not in_force:
        for r in range(len(runs)):
            runs[r].busy = 0
    elif not eager:
        for k in served.moving[:served.form[MOVING]]:
            _set_rates(groups[k], runs, served.senders, served.path, served.held, served.rest,
                       served.form)
    write_back(served, coflows, flows, now)


# --- one step --------------------------------------------------------------------------


@inlined
def _serve(served):
    """Set the rate of every flow."""
    groups, link, rest = served.groups, served.link, served.rest
    walls, still, form = served.walls, served.still, served.form
    turn = served.turn[:form[COFLOWS]]
    first, backfill, eager = form[PRIMARY], form[BACKFILL], form[EAGER]
    left, _, capacity, dust = served.on_links
    for n in range(len(capacity)):
        left[n] = capacity[n] if first != QUEUES else 0.0
    for k in served.moving[:form[MOVING]]:
        groups[k].speed = groups[k].held
        groups[k].gamma = 0.0
    _, used, held = served.traffic
    for s in range(len(used)):
        used[s] = held[s]
    if first == MADD:
        for k in turn:
            if not (still[k] and _is_full(walls[k], left, dust)):
                _madd(served, groups[k])
                still[k] &= groups[k].gamma == 0.0
    elif first == QUEUES:
        n = 0
        while n < len(turn):
            n = _serve_queue(n, served)
    fresh, form[FRESH] = form[FRESH], 0
    count = 0
    for k in turn:
        group = groups[k]
        if still[k] and _is_full(walls[k], left, dust):
            form[REACHED] |= fresh and group.left <= group.reached
            continue
        stays = first == QUEUES and not eager and not (group.anew or group.gains)
        if backfill == MAXMIN:
            group.gains = fill(group, rest, link, used, dust, left, served.desk)
        elif backfill == GREEDY:
            see_room(group, rest, link, dust, left)
        if not eager:
            if not stays or group.gains:
                _set_pace(group, served.runs, served.held, rest, first)
        else:
            _set_rates(group, served.runs, served.senders, served.path, served.held, rest, form)
            if backfill == GREEDY:
                _greedy(served, group)
        moves = group.speed > 0.0 or group.gamma > 0.0 or group.gains
        if not moves and (fresh or not still[k]):
            form[REACHED] |= group.left <= group.reached
        still[k] = not moves
        if moves:
            served.moving[count] = k
            count += 1
    form[MOVING] = count


@in_place
def _is_full(walls, left, dust):
    """Whether a link is full that all flows of a group cross."""
    return left[walls[0]] <= dust[walls[0]] or left[walls[1]] <= dust[walls[1]]


@inlined
def _serve_queue(n, served):
    """Serve the queue whose first coflow is the n-th from its share, and add what it leaves.

    The rates of a coflow only change after one of its own flows, or of coflows before it, has
    ended.

    Returns
    -------
    n : int
        The first coflow of the next queue.
    """
    groups, link, form = served.groups, served.link, served.form
    turn = served.turn[:form[COFLOWS]]
    _, used, held = served.traffic
    left, share, capacity, dust = served.on_links
    queues, queue = served.queues, served.queues[n]
    for c in range(len(capacity)):
        share[c] = served.queue_shares[queue] * capacity[c]
    anew = form[FRESH] == 1
    while n < len(turn) and queues[n] == queue:
        k = turn[n]
        n += 1
        if served.still[k] and _is_full(served.walls[k], share, dust):
            continue
        group = groups[k]
        anew |= group.thinner == 1
        group.anew = anew
        if anew:
            group.thinner = 0
            group.renewed = 1
            group.speed = 0.0
            for s in range(group.slot, group.slot + group.slots):
                used[s] = 0.0
            fill(group, served.held, link, used, dust, share, served.desk)
            group.held = group.speed
            group.held_top = group.top
            served.still[k] &= group.speed == 0.0
            for s in range(group.slot, group.slot + group.slots):
                held[s] = used[s]
        else:
            for s in range(group.slot, group.slot + group.slots):
                share[link[s]] -= held[s]
    _pool(left[:len(capacity)], share[:len(capacity)])
    return n


@in_place
def _pool(left, share):
    """Add positive values only, without branches, so that the compiler vectorizes the loop."""
    for c in range(len(left)):
        left[c] += share[c] if share[c] > 0.0 else 0.0


@inlined
def _madd(served, group):
    """Let all flows of a coflow end together on what is left; give it nothing if a link is full."""
    slots, link, senders, path = served.slots, served.link, served.senders, served.path
    load, used, _ = served.traffic
    left, _, _, dust = served.on_links
    gamma = 0.0
    stale = False
    for s in range(group.slot, group.slot + group.slots):
        slot = slots[s]
        if slot.open > 0:
            if left[link[s]] <= dust[link[s]]:
                return
            stale |= load[s] <= slot.known / 2
    if stale:
        settle(group, served.runs, senders, path, served.past, False)
        _add_up(group, slots, load, senders.left, path)
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


@inlined
def _add_up(group, slots, load, remaining, path):
    """Sum the bytes left of a coflow on each of its links."""
    for s in range(group.slot, group.slot + group.slots):
        load[s] = 0.0
    for i in range(group.flow, group.flow + group.flows):
        for h in range(path.shape[1]):
            load[path[i, h]] += remaining[i]
    for s in range(group.slot, group.slot + group.slots):
        slots[s].known = load[s]


@inlined
def _set_pace(group, runs, held, rest, first):
    """Store an upper bound of the rates in each run of flows; see `serving_stretch`."""
    for r in range(group.run, group.run + group.runs):
        run = runs[r]
        run.most = 0.0
        if first == QUEUES and held.room[run.slot] and held.wants[run.slot] > 0.0:
            run.most += min(held.full_at[run.slot], group.held_top)
        if rest.room[run.slot] and rest.wants[run.slot] > 0.0:
            run.most += min(rest.full_at[run.slot], group.top)
        run.busy = run.least < np.inf and (run.most > 0.0 or group.gamma > 0.0)
        run.idle &= not run.busy


@in_place
def _set_rates(group, runs, senders, path, held, rest, form):
    """Give the flows of a group the sum of their rates from MADD and the fillings."""
    left, rate = senders.left, senders.rate
    for r in range(group.run, group.run + group.runs):
        run = runs[r]
        holds = (form[PRIMARY] == QUEUES and held.room[run.slot]
                 and held.wants[run.slot] > 0.0)
        gets = rest.room[run.slot] and rest.wants[run.slot] > 0.0
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
            _add_levels(rates, lefts, paths, held.full_at, run.slot)
        if gets and form[BACKFILL] == MAXMIN:
            _add_levels(rates, lefts, paths, rest.full_at, run.slot)


@in_place
def _add_levels(rates, lefts, paths, level, slot):
    """Add the lowest level on each flow's path to its rate."""
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


@inlined
def _greedy(served, group):
    """Give each flow of a coflow, in list order, all that its links have left."""
    runs, link, path, rate = served.runs, served.link, served.path, served.senders.rate
    left, _, _, dust = served.on_links
    used = served.traffic[1]
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
