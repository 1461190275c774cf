"""Compiled service of coflows in order: an engine of the event loop.

A policy's order stays the same between two coflow events, so rates can be set again at the end of
each flow without a call of Python. The engine works on a copy of the unfinished flows in service
order, `priority_state.PriorityState`: read there first what it has. Each step gives the same rates
as `FabricView.serve`, which uses the building blocks of `netsim.fabric.kernels.blocks`.

A flow *wants* bandwidth on a slot if all of its other links have some left. How much flows want on
each slot is kept between steps, and updated for the slots that have become full or are no longer
full.

Here are the functions that the loop calls, then a step: each coflow in turn gets what MADD or its
queue gives it, then its part of the rest. `priority_progress` finds the next end and moves bytes,
`priority_rows` makes the copy and writes it back.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled, in_place, inlined
from netsim.fabric.kernels.filling import (
    ROUNDED,
    freeze_of,
    lowest_on,
    release_all,
    release_members,
)
from netsim.fabric.kernels.heap import heap_up
from netsim.fabric.kernels.loop import REDO, REFUSED, UNCHANGED, WAITS, end_flow, loop_of
from netsim.fabric.kernels.priority_progress import (
    find_end,
    flush,
    flush_run,
    limit_in,
    move_coflows,
    move_flows,
    note_least,
)
from netsim.fabric.kernels.priority_rows import (
    can_resume,
    remove_flow,
    take_rows,
    update,
    write_back,
)
from netsim.fabric.kernels.priority_state import (
    ADDED_UP,
    CAPACITY,
    DUST_LEFT,
    FILL_KEY,
    FILLED,
    FREE,
    GREEDY,
    HEAP,
    HELD,
    IN_QUEUE,
    LEVEL,
    LOAD,
    MADD,
    MAXMIN,
    MOVING,
    PLACES,
    QUEUES,
    REST,
    TURN,
    USED,
    WANTS,
    Service,
    filling_of,
    moving,
    runs_of,
    slots_of,
)
from netsim.fabric.kernels.progress import mark_started, refresh
from netsim.fabric.kernels.rules import (
    MOST,
    SEQUENCE,
    SHARE,
    SOUND,
    SPARE,
    UNUSED,
    WRITTEN,
    decide,
    output_of,
)


# --- what the loop calls ---------------------------------------------------------------
@in_place
def _find_rates(engine, rows, _jobs, _arrays, _capacity, loop):
    """Set every flow's rate; return `REDO` if a new copy is needed or pays.

    It is needed when coflows have come or gone, and pays once a fifth of the flows have ended.
    """
    if engine.status[0].stale or not can_resume(engine):
        return REDO
    _serve(engine)
    for k in moving(engine):
        coflow = engine.coflows[k]
        if coflow.row >= 0 and coflow.speed > 0.0:
            mark_started(rows[coflow.row], loop)
    return WAITS


@in_place
def _advance(engine, rows, arrays, _capacity, dt, now, slack, loop, finished, carried):
    """Move bytes for `dt` seconds; see `loop.advance`."""
    left, rate, floor = engine.left, engine.rate, engine.floor
    move_coflows(engine, dt, carried)
    for k in moving(engine):
        coflow = engine.coflows[k]
        for run in runs_of(engine, coflow):
            if _may_end(engine, run, coflow, dt, slack):
                for i in range(run.first, run.stop):
                    if left[i] <= (floor[i] + rate[i] * slack if engine.status[0].eager
                                   else floor[i]):
                        _end(engine, i, rows, arrays.flows, now, loop, finished)
                # Else those that are left, at MADD's rates alone, would never be next.
                note_least(run, left[run.first:run.stop], floor[run.first:run.stop])
        coflow.gamma = max(coflow.gamma - dt, 0.0)


@inlined
def _may_end(engine, run, coflow, dt, slack):
    """Bring a run's flows up to date if one may have ended in `dt` seconds; return whether."""
    if not run.busy:
        return False
    if engine.status[0].eager:
        return move_flows(engine.left[run.first:run.stop], engine.rate[run.first:run.stop],
                          engine.floor[run.first:run.stop], dt, slack) > 0
    # Twice, as the bound is rounded otherwise than what the flows have left.
    if run.least_left > 2.0 * run.floor:
        return False
    flush_run(engine, run, coflow)
    return True


