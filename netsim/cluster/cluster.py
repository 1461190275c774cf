"""Clusters of servers with GPUs on a network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from netsim.base.arrays import Ints
from netsim.base.brief import MOST_ROWS, shown
from netsim.base.streams import stream
from netsim.base.units import Quantity, format_count, parse_rate
from netsim.base.values import (
    Node,
    about,
    as_list,
    as_name,
    as_path,
    as_whole,
    is_whole,
    known_names,
    node_name,
    plain,
)
from netsim.errors import InputError, did_you_mean
from netsim.models.servers import ServerKind
from netsim.network import Topology, big_switch, read_network
from netsim.ties import EQUAL
from netsim.workload import JobSpec

_MOST_GPUS = 10_000_000


@known_names
class Cluster:
    """Servers with GPUs, connected by a network.

    GPUs are numbered consecutively, server by server. The hosts of the network are the servers; on
    a network made by `netsim.gpu_cluster`, they are the GPUs.

    Parameters
    ----------
    servers : int, optional
        Number of servers. By default the length of `gpus`, or the number of hosts of the topology.
    gpus : int or sequence of int, optional
        GPUs per server: one number for all servers, or one for each. By default the numbers that
        the topology defines, or 8.
    nic : quantity, optional
        Rate at which each server can send, and at which it can receive. With a topology, the
        default is the total rate of the NICs of a server, or the rate of a host's port; without
        one, it is ``"10Gbps"``. It must be given if the ports of hosts differ, or if a host has
        several ports. Plans and models then use `nic`, while the fabric uses the links of the
        topology.
    intra : quantity, optional
        Rate between two GPUs of the same server. By default the rate of NVLink in the topology, or
        ``"300GB/s"``. If hosts are GPUs, only plans and models use `intra` and `nic`.
    topology : Topology, str or path, optional
        Network whose hosts are the servers or their GPUs, or its name or file (see
        `netsim.read_network`). By default a big switch with ports of rate `nic`.
    name : str
        A label for results.

    Attributes
    ----------
    gpus : ndarray of int, shape (servers,)
        Number of GPUs of each server.
    first : ndarray of int, shape (servers + 1,)
        First GPU of each server, followed by the total number of GPUs.
    server_of : ndarray of int, shape (GPUs,)
        Server of each GPU.
    nic, intra : float
        Rates in bytes per second.
    network : Topology
    by_gpu : bool
        Whether the hosts of the network are GPUs, and not servers.

    Raises
    ------
    InputError
        If there are no servers, a server has no GPUs, arguments imply different numbers of servers,
        a rate is not positive, or `nic` differs from the rate of the topology's ports.

    Examples
    --------
    >>> Cluster(gpus=[4, 2], nic="10Gbps")
    <Cluster 'cluster': 2 servers, 6 GPUs>
    """

    def __init__(self, servers: int | None = None, gpus: int | Sequence[int] | None = None,
                 nic: Quantity | None = None, intra: Quantity | None = None,
                 topology: Topology | str | Path | None = None, name: str = "cluster") -> None:
        if not isinstance(topology, Topology | None):
            with about("topology"):
                topology = read_network(as_path(topology, "topology"))
        inside = None if topology is None else topology.gpu_servers
        self.by_gpu = inside is not None
        counts = _counts(servers, gpus, topology)
        self.name = as_name(name, "cluster: name")
        self.gpus = np.array(counts, dtype=np.int64)
        self.first = np.concatenate(([0], np.cumsum(self.gpus)))
        self.server_of = np.repeat(np.arange(len(counts)), self.gpus)
        self.nic = _nic_of(nic, topology)
        usual: Quantity = "300GB/s" if inside is None else inside.nvlink
        self.intra = parse_rate(usual if intra is None else intra, "intra", strict=True)
        self.network = big_switch(len(counts), self.nic) if topology is None else topology
        for array in (self.gpus, self.first, self.server_of):
            array.setflags(write=False)

    @property
    def servers(self) -> int:
        """Number of servers."""
        return len(self.gpus)

    @property
    def total(self) -> int:
        """Number of GPUs."""
        return len(self.server_of)

    def hosts_of(self, gpus: Ints) -> Ints:
        """Return the host of each given GPU: its server, or the GPU itself if hosts are GPUs."""
        return gpus if self.by_gpu else self.server_of[gpus]

    def server(self, name: Node) -> int:
        """Return the number of a server, given its name (``"server-3"``) or that of its host.

        Raises
        ------
        InputError
            If there is no such server.
        """
        hosts = () if self.by_gpu else self.network.host_names
        names = {f"server-{server}": server for server in range(self.servers)} | {
            host: server for server, host in enumerate(hosts)}
        name = node_name(name)
        if name not in names:
            near = did_you_mean(name, [*names])
            raise InputError(f"cluster {self.name!r} has no server {name!r}{near}; it has "
                             f"{self.servers}, numbered from 0 and named such as "
                             f"{next(iter(hosts or names))!r}")
        return names[name]

    def hosts_at(self, name: Node) -> Sequence[int]:
        """Return the number of a host given by name, or of all hosts of a ``"server-3"``.

        Raises
        ------
        InputError
            If there is no such host, and no such server.
        """
        if isinstance(name, str) and not self.by_gpu:
            return [self.server(name)]
        return self.network.hosts_at(name)

    def server_at(self, host: int) -> int:
        """Return the server of a host, which is the server itself or one of its GPUs."""
        return int(self.server_of[host]) if self.by_gpu else host

    def __repr__(self) -> str:
        return (f"<Cluster {self.name!r}: {format_count(self.servers, 'server')}, "
                f"{format_count(self.total, 'GPU')}>")

    def _repr_html_(self) -> str:
        counts = self.gpus[:MOST_ROWS]
        return shown(repr(self), {
            "server": np.arange(len(counts)), "GPUs": counts, "first GPU": self.first[:len(counts)],
            "NIC (Gbps)": self.nic / 1.25e8, "between its GPUs (Gbps)": self.intra / 1.25e8,
            }, self.servers)


def _counts(servers: int | None, gpus: int | Sequence[int] | None, topology: Topology | None
            ) -> Sequence[int]:
    """Check that all numbers of servers agree; return the GPUs of each server."""
    inside = None if topology is None else topology.gpu_servers
    hosts = None if topology is None else topology.hosts
    if topology is not None and inside is not None:
        hosts = topology.hosts // inside.gpus
        if gpus is not None and set(np.ravel(gpus).tolist()) != {inside.gpus}:
            raise InputError(f"gpus: servers of network {topology.name!r} have {inside.gpus} GPUs "
                             f"each, not {gpus!r}; leave gpus out, or change the network",
                             "gpus")
    gpus = (8 if inside is None else inside.gpus) if gpus is None else plain(gpus)
    servers = None if servers is None else as_whole(servers, "servers", 1, _MOST_GPUS)
    listed = None if is_whole(gpus) else as_list(
        gpus, "gpus", int, "whole numbers, or one for all servers")
    given = {"servers": servers, "the list of gpus": None if listed is None else len(listed),
             f"the {'hosts' if inside is None else 'servers'} of the topology": hosts}
    known = {name: count for name, count in given.items() if count is not None}
    if not known:
        raise InputError("a cluster needs servers, a list of gpus, or a topology")
    if len(set(known.values())) > 1:
        raise InputError("numbers of servers must agree, not be "
                         + ", ".join(f"{count} ({name})" for name, count in known.items()),
                         "servers" if listed is None else "gpus")
    count = next(iter(known.values()))
    if count < 1:
        raise InputError("a cluster needs at least one server", "gpus")
    with about("gpus"):
        if listed is None:
            return [as_whole(gpus, "gpus: those of a server", 1, _MOST_GPUS // count)] * count
        for server, each in enumerate(listed):
            as_whole(each, f"gpus: those of server {server}", 1, _MOST_GPUS)
        if sum(listed) > _MOST_GPUS:
            raise InputError(f"a cluster has at most {_MOST_GPUS:,} GPUs, not {sum(listed):,}")
    return listed


def _nic_of(nic: Quantity | None, topology: Topology | None) -> float:
    """The rate of servers' ports: the given one, or that of the topology."""
    given = None if nic is None else parse_rate(nic, "nic", strict=True)
    if topology is None:
        return parse_rate("10Gbps") if given is None else given
    inside = topology.gpu_servers
    rates = _port_rates(topology) if inside is None else [inside.nic * inside.nics]
    if len(rates) != 1:
        if given is None:
            raise InputError(
                f"hosts of network {topology.name!r} have ports of "
                f"{', '.join(f'{rate:g}' for rate in rates[:5])} bytes/s, or several each; give "
                "nic, which plans and models then use for every server", "nic")
        return given
    if given is not None and not math.isclose(given, rates[0], rel_tol=EQUAL):
        raise InputError(f"nic is {given:g} bytes/s, and the ports of network {topology.name!r} "
                         f"have {rates[0]:g}; leave nic out, or change the network", "nic")
    return rates[0]


