"""Servers whose GPUs are the hosts of a network, and routes inside servers and across rails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from netsim.network.routing import Hashes, Ints, ShortestPaths


@dataclass(frozen=True)
class GpuServers:
    """The servers of a network whose hosts are GPUs, which are numbered server by server.

    Attributes
    ----------
    gpus : int
        GPUs of each server: host s * gpus + r is GPU r of server s.
    nvlink : float
        Rate of a GPU's NVLink port, in bytes per second.
    nic : float
        Rate of a NIC, in bytes per second.
    nics : int
        Number of NICs per server.
    rails : int
        NIC k of each server is on rail k % rails.
    generation : str
        Generation of the GPUs; see `netsim.collectives.NcclCosts`.
    """

    gpus: int
    nvlink: float
    nic: float
    nics: int
    rails: int
    generation: str

    def server_of(self, hosts: Ints) -> Ints:
        """Return the server of each of some hosts."""
        return hosts // self.gpus

    def by_name(self, hosts: int) -> dict[str, range]:
        """Return the hosts of each server by its name, for a network of `hosts` hosts."""
        return {f"server-{host // self.gpus}": range(host, host + self.gpus)
                for host in range(0, hosts, self.gpus)}

    def relays(self, src: Ints, dst: Ints) -> Ints:
        """Return the GPU through which each flow reaches the rail of its destination.

        This is the GPU of the source's server that has the same position as the destination has in
        its server. If source and destination share a rail or a server, it is the source itself.
        """
        near = self.server_of(src) == self.server_of(dst)
        direct = near | (self._rail_of(src) == self._rail_of(dst))
        return np.where(direct, src, self.server_of(src) * self.gpus + dst % self.gpus)

    def _rail_of(self, hosts: Ints) -> Ints:
        return hosts % self.gpus // (self.gpus // self.nics) % self.rails


class GpuPaths:
    """The shortest paths between GPUs of servers: by NVLink, or over their NICs and a rail.

    `ShortestPaths` would find the same paths, but more slowly: it would search from each GPU,
    because a GPU has two ports. Here, it finds only paths from one switch of a rail to another.
    GPUs must come first among the `nodes`.
    """

    def __init__(self, servers: GpuServers, nodes: Mapping[str, int], tail: Ints, head: Ints,
                 shortest: ShortestPaths) -> None:
        self._servers, self._shortest, self._nodes = servers, shortest, len(nodes)
        self._boxes, self._nics = (
            np.array([node for name, node in nodes.items() if name.startswith(kind)])
            for kind in ("server-", "nic-"))
        code = tail * self._nodes + head
        self._order = np.argsort(code, kind="stable")
        self._code = code[self._order]
        # The only link from a NIC that does not lead to a GPU is that to its rail.
        self._switch = np.full(self._nodes, -1)
        up = head >= len(self._boxes) * servers.gpus
        self._switch[tail[up]] = head[up]

    def _nic_of(self, hosts: Ints) -> Ints:
        """Return the nodes of the NICs of some GPUs."""
        servers = self._servers
        own = hosts % servers.gpus // (servers.gpus // servers.nics)
        return self._nics[servers.server_of(hosts) * servers.nics + own]

    def _link(self, start: Ints, end: Ints) -> Ints:
        """Return the link from one node to another."""
        return self._order[np.searchsorted(self._code, start * self._nodes + end)]

    def walk(self, src: Ints, dst: Ints, hashes: Hashes | None) -> Iterator[tuple[Ints, Ints]]:
        """Yield, hop by hop, the flows that take a link, and that link; see `ShortestPaths.walk`.

        The GPUs of a pair must differ. Those of different servers must share a rail, unless the
        network has spines.
        """
        inside = self._servers.server_of(src) == self._servers.server_of(dst)
        near, far = np.flatnonzero(inside), np.flatnonzero(~inside)
        box = self._boxes[self._servers.server_of(src[near])]
        yield near, self._link(src[near], box)
        yield near, self._link(box, dst[near])
        src, dst = src[far], dst[far]
        nic, other = self._nic_of(src), self._nic_of(dst)
        switch, goal = self._switch[nic], self._switch[other]
        yield far, self._link(src, nic)
        yield far, self._link(nic, switch)
        across = np.flatnonzero(switch != goal)
        for part, link in self._shortest.walk(switch[across], goal[across],
                                              None if hashes is None else hashes[far[across]]):
            yield far[across[part]], link
        yield far, self._link(goal, other)
        yield far, self._link(other, dst)
