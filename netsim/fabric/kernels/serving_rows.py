"""Flows on their way into the serving engine, out of it, and back to the rows; see `serving`."""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled, in_place, inlined
from netsim.fabric.kernels.progress import begin_row, write_flow
from netsim.fabric.kernels.serving_parts import (
    GREEDY,
    GROUP,
    INSTANTS,
    RUN,
    SERVING,
    SLOT,
    Desk,
    Filling,
    Links,
    Past,
    Senders,
    Served,
    Traffic,
)
from netsim.fabric.kernels.serving_progress import begin
from netsim.fabric.records import DUST, ROUNDINGS

#: Slots lie close together if there are at most this many per flow. A loop over all of them is then
#: faster than one over flows, as the compiler vectorizes it.
_CLOSE = 4

#: More runs per slot than this are worth sorting a coflow's flows for.
_MOST_RUNS = 2


@compiled
def copy_rows(coflows, flows, hops, loads, capacity, service, interval):
    """Copy the unfinished flows of coflows, to be served in order by a `Service`."""
    order = service.order
    groups = _groups(coflows, service)
    senders, path = _senders(coflows, flows, hops, order, groups)
    link = _number(coflows, loads, order, groups, path)
    nowhere = len(link) - 1
    links = _in_use(link, len(capacity))
    if service.backfill != GREEDY:  # only that depends on the list order
        at = _by_last_slot(groups, path, nowhere)
        path = path[at]
        senders = Senders(senders.left[at], senders.rate, senders.floor[at], senders.place,
                          senders.flow[at])
    slots = np.zeros(nowhere + 1, SLOT)
    spot, share, others = _members(slots, path)
    most = 0
    for k in range(len(groups)):
        most = max(most, groups[k].slots)
    served = Served(
        np.zeros(1, SERVING), groups, slots, _runs(groups, path, nowhere), link, links,
        Traffic(np.zeros(nowhere + 1), np.zeros(nowhere + 1), np.zeros(nowhere + 1)), senders, path,
        spot, _filling(slots, share, others, path), _filling(slots, share, others, path),
        _past(groups, slots), _on_links(links, capacity),
        Desk(np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64),
             np.empty(most)),
        coflows["key"][order], order.copy(), np.arange(len(order)), service.queue[order],
        service.queue_shares.copy(), _walls(groups, slots, link, len(links)),
        np.ones(len(groups), np.bool_), np.empty(len(groups), np.int64))
    _begin(served, service, interval)
    return served


@in_place
def _begin(served, service, interval):
    """Set the state for a service that has not begun yet."""
    state = served.state[0]
    state.primary, state.backfill = service.primary, service.backfill
    state.eager = service.backfill == GREEDY or interval > 0.0
    state.coflows = len(service.order)
    state.fresh = 1
    state.moving = state.reached = state.stale = 0
    begin(served)


@inlined
def _senders(coflows, flows, hops, order, groups):
    """Return the flows, and the numbers of the loads on their paths; add up what groups have."""
    count = groups[-1].flow + groups[-1].flows if len(groups) else 0
    left, floor = np.empty(count), np.empty(count)
    place = np.empty(count, np.int32)
    index = np.empty(count, np.int64)
    longest, places = 1, 0
    for c in order:
        longest = max(longest, coflows[c].max_hops)
        places += coflows[c].loads
    path = np.full((count, longest), places, np.uint32)
    i = 0
    first = 0
    for k in range(len(order)):
        row = coflows[order[k]]
        for f in range(row.flow, row.flow + row.flows):
            flow = flows[f]
            if flow.remaining <= 0.0:
                continue
            left[i] = flow.remaining
            floor[i] = DUST * flow.size
            place[i] = k
            index[i] = f
            groups[k].left += flow.remaining
            groups[k].paired &= flow.hops == 2
            for h in range(flow.hops):
                path[i, h] = first + hops[flow.hop + h].slot
            i += 1
        first += row.loads
    return Senders(left, np.zeros(count), floor, place, index), path