@inlined
def _end(engine, i, rows, flows, now, loop, finished):
    """End a flow, and its coflow if it is the last; the bandwidth is idle until that is noticed."""
    coflow, rate, used = engine.coflows[engine.flows[i].coflow], engine.rate, engine.by_slot[USED]
    remove_flow(engine, i)
    engine.status[0].ended += 1
    if engine.status[0].eager:
        coflow.speed -= rate[i]
        for s in engine.path[i]:
            used[s] -= rate[i]
        rate[i] = 0.0
    end_flow(rows, coflow.row, flows[engine.flows[i].row], now, loop, finished)


@inlined
def _write_rows(engine, rows, arrays, loop):
    """Write bytes to the rows; the copy is out of date from then on."""
    if not engine.status[0].stale:
        engine.status[0].stale = 1
        _write(engine, rows, arrays.flows, loop)


@inlined
def _join(engine, _rows, _arrays):
    """Return True: a new copy is made, as `_write_rows` has been called before."""
    engine.status[0].admitted = 1
    return True


@inlined
def _leave(engine, rows, arrays, loop):
    """Write bytes to the rows, and rates if these stay in force."""
    if not engine.status[0].stale:  # else that has been done, and rows may have moved
        _write(engine, rows, arrays.flows, loop)


@in_place
def _write(engine, rows, flows, loop):
    """Write the bytes of all flows to the rows, and their rates if these stay in force."""
    status = engine.status[0]
    in_force = not status.stale and (loop.reason == WAITS or loop.advance_only == 1)
    for k in range(len(engine.coflows)):
        coflow = engine.coflows[k]
        if coflow.row < 0:
            continue
        if coflow.steps:
            flush(engine, coflow)
        if in_force and not (coflow.idle or status.eager):
            _set_rates(coflow, status, engine.runs, engine.left, engine.rate, engine.path,
                       engine.fillings)
        write_back(engine, coflow, rows[coflow.row], flows, loop.now, in_force)


#: See `loop_of`.
run = loop_of("priority", find_rates=_find_rates, find_end=find_end, limit_in=limit_in,
              advance=_advance, write_rows=_write_rows, join=_join, leave=_leave)


# --- one step --------------------------------------------------------------------------
@inlined
def _serve(engine):
    """Set the rate of every flow."""
    status, coflows, lists = engine.status[0], engine.coflows, engine.lists
    turn, left, dust = lists[TURN, :status.coflows], engine.by_link[REST], engine.by_link[DUST_LEFT]
    _begin_step(engine)
    if status.primary == MADD:
        for k in turn:
            if not _is_passed_over(coflows[k], left, dust):
                _madd(engine, coflows[k])
                coflows[k].idle &= coflows[k].gamma == 0.0
    elif status.primary == QUEUES:
        n = 0
        while n < len(turn):
            n = _serve_queue(n, engine, turn)
    fresh, status.fresh = status.fresh, 0
    status.moving = 0
    for k in turn:
        coflow = coflows[k]
        if _is_passed_over(coflow, left, dust):
            status.reached |= fresh and coflow.left <= coflow.reached
            continue
        _serve_rest(engine, coflow)
        moves = coflow.speed > 0.0 or coflow.gamma > 0.0 or coflow.gains
        if not moves and (fresh or not coflow.idle):
            status.reached |= coflow.left <= coflow.reached
        coflow.idle = not moves
        if moves:
            lists[MOVING, status.moving] = k
            status.moving += 1


@inlined
def _begin_step(engine):
    """Give links all of their bandwidth, or none before queues; keep what queues have given."""
    queues = engine.status[0].primary == QUEUES
    left, capacity = engine.by_link[REST, :-1], engine.by_link[CAPACITY, :-1]
    for link in range(len(left)):
        left[link] = 0.0 if queues else capacity[link]
    for k in moving(engine):
        coflow = engine.coflows[k]
        coflow.speed = coflow.queue_speed
        coflow.gamma = 0.0
    used, held = engine.by_slot[USED], engine.by_slot[HELD]
    for s in range(len(used)):
        used[s] = held[s]


