"""Jobs of an edge-cloud: chunks of data, on each of which one worker trains."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from netsim.brief import brief
from netsim.checks import MOST_ID, check_name, check_sequence, check_whole, is_whole, refuse_twice
from netsim.edge.system import MOST, EdgeCloud, Kind
from netsim.errors import InputError
from netsim.plain import plain_numbers
from netsim.units import Quantity, parse_bytes, parse_rate, parse_seconds

__all__ = ["EdgeJob", "EdgeWorkload"]


@plain_numbers
@dataclass(frozen=True, kw_only=True, eq=False)
class EdgeJob:
    """One training job: D chunks of B mini-batches each, E epochs.

    The symbols are those of A_online's paper; its unit of time, the slot, is not used here.

    Attributes
    ----------
    id : int
        Unique in the workload; jobs that arrive together go by it.
    arrival_s : float
        r, in seconds; as other quantities also given as ``"2h"``.
    worker_type : str or int
        Of which type its workers must be.
    chunks, minibatches, epochs : int
        D, at most 10 million; B, of each chunk; E. Each at least 1.
    compute_s, update_s : float
        m and G: seconds that a worker computes on a mini-batch, and that the PS then updates
        parameters. Not both 0.
    gradient_bytes : float
        q: what a worker sends to the PS for each mini-batch, and gets back.
    bandwidth : float
        b, reserved between a worker and the PS, in bytes per second; greater than 0.
    upload_s : float or tuple of float
        Seconds until a chunk is at an edge server: Delta of all, or of each.
    cloud_upload_s : float
        The same of the cloud, Delta_c.
    chunk_bytes : float
        u, what a chunk takes of a server's storage, and what is uploaded.
    gang : int, optional
        k, how many workers schedulers of whole jobs give it; as many as chunks if not given.
    ps_type : str or int, optional
        Of which type PSs of the edge must be, if not just any.
    site : int
        Where its data lies: 0 is the first host behind those of the servers and the cloud; see
        `EdgeCloud.network`.
    name : str
        A label.

    Raises
    ------
    InputError
        If a value is not allowed.

    Examples
    --------
    >>> job = EdgeJob(id=0, chunks=4, minibatches=10, epochs=3, compute_s=0.5, update_s=0.1,
    ...               gradient_bytes="100MB", bandwidth="4Gbps", upload_s="1h", cloud_upload_s="9h")
    >>> job.exchange_s, job.p0_s, job.p1_s
    (0.4, 30.0, 18.0)
    """

    id: int
    arrival_s: float = 0.0
    worker_type: Kind = 0
    chunks: int = 1
    minibatches: int = 1
    epochs: int = 1
    compute_s: float
    update_s: float = 0.0
    gradient_bytes: float = 0.0
    bandwidth: float = 1.25e8
    upload_s: float | Sequence[Quantity] = 0.0
    cloud_upload_s: float = 0.0
    chunk_bytes: float = 0.0
    gang: int | None = None
    ps_type: Kind | None = None
    site: int = 0
    name: str = ""

    __repr__ = brief

    def __post_init__(self) -> None:
        owner = f"job {self.id}"
        check_whole(self.id, f"{owner}: id", most=MOST_ID)
        check_name(self.name, f"{owner}: name")
        for name, most in (("chunks", MOST), ("minibatches", MOST_ID), ("epochs", MOST_ID)):
            check_whole(getattr(self, name), f"{owner}: {name}", 1, most)
        if self.gang is not None:
            check_whole(self.gang, f"{owner}: gang", 1)
        check_whole(self.site, f"{owner}: site")
        for name in ("arrival_s", "compute_s", "update_s", "cloud_upload_s"):
            self._put(name, parse_seconds(getattr(self, name), f"{owner}: {name}"))
        for name in ("gradient_bytes", "chunk_bytes"):
            self._put(name, parse_bytes(getattr(self, name), f"{owner}: {name}"))
        self._put("bandwidth", parse_rate(self.bandwidth, f"{owner}: bandwidth", strict=True))
        self._put("upload_s", self._uploads(f"{owner}: upload_s"))
        if not self.compute_s + self.update_s > 0:
            raise InputError(f"{owner}: a mini-batch must take some time: compute_s and update_s "
                             "must not both be 0")
        self._check_types(owner)

    def _put(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _uploads(self, what: str) -> float | tuple[float, ...]:
        if isinstance(self.upload_s, str | int | float | np.number):
            return parse_seconds(self.upload_s, what)
        listed = check_sequence(self.upload_s, object, what, "durations, one per server")
        # As drawn for hundreds of servers: checked one by one below, they would take most of a run.
        if all(type(each) is float and 0 <= each < math.inf for each in listed):
            return listed
        return tuple(parse_seconds(each, f"{what} of server {server}")
                     for server, each in enumerate(listed))

    def _check_types(self, owner: str) -> None:
        for name in ("worker_type", "ps_type"):
            kind = getattr(self, name)
            if not (isinstance(kind, str) or is_whole(kind) or (kind is None and name[0] == "p")):
                raise InputError(f"{owner}: {name} must be a name or a number, not {kind!r}")

    @property
    def exchange_s(self) -> float:
        """X = 2 q / b: seconds per mini-batch in which a worker and the PS exchange gradients."""
        return 2 * self.gradient_bytes / self.bandwidth

    @property
    def batches(self) -> int:
        """E B: mini-batches that a chunk is trained on."""
        return self.epochs * self.minibatches

    @property
    def p0_s(self) -> float:
        """Seconds of training that a chunk needs unless all are in the cloud: E B (m + G + x)."""
        return self.batches * (self.compute_s + self.update_s + self.exchange_s)

    @property
    def p1_s(self) -> float:
        """The same if all chunks of the job are in the cloud (zeta = 1): E B (m + G)."""
        return self.batches * (self.compute_s + self.update_s)

    @property
    def weight_s(self) -> float:
        """D p0 = 1 / gamma: who has the least goes first under HAPRF."""
        return self.chunks * self.p0_s

    @property
    def gamma(self) -> float:
        """The rate of HAPRF, 1 / (D p0), per second."""
        return 1 / self.weight_s

    @property
    def workers(self) -> int:
        """How many workers schedulers of whole jobs give it at most: min(k, D)."""
        return self.chunks if self.gang is None else min(self.gang, self.chunks)

    def delays(self, servers: int) -> NDArray[np.float64]:
        """Return the seconds of uploading to each of so many servers.

        Raises
        ------
        InputError
            If they are listed for another number of servers.
        """
        if isinstance(self.upload_s, tuple) and len(self.upload_s) != servers:
            raise InputError(f"job {self.id}: upload_s has {len(self.upload_s)} delays; the "
                             f"edge-cloud has {servers} servers")
        return np.broadcast_to(np.asarray(self.upload_s, np.float64), servers)


@plain_numbers
@dataclass(frozen=True, slots=True, eq=False)
class EdgeWorkload:
    """Jobs of an edge-cloud, in order of (arrival, id), whatever order they were given in.

    Attributes
    ----------
    jobs : tuple of EdgeJob
    name : str
        A label for results.
    seed : int
        Of whatever made it.

    Raises
    ------
    InputError
        If there are no jobs, two have one id, or they have more than 10 million chunks in all.
    """

    jobs: Sequence[EdgeJob]
    name: str = "workload"
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        check_name(self.name, "workload: name")
        owner = f"workload {self.name!r}"
        jobs = check_sequence(self.jobs, EdgeJob, f"{owner}: jobs", "EdgeJob")
        if not jobs:
            raise InputError(f"{owner} has no jobs")
        check_whole(self.seed, f"{owner}: seed")
        if (chunks := sum(job.chunks for job in jobs)) > MOST:
            raise InputError(f"{owner} has {chunks:,} chunks; the most that can be simulated are "
                             f"{MOST:,}")
        refuse_twice([job.id for job in jobs], f"{owner}: two jobs have the id")
        object.__setattr__(self, "jobs",
                           tuple(sorted(jobs, key=lambda job: (job.arrival_s, job.id))))

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[EdgeJob]:
        return iter(self.jobs)

    def __repr__(self) -> str:
        return f"<EdgeWorkload {self.name!r}: {len(self):,} jobs>"

    def check_on(self, system: EdgeCloud) -> None:
        """Refuse jobs that nothing in an edge-cloud can train.

        Raises
        ------
        InputError
            Naming the first one: it has delays for another number of servers, or needs a type
            that no worker has, and there is no cloud.
        """
        for job in self.jobs:
            job.delays(system.servers)
            if not system.cloud and job.worker_type not in system.types:
                raise InputError(f"job {job.id} needs workers of type {job.worker_type!r}; there "
                                 f"is no cloud, and edge-cloud {system.name!r} has: "
                                 + (", ".join(map(repr, system.types)) or "none"))
