"""Earlier jobs as what is known when later ones arrive: for schedulers that predict."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from netsim.errors import InputError
from netsim.model import History, JobSpec, Workload
from netsim.plain import plain_numbers

__all__ = ["UNKNOWN", "history_of", "split_history"]

#: The group or the user of a job that says none; no id is negative.
UNKNOWN = -1

#: Of a share times a number of jobs: 0.29 * 100 is a little less than 29.
_ROUNDING = 1e-9


def history_of(jobs: Collection[JobSpec]) -> History:
    """Return what jobs were of, by their groups and users, and how long they ran.

    Parameters
    ----------
    jobs : collection of JobSpec
        In any order, which is kept. What says no group, or no user, gets `UNKNOWN`.

    Returns
    -------
    History
    """
    count = len(jobs)
    return History(
        np.fromiter((UNKNOWN if job.group is None else job.group for job in jobs), np.int64, count),
        np.fromiter((UNKNOWN if job.user is None else job.user for job in jobs), np.int64, count),
        np.fromiter((job.iterations for job in jobs), np.float64, count))


@plain_numbers
def split_history(workload: Workload, share: float = 0.8) -> Workload:
    """Return the later jobs of a workload, with the earlier ones as their history.

    Jobs keep their ids and their arrivals. The history counts as known from the start, as if
    all its jobs had ended before the first that is left arrives.

    Parameters
    ----------
    workload : Workload
        Its jobs are taken by arrival, then id. A history that it has already stays in front.
    share : float
        Of its jobs, those that become history, rounded down; between 0 and 1.

    Returns
    -------
    Workload
        Of the same name and seed.

    Raises
    ------
    InputError
        If the share is out of range, or so few jobs leave one of the parts empty.

    Examples
    --------
    >>> jobs = [JobSpec(id, id, iterations=5, pattern="ring-all-reduce", ranks=1, group=id % 2)
    ...         for id in range(10)]
    >>> later = split_history(Workload(jobs))
    >>> [job.id for job in later], later.history.group.tolist()
    ([8, 9], [0, 1, 0, 1, 0, 1, 0, 1])
    """
    if not (isinstance(share, float | np.floating) and 0 < share < 1):
        raise InputError(f"the share of jobs that become history must be a number between 0 and "
                         f"1, such as 0.8, not {share!r}")
    count = math.floor(share * len(workload) + _ROUNDING)
    if not 0 < count < len(workload):
        raise InputError(f"workload {workload.name!r} has {len(workload):,} jobs, of which the "
                         f"share {share:g} leaves none as history, or none to run")
    known = history_of(workload.jobs[:count])
    if workload.history is not None:
        known = _joined(workload.history, known)
    return replace(workload, jobs=workload.jobs[count:], history=known)


def _joined(earlier: History, later: History) -> History:
    return History(*(np.concatenate((getattr(earlier, name), getattr(later, name)))
                     for name in ("group", "user", "iterations")))
