"""The data of `serving`: the unfinished flows in service order, with their slots.

A *group* is a coflow in service order, a *slot* one of its links, a *run* a series of its flows
with the same last slot.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels import row_type

#: The first pass over coflows, in order: nothing, MADD, or max-min within the share of a queue. The
#: rest, in order: unused, or given to the flows of each coflow, max-min fairly or in list order.
NOBODY, MADD, QUEUES, MAXMIN, GREEDY = 0, 1, 2, 3, 4

#: How many instants are remembered. As these values fill an odd number of cache lines, the same
#: instant of slots that follow each other does not fall on the same few places of the cache.
INSTANTS = 72

#: The engine as a whole.
#:
#: - primary, backfill: the first pass, and how the rest is allocated
#: - eager: whether each flow's rate is set at each step, rather than the levels of slots remembered
#: - gone: how many flows have ended; ``coflows``: how many coflows are served
#: - fresh: whether nothing has been served yet; ``moving``: how many groups move
#: - reached: whether a group that stands still has reached its limit
#: - stale: whether coflows have come or gone, so that the copy is out of date; ``joined``: whether
#:   some have come that it does not have
SERVING = row_type([(name, "i8") for name in ("primary", "backfill", "eager", "gone", "coflows",
                                              "fresh", "moving", "reached", "stale", "joined")])

#: A link of a group.
#:
#: - open: how many of its flows have not ended; ``known``: their bytes when last added up
#: - first, stop: its places in the list of members
#: - begin: if the other slots of its flows lie close together, the members are all slots from this
#:   one on, in common or not; else -1, and the members are its flows
SLOT = row_type([("known", "f8"), ("first", "i4"), ("stop", "i4"), ("open", "i4"),
                 ("begin", "i4")])

#: A coflow, in service order.
#:
#: - flow, flows, slot, slots, run, runs: where its flows, slots and runs begin, and their numbers
#: - paired: whether each of its flows has two slots
#: - row: its row, or -1
#: - left, speed: the bytes that it has left, and how fast it sends; ``held``: how fast within its
#:   queue's share
#: - limit: the bytes left at which it must stop; ``reached``: those if it stands still
#: - gamma, whole: the seconds that it has left by MADD, now and when that was decided; 0 without
#: - thinner: whether a flow has ended since it got its queue's share; ``anew``: whether it got that
#:   again in the last step; ``gains``: whether it gets some of the rest
#: - held_top, top: the highest levels within its queue's share, and of the rest
#: - steps: how many steps are remembered, of ``clock`` seconds in all; ``shares``: how many shares
#:   of its queue it had in them; ``renewed``: whether the present share is not among these yet
GROUP = row_type([("flow", "i8"), ("flows", "i8"), ("slot", "i8"), ("slots", "i8"),
                  ("run", "i8"), ("runs", "i8"), ("paired", "i8"), ("left", "f8"),
                  ("speed", "f8"), ("held", "f8"), ("limit", "f8"), ("reached", "f8"),
                  ("gamma", "f8"), ("whole", "f8"), ("row", "i8"), ("thinner", "i4"),
                  ("anew", "i4"), ("gains", "i4"), ("held_top", "f8"), ("top", "f8"),
                  ("clock", "f8"), ("steps", "i4"), ("shares", "i4"),
                  ("renewed", "i4")])

#: Flows ``first`` to ``stop`` that follow one another in a coflow's list and have the same last
#: ``slot``.
#:
#: - busy: whether some may have a rate; ``idle``: whether none has had one since rows were read
#: - group: their coflow
#: - caught, since, share: up to which of its steps, time on its clock, and share they are computed
#: - least: what each has left at least; ``most``: what each gets at most, besides MADD
#: - floor: the most bytes at which one of them counts as ended
RUN = row_type([("first", "i4"), ("stop", "i4"), ("slot", "i4"), ("busy", "i4"),
                ("group", "i4"), ("caught", "i4"), ("share", "i4"), ("idle", "i4"),
                ("since", "f8"), ("least", "f8"), ("most", "f8"), ("floor", "f8")])


class Service(NamedTuple):
    """What is served, and how; see `PriorityService`."""

    order: NDArray[np.int64]  #: coflows, the first to be served first
    primary: int  #: as the constants above
    backfill: int
    queue: NDArray[np.int64]  #: of each coflow, shape (coflows,)
    queue_shares: NDArray[np.float64]  #: of the bandwidth, shape (queues,)
    limit: NDArray[np.float64]  #: bytes sent at which the policy is asked, shape (coflows,)


class Traffic(NamedTuple):
    """What coflows send on their links, by slot."""

    load: NDArray[np.float64]  #: bytes to send
    used: NDArray[np.float64]  #: bytes per second
    held: NDArray[np.float64]  #: the part of these that comes from the share of a queue


class Links(NamedTuple):
    """The links in use, and one more that is never full; in bytes per second."""

    left: NDArray[np.float64]  #: of all bandwidth
    share: NDArray[np.float64]  #: left of the share of a queue
    capacity: NDArray[np.float64]  #: without the last link
    dust: NDArray[np.float64]  #: with less left, the link counts as full


class Desk(NamedTuple):
    """Space for a fill of a group."""

    slots: NDArray[np.int64]  #: to fill
    turns: NDArray[np.int64]  #: their places in `Filling.turn`
    heap: NDArray[np.int64]
    levels: NDArray[np.float64]


class Senders(NamedTuple):
    """Flows, group by group."""

    left: NDArray[np.float64]  #: bytes left
    rate: NDArray[np.float64]  #: bytes per second
    floor: NDArray[np.float64]  #: bytes left at which the flow counts as ended; negative if it has
    place: NDArray[np.int32]  #: of the coflow in the order
    flow: NDArray[np.int64]  #: the FLOW row


class Filling(NamedTuple):
    """What is filled, group by group; the links of a group are its slots."""

    links: NDArray[Any]  #: of SLOT
    share: NDArray[np.float64]  #: by member: how many unfinished flows there are
    others: NDArray[np.uint32]  #: by member: the other slots that they cross
    wants: NDArray[np.float64]  #: by slot: how many flows have room on all of their other links
    room: NDArray[np.bool_]  #: by slot: whether it has room itself
    #: By slot: the level at which it was full; inf if it was not, 0 without room.
    full_at: NDArray[np.float64]
    unfrozen: NDArray[np.float64]  #: during a fill, the flows that are not frozen yet
    left: NDArray[np.float64]  #: during a fill, the bandwidth left for them
    turn: NDArray[np.int64]  #: each group's slots in the order in which they froze last time


class Past(NamedTuple):
    """The recorded levels and times, instant by instant."""

    seconds: NDArray[np.float64]  #: by group: the time until the next instant
    keeps: NDArray[np.float64]  #: by group: the fraction of its bytes that MADD leaves to each flow
    #: By group: the time on its clock from which it has had each share of a queue.
    since: NDArray[np.float64]
    held: NDArray[np.float64]  #: by slot: its level for each share of a queue, which changes rarely
    rest: NDArray[np.float64]  #: by slot: its level at each instant in the filling of the rest
    weights: NDArray[np.float64]  #: scratch space


class Served(NamedTuple):
    """The unfinished flows of coflows that are served in order."""

    state: NDArray[Any]  #: of SERVING, shape (1,)
    groups: NDArray[Any]  #: of GROUP, in service order
    slots: NDArray[Any]  #: of SLOT; the last one is a dummy that fills up paths shorter than others
    runs: NDArray[Any]  #: of RUN
    link: NDArray[np.uint32]  #: the place of each slot's link in `links`
    links: NDArray[np.uint32]  #: those in use
    traffic: Traffic
    senders: Senders
    #: By flow, the slots that it crosses; shape (flows, most links on a path).
    path: NDArray[np.uint32]
    spot: NDArray[np.uint32]  #: by flow, its places in their lists of members
    held: Filling  #: the filling of the queues' shares
    rest: Filling  #: the filling of what is left after that
    past: Past
    on_links: Links
    desk: Desk
    keys: NDArray[np.int64]  #: of coflows, by group
    rows: NDArray[np.int64]  #: of coflows, by group; -1 if gone
    #: The groups in the current order of service; ``coflows`` entries are in use.
    turn: NDArray[np.int64]
    queues: NDArray[np.int64]  #: the queue of each of these
    queue_shares: NDArray[np.float64]
    #: At most two links that all flows of a group cross, filled up with a link that is never full.
    #: While one of them is full, no flow of the group can send.
    walls: NDArray[np.int64]
    #: Whether a group got nothing in the last step. Each of its flows then has a slot of level 0 in
    #: both fillings, so the group can be skipped while a wall is full.
    still: NDArray[np.bool_]
    moving: NDArray[np.int64]  #: starts with the groups that are not still

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


def no_flows() -> Served:
    """Return an engine without flows, for use before the first real one exists."""
    ints, floats, bools = np.empty(0, np.int64), np.empty(0), np.empty(0, np.bool_)
    links, paths = np.empty(0, np.uint32), np.empty((0, 1), np.uint32)
    groups, slots, runs = np.empty(0, GROUP), np.empty(0, SLOT), np.empty(0, RUN)
    filling = Filling(slots, floats, paths, floats, bools, floats, floats, floats, ints)
    senders = Senders(floats, floats, floats, np.empty(0, np.int32), ints)
    table = np.empty((0, 1))
    state = np.zeros(1, SERVING)
    state["joined"] = 1
    return Served(state, groups, slots, runs, links, links, Traffic(floats, floats, floats),
                  senders, paths, paths, filling, filling,
                  Past(table, table, table, table, table, floats),
                  Links(floats, floats, floats, floats), Desk(ints, ints, ints, floats), ints, ints,
                  ints, ints, floats, np.empty((0, 2), np.int64), bools, ints)
