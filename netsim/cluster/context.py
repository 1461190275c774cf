"""The information that a scheduler or a placement gets when a run begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from netsim.base.brief import brief
from netsim.cluster.cluster import Cluster
from netsim.cluster.contention import Contention
from netsim.workload import History, JobSpec


@dataclass(frozen=True)
class RunContext:
    """Information about a run at its beginning.

    Attributes
    ----------
    cluster : Cluster
    jobs : sequence of JobSpec
        Jobs in order of (arrival, id).
    model : Contention
        Contention model by which schedulers plan.
    history : History or None
        Earlier jobs, from which predictors learn.
    seed : int
    others : sequence of JobSpec
        Jobs of the run that never wait for these GPUs, such as those on an edge-cloud that need
        another type of workers.
    """

    cluster: Cluster
    jobs: Sequence[JobSpec]
    model: Contention
    history: History | None = None
    seed: int = 0
    others: Sequence[JobSpec] = ()

    __repr__ = brief
