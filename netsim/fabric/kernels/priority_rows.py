"""Flows on their way into the priority engine, out of it, and back to the rows; see `priority`."""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled, in_place, inlined
from netsim.fabric.kernels.priority_progress import rewind, rewind_coflow
from netsim.fabric.kernels.priority_state import (
    ADDED_UP,
    CAPACITY,
    COFLOW_SERVED,
    DUST_LEFT,
    FLOW_SERVED,
    FREE,
    GREEDY,
    HEAP,
    HELD,
    IN_QUEUE,
    LEVEL,
    LOAD,
    PAST,
    PLACES,
    QUEUES,
    REST,
    RUN,
    SLOT,
    TURN,
    USED,
    WANTS,
    runs_of,
    slots_of,
    state_of,
)
from netsim.fabric.kernels.progress import begin_row, write_flow
from netsim.fabric.records import DUST, ROUNDINGS

#: Slots lie close together if there are at most this many per flow. A loop over all of them is then
#: faster than one over flows, as the compiler vectorizes it.
_CLOSE = 4

#: From so many flows of a run on, what they send is added up by slot.
_MANY_FLOWS = 8

#: More runs per slot than this are worth sorting a coflow's flows for.
_MOST_RUNS = 2


# --- a copy of the rows --------------------------------------------------------------------
@compiled
def arrays_of_copy(rows, arrays, capacity, service, interval):
    """Return the arrays of `take_rows`, for Python."""
    return take_rows(rows, arrays, capacity, service, interval)[:]


@compiled
def take_rows(rows, arrays, capacity, service, interval):
    """Copy the unfinished flows of coflows, to be served in order by a `Service`."""
    flows, hops, loads = arrays
    coflows = np.zeros(len(service.order), COFLOW_SERVED)
    count, longest, places = _read_coflows(coflows, rows, service.order)
    # Flows as coflows list them: their rows, and their paths.
    listed, listed_path = np.empty(count, np.int64), np.full((count, longest), places, np.uint32)
    number = np.zeros(places + 1, np.uint32)
    _read_flows(coflows, rows, flows, hops, listed, listed_path, number)
    slots = np.zeros(places + 1, SLOT)
    found, links = _number_slots(slots, coflows, rows, loads, listed_path, number,
                                 np.zeros(len(capacity), np.uint32))
    slots = slots[:found]

    # Flows as the engine has them: where they are listed, and their last slots there.
    at, last = np.empty(count, np.int64), np.empty(count, np.int64)
    _sort_flows(coflows, listed_path, last, np.zeros(found, np.int64), at,
                service.backfill == GREEDY)
    runs = np.zeros(count, RUN)
    runs = runs[:_find_runs(coflows, last, at, runs)].copy()
    path, bounds = np.zeros((count, longest), np.uint32), np.zeros((2, found), np.uint32)
    share = np.zeros(_lay_out(slots, path, listed_path, at, bounds))
    member = np.zeros((count, longest), np.uint32)
    others = np.zeros((len(share), max(longest - 1, 1)), np.uint32)
    _find_members(slots, path, member, share, others, bounds[0])

    engine = state_of(coflows, slots, runs, np.zeros(count, FLOW_SERVED), path, member, share,
                      others, links)
    _set_up_slots(engine, capacity)
    _set_up_flows(engine, flows, listed, at)
    _set_up_coflows(engine)
    _begin(engine, rows, service, interval)
    return engine


@in_place
def _read_coflows(coflows, rows, order):
    """Read coflows in order; return the numbers of flows, links on a path at most, and loads."""
    count, longest, places = 0, 1, 0
    for k in range(len(order)):
        row, coflow = rows[order[k]], coflows[k]
        coflow.row, coflow.key = order[k], row.key
        coflow.flow, coflow.flows = count, row.open
        coflow.paired = 1
        count += row.open
        longest = max(longest, row.max_hops)
        places += row.loads
    return count, longest, places


@in_place
def _read_flows(coflows, rows, flows, hops, listed, path, number):
    """Read which flows are unfinished and what loads they cross, and mark these in `number`."""
    i = first = 0
    for k in range(len(coflows)):
        coflow = coflows[k]
        row = rows[coflow.row]
        for f in range(row.flow, row.flow + row.flows):
            flow = flows[f]
            if flow.remaining <= 0.0:
                continue
            listed[i] = f
            coflow.left += flow.remaining
            coflow.paired &= flow.hops == 2
            for h in range(flow.hops):
                path[i, h] = first + hops[flow.hop + h].slot
                number[path[i, h]] = 1
            i += 1
        first += row.loads