@inlined
def _past(groups, slots):
    """Return empty space for the record."""
    shape = (len(groups), INSTANTS)
    held, rest = np.empty((len(slots), INSTANTS)), np.empty((len(slots), INSTANTS))
    held[-1] = rest[-1] = np.inf
    return Past(np.empty(shape), np.empty(shape), np.empty(shape), held, rest, np.empty(INSTANTS))


@inlined
def _walls(groups, slots, link, nowhere):
    """Find up to two links that all flows of a group cross."""
    walls = np.full((len(groups), 2), nowhere)
    for k in range(len(groups)):
        found = 0
        for s in range(groups[k].slot, groups[k].slot + groups[k].slots):
            if found < 2 and slots[s].open == groups[k].flows:
                walls[k, found] = link[s]
                found += 1
    return walls


@inlined
def _groups(coflows, service):
    """Return the groups in service order, without the bytes of flows, slots and runs."""
    order, limit = service.order, service.limit
    groups = np.zeros(len(order), GROUP)
    flows = 0
    for k in range(len(order)):
        row = coflows[order[k]]
        group = groups[k]
        group.row = order[k]
        _set_limit(group, row.total, limit[order[k]])
        group.flow = flows
        group.flows = row.open
        group.paired = 1
        flows += row.open
    return groups


@in_place
def _set_limit(group, total, limit):
    """Store how many bytes a coflow of `total` bytes has left when it has sent `limit`."""
    # A few roundings late, so that what is left says by then that it has been reached.
    group.limit = total * (1.0 - ROUNDINGS) - limit
    group.reached = total - limit * (1.0 - DUST)


@inlined
def _number(coflows, loads, order, groups, path):
    """Number the slots that flows cross, and write the numbers to the paths; return their links."""
    places = 0
    for c in order:
        places += coflows[c].loads
    number = np.zeros(places + 1, np.uint32)
    for i in range(len(path)):
        for h in range(path.shape[1]):
            number[path[i, h]] = 1
    link = np.zeros(places + 1, np.uint32)
    found = 0
    s = 0
    for k in range(len(order)):
        row = coflows[order[k]]
        groups[k].slot = found
        for load in range(row.load, row.load + row.loads):
            if number[s]:
                link[found] = loads[load].link
                number[s] = found
                found += 1
            s += 1
        groups[k].slots = found - groups[k].slot
    number[places] = found
    for i in range(len(path)):
        for h in range(path.shape[1]):
            path[i, h] = number[path[i, h]]
    return link[:found + 1].copy()


@inlined
def _in_use(link, count):
    """Return the links that slots cross, and replace each link of a slot by its number there."""
    number = np.zeros(count, np.uint32)
    links = np.empty(min(count, len(link)), np.uint32)
    found = 0
    for s in range(len(link) - 1):
        if number[link[s]] == 0:
            links[found] = link[s]
            found += 1
            number[link[s]] = found
        link[s] = number[link[s]] - 1
    return links[:found].copy()


@inlined
def _on_links(links, capacity):
    """Return the bandwidth of each link in use, and after them a link that is never full."""
    count = len(links)
    left, share = np.full(count + 1, np.inf), np.full(count + 1, np.inf)
    total, dust = np.empty(count), np.zeros(count + 1)
    for n in range(count):
        total[n] = capacity[links[n]]
        dust[n] = DUST * total[n]
    return Links(left, share, total, dust)


@inlined
def _by_last_slot(groups, path, nowhere):
    """Return the flows group by group, sorted by their last slot if that makes longer runs.

    A coflow that lists its flows in turns between links would otherwise have a run for each flow.
    """
    sorted_at = np.arange(len(path))
    last = np.empty(len(path), np.int64)
    for i in range(len(path)):
        h = path.shape[1] - 1
        while path[i, h] == nowhere:
            h -= 1
        last[i] = path[i, h]
    first = np.zeros(nowhere + 1, np.int64)
    for k in range(len(groups)):
        group = groups[k]
        runs = 1
        for i in range(group.flow + 1, group.flow + group.flows):
            runs += last[i] != last[i - 1]
        if runs > _MOST_RUNS * group.slots:
            _sort_group(group, last, first, sorted_at)
    return sorted_at


