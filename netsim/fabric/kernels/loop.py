"""The event loop: runs from event to event, ahead of SimPy's clock, until Python is needed.

Each form of an allocation has an engine, a NamedTuple of arrays that holds the rates and updates
them: `MaxMinState` for weights, `PriorityState` and `FlowOrderState` for a service in order,
`ProportionalState` for shares by a compiled rule or a Python policy. The loop itself is the same
for all: `loop_of` makes that of an engine from its functions.
"""

from __future__ import annotations

from functools import partial
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels import anywhere, in_place, inlined
from netsim.fabric.kernels.graphs import (
    GRID_SLACK,
    GraphArrays,
    arrive,
    emit,
    follow,
    next_due,
    observed,
)
from netsim.fabric.kernels.progress import admit, remove_finished, sort_by_job
from netsim.fabric.records import WAITED, FlowRows

#: As `GRID_SLACK`, for completions: a trifle larger, or rounding could wake the fabric for one that
#: it then does not find.
NOTICE_SLACK = 1.001 * GRID_SLACK

#: Why the loop has stopped.
#:
#: - WAITS: the fabric must act before its next event, or there is none
#: - ASKS: a coflow has completed for which the policy or a process waits, or time is up
#: - PAUSED: the observer must be told, or a graph needs room for another iteration
#: - FULL: there is no more room for rows
#: - REDO: a new engine must be built
#: - REFUSED: the rule's answer is invalid, or overloads a link
#: - HELD: SimPy has an earlier event
#: - SHOWS: listeners must be told
#: - POLICY: a policy in Python must be asked for the next rates
#: - REACHES_LIMIT: a coflow is about to reach its limit
#: - BREATHES: for Python to handle signals, such as Ctrl-C
WAITS, ASKS, PAUSED, FULL, REDO, REFUSED, HELD, SHOWS, POLICY, REACHES_LIMIT, BREATHES = range(11)

#: The loop goes on; it goes on, and coflows have been admitted.
_GOES, _JOINS = -1, -2

#: The reasons for which the loop is held: it resumes from where it is.
HELD_FOR = (HELD, SHOWS, REACHES_LIMIT)

#: The reasons for which the engine keeps what others would read.
UNCHANGED = (*HELD_FOR, PAUSED, BREATHES)

#: When the loop pauses for the observer: not at all; at decisions; whenever rates change.
NEVER, AT_DECISIONS, AT_ENDS = range(3)


# --- what engines do ---------------------------------------------------------------------
# An engine has its own version of each of these seven functions; see `loop_of`.
def find_rates(engine, coflows, jobs, arrays, capacity, loop):
    """Set the rates of all active coflows; return `WAITS`, or the reason why that is impossible.

    Called whenever an event is noticed: at first, when coflows come, at each end of a flow. Not
    after a pause, nor when a held loop resumes.
    """


def find_end(engine, coflows, loop):
    """Find when the next flow or coflow ends: ``loop.end``, and ``loop.dt`` seconds from now.

    Both are inf if no flow has a rate.
    """


def limit_in(engine):
    """Return in how many seconds a coflow reaches the limit that the policy has set for it."""


def advance(engine, coflows, arrays, capacity, dt, now, slack, loop, finished, carried):
    """Move bytes for `dt` seconds, until `now`; end the flows that end within the slack.

    The positions of completed coflows are appended to ``finished``, of which ``loop.finished``
    entries are in use. If `carried` has a value per link, the bytes of each link are added to it.
    """


def write_rows(engine, coflows, arrays, loop):
    """Bring the rows up to date before coflows come or go."""


def join(engine, coflows, arrays):
    """Add the coflows that the engine does not have yet; return whether there was room."""


def leave(engine, coflows, arrays, loop):
    """Write back what others read when the loop stops.

    An engine that counts bytes calls `begin_row` for each coflow, and `write_flow` for each flow.
    """


@inlined
def never(_engine):
    """Return inf: coflows have no limits."""
    return np.inf


@inlined
def write_nothing(_engine, _coflows, _arrays, _loop):
    """Do nothing: the rows are up to date, or the loop stops when coflows come or go."""


@inlined
def join_never(_engine, _coflows, _arrays):
    """Return False: the policy must be asked when coflows come."""
    return False


class Tables(NamedTuple):
    """What the loop and its engine work on."""

    rows: NDArray[Any]  #: of COFLOW
    jobs: NDArray[Any]
    arrays: FlowRows
    used: NDArray[np.int64]  #: how many rows of each are in use
    graphs: GraphArrays
    #: Of COFLOW; they become valid at times known beforehand, in order of these.
    pending: NDArray[Any]
    finished: NDArray[np.int64]  #: space for the positions of the coflows that complete at one time
    done: NDArray[Any]  #: space for the rows of completed coflows, if ``removes_finished`` is set
    capacity: NDArray[np.float64]  #: bytes per second
    carried: NDArray[np.float64]  #: the bytes of each link are added to it, unless it is empty