@in_place
def _number_slots(slots, coflows, rows, loads, path, number, in_use):
    """Make slots of the loads that are crossed, and replace these by slots on paths.

    `number` then has the slot of each load, plus 1, and 0 for others; `in_use` the same of links.
    Return how many slots there are, with the dummy, and how many links.
    """
    found = links = place = 0
    for k in range(len(coflows)):
        coflow = coflows[k]
        row = rows[coflow.row]
        coflow.slot = found
        for load in range(row.load, row.load + row.loads):
            if number[place]:
                slot, port = slots[found], loads[load].link
                if in_use[port] == 0:
                    links += 1
                    in_use[port] = links
                slot.port, slot.link = port, in_use[port] - 1
                found += 1
                number[place] = found
            place += 1
        coflow.slots = found - coflow.slot
    number[place] = found + 1
    for i in range(len(path)):
        for h in range(path.shape[1]):
            path[i, h] = number[path[i, h]] - 1
    return found + 1, links


@in_place
def _sort_flows(coflows, path, last, first, at, listed):
    """Find the last slot of each flow, and sort flows by it, in `at`, if that makes longer runs.

    A coflow that lists its flows in turns between links would otherwise have a run for each flow.
    `listed` says that flows must stay in the order of their list.
    """
    nowhere = len(first) - 1
    for i in range(len(path)):
        h = path.shape[1] - 1
        while path[i, h] == nowhere:
            h -= 1
        last[i] = path[i, h]
        at[i] = i
    for k in range(len(coflows)):
        coflow = coflows[k]
        runs = 1
        for i in range(coflow.flow + 1, coflow.flow + coflow.flows):
            runs += last[i] != last[i - 1]
        if runs > _MOST_RUNS * coflow.slots and not listed:
            _sort_coflow(coflow, last, first, at)


@inlined
def _sort_coflow(coflow, last, first, at):
    """Sort the flows of a coflow by their last slot, stably, by counting."""
    stop = coflow.flow + coflow.flows
    for i in range(coflow.flow, stop):
        first[last[i] + 1] += 1
    first[coflow.slot] = coflow.flow
    for s in slots_of(coflow):
        first[s + 1] += first[s]
    for i in range(coflow.flow, stop):
        at[first[last[i]]] = i
        first[last[i]] += 1


@in_place
def _find_runs(coflows, last, at, runs):
    """Find the runs of flows with the same last slot, coflow by coflow; return how many."""
    found = 0
    for k in range(len(coflows)):
        coflow = coflows[k]
        coflow.run = found
        before = -1
        for i in range(coflow.flow, coflow.flow + coflow.flows):
            if last[at[i]] != before:
                before = last[at[i]]
                runs[found].first, runs[found].slot, runs[found].coflow = i, before, k
                found += 1
            runs[found - 1].stop = i + 1
        coflow.runs = found - coflow.run
    return found


@in_place
def _lay_out(slots, path, listed_path, at, bounds):
    """Sort paths, and find where the members of slots begin; return the number of all members."""
    longest = path.shape[1]
    low, high = bounds[0], bounds[1]
    for s in range(len(slots)):
        low[s] = len(slots)
    for i in range(len(path)):
        for h in range(longest):
            path[i, h] = listed_path[at[i], h]
        for h in range(longest):
            s = path[i, h]
            slots[s].open += 1
            if longest == 2:
                low[s] = min(low[s], path[i, 1 - h])
                high[s] = max(high[s], path[i, 1 - h])
    places = 0
    for s in range(len(slots) - 1):
        slot = slots[s]
        slot.first = places
        slot.others_from = -1
        width = np.int64(high[s]) - np.int64(low[s]) + 1
        if longest == 2 and 0 < width <= _CLOSE * slot.open:
            slot.others_from = low[s]
            places += width
        else:
            places += slot.open
        slot.stop = places
    return places


@in_place
def _find_members(slots, path, member, share, others, place):
    """Find the places of flows on their slots, the number at each, and their other slots."""
    longest, nowhere = path.shape[1], len(slots) - 1
    for m in range(len(others) if longest == 1 else 0):
        others[m, 0] = nowhere
    for s in range(nowhere):
        place[s] = slots[s].first
        for m in range(slots[s].first, slots[s].stop if slots[s].others_from >= 0 else 0):
            others[m, 0] = slots[s].others_from + m - slots[s].first
    for i in range(len(path)):
        for h in range(longest):
            s = path[i, h]
            if s == nowhere:
                continue
            if slots[s].others_from >= 0:
                m = slots[s].first + path[i, 1 - h] - slots[s].others_from
            else:
                m = np.int64(place[s])
                place[s] += 1
                for g in range(longest - 1):
                    others[m, g] = path[i, g + (g >= h)]
            member[i, h] = m
            share[m] += 1.0