@inlined
def _sort_group(group, last, first, sorted_at):
    """Sort the flows of a group by their last slot, stably, by counting."""
    stop = group.flow + group.flows
    for i in range(group.flow, stop):
        first[last[i] + 1] += 1
    first[group.slot] = group.flow
    for s in range(group.slot, group.slot + group.slots):
        first[s + 1] += first[s]
    for i in range(group.flow, stop):
        sorted_at[first[last[i]]] = i
        first[last[i]] += 1


@compiled
def _filling(slots, share, others, path):
    """Return a filling in which only the last slot, the dummy, has room."""
    count = len(slots)
    wants, room, full_at = np.zeros(count), np.zeros(count, np.bool_), np.zeros(count)
    room[count - 1] = True
    full_at[count - 1] = np.inf
    for i in range(len(path)):  # a flow of one link has no other that could lack room
        if path.shape[1] == 1 or path[i, 1] == count - 1:
            wants[path[i, 0]] += 1.0
    return Filling(slots, share, others, wants, room, full_at, np.zeros(count), np.zeros(count),
                   np.arange(count))


@inlined
def _runs(groups, path, nowhere):
    """Return the runs of flows with the same last slot, group by group."""
    runs = np.zeros(len(path), RUN)
    found = 0
    for k in range(len(groups)):
        group = groups[k]
        group.run = found
        before = nowhere
        for i in range(group.flow, group.flow + group.flows):
            h = path.shape[1] - 1
            while path[i, h] == nowhere:
                h -= 1
            if path[i, h] != before:
                before = path[i, h]
                runs[found].first = i
                runs[found].slot = before
                runs[found].group = k
                found += 1
            runs[found - 1].stop = i + 1
        group.runs = found - group.run
    return runs[:found].copy()


@inlined
def _members(slots, path):
    """Return the places of flows on their slots, the number at each, and their other slots."""
    count, longest = path.shape
    nowhere = len(slots) - 1
    others = np.empty((_lay_out(slots, path), max(longest - 1, 1)), np.uint32)
    if longest == 1:
        others[:] = nowhere
    for s in range(nowhere):
        if slots[s].begin >= 0:
            for m in range(slots[s].first, slots[s].stop):
                others[m, 0] = slots[s].begin + m - slots[s].first
    share = np.zeros(len(others))
    spot = np.zeros((count, longest), np.uint32)
    place = slots["first"].copy()
    for i in range(count):
        for h in range(longest):
            s = path[i, h]
            if s == nowhere:
                continue
            if slots[s].begin >= 0:
                m = slots[s].first + path[i, 1 - h] - slots[s].begin
            else:
                m = place[s]
                place[s] += 1
                for g in range(longest - 1):
                    others[m, g] = path[i, g + (g >= h)]
            spot[i, h] = m
            share[m] += 1.0
    return spot, share, others


@inlined
def _lay_out(slots, path):
    """Find the begin of each slot's members; return the total number of members."""
    count, longest = path.shape
    low = np.full(len(slots), len(slots), np.uint32)
    high = np.zeros(len(slots), np.uint32)
    for i in range(count):
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
        slot.begin = -1
        width = np.int64(high[s]) - np.int64(low[s]) + 1
        if longest == 2 and 0 < width <= _CLOSE * slot.open:
            slot.begin = low[s]
            places += width
        else:
            places += slot.open
        slot.stop = places
    return places


@in_place
def can_resume(served):
    """Whether the engine has all coflows, and too few flows have ended for a new one to pay."""
    return not served.state[0].joined and 5 * served.state[0].gone <= len(served.senders.left)


@compiled
def resume(served, coflows, flows, service, interval):
    """Update an engine that Python has kept; see `update`."""
    update(served, coflows, flows, service, interval)


