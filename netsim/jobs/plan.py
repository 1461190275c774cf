"""A job bound to a network: the demands of its stages, and how long it takes alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.fabric.demand import Demand
from netsim.jobs.patterns import make_pattern
from netsim.model import JobSpec, Stage
from netsim.network import Topology
from netsim.streams import stream

__all__ = ["JobPlan", "StageGraph", "check_fits", "draw_stages", "place_randomly"]


@dataclass(frozen=True)
class StageGraph:
    """One iteration's stages, bound to a network.

    Attributes
    ----------
    stages : tuple of Stage
    demands : tuple of Demand or None
        What each stage sends; None where it only computes.
    """

    stages: tuple[Stage, ...]
    demands: tuple[Demand | None, ...]

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The stages that each stage must complete for. Indices."""
        return self._dependents("after")

    @cached_property
    def held(self) -> tuple[tuple[int, ...], ...]:
        """The stages that cannot finish before each stage does. Indices."""
        return self._dependents("finishes_before")

    def _dependents(self, relation: str) -> tuple[tuple[int, ...], ...]:
        found: dict[str, list[int]] = {stage.name: [] for stage in self.stages}
        for child, stage in enumerate(self.stages):
            for parent in dict.fromkeys(getattr(stage, relation)):
                found[parent].append(child)
        return tuple(tuple(children) for children in found.values())

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The place of each stage by (depth, release, list); depth counts parents in line."""
        depth: dict[str, int] = {}
        while len(depth) < len(self.stages):
            for stage in self.stages:
                parents = (*stage.after, *stage.finishes_before)
                if stage.name not in depth and all(name in depth for name in parents):
                    depth[stage.name] = 1 + max((depth[name] for name in parents), default=-1)
        ranked = sorted(range(len(self.stages)), key=lambda index: (
            depth[self.stages[index].name], self.stages[index].release_s, index))
        places = {index: place for place, index in enumerate(ranked)}
        return tuple(places[index] for index in range(len(self.stages)))

    @cached_property
    def gamma_s(self) -> float:
        """Sum of the effective bottlenecks of all coflows, in seconds."""
        return sum(demand.gamma for demand in self.demands if demand is not None)

    def length(self, *, released: bool) -> float:
        """Return the longest path through compute times and bottlenecks, in seconds.

        The iteration's duration if it had the network to itself and parallel coflows did
        not share links: for a chain of stages, the sum of all.

        Parameters
        ----------
        released : bool
            Whether stages wait for their ``release_s``, as in the first iteration.
        """
        ends: dict[str, float] = {}
        waiting = list(zip(self.stages, self.demands, strict=True))
        while waiting:
            later = []
            for stage, demand in waiting:
                if all(name in ends for name in (*stage.after, *stage.finishes_before)):
                    start = max((ends[name] for name in stage.after), default=0.0)
                    start = max(start, stage.release_s if released else 0.0)
                    end = start + stage.compute_s + (demand.gamma if demand is not None else 0.0)
                    ends[stage.name] = max(end, *(ends[name] for name in stage.finishes_before),
                                           0.0)
                else:
                    later.append((stage, demand))
            waiting = later
        return max(ends.values())


class JobPlan:
    """What a job does on a network: its stage graph per iteration, and its lower bound.

    Parameters
    ----------
    spec : JobSpec
    network : Topology
    hosts : sequence of int
        The host of each rank.
    seed : int
        The workload's seed, for the sizes that a pattern draws.
    capacity : ndarray of float, shape (links,)
        The most that each link ever has during the run, for lower bounds.
    """

    def __init__(self, spec: JobSpec, network: Topology,
                 hosts: Sequence[int] | NDArray[np.int64], seed: int,
                 capacity: NDArray[np.float64]) -> None:
        self.spec = spec
        self.hosts = np.asarray(hosts, dtype=np.int64)
        self._network = network
        self._seed = seed
        self._capacity = capacity

    def graph(self, iteration: int) -> StageGraph:
        """Return the stages of an iteration; the same object throughout unless redrawn."""
        return self._draw(iteration) if self.spec.redraw else self._fixed

    @cached_property
    def _fixed(self) -> StageGraph:
        return self._draw()

    def _draw(self, *iteration: int) -> StageGraph:
        spec, stages = self.spec, draw_stages(self.spec, self._seed, *iteration)
        if spec.compute_s:
            stages = tuple(stage if stage.after
                           else replace(stage, compute_s=stage.compute_s + spec.compute_s)
                           for stage in stages)
        return StageGraph(stages, tuple(self._demand(stage) for stage in stages))

    def _demand(self, stage: Stage) -> Demand | None:
        if stage.flows is None:
            return None
        key = crc32(f"{self.spec.id}/{stage.name}".encode()) << 20
        deadline_s = math.inf if stage.deadline_s is None else stage.deadline_s
        return Demand.of(stage.flows, self._network, self.hosts, key=key, weight=stage.weight,
                         deadline_s=deadline_s, capacity=self._capacity)

    def lower_bound(self) -> float:
        """Return the least possible JCT: the job alone on the network, in seconds.

        For a chain of stages the sum of all Gammas and compute times (the spec's LB); for
        a DAG, the longest path through them.
        """
        if self.spec.redraw:
            return sum(self.graph(iteration).length(released=iteration == 0)
                       for iteration in range(self.spec.iterations))
        first = self._fixed.length(released=True)
        if self.spec.iterations == 1:
            return first
        return first + (self.spec.iterations - 1) * self._fixed.length(released=False)

    def communication_s(self) -> float:
        """Return the sum of the Gammas of all coflows, in seconds."""
        if self.spec.redraw:
            return sum(self.graph(iteration).gamma_s for iteration in range(self.spec.iterations))
        return self.spec.iterations * self._fixed.gamma_s


def draw_stages(spec: JobSpec, seed: int, *iteration: int) -> tuple[Stage, ...]:
    """Return a job's stages in rank space: its own, or drawn by its pattern.

    Depends on the workload's seed and the job's id alone, and on the iteration if given.
    """
    if spec.pattern is None:
        return tuple(spec.stages)
    rng = stream(seed, "sizes", spec.id, *iteration)
    return tuple(make_pattern(spec.pattern).stages(spec.ranks, spec.nbytes, rng))


def check_fits(spec: JobSpec, network: Topology) -> None:
    """Refuse a job that the network has no hosts for.

    Raises
    ------
    InputError
        If a host is out of range, or the ranks are to be placed and outnumber the hosts.
    """
    where = f"network {network.name!r} has {network.hosts} hosts"
    if spec.hosts is None:
        if spec.ranks > network.hosts:
            raise InputError(f"job {spec.id} needs {spec.ranks} distinct hosts; {where}")
        return
    outside = [host for host in spec.hosts if not 0 <= host < network.hosts]
    if outside:
        raise InputError(f"job {spec.id}: host {outside[0]} is out of range; {where}, "
                         f"0 to {network.hosts - 1}")


def place_randomly(spec: JobSpec, network: Topology, seed: int) -> NDArray[np.int64]:
    """Return a distinct random host for each rank of a job that says no hosts itself.

    Depends on the seed and the job's id alone: other jobs do not shift it.
    """
    if spec.hosts is not None:
        return np.array(spec.hosts, dtype=np.int64)
    return stream(seed, "placement", spec.id).permutation(network.hosts)[:spec.ranks]
