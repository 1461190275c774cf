"""What came of a run on an edge-cloud, as arrays."""

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
    """The longest intervals in which a chunk, or a worker of a gang, trained without a break.

    Attributes
    ----------
    job, chunk, worker : ndarray of int, shape (intervals,)
        Jobs by place; chunks of each from 0, or -1 of a gang; worker `CLOUD` in the cloud.
    start, end : ndarray of float, shape (intervals,)
        Seconds.
    """

    job: Ints
    chunk: Ints
    worker: Ints
    start: Floats
    end: Floats


@dataclass(frozen=True, eq=False)
class Chunks:
    """What happened to each chunk, all jobs' numbered through; arrays of shape (chunks,).

    Attributes
    ----------
    worker : ndarray of int
        `CLOUD`, or an edge worker.
    ready, start, finish : ndarray of float
        When its data was there, when its training began, and when that ended.
    preemptions : ndarray of int
    alpha, t_star : ndarray of float
        Q at selection, and the start that was planned then.
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
    """Which PS each job has had, and when.

    Attributes
    ----------
    job : ndarray of int, shape (spans,)
    start, end : ndarray of float, shape (spans,)
        The longest intervals in which a job trained without a break, in order of (start, job).
    server, ps : ndarray of int, shape (spans,)
        The server, and the number of the PS there; `CLOUD` both in the cloud.
    shortages : int
        How often no PS of the edge was free that the job could use, and the cloud helped out.
    """

    job: Ints
    start: Floats
    end: Floats
    server: Ints
    ps: Ints
    shortages: int


class ChunkPlacement(NamedTuple):
    """Where the chunks of a job go.

    Attributes
    ----------
    worker : ndarray of int, shape (chunks,)
        An edge worker each, or `CLOUD`; in order of dispatch.
    alpha : ndarray of float, shape (chunks,)
        Q at selection, in seconds: the dual variable.
    t_star : ndarray of float, shape (chunks,)
        The instant at which it is planned to start.
    """

    worker: Ints
    alpha: Floats
    t_star: Floats


class TransportLog(NamedTuple):
    """What has happened by the end.

    Attributes
    ----------
    chunk : ndarray of int, shape (intervals,)
        Who trained, in each longest interval of a chunk's training, in no order.
    start, end : ndarray of float, shape (intervals,)
    ready, finish : ndarray of float, shape (chunks,)
        When a chunk's data was there, and its training ended.
    preemptions : ndarray of int, shape (chunks,)
        How often others displaced it after it had trained.
    held : PSAssignments, optional
        Which PSs jobs had, where that matters to the transport.
    exchange : ndarray of float, shape (chunks,), optional
        Seconds of training that were not computation, where they are not what jobs say.
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
    """What came of a run; arrays of shape (jobs,).

    Attributes
    ----------
    start, finish : ndarray of float
        When the first chunk of a job began to train, and the last one ended.
    cloud_chunks : ndarray of int
        How many were trained in the cloud.
    preemptions : ndarray of int
        Of its chunks; of a gang, of the job.
    communication : ndarray of float
        Seconds: uploads of all chunks and, unless all were in the cloud, their exchanges.
    training : Training
    chunks : Chunks or None
        None where whole jobs are scheduled.
    held : PSAssignments or None
        Which PSs jobs had, where that is not to be drawn yet.
    counts : mapping
        What else a scheduler has counted, for the summary.
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
    """Return the schedule of chunks that were dispatched, all jobs' numbered through."""
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
