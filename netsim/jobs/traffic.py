"""The bytes that the ranks of a job exchange in an iteration, pair by pair."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.jobs.ranked_stages import operations_of
from netsim.workload import JobSpec

__all__ = ["MOST_RANKS", "check_traffic", "traffic_of"]

#: There is a number for each pair of ranks.
MOST_RANKS = 4096


def traffic_of(job: JobSpec) -> NDArray[np.float64]:
    """Return the bytes that each pair of ranks of a job exchanges in an iteration.

    Parameters
    ----------
    job : JobSpec
        A job with explicit stages, or with ranks that compute.

    Returns
    -------
    ndarray of float, shape (ranks, ranks)
        In both directions together; symmetric, 0 on the diagonal.

    Raises
    ------
    InputError
        As `check_traffic` does.
    """
    check_traffic(job)
    made = operations_of(job)
    if made is None:
        sent = [(stage.flows, 1) for stage in job.stages if stage.flows is not None]
    else:
        times = np.bincount(made.sends[made.sends >= 0], minlength=len(made.sendings))
        sent = [(each.flows, count) for each, count in zip(made.sendings, times, strict=True)]
    between = np.zeros((job.ranks, job.ranks))
    for flows, count in sent:
        np.add.at(between, (flows.src, flows.dst), flows.nbytes * count)
    between += between.T
    np.fill_diagonal(between, 0.0)
    return between


def check_traffic(job: JobSpec) -> None:
    """Check that a job does not have too many ranks, and that their traffic is known in advance.

    Raises
    ------
    InputError
        If the job has a pattern, or more than `MOST_RANKS` ranks.
    """
    if job.pattern is not None:
        raise InputError(f"job {job.id} has the pattern {job.pattern!r}, with flows that are "
                         "drawn when it runs; only those of explicit stages, and of ranks that "
                         "compute, are known before")
    if job.ranks > MOST_RANKS:
        raise InputError(f"job {job.id} has {job.ranks:,} ranks; pairs are counted of up to "
                         f"{MOST_RANKS:,}")
