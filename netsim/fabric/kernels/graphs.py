"""Jobs of operations that wait for each other, computations on ranks and coflows; and chains.

Only the arrivals of coflows are not known beforehand. When one has arrived, the ends of all
computations that follow from it are therefore computed *at once*, ahead of the clock, up to the
next coflows: an operation is ready at the latest end of those it waits for, in whatever order these
become known.

In a *chain*, the next coflow of a job becomes valid when the previous one has arrived.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels import anywhere, in_place, inlined
from netsim.fabric.kernels.heap import pop, rise, sort
from netsim.fabric.kernels.progress import activate, copy_rows, copy_segments
from netsim.fabric.records import IN_GRAPH, NEXT_IN_CHAIN

#: An operation of an iteration of a job has one number as its *code*: the job, and then, in this
#: many bits, its *order*, which is its place among all operations of all iterations.
_BITS = 40

_ORDER = (1 << _BITS) - 1

#: No operation is on the stack. A variable, as kernels are compiled again for each literal.
_NONE = np.int64(0)

#: Rows of `GraphArrays.times`: a heap of the instants at which coflows begin; when the parked
#: operations have ended.
BEGINS, PARKED_AT = range(2)

#: Rows of `GraphArrays.codes`: the operations whose coflows begin at those instants; those whose
#: coflows are due but not yet active, in order; those that have ended, but on which others wait in
#: an iteration without a slot. Then room for the orders of operations of a job, and the jobs that
#: have newly ended.
BEGINNING, DUE, PARKED, STACK, ENDED = range(5)


class GraphArrays(NamedTuple):
    """The jobs that the fabric runs by itself; times are in seconds."""

    of_jobs: NDArray[Any]  #: of GRAPH, by job
    running: NDArray[np.int64]  #: the jobs with a graph that has not ended, in order
    stages: NDArray[Any]  #: of STAGE, graph by graph
    coflows: NDArray[Any]  #: of COFLOW
    operations: NDArray[Any]  #: of OPERATION
    children: NDArray[np.int64]  #: places of operations among those of their graph
    state: NDArray[Any]  #: of STATE
    times: NDArray[np.float64]  #: see `BEGINS`
    codes: NDArray[np.int64]  #: see `BEGINNING`
    head: NDArray[Any]  #: of GRAPHS: how much of `times` and `codes` is in use


@inlined
def _code_of(job, order):
    """Return the code of an operation."""
    return job << _BITS | order


@inlined
def job_of(code):
    """Return the job of an operation."""
    return code >> _BITS


@inlined
def order_of(code):
    """Return the place of an operation among all of its job."""
    return code & _ORDER


@inlined
def _place_of(graph, iteration):
    """Return where the state of an iteration begins."""
    return graph.state + iteration % graph.slots * (graph.count + 1)


@inlined
def _state_of(graph, graphs, order):
    """Return the state of an operation, numbered iteration by iteration."""
    return graphs.state[_place_of(graph, order // graph.count) + order % graph.count]


@inlined
def _left_of(graph, graphs, iteration):
    """Return the row whose blockers are the operations of an iteration that have not ended."""
    return graphs.state[_place_of(graph, iteration) + graph.count]


@inlined
def _sent_by(code, graphs):
    """Return the place of the coflow that an operation sends."""
    graph = graphs.of_jobs[job_of(code)]
    operation = graphs.operations[graph.operations + order_of(code) % graph.count]
    return graphs.stages[graph.first + operation.sends].coflow


@inlined
def coflow_of(code, graphs):
    """Return the coflow that an operation sends."""
    return graphs.coflows[_sent_by(code, graphs)]


@inlined
def times_of(code, graphs):
    """Return when a coflow's stage becomes valid, and when it begins itself."""
    graph, order = graphs.of_jobs[job_of(code)], order_of(code)
    state = _state_of(graph, graphs, order)
    return (state.ready + graphs.operations[graph.operations + order % graph.count].compute_s,
            state.begins)


