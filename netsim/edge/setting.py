"""The jobs and the edge-cloud of a run, as arrays."""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.brief import brief
from netsim.base.values import as_number, as_whole, convert
from netsim.edge.edge_cloud import EdgeCloud, EdgeJob, Kind
from netsim.errors import InputError
from netsim.ties import merge_equal

#: The number of the worker, or of the server, that stands for the cloud.
CLOUD = -1


@dataclass(eq=False)
class EdgeSetting:
    """Jobs on an edge-cloud, as arrays that are indexed by the position of a job in `jobs`.

    Arrays are never changed in place, so copies can share them. Submitting a job during a run
    replaces them; see `insert`.

    Parameters
    ----------
    system : EdgeCloud
    jobs : sequence of EdgeJob
        Jobs in order of (arrival, id).
    seed : int
        Seed of the run.
    epsilon : float
        Speed augmentation, at least 0: training takes 1 / (1 + epsilon) of the jobs' times.

    Attributes
    ----------
    arrival : ndarray of float, shape (jobs,)
        Arrival times, in seconds.
    chunks, first : ndarray of int, shapes (jobs,), (jobs + 1,)
        Number of chunks of each job, and the number of its first chunk. The chunks of all jobs are
        numbered consecutively.
    job_of : ndarray of int, shape (chunks of all jobs,)
        The job of each chunk.
    p0, p1 : ndarray of float, shape (jobs,)
        Training time of a chunk with zeta = 0 and with zeta = 1, at the augmented speed; seconds.
    exchange : ndarray of float, shape (jobs,)
        E B x, the part of p0 in which the chunk exchanges gradients.
    ring : ndarray of bool, shape (jobs,)
        Whether the job exchanges by a ring all-reduce, and so uses no PS.
    weight_s : ndarray of float, shape (jobs,)
        D p0 without speed augmentation, by which HAPRF orders jobs. Weights of jobs of one type
        that differ by rounding only are made equal; see `netsim.ties.merge_equal`.
    delays : ndarray of float, shape (jobs, servers)
        Upload delays to the servers, in seconds.
    cloud_delay : ndarray of float, shape (jobs,)
        Upload delays to the cloud, in seconds.
    workers_of : list of ndarray of int
        The edge workers of each job's type, in order.

    Raises
    ------
    InputError
        If a job has upload delays for another number of servers, or epsilon is negative.
    """

    system: EdgeCloud
    jobs: Sequence[EdgeJob]
    seed: int = 0
    epsilon: float = 0.0
    arrival: Floats = field(init=False)
    chunks: Ints = field(init=False)
    first: Ints = field(init=False)
    job_of: Ints = field(init=False)
    p0: Floats = field(init=False)
    p1: Floats = field(init=False)
    exchange: Floats = field(init=False)
    ring: Bools = field(init=False)
    weight_s: Floats = field(init=False)
    delays: Floats = field(init=False)
    cloud_delay: Floats = field(init=False)
    workers_of: Sequence[Ints] = field(init=False)

    __repr__ = brief

    def __post_init__(self) -> None:
        convert(self, seed=as_whole, epsilon=partial(as_number, least=0))
        self._fill()

    def _fill(self) -> None:
        """Make the arrays."""
        jobs, system, speed = self.jobs, self.system, 1 + self.epsilon
        chunks = np.array([job.chunks for job in jobs], np.int64)
        workers = {kind: system.of_type(kind) for kind in {job.worker_type: None for job in jobs}}
        self.arrival = np.array([job.arrival_s for job in jobs])
        self.chunks, self.first = chunks, np.concatenate(([0], np.cumsum(chunks)))
        self.job_of = np.repeat(np.arange(len(jobs)), chunks)
        self.p0 = np.array([job.p0_s for job in jobs]) / speed
        self.p1 = np.array([job.p1_s for job in jobs]) / speed
        self.exchange = np.array([job.batches * job.exchange_s for job in jobs]) / speed
        self.ring = np.array([job.exchange == "ring" for job in jobs], np.bool_)
        self.weight_s = _weights(jobs)
        self.delays = np.array([job.delays(system.servers) for job in jobs]
                               ).reshape(len(jobs), system.servers)
        self.cloud_delay = np.array([job.cloud_upload_s for job in jobs])
        self.workers_of = [workers[job.worker_type] for job in jobs]

    def place_of(self, job: EdgeJob) -> int:
        """Return the position of one more job among the others, in order of (arrival, id)."""
        return bisect_left(self.jobs, (job.arrival_s, job.id),
                           key=lambda each: (each.arrival_s, each.id))

    def insert(self, job: EdgeJob) -> int:
        """Insert a job; return its position."""
        place = self.place_of(job)
        self.jobs = (*self.jobs[:place], job, *self.jobs[place:])
        self._fill()
        return place

    def __deepcopy__(self, memo: dict[int, Any]) -> EdgeSetting:
        return copy.copy(self)

    def job(self, index: int) -> EdgeJob:
        """Return a job by its index."""
        return self.jobs[index]

    @property
    def total(self) -> int:
        """The number of chunks of all jobs."""
        return int(self.first[-1])

    def chunks_of(self, job: int) -> slice:
        """Return the numbers of the chunks of a job, as a slice."""
        return slice(int(self.first[job]), int(self.first[job + 1]))

    def check_workers(self) -> None:
        """Check that each job has workers of the edge that can train it.

        Raises
        ------
        InputError
            If no worker has the type that a job needs; it names the first such job.
        """
        for job, workers in zip(self.jobs, self.workers_of, strict=True):
            if not len(workers):
                raise InputError(f"job {job.id} needs workers of type {job.worker_type!r}; the "
                                 "types of the edge are: "
                                 + (", ".join(map(repr, self.system.types)) or "none"))

    def check_ps(self) -> None:
        """Check that all jobs exchange with a PS.

        Raises
        ------
        InputError
            If a job exchanges in a ring; it names the first such job.
        """
        for job in self.jobs:
            if job.exchange == "ring":
                raise InputError(f"job {job.id} has exchange 'ring', whose chunks go through "
                                 "mini-batches together; leave preemption out")

    def check_sites(self) -> None:
        """Check that the network has the site of each job's data.

        Raises
        ------
        InputError
            If a site does not exist; it names the first such job.
        """
        for job in self.jobs:
            try:
                self.system.site_host(job.site)
            except InputError as error:
                raise InputError(f"job {job.id}: site: {error}") from None

    def check_storage(self, cloud: bool) -> None:
        """Check that each job's chunks fit on the empty servers that have workers of its type.

        Parameters
        ----------
        cloud : bool
            Whether the cloud may be used.

        Raises
        ------
        InputError
            If the chunks of a job do not fit; the message names the first such job.
        """
        system = self.system
        if (cloud and system.cloud) or np.isinf(system.capacity).all():
            return
        for job, workers in zip(self.jobs, self.workers_of, strict=True):
            room = system.capacity[np.unique(system.server_of[workers])]
            if not len(room):
                continue  # which `check_workers` refuses
            if job.chunk_bytes > 0 and np.floor(room / job.chunk_bytes).sum() < job.chunks:
                raise InputError(
                    f"job {job.id} has {job.chunks} chunks of {job.chunk_bytes:g} bytes, and the "
                    f"servers with workers of type {job.worker_type!r} hold at most "
                    f"{room.max():g} each: storage is too small, and no cloud can be used")


def with_room(values: NDArray[Any], where: slice, value: float) -> NDArray[Any]:
    """Copy an array, with new entries of one value at a slice."""
    return np.insert(values, [where.start] * (where.stop - where.start), value)


def _weights(jobs: Sequence[EdgeJob]) -> Floats:
    """Compute D p0 of each job; weights that differ only by rounding errors are made equal."""
    weights = np.array([job.weight_s for job in jobs])
    by_type: dict[Kind, list[int]] = {}
    for place, job in enumerate(jobs):
        by_type.setdefault(job.worker_type, []).append(place)
    for places in by_type.values():  # jobs of different types are never compared
        weights[places] = merge_equal(weights[places])
    return weights
