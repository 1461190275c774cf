"""An iteration of a job that is alone on the network: when it sends what, and how long it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.job import IterationProfile
from netsim.jobs.graph import OperationGraph, StageGraph
from netsim.jobs.longest_path import longest_path


@dataclass(frozen=True)
class IterationAlone:
    """What happens in an iteration in which each coflow takes its least time."""

    period_s: float  #: from the beginning of this iteration to that of the next
    gpu_s: float  #: seconds that its GPUs compute, in sum
    begin_s: Floats  #: when each coflow begins to send
    end_s: Floats  #: and when it ends
    which: Ints  #: the place of each in `routed`
    routed: Sequence[RoutedCoflow]

    def link_seconds(self, capacity: Floats) -> Floats:
        """Return how long all bytes of the iteration would fill each link."""
        seconds = np.zeros(len(capacity))
        for demand, times in zip(self.routed, np.bincount(
                self.which, minlength=len(self.routed)).tolist(), strict=True):
            link, nbytes = demand.loads["link"], demand.loads["nbytes"]
            here = (link < len(capacity)) & (capacity[np.minimum(link, len(capacity) - 1)] > 0)
            np.add.at(seconds, link[here], times * nbytes[here] / capacity[link[here]])
        return seconds

    def profile(self, gpus: int, capacity: Floats) -> IterationProfile:
        """Return the iteration as a policy sees it; `capacity` is in bytes per second."""
        if not np.isfinite(self.period_s):  # it needs a dead link
            return IterationProfile(gpus)
        compute_s = self.gpu_s / gpus
        begin_s = float(self.begin_s.min(initial=self.period_s))
        link_s = float(self.link_seconds(capacity).max(initial=0.0))
        return IterationProfile(gpus, compute_s, begin_s, link_s, max(
            self.period_s - max(compute_s, begin_s + link_s), 0.0))


def alone(graph: StageGraph | OperationGraph, gpus: int) -> IterationAlone:
    """Return an iteration of a job with this number of GPUs, all of which compute in each stage.

    Where stages take turns and their GPUs are not known, GPUs compute all the time at most. If
    iterations overlap, it is the first one, and takes as long as the second takes longer.
    """
    if isinstance(graph, OperationGraph):
        return _of_operations(graph)
    ends = graph.ends(released=False, least=alone_s)
    sends = [k for k, demand in enumerate(graph.demands) if demand is not None]
    routed = [demand for demand in graph.demands if demand is not None]
    begin = np.take(ends, sends) - [demand.gamma for demand in routed]
    compute_s = min(sum(stage.compute_s for stage in graph.stages), max(ends))
    return IterationAlone(max(ends), gpus * compute_s, begin, np.take(ends, sends),
                          np.arange(len(sends)), routed)


def _of_operations(graph: OperationGraph) -> IterationAlone:
    made = graph.operations
    least = np.array([*map(alone_s, graph.routed), 0.0])
    gamma = np.array([*(demand.gamma for demand in graph.routed), 0.0])
    first, second = longest_path(made, made.compute_s + least[made.sends], 2)
    sends = np.flatnonzero(made.sends >= 0)
    computes = made.rank >= 0
    return IterationAlone(
        float(second.max() - first.max()),
        float((made.compute_s * np.array(graph.copies))[computes].sum()),
        first[sends] - gamma[made.sends[sends]], first[sends], made.sends[sends], graph.routed)


def alone_s(demand: RoutedCoflow) -> float:
    """Return the least time of a coflow on an ideal network."""
    return demand.overhead_s + demand.gamma