@in_place
def _set_up_flows(engine, flows, listed, at):
    """Read the bytes of flows; see `take_rows`."""
    nowhere, fillings = len(engine.slots) - 1, engine.fillings
    left, floor = engine.left, engine.floor
    for run in engine.runs:
        run.least_left = np.inf
        _find_others(run, engine.path)
        for i in range(run.first, run.stop):
            f = listed[at[i]]
            engine.flows[i].row, engine.flows[i].coflow = f, run.coflow
            left[i], floor[i] = flows[f].remaining, DUST * flows[f].size
            run.least_left, run.floor = min(run.least_left, left[i]), max(run.floor, floor[i])
            path = engine.path[i]
            if len(path) == 1 or path[1] == nowhere:  # no other link could lack bandwidth
                fillings[IN_QUEUE, WANTS, path[0]] += 1.0
                fillings[REST, WANTS, path[0]] += 1.0


@inlined
def _find_others(run, path):
    """Find which slots the flows of a run cross besides the last, if these lie close together."""
    flows = run.stop - run.first
    if path.shape[1] != 2 or flows < _MANY_FLOWS:
        return
    begin, end = np.int64(path[run.first, 0]), np.int64(0)
    for i in range(run.first, run.stop):
        begin = min(begin, np.int64(path[i, 0]))
        end = max(end, np.int64(path[i, 0]) + 1)
    if end - begin <= _CLOSE * flows:
        run.others_from, run.others_to = begin, end


@inlined
def _set_up_slots(engine, capacity):
    """Read the bandwidth of links; of slots, only the dummy has some that is free."""
    slots, by_link, fillings = engine.slots, engine.by_link, engine.fillings
    nowhere, never_full = len(slots) - 1, by_link.shape[1] - 1
    for s in range(nowhere):
        by_link[CAPACITY, slots[s].link] = capacity[slots[s].port]
        by_link[DUST_LEFT, slots[s].link] = DUST * capacity[slots[s].port]
    for filling in (IN_QUEUE, REST):
        by_link[filling, never_full] = np.inf
        for s in range(len(slots)):
            engine.lists[filling, s] = s
            for values in (LEVEL, WANTS, FREE):
                fillings[filling, values, s] = 0.0
        fillings[filling, FREE, nowhere] = 1.0
        fillings[filling, LEVEL, nowhere] = np.inf
        fillings[filling, PAST:, nowhere] = np.inf


@inlined
def _set_up_coflows(engine):
    """Find the links that all flows of a coflow cross, and store the coflow of each row."""
    slots, never_full = engine.slots, engine.by_link.shape[1] - 1
    for k in range(len(engine.coflows)):
        coflow = engine.coflows[k]
        engine.lists[PLACES, coflow.row] = k
        coflow.idle = coflow.renewed = 1
        coflow.common_link = coflow.common_link_2 = never_full
        for s in slots_of(coflow):
            if slots[s].open == coflow.flows:
                if coflow.common_link == never_full:
                    coflow.common_link = slots[s].link
                elif coflow.common_link_2 == never_full:
                    coflow.common_link_2 = slots[s].link


@in_place
def _begin(engine, rows, service, interval):
    """Set the state for a service that has not begun yet; ``PLACES`` has the coflow of each row."""
    status = engine.status[0]
    status.primary, status.backfill = service.primary, service.backfill
    status.eager = service.backfill == GREEDY or interval > 0.0
    status.coflows = len(service.order)
    status.queues = len(service.queue_shares)
    status.fresh = 1
    status.moving = status.reached = status.stale = 0
    at, turn = engine.lists[PLACES], engine.lists[TURN]
    for n in range(len(service.order)):
        c = service.order[n]
        turn[n] = at[c]
        coflow = engine.coflows[turn[n]]
        # A few roundings late, so that what is left says by then that it has been reached.
        coflow.limit = rows[c].total * (1.0 - ROUNDINGS) - service.limit[c]
        coflow.reached = rows[c].total - service.limit[c] * (1.0 - DUST)
        if status.primary == QUEUES:
            coflow.queue = service.queue[c]
            coflow.queue_share = service.queue_shares[coflow.queue]


