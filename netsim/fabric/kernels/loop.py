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

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.graphs import (
    GRID_SLACK,
    GraphArrays,
    arrive,
    emit,
    follow,
    next_due,
    observed,
)
from netsim.fabric.kernels.progress import admit, drop_finished, sort_by_job
from netsim.fabric.records import WAITED

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
#: - CROSSES: a coflow is about to cross its limit
#: - BREATHES: for Python to handle signals, such as Ctrl-C
WAITS, ASKS, PAUSED, FULL, REDO, REFUSED, HELD, SHOWS, POLICY, CROSSES, BREATHES = range(11)

#: The loop has not stopped; nor if coflows have been admitted.
_GOES, _JOINS = -1, -2

#: The reasons for which the loop is held: it resumes from where it is.
KEPT = (HELD, SHOWS, CROSSES)

#: The reasons for which the engine keeps what others would read.
UNCHANGED = (*KEPT, PAUSED, BREATHES)

#: When the loop pauses for the observer: not at all; at decisions; whenever rates change.
NEVER, AT_DECISIONS, AT_ENDS = range(3)


# --- what engines do ---------------------------------------------------------------------
# An engine has its own version of each of these seven functions; see `loop_of`.
def find_rates(engine, coflows, jobs, pools, capacity, state):
    """Set the rates of all active coflows; return `WAITS`, or the reason why that is impossible.

    Called whenever an event is noticed: at first, when coflows come, at each end of a flow. Not
    after a pause, nor when a held loop resumes.
    """


def find_end(engine, coflows, state):
    """Find when the next flow or coflow ends: ``state.end``, and ``state.dt`` seconds from now.

    Both are inf if no flow has a rate.
    """


def crossing_in(engine):
    """Return in how many seconds a coflow reaches the limit that the policy has set for it."""


def advance(engine, coflows, pools, capacity, dt, now, slack, state, finished, carried):
    """Move bytes for `dt` seconds, until `now`; end the flows that end within the slack.

    The positions of completed coflows are appended to ``finished``, of which ``state.finished``
    entries are in use. If `carried` has a value per link, the bytes of each link are added to it.
    """


def write_rows(engine, coflows, pools, state):
    """Bring the rows up to date before coflows come or go."""


def join(engine, coflows, pools):
    """Add the coflows that the engine does not have yet; return whether there was room."""


def leave(engine, coflows, pools, state):
    """Write back what others read when the loop stops.

    An engine that counts bytes calls `begin_row` for each coflow, and `write_flow` for each flow.
    """


@inlined
def never(_engine):
    """Return inf: coflows have no limits."""
    return np.inf


@inlined
def write_nothing(_engine, _coflows, _pools, _state):
    """Do nothing: the rows are up to date, or the loop stops when coflows come or go."""


@inlined
def join_never(_engine, _coflows, _pools):
    """Return False: the policy must be asked when coflows come."""
    return False


class Tables(NamedTuple):
    """What the loop and its engine work on."""

    rows: NDArray[Any]  #: of COFLOW
    jobs: NDArray[Any]
    pools: tuple[NDArray[Any], ...]  #: flows, hops and loads
    free: NDArray[np.int64]  #: how much of the pools is in use
    graphs: GraphArrays
    #: Of COFLOW; they become valid at times known beforehand, in order of these.
    coming: NDArray[Any]
    finished: NDArray[np.int64]  #: space for the positions of the coflows that complete at one time
    done: NDArray[Any]  #: space for the rows of completed coflows, if ``drops`` is set
    capacity: NDArray[np.float64]  #: bytes per second
    carried: NDArray[np.float64]  #: the bytes of each link are added to it, unless it is empty


# --- the loop ----------------------------------------------------------------------------
def loop_of(name, **functions):
    """Return `_run` for an engine: a kernel with this name, and with these functions of it.

    It is a copy of `_run` that finds them among its globals, as do those of the functions that
    `_run` calls. If some are not netsim's own, it is not cached, as nothing says when they change.
    """
    own = {**globals(), **functions}
    run = partial(in_place, kept=all(each.__module__.startswith(f"{__package__}.")
                                     for each in functions.values()))
    for each, make in ((_notice, inlined), (_begin_step, inlined), (_move, inlined), (_run, run)):
        copied = FunctionType(each.__code__, own, each.__name__)
        copied.__module__, copied.__qualname__ = __name__, f"{each.__name__}-{name}"
        own[each.__name__] = make(copied)
    return own["_run"]


