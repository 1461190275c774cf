"""The data of max-min sharing: classes of flows, the links that they cross, and what each has left.

Flows on the same path with the same weight have the same rate, and may form a *class*. Only the
flow of a class that ends first needs to be watched. When a class has *served* x bytes to each of
its flows, a flow that joined at y has sent x - y. So the *virtual finish* of a flow, what the class
will have served when the flow ends, never changes.

If coflows have weights, which their flows split, each class belongs to one coflow. All classes of a
coflow share one *unit*, the weight of each of its flows: when a flow ends, only the unit changes.

Values that loops sweep over are rows of arrays with one column per link or class; the constants
below name these rows. All else is in structured rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels import in_place, inlined, row_type
from netsim.fabric.kernels.progress import copy_rows

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
#: - tracked: how many classes are tracked in this epoch (they come first); ``steps``: how many
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
#: - first, stop, room: where its members begin and end, and how many it has room for
#: - low, high: it has flows in common with links from ``low`` to ``high`` at most
#: - wants: the sum of the weights of its flows; ``grew``: what of that grew until the link was full
#:   in the last fill; ``more``: what has joined since
#: - least: the least level at which it may now be full; inf if no flow has joined
#: - due, moved: whether it must be looked at, and whether it is among those that have moved
#: - lowest, highest: its levels in the last epoch; ``sent``: what a flow that it limited sent in
#:   that, from class ``sent_to`` on
_LINK = row_type([("first", "i8"), ("stop", "i8"), ("room", "i8"), ("low", "i8"),
                  ("high", "i8"), ("wants", "f8"), ("grew", "f8"), ("more", "f8"),
                  ("least", "f8"), ("due", "i8"), ("moved", "i8"), ("lowest", "f8"),
                  ("highest", "f8"), ("sent", "f8"), ("sent_to", "i8")])

#: By link, rows of `MaxMinState.levels`. During a fill: the weight of flows that are not frozen
#: yet, the bytes per second left for them, and the level at which the link was full, inf if it was
#: not. The levels of links in `ORDER` or, during a repair, in `QUEUE`. The level when the epoch
#: began. During a fill, if weights are not all 1: how many classes still grow.
UNFROZEN, LEFT, FULL_AT, KEYS, FULL_THEN, CLASSES_LEFT = range(6)

#: Lists of links, rows of `MaxMinState.lists`: those of a fill, in the order in which they will
#: freeze; those that the last fill froze, in that order; those that flows have joined; those to
#: look at, see `max_min_levels`; those with flows that may have another rate.
ORDER, FROZEN, JOINED, QUEUE, MOVED = range(5)

#: A class on a link: ``share``, the number of its flows; ``place``, that of the class; its unit.
_MEMBER = row_type([("share", "f8"), ("place", "i4"), ("unit", "i4")])

#: A class: how many flows it has; ``head``, the row of the flow that ends next; ``number``, which
#: it keeps for good; ``unit``, the number that has its weight; ``coflow``, the key of the coflow
#: that began it, and ``job``, its job.
_CLASS = row_type([("flows", "i4"), ("head", "i4"), ("number", "i4"), ("unit", "i4"),
                   ("coflow", "i8"), ("job", "i8")])

#: By class, rows of `MaxMinState.progress`: the bytes until its next flow ends, and at which that
#: counts as ended; the bytes per second of each flow; when the bytes are valid, if ends are kept
#: in a heap, else ``now``. During a fill, if paths have more than two links: 1 while it grows.
HEAD_LEFT, FLOOR, RATE, SEEN, GROWS = range(5)

#: By class, `MaxMinState.paths`: the links that it crosses, and its places among their members.
PATH, SPOT = range(2)

#: By number of a class: the ``weight`` of each flow; the time ``listed`` of the valid entry in the
#: heap of ends, inf without one; ``place``, that of the class. Other numbers are of coflows that
#: split their weight, and have the weight of each flow now and ``then``, when the epoch began.
#: ``free`` lists the numbers of classes, used ones first.
_NUMBER = row_type([("weight", "f8"), ("then", "f8"), ("listed", "f8"), ("place", "i4"),
                    ("free", "i4")])

#: A flow in its class: its ``virtual_finish``; ``one`` and ``two``, the flows below it in a heap by
#: that; the ``number`` of the class, -1 without one; ``cell``, the place of its cell among those of
#: its coflow; ``owner``, the key of the coflow.
_FLOW = row_type([("virtual_finish", "f8"), ("one", "i4"), ("two", "i4"), ("number", "i4"),
                  ("cell", "i4"), ("owner", "i8")])

#: A cell of the table in which a coflow with a split weight has a flow: the ``link`` and the
#: ``other``; ``flow``, the place of the flow in its coflow.
_CELL = row_type([("link", "u2"), ("other", "u2"), ("flow", "i4")])

#: In `MaxMinState.table`, by two links: the weight of flows that cross both, and the number of such
#: classes, as sums of weights other than 1 may be inexact.
COMMON, PAIRS = range(2)

#: Rows of `MaxMinState.past` behind those of links: the seconds of each step, scratch space, and
#: then the weights of flows of coflows that split their weight.
SECONDS, SCRATCH, SPLIT = range(3)

#: Up to this many links, there is a table of what each two have in common.
_MOST_IN_TABLE = 1024

#: A link has room for twice as many classes as it has flows, and for this many more.
_ROOM = 40

#: How many steps an epoch has at most.
LONGEST = 128

#: With fewer classes, all are tracked, and also where paths have other than two links: summing up
#: what each of many links did takes as long.
MANY = 2048

#: No flow, no class.
NONE = -1

#: In place of a number of links: all of them.
ALL = -1


class MaxMinState(NamedTuple):
    """The engine. Its last link is a dummy that fills up paths shorter than others."""

    state: NDArray[Any]  #: of _STATE, shape (1,)
    links: NDArray[Any]  #: of _LINK
    levels: NDArray[np.float64]
    lists: NDArray[np.int64]
    members: NDArray[Any]  #: of _MEMBER: the classes on each link, one link after the other
    others: NDArray[np.uint32]  #: by member: the other links that the class crosses
    classes: NDArray[Any]  #: of _CLASS; the last row is for swaps
    progress: NDArray[np.float64]
    paths: NDArray[np.uint32]
    numbers: NDArray[Any]  #: of _NUMBER
    flows: NDArray[Any]  #: of _FLOW, one per FLOW row
    #: Of _CELL, one per FLOW row or none: if there is a table, the cells of each coflow that splits
    #: its weight, those of unfinished flows first.
    cells: NDArray[Any]
    table: NDArray[np.float64]  #: empty if there are many links or long paths
    ends: NDArray[np.float64]  #: a heap of times; empty without one
    ending: NDArray[np.int64]  #: the numbers of the classes that end then
    past: NDArray[np.float64]  #: by link: the levels, step by step; empty without epochs


def new_state(coflows: NDArray[Any], flows: NDArray[Any], hops: NDArray[Any],
              capacity: NDArray[np.float64], longest: int, by_flow: bool,
              deterministic_rounding: bool) -> MaxMinState:
    """Return an engine without flows, with space for those of these rows, and for as many more.

    `longest` is the largest number of links on a path. With `by_flow`, links are shared again at
    each end of a flow. With `deterministic_rounding`, there is no heap of ends and there are no
    epochs, in which bytes left are rounded otherwise than where there are few flows.
    """
    count = len(capacity)
    state = np.zeros(1, _STATE)
    state["known"], state["plain"], state["stale"], state["by_flow"] = NONE, 1, 1, by_flow
    links = np.zeros(count + 1, _LINK)
    open_flows = give_room(links, coflows, flows, hops)
    levels = np.zeros((6, count + 1))
    levels[LEFT, :count], levels[FULL_AT] = capacity, np.inf
    places = int(links["first"][count])
    size, splits = 2 * open_flows + 64, 2 * len(coflows) + 64
    numbers = np.zeros(size + splits, _NUMBER)
    numbers["listed"], numbers["free"] = np.inf, np.arange(size + splits)
    # Epochs are for many classes on short paths.
    steps = LONGEST if longest == 2 and size >= MANY and not deterministic_rounding else 0
    ends = 0 if deterministic_rounding else 2 * size
    side = count + 1 if longest <= 2 and count <= _MOST_IN_TABLE else 0
    return MaxMinState(
        state, links, levels, np.empty((5, count + 1), np.int64), np.empty(places, _MEMBER),
        np.full((places, max(longest - 1, 1)), count, np.uint32), np.empty(size + 1, _CLASS),
        np.empty((5, size)), np.empty((2, size, longest), np.uint32), numbers,
        _no_flows(len(flows)), np.empty(len(flows) if side else 0, _CELL),
        np.zeros((2, side, side)), np.empty(ends), np.empty(ends, np.int64),
        np.zeros((count + 1 + SPLIT + splits, steps)))


def _no_flows(count: int) -> NDArray[Any]:
    flows = np.empty(count, _FLOW)
    flows["number"] = NONE
    return flows


@in_place
def give_room(links, coflows, flows, hops):
    """Give each link space for more classes than it has flows; return the number of open flows."""
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


def moved(engine: MaxMinState, coflows: NDArray[Any], before: NDArray[np.int64], count: int
          ) -> MaxMinState:
    """Return the engine after flows have moved to other rows, of which there are `count` now.

    `coflows` have the current places of flows; the first flow of each was at `before`.
    """
    within = np.concatenate([np.empty(0, np.int64), *map(np.arange, coflows["flows"])])
    old = np.repeat(before, coflows["flows"]) + within
    new = np.repeat(coflows["flow"], coflows["flows"]) + within
    row_after = np.full(len(engine.flows), NONE)
    row_after[old] = new
    flows = _no_flows(count)
    flows[new] = engine.flows[old]
    for below in flows["one"], flows["two"]:
        known = new[(flows["number"][new] >= 0) & (below[new] >= 0)]
        below[known] = row_after[below[known]]
    cells = np.empty(count if len(engine.cells) else 0, _CELL)
    if len(cells):
        cells[new] = engine.cells[old]
    heads = engine.classes["head"][:engine.state["classes"][0]]
    heads[:] = row_after[heads]
    return engine._replace(flows=flows, cells=cells)


@in_place
def _swap(classes, progress, paths, numbers, members, nowhere, one, two):
    scratch = len(classes) - 1
    copy_rows(classes, scratch, classes, one, 1)
    copy_rows(classes, one, classes, two, 1)
    copy_rows(classes, two, classes, scratch, 1)
    for k in range(GROWS):
        progress[k, one], progress[k, two] = progress[k, two], progress[k, one]
    for h in range(paths.shape[2]):
        for k in range(2):
            paths[k, one, h], paths[k, two, h] = paths[k, two, h], paths[k, one, h]
    for c in (one, two):
        numbers[classes[c].number].place = c
        for h in range(paths.shape[2]):
            if paths[PATH, c, h] != nowhere:
                members[paths[SPOT, c, h]].place = c


@inlined
def swap(engine, one, two):
    """Swap the places of two classes."""
    if one != two:
        _swap(engine.classes, engine.progress, engine.paths, engine.numbers, engine.members,
              len(engine.links) - 1, one, two)