# --- the same copy, once more --------------------------------------------------------------
@inlined
def can_resume(engine):
    """Whether the engine has all coflows, and too few flows have ended for a new one to pay."""
    return not engine.status[0].admitted and 5 * engine.status[0].ended <= len(engine.flows)


@in_place
def update(engine, rows, flows, service, interval):
    """Update the engine from the rows, of which some may have gone, and from a service.

    The engine must have all coflows, and the service as many queues as before.
    """
    _find_rows(engine.coflows, engine.lists[HEAP], engine.lists[PLACES], rows)
    for s in range(len(engine.slots) - 1):
        for values in (LOAD, ADDED_UP, USED, HELD):
            engine.by_slot[values, s] = 0.0
        # Else coflows that are passed over at first have old ones.
        engine.fillings[IN_QUEUE, LEVEL, s] = 0.0
    _read_bytes(engine, flows)
    _begin(engine, rows, service, interval)


@inlined
def _find_rows(coflows, before, at, rows):
    """Reset coflows, and find their rows again: these stay in order of their keys if some go.

    The coflow of each row is stored in `at`.
    """
    for n in range(len(coflows)):
        before[n] = -1
    for k in range(len(coflows)):
        coflow = coflows[k]
        if coflow.row >= 0:
            before[coflow.row] = k
        coflow.row = -1
        coflow.idle = coflow.renewed = 1
        coflow.thinner = coflow.gains = 0
        coflow.left = coflow.speed = coflow.queue_speed = coflow.gamma = 0.0
        rewind_coflow(coflow)
    c = 0
    for k in before[:len(coflows)]:
        if k >= 0 and c < len(rows) and rows[c].key == coflows[k].key:
            coflows[k].row = c
            at[c] = k
            c += 1


@inlined
def _read_bytes(engine, flows):
    """Read from the rows what flows have left, and remove those that have ended meanwhile."""
    left, floor = engine.left, engine.floor
    ended = 0
    for run in engine.runs:
        run.busy = 0
        run.idle = 1
        run.least_left, run.floor = np.inf, 0.0
        rewind(run)
        for i in range(run.first, run.stop):
            flow = flows[engine.flows[i].row]
            if left[i] > 0.0 and flow.remaining <= 0.0:
                remove_flow(engine, i)
            elif left[i] > 0.0:
                left[i] = flow.remaining
                engine.coflows[run.coflow].left += flow.remaining
                run.idle &= flow.rate == 0.0 and flow.finish == np.inf
                run.least_left, run.floor = min(run.least_left, left[i]), max(run.floor, floor[i])
            ended += left[i] == 0.0
    engine.status[0].ended = ended


@in_place
def remove_flow(engine, i):
    """Remove a flow that has ended from its slots."""
    slots, path, fillings = engine.slots, engine.path[i], engine.fillings
    for h in range(len(path)):
        s = path[h]
        if s == len(slots) - 1:
            continue
        slots[s].open -= 1
        engine.share[engine.member[i, h]] -= 1.0
        for filling in (IN_QUEUE, REST):
            wants = True
            for g in range(len(path)):
                wants &= g == h or fillings[filling, FREE, path[g]] > 0.0
            if wants:
                fillings[filling, WANTS, s] -= 1.0
    engine.left[i] = 0.0
    engine.floor[i] = -1.0  # it cannot end again
    engine.coflows[engine.flows[i].coflow].thinner = 1


# --- back to the rows ----------------------------------------------------------------------
@inlined
def write_back(engine, coflow, row, flows, now, in_force):
    """Write the bytes of a coflow to its row, and rates if they stay in force, if it has moved."""
    moved = False
    for run in runs_of(engine, coflow):
        moved |= not run.idle
    if not moved:
        row.finish = np.inf
        return
    begin_row(row)
    left, rate = engine.left, engine.rate
    for run in runs_of(engine, coflow):
        if run.idle and run.least_left < np.inf:  # its flows' rows are right
            row.finish = np.inf
        elif run.least_left < np.inf:
            for i in range(run.first, run.stop):
                if left[i] > 0.0:
                    write_flow(row, flows[engine.flows[i].row], left[i],
                               rate[i] if in_force and run.busy else 0.0, now)
    # Once more in list order, as `progress.advance_flows` sums up.
    row.base = 0.0
    for f in range(row.flow, row.flow + row.flows):
        row.base += flows[f].remaining