def _run(engine, loop, tables):
    """Run from event to event until the policy, a process or the observer has something to do.

    `loop`, one LOOP row, says how far the loop may run, and why it has stopped. After a pause, or
    if the loop is held, the next call continues as if it had not stopped.
    """
    state = loop[0]
    # A loop that was held must not find the end again: it might look at other flows, and so round
    # otherwise.
    begun = state.reason in KEPT
    why, steps = _GOES, state.steps
    while why == _GOES:
        if not begun:
            why = _begin_step(engine, state, tables) if steps else BREATHES
        begun, joins = False, False
        if why == _GOES and state.notice == np.inf:
            why, joins = _look_ahead(state, crossing_in(engine), tables)
        if why == _GOES:
            together = state.together or joins
            why = _move(engine, state, tables, _roundings(state.end) if together else 0.0)
        steps -= 1
    state.reason = why
    if why not in UNCHANGED:
        leave(engine, tables.rows[:state.count], tables.pools, state)


def _begin_step(engine, state, tables):
    """React to what has happened if it is noticed now, and find when the next flow ends."""
    if state.now >= state.notice and not state.only_moves:
        why = _notice(engine, state, tables)
        if why != _GOES:
            return why
    if _is_to_pause(state):
        return PAUSED
    find_end(engine, tables.rows[:state.count], state)
    shows, state.shows = state.shows, 0
    return SHOWS if shows and state.stepwise else _GOES


def _notice(engine, state, tables):
    """React to an event: follow what has finished, admit coflows and set rates."""
    if _changes_rows(state, tables.coming):
        write_rows(engine, tables.rows[:state.count], tables.pools, state)
    why = _react(state, tables)
    if why == _JOINS:
        fits = join(engine, tables.rows[:state.count], tables.pools)
        why = _GOES if _goes_on_with(fits, state, tables) else FULL
    if why == _GOES:
        why = find_rates(engine, tables.rows[:state.count], tables.jobs, tables.pools,
                         tables.capacity, state)
    if why == WAITS:
        state.notice = np.inf
        why = _GOES
    return why


def _move(engine, state, tables, slack):
    """Move bytes until the next end, or until an event is noticed."""
    # The time to an end is not the difference of two instants, which has their roundings.
    at, dt = state.end, state.dt
    if state.notice <= at:
        at = state.notice
        dt = state.dt if at == state.end else at - state.now
        slack = max(slack, NOTICE_SLACK * state.interval)
    advance(engine, tables.rows[:state.count], tables.pools, tables.capacity, dt, at, slack,
            state, tables.finished, tables.carried)
    state.now = at
    if state.only_moves and at >= state.notice:
        state.crossing = at + crossing_in(engine)
        return ASKS
    return _GOES


@inlined
def _look_ahead(state, crossing_in, tables):
    """Find when the next event is noticed, with a limit reached in `crossing_in` seconds.

    Return why the loop stops, or `_GOES`, and whether coflows come before the next end.
    """
    if state.drops and state.gone + state.count > len(tables.done):
        return FULL, False
    arrival = _next_arrival(state, tables.coming)
    joins = max(_observed(arrival, state), arrival)
    noticed = min(_observed(state.end, state), joins)
    state.crossing = state.now + crossing_in
    crosses = state.crossing <= state.end and state.crossing < joins
    if noticed >= state.bound or (noticed == np.inf and not crosses):
        return WAITS, False
    if crosses:
        return CROSSES, False
    if noticed >= state.until:
        return HELD, False
    state.notice = noticed
    return _GOES, arrival <= state.end


@in_place
def _changes_rows(state, coming):
    """Whether coflows come or go now."""
    return state.goes_on and (state.finished > 0 or _next_arrival(state, coming) <= state.now)