def _port_rates(topology: Topology) -> list[float]:
    """Find the distinct rates of the first and last links of paths between hosts."""
    hosts = np.arange(topology.hosts)
    if len(hosts) == 1:
        return sorted(set(topology.capacity.tolist()))
    found: set[float] = set()
    for step in {1, len(hosts) // 2, len(hosts) - 1}:
        ptr, links = topology.routes(hosts, (hosts + step) % len(hosts), np.zeros_like(hosts))
        found |= set(topology.capacity[links[ptr[:-1]]].tolist())
        found |= set(topology.capacity[links[ptr[1:] - 1]].tolist())
    return sorted(found)


def check_size(job: JobSpec, cluster: Cluster) -> None:
    """Check that a job needs at least one GPU, specifies no hosts, and fits on a cluster."""
    if not job.ranks:
        raise InputError(f"job {job.id} has no ranks because it sends nothing, and so needs no "
                         "GPU: give it ranks, one per GPU")
    if job.hosts is not None and (job.by_name or _has_idle_ranks(job)):
        raise InputError(f"job {job.id} sends flows between hosts that it chooses itself, but on a "
                         'cluster the placement chooses them: leave out hosts, or read tables with '
                         'endpoints = "ranks"')
    if job.ranks > cluster.total:
        raise InputError(f"job {job.id} needs {job.ranks} GPUs; cluster {cluster.name!r} has "
                         f"{cluster.total}")


def _has_idle_ranks(job: JobSpec) -> bool:
    """Whether the flows of a job leave out ranks, because they count hosts instead of ranks."""
    sent = [stage.flows for stage in job.stages if stage.flows is not None]
    if not sent or len(sent) < len(job.stages):
        return False
    busy = np.unique(np.concatenate([part for flows in sent for part in (flows.src, flows.dst)]))
    return len(busy) < job.ranks


@known_names
def draw_gpus(servers: int, choices: Sequence[int], seed: int = 0) -> list[int]:
    """Draw the number of GPUs of each server.

    For the same seed, a smaller cluster has the first servers of a larger one.
    """
    numbers = as_list(choices, "draw_gpus", int, "whole numbers")
    if not numbers:
        raise InputError("draw_gpus must list at least one number of GPUs", "draw_gpus")
    rng = stream(as_whole(seed, "seed"), "GPUs of servers")
    return [numbers[rng.integers(len(numbers))] for _ in range(as_whole(servers, "servers", 1))]


def has_equal_servers(cluster: Cluster) -> bool:
    """Whether all servers have the same number of GPUs."""
    return bool((cluster.gpus == cluster.gpus[0]).all())


def server_kind(cluster: Cluster) -> ServerKind:
    """The kind of a cluster's servers, which must all have the same number of GPUs."""
    if len(found := np.unique(cluster.gpus)) > 1:
        raise InputError(f"servers must have equally many GPUs each, not {found.tolist()}: "
                         "each GPU has the same share of a NIC")
    return ServerKind(int(found[0]), cluster.nic, cluster.intra)
