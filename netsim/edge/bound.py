"""A lower bound on the total JCT on an edge-cloud: the LP bound of A_online's paper.

Times of the linear programme are in slots, as in the paper; `lp_bound` converts systems and jobs.
It needs the extra ``ilp`` (SciPy).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.units import Quantity, parse_seconds
from netsim.base.values import known_names
from netsim.edge.edge_cloud import EdgeCloud, EdgeJob, EdgeWorkload, Kind
from netsim.edge.setting import CLOUD
from netsim.errors import InputError, MissingExtraError, NetsimError

# --- the programme -------------------------------------------------------------------------

#: Feasibility tolerance of the solver, for numbers near 1.
_TOLERANCE = 1e-9

#: HiGHS needs many minutes even for far fewer variables.
_MOST_VARIABLES = 10_000_000

#: Status codes of `scipy.optimize.linprog`.
_SOLVED, _STOPPED, _INFEASIBLE = 0, 1, 2


class Place(NamedTuple):
    """A place where a job can train: the workers of its type on one server, or the cloud."""

    group: int  #: the server, or `CLOUD`, which has a worker for each chunk of the job
    workers: int  #: not used for the cloud
    ready: float  #: when the job's data is at this place, in slots


@dataclass(frozen=True)
class Work:
    """A job in the linear programme; times are in slots."""

    arrival: float
    chunks: int  #: the most workers that can train the job at once
    chunk_time: float  #: training time of a chunk: `EdgeJob.p1_s` in slots
    places: tuple[Place, ...]

    @property
    def cloud(self) -> float:
        """When the job's data is in the cloud, in slots; inf if there is no cloud."""
        return min((each.ready for each in self.places if each.group == CLOUD), default=math.inf)


def sufficient_horizon(jobs: Sequence[Work]) -> int:
    """Bound the number of slots of an optimum, for jobs that use the same servers and no cloud.

    In an optimum, no work of a job can be moved to an earlier slot. Consider the slots after all
    data has arrived at all places, until a job ends. In each of them, either all workers of the
    job's type are busy, or all its chunks are in training. The first case lasts at most as long as
    all work on all workers takes, the second at most as long as one chunk.
    """
    ready = max(place.ready for job in jobs for place in job.places)
    work = math.fsum(job.chunks * job.chunk_time for job in jobs)
    workers = sum(place.workers for place in jobs[0].places)
    longest = max(job.chunk_time for job in jobs)
    return math.ceil(ready) + math.ceil(work / workers) + math.ceil(longest) + 2


def least_cost(jobs: Sequence[Work], horizon: int | None = None,
               until: float | None = None) -> float:
    """Minimise the sum over jobs of the mean time from arrival to training; return it in slots.

    All jobs are of one worker type. There is a variable for each job, group of workers and slot:
    the share of the job's work that the group does in the slot. Its cost is the time from the job's
    arrival to the beginning of the slot, or to the instant in the slot at which the job's data is
    ready. Constraints limit each group to its number of workers, and each job to one worker per
    chunk.

    `horizon` is the number of slots for jobs without a cloud; if it is too small, it excludes the
    optimum. The solver stops at `until`, in seconds of `time.monotonic`.
    """
    if find_spec("scipy") is None:
        raise MissingExtraError("scipy", "ilp")
    last = horizon if horizon is not None else (
        0 if jobs[0].cloud < math.inf else sufficient_horizon(jobs))
    spans = (_slots(job, place, last) for job in jobs for place in job.places)
    count = sum(end - first for first, end in spans)
    if count > _MOST_VARIABLES:
        raise InputError(f"the LP bound of {len(jobs)} jobs would have {count:,} variables, but at "
                         f"most {_MOST_VARIABLES:,} are possible; give a longer slot", "slot")
    return _solve(_columns(jobs, last), len(jobs), until, last)


class _Columns(NamedTuple):
    """The variables: job, group and slot of each, its cost, upper bound and use of workers."""

    job: Ints
    group: Ints
    slot: Ints
    cost: Floats
    most: Floats
    #: Slots in which a share of 1 occupies all workers of the group, and all chunks of the job.
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
    """The range of slots (first, end) in which a job may train at a place.

    Slots at the edge that begin after the data is in the cloud are left out, as the work costs no
    more in the cloud, which has room for all chunks.
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
    options = {"primal_feasibility_tolerance": _TOLERANCE,
               "dual_feasibility_tolerance": _TOLERANCE}
    if limit_s is not None:
        options["time_limit"] = limit_s
    found = linprog(columns.cost, A_ub=limits.tocsr(), b_ub=np.ones(limits.shape[0]), A_eq=whole,
                    b_eq=np.ones(jobs), bounds=np.column_stack((np.zeros(count), columns.most)),
                    method="highs", options=options)
    if found.status == _INFEASIBLE:
        raise InputError(f"the LP bound: the jobs cannot be trained within {horizon} slots; give a "
                         "longer horizon, or none", "horizon")
    if found.status == _STOPPED and limit_s is not None:
        raise NetsimError(f"the LP bound of {jobs} jobs, {count:,} variables, was not solved "
                          "within the time limit; allow more time with time_limit, or give a "
                          "longer slot")
    if found.status != _SOLVED:
        raise NetsimError(f"HiGHS did not solve the LP bound of {jobs} jobs: {found.message}")
    return float(found.fun)


def _sums(owner: Ints, slot: Ints, use: Floats, mine: Bools):  # type: ignore[no-untyped-def]
    """Build the constraint rows that sum the use of workers by variables, per owner and slot.

    A variable that is alone in its row is limited by its upper bound, and the row is left out.
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


