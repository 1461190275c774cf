"""The data of flows in order: a copy of the rows in service order, and the lists of links."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels import in_place, inlined, row_type
from netsim.fabric.records import DUST

NONE = -1

#: Why the FLOW row of a flow is out of date: its rate is old, or it has sent bytes since.
STALE, MOVED = 1, 2

#: Bytes per second of the link that fills up paths shorter than others: more than is ever used.
PLENTY = 1e300

#: All flows.
TOTALS = row_type([
    ("moving", "i8"),  # how many move
    ("gone", "i8"),  # how many ended in earlier steps
    ("ended", "i8"),  # how many ended in the last step: they still count as moving
    ("by_size", "i8"),  # whether they go by bytes left
    ("changing", "i8"),  # on how many links rates change
])

#: A coflow, in service order.
COFLOW_ORDERED = row_type([
    ("key", "i8"),  # that of its COFLOW row
    ("row", "i8"),  # its COFLOW row; -1 once that has gone
    ("first", "i4"),  # its first flow
    ("stop", "i4"),  # behind its last one
    ("stale", "i4"),  # whether FLOW rows of its flows are out of date
])

#: An unfinished flow.
FLOW_ORDERED = row_type([
    ("left", "f8"),  # bytes left
    ("rate", "f8"),  # bytes per second
    ("floor", "f8"),  # bytes left at which it has ended
    ("overtakes_at", "f8"),  # by size: bytes left when it may go ahead of another on some link
    ("row", "i4"),  # its FLOW row
    ("coflow", "i4"),  # its coflow
    ("moving_at", "i4"),  # its place among the flows that move
    ("stale", "i4"),  # what its FLOW row lacks: `STALE` or `MOVED`; 0: nothing
])

#: A ``link`` on the path of a flow.
STEP = row_type([
    ("link", "i4"),
    ("slot", "i4"),  # the place of the flow in the list of the link
    ("next", "i4"),  # the next flow behind it there that moves, or `NONE`
])

#: A ``flow`` in the list of a link.
MEMBER = row_type([
    ("left", "f8"),  # by size: bytes left of a flow that waits; 0 if it moves
    ("flow", "i4"),
    # Another link on its path, or none. Most flows wait because that one is full, which is seen
    # from here without a look at the flow.
    ("other", "i4"),
])

#: A link.
LINK = row_type([
    ("capacity", "f8"),  # bytes per second
    ("dust", "f8"),  # so few that they count as none
    ("free", "f8"),  # bytes per second that flows find at the cursor, while rates change
    ("before", "f8"),  # what they found there before
    ("size", "f8"),  # of the next flow: bytes left or, in list order, its number
    ("first", "i4"),  # its first member
    ("stop", "i4"),  # behind its last one
    ("head", "i4"),  # its first flow that moves, or `NONE`
    ("filler", "i4"),  # the flow that leaves nothing to those behind it; the dummy if none does
    ("changes", "i4"),  # whether rates change; the columns below are in use only then
    ("cursor", "i4"),  # its list is to be searched from here on
    ("last", "i4"),  # at least until here
    ("flow", "i4"),  # the next flow whose rate may change, or `NONE`
    ("place", "i4"),  # its place in the heap of changing links
])

#: Rows of `FlowOrderState.lists`.
MOVING = 0  #: the flows that move
ENDED = 1  #: those that ended in the last step


class FlowOrderState(NamedTuple):
    """The unfinished flows in service order, and which of them have a rate (*move*)."""

    totals: NDArray[Any]  #: of TOTALS, shape (1,)
    coflows: NDArray[Any]  #: of COFLOW_ORDERED
    flows: NDArray[Any]  #: of FLOW_ORDERED; a dummy at the end goes before no flow
    #: Of STEP, by flow and place on its path; shorter paths are filled up with the last of
    #: `links`, a dummy.
    paths: NDArray[Any]
    links: NDArray[Any]  #: of LINK
    members: NDArray[Any]  #: of MEMBER: the flows on each link in order, one link after the other
    lists: NDArray[np.int64]  #: of flows; see `MOVING`
    heap: NDArray[np.int64]  #: links on which rates change, in a heap while these are followed
    #: Flows about to go ahead of others, of which the first to do so comes last.
    waiting: NDArray[np.int64]


# --- the copy of the rows ------------------------------------------------------------------
@in_place
def take_rows(engine, coflows, flows, hops, capacity, order):
    """Copy the unfinished flows of all coflows in `order`, and count them on each link."""
    links = engine.links
    for k in range(len(links)):
        link = links[k]
        link.capacity = capacity[k] if k < len(capacity) else PLENTY
        link.free = link.capacity
        link.dust = DUST * link.capacity
        link.head = NONE
        link.filler = len(engine.flows) - 1
    i = 0
    for k in range(len(order)):
        row, mine = coflows[order[k]], engine.coflows[k]
        mine.key = row.key
        mine.row = order[k]
        mine.stale = row.finish < np.inf
        mine.first = i
        for f in range(row.flow, row.flow + row.flows):
            if flows[f].remaining > 0.0:
                _copy_flow(engine, i, flows[f], hops)
                engine.flows[i].row = f
                engine.flows[i].coflow = k
                mine.stale |= engine.flows[i].stale
                i += 1
        mine.stop = i
    engine.flows[len(engine.flows) - 1].left = np.inf


@inlined
def _copy_flow(engine, i, row, hops):
    """Copy the FLOW row of flow i, and its path."""
    flow, paths, links = engine.flows[i], engine.paths, engine.links
    flow.stale = STALE if row.rate > 0.0 or row.finish < np.inf else 0
    flow.left = row.remaining
    flow.floor = DUST * row.size
    flow.overtakes_at = np.inf
    for h in range(paths.shape[1]):
        link = hops[row.hop + h].link if h < row.hops else len(links) - 1
        paths[i, h].link = link
        paths[i, h].next = NONE
        links[link].stop += 1


# --- the list of a link --------------------------------------------------------------------
@in_place
def precedes(engine, i, j):
    """Whether flow i is served before flow j."""
    if engine.totals[0].by_size:
        a, b = engine.flows[i].left, engine.flows[j].left
        if abs(a - b) > DUST * max(a, b):
            return a < b
    return i < j


@in_place
def hop_of(paths, i, link):
    """Return the position of a link on the path of flow i."""
    h = 0
    while paths[i, h].link != link:
        h += 1
    return h


@in_place
def mark(engine, i, left):
    """Store on the links of flow i that it waits with `left` bytes, or moves, if `left` is 0."""
    paths, members = engine.paths, engine.members
    for h in range(paths.shape[1]):
        if paths[i, h].link < len(engine.links) - 1:
            members[paths[i, h].slot].left = left


@in_place
def free_for(engine, i, k):
    """Return the bandwidth that the flows before flow i on link k leave for it."""
    free, j = engine.links[k].capacity, engine.links[k].head
    while j != NONE and j != i and precedes(engine, j, i):
        free -= engine.flows[j].rate
        j = engine.paths[j, hop_of(engine.paths, j, k)].next
    return free


@in_place
def find_filler(engine, k):
    """Find the first flow that leaves nothing of link k to the flows behind it."""
    link = engine.links[k]
    free, j = link.capacity, link.head
    link.filler = len(engine.flows) - 1
    while j != NONE:
        free -= engine.flows[j].rate
        if free <= link.dust:
            link.filler = j
            return
        j = engine.paths[j, hop_of(engine.paths, j, k)].next


@in_place
def insert_moving(engine, i, k):
    """Insert flow i into the list of moving flows of link k."""
    paths, link = engine.paths, engine.links[k]
    j, last = link.head, NONE
    while j != NONE and precedes(engine, j, i):
        last = j
        j = paths[j, hop_of(paths, j, k)].next
    paths[i, hop_of(paths, i, k)].next = j
    if last == NONE:
        link.head = i
    else:
        paths[last, hop_of(paths, last, k)].next = i


@in_place
def remove_moving(engine, i, k):
    """Remove flow i from the list of moving flows of link k."""
    paths, link = engine.paths, engine.links[k]
    behind = paths[i, hop_of(paths, i, k)].next
    if link.head == i:
        link.head = behind
        return
    j = link.head
    while paths[j, hop_of(paths, j, k)].next != i:
        j = paths[j, hop_of(paths, j, k)].next
    paths[j, hop_of(paths, j, k)].next = behind
