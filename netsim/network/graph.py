"""Networks of any nodes and links, routed by shortest or user-defined paths."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.base.arrays import Bools, Ints
from netsim.base.lazy import nx
from netsim.base.units import is_digits
from netsim.base.values import Node, about, as_choice, as_flag
from netsim.errors import InputError, UnknownNameError
from netsim.network.routing import GivenPaths, Paths, ShortestPaths, flow_hash, reach
from netsim.network.topology import GpuPaths, GpuServers, Topology

#: Ways to choose among the shortest paths of a flow.
ROUTING = ("ecmp", "shortest", "spray")

# Flows routed at once; this bounds the memory for their candidate links.
_BLOCK = 4096


class GraphTopology(Topology):
    """Hosts and switches connected by directed links; made by `from_networkx`.

    The first nodes are the hosts. Links, with their two `ends`, are in order of start nodes. The
    length of a path is the sum of the `weights` of its links; by default, their number. With the
    routing ``"spray"``, links are trunks; `SprayedNetwork` makes such a network.
    """

    bisection: float | None = None  #: in bytes per second, if the builder of the network knows it
    _relays: Callable[[Ints, Ints], Ints] | None = None
    _paths: GpuPaths | None = None

    def __init__(self, name: str, nodes: Sequence[Hashable], hosts: int, ends: ArrayLike,
                 capacity: ArrayLike, link_names: Sequence[str], *, routing: str = "ecmp",
                 paths: Paths | None = None, relay: bool = True,
                 loopback_uses_ports: bool = False, weights: ArrayLike | None = None) -> None:
        super().__init__(name, hosts, capacity, link_names,
                         loopback_uses_ports=loopback_uses_ports)
        self.nodes, self.routing = tuple(nodes), as_choice(routing, "routing", ROUTING)
        self.relay = as_flag(relay, f"network {name!r}: relay")
        self.tail, self.head = np.asarray(ends, dtype=np.int64).reshape(-1, 2).T.copy()
        relays = np.arange(len(self.nodes)) >= (0 if self.relay else hosts)
        self._shortest = ShortestPaths(
            self.tail, self.head, relays,
            weights=None if weights is None else np.asarray(weights, np.float64))
        self._refuse_disconnected(relays.tolist())
        numbered = zip(self.tail.tolist(), self.head.tolist(), strict=True)
        link_of: dict[tuple[int, int], int] = {}
        for link, pair in enumerate(numbered):
            link_of.setdefault(pair, link)
        self._loops = _loops(hosts, link_of)
        with about("paths"):
            self.given = None if paths is None else GivenPaths(
                paths, {node: i for i, node in enumerate(self.nodes)}, hosts, link_of)
        self._alive = self.given

    def _refuse_disconnected(self, relays: list[bool]) -> None:
        """Check that host 0 can reach all hosts, and be reached from them.

        If hosts relay, this means that all hosts are connected. If they do not, two hosts may be
        disconnected although both reach host 0, which `routes` detects.
        """
        ways: tuple[list[list[int]], ...] = ([[] for _ in relays], [[] for _ in relays])
        for start, end in zip(self.tail.tolist(), self.head.tolist(), strict=True):
            ways[0][start].append(end)
            ways[1][end].append(start)
        onward, back = (reach(0, neighbours, relays)[:self.hosts] for neighbours in ways)
        if -1 in onward:
            self._refuse_pair(0, onward.index(-1))
        if -1 in back:
            self._refuse_pair(back.index(-1), 0)

    def _refuse_pair(self, src: int, dst: int) -> None:
        raise InputError(f"network {self.name!r}: there is no path from host {src}, "
                         f"{self.nodes[src]!r}, to host {dst}, {self.nodes[dst]!r}"
                         f"{self._one_way()}")

    def _one_way(self) -> str:
        """Return a hint at links without one back, which undirected edges would have."""
        pairs = list(zip(self.tail.tolist(), self.head.tolist(), strict=True))
        both = set(pairs)
        for link, (start, end) in enumerate(pairs):
            if (end, start) not in both:
                return (f"; the graph is directed, and {self.link_names[link]!r} leads one way "
                        "only: unless that is meant, give directed=False, with which edges lead "
                        "both ways")
        return ""

    def routes(self, src: Ints, dst: Ints, key: Ints) -> tuple[Ints, Ints]:
        """Return the path of each flow; see `Topology.routes`.

        With ECMP, each node chooses among the links that lead nearer to the destination by a hash
        of (src, dst, key) and the node.
        """
        src, dst, key = (np.asarray(each, dtype=np.int64) for each in (src, dst, key))
        self._check_range(src, dst)
        hashes = flow_hash(src, dst, key) if self.routing != "shortest" else None
        flows: list[Ints] = [np.empty(0, np.int64)]
        links: list[Ints] = [np.empty(0, np.int64)]
        for flow, link in self._hops(src, dst, hashes):
            flows.append(flow)
            links.append(link)
        owner = np.concatenate(flows)
        ptr = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=len(src)))))
        # A stable sort keeps the hops of each flow in order.
        return ptr, np.concatenate(links)[np.argsort(owner, kind="stable")]

    @cached_property
    def _node_ids(self) -> Mapping[str, int]:
        return {str(node): number for number, node in enumerate(self.nodes)}

    @cached_property
    def misleading(self) -> frozenset[int]:
        """The host numbers that, written as text, are the name of another node."""
        named = {int(name): number for name, number in self._node_ids.items() if is_digits(name)}
        return frozenset(name for name, number in named.items() if number != name < self.hosts)

    def links_of_switch(self, name: Node) -> Ints:
        """Return the links that lead from or to a switch; see `Topology.links_of_switch`."""
        name = str(name)
        node = self._node_ids.get(name, -1)
        if node < self.hosts:
            switches = [str(each) for each in self.nodes[self.hosts:]]
            raise UnknownNameError(f"switch of network {self.name!r}", name, switches)
        return np.flatnonzero((self.tail == node) | (self.head == node))

    @property
    def avoidable(self) -> Bools:
        """Mask of the links that flows can avoid if dead: all but a host's only link in or out."""
        only = np.zeros(self.links, np.bool_)
        for end in (self.tail, self.head):
            only |= (end < self.hosts) & (np.bincount(end, minlength=len(self.nodes)) == 1)[end]
        return ~only

    @property
    def cables(self) -> GraphTopology:
        """The network of single links; with ``routing="spray"``, these are members of trunks."""
        return self

    def without(self, dead: Bools) -> GraphTopology:
        """Return this network with routes that avoid dead links.

        Pairs of hosts with user-defined paths use only the remaining ones of these; see `reaches`.
        """
        other = copy(self)
        other._shortest = self._shortest.without(dead)
        other._alive = None if self.given is None else self.given.without(dead)
        other._relays = other._paths = None
        return other

    def with_paths(self, paths: Mapping[tuple[int, int], Sequence[int]]) -> GraphTopology:
        """Return this network with paths of links, one for each of some pairs of hosts."""
        other = copy(self)
        other.given = other._alive = GivenPaths.of_links(paths, self.hosts)
        return other

    def reaches(self, src: Ints, dst: Ints) -> Bools:
        """Return the mask of the pairs of hosts with a path; False for a host and itself."""
        found = (src != dst) & self._shortest.connect(src, dst)
        if self.given is not None and self._alive is not None:
            found &= ~self.given.has(src, dst)
            found |= self._alive.has(src, dst)
        return found

    def _hops(self, src: Ints, dst: Ints, hashes: NDArray[np.uint64] | None
              ) -> Iterator[tuple[Ints, Ints]]:
        """Yield arrays of flows with a link of each, such that each flow's links are in order."""
        home = src == dst
        if self.loopback_uses_ports:
            flow = np.flatnonzero(home & (self._loops[src, 0] >= 0))
            yield flow, self._loops[src[flow], 0]
            yield flow, self._loops[src[flow], 1]
        rest = ~home
        if self._alive is not None:
            given = self._alive.has(src, dst)
            flow, rest = np.flatnonzero(given), rest & ~given
            owner, link = self._alive.choose(src[flow], dst[flow],
                                             None if hashes is None else hashes[flow])
            yield flow[owner], link
        left = np.flatnonzero(rest)
        for first in range(0, len(left), _BLOCK):
            flow = left[first:first + _BLOCK]
            via = src[flow] if self._relays is None else self._relays(src[flow], dst[flow])
            relayed = via != src[flow]
            yield from self._walk(flow[relayed], src[flow][relayed], via[relayed], hashes)
            yield from self._walk(flow, via, dst[flow], hashes)

    def _walk(self, flow: Ints, start: Ints, end: Ints, hashes: NDArray[np.uint64] | None
              ) -> Iterator[tuple[Ints, Ints]]:
        """Yield arrays of flows with a link of each on shortest paths from `start` to `end`."""
        own = None if hashes is None else hashes[flow]
        if self._paths is None:
            lost = np.flatnonzero(~self._shortest.connect(start, end))
            if len(lost):
                self._refuse_pair(int(start[lost[0]]), int(end[lost[0]]))
        for part, link in (self._paths or self._shortest).walk(start, end, own):
            yield flow[part], link

    def serve_gpus(self, servers: GpuServers) -> None:
        """Set the servers whose GPUs are the hosts; `GpuPaths` then routes flows between GPUs."""
        self.gpu_servers = servers
        self._paths = GpuPaths(servers, self._node_ids, self.tail, self.head, self._shortest)

    def relay_by(self, relays: Callable[[Ints, Ints], Ints]) -> None:
        """Route each flow through the host that a function returns for its source and destination.

        If the function returns the source itself, the flow takes a shortest path. Flows that avoid
        dead links always take a shortest path.
        """
        self._relays = self.cables._relays = relays

    def to_networkx(self) -> nx.DiGraph:
        """Return the network as a graph; see `Topology.to_networkx`.

        It is a `networkx.MultiDiGraph` if there are parallel links.
        """
        pairs = set(zip(self.tail.tolist(), self.head.tolist(), strict=True))
        kind = nx.DiGraph if len(pairs) == self.links else nx.MultiDiGraph
        graph = kind(name=self.name)
        for number, node in enumerate(self.nodes):
            graph.add_node(node, **({"host": True} if number < self.hosts else {}))
        for link, name in enumerate(self.link_names):
            graph.add_edge(self.nodes[self.tail[link]], self.nodes[self.head[link]], name=name,
                           capacity=float(self.capacity[link]))
        return graph


def _loops(hosts: int, link_of: dict[tuple[int, int], int]) -> Ints:
    """Return, for each host, its first link out that has a link back, and that link; or -1."""
    loops = np.full((hosts, 2), -1)
    for (start, end), link in link_of.items():
        if start < hosts and loops[start, 0] < 0 and (end, start) in link_of:
            loops[start] = link, link_of[end, start]
    return loops
