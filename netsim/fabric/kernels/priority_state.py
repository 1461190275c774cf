"""The data of the priority engine: the unfinished flows of coflows in service order.

- A *slot* is a link of one coflow. The last slot is a dummy that fills up paths that are shorter
  than others; it is never full.
- A *member* of a slot is a flow that crosses it, or another slot that its flows cross, too.
- A *run* is a series of flows of one coflow with the same last slot.
- There are two *fillings*: within the share of a queue, and of the rest. Each has a level per slot;
  a flow gets the lowest on its path, and the sum of both fillings.

What is read for one thing at a time is a field of a row. What loops sweep over is an array, or a
row of one, named below: such loops are vectorized, and each array more takes time to compile.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels import inlined, row_type

#: The first pass over coflows, in order: none; MADD; or max-min fair within the share of a queue.
#: What is left is given to nobody; max-min fairly to the flows of each coflow, in order; or to one
#: flow after the other.
NOBODY, MADD, QUEUES, MAXMIN, GREEDY = range(5)

#: How many steps of a coflow are recorded at most.
INSTANTS = 64


# --- rows ----------------------------------------------------------------------------------
#: The engine as a whole.
STATUS = row_type([
    ("primary", "i8"),  # the first pass: NOBODY, MADD or QUEUES
    ("backfill", "i8"),  # who gets the rest: NOBODY, MAXMIN or GREEDY
    ("eager", "i8"),  # whether each step sets the rates of all flows; else it records levels
    ("queues", "i8"),  # how many queues there are
    ("coflows", "i8"),  # how many coflows are served
    ("moving", "i8"),  # how many of them may send
    ("ended", "i8"),  # how many flows have ended since the copy was made
    ("fresh", "i8"),  # whether nothing has been served yet
    ("reached", "i8"),  # whether a coflow that does not move has reached its limit
    ("stale", "i8"),  # whether coflows have come or gone: then the copy is out of date
    ("admitted", "i8"),  # whether some have come that it does not have
])

#: A coflow, in the service order at the time of the copy.
COFLOW_SERVED = row_type([
    ("row", "i4"),  # its COFLOW row; -1 once that has gone
    ("idle", "i4"),  # whether it got nothing in the last step; see `priority._is_passed_over`
    ("common_link", "u4"),  # a link that all its flows cross; else the one that is never full
    ("common_link_2", "u4"),  # another one
    ("queue", "i4"),  # the number of its queue
    ("slot", "i4"),  # the first of its slots
    ("slots", "i4"),  # how many it has
    ("run", "i4"),  # the first of its runs
    ("runs", "i4"),  # how many it has
    ("steps", "i4"),  # how many steps are recorded
    ("shares", "i4"),  # how many shares of its queue it had in these
    ("renewed", "i4"),  # whether the present share is not among these yet
    ("thinner", "i4"),  # whether a flow has ended since it got its queue's share
    ("refilled", "i4"),  # whether it got that again in the last step
    ("gains", "i4"),  # whether it gets some of the rest
    ("paired", "i4"),  # whether each of its flows has two slots
    ("left", "f8"),  # bytes left
    ("speed", "f8"),  # bytes per second
    ("gamma", "f8"),  # in how many seconds its flows end by MADD; 0 if that gives it nothing
    ("queue_speed", "f8"),  # bytes per second within the share of its queue
    ("clock", "f8"),  # the seconds of all recorded steps
    ("limit", "f8"),  # bytes left at which the policy must be asked
    ("reached", "f8"),  # the same if it does not move
    ("queue_share", "f8"),  # the part of each link that its queue has
    ("gamma_then", "f8"),  # gamma when rates were set
    ("top_level", "f8"),  # the highest level of the rest
    ("queue_top_level", "f8"),  # the highest level within the share of its queue
    ("key", "i8"),  # that of its COFLOW row
    ("flow", "i4"),  # the first of its flows
    ("flows", "i4"),  # how many it has
])

#: A link of a coflow.
SLOT = row_type([
    ("first", "i4"),  # its first member
    ("stop", "i4"),  # behind its last one
    ("open", "i4"),  # how many of its flows have not ended
    # If the other slots of its flows lie close together, the members are all slots from this one
    # on, whether its flows cross them or not; else -1, and the members are its flows.
    ("others_from", "i4"),
    ("link", "u4"),  # the place of its link among those in use
    ("port", "u4"),  # its place among all
])

#: Flows that follow one another, of one coflow and with the same last slot.
RUN = row_type([
    ("first", "i4"),  # its first flow
    ("stop", "i4"),  # behind its last one
    ("slot", "i4"),  # their last slot
    ("busy", "i4"),  # whether some may have a rate
    ("coflow", "i4"),  # theirs
    ("step", "i4"),  # flows are flushed up to this step of the coflow
    ("share", "i4"),  # and up to this share of its queue
    ("idle", "i4"),  # whether no flow has had a rate since rows were read
    # If there are many flows, and the other slots that they cross lie close together: the first of
    # these; else 0.
    ("others_from", "i4"),
    ("others_to", "i4"),  # behind the last of these; else 0
    ("clock", "f8"),  # flows are flushed up to this second on the clock of the coflow
    ("least_left", "f8"),  # each flow has this many bytes left at least; inf if all have ended
    ("top_rate", "f8"),  # and gets this many bytes per second at most, besides MADD
    ("floor", "f8"),  # the most bytes at which one of them counts as ended
])

#: A flow.
FLOW_SERVED = row_type([
    ("row", "i8"),  # its FLOW row
    ("coflow", "i8"),  # its coflow
])


# --- rows of arrays ------------------------------------------------------------------------
#: The fillings.
IN_QUEUE, REST = range(2)

#: `PriorityState.fillings`, by filling and slot.
LEVEL = 0  #: bytes per second of a flow it limits; inf if it is not full, 0 if nothing was free
WANTS = 1  #: how many flows have free bandwidth on all of their other links
FREE = 2  #: 1 if there is free bandwidth on this link
#: From here on, the level in each recorded step; in queues, for each share, as these change rarely.
PAST = 3

#: `PriorityState.by_slot`.
LOAD = 0  #: bytes to send
ADDED_UP = 1  #: the same when flows were last added up: then, it was exact
USED = 2  #: bytes per second
HELD = 3  #: those within the share of a queue
SENT = 4  #: scratch: the bytes that each flow of a run has sent that crosses it
UNFROZEN, FILL_LEFT, FILL_KEY = 5, 6, 7  #: scratch of a fill: see `Growth`, and keys of a heap
_BY_SLOT = 8

#: `PriorityState.by_link`, for links in use and one more that is never full, in bytes per second:
#: first, for each filling, what is left.
CAPACITY = 2
DUST_LEFT = 3  #: so little that the link counts as full
_BY_LINK = 4

#: `PriorityState.lists`: first, for each filling, the slots of each coflow in the order in which
#: they froze last time.
FILLED, PLACES, HEAP = 2, 3, 4  #: scratch of a fill: its slots, their places there, and a heap
TURN = 5  #: coflows in order of service
MOVING = 6  #: those that may send
_LISTS = 7

#: `PriorityState.steps`, by coflow and recorded step.
SECONDS = 0  #: how long it took
KEEPS = 1  #: the part of its bytes that MADD leaves to each flow
SINCE = 2  #: by share of a queue instead: on the clock of the coflow, when that began


class Service(NamedTuple):
    """What is served, and how; see `PriorityService`."""

    order: NDArray[np.int64]  #: coflows, the first to be served first
    primary: int  #: as the constants above
    backfill: int
    queue: NDArray[np.int64]  #: of each coflow, shape (coflows,)
    queue_shares: NDArray[np.float64]  #: of the bandwidth, shape (queues,)
    limit: NDArray[np.float64]  #: bytes sent at which the policy is asked, shape (coflows,)


class PriorityState(NamedTuple):
    """The engine; see above for its rows."""

    status: NDArray[Any]  #: of STATUS, shape (1,)
    coflows: NDArray[Any]  #: of COFLOW_SERVED
    slots: NDArray[Any]  #: of SLOT
    runs: NDArray[Any]  #: of RUN
    flows: NDArray[Any]  #: of FLOW_SERVED
    left: NDArray[np.float64]  #: by flow: bytes left
    rate: NDArray[np.float64]  #: by flow: bytes per second, if the engine is eager
    floor: NDArray[np.float64]  #: by flow: bytes left at which it ends; -1 once it has
    path: NDArray[np.uint32]  #: by flow: the slots that it crosses
    member: NDArray[np.uint32]  #: by flow: its place among the members of each
    share: NDArray[np.float64]  #: by member: how many unfinished flows there are
    others: NDArray[np.uint32]  #: by member: the other slots that they cross
    fillings: NDArray[np.float64]
    by_slot: NDArray[np.float64]
    by_link: NDArray[np.float64]
    lists: NDArray[np.int64]
    steps: NDArray[np.float64]  #: one coflow more is scratch space


class Growth(NamedTuple):
    """What `filling.freeze_of` takes; its links are slots."""

    links: NDArray[Any]  #: of SLOT
    share: NDArray[np.float64]
    others: NDArray[np.uint32]
    unfrozen: NDArray[np.float64]
    left: NDArray[np.float64]
    full_at: NDArray[np.float64]


class Filling(NamedTuple):
    """One of the two fillings, with a name for each of its rows."""

    growth: Growth
    wants: NDArray[np.float64]  #: by slot, as is `free`
    free: NDArray[np.float64]
    available: NDArray[np.float64]  #: by link, as is `dust`
    dust: NDArray[np.float64]
    order: NDArray[np.int64]  #: of slots, coflow by coflow


@inlined
def filling_of(engine, which):
    """Return one of the fillings, `IN_QUEUE` or `REST`."""
    by_slot, own = engine.by_slot, engine.fillings[which]
    return Filling(Growth(engine.slots, engine.share, engine.others, by_slot[UNFROZEN],
                          by_slot[FILL_LEFT], own[LEVEL]),
                   own[WANTS], own[FREE], engine.by_link[which], engine.by_link[DUST_LEFT],
                   engine.lists[which])


@inlined
def moving(engine):
    """Return the coflows that may send."""
    return engine.lists[MOVING, :engine.status[0].moving]


@inlined
def slots_of(coflow):
    """Return the numbers of a coflow's slots."""
    return range(coflow.slot, coflow.slot + coflow.slots)


@inlined
def runs_of(engine, coflow):
    """Return a coflow's runs."""
    return engine.runs[coflow.run:coflow.run + coflow.runs]


@inlined
def state_of(coflows, slots, runs, flows, path, member, share, others, links):
    """Return the state of an engine with these arrays, and others that are as large."""
    count, width = len(slots), max(len(slots), len(coflows))
    return PriorityState(
        np.zeros(1, STATUS), coflows, slots, runs, flows, np.zeros(len(flows)),
        np.zeros(len(flows)), np.zeros(len(flows)), path, member, share, others,
        np.empty((2, PAST + INSTANTS, count)), np.zeros((_BY_SLOT, count)),
        np.zeros((_BY_LINK, links + 1)), np.empty((_LISTS, width), np.int64),
        np.empty((3, len(coflows) + 1, INSTANTS)))


def no_flows() -> PriorityState:
    """Return an engine without flows, for use before the first real one exists."""
    paths = np.zeros((0, 1), np.uint32)
    state = state_of.py_func(np.zeros(0, COFLOW_SERVED), np.zeros(1, SLOT), np.zeros(0, RUN),
                             np.zeros(0, FLOW_SERVED), paths, paths, np.zeros(0), paths, 0)
    state.status["admitted"] = 1
    return state