@in_place
def _react(state, tables):
    """Follow the coflows that have finished, and admit those that are due.

    Return `_GOES`, `_JOINS` if coflows have been admitted, or why the loop must stop.
    """
    rows, graphs, done = tables.rows, tables.graphs, tables.done
    state.end = state.now
    if state.finished and not state.goes_on:
        return ASKS
    if state.finished:
        state.decides = state.shows = True
        waits = _follow(rows, tables.finished[:state.finished], state, tables)
        state.finished = 0
        if waits:
            return ASKS
        if state.drops:
            gone, idle = drop_finished(rows[:state.count], tables.jobs, done[state.gone:])
            state.count -= gone
            state.gone += gone
            state.idle -= idle
    if graphs.head[0].parked:
        return PAUSED
    if _next_arrival(state, tables.coming) <= state.now:
        return _JOINS if _admit(state, tables) else FULL
    return _GOES


@in_place
def _next_arrival(state, coming):
    """Return when the next coflow becomes valid that the loop may admit."""
    if not state.goes_on:
        return np.inf
    return min(state.due, coming[state.joined].valid if state.joined < len(coming) else np.inf)


@inlined
def _admit(state, tables):
    """Admit the coflows that are valid by now; return False if there is no more room."""
    rows, jobs, graphs, coming = tables.rows, tables.jobs, tables.graphs, tables.coming
    first = state.count
    emitted, idle = emit(rows, first, jobs, graphs, tables.pools, tables.free, state.now, len(jobs),
                         state.key)
    if emitted < 0:
        return False
    joined = admit(rows, first + emitted, coming, state.joined, state.now, jobs,
                   state.key + emitted)
    state.joined += joined
    state.count += emitted + joined
    state.key += emitted + joined
    state.idle += idle + joined  # what was expected is the only coflow of its job
    state.due = next_due(graphs)
    state.shows = state.decides = True
    # `finished` and `done` are free to sort with: all that has finished is noticed, and no rows are
    # dropped where coflows are expected, without which these are in order already.
    sort_by_job(rows[first:state.count], tables.finished, tables.done)
    return True


@inlined
def _goes_on_with(fits, state, tables):
    """Whether the loop goes on with coflows that were admitted: these fit, and more would."""
    coming = tables.coming
    fits &= len(coming) == 0 or state.joined < len(coming)
    fits &= (state.drops == 1
             or state.count + max(len(tables.graphs.running), 1) <= len(tables.rows))
    if not fits:  # all have come, so that this is a decision already
        state.decisions += 1
        state.decides = False
    return fits


@inlined
def _is_to_pause(state):
    """Whether to pause: an event that the observer follows has happened since the last pause."""
    decides, moved = state.decides, state.now > state.told
    state.told = state.now
    state.decides = False
    state.decisions += decides
    return state.pause != NEVER and (decides or (state.pause == AT_ENDS and moved))


@in_place
def end_flow(coflows, at, flow, now, state, finished):
    """End a flow of a coflow, and the coflow itself if it was the last open flow."""
    flow.remaining = 0.0
    flow.finish = now
    row = coflows[at]
    row.open -= 1
    row.last = now
    state.ended += 1
    if row.open == 0:
        finished[state.finished] = at
        state.finished += 1


@inlined
def _follow(rows, finished, state, tables):
    """Make the next coflows of chains due; return whether a process waits for a coflow."""
    waits = False
    for c in finished:
        row = rows[c]
        if row.waited == WAITED:
            waits = True
        else:
            arrive(rows[c:c + 1], tables.pools[0])
            state.due = min(state.due, follow(rows[c:c + 1], tables.graphs, state.now,
                                              state.interval))
            row.waited = 0
    return waits


@in_place
def _observed(at, state):
    """Return the time at which an event at `at` is noticed."""
    return observed(at, state.interval, state.now)


@inlined
def _roundings(at):
    """Return by how much a time may be off because of a few rounding errors."""
    return 4.0 * (np.nextafter(at, np.inf) - at)
