"""The data of `sharing`: classes of flows, and their links; their rates, and which ends next.

Flows on the same path with the same weight have the same rate, and may form a *class*. Only the
flow of a class that ends first needs to be watched. When a class has *served* x bytes to each of
its flows, a flow that joined at y has sent x - y. So the *virtual finish* of a flow, what the class
will have served when the flow ends, never changes.

If coflows have weights, which their flows split, each class belongs to one coflow. All classes of a
coflow share one *unit*, the weight of each of its flows: when a flow ends, only the unit changes.

Every rate may change at every event, but hardly any flow is about to end. During a *stretch* of
time, only the classes that may end in it are *tracked*. A class is *deferred* if it cannot end
before the *horizon*, even if its rate grew by the factor `_GROWS` squared. The levels of its links
are recorded, event by event. What it has sent is summed up when the stretch ends: at the horizon,
or when a rate has grown by more.

Where levels are repaired, so that most stay the same, the ends of classes are kept in a heap
instead: classes that an event does not affect are not visited. What the head of a class has left is
then valid at the time when the class was last ``seen``. If its end becomes earlier, it is pushed
again; the old entry is ignored when it reaches the top. The valid entry has the time in ``listed``.
A later end is corrected when the entry reaches the top.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels import in_place, inlined, row_type
from netsim.fabric.kernels.heap import heap_up, pop, rise, sink
from netsim.fabric.kernels.lazy import send

# --- data ----------------------------------------------------------------------------------

#: The sharing as a whole.
#:
#: - classes: how many there are; ``weight``: the sum of their weights; ``plain``: whether each is 1
#: - known: the key of the last coflow that is in it; ``waits``: how many have not started
#: - now: the time up to which bytes have moved
#: - stale: whether links must be shared again
#: - frozen: how many links the last fill froze; ``joined``: how many links flows have joined since;
#:   ``wrong``: how many links it found in the wrong place of the last order
#: - split: how many coflows split their weight
#: - changed: how often the table has changed since it was last summed up; ``light``, ``heavy``: the
#:   least and the largest weight since then
#: - tracked: how many classes are tracked in this stretch (they come first); ``steps``: how many
#:   steps it has had; ``horizon``: when it must end; ``reach``: how long the next one should be
#: - due: how many links to look at, because flows have come or gone
#: - moved: how many have moved since rates were set; `ALL` if levels were filled, not repaired
#: - by_flow: whether links are shared again at each end of a flow, not of coflows only
#: - keeps_ends: whether ends of classes are in a heap; ``listed``: how many entries that has
#: - used: how many links have flows
_STATE = row_type([("classes", "i8"), ("plain", "i8"), ("known", "i8"), ("waits", "i8"),
                   ("frozen", "i8"), ("stale", "i8"), ("joined", "i8"),
                   ("weight", "f8"), ("now", "f8"),
                   ("split", "i8"), ("changed", "i8"), ("light", "f8"), ("heavy", "f8"),
                   ("wrong", "i8"), ("tracked", "i8"), ("steps", "i8"), ("horizon", "f8"),
                   ("reach", "f8"), ("due", "i8"), ("moved", "i8"), ("by_flow", "i8"),
                   ("keeps_ends", "i8"), ("listed", "i8"), ("used", "i8")])

#: A link.
#:
#: - first, stop, room: where its list of classes begins and ends, and how many it has room for
#: - low, high: it has flows in common with links from ``low`` to ``high`` at most
#: - wants: the sum of the weights of its flows; ``grew``: what of that grew until the link was full
#:   in the last fill; ``more``: what has joined since
#: - least: the least level at which it may now be full; inf if no flow has joined
#: - due, moved: whether it must be looked at, and whether it is among those that have moved
_LINK = row_type([("first", "i8"), ("stop", "i8"), ("room", "i8"), ("low", "i8"),
                  ("high", "i8"), ("wants", "f8"), ("grew", "f8"), ("more", "f8"),
                  ("least", "f8"), ("due", "i8"), ("moved", "i8")])

#: A class: how many flows it has; ``head``, the row of the flow that ends next; ``number``, which
#: it keeps for good; ``coflow``, the key of the coflow that began it, and ``job``, its job.
_CLASS = row_type([("flows", "i8"), ("head", "i8"), ("number", "i8"), ("coflow", "i8"),
                   ("job", "i8")])

#: A flow in its class: its ``virtual_finish``; ``one`` and ``two``, the flows below it in a heap by
#: that; the ``number`` of the class, -1 without one; ``cell``, the place of its cell among those of
#: its coflow; ``owner``, the key of the coflow.
_SENDER = row_type([("virtual_finish", "f8"), ("one", "i4"), ("two", "i4"), ("number", "i4"),
                    ("cell", "i4"), ("owner", "i8")])

#: A cell of the table in which a coflow with a split weight has a flow: the ``link`` and the
#: ``other``; ``flow``, the place of the flow in its coflow.
_CELL = row_type([("link", "u2"), ("other", "u2"), ("flow", "i4")])

#: Up to this many links, there is a table of what each two have in common.
_MOST_IN_TABLE = 1024

#: A link has room for twice as many classes as it has flows, and for this many more.
_ROOM = 40

#: How many steps a stretch has at most.
LONGEST = 128

#: With fewer classes, all are tracked, and also where paths have other than two links: summing up
#: what each of many links did takes as long.
MANY = 2048

#: No flow, no class.
NONE = -1

#: In place of a number of links: all of them.
ALL = -1


class Parts(NamedTuple):
    """A sharing. Its last link is a dummy that fills up paths shorter than others."""

    state: NDArray[Any]  #: of _STATE, shape (1,)
    links: NDArray[Any]  #: of _LINK, shape (links + 1,)
    #: During a fill, by link: the weight of flows that are not frozen yet.
    unfrozen: NDArray[np.float64]
    left: NDArray[np.float64]  #: during a fill, by link: the bytes per second left for them
    full_at: NDArray[np.float64]  #: the level at which each link was full; inf if it was not
    #: During a fill of links that paths of more than two links cross, by class: whether it still
    #: grows.
    still: NDArray[np.bool_]
    order: NDArray[np.int64]  #: during a fill: the links in the order in which they will freeze
    #: The levels at which they will; during a repair, those of the links in `queue`.
    levels: NDArray[np.float64]
    #: During a fill, by link: how many classes still grow, if weights are not all 1.
    classes_left: NDArray[np.int64]
    #: By place in the lists of links, as the next three: the number of a class's flows.
    share: NDArray[np.float64]
    unit: NDArray[np.int64]  #: the index of the class's unit
    place: NDArray[np.int64]  #: the class
    others: NDArray[np.uint32]  #: the other links that it crosses
    #: Weights of flows, by number of their class, and then of coflows with split weights.
    units: NDArray[np.float64]
    #: The weight of flows that cross both of two links, if there are few links and short paths;
    #: shape (links + 1, links + 1) or (0, 0).
    common: NDArray[np.float64]
    #: The number of such classes, as sums of weights other than 1 may be inexact.
    pairs: NDArray[np.int32]
    head_left: NDArray[np.float64]  #: by class: bytes until its next flow ends
    floor: NDArray[np.float64]  #: by class: the bytes at which that flow counts as ended
    rate: NDArray[np.float64]  #: by class: bytes per second of each flow
    #: By class: when `head_left` is valid, if ends are kept in a heap; else at ``now``.
    seen: NDArray[np.float64]
    unit_of: NDArray[np.int64]  #: by class: the index of its unit
    classes: NDArray[Any]  #: of _CLASS
    path: NDArray[np.uint32]  #: by class: the links that it crosses
    spot: NDArray[np.uint32]  #: by class: its places in their lists
    senders: NDArray[Any]  #: of _SENDER, one per FLOW row
    #: Of _CELL, one per FLOW row or none: if there is a table, the cells of each coflow that splits
    #: its weight, those of unfinished flows first.
    cells: NDArray[Any]
    place_of: NDArray[np.int64]  #: of each class, by its number
    free: NDArray[np.int64]  #: the numbers of classes, used ones first
    ends: NDArray[np.float64]  #: a heap of times, see above; empty without one
    ending: NDArray[np.int64]  #: the numbers of the classes that end then
    #: The time of the valid entry of each class by its number; inf if there is none.
    listed: NDArray[np.float64]
    frozen: NDArray[np.int64]  #: links in the order in which the last fill froze them
    joined: NDArray[np.int64]  #: links that flows have joined
    queue: NDArray[np.int64]  #: links to examine; see `sharing_levels`
    moved: NDArray[np.int64]  #: links with flows that may have another rate
    full_then: NDArray[np.float64]  #: the levels of links when the stretch began
    unit_then: NDArray[np.float64]  #: the weights of coflows' flows then
    past: NDArray[np.float64]  #: the levels of links, step by step
    seconds: NDArray[np.float64]  #: the duration of each step
    weights: NDArray[np.float64]  #: scratch space
    past_unit: NDArray[np.float64]  #: the weights of flows of coflows that are split, step by step


def make(coflows, flows, hops, capacity, longest, by_flow, deterministic_rounding):
    """Return an empty sharing with space for these rows, and for as many more.

    `longest` is the largest number of links on a path. With `by_flow`, links are shared again at
    each end of a flow. With `deterministic_rounding`, there is no heap of ends and there are no
    stretches, in which bytes left are rounded otherwise than where there are few flows.
    """
    count = len(capacity)
    left = np.zeros(count + 1)
    left[:count] = capacity
    state = np.zeros(1, _STATE)
    state["known"], state["plain"], state["stale"] = NONE, 1, 1
    state["by_flow"] = by_flow
    links = np.zeros(count + 1, _LINK)
    open_flows = give_room(links, coflows, flows, hops)
    places = int(links["first"][count])
    size = 2 * open_flows + 64
    units = 2 * len(coflows) + 64
    # Stretches are for many classes on short paths.
    lines = LONGEST if longest == 2 and size >= MANY and not deterministic_rounding else 0
    ends = 0 if deterministic_rounding else 2 * size
    side = count + 1 if longest <= 2 and count <= _MOST_IN_TABLE else 0
    in_table = len(flows) if side else 0
    return Parts(
        state, links, np.zeros(count + 1), left, np.full(count + 1, np.inf),
        np.empty(size, np.bool_), np.empty(count + 1, np.int64), np.empty(count + 1),
        np.zeros(count + 1, np.int64),
        np.empty(places), np.empty(places, np.int64), np.empty(places, np.int64),
        np.full((places, max(longest - 1, 1)), count, np.uint32),
        np.empty(size + units), np.zeros((side, side)),
        np.zeros((side, side), np.int32), np.empty(size), np.empty(size), np.empty(size),
        np.empty(size), np.empty(size, np.int64), np.empty(size, _CLASS),
        np.empty((size, longest), np.uint32), np.empty((size, longest), np.uint32),
        _no_senders(len(flows)),
        np.empty(in_table, _CELL),
        np.empty(size, np.int64), np.arange(size),
        np.empty(ends), np.empty(ends, np.int64), np.full(size, np.inf),
        np.empty(count + 1, np.int64), np.empty(count + 1, np.int64),
        np.empty(count + 1, np.int64), np.empty(count + 1, np.int64),
        np.empty(count + 1), np.empty(units),
        np.zeros((count + 1, lines)), np.empty(LONGEST), np.empty(LONGEST),
        np.zeros((units, lines)))


def _no_senders(flows):
    senders = np.empty(flows, _SENDER)
    senders["number"] = NONE
    return senders


def moved(parts, coflows, before, flows):
    """Return a sharing in which flows have moved to other rows.

    `coflows` have the current places of flows; the first flow of each was at `before`. There are
    `flows` FLOW rows now.
    """
    senders = _no_senders(flows)
    cells = np.empty(flows if len(parts.cells) else 0, _CELL)
    move(parts, coflows, before, np.full(len(parts.senders), NONE), senders, cells)
    return parts._replace(senders=senders, cells=cells)


@in_place
def move(parts, coflows, before, row_of, senders, cells):
    """Copy the data of flows to their new rows, and renumber the rows in the heaps of classes."""
    for c in range(len(coflows)):
        for k in range(coflows[c].flows):
            row_of[before[c] + k] = coflows[c].flow + k
    for old in range(len(row_of)):
        if row_of[old] == NONE:
            continue
        flow = senders[row_of[old]]
        known = parts.senders[old]
        flow.virtual_finish, flow.owner = known.virtual_finish, known.owner
        flow.number, flow.cell = known.number, known.cell
        flow.one, flow.two = known.one, known.two
        if known.number >= 0:  # else it is in no heap
            if known.one >= 0:
                flow.one = row_of[known.one]
            if known.two >= 0:
                flow.two = row_of[known.two]
        if len(cells):
            cells[row_of[old]] = parts.cells[old]
    for c in range(parts.state[0].classes):
        parts.classes[c].head = row_of[parts.classes[c].head]


@in_place
def give_room(links, coflows, flows, hops):
    """Give each link space for more classes than it has flows; return the total space."""
    open_flows = 0
    for c in range(len(coflows)):
        open_flows += coflows[c].open
        for f in range(coflows[c].flow, coflows[c].flow + coflows[c].flows):
            if flows[f].remaining > 0.0:
                for h in range(flows[f].hop, flows[f].hop + flows[f].hops):
                    links[hops[h].link].room += 2
    places = 0
    for link in range(len(links)):
        links[link].first = links[link].stop = places
        links[link].room += _ROOM
        links[link].least = np.inf
        links[link].low = len(links)
        places += links[link].room
    links[len(links) - 1].room = 0
    return open_flows


@in_place
def swap(parts, one, two):
    """Swap the places of two classes."""
    if one == two:
        return
    classes, path, spot = parts.classes, parts.path, parts.spot
    for values in (parts.head_left, parts.floor, parts.rate, parts.seen):
        values[one], values[two] = values[two], values[one]
    parts.unit_of[one], parts.unit_of[two] = parts.unit_of[two], parts.unit_of[one]
    first, second = classes[one], classes[two]
    first.flows, second.flows = second.flows, first.flows
    first.head, second.head = second.head, first.head
    first.number, second.number = second.number, first.number
    first.coflow, second.coflow = second.coflow, first.coflow
    first.job, second.job = second.job, first.job
    for c in (one, two):
        parts.place_of[classes[c].number] = c
    for h in range(path.shape[1]):
        path[one, h], path[two, h] = path[two, h], path[one, h]
        spot[one, h], spot[two, h] = spot[two, h], spot[one, h]
        for c in (one, two):
            if path[c, h] != len(parts.links) - 1:
                parts.place[spot[c, h]] = c


# --- rates, and what ends next -------------------------------------------------------------

#: How much the level of a link, or the weight of a coflow's flows, may grow over a stretch.
_GROWS = 2.0

#: With fewer classes, it is faster to look at each end.
_MANY_ENDS = 1024


@inlined
def set_rates(parts):
    """Set the rates of tracked classes, if levels have moved since."""
    row = parts.state[0]
    if row.moved == ALL:
        _set_all(parts)
    else:
        _set_moved(parts)
    row.moved = 0


@in_place
def _set_all(parts):
    """Give each tracked class the lowest level on its path, times its weight."""
    count, full_at, units = parts.state[0].tracked, parts.full_at, parts.units
    rates, paths, unit = parts.rate[:count], parts.path[:count], parts.unit_of[:count]
    if paths.shape[1] == 2:
        for c in range(len(rates)):
            rates[c] = min(full_at[paths[c, 0]], full_at[paths[c, 1]])
    else:
        for c in range(len(rates)):
            lowest = np.inf
            for h in range(paths.shape[1]):
                lowest = min(lowest, full_at[paths[c, h]])
            rates[c] = lowest
    if not parts.state[0].plain:
        for c in range(len(rates)):
            rates[c] *= units[unit[c]]


@in_place
def begin(parts, now):
    """Begin a stretch once all rates are known: move the classes to track to the front."""
    row, head_left, rate, floor = parts.state[0], parts.head_left, parts.rate, parts.floor
    if (row.keeps_ends or row.classes < MANY or row.reach == 0.0
            or parts.past.shape[1] == 0):
        return
    row.horizon = now + row.reach
    most = _GROWS * _GROWS * row.reach
    tracked, deferred = 0, row.classes
    while tracked < deferred:
        if head_left[tracked] <= rate[tracked] * most + 2.0 * floor[tracked]:
            tracked += 1
            continue
        deferred -= 1
        if head_left[deferred] <= rate[deferred] * most + 2.0 * floor[deferred]:
            swap(parts, tracked, deferred)
            tracked += 1
    if 4 * tracked > row.classes:
        row.reach *= 0.5
    row.tracked = tracked
    row.steps = 0
    _mark(parts)


@inlined
def _mark(parts):
    """Mark the levels and weights that limit deferred classes; others may rise freely."""
    full_at, full_then, path, row = parts.full_at, parts.full_then, parts.path, parts.state[0]
    first = len(parts.classes)
    for link in range(len(full_at)):
        full_then[link] = np.inf
    for k in range(row.split):
        parts.unit_then[k] = np.inf
    for c in range(row.tracked, row.classes):
        if parts.unit_of[c] >= first:
            parts.unit_then[parts.unit_of[c] - first] = parts.units[parts.unit_of[c]]
        one, two = path[c, 0], path[c, 1]
        lowest = one if full_at[one] < full_at[two] else two
        full_then[lowest] = full_at[lowest]


@in_place
def holds(parts):
    """Return whether deferred classes, if any, can still be skipped."""
    row, full_at, full_then = parts.state[0], parts.full_at, parts.full_then
    if row.tracked == row.classes:
        return True
    if row.steps == LONGEST:
        return False
    for link in range(len(full_at)):
        if full_at[link] > _GROWS * full_then[link]:
            return False
    for k in range(row.split):
        if parts.units[len(parts.classes) + k] > _GROWS * parts.unit_then[k]:
            return False
    return True


@inlined
def remember(parts, dt):
    """Record that the levels of all links have been in force for `dt` seconds."""
    row = parts.state[0]
    if row.reach == 0.0:
        row.reach = LONGEST * dt
    if row.tracked == row.classes or dt == 0.0:
        return
    for link in range(len(parts.full_at)):
        parts.past[link, row.steps] = parts.full_at[link]
    parts.seconds[row.steps] = dt
    for k in range(row.split):
        parts.past_unit[k, row.steps] = parts.units[len(parts.classes) + k]
    row.steps += 1


@in_place
def catch_up(parts):
    """Flush deferred progress to every class, and track all classes again."""
    row = parts.state[0]
    if row.tracked == row.classes:
        return
    row.reach *= 0.8 if row.steps == LONGEST else 1.25
    steps, first = row.steps, row.tracked
    if row.plain:
        _flush(parts, first, row.classes, parts.seconds[:steps])
    else:
        for k in range(row.split):
            for t in range(steps):
                parts.past_unit[k, t] *= parts.seconds[t]
        for c in range(row.tracked, row.classes):  # those of a coflow mostly stand side by side
            if c + 1 == row.classes or parts.unit_of[c + 1] != parts.unit_of[first]:
                _flush(parts, first, c + 1, _weights(parts, parts.unit_of[first], steps))
                first = c + 1
    row.tracked = row.classes
    _set_all(parts)
    row.moved = 0


@in_place
def _flush(parts, first, stop, weights):
    """Subtract what classes have sent, with the same weight in each step."""
    send(parts.head_left[first:stop], parts.floor[first:stop], parts.path[first:stop], parts.past,
         0, weights)


@inlined
def _weights(parts, unit, steps):
    """Return the seconds of each step times the weight of flows in it."""
    if unit >= len(parts.classes):
        return parts.past_unit[unit - len(parts.classes), :steps]
    for t in range(steps):
        parts.weights[t] = parts.seconds[t] * parts.units[unit]
    return parts.weights[:steps]


@inlined
def _set_moved(parts):
    """Give the classes on moved links the lowest level on their paths, for weights of 1."""
    links, others, full_at, row = parts.links, parts.others, parts.full_at, parts.state[0]
    for k in range(row.moved):
        at = links[parts.moved[k]]
        level = full_at[parts.moved[k]]
        for m in range(np.uint64(at.first), np.uint64(at.stop)):
            c = parts.place[m]
            lowest = level
            for h in range(others.shape[1]):
                lowest = min(lowest, full_at[others[m, h]])
            if not row.keeps_ends:
                parts.rate[c] = lowest
            elif lowest != parts.rate[c]:
                see(parts, c)
                parts.rate[c] = lowest
                expect(parts, c)


# --- a heap of ends ---------------------------------------------------------------------
@in_place
def left_of(parts, c):
    """Return how many bytes a class still has to send until its next flow ends."""
    row = parts.state[0]
    if not row.keeps_ends or row.now <= parts.seen[c]:
        return parts.head_left[c]
    return parts.head_left[c] - parts.rate[c] * (row.now - parts.seen[c])


@inlined
def see(parts, c):
    """Advance what the head of a class has left to now, before its rate or its flows change."""
    parts.head_left[c] = left_of(parts, c)
    parts.seen[c] = parts.state[0].now


@inlined
def _end_of(parts, c):
    """Return when the next flow of a class ends."""
    rate = parts.rate[c]
    return parts.seen[c] + max(parts.head_left[c], 0.0) / rate if rate > 0.0 else np.inf


@in_place
def expect(parts, c):
    """Push a class's end if it is earlier now, after its rate or its flows have changed."""
    row = parts.state[0]
    end, number = _end_of(parts, c), parts.classes[c].number
    if end >= parts.listed[number]:
        return
    if row.listed == len(parts.ends):
        _drop_old(parts)
    parts.listed[number] = end
    parts.ends[row.listed], parts.ending[row.listed] = end, number
    rise(parts.ends, parts.ending, row.listed)
    row.listed += 1


