"""The data of max-min sharing: classes of flows, the links that they cross, and what each has left.

Flows on the same path with the same weight have the same rate, and may form a *class*. Only the
flow of a class that ends first needs to be watched. When a class has *served* x bytes to each of
its flows, a flow that joined at y has sent x - y. So the *virtual finish* of a flow, what the class
will have served when the flow ends, never changes.

If coflows have weights, which their flows split, each class belongs to one coflow. All classes of a
coflow share one *unit*, the weight of each of its flows: when a flow ends, only the unit changes.

What is read for one thing at a time is a field of a row. What loops sweep over is a row of an array
with one column per link or class; constants name these.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels import in_place, inlined, row_type
from netsim.fabric.kernels.progress import copy_rows

# --- rows ----------------------------------------------------------------------------------
#: The sharing as a whole.
_STATE = row_type([
    ("classes", "i8"),  # how many there are
    ("plain", "i8"),  # whether each has weight 1
    ("known", "i8"),  # the key of the last coflow that is in it; -1 before the first
    ("waits", "i8"),  # how many coflows have not started
    ("frozen", "i8"),  # how many links the last fill froze
    ("stale", "i8"),  # whether links must be shared again
    ("joined", "i8"),  # how many links flows have joined since the last fill
    ("weight", "f8"),  # of all flows together
    ("now", "f8"),  # bytes have moved up to this time, in seconds
    ("split", "i8"),  # how many coflows split their weight
    ("changed", "i8"),  # how often the table has changed since it was last summed up
    ("light", "f8"),  # the least weight since then
    ("heavy", "f8"),  # the largest
    ("wrong", "i8"),  # how many links the last fill found in the wrong place of the last order
    ("tracked", "i8"),  # how many classes are tracked in this epoch; they come first
    ("steps", "i8"),  # how many steps it has had
    ("horizon", "f8"),  # when it must end, in seconds
    ("reach", "f8"),  # how long the next one should be, in seconds
    ("due", "i8"),  # how many links to look at, because flows have come or gone
    ("moved", "i8"),  # how many have moved since rates were set; `ALL` if levels were filled
    ("by_flow", "i8"),  # whether links are shared again at each end of a flow, not of coflows only
    ("keeps_ends", "i8"),  # whether ends of classes are in a heap
    ("listed", "i8"),  # how many entries that has
    ("used", "i8"),  # how many links have flows
])

#: A link.
_LINK = row_type([
    ("first", "i8"),  # its first member
    ("stop", "i8"),  # behind its last one
    ("room", "i8"),  # how many it has room for
    ("low", "i8"),  # the first link with which it may have flows in common
    ("high", "i8"),  # behind the last one
    ("wants", "f8"),  # the weight of its flows
    ("grew", "f8"),  # what of that grew until the link was full in the last fill
    ("more", "f8"),  # what has joined since
    ("least", "f8"),  # the least level at which it may now be full; inf if no flow has joined
    ("due", "i8"),  # whether it must be looked at
    ("moved", "i8"),  # whether it is among those that have moved
    ("lowest", "f8"),  # its lowest level in the last epoch
    ("highest", "f8"),  # its highest
    ("sent", "f8"),  # the bytes that a flow that it limited sent in that
    ("sent_to", "i8"),  # from this class on
])

#: A class on a link.
_MEMBER = row_type([
    ("share", "f8"),  # how many flows the class has
    ("place", "i4"),  # that of the class
    ("unit", "i4"),  # that of the class
])

#: A class.
_CLASS = row_type([
    ("flows", "i4"),  # how many it has
    ("head", "i4"),  # the FLOW row of the flow that ends next
    ("number", "i4"),  # which it keeps for good
    ("unit", "i4"),  # the number that has its weight
    ("coflow", "i8"),  # the key of the coflow that began it
    ("job", "i8"),  # the job of that
])

#: What a class keeps under its number. Numbers behind those of classes are of coflows that split
#: their weight.
_NUMBER = row_type([
    ("weight", "f8"),  # of each flow
    ("then", "f8"),  # of a coflow that splits it: that when the epoch began
    ("listed", "f8"),  # the time of the valid entry in the heap of ends; inf without one
    ("place", "i4"),  # that of the class
    ("free", "i4"),  # a list of the numbers of classes, used ones first
])

#: A flow.
_FLOW = row_type([
    ("virtual_finish", "f8"),  # bytes
    ("one", "i4"),  # a flow below it in a heap by that, or `NONE`
    ("two", "i4"),  # the other one
    ("number", "i4"),  # that of its class; `NONE` without one
    ("cell", "i4"),  # the place of its cell among those of its coflow
    ("owner", "i8"),  # the key of its coflow
])

#: A cell of the table, by ``link`` and ``other``, in which a coflow with a split weight has a flow.
_CELL = row_type([
    ("link", "u2"),
    ("other", "u2"),
    ("flow", "i4"),  # the place of the flow in its coflow
])


# --- rows of arrays ------------------------------------------------------------------------
#: `MaxMinState.levels`, by link: what a fill needs, and what it leaves.
UNFROZEN = 0  #: the weight of flows that are not frozen yet
LEFT = 1  #: bytes per second left for them
FULL_AT = 2  #: the level at which the link was full; inf if it was not
KEYS = 3  #: the levels of links in `ORDER` or, during a repair, in `QUEUE`
FULL_THEN = 4  #: the level when the epoch began
CLASSES_LEFT = 5  #: if weights are not all 1: how many classes still grow

#: `MaxMinState.lists`, of links.
ORDER = 0  #: those of a fill, in the order in which they will freeze
FROZEN = 1  #: those that the last fill froze, in that order
JOINED = 2  #: those that flows have joined
QUEUE = 3  #: those to look at, see `max_min_levels`
MOVED = 4  #: those with flows that may have another rate

#: `MaxMinState.progress`, by class.
HEAD_LEFT = 0  #: bytes until its next flow ends
FLOOR = 1  #: bytes at which that counts as ended
RATE = 2  #: bytes per second of each flow
SEEN = 3  #: when `HEAD_LEFT` was right if ends are kept in a heap; else it is so ``now``
GROWS = 4  #: during a fill, on paths of more than two links: 1 while it grows

#: `MaxMinState.paths`, by class.
PATH = 0  #: the links that it crosses
SPOT = 1  #: its places among their members

#: `MaxMinState.table`, by two links.
COMMON = 0  #: the weight of flows that cross both
PAIRS = 1  #: the number of such classes, as sums of weights other than 1 may be inexact

#: `MaxMinState.past`, by step, behind the levels of links.
SECONDS = 0  #: how long it took
SCRATCH = 1
SPLIT = 2  #: from here on: the weights of flows of coflows that split theirs

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
    """Return rows of flows that are in no class."""
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
    """Swap the places of two classes in all that is listed by these."""
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
