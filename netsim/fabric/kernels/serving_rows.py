"""The data of `serving`: a copy of the unfinished flows in service order, with their slots."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.by_reference import by_reference
from netsim.fabric.kernels import compiled, in_place, inlined
from netsim.fabric.kernels.progress import begin_row, write_flow
from netsim.fabric.kernels.serving_fill import Filling
from netsim.fabric.kernels.serving_stretch import Past, begin, memory
from netsim.fabric.records import DUST, ROUNDINGS

__all__ = ["BACKFILL", "COFLOWS", "EAGER", "FRESH", "GONE", "GREEDY", "JOINED", "MADD", "MAXMIN",
           "MOVING", "NOBODY", "PRIMARY", "QUEUES", "REACHED", "STALE", "Served", "can_resume",
           "copy_rows", "resume", "strike", "update", "write_back"]

#: What comes first, in order: nothing, MADD, or max-min within the share of a queue.
#: Who gets the rest, in order: nobody, or the flows of each coflow, max-min or in list order.
NOBODY, MADD, QUEUES, MAXMIN, GREEDY = 0, 1, 2, 3, 4

#: Places in ``form``: what comes first, and who gets the rest; whether each flow's rate is set at
#: each step, rather than the levels of slots remembered; how many flows have ended; whether nothing
#: has been served yet; how many groups move; whether a group that stands still has reached its
#: limit; whether coflows have come or gone, so that the copy is out of date; whether some have come
#: that it does not have; how many coflows are served.
PRIMARY, BACKFILL, EAGER, GONE, FRESH, MOVING, REACHED, STALE, JOINED, COFLOWS = range(10)

#: A link of a group.
#:
#: - open: how many of its flows have not ended; ``known``: their bytes when last added up
#: - first, stop: its places in the list of members
#: - begin: if the other slots of its flows lie close together, the members are all slots from this
#:   one on, in common or not; else -1, and the members are its flows
_SLOT = np.dtype([("known", "f8"), ("first", "i4"), ("stop", "i4"), ("open", "i4"),
                  ("begin", "i4")], align=True)

#: Slots lie close together if there are at most so many times as many as flows. Slot by slot the
#: compiler takes several at a time.
_CLOSE = 4

#: More runs per slot than this are worth sorting a coflow's flows for.
_MOST_RUNS = 2

#: A coflow, in service order.
#:
#: - flow, flows, slot, slots, run, runs: where its flows, slots and runs begin, and their numbers
#: - paired: whether each of its flows has two slots
#: - row: its row, or -1
#: - left, speed: the bytes that it has left, and how fast it sends; ``held``: how fast within its
#:   queue's share
#: - limit: it must stop when this few bytes are left; ``reached``: if it stands still, so few count
#: - gamma: the seconds that it has left by MADD; 0 without MADD
#: - thinner: whether a flow has ended since it got its queue's share; ``anew``: whether it got that
#:   again in the last step; ``gains``: whether it gets some of the rest
#: - held_top, top: the highest levels within its queue's share, and of the rest
#: - steps: how many steps are remembered, of ``clock`` seconds in all; ``shares``: how many shares
#:   of its queue it had in them; ``renewed``: whether the present share is not among these yet
_GROUP = np.dtype([("flow", "i8"), ("flows", "i8"), ("slot", "i8"), ("slots", "i8"),
                   ("run", "i8"), ("runs", "i8"), ("paired", "i8"), ("left", "f8"), ("speed", "f8"),
                   ("held", "f8"), ("limit", "f8"), ("reached", "f8"), ("gamma", "f8"),
                   ("row", "i8"), ("thinner", "i4"), ("anew", "i4"),
                   ("gains", "i4"), ("held_top", "f8"), ("top", "f8"), ("clock", "f8"),
                   ("steps", "i4"), ("shares", "i4"), ("renewed", "i4")], align=True)

#: Flows ``first`` to ``stop`` that follow one another in a coflow's list and have the same last
#: ``slot``.
#:
#: - busy: whether some may have a rate; ``idle``: whether none has had one since rows were read
#: - group: their coflow
#: - caught, since, share: up to which of its steps, time on its clock, and share they are computed
#: - least: what each has left at least; ``most``: what each gets at most, besides MADD
#: - floor: the most bytes at which one of them counts as ended
_RUN = np.dtype([("first", "i4"), ("stop", "i4"), ("slot", "i4"), ("busy", "i4"),
                 ("group", "i4"), ("caught", "i4"), ("share", "i4"), ("idle", "i4"),
                 ("since", "f8"), ("least", "f8"), ("most", "f8"), ("floor", "f8")], align=True)


class Senders(NamedTuple):
    """Flows, group by group.

    Attributes
    ----------
    left, rate, floor : ndarray of float
        Bytes left, the rate, and the bytes left at which the flow counts as ended.
    place, flow : ndarray of int
        The place of the coflow in the order, and the position in `flows`.
    """

    left: NDArray[np.float64]
    rate: NDArray[np.float64]
    floor: NDArray[np.float64]
    place: NDArray[np.int32]
    flow: NDArray[np.int64]


class Served(NamedTuple):
    """The unfinished flows of coflows that are served in order.

    Attributes
    ----------
    groups, slots, runs : ndarray of _GROUP, _SLOT, _RUN
        Groups are in service order. The last slot is a dummy that fills up paths shorter than
        others.
    link : ndarray of int, shape (slots,)
        The place of each slot's link in `links`.
    links : ndarray of int
        The links in use.
    traffic : tuple of ndarray of float, shape (slots,)
        For each slot: the bytes to send, the bytes per second, and the part of these that comes
        from its queue's share.
    senders : Senders
    path, spot : ndarray of int, shape (flows, most links on a path)
        The slots that each flow crosses, and its places in their lists of members.
    held, rest : Filling
        The fillings of the queues' shares, and of what is left after that.
    past : Past
    on_links : tuple of ndarray of float, shape (links in use,)
        What links have left, of all and of a queue's share; their capacity; and the bandwidth below
        which a link counts as full.
    desk : tuple of ndarray, shape (most slots of a group,)
        Scratch space: slots that fill, their places in turn, a heap of them, and its levels.
    keys, rows : ndarray of int, shape (coflows,)
        The key and the row of each coflow, in order.
    turn, queues : ndarray of int, shape (groups,)
        The groups in the current order of service, and the queue of each; ``form[COFLOWS]`` entries
        are in use.
    queue_shares : ndarray of float, shape (queues,)
    walls : ndarray of int, shape (groups, 2)
        At most two links that all flows of the group cross, filled up with a link that is never
        full.
        While one of them is full, no flow of the group can send.
    still : ndarray of bool, shape (groups,)
        Whether the group got nothing in the last step. Each of its flows then has a slot of level 0
        in both fillings, so the group can be skipped while a wall is full.
    moving : ndarray of int, shape (groups,)
        The groups that are not still come first.
    form : ndarray of int, shape (10,)
        As named above.
    """

    groups: NDArray[Any]
    slots: NDArray[Any]
    runs: NDArray[Any]
    link: NDArray[np.uint32]
    links: NDArray[np.uint32]
    traffic: tuple[NDArray[np.float64], ...]
    senders: Senders
    path: NDArray[np.uint32]
    spot: NDArray[np.uint32]
    held: Filling
    rest: Filling
    past: Past
    on_links: tuple[NDArray[np.float64], ...]
    desk: tuple[NDArray[Any], ...]
    keys: NDArray[np.int64]
    rows: NDArray[np.int64]
    turn: NDArray[np.int64]
    queues: NDArray[np.int64]
    queue_shares: NDArray[np.float64]
    walls: NDArray[np.int64]
    still: NDArray[np.bool_]
    moving: NDArray[np.int64]
    form: NDArray[np.int64]

    def __deepcopy__(self, _: dict[int, Any]) -> Served:
        """Return a copy in which arrays shared by both fillings are still shared."""
        return _copied(self, {})


def _copied(part: Any, copies: dict[tuple[int, int], NDArray[Any]]) -> Any:
    """Copy nested tuples of arrays; an array that occurs twice is copied once."""
    if isinstance(part, tuple):
        each = [_copied(one, copies) for one in part]
        return type(part)(*each) if hasattr(part, "_fields") else tuple(each)
    where = part.__array_interface__["data"][0], part.nbytes
    if where not in copies:
        copies[where] = part.copy()
    return copies[where]


@compiled
def copy_rows(coflows, flows, hops, loads, capacity, rule, interval):
    """Copy the unfinished flows of coflows, to be served by a rule.

    Parameters
    ----------
    rule : tuple
        ``(order, primary, backfill, queue, queue_shares, limit)``, see `PriorityService`. `primary`
        and `backfill` are among the constants above.
    """
    order = rule[0]
    groups = _groups(coflows, rule)
    count = groups[-1].flow + groups[-1].flows if len(groups) else 0
    left, floor = np.empty(count), np.empty(count)
    place = np.empty(count, np.int32)
    index = np.empty(count, np.int64)
    longest, places = 1, 0
    for c in order:
        longest = max(longest, coflows[c].crosses)
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
    link = _number(coflows, loads, order, groups, path, places)
    nowhere = len(link) - 1
    links = _in_use(link, len(capacity))
    _, _, backfill, queue, queue_shares, _ = rule
    if backfill != GREEDY:  # which alone goes by the list
        sorted_at = _by_last_slot(groups, path, nowhere)
        left, floor, index, path = (left[sorted_at], floor[sorted_at], index[sorted_at],
                                    path[sorted_at])
    slots = np.zeros(nowhere + 1, _SLOT)
    spot, share, others = _members(slots, path)
    held, rest = _filling(slots, share, others, path), _filling(slots, share, others, path)
    runs = _runs(groups, path, nowhere)
    senders = Senders(left, np.zeros(count), floor, place, index)
    past = memory(groups, slots)
    traffic = (np.zeros(nowhere + 1), np.zeros(nowhere + 1), np.zeros(nowhere + 1))
    begin(groups, runs, left, floor)
    form = np.zeros(10, np.int64)
    _begin_form(form, rule, interval)
    most = 0
    for k in range(len(groups)):
        most = max(most, groups[k].slots)
    on_links = _on_links(links, capacity)
    desk = (np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64),
            np.empty(most))
    return Served(groups, slots, runs, link, links, traffic, senders, path, spot, held, rest, past,
                  on_links, desk, coflows["key"][order], order.copy(), np.arange(len(order)),
                  queue[order], queue_shares.copy(), _walls(groups, slots, link, len(links)),
                  np.ones(len(groups), np.bool_), np.empty(len(groups), np.int64), form)


def no_flows():
    """Return an engine without flows, for use before the first real one exists."""
    ints, floats, bools = np.empty(0, np.int64), np.empty(0), np.empty(0, np.bool_)
    links, paths = np.empty(0, np.uint32), np.empty((0, 1), np.uint32)
    groups, slots = np.empty(0, _GROUP), np.empty(0, _SLOT)
    filling = Filling(slots, floats, paths, floats, bools, floats, floats, floats, ints)
    form = np.zeros(10, np.int64)
    form[JOINED] = 1
    table = np.empty((0, 1))
    return Served(groups, slots, np.empty(0, _RUN), links, links, (floats,) * 3,
                  Senders(floats, floats, floats, np.empty(0, np.int32), ints), paths, paths,
                  filling, filling, Past(table, table, table, table, table, floats),
                  (floats,) * 4, (ints, ints, ints, floats), ints, ints, ints, ints, floats,
                  np.empty((0, 2), np.int64), bools, ints, form)


@inlined
def _begin_form(form, rule, interval):
    """Set the form for a rule that has not served anything yet."""
    form[PRIMARY], form[BACKFILL] = rule[1], rule[2]
    form[EAGER] = rule[2] == GREEDY or interval > 0.0
    form[FRESH] = 1
    form[MOVING] = 0
    form[REACHED] = 0
    form[STALE] = 0
    form[COFLOWS] = len(rule[0])


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
def _groups(coflows, rule):
    """Return the groups in service order, without the bytes of flows, slots and runs."""
    order, _, _, _, _, limit = rule
    groups = np.zeros(len(order), _GROUP)
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
def _number(coflows, loads, order, groups, path, places):
    """Number the slots that flows cross, and write the numbers to the paths; return their links."""
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
    """Return what each link in use has, and beyond them a link that is never full."""
    count = len(links)
    left, share = np.full(count + 1, np.inf), np.full(count + 1, np.inf)
    total, dust = np.empty(count), np.zeros(count + 1)
    for n in range(count):
        total[n] = capacity[links[n]]
        dust[n] = DUST * total[n]
    return left, share, total, dust


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
    runs = np.zeros(len(path), _RUN)
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
    """Whether the engine has all coflows, and still so many flows that a new one does not pay."""
    return not served.form[JOINED] and 5 * served.form[GONE] <= len(served.senders.left)


@compiled
def resume(served, coflows, flows, rule, interval):
    """Update an engine that Python has kept; see `update`."""
    update(by_reference(served), coflows, flows, rule, interval)


@compiled
def update(served, coflows, flows, rule, interval):
    """Update the engine from the rows, of which some may have gone, and from a rule.

    The engine must have all coflows, and the rule as many queues as before.
    """
    order, _, _, queue, queue_shares, limit = rule
    groups, slots, runs = served.groups, served.slots, served.runs
    left, floor, index = served.senders.left, served.senders.floor, served.senders.flow
    keys, rows, form = served.keys, served.rows, served.form
    group_of = _find_rows(rows, keys, coflows)
    for k in range(len(keys)):
        there = rows[k] >= 0
        group = groups[k]
        group.left = group.speed = group.held = group.gamma = 0.0
        group.thinner = group.gains = 0
        served.still[k] = True
        group.row = rows[k]
        if there:
            _set_limit(group, coflows[group.row].total, limit[group.row])
    slots["known"][:] = 0.0
    for each in served.traffic:
        each[:] = 0.0
    for s in range(len(slots) - 1):  # else coflows passed over at first would show old levels
        served.held.full_at[s] = 0.0
    gone = 0
    for r in range(len(runs)):
        run = runs[r]
        run.busy = 0
        run.idle = 1
        for i in range(run.first, run.stop):
            flow = flows[index[i]]
            if left[i] > 0.0 and flow.remaining <= 0.0:
                strike(served, i)
            elif left[i] > 0.0:
                left[i] = flow.remaining
                groups[run.group].left += flow.remaining
                run.idle &= flow.rate == 0.0 and flow.finish == np.inf
            gone += left[i] == 0.0
    begin(groups, runs, left, floor)
    form[GONE] = gone
    _begin_form(form, rule, interval)
    for n in range(len(order)):
        served.turn[n], served.queues[n] = group_of[order[n]], queue[order[n]]
    for q in range(len(queue_shares)):
        served.queue_shares[q] = queue_shares[q]


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
