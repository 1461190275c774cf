"""What is known when a run begins: jobs on an edge-cloud, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from netsim.brief import brief
from netsim.checks import LARGEST, check_whole, is_number
from netsim.edge.jobs import EdgeJob
from netsim.edge.system import EdgeCloud, Kind
from netsim.errors import InputError
from netsim.ties import merge_equal

__all__ = ["CLOUD", "EdgeSetting", "Floats", "Ints"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The worker, or the server, of what is in the cloud.
CLOUD = -1


@dataclass(frozen=True, eq=False)
class EdgeSetting:
    """Jobs on an edge-cloud. Jobs are places in `jobs`; so are rows of arrays.

    Parameters
    ----------
    system : EdgeCloud
    jobs : sequence of EdgeJob
        In order of (arrival, id).
    seed : int
    epsilon : float
        Speed augmentation: online, training takes 1 / (1 + epsilon) of its time, at least 0.

    Attributes
    ----------
    arrival : ndarray of float, shape (jobs,)
    chunks, first : ndarray of int, shapes (jobs,), (jobs + 1,)
        How many, and the number of the first one of each job, as they are numbered through.
    p0, p1 : ndarray of float, shape (jobs,)
        Seconds that a chunk trains, with zeta 0 and 1, at the speed augmented.
    exchange : ndarray of float, shape (jobs,)
        E B x, likewise: how many of those with zeta 0 it exchanges gradients.
    weight : ndarray of float, shape (jobs,)
        D p0 at the plain speed, that HAPRF goes by. Jobs of one type for which it is equal within
        rounding have the same number; see `netsim.ties.merge_equal`.
    delays : ndarray of float, shape (jobs, servers)
    cloud_delay : ndarray of float, shape (jobs,)
    workers_of : list of ndarray of int
        For each job the edge workers of its type, in order.

    Raises
    ------
    InputError
        If a job cannot be trained, or epsilon is negative.
    """

    system: EdgeCloud
    jobs: Sequence[EdgeJob]
    seed: int = 0
    epsilon: float = 0.0
    arrival: Floats = field(init=False)
    chunks: Ints = field(init=False)
    first: Ints = field(init=False)
    p0: Floats = field(init=False)
    p1: Floats = field(init=False)
    exchange: Floats = field(init=False)
    weight: Floats = field(init=False)
    delays: Floats = field(init=False)
    cloud_delay: Floats = field(init=False)
    workers_of: Sequence[Ints] = field(init=False)

    __repr__ = brief

    def __post_init__(self) -> None:
        check_whole(self.seed, "seed")
        if not (is_number(self.epsilon) and 0 <= self.epsilon <= LARGEST):
            raise InputError(f"epsilon must be a number of at least 0, not {self.epsilon!r}")
        jobs, system, speed = self.jobs, self.system, 1 + self.epsilon
        chunks = np.array([job.chunks for job in jobs], np.int64)
        workers = {kind: system.of_type(kind) for kind in {job.worker_type: None for job in jobs}}
        values = {
            "arrival": np.array([job.arrival_s for job in jobs]), "chunks": chunks,
            "first": np.concatenate(([0], np.cumsum(chunks))),
            "p0": np.array([job.p0_s for job in jobs]) / speed,
            "p1": np.array([job.p1_s for job in jobs]) / speed,
            "exchange": np.array([job.batches * job.exchange_s for job in jobs]) / speed,
            "weight": _weights(jobs),
            "delays": np.array([job.delays(system.servers) for job in jobs]
                               ).reshape(len(jobs), system.servers),
            "cloud_delay": np.array([job.cloud_upload_s for job in jobs]),
            "workers_of": [workers[job.worker_type] for job in jobs]}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def total(self) -> int:
        """The number of chunks of all jobs."""
        return int(self.first[-1])

    def check_workers(self) -> None:
        """Refuse jobs that no worker of the edge can train.

        Raises
        ------
        InputError
            Naming the first one.
        """
        for job, workers in zip(self.jobs, self.workers_of, strict=True):
            if not len(workers):
                raise InputError(f"job {job.id} needs workers of type {job.worker_type!r}; the "
                                 "types of the edge are: "
                                 + (", ".join(map(repr, self.system.types)) or "none"))

    def check_sites(self) -> None:
        """Refuse jobs whose data is at a site that the network does not have.

        Raises
        ------
        InputError
            Naming the first one.
        """
        for job in self.jobs:
            try:
                self.system.site_host(job.site)
            except InputError as error:
                raise InputError(f"job {job.id}: site: {error}") from None

    def check_storage(self, cloud: bool) -> None:
        """Refuse jobs that the servers of their type could not hold even if these were empty.

        Parameters
        ----------
        cloud : bool
            Whether the cloud may be used.

        Raises
        ------
        InputError
            Naming the first one.
        """
        system = self.system
        if (cloud and system.cloud) or np.isinf(system.capacity).all():
            return
        for job, workers in zip(self.jobs, self.workers_of, strict=True):
            room = system.capacity[np.unique(system.server_of[workers])]
            if job.chunk_bytes > 0 and np.floor(room / job.chunk_bytes).sum() < job.chunks:
                raise InputError(
                    f"job {job.id} has {job.chunks} chunks of {job.chunk_bytes:g} bytes, and the "
                    f"servers with workers of type {job.worker_type!r} hold at most "
                    f"{room.max():g} each: storage is too small, and no cloud can be used")


def _weights(jobs: Sequence[EdgeJob]) -> Floats:
    weights = np.array([job.weight_s for job in jobs])
    by_type: dict[Kind, list[int]] = {}
    for place, job in enumerate(jobs):
        by_type.setdefault(job.worker_type, []).append(place)
    for places in by_type.values():  # others do not meet
        weights[places] = merge_equal(weights[places])
    return weights
