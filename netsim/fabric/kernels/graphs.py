"""Jobs of operations that wait for each other: computations on ranks, and coflows.

Only coflows take a time that others decide about. When one has arrived, all that waited for it, and
for that in turn, computes *at once* here, whenever it ends, up to the next coflows: an operation is
ready at the latest end of those it waits for, in whatever order these become known.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.by_reference import by_reference
from netsim.fabric.kernels import addressed, in_place, inlined
from netsim.fabric.kernels.heap import pop, rise, sort

__all__ = ["ChainArrays", "GraphArrays", "arrived", "coflow_of", "collect", "forget_first",
           "job_of", "next_begin", "order_of", "resume", "start", "times_of"]

#: An operation of an iteration of a job is one number: the job, and then, in so many bits, its
#: place among all operations of all iterations, its *order*.
_BITS = 40
_ORDER = (1 << _BITS) - 1


class GraphArrays(NamedTuple):
    """All graphs.

    Attributes
    ----------
    of_jobs : ndarray of GRAPH, shape (jobs,)
    operations : ndarray of OPERATION
    children : ndarray of int
        Places of operations among those of their graph.
    left : ndarray of int
    state : ndarray of STATE
    begins : ndarray of float
        A heap of instants at which coflows begin.
    beginning : ndarray of int
        The operations whose coflows begin at these instants.
    due : ndarray of int
        Operations whose coflows are due but not yet active, in order of (job, order).
    parked, parked_at : ndarray of int, ndarray of float
        Operations that have ended, when, and in whose next iteration others are not told yet.
    stack : ndarray of int
        Room for the orders of operations of a job.
    ended : ndarray of int, shape (jobs,)
        Jobs that have ended.
    head : ndarray of GRAPHS, shape (1,)
        How much of the arrays is in use.
    """

    of_jobs: NDArray[Any]
    operations: NDArray[Any]
    children: NDArray[np.int64]
    left: NDArray[np.int64]
    state: NDArray[Any]
    begins: NDArray[np.float64]
    beginning: NDArray[np.int64]
    due: NDArray[np.int64]
    parked: NDArray[np.int64]
    parked_at: NDArray[np.float64]
    stack: NDArray[np.int64]
    ended: NDArray[np.int64]
    head: NDArray[Any]


class ChainArrays(NamedTuple):
    """All jobs that the fabric runs by itself.

    Attributes
    ----------
    of_jobs : ndarray of CHAIN, shape (jobs,)
    running : ndarray of int
        The jobs with a chain that has not ended, in order.
    stages : ndarray of int
        What each stage sends, chain by chain: its place in `coflows`.
    coflows : ndarray of COFLOW
    pauses : ndarray of float
        The seconds before each stage, after the previous one has arrived.
    graphs : GraphArrays
    """

    of_jobs: NDArray[Any]
    running: NDArray[np.int64]
    stages: NDArray[np.int64]
    coflows: NDArray[Any]
    pauses: NDArray[np.float64]
    graphs: GraphArrays


@inlined
def _code_of(job, order):
    """Return the number of an operation."""
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
def _state_of(graph, graphs, order):
    iteration, k = order // graph.count, order % graph.count
    return graphs.state[graph.state + iteration % graph.slots * graph.count + k]


@inlined
def coflow_of(code, chains):
    """Return the coflow that an operation sends."""
    graphs = chains.graphs
    graph = graphs.of_jobs[job_of(code)]
    operation = graphs.operations[graph.operations + order_of(code) % graph.count]
    stage = chains.of_jobs[job_of(code)].first + operation.sends
    return chains.coflows[chains.stages[stage]]


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
    head, begins, beginning = graphs.head[0], graphs.begins, graphs.beginning
    before = head.due
    while head.begins and begins[0] <= until:
        graphs.due[head.due] = pop(begins, beginning, head.begins)
        head.begins -= 1
        head.due += 1
    if head.due > before:
        sort(graphs.due[:head.due])
    return head.due


@in_place
def forget_first(graphs, count):
    """Remove the first `count` coflows from those that are due, as they are active now."""
    head = graphs.head[0]
    head.due -= count
    for k in range(head.due):
        graphs.due[k] = graphs.due[k + count]


@in_place
def next_begin(graphs):
    """Return when the next coflow begins; inf if no coflow is known to begin."""
    head = graphs.head[0]
    first = graphs.begins[0] if head.begins else np.inf
    for k in range(head.due):
        first = min(first, times_of(graphs.due[k], graphs)[1])
    return first


# --- operations that end -------------------------------------------------------------------


@in_place
def start(job, now, chains):
    """Begin the first iteration of a job."""
    chains = by_reference(chains)
    graphs = chains.graphs
    graph = graphs.of_jobs[job]
    _open(graph, graphs, 0)
    waiting = 0
    for k in range(graph.count):
        operation = graphs.operations[graph.operations + k]
        if operation.blockers_first == 0:
            _state_of(graph, graphs, k).ready = now
            waiting = _begin(job, k, chains, waiting)
    _go_through(job, chains, waiting)


@addressed
def arrived(job, order, seen, arrives, chains):
    """Continue a job after the arrival of an operation's coflow, which is noticed at `seen`.

    The loop calls this by its address, so that it need not be compiled where no job is a graph.

    Returns
    -------
    float
        When the next coflow of a graph begins.
    """
    graphs = chains.graphs
    graph = graphs.of_jobs[job]
    graph.finish, graph.noticed = max(graph.finish, arrives), max(graph.noticed, seen)
    _go_through(job, chains, _end(job, order, seen, chains, 0))
    return next_begin(graphs)


@in_place
def resume(chains):
    """Continue the parked operations as long as there is room."""
    chains = by_reference(chains)
    graphs = chains.graphs
    head = graphs.head[0]
    while head.parked:
        code, at = graphs.parked[head.parked - 1], graphs.parked_at[head.parked - 1]
        job, order = job_of(code), order_of(code)
        graph = graphs.of_jobs[job]
        if not _has_next(graph, order // graph.count):
            return
        head.parked -= 1
        _go_through(job, chains, _unblock_next(job, order, at, chains, 0))


@in_place
def _go_through(job, chains, waiting):
    """End the computations on the stack that send nothing, and those that wait for them."""
    graphs = chains.graphs
    graph = graphs.of_jobs[job]
    while waiting:
        waiting -= 1
        order = graphs.stack[waiting]
        at = (_state_of(graph, graphs, order).ready
              + graphs.operations[graph.operations + order % graph.count].compute_s)
        graph.finish, graph.noticed = max(graph.finish, at), max(graph.noticed, at)
        waiting = _end(job, order, at, chains, waiting)


@in_place
def _end(job, order, at, chains, waiting):
    """End an operation; return how many are on the stack."""
    graphs = chains.graphs
    graph = graphs.of_jobs[job]
    iteration, k = order // graph.count, order % graph.count
    operation = graphs.operations[graph.operations + k]
    first = graph.children + operation.child
    for c in range(first, first + operation.children):
        waiting = _unblock(job, order - k + graphs.children[c], at, chains, waiting)
    if operation.nexts and iteration + 1 < graph.iterations:
        if _has_next(graph, iteration):
            waiting = _unblock_next(job, order, at, chains, waiting)
        else:
            head = graphs.head[0]
            graphs.parked[head.parked], graphs.parked_at[head.parked] = _code_of(job, order), at
            head.parked += 1
    graphs.left[graph.left + iteration % graph.slots] -= 1
    _end_iterations(job, graph, graphs, chains.of_jobs)
    return waiting


@inlined
def _has_next(graph, iteration):
    """Whether there is a slot for the iteration after one."""
    return iteration + 1 - graph.kept < graph.slots


@in_place
def _unblock_next(job, order, at, chains, waiting):
    """Let operations of the next iteration no longer wait for one that has ended."""
    graphs = chains.graphs
    graph = graphs.of_jobs[job]
    iteration, k = order // graph.count + 1, order % graph.count
    if iteration == graph.opened:
        _open(graph, graphs, iteration)
    operation = graphs.operations[graph.operations + k]
    first = graph.children + operation.child + operation.children
    for c in range(first, first + operation.nexts):
        waiting = _unblock(job, iteration * graph.count + graphs.children[c], at, chains, waiting)
    return waiting


@inlined
def _open(graph, graphs, iteration):
    """Begin an iteration: each operation waits for all that it has to wait for."""
    place = graph.state + iteration % graph.slots * graph.count
    for k in range(graph.count):
        operation = graphs.operations[graph.operations + k]
        graphs.state[place + k].blockers = (operation.blockers if iteration
                                            else operation.blockers_first)
        graphs.state[place + k].ready = 0.0
    graphs.left[graph.left + iteration % graph.slots] = graph.count
    graph.opened = iteration + 1


@in_place
def _unblock(job, order, at, chains, waiting):
    """Let an operation wait for one less, which has ended at an instant."""
    graphs = chains.graphs
    state = _state_of(graphs.of_jobs[job], graphs, order)
    state.ready = max(state.ready, at)
    state.blockers -= 1
    return waiting if state.blockers else _begin(job, order, chains, waiting)


@in_place
def _begin(job, order, chains, waiting):
    """Begin an operation: its coflow will, or else it is put on the stack."""
    graphs = chains.graphs
    graph, head = graphs.of_jobs[job], graphs.head[0]
    operation = graphs.operations[graph.operations + order % graph.count]
    if operation.sends < 0:
        graphs.stack[waiting] = order
        return waiting + 1
    code = _code_of(job, order)
    state = _state_of(graph, graphs, order)
    state.begins = state.ready + operation.compute_s + coflow_of(code, chains).overhead
    graphs.begins[head.begins] = state.begins
    graphs.beginning[head.begins] = code
    rise(graphs.begins, graphs.beginning, head.begins)
    head.begins += 1
    return waiting


@inlined
def _end_iterations(job, graph, graphs, of_jobs):
    """See which iterations are complete, and whether the graph has ended."""
    while (graph.iteration < graph.opened
           and graphs.left[graph.left + graph.iteration % graph.slots] == 0):
        graph.iteration += 1
        if graph.slots < graph.iterations:
            graph.kept = graph.iteration
        if graph.iteration == graph.iterations:
            head = graphs.head[0]
            graphs.ended[head.ended] = job
            head.ended += 1
            of_jobs[job].emitted = of_jobs[job].total