@inlined
def _is_passed_over(coflow, left, dust):
    """Whether a coflow gets nothing: as before, and a link of all its flows is full.

    As it got nothing, each of its flows has a slot of level 0 in both fillings.
    """
    one, two = coflow.common_link, coflow.common_link_2
    return coflow.idle and (left[one] <= dust[one] or left[two] <= dust[two])


# --- MADD ------------------------------------------------------------------------------
@inlined
def _madd(engine, coflow):
    """Make the flows of a coflow end together on what is left; do nothing if a link is full."""
    slots, load, used = engine.slots, engine.by_slot[LOAD], engine.by_slot[USED]
    left, dust = engine.by_link[REST], engine.by_link[DUST_LEFT]
    gamma = 0.0
    stale = False
    for s in slots_of(coflow):
        slot = slots[s]
        if slot.open > 0:
            if left[slot.link] <= dust[slot.link]:
                return
            stale |= load[s] <= engine.by_slot[ADDED_UP, s] / 2
    if stale:
        flush(engine, coflow)
        _add_up(engine, coflow)
    for s in slots_of(coflow):
        if slots[s].open > 0:
            gamma = max(gamma, load[s] / left[slots[s].link])
    if gamma == 0.0:
        return
    coflow.gamma = coflow.gamma_then = gamma
    coflow.speed = coflow.left / gamma
    for s in slots_of(coflow):
        if slots[s].open > 0:
            used[s] = load[s] / gamma
            left[slots[s].link] -= used[s]


@inlined
def _add_up(engine, coflow):
    """Sum the bytes left of a coflow on each of its links."""
    load, path = engine.by_slot[LOAD], engine.path
    for s in slots_of(coflow):
        load[s] = 0.0
    for i in range(coflow.flow, coflow.flow + coflow.flows):
        for h in range(path.shape[1]):
            load[path[i, h]] += engine.left[i]
    for s in slots_of(coflow):
        engine.by_slot[ADDED_UP, s] = load[s]


# --- queues ----------------------------------------------------------------------------
@inlined
def _serve_queue(n, engine, turn):
    """Serve the queue whose first coflow is the n-th from its share, and add what it leaves.

    Return the place of the first coflow of the next queue. The rates of a coflow only change after
    one of its own flows, or of coflows before it, has ended.
    """
    coflows, slots, held = engine.coflows, engine.slots, engine.by_slot[HELD]
    left, dust = engine.by_link[IN_QUEUE], engine.by_link[DUST_LEFT]
    capacity = engine.by_link[CAPACITY, :-1]
    queue, share = coflows[turn[n]].queue, coflows[turn[n]].queue_share
    for link in range(len(capacity)):
        left[link] = share * capacity[link]
    refill = engine.status[0].fresh == 1
    while n < len(turn) and coflows[turn[n]].queue == queue:
        coflow = coflows[turn[n]]
        n += 1
        if _is_passed_over(coflow, left, dust):
            continue
        refill |= coflow.thinner == 1
        coflow.refilled = refill
        if refill:
            _refill(engine, coflow)
        else:
            for s in slots_of(coflow):
                left[slots[s].link] -= held[s]
    _add_positive(engine.by_link[REST, :-1], left[:-1])
    return n


@inlined
def _refill(engine, coflow):
    """Give a coflow its part of the share of its queue once more."""
    used, held = engine.by_slot[USED], engine.by_slot[HELD]
    coflow.thinner = 0
    coflow.renewed = 1
    coflow.speed = 0.0
    for s in slots_of(coflow):
        used[s] = 0.0
    _fill(filling_of(engine, IN_QUEUE), coflow, used, engine.lists, engine.by_slot[FILL_KEY])
    coflow.queue_speed = coflow.speed
    coflow.queue_top_level = coflow.top_level
    coflow.idle &= coflow.speed == 0.0
    for s in slots_of(coflow):
        held[s] = used[s]


@in_place
def _add_positive(left, more):
    """Add positive values only, without branches, so that the compiler vectorizes the loop."""
    for c in range(len(left)):
        left[c] += more[c] if more[c] > 0.0 else 0.0


