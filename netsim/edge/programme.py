"""The linear programme that bounds what any edge-cloud scheduler can do; needs the extra ``ilp``.

In slots, as the paper has it: `netsim.edge.bound` makes it of a system.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError, MissingExtraError, NetsimError

__all__ = ["CLOUD", "Place", "Work", "least_cost", "sufficient_horizon"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The group of workers that is the cloud.
CLOUD = -1

#: Of the solver, on numbers near 1.
_SOLVER = 1e-9

#: HiGHS needs many minutes for far fewer.
_MOST_VARIABLES = 10_000_000

#: Of `scipy.optimize.linprog`.
_SOLVED, _STOPPED, _INFEASIBLE = 0, 1, 2


class Place(NamedTuple):
    """Where a job can train: the workers of its type of one server, or the cloud.

    Attributes
    ----------
    group : int
        The server; `CLOUD` has no limit but the job's chunks.
    workers : int
    ready : float
        When the data of the job are there, in slots.
    """

    group: int
    workers: int
    ready: float


@dataclass(frozen=True)
class Work:
    """A job, as the programme sees it.

    Attributes
    ----------
    arrival : float
        In slots.
    chunks : int
        At most so many workers train it at once.
    chunk_time : float
        What a chunk takes on a worker, in slots; `EdgeJob.p1_s` over the slot.
    places : tuple of Place
        At least one.
    """

    arrival: float
    chunks: int
    chunk_time: float
    places: tuple[Place, ...]

    @property
    def cloud(self) -> float:
        """When its data are in the cloud; infinite if there is none."""
        return min((each.ready for each in self.places if each.group == CLOUD), default=math.inf)


def sufficient_horizon(jobs: Sequence[Work]) -> int:
    """Return a number of slots beyond which an optimum needs nothing, without a cloud.

    Once all data are everywhere, a job that has work left in a slot, and could be moved into an
    earlier one, finds there either all workers that can train it busy, or all its chunks in
    training. The former cannot last longer than all work by all workers, the latter not longer than
    a chunk.

    Parameters
    ----------
    jobs : sequence of Work
        All with the same groups of workers, and none with a cloud.
    """
    ready = max(place.ready for job in jobs for place in job.places)
    work = math.fsum(job.chunks * job.chunk_time for job in jobs)
    workers = sum(place.workers for place in jobs[0].places)
    longest = max(job.chunk_time for job in jobs)
    return math.ceil(ready) + math.ceil(work / workers) + math.ceil(longest) + 2


def least_cost(jobs: Sequence[Work], horizon: int | None = None,
               until: float | None = None) -> float:
    """Return the optimum: the least sum over jobs of the mean time from arrival to training.

    The variables are the share of a job's work that a group of workers does in a slot, whose cost
    is the time from the job's arrival to where the slot, or what of it is left when the data are
    there, begins. A group has so many workers, and no more than a job's chunks train at once.

    Parameters
    ----------
    jobs : sequence of Work
        All of one type: those that can use a group of workers can use all of them.
    horizon : int, optional
        The number of slots, for jobs that have no cloud. It may cut off better solutions.
    until : float, optional
        When the solver is stopped, in seconds of `time.monotonic`.

    Returns
    -------
    float
        In slots.

    Raises
    ------
    MissingExtraError
        If SciPy is not installed.
    InputError
        If the work does not fit the horizon, or there are too many slots.
    NetsimError
        If the time was up, or the solver fails.
    """
    if find_spec("scipy") is None:
        raise MissingExtraError("scipy", "ilp")
    last = horizon if horizon is not None else (
        0 if jobs[0].cloud < math.inf else sufficient_horizon(jobs))
    spans = (_slots(job, place, last) for job in jobs for place in job.places)
    count = sum(end - first for first, end in spans)
    if count > _MOST_VARIABLES:
        raise InputError(f"the LP bound of {len(jobs)} jobs would have {count:,} variables, and "
                         f"may have {_MOST_VARIABLES:,}; give a longer slot")
    return _solve(_columns(jobs, last), len(jobs), until, last)


class _Columns(NamedTuple):
    """The variables: of which job, group and slot; cost; upper bound; and what they use."""

    job: Ints
    group: Ints
    slot: Ints
    cost: Floats
    most: Floats
    #: Worker-slots of the group's workers, and of the job's chunks, that a share of 1 takes.
    per_worker: Floats
    per_chunk: Floats


def _columns(jobs: Sequence[Work], horizon: int) -> _Columns:
    parts: list[tuple[NDArray[np.generic], ...]] = []
    for number, job in enumerate(jobs):
        for place in job.places:
            slots = np.arange(*_slots(job, place, horizon), dtype=np.int64)
            begin = np.maximum(slots, place.ready)
            work = job.chunks * job.chunk_time
            used = min(place.workers, job.chunks) if place.group != CLOUD else job.chunks
            parts.append((np.full(len(slots), number), np.full(len(slots), place.group), slots,
                          begin - job.arrival, used * (slots + 1 - begin) / work,
                          np.full(len(slots), work / max(place.workers, 1)),
                          np.full(len(slots), job.chunk_time)))
    return _Columns(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _slots(job: Work, place: Place, horizon: int) -> tuple[int, int]:
    """Return the slots in which a job may train in a place: the first, and the end of them.

    With a cloud, the edge is of no use in slots that begin when the cloud has the data: there the
    work costs no more in the cloud, which has room for all chunks.
    """
    if place.group == CLOUD:
        end = math.ceil(place.ready + job.chunk_time)
    else:
        end = horizon if job.cloud == math.inf else math.ceil(job.cloud)
    first = math.floor(place.ready)
    return first, max(first, end)


def _solve(columns: _Columns, jobs: int, until: float | None, horizon: int) -> float:
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, vstack

    limit_s = None if until is None else max(until - time.monotonic(), 1e-3)
    count = len(columns.cost)
    every = np.arange(count)
    on_edge = columns.group != CLOUD
    limits = vstack([_sums(columns.group, columns.slot, columns.per_worker, on_edge),
                     _sums(columns.job, columns.slot, columns.per_chunk, np.full(count, True))])
    whole = csr_array((np.ones(count), (columns.job, every)), shape=(jobs, count))
    options = {"primal_feasibility_tolerance": _SOLVER, "dual_feasibility_tolerance": _SOLVER}
    if limit_s is not None:
        options["time_limit"] = limit_s
    found = linprog(columns.cost, A_ub=limits.tocsr(), b_ub=np.ones(limits.shape[0]), A_eq=whole,
                    b_eq=np.ones(jobs), bounds=np.column_stack((np.zeros(count), columns.most)),
                    method="highs", options=options)
    if found.status == _INFEASIBLE:
        raise InputError(f"the LP bound: the jobs cannot be trained within {horizon} slots; give a "
                         "longer horizon, or none")
    if found.status == _STOPPED and limit_s is not None:
        raise NetsimError(f"the LP bound of {jobs} jobs, {count:,} variables, is not known when "
                          "the time is up; allow more time with time_limit, or give a "
                          "longer slot")
    if found.status != _SOLVED:
        raise NetsimError(f"HiGHS did not solve the LP bound of {jobs} jobs: {found.message}")
    return float(found.fun)


def _sums(owner: Ints, slot: Ints, use: Floats, mine: NDArray[np.bool_]):  # type: ignore[no-untyped-def]
    """Return the rows that sum what some variables use, one per owner and slot.

    One variable alone has its upper bound, and needs no row.
    """
    from scipy.sparse import csr_array

    columns = np.flatnonzero(mine)
    key = owner[columns] * (int(slot.max(initial=0)) + 1) + slot[columns]
    _, row, together = np.unique(key, return_inverse=True, return_counts=True)
    kept = together > 1
    number = np.cumsum(kept) - 1
    needed = kept[row]
    return csr_array((use[columns[needed]], (number[row[needed]], columns[needed])),
                     shape=(int(kept.sum()), len(owner)))