# --- the bound -----------------------------------------------------------------------------
@dataclass(frozen=True)
class LPBound:
    """A lower bound on the total JCT of some jobs.

    Attributes
    ----------
    lp_s : float
        The optimum of the linear programme, in seconds; a valid lower bound by itself.
    half_processing_s : float
        Half of the sum over jobs of p1, the training time of one chunk without exchanges; seconds.
    """

    lp_s: float
    half_processing_s: float

    @property
    def jct_s(self) -> float:
        """The tighter bound `lp_s` + `half_processing_s`; only valid without speed augmentation.

        In the LP, the cost of a job is the mean time at which its work begins. Its last chunk ends
        at least half a chunk's training time later (Appendix B of the paper).
        """
        return self.lp_s + self.half_processing_s

    def ratio_paper(self, jct_total_s: float) -> float:
        """Return the competitive ratio as the paper defines it: total JCT over `lp_s`."""
        return jct_total_s / self.lp_s if self.lp_s > 0 else math.inf

    def ratio(self, jct_total_s: float) -> float:
        """Return the ratio of a total JCT to the tighter bound, `jct_s`."""
        return jct_total_s / self.jct_s


@known_names
def lp_bound(system: EdgeCloud, jobs: EdgeWorkload | Iterable[EdgeJob], *,
             slot: Quantity = "1h", horizon: Quantity | None = None,
             time_limit: Quantity | None = None) -> LPBound:
    """Compute a lower bound on the total JCT of jobs under any scheduler.

    The bound comes from a relaxation: exchanges of gradients take no time (zeta = 1), chunks may be
    split and moved between workers, and storage and parameter servers (PSs) are unlimited. Time is
    divided into slots, and the work of a slot counts as done at its beginning.

    Parameters
    ----------
    system : EdgeCloud
    jobs : EdgeWorkload or iterable of EdgeJob
    slot : quantity
        Length of a slot. A shorter slot gives a tighter bound and a larger programme: there is a
        variable for each job, each server with workers of its type, and each slot until the job's
        data is in the cloud.
    horizon : quantity, optional
        Time by which all work must be done, rounded up to slots; for systems without a cloud. By
        default, it is long enough for the optimum, and may be very long. With a shorter horizon,
        the programme is solved faster, but the result is not a lower bound if the horizon excludes
        the optimum.
    time_limit : quantity, optional
        Time after which the solver is stopped.

    Returns
    -------
    LPBound

    Raises
    ------
    MissingExtraError
        If SciPy is not installed (extra ``ilp``).
    InputError
        If jobs cannot be trained at all or within the horizon, or an argument is invalid.
    NetsimError
        If the time limit is reached, or the solver fails.

    Examples
    --------
    Two jobs on one worker, whose data takes one slot to upload; the shorter job goes first.

    >>> jobs = [EdgeJob(id=k, compute_s=seconds, upload_s="1s")
    ...         for k, seconds in enumerate([2, 4])]
    >>> bound = lp_bound(EdgeCloud([[0]], cloud=False), jobs, slot="1s")
    >>> round(bound.lp_s, 6), round(bound.jct_s, 6)
    (6.0, 9.0)
    """
    workload = jobs if isinstance(jobs, EdgeWorkload) else EdgeWorkload(tuple(jobs))
    slot_s = parse_seconds(slot, "slot", strict=True)
    limit_s = None if time_limit is None else parse_seconds(time_limit, "time_limit", strict=True)
    workload.check_on(system)
    last = None if horizon is None else math.ceil(
        parse_seconds(horizon, "horizon", strict=True) / slot_s)
    # Jobs of different worker types do not compete, so each type is a programme of its own.
    works: dict[Kind, list[Work]] = {}
    for job in workload:
        works.setdefault(job.worker_type, []).append(_work(job, system, slot_s))
    half_s = math.fsum(job.p1_s for job in workload) / 2
    until = None if limit_s is None else time.monotonic() + limit_s
    lp = [least_cost(of_type, last, until) for of_type in works.values()]
    return LPBound(math.fsum(lp) * slot_s, half_s)


def _work(job: EdgeJob, system: EdgeCloud, slot_s: float) -> Work:
    """Convert a job to units of slots; places are the servers of its worker type, and the cloud."""
    servers, workers = np.unique(system.server_of[system.of_type(job.worker_type)],
                                 return_counts=True)
    delays = job.delays(system.servers)
    places = [Place(server, count, (job.arrival_s + float(delays[server])) / slot_s)
              for server, count in zip(servers.tolist(), workers.tolist(), strict=True)]
    if system.cloud:
        places.append(Place(CLOUD, 0, (job.arrival_s + job.cloud_upload_s) / slot_s))
    return Work(job.arrival_s / slot_s, job.chunks, job.p1_s / slot_s, tuple(places))
