"""Edge-clouds, of servers with workers and parameter servers and a cloud, and their jobs.

A job has chunks of data, each of which is trained by one worker.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.base.brief import brief
from netsim.base.display import draw
from netsim.base.units import Quantity, format_count, parse_bytes, parse_rate, parse_seconds
from netsim.base.values import (
    MOST_ID,
    as_choice,
    as_flag,
    as_label,
    as_list,
    as_name,
    as_weight,
    as_whole,
    convert,
    is_whole,
    known_names,
    optional,
    plain,
    refuse_twice,
    refused,
)
from netsim.errors import InputError
from netsim.network import Topology, big_switch

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The largest number of workers, of parameter servers, and of chunks of all jobs.
MOST = 10_000_000

#: The type of a worker or a parameter server: a name or a number.
Kind = str | int


@known_names
@dataclass(frozen=True, eq=False)
class EdgeCloud:
    """Edge servers with typed workers and parameter servers (PSs), and an unlimited cloud.

    Workers are numbered consecutively, server by server.

    Parameters
    ----------
    workers : sequence of sequence of str or int
        For each server, the type of each of its workers. A job needs workers of one type.
    ps : int, or sequence of int or of sequence of str or int
        PSs of the servers: one number for all servers, a number per server, or a list per server
        of the type of each PS. PSs that are given by number can serve any job.
    storage : quantity, or sequence of quantity
        Storage of the servers, such as ``"2TB"``: one value for all, or one per server. Unlimited
        by default.
    cloud : bool
        Whether there is a cloud, with unlimited workers and PSs of every type and unlimited
        storage.
    edge_links : quantity, or sequence of quantity
        Capacity of the servers' links, in each direction: one value for all, or one per server.
        Only the transport ``"fabric"`` uses `edge_links`, `wan` and `topology`.
    wan : quantity
        Capacity of the cloud's link, in each direction.
    topology : Topology, optional
        A network to use instead of these links; see `network`.
    name : str
        A label for results.

    Attributes
    ----------
    workers : tuple of tuple of str or int
    ps : tuple of tuple of str, int or None
        For each server, the type of each PS; None for PSs that can serve any job.
    storage : ndarray of float, shape (servers,)
        U_s, in bytes; inf if unlimited.
    types : tuple of str or int
        The types of workers, in order of their first appearance.
    first : ndarray of int, shape (servers + 1,)
        The number of the first worker of each server, and finally the number of all workers.
    server_of, type_of : ndarray of int, shape (workers,)
        The server of each worker, and its type, as an index into `types`.

    Raises
    ------
    InputError
        If there is neither a worker nor a cloud, or the lengths of the lists are inconsistent.

    Examples
    --------
    >>> EdgeCloud(workers=[["gpu", "gpu"], ["gpu", "tpu"]], storage="1TB")
    <EdgeCloud 'edge-cloud': 2 servers, 4 workers of 2 types, with a cloud>
    """

    workers: Sequence[Sequence[Kind]]
    ps: int | Sequence[int | Sequence[Kind | None]] = 1
    storage: Quantity | Sequence[Quantity] | Floats = math.inf
    cloud: bool = True
    edge_links: Quantity | Sequence[Quantity] = "10Gbps"
    wan: Quantity = "10Gbps"
    topology: Topology | None = None
    name: str = "edge-cloud"
    types: tuple[Kind, ...] = field(init=False)
    first: Ints = field(init=False)
    server_of: Ints = field(init=False)
    type_of: Ints = field(init=False)

    def __post_init__(self) -> None:
        convert(self, "edge-cloud", name=as_name)
        owner = f"edge-cloud {self.name!r}"
        convert(self, owner, cloud=as_flag, workers=_as_workers)
        convert(self, owner, ps=self._as_ps, storage=partial(self._as_array, _as_room),
                edge_links=partial(self._as_array, _as_link), wan=_as_link,
                topology=optional(self._as_topology))
        flat = [kind for each in self.workers for kind in each]
        if not (flat or self.cloud):
            raise InputError(f"{owner} has neither a worker nor a cloud", "cloud")
        counts = [len(each) for each in self.workers]
        types = tuple(dict.fromkeys(flat))
        place = {kind: k for k, kind in enumerate(types)}
        object.__setattr__(self, "types", types)
        for name, value in (("first", np.concatenate(([0], np.cumsum(counts, dtype=int)))),
                            ("server_of", np.repeat(np.arange(len(counts)), counts)),
                            ("type_of", np.array([place[kind] for kind in flat], np.int64))):
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    def _as_ps(self, given: Any, what: str) -> tuple[tuple[Kind | None, ...], ...]:
        found: list[tuple[Kind | None, ...]] = []
        total = 0
        for server, each in enumerate(self._one_per_server(given, what)):
            of = f"{what} of server {server}"
            if is_whole(each):
                total += as_whole(each, of, most=MOST)
                if total > MOST:
                    raise InputError(f"edge-cloud {self.name!r} has more than {MOST:,} parameter "
                                     "servers")
                found.append((None,) * each)
            else:
                found.append(_as_kinds(each, of, none=True))
        return tuple(found)

    def _as_array(self, parse: Callable[[Any, str], float], given: Any, what: str) -> Floats:
        made = np.array([parse(each, f"{what} of server {server}")
                         for server, each in enumerate(self._one_per_server(given, what))],
                        np.float64)
        made.setflags(write=False)
        return made

    def _one_per_server(self, given: Any, what: str) -> Sequence[Any]:
        given = plain(given)
        if isinstance(given, str | int | float):
            return [given] * self.servers
        listed = as_list(given, what, object, "one value per server")
        if len(listed) != self.servers:
            raise InputError(f"{what} must have a value for each of the {self.servers} servers, "
                             f"not {len(listed)}")
        return listed

    def _as_topology(self, given: Any, what: str) -> Topology:
        if not isinstance(given, Topology):
            raise refused(what, "a Topology", given)
        if given.hosts < self.servers + 2:
            raise InputError(
                f"edge-cloud {self.name!r}: network {given.name!r} has {given.hosts} hosts; it "
                f"needs one for each of the {self.servers} servers, one for the cloud, and at "
                "least one for the sites of jobs")
        return given

    @cached_property
    def network(self) -> Topology:
        """The network, whose hosts are the servers, then the cloud, then the sites of jobs.

        It is `topology` if given. Otherwise it is a big switch with one site of jobs, and the link
        of the site has the capacity of all other links together.
        """
        if self.topology is not None:
            return self.topology
        rates = [*np.asarray(self.edge_links).tolist(), self.wan]
        return big_switch(len(rates) + 1, [*rates, sum(rates)], name=self.name)

    def host_of(self, server: Ints) -> Ints:
        """Return the hosts of servers, where -1 stands for the cloud."""
        return np.where(server < 0, self.servers, server)

    def site_host(self, site: int) -> int:
        """Return the host of a site of jobs.

        Raises
        ------
        InputError
            If there is no such site.
        """
        sites = self.network.hosts - self.servers - 1
        if not 0 <= site < sites:
            raise InputError(f"there is no site {site}: network {self.network.name!r} has {sites} "
                             f"hosts beside those of {self.servers} servers and the cloud, so that "
                             f"site must be from 0 to {sites - 1}", "site")
        return self.servers + 1 + site

    @property
    def servers(self) -> int:
        """The number of edge servers."""
        return len(self.workers)

    @property
    def total(self) -> int:
        """The number of workers of the edge servers."""
        return len(self.server_of)

    @property
    def capacity(self) -> Floats:
        """`storage` as an array of shape (servers,), in bytes; typed for static checking."""
        return np.asarray(self.storage, np.float64)

    @property
    def ps_types(self) -> tuple[tuple[Kind | None, ...], ...]:
        """`ps` as the types of the PSs of each server; typed for static checking."""
        return cast(tuple[tuple[Kind | None, ...], ...], self.ps)

    def of_type(self, kind: Kind) -> Ints:
        """Return the workers of a type, in order of (server, worker)."""
        if kind not in self.types:
            return np.array([], np.int64)
        return np.flatnonzero(self.type_of == self.types.index(kind))

    def __repr__(self) -> str:
        return (f"<EdgeCloud {self.name!r}: {format_count(self.servers, 'server')}, "
                f"{format_count(self.total, 'worker')} of {format_count(len(self.types), 'type')}, "
                f"{'with' if self.cloud else 'without'} a cloud>")


_as_link = partial(parse_rate, strict=True)


def _as_room(value: Any, what: str) -> float:
    return math.inf if value == math.inf else parse_bytes(value, what)


def _as_workers(given: Any, what: str) -> tuple[tuple[Kind, ...], ...]:
    return tuple(_as_kinds(each, f"{what} of server {server}") for server, each in enumerate(
        as_list(given, what, Sequence, "lists of types")))


def _as_kinds(given: Any, what: str, none: bool = False) -> tuple[Kind, ...]:
    kinds = as_list(given, what, str | int | type(None), "types, each a name or a number")
    for kind in kinds:
        if isinstance(kind, bool) or (kind is None and not none):
            raise InputError(f"{what}: a type is a name or a number, not {kind!r}")
    return kinds


# --- jobs ----------------------------------------------------------------------------------

#: How the workers of a job exchange gradients.
EXCHANGES = ("ps", "ring")


@known_names
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
        convert(self, owner, id=partial(as_whole, most=MOST_ID), name=as_name, group=as_label,
                weight=as_weight, chunks=partial(as_whole, least=1, most=MOST),
                minibatches=_as_count, epochs=_as_count, gang=optional(partial(as_whole, least=1)),
                site=as_whole, arrival_s=parse_seconds, compute_s=parse_seconds,
                update_s=parse_seconds, cloud_upload_s=parse_seconds, gradient_bytes=parse_bytes,
                chunk_bytes=parse_bytes, bandwidth=_as_link, upload_s=_as_uploads,
                exchange=lambda given, _: as_choice(given, f"exchange of {owner}", EXCHANGES),
                worker_type=_as_kind, ps_type=optional(_as_kind))
        if not self.compute_s + self.update_s > 0:
            raise InputError(f"{owner}: a mini-batch must take some time: compute_s and update_s "
                             "must not both be 0", "compute_s")

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

    def delays(self, servers: int) -> Floats:
        """Return the upload delay to each of `servers` edge servers, in seconds.

        Raises
        ------
        InputError
            If `upload_s` has values for another number of servers.
        """
        if isinstance(self.upload_s, tuple) and len(self.upload_s) != servers:
            raise InputError(f"job {self.id}: upload_s has {len(self.upload_s)} delays; the "
                             f"edge-cloud has {servers} servers", "servers")
        return np.broadcast_to(np.asarray(self.upload_s, np.float64), servers)


_as_count = partial(as_whole, least=1, most=MOST_ID)


def _as_kind(given: Any, what: str) -> Kind:
    kind: Kind = plain(given)
    if not (isinstance(kind, str) or is_whole(kind)):
        raise refused(what, "a name or a number", kind)
    return kind


def _as_uploads(given: Any, what: str) -> float | tuple[float, ...]:
    given = plain(given)
    if isinstance(given, str | int | float):
        return parse_seconds(given, what)
    listed = as_list(given, what, object, "durations, one per server")
    # A fast path for drawn jobs: parsing the delays of hundreds of servers one by one, as below,
    # would take most of a run.
    if all(type(each) is float and 0 <= each < math.inf for each in listed):
        return listed
    return tuple(parse_seconds(each, f"{what} of server {server}")
                 for server, each in enumerate(listed))


@known_names
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
        convert(self, "workload", name=as_name)
        convert(self, f"workload {self.name!r}", jobs=self._as_jobs, seed=as_whole)

    def _as_jobs(self, given: Any, what: str) -> tuple[EdgeJob, ...]:
        owner = f"workload {self.name!r}"
        jobs = as_list(given, what, EdgeJob, "EdgeJob")
        if not jobs:
            raise InputError(f"{owner} has no jobs")
        if (chunks := sum(job.chunks for job in jobs)) > MOST:
            raise InputError(f"{owner} has {chunks:,} chunks; the most that can be simulated are "
                             f"{MOST:,}")
        refuse_twice([job.id for job in jobs], f"{owner}: two jobs have the id")
        return tuple(sorted(jobs, key=lambda job: (job.arrival_s, job.id)))

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
                                 + (", ".join(map(repr, system.types)) or "none"), "types")
