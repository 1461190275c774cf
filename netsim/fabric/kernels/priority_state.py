"""The data of the priority engine: the unfinished flows of coflows in service order.

A *slot* is a link of one coflow; the last slot is a dummy, which fills up paths that are shorter
than others. A *run* is a series of flows of one coflow with the same last slot.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels import inlined, row_type

#: The first pass over coflows, in order: nothing, MADD, or max-min within the share of a queue. The
#: rest, in order: unused, or given to the flows of each coflow, max-min fairly or in list order.
NOBODY, MADD, QUEUES, MAXMIN, GREEDY = 0, 1, 2, 3, 4

#: How many instants are remembered.
INSTANTS = 64

#: The engine as a whole.
#:
#: - primary, backfill: the first pass, and how the rest is allocated
#: - eager: whether each flow's rate is set at each step, rather than the levels of slots remembered
#: - ended: how many flows have ended; ``coflows``: how many coflows are served
#: - fresh: whether nothing has been served yet; ``moving``: how many coflows move
#: - reached: whether a coflow that does not move has reached its limit
#: - stale: whether coflows have come or gone, so that the copy is out of date; ``admitted``:
#:   whether some have come that it does not have
#: - queues: how many there are
STATUS = row_type([(name, "i8") for name in ("primary", "backfill", "eager", "ended", "coflows",
                                             "fresh", "moving", "reached", "stale", "admitted",
                                             "queues")])

#: A coflow, in the service order at the time of the copy.
#:
#: - row: its row, or -1; ``key``: that of the row
#: - idle: whether it got nothing in the last step. Each of its flows then has a slot of level 0 in
#:   both fillings, so that it can be skipped while a link of all its flows is full
#: - link, link_2: links that all its flows cross, filled up with a link that is never full
#: - flow, flows, slot, slots, run, runs: where its flows, slots and runs begin, and their numbers
#: - paired: whether each of its flows has two slots
#: - left, speed: its bytes left, and bytes per second; ``queue_speed``: those within the share of
#:   its ``queue``, which is ``queue_share`` of each link
#: - limit: the bytes left at which it must stop; ``reached``: those if it does not move
#: - gamma, whole: the seconds that it has left by MADD, now and when that was decided; 0 without
#: - thinner: whether a flow has ended since it got its queue's share; ``refilled``: whether it got
#:   that again in the last step; ``gains``: whether it gets some of the rest
#: - queue_top, top: the highest levels within its queue's share, and of the rest
#: - steps: how many steps are recorded, of ``clock`` seconds in all; ``shares``: how many shares
#:   of its queue it had in them; ``renewed``: whether the present share is not among these yet
SERVED = row_type([("row", "i4"), ("idle", "i4"), ("link", "u4"), ("link_2", "u4"),
                   ("queue", "i4"), ("slot", "i4"), ("slots", "i4"), ("run", "i4"), ("runs", "i4"),
                   ("steps", "i4"), ("shares", "i4"), ("renewed", "i4"), ("thinner", "i4"),
                   ("refilled", "i4"), ("gains", "i4"), ("paired", "i4"), ("left", "f8"),
                   ("speed", "f8"), ("gamma", "f8"), ("queue_speed", "f8"), ("clock", "f8"),
                   ("limit", "f8"), ("reached", "f8"), ("queue_share", "f8"), ("whole", "f8"),
                   ("top", "f8"), ("queue_top", "f8"), ("key", "i8"), ("flow", "i4"),
                   ("flows", "i4")])

#: A link of a coflow.
#:
#: - first, stop: its places in the list of members; ``open``: how many flows have not ended
#: - begin: if the other slots of its flows lie close together, the members are all slots from this
#:   one on, in common or not; else -1, and the members are its flows
#: - link: its link, among those in use; ``port``: the same link, among all
SLOT = row_type([("first", "i4"), ("stop", "i4"), ("open", "i4"), ("begin", "i4"), ("link", "u4"),
                 ("port", "u4")])

#: Flows ``first`` to ``stop`` that follow one another in a coflow's list and have the same last
#: ``slot``.
#:
#: - begin, end: if there are many, and the other slots that they cross lie close together, they are
#:   from ``begin`` to ``end``; else both are 0
#: - busy: whether some may have a rate; ``idle``: whether none has had one since rows were read
#: - coflow: theirs
#: - step, share, clock: up to which of its steps, shares and seconds they are flushed
#: - least: what each has left at least; ``most``: what each gets at most, besides MADD
#: - floor: the most bytes at which one of them counts as ended
RUN = row_type([("first", "i4"), ("stop", "i4"), ("slot", "i4"), ("busy", "i4"),
                ("coflow", "i4"), ("step", "i4"), ("share", "i4"), ("idle", "i4"),
                ("begin", "i4"), ("end", "i4"), ("clock", "f8"), ("least", "f8"), ("most", "f8"),
                ("floor", "f8")])

#: A flow: its coflow, and its row.
FLOW_SERVED = row_type([("row", "i8"), ("coflow", "i8")])

#: Of each flow: bytes left, bytes per second, and the bytes left at which it counts as ended, which
#: are negative if it has.
LEFT, RATE, FLOOR = range(3)

#: Of each flow: the slots that it crosses, and its place in the list of members of each.
PATH, MEMBER = range(2)

#: There are two fillings: of the share of a queue, and of the rest.
IN_QUEUE, REST = range(2)

#: Of each slot: bytes to send, and as of when they were last added up; bytes per second, and those
#: of its queue's share. From the next three on, each with a row per filling: the level at which it
#: was full, inf if it was not, 0 if no bandwidth was free; how many flows have some on all of their
#: other links; and 1 if there is some on this link. In a fill, how many flows grow, the bandwidth
#: left for them, and keys of a heap. Then, what each of the flows of a run sent that cross it.
LOAD, ADDED_UP, USED, USED_IN_QUEUE, LEVEL, WANTS, FREE = 0, 1, 2, 3, 4, 6, 8
UNFROZEN, FILL_LEFT, FILL_KEY, SENT = 10, 11, 12, 13
_BY_SLOT = 14

#: Of each link in use, in bytes per second, and of one more that is never full: with a row per
#: filling, what is left; its bandwidth; and the most left with which it counts as full.
AVAILABLE, CAPACITY, DUST_LEFT = 0, 2, 3
_BY_LINK = 4

#: Lists. With a row per filling, the slots of each coflow in the order in which they froze last
#: time. In a fill, the slots to fill, their places in that order, and a heap. The coflows in order
#: of service, and those that move.
ORDER, FILLED, PLACES, HEAP, TURN, MOVING = 0, 2, 3, 4, 5, 6
_LISTS = 7

#: By coflow and recorded step: its seconds; the fraction of its bytes that MADD leaves to each
#: flow; and, by share of a queue instead, the seconds on its clock from which it has had that.
SECONDS, KEEPS, SINCE = range(3)


class Service(NamedTuple):
    """What is served, and how; see `PriorityService`."""

    order: NDArray[np.int64]  #: coflows, the first to be served first
    primary: int  #: as the constants above
    backfill: int
    queue: NDArray[np.int64]  #: of each coflow, shape (coflows,)
    queue_shares: NDArray[np.float64]  #: of the bandwidth, shape (queues,)
    limit: NDArray[np.float64]  #: bytes sent at which the policy is asked, shape (coflows,)


class PriorityState(NamedTuple):
    """The unfinished flows of coflows that are served in order; see above for rows of arrays."""

    status: NDArray[Any]  #: of STATUS, shape (1,)
    coflows: NDArray[Any]  #: of SERVED
    slots: NDArray[Any]  #: of SLOT
    runs: NDArray[Any]  #: of RUN
    flows: NDArray[Any]  #: of FLOW_SERVED
    by_flow: NDArray[np.float64]
    paths: NDArray[np.uint32]  #: shape (2, flows, most links on a path)
    share: NDArray[np.float64]  #: by member: how many unfinished flows there are
    others: NDArray[np.uint32]  #: by member: the other slots that they cross
    by_slot: NDArray[np.float64]
    by_link: NDArray[np.float64]
    lists: NDArray[np.int64]
    #: By coflow and instant; one coflow more is scratch space.
    steps: NDArray[np.float64]
    #: By filling, instant and slot: its level; in the first, for each share of a queue, which
    #: changes rarely.
    levels: NDArray[np.float64]


class Filling(NamedTuple):
    """One of the two fillings, for `filling.freeze_of`; the links of a coflow are its slots."""

    links: NDArray[Any]
    share: NDArray[np.float64]
    others: NDArray[np.uint32]
    unfrozen: NDArray[np.float64]
    left: NDArray[np.float64]
    full_at: NDArray[np.float64]


@inlined
def state_of(coflows, slots, runs, flows, by_flow, paths, share, others, links):
    """Return the state of an engine with these arrays, and others that are as large."""
    count, width = len(slots), max(len(slots), len(coflows))
    return PriorityState(
        np.zeros(1, STATUS), coflows, slots, runs, flows, by_flow, paths, share, others,
        np.zeros((_BY_SLOT, count)), np.zeros((_BY_LINK, links + 1)),
        np.empty((_LISTS, width), np.int64), np.empty((3, len(coflows) + 1, INSTANTS)),
        np.empty((2, INSTANTS, count)))


def no_flows() -> PriorityState:
    """Return an engine without flows, for use before the first real one exists."""
    state = state_of.py_func(
        np.zeros(0, SERVED), np.zeros(1, SLOT), np.zeros(0, RUN), np.zeros(0, FLOW_SERVED),
        np.zeros((3, 0)), np.zeros((2, 0, 1), np.uint32), np.zeros(0),
        np.zeros((0, 1), np.uint32), 0)
    state.status["admitted"] = 1
    return state
