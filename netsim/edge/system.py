"""Edge servers with workers and parameter servers, and a cloud."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from netsim.checks import check_name, check_sequence, check_whole, is_whole
from netsim.errors import InputError
from netsim.network import Topology, big_switch
from netsim.plain import plain_numbers
from netsim.units import Quantity, format_count, parse_bytes, parse_rate

#: The largest number of workers, of parameter servers, and of chunks of all jobs.
MOST = 10_000_000

#: The type of a worker or a parameter server: a name or a number.
Kind = str | int


@plain_numbers
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
    storage: Quantity | Sequence[Quantity] | NDArray[np.float64] = math.inf
    cloud: bool = True
    edge_links: Quantity | Sequence[Quantity] = "10Gbps"
    wan: Quantity = "10Gbps"
    topology: Topology | None = None
    name: str = "edge-cloud"
    types: tuple[Kind, ...] = field(init=False)
    first: NDArray[np.int64] = field(init=False)
    server_of: NDArray[np.int64] = field(init=False)
    type_of: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        def put(**values: object) -> None:
            for name, value in values.items():
                if isinstance(value, np.ndarray):
                    value.setflags(write=False)
                object.__setattr__(self, name, value)

        check_name(self.name, "edge-cloud: name")
        owner = f"edge-cloud {self.name!r}"
        if not isinstance(self.cloud, bool):
            raise InputError(f"{owner}: cloud must be true or false, not {self.cloud!r}")
        given = check_sequence(self.workers, Sequence, f"{owner}: workers", "lists of types")
        workers = tuple(_kinds(each, f"{owner}: workers of server {server}")
                        for server, each in enumerate(given))
        flat = [kind for each in workers for kind in each]
        if not (flat or self.cloud):
            raise InputError(f"{owner} has neither a worker nor a cloud")
        counts = [len(each) for each in workers]
        types = tuple(dict.fromkeys(flat))
        place = {kind: k for k, kind in enumerate(types)}
        put(workers=workers, types=types, first=np.concatenate(([0], np.cumsum(counts, dtype=int))),
            server_of=np.repeat(np.arange(len(counts)), counts),
            type_of=np.array([place[kind] for kind in flat], np.int64))
        put(ps=self._parameter_servers(owner), storage=self._capacities(owner))
        put(edge_links=self._rates(owner),
            wan=parse_rate(self.wan, f"{owner}: wan", strict=True))
        if not isinstance(self.topology, Topology | None):
            raise InputError(f"{owner}: topology must be a Topology, not {self.topology!r}")
        if self.topology is not None and self.topology.hosts < len(workers) + 2:
            raise InputError(
                f"{owner}: network {self.topology.name!r} has {self.topology.hosts} hosts; it "
                f"needs one for each of the {len(workers)} servers, one for the cloud, and at "
                "least one for the sites of jobs")

    def _parameter_servers(self, owner: str) -> tuple[tuple[Kind | None, ...], ...]:
        given: Sequence[Any] = [self.ps] * self.servers if is_whole(self.ps) else _one_per_server(
            self.ps, self.servers, f"{owner}: ps")
        found: list[tuple[Kind | None, ...]] = []
        total = 0
        for server, each in enumerate(given):
            what = f"{owner}: ps of server {server}"
            if is_whole(each):
                check_whole(each, what, most=MOST)
                total += int(each)
                if total > MOST:
                    raise InputError(f"{owner} has more than {MOST:,} parameter servers")
                found.append((None,) * int(each))
            else:
                found.append(_kinds(each, what, none=True))
        return tuple(found)

    def _capacities(self, owner: str) -> NDArray[np.float64]:
        one = isinstance(self.storage, str | int | float)
        given: Sequence[Any] = [self.storage] * self.servers if one else _one_per_server(
            self.storage, self.servers, f"{owner}: storage")
        return np.array([math.inf if each == math.inf else
                         parse_bytes(each, f"{owner}: storage of server {server}")
                         for server, each in enumerate(given)], np.float64)

    def _rates(self, owner: str) -> NDArray[np.float64]:
        one = isinstance(self.edge_links, str | int | float)
        given: Sequence[Any] = [self.edge_links] * self.servers if one else _one_per_server(
            self.edge_links, self.servers, f"{owner}: edge_links")
        return np.array([parse_rate(each, f"{owner}: edge_links of server {server}", strict=True)
                         for server, each in enumerate(given)], np.float64)

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

    def host_of(self, server: NDArray[np.int64]) -> NDArray[np.int64]:
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
                             f"site must be from 0 to {sites - 1}")
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
    def capacity(self) -> NDArray[np.float64]:
        """`storage` as an array of shape (servers,), in bytes; typed for static checking."""
        return np.asarray(self.storage, np.float64)

    @property
    def ps_types(self) -> tuple[tuple[Kind | None, ...], ...]:
        """`ps` as the types of the PSs of each server; typed for static checking."""
        return cast(tuple[tuple[Kind | None, ...], ...], self.ps)

    def of_type(self, kind: Kind) -> NDArray[np.int64]:
        """Return the workers of a type, in order of (server, worker)."""
        if kind not in self.types:
            return np.array([], np.int64)
        return np.flatnonzero(self.type_of == self.types.index(kind))

    def __repr__(self) -> str:
        return (f"<EdgeCloud {self.name!r}: {format_count(self.servers, 'server')}, "
                f"{format_count(self.total, 'worker')} of {format_count(len(self.types), 'type')}, "
                f"{'with' if self.cloud else 'without'} a cloud>")


def _one_per_server(values: Any, servers: int, what: str) -> Sequence[Any]:
    listed = check_sequence(values, object, what, "one value per server")
    if len(listed) != servers:
        raise InputError(f"{what} must have a value for each of the {servers} servers, "
                         f"not {len(listed)}")
    return listed


def _kinds(values: Any, what: str, none: bool = False) -> tuple[Kind, ...]:
    kinds = check_sequence(values, str | int | np.integer | type(None), what,
                           "types, each a name or a number")
    for kind in kinds:
        if isinstance(kind, bool) or (kind is None and not none):
            raise InputError(f"{what}: a type is a name or a number, not {kind!r}")
    return tuple(int(kind) if isinstance(kind, np.integer) else kind for kind in kinds)
