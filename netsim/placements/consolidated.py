"""Placement on the fewest servers that could hold a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from netsim.cluster.cluster import Cluster
from netsim.placements.placement import Floats, Ints, first_of
from netsim.workload import JobSpec


@dataclass(frozen=True)
class Consolidated:
    """GPUs of as few servers as could hold the job if all of their GPUs were free, or none.

    A job waits rather than be spread over more servers. GPUs are taken from the server with the
    fewest free GPUs that has enough for the rest of the job. If there is none, all are taken from
    the server with the most free GPUs, and so on. Ties go to the lower number.
    """

    refuses_by_size: ClassVar[bool] = True

    def scope(self, cluster: Cluster, job: JobSpec, load: Floats) -> Ints:
        """All GPUs."""
        return np.arange(cluster.total)

    def choose(self, cluster: Cluster, job: JobSpec, candidates: Ints, load: Floats
               ) -> Ints | None:
        """Choose the candidates on the fewest servers; None if they do not suffice."""
        free = np.bincount(cluster.server_of[candidates], minlength=cluster.servers)
        most = np.cumsum(np.sort(cluster.gpus)[::-1])
        taken: list[Ints] = []
        need = job.ranks
        for _ in range(int(np.searchsorted(most, need)) + 1):
            enough = np.flatnonzero(free >= need)
            server = (enough[np.argmin(free[enough])] if len(enough) else np.argmax(free))
            own = candidates[cluster.server_of[candidates] == server][:need]
            taken.append(own)
            free[server] = 0
            need -= len(own)
            if not need:
                return first_of(cluster, job, np.concatenate(taken))
        return None