# --- the rest --------------------------------------------------------------------------
@inlined
def _serve_rest(engine, coflow):
    """Give a coflow its part of what is left, and set the rates of its flows or their bounds."""
    status = engine.status[0]
    # If it got nothing of the rest in the last step, nor gets any now, rates are the same.
    stays = (status.primary == QUEUES and not status.eager
             and not (coflow.refilled or coflow.gains))
    if status.backfill == MAXMIN:
        coflow.gains = _fill(filling_of(engine, REST), coflow, engine.by_slot[USED], engine.lists,
                             engine.by_slot[FILL_KEY])
    elif status.backfill == GREEDY:
        _note_free(filling_of(engine, REST), coflow)
    if status.eager:
        _set_rates(coflow, status, engine.runs, engine.left, engine.rate, engine.path,
                   engine.fillings)
        if status.backfill == GREEDY:
            _serve_greedily(engine, coflow)
    elif not stays or coflow.gains:
        _set_bounds(engine, coflow)


@inlined
def _set_bounds(engine, coflow):
    """Store an upper bound of the rates in each run of flows; see `priority_progress`."""
    queues = engine.status[0].primary == QUEUES
    in_queue, rest = engine.fillings[IN_QUEUE], engine.fillings[REST]
    for run in runs_of(engine, coflow):
        run.top_rate = 0.0
        if queues and _gets(in_queue, run.slot):
            run.top_rate += min(in_queue[LEVEL, run.slot], coflow.queue_top_level)
        if _gets(rest, run.slot):
            run.top_rate += min(rest[LEVEL, run.slot], coflow.top_level)
        run.busy = run.least_left < np.inf and (run.top_rate > 0.0 or coflow.gamma > 0.0)
        run.idle &= not run.busy


@inlined
def _gets(filling, slot):
    """Whether flows get bandwidth on a slot."""
    return filling[FREE, slot] > 0.0 and filling[WANTS, slot] > 0.0


@in_place
def _set_rates(coflow, status, runs, left, rate, path, fillings):
    """Give the flows of a coflow the sum of their rates from MADD and the fillings.

    Of x bytes, a flow sends x/g per second by MADD, where g = gamma_then, and f by the fillings.
    After t seconds, left = x - (x/g + f) t and gamma = g - t: its rate is left/gamma + f g/gamma.
    """
    times = coflow.gamma_then / coflow.gamma if coflow.gamma > 0.0 else 1.0
    in_queue, rest = fillings[IN_QUEUE], fillings[REST]
    for run in runs[coflow.run:coflow.run + coflow.runs]:
        holds = status.primary == QUEUES and _gets(in_queue, run.slot)
        gets = _gets(rest, run.slot)
        run.busy = holds or gets or coflow.gamma > 0.0
        run.idle &= not run.busy
        if not run.busy:
            continue
        lefts, rates = left[run.first:run.stop], rate[run.first:run.stop]
        for i in range(len(rates)):
            rates[i] = lefts[i] / coflow.gamma if coflow.gamma > 0.0 else 0.0
        if holds:
            _add_levels(rates, lefts, path[run.first:run.stop], in_queue[LEVEL], run.slot, 1.0)
        if gets and status.backfill == MAXMIN:
            _add_levels(rates, lefts, path[run.first:run.stop], rest[LEVEL], run.slot, times)


@inlined
def _add_levels(rate, left, path, level, slot, times):
    """Add `times` times the lowest level on each flow's path to its rate."""
    if path.shape[1] == 2:
        last = level[slot]
        for i in range(len(rate)):
            rate[i] += times * min(last, level[path[i, 0]]) if left[i] > 0.0 else 0.0
        return
    for i in range(len(rate)):
        rate[i] += times * lowest_on(path[i], level) if left[i] > 0.0 else 0.0


