"""The coflows that a workload emits on a network, known before any run."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

from netsim.fabric.demand import Demand
from netsim.jobs.graph import StageGraph
from netsim.jobs.plan import JobPlan, check_fits, place_randomly
from netsim.model import JobSpec, Workload
from netsim.network import Topology, read_network
from netsim.traces import read_workload

__all__ = ["Emitted", "emitted"]


class Emitted(NamedTuple):
    """A coflow of a workload.

    Attributes
    ----------
    coflow : int
        Its number in results.
    job, iteration, stage : int, int, str
        The job's id and the stage's name.
    valid_s, finish_s : float
        When it becomes valid and finishes at the earliest: every coflow alone on the network.
    fixed : bool
        Whether it becomes valid then under every policy: it waits for no other coflow.
    weight : float
    demand : Demand
    """

    coflow: int
    job: int
    iteration: int
    stage: str
    valid_s: float
    finish_s: float
    fixed: bool
    weight: float
    demand: Demand


class _Span(NamedTuple):
    """When something begins and ends at the earliest, and whether it always does then."""

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
    if not isinstance(network, Topology):
        network = read_network(network)
    if not isinstance(workload, Workload):
        workload = read_workload(workload, seed=seed)
    first = 0
    for spec in workload:
        check_fits(spec, network)
        plan = JobPlan(spec, network, place_randomly(spec, network, seed), workload.seed,
                       network.capacity)
        whole = _Span(spec.arrival_s, spec.arrival_s, True, True)
        for iteration in range(spec.iterations):
            graph = plan.graph(iteration)
            spans = _earliest(graph, whole, spec.arrival_s)
            yield from _of(spec, iteration, graph, spans, first)
            first += len(graph.stages)
            whole = _Span(whole.start, max(span.end for span in spans), True,
                          all(span.ends_then for span in spans))


def _of(spec: JobSpec, iteration: int, graph: StageGraph, spans: list[_Span], first: int
        ) -> Iterator[Emitted]:
    for number, (stage, demand, span) in enumerate(
            zip(graph.stages, graph.demands, spans, strict=True), first):
        if demand is not None:
            coflow = number if stage.coflow_id is None else stage.coflow_id
            yield Emitted(coflow, spec.id, iteration, stage.name, span.start, span.end,
                          span.starts_then, stage.weight, demand)


def _earliest(graph: StageGraph, before: _Span, arrival: float) -> list[_Span]:
    """Return the span of each stage's coflow, or end of computation, after `before` has ended."""
    index = {stage.name: place for place, stage in enumerate(graph.stages)}
    spans = [before] * len(graph.stages)
    waits = {name: (*graph.stages[place].after, *graph.stages[place].finishes_before)
             for name, place in index.items()}
    for name in TopologicalSorter(waits).static_order():
        stage, demand = graph.stages[index[name]], graph.demands[index[name]]
        parents = [spans[index[parent]] for parent in stage.after] or [before]
        holders = [spans[index[holder]] for holder in stage.finishes_before]
        start = max(max(parent.end for parent in parents), arrival + stage.release_s)
        start += stage.compute_s
        known = all(parent.ends_then for parent in parents)
        gamma = 0.0 if demand is None else demand.gamma
        spans[index[name]] = _Span(
            start, max(start + gamma, *(holder.end for holder in holders), start), known,
            known and not gamma and all(holder.ends_then for holder in holders))
    return spans
