"""What is known when a run on a cluster begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from netsim.brief import brief
from netsim.cluster.cluster import Cluster
from netsim.cluster.contention import Contention
from netsim.workload import History, JobSpec

__all__ = ["RunContext"]


@dataclass(frozen=True)
class RunContext:
    """What is known when a run begins.

    Attributes
    ----------
    cluster : Cluster
    jobs : sequence of JobSpec
        In order of (arrival, id).
    model : Contention
        By which rings slow each other down, as far as plans go.
    history : History or None
        Jobs of before.
    seed : int
    """

    cluster: Cluster
    jobs: Sequence[JobSpec]
    model: Contention
    history: History | None = None
    seed: int = 0

    __repr__ = brief