@in_place
def _serve_greedily(engine, coflow):
    """Give each flow of a coflow, in list order, all that its links have left."""
    slots, path, rate, used = engine.slots, engine.path, engine.rate, engine.by_slot[USED]
    left, dust, nowhere = engine.by_link[REST], engine.by_link[DUST_LEFT], len(slots) - 1
    for run in runs_of(engine, coflow):
        last = slots[run.slot].link
        if not _gets(engine.fillings[REST], run.slot):
            continue
        for i in range(run.first, run.stop):
            if left[last] <= dust[last]:
                break
            most = left[last] if engine.left[i] > 0.0 else 0.0
            for h in range(path.shape[1]):
                if path[i, h] < nowhere:
                    link = slots[path[i, h]].link
                    most = min(most, left[link]) if left[link] > dust[link] else 0.0
            if most > 0.0:
                rate[i] += most
                coflow.speed += most
                for h in range(path.shape[1]):
                    if path[i, h] < nowhere:
                        used[path[i, h]] += most
                        left[slots[path[i, h]].link] -= most


# --- max-min fair within a coflow ----------------------------------------------------------
@in_place
def _fill(filling, coflow, used, lists, keys):
    """Share what is left among the flows of a coflow, max-min fairly; return whether any gets some.

    The freezing order of the last time is tried first. It is right if no slot comes too late and no
    slot is overloaded. Otherwise the lowest level is searched for. What is left of links is
    updated, and what the coflow uses of it is added to `used`.
    """
    _note_free(filling, coflow)
    order, filled, places, left = filling.order, lists[FILLED], lists[PLACES], filling.available
    count = 0
    for k in slots_of(coflow):
        s = order[k]
        if filling.free[s] > 0.0 and filling.wants[s] > 0.0:
            filled[count] = s
            places[count] = k
            count += 1
    if count == 0:
        return False
    filled, heap, growth = filled[:count], lists[HEAP, :count], filling.growth
    speed = _freeze_as_before(filled, coflow, filling, heap)
    if speed < 0.0:
        speed = _freeze_by_level(filled, coflow, filling, heap, keys[:count])
    coflow.speed += speed
    for k in range(count):
        s = filled[k]
        order[places[k]] = s
        link = growth.links[s].link
        rest = 0.0 if growth.full_at[s] < np.inf else max(growth.left[s], 0.0)
        used[s] += left[link] - rest
        left[link] = rest
    return True


@inlined
def _note_free(filling, coflow):
    """Update what flows want, from the slots that became full or are no longer full."""
    growth, wants, free = filling.growth, filling.wants, filling.free
    share, others = growth.share, growth.others
    for s in slots_of(coflow):
        slot = growth.links[s]
        is_free = 1.0 if filling.available[slot.link] > filling.dust[slot.link] else 0.0
        sign = is_free - free[s]
        if sign == 0.0:
            continue
        free[s] = is_free
        growth.full_at[s] = 0.0
        if slot.others_from >= 0:
            stop = slot.others_from + slot.stop - slot.first
            _add(share[slot.first:slot.stop], wants[slot.others_from:stop], sign)
            continue
        for m in range(slot.first, slot.stop):
            for h in range(others.shape[1]):
                all_free = True
                for g in range(others.shape[1]):
                    all_free &= g == h or free[others[m, g]] > 0.0
                if all_free:
                    wants[others[m, h]] += sign * share[m]


@inlined
def _add(share, wants, sign):
    """Add flows to what is wanted on other slots, or subtract them."""
    for m in range(len(share)):
        wants[m] += sign * share[m]


@inlined
def _freeze_as_before(order, coflow, filling, late):
    """Freeze slots in the given order; return the sum of rates, or -1 if the order is wrong."""
    growth, grows = filling.growth, _thaw(order, coflow, filling)
    speed, coflow.top_level, _, too_late = _freeze(order, growth.left[:0], grows, growth, late)
    if too_late:
        return -1.0
    for s in order:
        overloads = growth.left[s] < -ROUNDED * filling.available[growth.links[s].link]
        if growth.full_at[s] == np.inf and overloads:
            return -1.0
    return speed