# --- coflows that begin --------------------------------------------------------------------
@in_place
def collect(graphs, until):
    """Make the coflows that begin by `until` due; return the number of coflows that are due."""
    head, begins, due = graphs.head[0], graphs.times[BEGINS], graphs.codes[DUE]
    before = head.due
    while head.begins and begins[0] <= until:
        due[head.due] = pop(begins, graphs.codes[BEGINNING], head.begins)
        head.begins -= 1
        head.due += 1
    if head.due > before:
        sort(due[:head.due])
    return head.due


@in_place
def forget_first(graphs, count):
    """Remove the first `count` coflows from those that are due, as they are active now."""
    head = graphs.head[0]
    head.due -= count
    for k in range(head.due):
        graphs.codes[DUE, k] = graphs.codes[DUE, k + count]


@in_place
def next_begin(graphs):
    """Return when the next coflow begins; inf if no coflow is known to begin."""
    head = graphs.head[0]
    first = graphs.times[BEGINS, 0] if head.begins else np.inf
    for k in range(head.due):
        first = min(first, times_of(graphs.codes[DUE, k], graphs)[1])
    return first


# --- operations that end -------------------------------------------------------------------
@in_place
def start(job, now, graphs):
    """Begin the first iteration of a job."""
    graph = graphs.of_jobs[job]
    _open(graph, graphs, 0)
    waiting = _NONE
    for k in range(graph.count):
        operation = graphs.operations[graph.operations + k]
        if operation.blockers_first == 0:
            _state_of(graph, graphs, k).ready = now
            waiting = _begin(job, k, graphs, waiting)
    _go_through(job, graphs, waiting)


@in_place
def arrived(job, order, seen, arrives, graphs):
    """Continue a job after the arrival of an operation's coflow, noticed at `seen`.

    Return when the next coflow of a graph begins.
    """
    graph = graphs.of_jobs[job]
    graph.finish, graph.noticed = max(graph.finish, arrives), max(graph.noticed, seen)
    _go_through(job, graphs, _end(job, order, seen, graphs, _NONE))
    return next_begin(graphs)


