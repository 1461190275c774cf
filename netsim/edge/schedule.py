"""The results of a run on an edge-cloud, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from netsim.brief import brief
from netsim.edge.setting import CLOUD, EdgeSetting, Floats, Ints

__all__ = ["ChunkPlacement", "Chunks", "PSAssignments", "Schedule", "Training", "TransportLog",
           "of_chunks"]


@dataclass(frozen=True, eq=False)
class Training:
    """The maximal intervals in which a chunk, or a worker of a gang, trained without a break.

    Attributes
    ----------
    job, chunk, worker : ndarray of int, shape (intervals,)
        Index of the job; number of the chunk in its job, or -1 for a gang; and the worker, or
        `CLOUD`.
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
    """Results per chunk, numbered consecutively over all jobs; arrays of shape (chunks,).

    Attributes
    ----------
    worker : ndarray of int
        The edge worker, or `CLOUD`.
    ready, start, finish : ndarray of float
        When the chunk's data arrived, when its training began, and when it ended; seconds.
    preemptions : ndarray of int
        Number of times that the chunk was displaced while it trained.
    alpha, t_star : ndarray of float
        Q when the worker was selected, and the start planned then; seconds.
    """

    worker: Ints
    ready: Floats
    start: Floats
    finish: Floats
    preemptions: Ints
    alpha: Floats
    t_star: Floats


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
        Number of times that the job got a PS in the cloud because no suitable one at the edge was
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
        Q when the worker was selected, which is the dual variable; seconds.
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
        Seconds of training that were not computation; None if they are those of the jobs.
    """

    chunk: Ints
    start: Floats
    end: Floats
    ready: Floats
    finish: Floats
    preemptions: Ints
    held: PSAssignments | None = None
    exchange: Floats | None = None


@dataclass(frozen=True, eq=False)
class Schedule:
    """The results of a run; arrays of shape (jobs,).

    Attributes
    ----------
    start, finish : ndarray of float
        When the first chunk of a job began to train, and when the last one ended; seconds.
    cloud_chunks : ndarray of int
        Number of chunks trained in the cloud.
    preemptions : ndarray of int
        Number of preemptions of the job's chunks, or of the job if it is a gang.
    communication : ndarray of float
        Seconds of uploads of all chunks and, unless all were in the cloud, of their exchanges.
    training : Training
    chunks : Chunks or None
        Results per chunk; None if whole jobs are scheduled.
    held : PSAssignments or None
        The PSs that jobs used; None if they can be drawn afterwards, see `hold_servers`.
    counts : mapping
        Further counts of the scheduler, for the summary.
    """

    start: Floats
    finish: Floats
    cloud_chunks: Ints
    preemptions: Ints
    communication: Floats
    training: Training
    chunks: Chunks | None = None
    held: PSAssignments | None = None
    counts: Mapping[str, float] = field(default_factory=dict)

    __repr__ = brief


def of_chunks(setting: EdgeSetting, given: ChunkPlacement, log: TransportLog) -> Schedule:
    """Make the results of a run of placed chunks, numbered consecutively over all jobs."""
    job_of = np.repeat(np.arange(len(setting.jobs)), setting.chunks)
    bounds = setting.first[:-1]
    start = np.full(setting.total, np.inf)
    np.minimum.at(start, log.chunk, log.start)
    cloud = np.add.reduceat((given.worker == CLOUD).astype(np.int64), bounds)
    order = np.lexsort((log.start, log.chunk))
    chunk = log.chunk[order]
    job = job_of[chunk]
    delay = log.ready - setting.arrival[job_of]
    exchange = (setting.exchange * setting.chunks if log.exchange is None
                else np.add.reduceat(log.exchange, bounds))
    arrival = setting.arrival[job_of]
    return Schedule(
        start=np.minimum.reduceat(start, bounds), finish=np.maximum.reduceat(log.finish, bounds),
        cloud_chunks=cloud, preemptions=np.add.reduceat(log.preemptions, bounds),
        communication=np.add.reduceat(delay, bounds) + np.where(
            cloud == setting.chunks, 0.0, exchange),
        training=Training(job, chunk - setting.first[job], given.worker[chunk],
                          log.start[order], log.end[order]),
        chunks=Chunks(given.worker, log.ready, start, log.finish, log.preemptions, given.alpha,
                      given.t_star), held=log.held,
        counts={"alpha_total_s": float(given.alpha.sum()),
                "beta_integral_s": float(((log.finish - arrival) / setting.chunks[job_of]).sum())})
