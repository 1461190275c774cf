"""The graph of the stages of an iteration: dependencies and the longest path."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from netsim.checks import parents_first
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.forking import same
from netsim.workload import Stage

Places = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Dag:
    """Dependencies between the stages of an iteration, which are numbered by position."""

    after: Places  #: without duplicates, as `finishes_before`
    finishes_before: Places
    children: Places  #: the stages that start after each stage
    held: Places  #: the stages that cannot finish before each stage does
    sequence: tuple[int, ...]  #: a topological order
    #: The place of each stage by (length of the longest path to it, release, coflow id, position);
    #: stages without a `coflow_id` come after those with one.
    order: tuple[int, ...]
    __deepcopy__ = same

    @classmethod
    def of(cls, stages: Sequence[Stage]) -> Dag:
        """Make the dependencies of stages; cached, so that equal ones share one object."""
        by_id = sorted(range(len(stages)), key=lambda k: (
            math.inf if (own := stages[k].coflow_id) is None else own, k))
        return _dag(tuple([(stage.name, stage.after, stage.finishes_before, stage.release_s)
                           for stage in stages]), tuple(by_id))


@lru_cache(maxsize=256)
def _dag(stages: tuple[tuple[str, tuple[str, ...], tuple[str, ...], float], ...],
         by_id: tuple[int, ...]) -> Dag:
    names, after, finishes_before, release_s = zip(*stages, strict=True)
    place = {name: k for k, name in enumerate(names)}
    sequence = parents_first(names, [a + b for a, b in zip(after, finishes_before, strict=True)],
                             "an iteration")
    starts, ends = (tuple(tuple(place[name] for name in dict.fromkeys(parents))
                          for parents in relation) for relation in (after, finishes_before))
    depth = [0] * len(names)
    for k in sequence:
        depth[k] = 1 + max((depth[parent] for parent in starts[k] + ends[k]), default=-1)
    ranked = sorted(by_id, key=lambda k: (depth[k], release_s[k]))
    order = {k: rank for rank, k in enumerate(ranked)}
    return Dag(starts, ends, _inverse(starts), _inverse(ends), tuple(sequence),
               tuple(order[k] for k in range(len(names))))


def _inverse(relation: Places) -> Places:
    """Turn lists of parents into lists of children."""
    found: list[list[int]] = [[] for _ in relation]
    for child, parents in enumerate(relation):
        for parent in parents:
            found[parent].append(child)
    return tuple(map(tuple, found))


@dataclass(frozen=True, slots=True, eq=False)
class StageGraph:
    """The stages of one iteration, routed on a network."""

    stages: tuple[Stage, ...]
    demands: tuple[RoutedCoflow | None, ...]  #: None for a stage that only computes
    dag: Dag
    __deepcopy__ = same

    def runs_alone(self) -> bool:
        """Whether the stages form a chain, all have flows, and there are no other constraints.

        `FabricProcess.run_chain` can run such an iteration by itself.
        """
        dag, order = self.dag, self.dag.sequence
        behind = ((), *((k,) for k in order[:-1]))
        return (not any(dag.finishes_before)
                and all(dag.after[k] == after for k, after in zip(order, behind, strict=True))
                and all(demand is not None and len(demand.flows) for demand in self.demands)
                and not any(self.stages[k].release_s for k in order[1:]))

    @property
    def gamma_s(self) -> float:
        """Sum of the effective bottlenecks of all coflows, in seconds."""
        return sum(demand.gamma for demand in self.demands if demand is not None)

    def length(self, *, released: bool, least: Callable[[RoutedCoflow], float]) -> float:
        """Compute the longest path through compute times and `least` times of coflows, in seconds.

        It is the duration of the iteration alone on the network if parallel coflows do not share
        links. `released`: whether stages wait for their ``release_s``, as in the first iteration.
        """
        ends = [0.0] * len(self.stages)
        alone = {demand: least(demand) for demand in dict.fromkeys(self.demands)
                 if demand is not None}
        for k in self.dag.sequence:
            stage, demand = self.stages[k], self.demands[k]
            start = max([ends[parent] for parent in self.dag.after[k]], default=0.0)
            if released:
                start = max(start, stage.release_s)
            end = start + stage.compute_s
            if demand is not None:
                end += alone[demand]
            ends[k] = max([end, *[ends[parent] for parent in self.dag.finishes_before[k]]])
        return max(ends)