@in_place
def _drop_old(parts):
    """Rebuild the heap with one entry per class, so that at least half of its space is free."""
    row, kept = parts.state[0], 0
    for c in range(row.classes):
        number = parts.classes[c].number
        if parts.listed[number] < np.inf:
            parts.ends[kept], parts.ending[kept] = parts.listed[number], number
            kept += 1
    row.listed = kept
    heap_up(parts.ends[:kept], parts.ending[:kept])


@in_place
def next_class(parts):
    """Return the class that ends next, and when; -1 and inf if no class sends."""
    row, ends, ending = parts.state[0], parts.ends, parts.ending
    while row.listed > 0:
        number = ending[0]
        if ends[0] == parts.listed[number]:
            c = parts.place_of[number]
            end = _end_of(parts, c)
            if end == ends[0]:
                return c, end
            parts.listed[number] = end
            if end < np.inf:
                ends[0] = end
                sink(ends, ending, 0, row.listed)
                continue
        pop(ends, ending, row.listed)
        row.listed -= 1
    return -1, np.inf


@in_place
def keep_ends(parts):
    """Keep the ends of all classes in a heap from now on, if there are many classes."""
    row = parts.state[0]
    if row.keeps_ends or row.classes < _MANY_ENDS or len(parts.ends) == 0:
        return
    row.keeps_ends = 1
    row.listed = 0
    for c in range(row.classes):
        parts.seen[c] = row.now
        parts.listed[parts.classes[c].number] = np.inf
        expect(parts, c)


@in_place
def forget_ends(parts):
    """Bring what each head has left up to now, and stop using the heap."""
    row = parts.state[0]
    if row.keeps_ends:
        for c in range(row.classes):
            parts.head_left[c] = left_of(parts, c)
        row.keeps_ends = 0