@compiled
def update(served, coflows, flows, service, interval):
    """Update the engine from the rows, of which some may have gone, and from a service.

    The engine must have all coflows, and the service as many queues as before.
    """
    groups, rows, traffic = served.groups, served.rows, served.traffic
    group_of = _find_rows(rows, served.keys, coflows)
    for k in range(len(rows)):
        group = groups[k]
        group.left = group.speed = group.held = group.gamma = 0.0
        group.thinner = group.gains = 0
        served.still[k] = True
        group.row = rows[k]
        if group.row >= 0:
            _set_limit(group, coflows[group.row].total, service.limit[group.row])
    served.slots["known"][:] = 0.0
    for s in range(len(traffic.load)):
        traffic.load[s] = traffic.used[s] = traffic.held[s] = 0.0
    for s in range(len(served.slots) - 1):  # else coflows passed over at first have old levels
        served.held.full_at[s] = 0.0
    _read_bytes(served, flows)
    _begin(served, service, interval)
    for n in range(len(service.order)):
        c = service.order[n]
        served.turn[n], served.queues[n] = group_of[c], service.queue[c]
    for q in range(len(service.queue_shares)):
        served.queue_shares[q] = service.queue_shares[q]


@inlined
def _read_bytes(served, flows):
    """Read from the rows what flows have left, and remove those that have ended meanwhile."""
    left, index = served.senders.left, served.senders.flow
    gone = 0
    for r in range(len(served.runs)):
        run = served.runs[r]
        run.busy = 0
        run.idle = 1
        for i in range(run.first, run.stop):
            flow = flows[index[i]]
            if left[i] > 0.0 and flow.remaining <= 0.0:
                strike(served, i)
            elif left[i] > 0.0:
                left[i] = flow.remaining
                served.groups[run.group].left += flow.remaining
                run.idle &= flow.rate == 0.0 and flow.finish == np.inf
            gone += left[i] == 0.0
    served.state[0].gone = gone


@inlined
def _find_rows(rows, keys, coflows):
    """Find the rows of the groups again, after some have gone; return the group of each row.

    Rows stay in order of their keys, so one pass is enough.
    """
    last = -1
    for k in range(len(rows)):
        last = max(last, rows[k])
    group_at = np.full(last + 1, -1)
    for k in range(len(rows)):
        if rows[k] >= 0:
            group_at[rows[k]] = k
            rows[k] = -1
    group_of = np.empty(len(coflows), np.int64)
    c = 0
    for k in group_at:
        if k >= 0 and c < len(coflows) and coflows[c].key == keys[k]:
            rows[k] = c
            group_of[c] = k
            c += 1
    return group_of


@in_place
def strike(served, i):
    """Remove a flow that has ended from its slots."""
    left, floor, place = served.senders.left, served.senders.floor, served.senders.place
    path, slots = served.path, served.slots
    longest = path.shape[1]
    for h in range(longest):
        s = path[i, h]
        if s == len(slots) - 1:
            continue
        slots[s].open -= 1
        served.rest.share[served.spot[i, h]] -= 1.0  # which is that of `held`, too
        for filling in (served.held, served.rest):
            free = True
            for g in range(longest):
                free &= g == h or filling.room[path[i, g]]
            if free:
                filling.wants[s] -= 1.0
    left[i] = 0.0
    floor[i] = -1.0  # it cannot end again
    served.groups[place[i]].thinner = 1


@in_place
def write_back(served, coflows, flows, now):
    """Write bytes and rates as of now back to the rows of the coflows that have moved."""
    runs = served.runs
    for k in range(len(served.groups)):
        group = served.groups[k]
        if served.rows[k] < 0:
            continue
        row = coflows[served.rows[k]]
        moved = False
        for r in range(group.run, group.run + group.runs):
            moved |= not runs[r].idle
        if not moved:
            row.finish = np.inf
            continue
        begin_row(row)
        for r in range(group.run, group.run + group.runs):
            if runs[r].idle and runs[r].least < np.inf:  # its flows' rows are right
                row.finish = np.inf
            elif runs[r].least < np.inf:
                _write_run(runs[r], served.senders, row, flows, now)
        # Once more in list order, as `progress.advance_flows` sums up.
        row.base = 0.0
        for f in range(row.flow, row.flow + row.flows):
            row.base += flows[f].remaining


@inlined
def _write_run(run, senders, row, flows, now):
    for i in range(run.first, run.stop):
        if senders.left[i] > 0.0:
            write_flow(row, flows[senders.flow[i]], senders.left[i],
                       senders.rate[i] if run.busy else 0.0, now)
