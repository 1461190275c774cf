"""Servers with GPUs on a network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netsim.checks import check_sequence, check_whole
from netsim.errors import InputError
from netsim.network import Topology, big_switch
from netsim.parallel.servers import ServerKind
from netsim.streams import stream
from netsim.units import Quantity, parse_rate

__all__ = ["Cluster", "draw_gpus", "server_kind"]


class Cluster:
    """Servers with GPUs: what jobs are placed on.

    GPUs are numbered through, server by server.

    Parameters
    ----------
    servers : int, optional
        How many; as many as `gpus` lists, or as the topology has hosts, if not given.
    gpus : int or sequence of int
        GPUs of every server, or of each.
    nic : quantity
        What each server can send, and receive: ``"10Gbps"``.
    intra : quantity
        What two GPUs of one server exchange: ``"300GB/s"``.
    topology : Topology, optional
        The network that the servers are the hosts of; a big switch with ports of `nic` if not
        given.
    name : str

    Attributes
    ----------
    gpus : ndarray of int, shape (servers,)
    first : ndarray of int, shape (servers + 1,)
        The number of the first GPU of each server, and last that of all GPUs.
    server_of : ndarray of int, shape (GPUs,)
    nic, intra : float
        Bytes per second.
    network : Topology

    Raises
    ------
    InputError
        If there are no servers, one has no GPUs, or the numbers do not fit one another.

    Examples
    --------
    >>> Cluster(gpus=[4, 2], nic="10Gbps")
    <Cluster 'cluster': 2 servers, 6 GPUs>
    """

    def __init__(self, servers: int | None = None, gpus: int | Sequence[int] = 8,
                 nic: Quantity = "10Gbps", intra: Quantity = "300GB/s",
                 topology: Topology | None = None, name: str = "cluster") -> None:
        counts = _counts(servers, gpus, topology)
        for server, count in enumerate(counts):
            check_whole(count, f"gpus: those of server {server}", 1)
        self.name = name
        self.gpus = np.array(counts, dtype=np.int64)
        self.first = np.concatenate(([0], np.cumsum(self.gpus)))
        self.server_of = np.repeat(np.arange(len(counts)), self.gpus)
        self.nic, self.intra = parse_rate(nic, "nic"), parse_rate(intra, "intra")
        self.network = big_switch(len(counts), self.nic) if topology is None else topology
        for array in (self.gpus, self.first, self.server_of):
            array.setflags(write=False)

    @property
    def servers(self) -> int:
        """The number of servers."""
        return len(self.gpus)

    @property
    def total(self) -> int:
        """The number of GPUs."""
        return len(self.server_of)

    def __repr__(self) -> str:
        return f"<Cluster {self.name!r}: {self.servers} servers, {self.total} GPUs>"


def _counts(servers: int | None, gpus: int | Sequence[int], topology: Topology | None
            ) -> Sequence[int]:
    """Return the GPUs of each server, of as many servers as all that is given agrees on."""
    if servers is not None:
        check_whole(servers, "servers", 1)
    listed = None if isinstance(gpus, int) else check_sequence(
        gpus, int | np.integer, "gpus", "whole numbers")
    said = {"servers": servers, "the list of gpus": None if listed is None else len(listed),
            "the hosts of the topology": None if topology is None else topology.hosts}
    known = {name: count for name, count in said.items() if count is not None}
    if not known:
        raise InputError("a cluster needs servers, a list of gpus, or a topology")
    if len(set(known.values())) > 1:
        raise InputError("a cluster has one number of servers, not "
                         + ", ".join(f"{count} ({name})" for name, count in known.items()))
    count = next(iter(known.values()))
    if count < 1:
        raise InputError("a cluster needs a server")
    return [gpus] * count if isinstance(gpus, int) else list(listed or ())


def draw_gpus(servers: int, choices: Sequence[int], seed: int = 0) -> list[int]:
    """Return GPUs of servers, each drawn from some numbers; of fewer servers, the first ones.

    Raises
    ------
    InputError
        If there are no servers, or nothing to choose from.
    """
    check_whole(servers, "servers", 1)
    numbers = check_sequence(choices, int | np.integer, "draw_gpus", "whole numbers")
    if not numbers:
        raise InputError("draw_gpus: there are no numbers of GPUs to draw from")
    rng = stream(seed, "GPUs of servers")
    return [int(numbers[rng.integers(len(numbers))]) for _ in range(servers)]


def server_kind(cluster: Cluster) -> ServerKind:
    """Return what the servers of a cluster are like.

    Raises
    ------
    InputError
        If they have different numbers of GPUs: a GPU's share of the NIC would not be one number.
    """
    if len(found := np.unique(cluster.gpus)) > 1:
        raise InputError(f"servers must have equally many GPUs each, not {found.tolist()}: "
                         "a GPU's share of the NIC is 1 of that many")
    return ServerKind(int(found[0]), cluster.nic, cluster.intra)