@in_place
def resume(graphs):
    """Continue the parked operations as long as there is room."""
    head = graphs.head[0]
    while head.parked:
        code, at = graphs.codes[PARKED, head.parked - 1], graphs.times[PARKED_AT, head.parked - 1]
        job, order = job_of(code), order_of(code)
        graph = graphs.of_jobs[job]
        if not _has_next(graph, order // graph.count):
            return
        head.parked -= 1
        _go_through(job, graphs, _unblock_next(job, order, at, graphs, _NONE))


@in_place
def _go_through(job, graphs, waiting):
    """End the computations on the stack that send nothing, and those that wait for them."""
    graph = graphs.of_jobs[job]
    while waiting:
        waiting -= 1
        order = graphs.codes[STACK, waiting]
        at = (_state_of(graph, graphs, order).ready
              + graphs.operations[graph.operations + order % graph.count].compute_s)
        graph.finish, graph.noticed = max(graph.finish, at), max(graph.noticed, at)
        waiting = _end(job, order, at, graphs, waiting)


@in_place
def _end(job, order, at, graphs, waiting):
    """End an operation; return how many operations are on the stack."""
    graph = graphs.of_jobs[job]
    iteration, k = order // graph.count, order % graph.count
    operation = graphs.operations[graph.operations + k]
    first = graph.children + operation.child
    for c in range(first, first + operation.children):
        waiting = _unblock(job, order - k + graphs.children[c], at, graphs, waiting)
    if operation.nexts and iteration + 1 < graph.iterations:
        if _has_next(graph, iteration):
            waiting = _unblock_next(job, order, at, graphs, waiting)
        else:
            head = graphs.head[0]
            graphs.codes[PARKED, head.parked] = _code_of(job, order)
            graphs.times[PARKED_AT, head.parked] = at
            head.parked += 1
    _left_of(graph, graphs, iteration).blockers -= 1
    _end_iterations(job, graph, graphs)
    return waiting


@inlined
def _has_next(graph, iteration):
    """Whether there is a slot for the iteration after this one."""
    return iteration + 1 - graph.kept < graph.slots


@in_place
def _unblock_next(job, order, at, graphs, waiting):
    """Unblock the operations of the next iteration that wait for one that has ended."""
    graph = graphs.of_jobs[job]
    iteration, k = order // graph.count + 1, order % graph.count
    if iteration == graph.opened:
        _open(graph, graphs, iteration)
    operation = graphs.operations[graph.operations + k]
    first = graph.children + operation.child + operation.children
    for c in range(first, first + operation.nexts):
        waiting = _unblock(job, iteration * graph.count + graphs.children[c], at, graphs, waiting)
    return waiting


@inlined
def _open(graph, graphs, iteration):
    """Begin an iteration, in which each operation waits for all of its blockers."""
    place = _place_of(graph, iteration)
    for k in range(graph.count):
        operation = graphs.operations[graph.operations + k]
        graphs.state[place + k].blockers = (operation.blockers if iteration
                                            else operation.blockers_first)
        graphs.state[place + k].ready = 0.0
    _left_of(graph, graphs, iteration).blockers = graph.count
    graph.opened = iteration + 1


@in_place
def _unblock(job, order, at, graphs, waiting):
    """Count off a blocker of an operation, which has ended at `at`; begin it after the last one."""
    state = _state_of(graphs.of_jobs[job], graphs, order)
    state.ready = max(state.ready, at)
    state.blockers -= 1
    return waiting if state.blockers else _begin(job, order, graphs, waiting)


@in_place
def _begin(job, order, graphs, waiting):
    """Begin an operation: schedule its coflow or, if it sends none, put it on the stack."""
    graph, head = graphs.of_jobs[job], graphs.head[0]
    operation = graphs.operations[graph.operations + order % graph.count]
    if operation.sends < 0:
        graphs.codes[STACK, waiting] = order
        return waiting + 1
    code = _code_of(job, order)
    state = _state_of(graph, graphs, order)
    state.begins = state.ready + operation.compute_s + coflow_of(code, graphs).overhead
    graphs.times[BEGINS, head.begins] = state.begins
    graphs.codes[BEGINNING, head.begins] = code
    rise(graphs.times[BEGINS], graphs.codes[BEGINNING], head.begins)
    head.begins += 1
    return waiting


@inlined
def _end_iterations(job, graph, graphs):
    """Find which iterations are complete, and whether the graph has ended."""
    while (graph.iteration < graph.opened
           and _left_of(graph, graphs, graph.iteration).blockers == 0):
        graph.iteration += 1
        if graph.slots < graph.iterations:
            graph.kept = graph.iteration
        if graph.iteration == graph.iterations:
            head = graphs.head[0]
            graphs.codes[ENDED, head.ended] = job
            head.ended += 1
            graph.emitted = graph.total


# --- chains, and when events are noticed ---------------------------------------------------

#: By how much an event may miss an instant of observation and still be noticed then, in intervals.
GRID_SLACK = 1e-6

#: After this many observation intervals, floats are farther apart than an interval.
MOST_TICKS = 2.0**53


@in_place
def observed(at, interval, now):
    """Return the time at which an event at `at` is noticed."""
    if interval == 0.0 or at == np.inf:
        return at
    if at / interval > MOST_TICKS:
        return max(at, now)
    return max(math.ceil(at / interval - GRID_SLACK) * interval, now)


@anywhere
def arrive(completed, flows):
    """Set ``arrives`` of completed coflows: when their last bytes arrive.

    A flow's last byte arrives one path latency after it was sent.
    """
    for k in range(len(completed)):
        row = completed[k]
        row.arrives = max(row.arrives, row.last)
        if row.reach > 0.0:
            for f in range(row.flow, row.flow + row.flows):
                # In step, only the coflow's row says when its flows have ended.
                sent = row.last if flows[f].remaining > 0.0 else flows[f].finish
                row.arrives = max(row.arrives, sent + flows[f].latency)


@anywhere
def follow(completed, graphs, now, interval):
    """Make the coflows due that follow those in `completed`; return when the first of them is due.

    ``arrives`` must be set in `completed`, the COFLOW rows that have completed now. `interval` is
    the observe interval, in seconds.
    """
    first = np.inf
    for k in range(len(completed)):
        chain = graphs.of_jobs[completed[k].job]
        if completed[k].waited not in (NEXT_IN_CHAIN, IN_GRAPH):
            continue
        seen = max(observed(completed[k].arrives, interval, now), now)
        if completed[k].waited == IN_GRAPH:
            first = min(first, arrived(completed[k].job, completed[k].order, seen,
                                       completed[k].arrives, graphs))
        elif chain.emitted < chain.total:
            chain.due = seen + graphs.stages[_next_stage(chain)].pause
            first = min(first, chain.due)
    return first


@anywhere
def next_due(graphs):
    """Return when the next coflow of a chain or graph becomes valid; inf if none does."""
    first = next_begin(graphs)
    for job in graphs.running:
        first = min(first, graphs.of_jobs[job].due)
    return first


@anywhere
def emit(rows, count, jobs, graphs, arrays, used, until, before, key):
    """Append the coflows that are due by `until` to the active ones, job by job.

    The first `count` of `rows` are active. Only coflows of jobs numbered below `before` are
    appended, with keys that count up from `key`. Their flows, hops and loads are in `arrays`
    already, of which `used` rows are in use.

    Return the number of appended coflows, and how many of their jobs had no active coflow before;
    -1 and 0 if there was no room for all, and nothing was done.
    """
    more, flows, hops, loads = wanted(graphs, until, before)
    if (count + more > len(rows) or used[0] + flows > len(arrays.flows)
            or used[1] + hops > len(arrays.hops) or used[2] + loads > len(arrays.loads)):
        return -1, 0
    emitted = idle = in_graphs = 0
    for job in graphs.running:
        chain = graphs.of_jobs[job]
        if job >= before:
            break
        if chain.due <= until:
            row = _append(rows, count + emitted, graphs.coflows, _next_of(chain, graphs), arrays,
                          used)
            row.job, row.order, row.key = job, chain.emitted, key + emitted
            row.waited = NEXT_IN_CHAIN
            idle += _begin_row(row, chain.due, jobs)
            emitted += 1
            chain.emitted += 1
            chain.due = np.inf
        while in_graphs < graphs.head[0].due and job_of(graphs.codes[DUE, in_graphs]) == job:
            code = graphs.codes[DUE, in_graphs]
            row = _append(rows, count + emitted, graphs.coflows, _sent_by(code, graphs), arrays,
                          used)
            row.job, row.order, row.key = job, order_of(code), key + emitted
            row.waited = IN_GRAPH
            valid, begins = times_of(code, graphs)
            row.overhead = begins - valid  # as they are rounded
            idle += _begin_row(row, begins, jobs)
            emitted += 1
            in_graphs += 1
    forget_first(graphs, in_graphs)
    return emitted, idle


@inlined
def _append(rows, at, coflows, place, arrays, used):
    """Copy a coflow to a row, and its segments to the free part of the arrays; return the row."""
    copy_rows(rows, at, coflows, place, 1)
    copy_segments(rows[at], arrays, arrays, used)
    return rows[at]


@inlined
def _begin_row(row, begins, jobs):
    """Activate a coflow; return whether its job had no active one."""
    row.valid = row.last = begins
    row.arrives += begins
    row.deadline += begins
    return activate(jobs[row.job], row.gamma)


@inlined
def _next_of(chain, graphs):
    """Return the place of the coflow that a chain sends next."""
    return graphs.stages[_next_stage(chain)].coflow


@inlined
def _next_stage(chain):
    """Return the stage of the next coflow of a chain."""
    return chain.first + chain.emitted % chain.stages


@anywhere
def wanted(graphs, until, before):
    """Count the coflows due by `until` in jobs below `before`, and their flows, hops and loads."""
    count = flows = hops = loads = 0
    for job in graphs.running:
        chain = graphs.of_jobs[job]
        if job < before and chain.due <= until:
            row = graphs.coflows[_next_of(chain, graphs)]
            count += 1
            flows += row.flows
            hops += row.hops
            loads += row.loads
    for k in range(collect(graphs, until)):
        code = graphs.codes[DUE, k]
        if job_of(code) < before:
            row = coflow_of(code, graphs)
            count += 1
            flows += row.flows
            hops += row.hops
            loads += row.loads
    return count, flows, hops, loads
