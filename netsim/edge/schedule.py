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

__all__ = ["ChunkPlacement", "Chunks", "Holdings", "PSAssignments", "Schedule", "Training",
           "TransportLog", "begun_by", "of_chunks", "so_far"]


@dataclass(frozen=True, eq=False)
class Training:
    """The maximal intervals in which a chunk, or a worker of a gang, trained without a break.

    Attributes
    ----------
    job, chunk, worker : ndarray of int, shape (intervals,)
        Index of the job; number of the chunk in its job, or -1 for the worker of a gang; and the
        worker, or `CLOUD`.
    start, end : ndarray of float, shape (intervals,)
        Bounds of the interval, in seconds.
    """

    job: Ints
    chunk: Ints
    worker: Ints
    start: Floats
    end: Floats


@dataclass(frozen=True, eq=False)
class Chunks:
    """Results per chunk that was dispatched, numbered over all jobs; arrays of shape (chunks,).

    Attributes
    ----------
    worker : ndarray of int
        The edge worker, or `CLOUD`.
    ready, start, finish : ndarray of float
        When the chunk's data arrived, when its training began, and when it ended; seconds.
    preemptions : ndarray of int
        Number of times that the chunk was displaced while it trained.
    alpha, t_star : ndarray of float
        Q of A_online when the worker was selected, and the start that was planned then; seconds.
    """

    worker: Ints
    ready: Floats
    start: Floats
    finish: Floats
    preemptions: Ints
    alpha: Floats
    t_star: Floats


@dataclass(frozen=True, eq=False)
class Holdings:
    """The time for which a whole job held each worker; arrays of shape (all holdings,).

    Attributes
    ----------
    job, worker : ndarray of int
        Index of the job, and the worker. `CLOUD` appears once, for all chunks there.
    got, there, run, stop, free : ndarray of float
        When the job got the worker, when its data was there, when its training began and ended, and
        when it gave the worker back; in seconds, NaN for events that had not happened.
    reason : ndarray of object
        ``"finish"``, ``"preempt"``, or None while it holds the worker.
    """

    job: Ints
    worker: Ints
    got: Floats
    there: Floats
    run: Floats
    stop: Floats
    free: Floats
    reason: NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class PSAssignments:
    """The PS that each job used in each interval of training.

    Attributes
    ----------
    job : ndarray of int, shape (spans,)
        Index of the job.
    start, end : ndarray of float, shape (spans,)
        The maximal intervals in which a job trained without a break, in order of (start, job).
    server, ps : ndarray of int, shape (spans,)
        The server, and the number of the PS on it; both are `CLOUD` for a PS in the cloud.
    shortages : int
        Number of times that a job got a PS in the cloud because no suitable PS at the edge was
        free.
    """

    job: Ints
    start: Floats
    end: Floats
    server: Ints
    ps: Ints
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
    """The events of a run, as a transport logs them.

    Attributes
    ----------
    chunk : ndarray of int, shape (intervals,)
        The chunk that trained in each maximal interval of training; in no particular order.
    start, end : ndarray of float, shape (intervals,)
        Bounds of the interval, in seconds.
    ready, finish : ndarray of float, shape (chunks,)
        When a chunk's data arrived, and when its training ended; seconds.
    preemptions : ndarray of int, shape (chunks,)
        Number of times that a chunk was displaced while it trained.
    held : PSAssignments, optional
        The PSs that jobs used, if the transport depends on them.
    exchange : ndarray of float, shape (chunks,), optional
        Seconds in which chunks that have finished trained, but did not compute; None if these are
        the times that jobs declare.
    ring_bytes : ndarray of float, shape (chunks,), optional
        Bytes that chunks have sent in exchanges over rings; None if rings have all chunks of a job.
    """

    chunk: Ints
    start: Floats
    end: Floats
    ready: Floats
    finish: Floats
    preemptions: Ints
    held: PSAssignments | None = None
    exchange: Floats | None = None
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
    """Make the results of a run, up to an instant at which the first jobs have been dispatched.

    Parameters
    ----------
    setting : EdgeSetting
    given : ChunkPlacement
        Where the chunks of the dispatched jobs went; chunks are numbered consecutively.
    log : TransportLog
    jobs : int
        The number of jobs that have been dispatched.
    until : float
        The instant, in seconds. Later events in the log are ignored.
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
    """Return times, with NaN for those later than `until`."""
    return np.where(instants <= until, instants, np.nan)


def begun_by(training: Training, until: float) -> Training:
    """Return the intervals that begin by an instant; unfinished ones end at infinity."""
    begun = training.start <= until
    end = training.end[begun]
    return Training(training.job[begun], training.chunk[begun], training.worker[begun],
                    training.start[begun], np.where(end <= until, end, np.inf))


def _training(given: ChunkPlacement, log: TransportLog, until: float, job_of: Ints, first: Ints
              ) -> Training:
    """Return the intervals of training, in order of (chunk, start)."""
    order = np.lexsort((log.start, log.chunk))
    chunk = log.chunk[order]
    job = job_of[chunk]
    return begun_by(Training(job, chunk - first[job], given.worker[chunk], log.start[order],
                             log.end[order]), until)


def _and(values: NDArray[Any], more: int, value: float) -> NDArray[Any]:
    """Return an array with more entries of one value."""
    return np.concatenate((values, np.full(more, value, values.dtype)))