@inlined
def _freeze_by_level(filled, coflow, filling, heap, levels):
    """Freeze slots, the lowest level first, and store that order; return the sum of rates."""
    growth, grows = filling.growth, _thaw(filled, coflow, filling)
    for k in range(len(filled)):
        heap[k] = filled[k]
        levels[k] = growth.left[filled[k]] / growth.unfrozen[filled[k]]
    heap_up(levels, heap)
    speed, coflow.top_level, _, _ = _freeze(heap, levels, grows, growth, filled)
    for k in range(len(filled)):
        filled[k] = heap[len(filled) - 1 - k]
    return speed


@inlined
def _thaw(filled, coflow, filling):
    """Reset the flows on the given slots to grow from 0; return their number, inf if not known."""
    growth, grows = filling.growth, 0.0
    for s in filled:
        growth.unfrozen[s] = filling.wants[s]
        growth.left[s] = filling.available[growth.links[s].link]
        growth.full_at[s] = np.inf
        grows += filling.wants[s]
    return 0.5 * grows if coflow.paired else np.inf


@inlined
def _release(growth, slot, level):
    """Remove the flows of a full slot from their other slots; see `filling`."""
    at, begin = growth.links[slot], growth.links[slot].others_from
    if begin >= 0:
        end = begin + at.stop - at.first
        release_all(growth.share[at.first:at.stop], growth.unfrozen[begin:end],
                    growth.left[begin:end], level)
    else:
        release_members(at.first, at.stop, growth.share, growth.others, growth.unfrozen,
                        growth.left, growth.full_at, level)


_freeze = freeze_of(_release)


# --- by a compiled rule --------------------------------------------------------------------
@compiled
def serve_by(rule, engine, loops, tables):
    """Serve coflows in the order that a rule gives, again and again until the loop stops.

    The rule is asked first if the loop ``decides``; otherwise its last decision still holds.
    `engine`, that of the call before, is resumed if the loop was held or paused, and if not,
    updated if that is possible. Return the arrays of the new engine if one has been made.
    """
    loop = loops[0]
    until = loop.until
    loop.until = min(until, rule.scalars[WRITTEN, 0])
    resumes, is_new = loop.reason in UNCHANGED, False
    while resumes or _decide(rule, tables, loop, until):
        if not resumes:
            rows, arrays, service = tables.rows[:loop.count], tables.arrays, _service(rule, loop)
            if can_resume(engine):
                update(engine, rows, arrays.flows, service, loop.interval)
            else:
                engine = take_rows(rows, arrays, tables.capacity, service, loop.interval)
                is_new = True
        resumes = False
        run(engine, loops, tables)
        if loop.reason != REDO:
            break
    loop.until = until
    if is_new:  # to hand arrays to Python takes longer than many a call
        return engine[:]
    return None


@in_place
def _decide(rule, tables, loop, until):
    """Ask the rule if the loop decides; return whether there is a decision to put into force."""
    count, arrays = loop.count, tables.arrays
    rows = tables.rows[:count]
    loop.observed_at = loop.now  # so that the loop finds rates first
    loop.decides &= count > 0
    if loop.decides:
        if rule.reads[0].gamma or rule.reads[0].active_gamma:
            refresh(rows, arrays.flows, arrays.hops, arrays.loads, tables.capacity)
        loop.link = decide(rule, rows, tables.jobs, loop.now)
        if loop.link == SOUND and _has_unused(rule, count):
            loop.link = UNUSED
        if loop.link != SOUND:
            loop.reason = REFUSED
            return False
    elif count == 0:
        rule.scalars[WRITTEN, 0] = np.inf
    loop.until = min(until, rule.scalars[WRITTEN, 0])
    return True


@inlined
def _has_unused(rule, count):
    """Whether the rule has written shares, which its form ignores."""
    for c in range(count):
        if rule.values[SHARE, c] != 0.0 or rule.values[MOST, c] < rule.form[0].most:
            return True
    return False


@inlined
def _service(rule, loop):
    """Return the decision in force as a `Service`, queue by queue."""
    order, form, count = output_of(rule, loop.count), rule.form[0], loop.count
    sequence = rule.lists[SPARE][:count]
    found = 0
    for q in range(len(order.part)):
        for c in rule.lists[SEQUENCE][:count]:
            if order.queue[c] == q:
                sequence[found] = c
                found += 1
    return Service(sequence, form.primary, form.backfill, order.queue, order.part, order.limit)
