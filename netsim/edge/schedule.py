"""The results of a run on an edge-cloud, as arrays; the storage of its servers, and its queues.

A run may be stopped before its end. Times of later events are then NaN, and intervals that have not
ended end at infinity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.brief import brief
from netsim.base.units import format_bytes
from netsim.base.values import same
from netsim.edge import kernels
from netsim.edge.setting import CLOUD, EdgeSetting, with_room
from netsim.ties import ROUNDING


@dataclass(frozen=True, eq=False)
class Training:
    """The maximal intervals in which a chunk, or a worker of a gang, trained without a break."""

    job: Ints
    chunk: Ints  #: number of the chunk in its job, or -1 for the worker of a gang
    worker: Ints  #: the edge worker, or `CLOUD`
    start: Floats  #: in seconds
    end: Floats


@dataclass(frozen=True, eq=False)
class Chunks:
    """Results per chunk that was dispatched, numbered over all jobs; arrays of shape (chunks,)."""

    worker: Ints  #: the edge worker, or `CLOUD`
    ready: Floats  #: when the chunk's data arrived, in seconds
    start: Floats
    finish: Floats
    preemptions: Ints  #: number of times that the chunk was displaced while it trained
    alpha: Floats  #: Q of A_online when the worker was selected
    t_star: Floats  #: the start that was planned then


@dataclass(frozen=True, eq=False)
class Holdings:
    """The time for which a whole job held each worker; NaN for events that had not happened."""

    job: Ints
    worker: Ints  #: `CLOUD` appears once, for all chunks there
    got: Floats  #: when the job got the worker, in seconds
    there: Floats  #: when its data was there
    run: Floats  #: when its training began
    stop: Floats
    free: Floats  #: when it gave the worker back
    reason: NDArray[np.object_]  #: ``"finish"``, ``"preempt"``, or None while it holds the worker


@dataclass(frozen=True, eq=False)
class PSAssignments:
    """The PS that each job used in each maximal interval of training, in order of (start, job)."""

    job: Ints
    start: Floats
    end: Floats
    server: Ints  #: this and `ps` are `CLOUD` for a PS in the cloud
    ps: Ints  #: number of the PS on its server
    #: How often a job got a PS in the cloud because no suitable one at the edge was free.
    shortages: int


class ChunkPlacement(NamedTuple):
    """The placement of a job's chunks.

    Attributes
    ----------
    worker : ndarray of int, shape (chunks,)
        The edge worker of each chunk, or `CLOUD`; in order of dispatch.
    alpha : ndarray of float, shape (chunks,)
        Q of A_online when the worker was selected, which is its dual variable; seconds.
    t_star : ndarray of float, shape (chunks,)
        The planned start, in seconds.
    """

    worker: Ints
    alpha: Floats
    t_star: Floats


class TransportLog(NamedTuple):
    """The events of a run, as a transport logs them; intervals are in no particular order."""

    chunk: Ints  #: the chunk of each maximal interval of training
    start: Floats
    end: Floats
    ready: Floats  #: when each chunk's data arrived; this and all below are by chunk
    finish: Floats
    preemptions: Ints
    held: PSAssignments | None = None  #: None if the transport does not depend on PSs
    #: Seconds in which chunks that have finished trained, but did not compute; None if these are
    #: the times that jobs declare.
    exchange: Floats | None = None
    #: Bytes that chunks have sent in rings; None if rings have all chunks of a job.
    ring_bytes: Floats | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> TransportLog:
        return same(self, memo)


@dataclass(frozen=True, eq=False)
class Schedule:
    """The results of a run, up to an instant; arrays of shape (jobs,).

    Attributes
    ----------
    start, finish : ndarray of float
        When the first chunk of a job began to train, and when the last one ended; seconds.
    cloud_chunks : ndarray of int
        Number of chunks trained in the cloud.
    preemptions : ndarray of int
        Number of preemptions of the job's chunks, or of the job if it is a gang.
    communication : ndarray of float
        Seconds of the uploads of all chunks, and of their exchanges of gradients, which do not
        occur if all chunks are in the cloud.
    training : Training
    chunks : Chunks or None
        Results per chunk; None if whole jobs are scheduled.
    holdings : Holdings or None
        The workers that jobs held; None if chunks are scheduled.
    held : PSAssignments or None
        The PSs that jobs used; None if `assign_ps` can draw them afterwards.
    most_bytes : ndarray of float, shape (servers,), or None
        The most bytes that each server stored. None if unknown, or if they follow from `chunks`.
    ring_bytes : ndarray of float or None
        Bytes that chunks that have finished sent in exchanges, for jobs with rings; None if these
        had all chunks of the job.
    counts : mapping
        Further counts of the scheduler, for the summary.
    accounts : mapping of str to ndarray, shape (jobs,)
        Columns of the table of jobs: the worker-seconds that whole jobs held, and how long they
        waited.
    """

    start: Floats
    finish: Floats
    cloud_chunks: Ints
    preemptions: Ints
    communication: Floats
    training: Training
    chunks: Chunks | None = None
    holdings: Holdings | None = None
    held: PSAssignments | None = None
    most_bytes: Floats | None = None
    ring_bytes: Floats | None = None
    counts: Mapping[str, float] = field(default_factory=dict)
    accounts: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    __repr__ = brief


def of_chunks(setting: EdgeSetting, given: ChunkPlacement, log: TransportLog, jobs: int,
              until: float) -> Schedule:
    """Make the results of a run up to `until`, when the first `jobs` jobs have been dispatched.

    `given` is the placement of all chunks of these jobs, numbered consecutively. Later events in
    the log are ignored.
    """
    count = int(setting.first[jobs])
    chunks, bounds = setting.chunks[:jobs], setting.first[:jobs]
    job_of = setting.job_of[:count]
    training = _training(setting, given, log, until)
    ready, finish = so_far(log.ready[:count], until), so_far(log.finish[:count], until)
    number = setting.first[training.job] + training.chunk
    start = np.full(count, np.nan)
    np.fmin.at(start, number, training.start)
    ended = np.bincount(number[training.end <= until], minlength=count)
    preemptions = np.where(np.isnan(finish), ended, log.preemptions[:count])
    cloud = np.add.reduceat((given.worker == CLOUD).astype(np.int64), bounds)
    arrival = setting.arrival[job_of]
    delay = np.add.reduceat(np.nan_to_num(ready - arrival), bounds)
    if log.exchange is None:
        exchange = setting.exchange[:jobs] * np.add.reduceat(
            np.isfinite(finish).astype(np.int64), bounds)
    else:
        exchange = _of_finished(log.exchange, finish, bounds)
    sent = None if log.ring_bytes is None else _of_finished(log.ring_bytes, finish, bounds)
    later = len(setting.jobs) - jobs
    return Schedule(
        start=_and(np.fmin.reduceat(start, bounds), later, np.nan),
        finish=_and(np.maximum.reduceat(finish, bounds), later, np.nan),
        cloud_chunks=_and(cloud, later, 0),
        preemptions=_and(np.add.reduceat(preemptions, bounds), later, 0),
        communication=_and(delay + np.where(cloud == chunks, 0.0, exchange), later, 0.0),
        training=training,
        chunks=Chunks(given.worker, ready, start, finish, preemptions, given.alpha,
                      given.t_star), held=log.held,
        ring_bytes=None if sent is None else _and(sent, later, 0.0),
        counts={"alpha_total_s": float(given.alpha.sum()),
                "beta_integral_s": float(np.nan_to_num(
                    (finish - arrival) / setting.chunks[job_of]).sum())})


def _of_finished(values: Floats, finish: Floats, bounds: Ints) -> Floats:
    """Sum values of chunks over each job; chunks that have not finished do not count."""
    return np.add.reduceat(np.where(np.isnan(finish), 0.0, values[:len(finish)]), bounds)


def so_far(instants: Floats, until: float) -> Floats:
    """Replace times later than `until` by NaN."""
    return np.where(instants <= until, instants, np.nan)


def begun_by(training: Training, until: float) -> Training:
    """Select the intervals that begin by an instant; unfinished ones end at infinity."""
    begun = training.start <= until
    end = training.end[begun]
    return Training(training.job[begun], training.chunk[begun], training.worker[begun],
                    training.start[begun], np.where(end <= until, end, np.inf))


def _training(setting: EdgeSetting, given: ChunkPlacement, log: TransportLog, until: float
              ) -> Training:
    """Make the table of intervals of training, in order of (chunk, start)."""
    order = np.lexsort((log.start, log.chunk))
    chunk = log.chunk[order]
    job = setting.job_of[chunk]
    return begun_by(Training(job, chunk - setting.first[job], given.worker[chunk], log.start[order],
                             log.end[order]), until)


def _and(values: NDArray[Any], more: int, value: float) -> NDArray[Any]:
    """Append `more` entries of one value to an array."""
    return np.concatenate((values, np.full(more, value, values.dtype)))


# --- storage -------------------------------------------------------------------------------

_LISTED = 6  # most names in a message


class Storage:
    """The storage of edge servers, which chunks occupy until their job ends."""

    def __init__(self, setting: EdgeSetting) -> None:
        self._setting = setting
        self._capacity = setting.system.capacity
        self.limited = bool(np.isfinite(self._capacity).any())
        self._held: dict[int, Ints] = {}  # by job: its chunks on each server
        self._sums = np.zeros((2, setting.system.servers))  # bytes on each, and rounding errors

    @property
    def used(self) -> Floats:
        """The bytes stored on each server."""
        return self._sums[0] + self._sums[1]

    def limits(self, job: int) -> bool:
        """Whether the chunks of a job need room, and some server has limited storage."""
        return self.limited and self._setting.jobs[job].chunk_bytes > 0

    def held(self, job: int) -> Ints:
        """The number of chunks of a job that each server stores."""
        held = self._held.get(job)
        return np.zeros(len(self._capacity), np.int64) if held is None else held

    def room(self, job: int, taken: Floats | float = 0.0) -> Ints:
        """The number of chunks of a job that each server can hold, at most all of them.

        Those stored already count. `taken` is the number of bytes, by server, that are promised to
        other jobs but not stored yet.
        """
        most = int(self._setting.chunks[job])
        if not self.limits(job):
            return np.full(len(self._capacity), most)
        free = self._capacity * (1 + ROUNDING) - self.used - taken
        more = np.floor(np.maximum(free, 0.0) / self._setting.jobs[job].chunk_bytes)
        return np.minimum(more + self.held(job), most).astype(np.int64)

    def take(self, job: int, chunks: Ints) -> None:
        """Store at least these numbers of chunks of a job, by server."""
        before = self.held(job)
        self._held[job] = np.maximum(before, chunks)
        self._add(job, self._held[job] - before)

    def free(self, job: int) -> None:
        """Delete the chunks of a job that has ended."""
        if job in self._held:
            self._add(job, -self._held.pop(job))

    def release(self, now: float, ended: Callable[[int], float]) -> None:
        """Free the storage of jobs that have ended; `ended(job)` is the end in seconds, or inf."""
        for job in [job for job in self._held if ended(job) <= now * (1 + ROUNDING)]:
            self.free(job)

    def _add(self, job: int, chunks: Ints) -> None:
        more = chunks * self._setting.jobs[job].chunk_bytes
        # The rounding of each sum is kept, so that jobs that have ended leave none behind.
        bytes_, lost = self._sums
        total = bytes_ + more
        added = total - bytes_
        self._sums = np.stack((total, lost + ((bytes_ - (total - added)) + (more - added))))


def peaks(setting: EdgeSetting, schedule: Schedule) -> Floats:
    """Compute the most bytes that each server stored; NaN if this is unknown, for whole jobs."""
    servers = setting.system.servers
    if schedule.most_bytes is not None:
        return schedule.most_bytes
    if schedule.chunks is None:
        return np.full(servers, np.nan)
    worker = schedule.chunks.worker
    edge = worker != CLOUD
    server, job = setting.system.server_of[worker[edge]], setting.job_of[:len(worker)][edge]
    size = np.array([each.chunk_bytes for each in setting.jobs])[job]
    # Storage that is released at an instant is available to jobs that arrive then.
    finish = np.where(np.isnan(schedule.finish), np.inf, schedule.finish)
    at = np.concatenate([finish[job] * (1 - ROUNDING), setting.arrival[job]])
    change = np.concatenate([-size, size])
    where = np.tile(server, 2)
    order = np.lexsort((change, at, where))
    held = np.cumsum(change[order])
    most = np.zeros(servers)
    np.maximum.at(most, where[order], held)
    return most


def why_only_cloud(setting: EdgeSetting) -> str:
    """Explain why no job can train at the edge under any scheduler; "" if some job can."""
    system, chunk = setting.system, np.array([job.chunk_bytes for job in setting.jobs])
    room = np.array([system.capacity[system.server_of[workers]].max(initial=-1.0)
                     for workers in setting.workers_of])
    without = room < 0
    full = ~without & (room * (1 + ROUNDING) < chunk)
    if not (without | full).all():
        return ""
    reasons = []
    if without.any():
        needed = dict.fromkeys(repr(setting.jobs[job].worker_type)
                               for job in np.flatnonzero(without).tolist())
        reasons.append(f"no worker of the edge has a type that {_jobs(without)} need, "
                       f"{_some(needed)}; the edge has {_some(map(repr, system.types)) or 'none'}")
    if full.any():
        reasons.append(f"no server can store a chunk of {_jobs(full)}: the smallest chunk has "
                       f"{format_bytes(chunk[full].min())}, the largest storage "
                       f"{format_bytes(room[full].max())}")
    return "; and ".join(reasons)


def _jobs(which: Bools) -> str:
    """Describe for a message how many jobs are meant."""
    return "the jobs" if which.all() else f"{np.count_nonzero(which):,} of {len(which):,} jobs"


def _some(names: Iterable[str]) -> str:
    """List names for a message, at most the first few."""
    listed = list(names)
    return ", ".join(listed[:_LISTED]) + (", ..." if len(listed) > _LISTED else "")


# --- queues --------------------------------------------------------------------------------
class Queues:
    """The chunks that have been dispatched to each edge worker and have not finished.

    Times are the estimates that schedulers use; with constant delays and rates, they are exact. A
    transport keeps them up to date.
    """

    def __init__(self, setting: EdgeSetting) -> None:
        workers = setting.system.total
        #: The chunks of each worker in the order of HAPRF: by `weight`, then in order of dispatch.
        #: Entries beyond `count` are unused.
        self.queue: Ints = np.zeros((workers, 16), np.int64)
        self.count: Ints = np.zeros(workers, np.int64)
        #: The instant up to which each worker has been simulated, in seconds.
        self.clock: Floats = np.zeros(workers)
        #: Seconds of training that each chunk has left, and the instant at which its data arrives.
        self.left: Floats = np.zeros(setting.total)
        self.ready: Floats = np.full(setting.total, np.inf)
        self._weigh(setting)

    def _weigh(self, setting: EdgeSetting) -> None:
        #: D p0 and 1 / D of each chunk's job; see `EdgeJob`.
        self.weight: Floats = np.repeat(setting.weight_s, setting.chunks)
        self.share: Floats = np.repeat(1 / setting.chunks, setting.chunks)

    def make_room(self, setting: EdgeSetting, place: int) -> None:
        """Make room for the chunks of a job that has been inserted in the setting."""
        self.left = with_room(self.left, setting.chunks_of(place), 0.0)
        self.ready = with_room(self.ready, setting.chunks_of(place), np.inf)
        self._weigh(setting)

    def insert(self, chunks: Ints, workers: Ints, ready: Floats, left: float) -> None:
        """Add chunks, in order of dispatch, to the queues of their workers."""
        if not len(chunks):
            return
        self.left[chunks], self.ready[chunks] = left, ready
        longest = int((self.count + np.bincount(workers, minlength=len(self.count))).max())
        if longest > self.queue.shape[1]:
            wider = np.zeros((len(self.queue), 2 * longest), np.int64)
            wider[:, :self.queue.shape[1]] = self.queue
            self.queue = wider
        kernels.insert(chunks, workers, self.queue, self.count, self.weight)

    def remove(self, chunk: int, worker: int) -> None:
        """Remove a chunk from the queue of its worker."""
        row, count = self.queue[worker], int(self.count[worker])
        place = int(np.flatnonzero(row[:count] == chunk)[0])
        row[place:count - 1] = row[place + 1:count].copy()
        self.count[worker] -= 1
