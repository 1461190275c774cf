"""Placed jobs run for their iterations, each of the time that its placement makes it: A-SRPT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.cluster.cluster import Cluster, server_kind
from netsim.cluster.mapped import model_of
from netsim.model import JobSpec
from netsim.parallel import ParallelModel
from netsim.parallel.iteration import alpha_min_bound, per_iteration

__all__ = ["ByIteration"]

Ints = NDArray[np.int64]


class ByIteration:
    """Jobs take n alpha, of n iterations of alpha seconds by Eq. 4 to 7; see `Execution`.

    Each GPU has its share of its server's NIC, so that jobs do not slow each other down.

    Parameters
    ----------
    env : simpy.Environment
    cluster : Cluster
    jobs : sequence of JobSpec
        Models, or rings.

    Attributes
    ----------
    least : ndarray of float, shape (jobs,)
        Seconds that no iteration of a job goes below.

    Raises
    ------
    InputError
        If servers are not all alike, or a job is neither model nor ring.
    """

    def __init__(self, env: Any, cluster: Cluster, jobs: Sequence[JobSpec]) -> None:
        self._env, self._cluster, self._jobs = env, cluster, jobs
        self._kind = server_kind(cluster)
        self._models = [model_of(job) for job in jobs]
        self._found: dict[tuple[ParallelModel, bytes], float] = {}
        least = {model: alpha_min_bound(model, self._kind)
                 for model in dict.fromkeys(self._models)}
        self.least = np.array([least[model] for model in self._models])

    def start(self, job: int, gpus: Ints, ended: Callable[[int], None]) -> None:
        """Let a job run from now on; see `Execution.start`."""
        seconds = self._jobs[job].iterations * self.seconds(job, gpus)
        self._env.timeout(seconds).callbacks.append(lambda _: ended(job))

    def seconds(self, job: int, gpus: Ints) -> float:
        """Return alpha of a job on some GPUs, in order of ranks."""
        model = self._models[job]
        servers, place = np.unique(self._cluster.server_of[gpus], return_inverse=True)
        key = model, place.tobytes()
        if key not in self._found:
            stages = len(model.stages)
            stage = np.repeat(np.arange(stages), [each.gpus for each in model.stages])
            counts = np.bincount(place * stages + stage, minlength=len(servers) * stages)
            self._found[key] = per_iteration(model, counts.reshape(len(servers), stages),
                                             self._kind)
        return self._found[key]
