"""The event loop: runs from event to event, ahead of SimPy's clock, until Python is needed.

Each form of an allocation has an engine, a NamedTuple of arrays that holds the rates and updates
them: `sharing_rates.Parts` for weights, `serving_parts.Served` and `greedy_rows.Greedy` for a
service in order, `rules.Ruled` for shares by a compiled rule or a Python policy. The loop itself is
the same for all: each engine registers its own version of the seven functions below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import typeof, types
from numba.extending import overload
from numpy.typing import NDArray

from netsim.base.compiled_kernel import PartCompiler
from netsim.fabric.by_reference import (
    address_of,
    by_reference,
    call_at,
    type_of_reference,
    untyped,
)
from netsim.fabric.kernels import addressed, check_signals, in_place, inlined
from netsim.fabric.kernels.graphs import (
    GRID_SLACK,
    ChainArrays,
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
WAITS, ASKS, PAUSED, FULL, REDO, REFUSED, HELD, SHOWS, POLICY, CROSSES = range(10)

#: The loop has not stopped.
_GOES = -1

#: The reasons for which the loop is held: it resumes from where it is.
KEPT = (HELD, SHOWS, CROSSES)

#: When the loop pauses for the observer: not at all; at decisions; whenever rates change.
NEVER, AT_DECISIONS, AT_ENDS = range(3)


# --- what engines do ---------------------------------------------------------------------


def find_rates(engine, coflows, jobs, pools, capacity, state):
    """Set the rates of all active coflows; return `WAITS`, or the reason why that is impossible."""


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
    """Write back what others read when the loop stops."""


class EngineFunctions(NamedTuple):
    """The functions of an engine, one for each of those above, not compiled."""

    find_rates: Callable[..., Any]
    find_end: Callable[..., Any]
    crossing_in: Callable[..., Any]
    advance: Callable[..., Any]
    write_rows: Callable[..., Any]
    join: Callable[..., Any]
    leave: Callable[..., Any]


def never(_engine):
    """Return inf: coflows have no limits."""
    return np.inf


def write_nothing(_engine, _coflows, _pools, _state):
    """Do nothing: the rows are up to date, or the loop stops when coflows come or go."""


def join_never(_engine, _coflows, _pools):
    """Return False: the policy must be asked when coflows come."""
    return False


_ENGINES: dict[type, EngineFunctions] = {}

#: As `in_place`: what only hands arrays on need not count references to them.
_UNCOUNTED: Any = {"_nrt": False, "error_model": "numpy", "pipeline_class": PartCompiler}


def register(kind: type, engine: EngineFunctions) -> None:
    """Register the functions that the loop calls for this kind of engine."""
    _ENGINES[kind] = engine


def _overload(function: Callable[..., Any]) -> None:
    """Have Numba replace one of the functions above by what engines have registered."""
    overload(function, jit_options=_UNCOUNTED, strict=False)(
        lambda engine, *_: getattr(_ENGINES[engine.instance_class], function.__name__))


for _function in (find_rates, find_end, crossing_in, advance, write_rows, join, leave):
    _overload(_function)


class Tables(NamedTuple):
    """What the loop and its engine work on."""

    rows: NDArray[Any]  #: of COFLOW
    jobs: NDArray[Any]
    pools: tuple[NDArray[Any], ...]  #: flows, hops and loads
    free: NDArray[np.int64]  #: how much of the pools is in use
    chains: ChainArrays
    arrived_at: int  #: the address of `graphs.arrived`; 0 while no job is a graph
    #: Of COFLOW; they become valid at times known beforehand, in order of these.
    coming: NDArray[Any]
    finished: NDArray[np.int64]  #: space for the positions of the coflows that complete at one time
    done: NDArray[Any]  #: space for the rows of completed coflows, if ``drops`` is set
    capacity: NDArray[np.float64]  #: bytes per second
    carried: NDArray[np.float64]  #: the bytes of each link are added to it, unless it is empty


#: The functions of an engine, by number.
_FIND_RATES, _FIND_END, _CROSSING_IN, _ADVANCE, _WRITE_ROWS, _JOIN, _LEAVE = range(7)


@addressed
def _act(engine, which, tables, state, dt, at, slack):
    """Call one of the functions of an engine; return its result, 0 if there is none.

    The loop calls this by its address, so that it need not be compiled again for each engine.
    """
    coflows, pools = tables.rows[:state.count], tables.pools
    if which == _FIND_RATES:
        return float(find_rates(engine, coflows, tables.jobs, pools, tables.capacity, state))
    if which == _FIND_END:
        find_end(engine, coflows, state)
    elif which == _CROSSING_IN:
        return crossing_in(engine)
    elif which == _ADVANCE:
        advance(engine, coflows, pools, tables.capacity, dt, at, slack, state, tables.finished,
                tables.carried)
    elif which == _WRITE_ROWS:
        write_rows(engine, coflows, pools, state)
    elif which == _JOIN:
        return 1.0 if join(engine, coflows, pools) else 0.0
    else:
        leave(engine, coflows, pools, state)
    return 0.0


def addresses_for(engine: Any, loop: NDArray[Any], tables: Tables) -> tuple[int, int]:
    """Return the addresses of `_act` for an engine of this kind, and of `_loop`."""
    state, place = typeof(loop).dtype, type_of_reference(tables)
    act = address_of(_act, type_of_reference(engine), types.int64, place, state, types.float64,
                     types.float64, types.float64)
    return act, address_of(_loop, types.Tuple((types.voidptr, types.int64)), state, place)


@inlined
def _call(actor, which, tables, state, dt=0.0, at=0.0, slack=0.0):
    """Call one of the functions of an engine; see `_loop`."""
    pointer, address = actor
    return call_at(address, (pointer, which, tables, state, dt, at, slack))


# --- the loop ----------------------------------------------------------------------------


@in_place
def run(engine, addresses, loop, tables):
    """Run from event to event until the policy, a process or the observer has something to do.

    `loop`, one LOOP row, says how far the loop may run. After a pause, or if the loop is held, the
    next call continues as if it had not stopped. For the addresses, see `addresses_for`.
    """
    go(by_reference(engine), addresses, loop[0], by_reference(tables))


@inlined
def go(engine, addresses, state, tables):
    """Run, with an engine and tables that are handed over by reference; see `run`."""
    act_at, loop_at = addresses
    call_at(loop_at, ((untyped(engine), act_at), state, tables))


@addressed
def _loop(actor, state, tables):
    """Run with an engine of any kind; return why the loop has stopped.

    `actor` is a pointer to the engine, and the address of its `_act`.
    """
    state.reason = _go_on(actor, state, tables)
    if state.reason != PAUSED and state.reason not in KEPT:
        _call(actor, _LEAVE, tables, state)
    return float(state.reason)


@inlined
def _go_on(actor, state, tables):
    """Go from event to event; return why the loop stops."""
    # A loop that was held must not find the end again: it might look at other flows, and so round
    # otherwise.
    begun = state.reason in KEPT
    why, slack = _GOES, 0.0
    while True:
        check_signals()
        if not begun:
            why = _begin_step(actor, state, tables)
        begun = False
        if why == _GOES:
            why, slack = _look_ahead(actor, state, tables)
        if why == _GOES:
            why = _advance(actor, state, tables, slack)
        if why != _GOES:
            return why


@inlined
def _begin_step(actor, state, tables):
    """React to what has happened if it is noticed now, and find when the next flow ends."""
    if state.now >= state.notice and not state.only_moves:
        why = _notice(actor, state, tables)
        if why != WAITS:
            return why
    if _is_to_pause(state):
        return PAUSED
    _call(actor, _FIND_END, tables, state)
    shows, state.shows = state.shows, 0
    return SHOWS if shows and state.stepwise else _GOES


@inlined
def _look_ahead(actor, state, tables):
    """Find when the next event is noticed, unless one has happened that is not noticed yet.

    Return why the loop stops, or `_GOES`, and within how many seconds of the next event flows end
    with it.
    """
    together = state.together
    if state.notice == np.inf:
        if state.drops and state.gone + state.count > len(tables.done):
            return FULL, 0.0
        arrival = _next_arrival(state, tables.coming)
        joins = max(_observed(arrival, state), arrival)
        noticed = min(_observed(state.end, state), joins)
        state.crossing = state.now + _call(actor, _CROSSING_IN, tables, state)
        crosses = state.crossing <= state.end and state.crossing < joins
        if noticed >= state.bound or (noticed == np.inf and not crosses):
            return WAITS, 0.0
        if crosses:
            return CROSSES, 0.0
        if noticed >= state.until:
            return HELD, 0.0
        state.notice = noticed
        together |= arrival <= state.end
    return _GOES, _roundings(state.end) if together else 0.0


@inlined
def _advance(actor, state, tables, slack):
    """Move bytes until the next end, or until an event is noticed."""
    # The time to an end is not the difference of two instants, which has their roundings.
    at, dt = state.end, state.dt
    if state.notice <= at:
        at = state.notice
        dt = state.dt if at == state.end else at - state.now
        slack = max(slack, NOTICE_SLACK * state.interval)
    _call(actor, _ADVANCE, tables, state, dt, at, slack)
    state.now = at
    if state.only_moves and at >= state.notice:
        state.crossing = at + _call(actor, _CROSSING_IN, tables, state)
        return ASKS
    return _GOES


@inlined
def _notice(actor, state, tables):
    """React to an event: continue chains, admit coflows and set rates.

    Return `WAITS`, or the reason why the loop must stop.
    """
    rows, chains, coming, done = tables.rows, tables.chains, tables.coming, tables.done
    state.end = state.now
    if state.finished and not state.goes_on:
        return ASKS
    if state.finished or _next_arrival(state, coming) <= state.now:
        _call(actor, _WRITE_ROWS, tables, state)
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
    if chains.graphs.head[0].parked:
        return PAUSED
    if _next_arrival(state, coming) <= state.now and not _admit(actor, state, tables):
        return FULL
    why = int(_call(actor, _FIND_RATES, tables, state))
    if why == WAITS:
        state.notice = np.inf
    return why


@in_place
def _next_arrival(state, coming):
    """Return when the next coflow becomes valid that the loop may admit."""
    if not state.goes_on:
        return np.inf
    return min(state.due, coming[state.joined].valid if state.joined < len(coming) else np.inf)


@inlined
def _admit(actor, state, tables):
    """Admit the coflows that are valid by now; return False if there is no more room."""
    rows, jobs, chains, coming = tables.rows, tables.jobs, tables.chains, tables.coming
    first = state.count
    emitted, idle = emit(rows, first, jobs, chains, tables.pools, tables.free, state.now, len(jobs),
                         state.key)
    if emitted < 0:
        return False
    joined = admit(rows, first + emitted, coming, state.joined, state.now, jobs,
                   state.key + emitted)
    state.joined += joined
    state.count += emitted + joined
    state.key += emitted + joined
    state.idle += idle + joined  # what was expected is the only coflow of its job
    state.due = next_due(chains)
    state.shows = state.decides = True
    # `finished` and `done` are free to sort with: all that has finished is noticed, and no rows are
    # dropped where coflows are expected, without which these are in order already.
    sort_by_job(rows[first:state.count], tables.finished, tables.done)
    fits = _call(actor, _JOIN, tables, state) == 1.0
    fits &= len(coming) == 0 or state.joined < len(coming)
    fits &= state.drops == 1 or state.count + max(len(chains.running), 1) <= len(rows)
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
            state.due = min(state.due, follow(rows[c:c + 1], tables.chains, state.now,
                                              state.interval, tables.arrived_at))
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