# --- the loop ----------------------------------------------------------------------------
def loop_of(name, **functions):
    """Return `_run` for an engine: a kernel with this name, and with these functions of it.

    It is a copy of `_run` that finds them among its globals, as do those of the functions that
    `_run` calls. If some are not netsim's own, it is not cached, as nothing says when they change.
    """
    own = {**globals(), **functions}
    run = partial(anywhere, kept=all(each.__module__.startswith(f"{__package__}.")
                                     for each in functions.values()))
    for each, make in ((_notice, inlined), (_begin_step, inlined), (_move, inlined), (_run, run)):
        copied = FunctionType(each.__code__, own, each.__name__)
        copied.__module__, copied.__qualname__ = __name__, f"{each.__name__}-{name}"
        own[each.__name__] = make(copied)
    return own["_run"]


def _run(engine, loops, tables):
    """Run from event to event until the policy, a process or the observer has something to do.

    `loops`, one LOOP row, says how far the loop may run, and why it has stopped. After a pause, or
    if the loop is held, the next call continues as if it had not stopped.
    """
    loop = loops[0]
    # A loop that was held must not find the end again: it might look at other flows, and so round
    # otherwise.
    begun = loop.reason in HELD_FOR
    why, steps = _GOES, loop.steps
    while why == _GOES:
        if not begun:
            why = _begin_step(engine, loop, tables) if steps else BREATHES
        begun, joins = False, False
        if why == _GOES and loop.observed_at == np.inf:
            why, joins = _look_ahead(loop, limit_in(engine), tables)
        if why == _GOES:
            simultaneous = loop.simultaneous or joins
            why = _move(engine, loop, tables, _roundings(loop.end) if simultaneous else 0.0)
        steps -= 1
    loop.reason = why
    if why not in UNCHANGED:
        leave(engine, tables.rows[:loop.count], tables.arrays, loop)


def _begin_step(engine, loop, tables):
    """React to what has happened if it is noticed now, and find when the next flow ends."""
    if loop.now >= loop.observed_at and not loop.advance_only:
        why = _notice(engine, loop, tables)
        if why != _GOES:
            return why
    if _is_to_pause(loop):
        return PAUSED
    find_end(engine, tables.rows[:loop.count], loop)
    shows, loop.shows = loop.shows, 0
    return SHOWS if shows and loop.stepwise else _GOES


def _notice(engine, loop, tables):
    """React to an event: follow what has finished, admit coflows and set rates."""
    if _changes_rows(loop, tables.pending):
        write_rows(engine, tables.rows[:loop.count], tables.arrays, loop)
    why = _react(loop, tables)
    if why == _JOINS:
        fits = join(engine, tables.rows[:loop.count], tables.arrays)
        why = _GOES if _goes_on_with(fits, loop, tables) else FULL
    if why == _GOES:
        why = find_rates(engine, tables.rows[:loop.count], tables.jobs, tables.arrays,
                         tables.capacity, loop)
    if why == WAITS:
        loop.observed_at = np.inf
        why = _GOES
    return why


def _move(engine, loop, tables, slack):
    """Move bytes until the next end, or until an event is noticed."""
    # The time to an end is not the difference of two instants, which has their roundings.
    at, dt = loop.end, loop.dt
    if loop.observed_at <= at:
        at = loop.observed_at
        dt = loop.dt if at == loop.end else at - loop.now
        slack = max(slack, NOTICE_SLACK * loop.interval)
    advance(engine, tables.rows[:loop.count], tables.arrays, tables.capacity, dt, at, slack,
            loop, tables.finished, tables.carried)
    loop.now = at
    if loop.advance_only and at >= loop.observed_at:
        loop.limit_at = at + limit_in(engine)
        return ASKS
    return _GOES


@inlined
def _look_ahead(loop, limit_dt, tables):
    """Find when the next event is noticed, with a limit reached in `limit_dt` seconds.

    Return why the loop stops, or `_GOES`, and whether coflows come before the next end.
    """
    if loop.removes_finished and loop.removed + loop.count > len(tables.done):
        return FULL, False
    arrival = _next_arrival(loop, tables.pending)
    joins = max(_observed(arrival, loop), arrival)
    noticed = min(_observed(loop.end, loop), joins)
    loop.limit_at = loop.now + limit_dt
    reaches = loop.limit_at <= loop.end and loop.limit_at < joins
    if noticed >= loop.bound or (noticed == np.inf and not reaches):
        return WAITS, False
    if reaches:
        return REACHES_LIMIT, False
    if noticed >= loop.until:
        return HELD, False
    loop.observed_at = noticed
    return _GOES, arrival <= loop.end


