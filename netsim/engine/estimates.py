"""Estimated running times of jobs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netsim.workload import JobSpec

__all__ = ["estimates_of"]

#: Estimated seconds per iteration of a job without an estimate: SJF-BCO, Section 7.
_ESTIMATE_S = 0.05


def estimates_of(jobs: Sequence[JobSpec]) -> NDArray[np.float64]:
    """Return the estimated running time of each job in seconds; by default 0.05 s per iteration."""
    return np.array([_ESTIMATE_S * job.iterations if job.estimate_s is None else job.estimate_s
                     for job in jobs])
