"""The coflows that a workload emits on a network, without simulating it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.jobs.fitting import all_fitted
from netsim.jobs.graph import StageGraph
from netsim.jobs.longest_path import longest_path
from netsim.jobs.operation_graph import OperationGraph
from netsim.jobs.plan import JobPlan, place_randomly
from netsim.network import Topology
from netsim.network.files import as_network
from netsim.recording.coflow_ids import CoflowNumbers
from netsim.traces.formats import as_workload
from netsim.workload import Workload


class Emitted(NamedTuple):
    """A coflow of a workload, with its earliest times: every coflow is alone on the network."""

    coflow: int  #: number of the coflow in results
    job: int  #: id of the job
    iteration: int
    stage: str
    valid_s: float
    finish_s: float
    fixed: bool  #: waits for no other coflow, so becomes valid at `valid_s` under every policy
    weight: float
    least_s: float  #: least possible CCT
    demand: RoutedCoflow


class _Span(NamedTuple):
    """Earliest start and end, and whether these are the same under every policy."""

    start: float
    end: float
    starts_then: bool
    ends_then: bool


def emitted(network: Topology | str | Path, workload: Workload | str | Path, seed: int = 0
            ) -> Iterator[Emitted]:
    """Yield the coflows of a workload, job by job and iteration by iteration."""
    network = as_network(network)
    workload = all_fitted(as_workload(workload, seed), network, seed)
    numbers = CoflowNumbers(workload)
    for job, spec in enumerate(workload):
        plan = JobPlan(spec, network, place_randomly(spec, network, seed), workload.seed,
                       network.usable)
        for iteration, (graph, spans, least) in enumerate(_iterations(plan, network)):
            for k, (stage, demand) in enumerate(zip(graph.stages, graph.demands, strict=True)):
                if demand is not None:
                    span = spans[k]
                    yield Emitted(numbers.number(job, iteration, graph.stages, k), spec.id,
                                  iteration, stage.name, span.start, span.end, span.starts_then,
                                  demand.weight, least[k], demand)


class _Iteration(NamedTuple):
    """The graph of an iteration, with the span of each stage and the least time of its coflow."""

    graph: StageGraph | OperationGraph
    spans: Sequence[_Span]
    least: Sequence[float]


def _iterations(plan: JobPlan, network: Topology) -> Iterator[_Iteration]:
    """Yield the iterations of a job."""
    arrival_s = plan.spec.arrival_s
    if isinstance(plan.graph(0), OperationGraph):
        yield from _of_ranks(plan, network)
        return
    whole = _Span(arrival_s, arrival_s, True, True)
    for iteration in range(plan.spec.iterations):
        graph = plan.graph(iteration)
        least = _alone(graph.demands, network)
        spans = _earliest(graph, least, whole, arrival_s)
        yield _Iteration(graph, spans, least)
        whole = _Span(whole.start, max(span.end for span in spans), True,
                      all(span.ends_then for span in spans))


def _alone(demands: Iterable[RoutedCoflow | None], network: Topology) -> list[float]:
    """The least time of each coflow; 0 where there is none."""
    return [0.0 if demand is None else demand.least_s(network.usable, network.wire.latency)
            for demand in demands]


def _of_ranks(plan: JobPlan, network: Topology) -> Iterator[_Iteration]:
    """Yield the iterations of a job whose ranks compute.

    Where computations take turns, any of them may be held up by one that waits for a coflow.
    """
    graph: OperationGraph = plan.graph(0)
    made, iterations = graph.operations, plan.spec.iterations
    alone = np.array([*_alone(graph.routed, network), 0.0])[made.sends]
    sends = np.array([*(demand.nbytes > 0 for demand in graph.routed), False])[made.sends]
    paths = longest_path(made, made.compute_s + alone, iterations)
    coflows = longest_path(made, sends.astype(np.float64), iterations)  # on the way to an end
    for after_s, count in zip(paths, coflows, strict=True):
        ends = plan.spec.arrival_s + after_s
        starts_then = (count == sends) & graph.in_order
        columns = ends - alone, ends, starts_then, starts_then & ~sends
        spans = [_Span(*row) for row in zip(*(each.tolist() for each in columns), strict=True)]
        yield _Iteration(graph, spans, alone.tolist())


def _earliest(graph: StageGraph, least: Sequence[float], before: _Span, arrival: float
              ) -> list[_Span]:
    """Find the span of each stage of an iteration that follows `before`.

    `least` has the least time of each stage after its computation, in seconds.
    """
    spans = [before] * len(graph.stages)
    for k in graph.dag.sequence:
        stage, demand = graph.stages[k], graph.demands[k]
        sends = demand is not None and demand.nbytes > 0
        parents = [spans[parent] for parent in graph.dag.after[k]] or [before]
        holders = [spans[holder] for holder in graph.dag.finishes_before[k]]
        start = max(max(parent.end for parent in parents), arrival + stage.release_s)
        start += stage.compute_s
        known = all(parent.ends_then for parent in parents)
        spans[k] = _Span(
            start, max(start + least[k], *(holder.end for holder in holders), start), known,
            known and not sends and all(holder.ends_then for holder in holders))
    return spans