@in_place
def _changes_rows(loop, pending):
    """Whether coflows come or go now."""
    return loop.admits_arrivals and (loop.finished > 0 or _next_arrival(loop, pending) <= loop.now)


@in_place
def _react(loop, tables):
    """Follow the coflows that have finished, and admit those that are due.

    Return `_GOES`, `_JOINS` if coflows have been admitted, or why the loop must stop.
    """
    rows, graphs, done = tables.rows, tables.graphs, tables.done
    loop.end = loop.now
    if loop.finished and not loop.admits_arrivals:
        return ASKS
    if loop.finished:
        loop.decides = loop.shows = True
        waits = _follow(rows, tables.finished[:loop.finished], loop, tables)
        loop.finished = 0
        if waits:
            return ASKS
        if loop.removes_finished:
            removed, idle = remove_finished(rows[:loop.count], tables.jobs, done[loop.removed:])
            loop.count -= removed
            loop.removed += removed
            loop.idle -= idle
    if graphs.head[0].parked:
        return PAUSED
    if _next_arrival(loop, tables.pending) <= loop.now:
        return _JOINS if _admit(loop, tables) else FULL
    return _GOES


@in_place
def _next_arrival(loop, pending):
    """Return when the next coflow becomes valid that the loop may admit."""
    if not loop.admits_arrivals:
        return np.inf
    return min(loop.due, pending[loop.admitted].valid if loop.admitted < len(pending) else np.inf)


@inlined
def _admit(loop, tables):
    """Admit the coflows that are valid by now; return False if there is no more room."""
    rows, jobs, graphs, pending = tables.rows, tables.jobs, tables.graphs, tables.pending
    first = loop.count
    emitted, idle = emit(rows, first, jobs, graphs, tables.arrays, tables.used, loop.now, len(jobs),
                         loop.key)
    if emitted < 0:
        return False
    admitted = admit(rows, first + emitted, pending, loop.admitted, loop.now, jobs,
                     loop.key + emitted)
    loop.admitted += admitted
    loop.count += emitted + admitted
    loop.key += emitted + admitted
    loop.idle += idle + admitted  # what was expected is the only coflow of its job
    loop.due = next_due(graphs)
    loop.shows = loop.decides = True
    # `finished` and `done` are free to sort with: all that has finished is noticed, and no rows are
    # dropped where coflows are expected, without which these are in order already.
    sort_by_job(rows[first:loop.count], tables.finished, tables.done)
    return True


@inlined
def _goes_on_with(fits, loop, tables):
    """Whether the loop goes on with coflows that were admitted: these fit, and more would."""
    pending = tables.pending
    fits &= len(pending) == 0 or loop.admitted < len(pending)
    fits &= (loop.removes_finished == 1
             or loop.count + max(len(tables.graphs.running), 1) <= len(tables.rows))
    if not fits:  # all have come, so that this is a decision already
        loop.decisions += 1
        loop.decides = False
    return fits


@inlined
def _is_to_pause(loop):
    """Whether to pause: an event that the observer follows has happened since the last pause."""
    decides, moved = loop.decides, loop.now > loop.reported_until
    loop.reported_until = loop.now
    loop.decides = False
    loop.decisions += decides
    return loop.pause != NEVER and (decides or (loop.pause == AT_ENDS and moved))


@in_place
def end_flow(coflows, at, flow, now, loop, finished):
    """End a flow of a coflow, and the coflow itself if it was the last open flow."""
    flow.remaining = 0.0
    flow.finish = now
    row = coflows[at]
    row.open -= 1
    row.last = now
    loop.ended += 1
    if row.open == 0:
        finished[loop.finished] = at
        loop.finished += 1


@inlined
def _follow(rows, finished, loop, tables):
    """Make the next coflows of chains due; return whether a process waits for a coflow."""
    waits = False
    for c in finished:
        row = rows[c]
        if row.waited == WAITED:
            waits = True
        else:
            arrive(rows[c:c + 1], tables.arrays.flows)
            loop.due = min(loop.due, follow(rows[c:c + 1], tables.graphs, loop.now,
                                            loop.interval))
            row.waited = 0
    return waits


@in_place
def _observed(at, loop):
    """Return the time at which an event at `at` is noticed."""
    return observed(at, loop.interval, loop.now)


@inlined
def _roundings(at):
    """Return by how much a time may be off because of a few rounding errors."""
    return 4.0 * (np.nextafter(at, np.inf) - at)
