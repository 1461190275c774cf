"""The coflows that a workload emits on a network, without simulating it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from netsim.errors import InputError
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.jobs.fitting import all_fitted
from netsim.jobs.graph import StageGraph
from netsim.jobs.plan import JobPlan, place_randomly
from netsim.jobs.ranked_stages import has_operations
from netsim.network import Topology
from netsim.network.files import as_network
from netsim.recording.coflow_ids import CoflowNumbers
from netsim.traces.formats import as_workload
from netsim.workload import Workload

__all__ = ["Emitted", "emitted"]


class Emitted(NamedTuple):
    """A coflow of a workload.

    Attributes
    ----------
    coflow : int
        Number of the coflow in results.
    job, iteration, stage : int, int, str
        Id of the job, iteration, and name of the stage.
    valid_s, finish_s : float
        Earliest instants at which the coflow becomes valid and finishes, with every coflow alone on
        the network.
    fixed : bool
        Whether it becomes valid at that instant under every policy, as it waits for no other
        coflow.
    weight : float
    least_s : float
        Its least possible CCT.
    demand : RoutedCoflow
    """

    coflow: int
    job: int
    iteration: int
    stage: str
    valid_s: float
    finish_s: float
    fixed: bool
    weight: float
    least_s: float
    demand: RoutedCoflow


class _Span(NamedTuple):
    """Earliest start and end, and whether these are the same under every policy."""

    start: float
    end: float
    starts_then: bool
    ends_then: bool


def emitted(network: Topology | str | Path, workload: Workload | str | Path, seed: int = 0
            ) -> Iterator[Emitted]:
    """Yield the coflows of a workload, job by job and iteration by iteration.

    Parameters
    ----------
    network, workload, seed
        As for `netsim.simulate`.

    Raises
    ------
    InputError
        If the network or the workload cannot be read, or a job does not fit.
    """
    network = as_network(network)
    workload = all_fitted(as_workload(workload, seed), network, seed)
    numbers = CoflowNumbers(workload)
    for job, spec in enumerate(workload):
        if has_operations(spec):
            raise InputError(f"job {spec.id}: its ranks compute, or its iterations overlap; which "
                             "coflows it emits, and when, is known of other jobs alone")
        plan = JobPlan(spec, network, place_randomly(spec, network, seed), workload.seed,
                       network.usable)
        whole = _Span(spec.arrival_s, spec.arrival_s, True, True)
        for iteration in range(spec.iterations):
            graph = plan.graph(iteration)
            least = [0.0 if demand is None else demand.least_s(network.usable, network.wire.latency)
                     for demand in graph.demands]
            spans = _earliest(graph, least, whole, spec.arrival_s)
            for k, (stage, demand, span) in enumerate(
                    zip(graph.stages, graph.demands, spans, strict=True)):
                if demand is not None:
                    yield Emitted(numbers.number(job, iteration, graph.stages, k), spec.id,
                                  iteration, stage.name, span.start, span.end, span.starts_then,
                                  stage.weight, least[k], demand)
            whole = _Span(whole.start, max(span.end for span in spans), True,
                          all(span.ends_then for span in spans))


def _earliest(graph: StageGraph, least: Sequence[float], before: _Span, arrival: float
              ) -> list[_Span]:
    """Return the span of each stage of an iteration that follows `before`.

    Given the least seconds that each takes after its computation.
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
