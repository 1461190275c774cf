"""Compiled service of coflows in order: an engine of the event loop.

A policy's order stays the same between two coflow events, so rates can be set again at the end of
each flow without a call of Python. The engine works on a copy of the unfinished flows in service
order, `serving_parts.Served`. Each step gives the same rates as `FabricView.serve`, which uses the
building blocks of `netsim.fabric.kernels.maxmin`.

A *slot* is a link of one coflow. A flow *wants* bandwidth on a slot if all of its other links have
some left. How much flows want on each slot is kept between steps, and updated for the slots that
have become full or are no longer full.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled, in_place, inlined
from netsim.fabric.kernels.filling import ROUNDED, freeze_of, release_all, release_members
from netsim.fabric.kernels.heap import heap_up
from netsim.fabric.kernels.loop import (
    REDO,
    REFUSED,
    UNCHANGED,
    WAITS,
    end_flow,
    loop_of,
)
from netsim.fabric.kernels.progress import mark_started, refresh
from netsim.fabric.kernels.rules import SOUND, UNUSED, decide
from netsim.fabric.kernels.serving_parts import (
    GREEDY,
    MADD,
    MAXMIN,
    QUEUES,
    Service,
)
from netsim.fabric.kernels.serving_progress import (
    advance,
    advance_run,
    crossing_in,
    note_least,
    settle,
    soonest,
)
from netsim.fabric.kernels.serving_rows import can_resume, copy_rows, strike, update, write_back


# --- max-min fair within a group -----------------------------------------------------------
@in_place
def fill(served, group, filling, left):
    """Share what is left among the flows of a group, max-min fairly; return whether any gets some.

    The freezing order of the last time is tried first. It is right if no slot comes too late and no
    slot is overloaded. Otherwise the lowest level is searched for. `filling` is one of the two of
    `served`. `left`, by link, is updated, and what the group uses of it is added to ``used``.
    """
    see_room(served, group, filling, left)
    link, used = served.link, served.traffic.used
    slots, turns = served.desk.slots, served.desk.turns
    count = 0
    for k in range(group.slot, group.slot + group.slots):
        s = filling.turn[k]
        if filling.room[s] and filling.wants[s] > 0.0:
            slots[count] = s
            turns[count] = k
            count += 1
    if count == 0:
        return False
    slots = slots[:count]
    speed = _freeze_as_before(served, slots, group, filling, left)
    if speed < 0.0:
        speed = _freeze_by_level(served, slots, group, filling, left)
    group.speed += speed
    for k in range(count):
        s = slots[k]
        filling.turn[turns[k]] = s
        rest = 0.0 if filling.full_at[s] < np.inf else max(filling.left[s], 0.0)
        used[s] += left[link[s]] - rest
        left[link[s]] = rest
    return True


@inlined
def _freeze_as_before(served, order, group, filling, left):
    """Freeze slots in the given order; return the sum of rates, or -1 if the order is wrong."""
    grows = _thaw(served, order, group, filling, left)
    speed, group.top, _, late = _freeze(order, filling.unfrozen[:0], grows, filling,
                                       served.desk.heap)
    if late:
        return -1.0
    for s in order:
        overloads = filling.left[s] < -ROUNDED * left[served.link[s]]
        if filling.full_at[s] == np.inf and overloads:
            return -1.0
    return speed


@inlined
def _freeze_by_level(served, slots, group, filling, left):
    """Freeze slots, the lowest level first, and store that order; return the sum of rates."""
    heap, levels = served.desk.heap[:len(slots)], served.desk.levels[:len(slots)]
    grows = _thaw(served, slots, group, filling, left)
    for k in range(len(slots)):
        heap[k] = slots[k]
        levels[k] = filling.left[slots[k]] / filling.unfrozen[slots[k]]
    heap_up(levels, heap)
    speed, group.top, _, _ = _freeze(heap, levels, grows, filling, slots)
    for k in range(len(slots)):
        slots[k] = heap[len(slots) - 1 - k]
    return speed


@in_place
def _thaw(served, slots, group, filling, left):
    """Reset the flows on the given slots to grow from 0; return their number, inf if not known."""
    grows = 0.0
    for s in slots:
        filling.unfrozen[s] = filling.wants[s]
        filling.left[s] = left[served.link[s]]
        filling.full_at[s] = np.inf
        grows += filling.unfrozen[s]
    return 0.5 * grows if group.paired else np.inf


@inlined
def _release(filling, slot, level):
    """Remove the flows of a full slot from their other slots; see `filling`."""
    at = filling.links[slot]
    if at.begin >= 0:
        end = at.begin + at.stop - at.first
        release_all(filling.share[at.first:at.stop], filling.unfrozen[at.begin:end],
                    filling.left[at.begin:end], level)
    else:
        release_members(at.first, at.stop, filling.share, filling.others, filling.unfrozen,
                        filling.left, filling.full_at, level)


_freeze = freeze_of(_release)


@in_place
def see_room(served, group, filling, left):
    """Update what flows want, from the slots that became full or are no longer full."""
    link, dust = served.link, served.on_links.dust
    wants, room, share, others = filling.wants, filling.room, filling.share, filling.others
    for s in range(group.slot, group.slot + group.slots):
        has = left[link[s]] > dust[link[s]]
        if has == room[s]:
            continue
        room[s] = has
        filling.full_at[s] = 0.0
        sign = 1.0 if has else -1.0
        slot = filling.links[s]
        if slot.begin >= 0:
            _want_all(share[slot.first:slot.stop],
                      wants[slot.begin:slot.begin + slot.stop - slot.first], sign)
            continue
        for m in range(slot.first, slot.stop):
            for h in range(others.shape[1]):
                free = True
                for g in range(others.shape[1]):
                    free &= g == h or room[others[m, g]]
                if free:
                    wants[others[m, h]] += sign * share[m]


@inlined
def _want_all(share, wants, sign):
    for m in range(len(share)):
        wants[m] += sign * share[m]


# --- what the loop calls ---------------------------------------------------------------
@in_place
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


@in_place
def _find_end(served, _coflows, state):
    """Find when the next flow ends; see `loop.find_end`."""
    state.dt = soonest(served)
    state.end = state.now + state.dt


@in_place
def _crossing_in(served):
    return 0.0 if served.state[0].reached else crossing_in(served)


@in_place
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


@in_place
def _write_rows(served, coflows, pools, state):
    """Write bytes to the rows; the copy is out of date from then on."""
    if not served.state[0].stale:
        _write(served, coflows, pools[0], state.now, False)
        served.state[0].stale = 1


@in_place
def _join(served, _coflows, _pools):
    """Return True: a new copy is made, as `_write_rows` has been called before."""
    served.state[0].joined = 1
    return True


@in_place
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


#: See `loop_of`.
run = loop_of("serving", find_rates=_find_rates, find_end=_find_end, crossing_in=_crossing_in,
              advance=_advance, write_rows=_write_rows, join=_join, leave=_leave)


# --- by a compiled rule --------------------------------------------------------------------
@compiled
def serve_by(ruled, served, loop, tables):
    """Serve coflows in the order that a rule gives, again and again until the loop stops.

    The rule is asked first if the loop ``decides``; otherwise its last decision still holds.
    `served`, the engine of the call before, is resumed if the loop was held or paused, and if not,
    updated if that is possible. Return the engine.
    """
    rows, jobs, pools, capacity = tables.rows, tables.jobs, tables.pools, tables.capacity
    state = loop[0]
    until = state.until
    state.until = min(until, ruled.order.wake_at[0])
    resumes = state.reason in UNCHANGED
    while resumes or _decide(ruled, rows, jobs, pools, capacity, state, until):
        if not resumes:
            service = _service(ruled, state.count)
            if can_resume(served):
                update(served, rows[:state.count], pools[0], service, state.interval)
            else:
                served = copy_rows(rows[:state.count], pools[0], pools[1], pools[2], capacity,
                                   service, state.interval)
        resumes = False
        run(served, loop, tables)
        if state.reason != REDO:
            break
    state.until = until
    return served


@in_place
def _decide(ruled, rows, jobs, pools, capacity, state, until):
    """Ask the rule if the loop decides; return whether there is a decision to put into force."""
    count = state.count
    state.notice = state.now  # so that the loop finds rates first
    state.decides &= count > 0
    if state.decides:
        flows, hops, loads = pools
        if ruled.reads.gamma or ruled.reads.active_gamma:
            refresh(rows[:count], flows, hops, loads, capacity)
        state.link = decide(ruled, rows[:count], jobs, state.now)
        if state.link == SOUND and _has_unused(ruled, count):
            state.link = UNUSED
        if state.link != SOUND:
            state.reason = REFUSED
            return False
    elif count == 0:
        ruled.order.wake_at[0] = np.inf
    state.until = min(until, ruled.order.wake_at[0])
    return True


@inlined
def _has_unused(ruled, count):
    """Whether the rule has written shares, which its form ignores."""
    for c in range(count):
        if ruled.order.share[c] != 0.0 or ruled.order.most[c] < ruled.form.most:
            return True
    return False


@inlined
def _service(ruled, count):
    """Return the decision in force as a `Service`."""
    order, form = ruled.order, ruled.form
    sequence = ruled.sequence[:count].copy()
    queue = order.queue[:count].copy()
    found = 0
    for q in range(len(order.part)):
        for c in ruled.sequence[:count]:
            if queue[c] == q:
                sequence[found] = c
                found += 1
    return Service(sequence, form.primary, form.backfill, queue, order.part.copy(),
                   order.limit[:count].copy())
