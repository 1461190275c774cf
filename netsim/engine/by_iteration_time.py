"""Execution of placed jobs by the iteration time of their placement: the model of A-SRPT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.cluster.cluster import Cluster, server_kind
from netsim.cluster.ring import model_of
from netsim.engine.by_time import TimedExecution
from netsim.forking import Known
from netsim.jobs.stragglers import slowed_model
from netsim.models import ParallelModel
from netsim.models.iteration_time import alpha_min_bound, per_iteration
from netsim.workload import JobSpec

Ints = NDArray[np.int64]


class IterationTimeExecution(TimedExecution):
    """Execution in which n iterations take n times alpha seconds, by Eq. 4 to 7 of A-SRPT.

    alpha is the iteration time of the job on its GPUs. Each GPU has a fixed share of its server's
    NIC, so that jobs do not slow each other down. Servers must be equal, and jobs models or rings.
    See `Execution`.
    """

    def __init__(self, env: Any, cluster: Cluster, jobs: Sequence[JobSpec],
                 factors: NDArray[np.float64] | None = None) -> None:
        super().__init__(env, jobs)
        self._cluster = cluster
        # By server: how many times as long computation takes.
        self._factors = None if factors is None or (factors == 1).all() else factors
        self._kind = server_kind(cluster)
        self._models = [model_of(job) for job in jobs]
        self._found = Known()
        self._least_of()

    def _least_of(self) -> None:
        """Compute the lower bound on the time of an iteration of each job, in seconds."""
        least = {model: alpha_min_bound(model, self._kind)
                 for model in dict.fromkeys(self._models)}
        self.least = np.array([least[model] for model in self._models])

    def add_job(self, job: int, jobs: Sequence[JobSpec]) -> None:
        """Make room for a job that has not arrived; see `Execution`."""
        super().add_job(job, jobs)
        self._models.insert(job, model_of(jobs[job]))
        self._least_of()

    def seconds(self, job: int, gpus: Ints) -> float:
        """The time per iteration (alpha) of a job on some GPUs, given in order of ranks."""
        model, servers = self._models[job], self._cluster.server_of[gpus]
        if self._factors is not None:
            model = slowed_model(model, self._factors[servers])
        # Servers are renumbered by their first rank, as their identity makes no difference.
        number: dict[int, int] = {}
        places = tuple([number.setdefault(server, len(number)) for server in servers.tolist()])
        found = self._found.get((model, places))
        if found is None:
            found = self._found[model, places] = self._seconds(model, np.array(places), len(number))
        return found

    def _seconds(self, model: ParallelModel, places: Ints, servers: int) -> float:
        """Compute alpha from the server of each rank."""
        stages = len(model.stages)
        stage = np.repeat(np.arange(stages), [each.gpus for each in model.stages])
        counts = np.bincount(places * stages + stage, minlength=servers * stages)
        return per_iteration(model, counts.reshape(servers, stages), self._kind)
