"""Estimated running times of jobs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netsim.cluster.cluster import Cluster, has_equal_servers, server_kind
from netsim.cluster.ring import has_model, model_of
from netsim.models import ParallelModel
from netsim.models.iteration_time import alpha_min_bound
from netsim.workload import JobSpec

#: Estimated seconds per iteration of a job without an estimate: SJF-BCO, Section 7.
_ESTIMATE_S = 0.05


def estimate_of(job: JobSpec) -> float:
    """The estimated running time of a job in seconds; by default 0.05 s per iteration."""
    return _ESTIMATE_S * job.iterations if job.estimate_s is None else job.estimate_s


def estimates_of(jobs: Sequence[JobSpec]) -> NDArray[np.float64]:
    """The estimated running time of each job in seconds; see `estimate_of`."""
    return np.array([estimate_of(job) for job in jobs])


def expected_iterations(jobs: Sequence[JobSpec], cluster: Cluster) -> NDArray[np.float64]:
    """Estimate the seconds of an iteration of each job.

    A job's own estimate is used if it has one. Otherwise, if the job is a model or a ring and all
    servers are equal, it is the shortest time on the cluster. In all other cases, it is 0.05 s.
    """
    known: dict[ParallelModel, float] = {}
    return np.array([_expected(job, cluster, known) for job in jobs])


def expected_times(jobs: Sequence[JobSpec], cluster: Cluster) -> NDArray[np.float64]:
    """Estimate the running time of each job in seconds; see `expected_iterations`."""
    iterations_s = expected_iterations(jobs, cluster)
    return np.array([each * job.iterations if job.estimate_s is None else job.estimate_s
                     for job, each in zip(jobs, iterations_s.tolist(), strict=True)])


def _expected(job: JobSpec, cluster: Cluster, known: dict[ParallelModel, float]) -> float:
    if job.estimate_s is not None:
        return job.estimate_s / job.iterations
    if not (has_model(job) and has_equal_servers(cluster)):
        return _ESTIMATE_S
    model = model_of(job)
    if model not in known:
        known[model] = alpha_min_bound(model, server_kind(cluster))
    return known[model]
