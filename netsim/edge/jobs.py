"""Jobs of an edge-cloud: chunks of data, each of which is trained by one worker."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netsim.brief import brief
from netsim.checks import (
    MOST_ID,
    check_label,
    check_name,
    check_sequence,
    check_weight,
    check_whole,
    is_whole,
    refuse_twice,
)
from netsim.drawing import draw
from netsim.edge.system import MOST, EdgeCloud, Kind
from netsim.errors import InputError, UnknownNameError
from netsim.plain import known_names, plain_numbers
from netsim.units import Quantity, format_count, parse_bytes, parse_rate, parse_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: How the workers of a job exchange gradients.
EXCHANGES = ("ps", "ring")


@plain_numbers
@dataclass(frozen=True, kw_only=True, eq=False)
class EdgeJob:
    """A training job: D chunks of B mini-batches each, trained for E epochs.

    The symbols are those of A_online's paper, but times are in seconds and not in slots.
    Quantities may be given with units, such as ``"2h"``.

    Attributes
    ----------
    id : int
        Unique in the workload; jobs that arrive at the same time are ordered by id.
    arrival_s : float
        r, the arrival time, in seconds.
    worker_type : str or int
        The type of workers that the job needs.
    chunks, minibatches, epochs : int
        D, the number of chunks, at most 10 million; B, the number of mini-batches per chunk; E,
        the number of epochs. Each is at least 1.
    compute_s, update_s : float
        m and G: seconds in which a worker computes a mini-batch, and in which the parameter server
        (PS) then updates the parameters. They must not both be 0.
    gradient_bytes : float
        q: bytes of the gradients of a mini-batch, and of the parameters that they update.
    bandwidth : float
        b, the bandwidth reserved between a worker and the PS, or between a worker and the next one
        in the ring, in each direction; in bytes per second, greater than 0.
    exchange : {"ps", "ring"}
        Whether the workers exchange gradients through a PS, or by a ring all-reduce among
        themselves, after which each makes the update on its own; see `exchange_bytes`.
    upload_s : float or tuple of float
        Delta, the seconds until a chunk is at an edge server: one value, or one per server.
    cloud_upload_s : float
        Delta_c, the seconds until a chunk is in the cloud.
    chunk_bytes : float
        u, the size of a chunk, which is uploaded and occupies a server's storage.
    gang : int, optional
        k, the number of workers that schedulers of whole jobs give to the job; by default its
        number of chunks. The scheduler ``batch`` ignores it, and gives the job as many workers as
        are free, up to its number of chunks.
    ps_type : str or int, optional
        The type of PS that the job needs at the edge; by default any.
    site : int
        Number of the site where the job's data is. The hosts of the network are the servers, the
        cloud, and then the sites, beginning with site 0; see `EdgeCloud.network`.
    name : str
        A label.
    weight : float
        The job's priority: how much it counts, for policies that use weights. Finite and positive.
    group : int or str, optional
        A label of the jobs that belong together; see `netsim.JobSpec`.

    Raises
    ------
    InputError
        If a value is invalid.

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
    exchange: str = "ps"
    upload_s: float | Sequence[Quantity] = 0.0
    cloud_upload_s: float = 0.0
    chunk_bytes: float = 0.0
    gang: int | None = None
    ps_type: Kind | None = None
    site: int = 0
    name: str = ""
    weight: float = 1.0
    group: int | str | None = None

    __repr__ = brief

    def __post_init__(self) -> None:
        owner = f"job {self.id}"
        check_whole(self.id, f"{owner}: id", most=MOST_ID)
        check_name(self.name, f"{owner}: name")
        check_label(self.group, f"{owner}: group")
        self._put("weight", check_weight(self.weight, f"{owner}: weight"))
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
        if self.exchange not in EXCHANGES:
            raise UnknownNameError(f"exchange of job {self.id}", self.exchange, EXCHANGES)
        self._check_types(owner)

    def _put(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _uploads(self, what: str) -> float | tuple[float, ...]:
        if isinstance(self.upload_s, str | int | float | np.number):
            return parse_seconds(self.upload_s, what)
        listed = check_sequence(self.upload_s, object, what, "durations, one per server")
        # A fast path for drawn jobs: parsing the delays of hundreds of servers one by one, as
        # below, would take most of a run.
        if all(type(each) is float and 0 <= each < math.inf for each in listed):
            return listed
        return tuple(parse_seconds(each, f"{what} of server {server}")
                     for server, each in enumerate(listed))

    def _check_types(self, owner: str) -> None:
        for name in ("worker_type", "ps_type"):
            kind = getattr(self, name)
            if not (isinstance(kind, str) or is_whole(kind) or (kind is None and name[0] == "p")):
                raise InputError(f"{owner}: {name} must be a name or a number, not {kind!r}")

    def exchange_bytes(self, workers: int) -> float:
        """Return the bytes that a worker exchanges per mini-batch while `workers` workers train.

        With a PS, a worker sends q and then receives q: 2 q for any number of workers.

        A ring all-reduce among n workers cuts the gradients into n parts of q / n. In n - 1 steps,
        each worker sends one part to the next worker, which adds its own; in n - 1 further steps,
        the sums go round. A worker sends 2 (n - 1) / n q in all, and receives as much at the same
        time. A worker that trains alone exchanges nothing.

        At the bandwidth b, both take these bytes / b. So a ring takes (n - 1) / n of the time of
        a PS, and sends (n - 1) / n of its bytes.
        """
        if self.exchange == "ps":
            return 2 * self.gradient_bytes
        return 2 * (workers - 1) / workers * self.gradient_bytes

    @property
    def exchange_s(self) -> float:
        """Time to exchange the gradients of a mini-batch, x; in seconds.

        With a PS, x = 2 q / b. In a ring, x = 2 (D - 1) / D q / b, as if all chunks trained at
        once: as a worker trains one chunk at a time, more workers than this are never in the ring.
        """
        return self.exchange_bytes(self.chunks) / self.bandwidth

    @property
    def batches(self) -> int:
        """Number of mini-batches trained per chunk over all epochs, E B."""
        return self.epochs * self.minibatches

    def chunk_s(self, workers: int) -> float:
        """Return the training time of a chunk while `workers` workers exchange; in seconds."""
        return self.batches * (self.compute_s + self.update_s
                               + self.exchange_bytes(workers) / self.bandwidth)

    @property
    def p0_s(self) -> float:
        """Training time of a chunk if not all chunks are in the cloud, E B (m + G + x); seconds."""
        return self.chunk_s(self.chunks)

    @property
    def p1_s(self) -> float:
        """Training time of a chunk if all are in the cloud (zeta = 1), E B (m + G); seconds."""
        return self.batches * (self.compute_s + self.update_s)

    @property
    def weight_s(self) -> float:
        """D p0 = 1 / gamma, in seconds: under HAPRF, the job with the least value goes first."""
        return self.chunks * self.p0_s

    @property
    def gamma(self) -> float:
        """The priority of HAPRF, 1 / (D p0); per second."""
        return 1 / self.weight_s

    @property
    def workers(self) -> int:
        """The most workers that schedulers of whole jobs give to the job: min(k, D)."""
        return self.chunks if self.gang is None else min(self.gang, self.chunks)

    def delays(self, servers: int) -> NDArray[np.float64]:
        """Return the upload delay to each of `servers` edge servers, in seconds.

        Raises
        ------
        InputError
            If `upload_s` has values for another number of servers.
        """
        if isinstance(self.upload_s, tuple) and len(self.upload_s) != servers:
            raise InputError(f"job {self.id}: upload_s has {len(self.upload_s)} delays; the "
                             f"edge-cloud has {servers} servers")
        return np.broadcast_to(np.asarray(self.upload_s, np.float64), servers)


@plain_numbers
@dataclass(frozen=True, slots=True, eq=False)
class EdgeWorkload:
    """The jobs of an edge-cloud, sorted by (arrival, id).

    Attributes
    ----------
    jobs : tuple of EdgeJob
    name : str
        A label for results.
    seed : int
        The seed with which the jobs were drawn.

    Raises
    ------
    InputError
        If there are no jobs, two have the same id, or they have more than 10 million chunks in
        total.
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
        return f"<EdgeWorkload {self.name!r}: {format_count(len(self), 'job')}>"

    @known_names
    def plot(self, of: str | None = None, *, ax: Axes | None = None) -> Axes:
        """Draw how many jobs have arrived over time, and the distribution of their sizes.

        The size of a job is the time that its training takes on one worker. Arguments and errors
        are those of `netsim.Workload.plot`.
        """
        return draw(self, None, "workload", of, ax)

    def check_on(self, system: EdgeCloud) -> None:
        """Check that an edge-cloud can train all jobs.

        Raises
        ------
        InputError
            If a job has upload delays for another number of servers, or needs a type that no
            worker has and there is no cloud; it names the first such job.
        """
        for job in self.jobs:
            job.delays(system.servers)
            if not system.cloud and job.worker_type not in system.types:
                raise InputError(f"job {job.id} needs workers of type {job.worker_type!r}; there "
                                 f"is no cloud, and edge-cloud {system.name!r} has: "
                                 + (", ".join(map(repr, system.types)) or "none"))
