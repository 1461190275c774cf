"""The results of a run on an edge-cloud, as arrays.

A run may be stopped before its end. Times of later events are then NaN, and intervals that have not
ended end at infinity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.brief import brief
from netsim.edge.setting import CLOUD, EdgeSetting, Floats, Ints
from netsim.forking import same


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
        The PSs that jobs used; None if `hold_servers` can draw them afterwards.
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
    job_of = np.repeat(np.arange(jobs), chunks)
    training = _training(given, log, until, job_of, setting.first)
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


def _training(given: ChunkPlacement, log: TransportLog, until: float, job_of: Ints, first: Ints
              ) -> Training:
    """Make the table of intervals of training, in order of (chunk, start)."""
    order = np.lexsort((log.start, log.chunk))
    chunk = log.chunk[order]
    job = job_of[chunk]
    return begun_by(Training(job, chunk - first[job], given.worker[chunk], log.start[order],
                             log.end[order]), until)


def _and(values: NDArray[Any], more: int, value: float) -> NDArray[Any]:
    """Append `more` entries of one value to an array."""
    return np.concatenate((values, np.full(more, value, values.dtype)))
