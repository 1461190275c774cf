"""Networks from graphs of any nodes and links, routed by shortest or user-defined paths."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.checks import check_name, check_sequence
from netsim.errors import InputError, UnknownNameError
from netsim.network.given import GivenPaths, Paths
from netsim.network.routing import Ints, ShortestPaths, flow_hash, reach
from netsim.network.topology import Topology
from netsim.network.wire import Wire
from netsim.network.wired import takes_wire
from netsim.plain import plain_numbers
from netsim.units import Quantity, parse_rate, parse_seconds

__all__ = ["ROUTING", "GraphTopology", "from_networkx"]

#: Ways to choose among the shortest paths of a flow.
ROUTING = ("ecmp", "shortest")

# Flows routed at once; this bounds the memory for their candidate links.
_BLOCK = 4096


class GraphTopology(Topology):
    """Hosts and switches connected by directed links; made by `from_networkx`.

    Parameters
    ----------
    name : str
        A label.
    nodes : sequence of hashable
        All nodes, hosts first: node i is host i.
    hosts : int
        Number of hosts.
    ends : array_like of int, shape (links, 2)
        The start node and the end node of each link, in order of start nodes.
    capacity, link_names, loopback_uses_ports
        See `Topology`.
    routing, paths, relay
        See `from_networkx`.

    Attributes
    ----------
    nodes : tuple of hashable
    bisection : float or None
        Bisection bandwidth in bytes per second, if the builder of the network knows it.

    Raises
    ------
    InputError
        If there is no path between two hosts, or a user-defined path is invalid.
    """

    bisection: float | None = None

    def __init__(self, name: str, nodes: Sequence[Hashable], hosts: int, ends: ArrayLike,
                 capacity: ArrayLike, link_names: Sequence[str], *, routing: str = "ecmp",
                 paths: Paths | None = None, relay: bool = True,
                 loopback_uses_ports: bool = False) -> None:
        super().__init__(name, hosts, capacity, link_names,
                         loopback_uses_ports=loopback_uses_ports)
        if routing not in ROUTING:
            raise UnknownNameError("routing", routing, ROUTING)
        if not isinstance(relay, bool):
            raise InputError(f"network {name!r}: relay must be true or false, not {relay!r}")
        self.nodes, self.routing, self.relay = tuple(nodes), routing, relay
        self._tail, self._head = np.asarray(ends, dtype=np.int64).reshape(-1, 2).T.copy()
        relays = np.arange(len(self.nodes)) >= (0 if relay else hosts)
        self._shortest = ShortestPaths(self._tail, self._head, relays)
        self._refuse_disconnected(relays.tolist())
        numbered = zip(self._tail.tolist(), self._head.tolist(), strict=True)
        link_of: dict[tuple[int, int], int] = {}
        for link, pair in enumerate(numbered):
            link_of.setdefault(pair, link)
        self._loops = _loops(hosts, link_of)
        self._given = None if paths is None else GivenPaths(
            paths, {node: i for i, node in enumerate(self.nodes)}, hosts, link_of)
        self._alive = self._given

    def _refuse_disconnected(self, relays: list[bool]) -> None:
        """Check that host 0 can reach all hosts, and be reached from them.

        If hosts relay, this means that all hosts are connected. If they do not, two hosts may be
        disconnected although both reach host 0, which `routes` detects.
        """
        ways: tuple[list[list[int]], ...] = ([[] for _ in relays], [[] for _ in relays])
        for start, end in zip(self._tail.tolist(), self._head.tolist(), strict=True):
            ways[0][start].append(end)
            ways[1][end].append(start)
        onward, back = (reach(0, neighbours, relays)[:self.hosts] for neighbours in ways)
        if -1 in onward:
            self._refuse_pair(0, onward.index(-1))
        if -1 in back:
            self._refuse_pair(back.index(-1), 0)

    def _refuse_pair(self, src: int, dst: int) -> None:
        raise InputError(f"network {self.name!r}: there is no path from host {src}, "
                         f"{self.nodes[src]!r}, to host {dst}, {self.nodes[dst]!r}")

    def routes(self, src: NDArray[np.int64], dst: NDArray[np.int64], key: NDArray[np.int64]
               ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the path of each flow; see `Topology.routes`.

        With ECMP, each node chooses among the links that lead nearer to the destination by a hash
        of (src, dst, key) and the node.

        Raises
        ------
        InputError
            If a host is out of range, or there is no path between two hosts.
        """
        src, dst, key = (np.asarray(each, dtype=np.int64) for each in (src, dst, key))
        for host in (src, dst):
            outside = host[(host < 0) | (host >= self.hosts)]
            if len(outside):
                raise InputError(f"host {outside[0]} is out of range: network {self.name!r} has "
                                 f"the hosts 0 to {self.hosts - 1}")
        hashes = flow_hash(src, dst, key) if self.routing == "ecmp" else None
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

    def links_of_switch(self, name: str) -> Ints:
        """Return the links that lead from or to a switch; see `Topology.links_of_switch`."""
        node = self._node_ids.get(name, -1)
        if node < self.hosts:
            switches = [str(each) for each in self.nodes[self.hosts:]]
            raise UnknownNameError(f"switch of network {self.name!r}", name, switches)
        return np.flatnonzero((self._tail == node) | (self._head == node))

    @property
    def avoidable(self) -> NDArray[np.bool_]:
        """Mask of the links that flows can avoid if dead: all but a host's only link in or out."""
        only = np.zeros(self.links, np.bool_)
        for end in (self._tail, self._head):
            only |= (end < self.hosts) & (np.bincount(end, minlength=len(self.nodes)) == 1)[end]
        return ~only

    def without(self, dead: NDArray[np.bool_]) -> GraphTopology:
        """Return this network with routes that avoid dead links.

        Pairs with user-defined paths use only those of them that remain; see `reaches`.
        """
        other = copy(self)
        other._shortest = self._shortest.without(dead)
        other._alive = None if self._given is None else self._given.without(dead)
        return other

    def reaches(self, src: Ints, dst: Ints) -> NDArray[np.bool_]:
        """Return the mask of the pairs of hosts with a path; False for a host and itself."""
        found = (src != dst) & (self._shortest.hops(src, dst) >= 0)
        if self._given is not None and self._alive is not None:
            found &= ~self._given.has(src, dst)
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
            lost = np.flatnonzero(self._shortest.hops(src[flow], dst[flow]) < 0)
            if len(lost):
                self._refuse_pair(int(src[flow][lost[0]]), int(dst[flow][lost[0]]))
            for part, link in self._shortest.walk(src[flow], dst[flow],
                                                  None if hashes is None else hashes[flow]):
                yield flow[part], link

    def to_networkx(self) -> nx.DiGraph:
        """Return the network as a graph; see `Topology.to_networkx`.

        It is a `networkx.MultiDiGraph` if there are parallel links.
        """
        pairs = set(zip(self._tail.tolist(), self._head.tolist(), strict=True))
        kind = nx.DiGraph if len(pairs) == self.links else nx.MultiDiGraph
        graph = kind(name=self.name)
        for number, node in enumerate(self.nodes):
            graph.add_node(node, **({"host": True} if number < self.hosts else {}))
        for link, name in enumerate(self.link_names):
            graph.add_edge(self.nodes[self._tail[link]], self.nodes[self._head[link]], name=name,
                           capacity=float(self.capacity[link]))
        return graph


def _loops(hosts: int, link_of: dict[tuple[int, int], int]) -> Ints:
    """Return, for each host, its first link out that has a link back, and that link; or -1."""
    loops = np.full((hosts, 2), -1)
    for (start, end), link in link_of.items():
        if start < hosts and loops[start, 0] < 0 and (end, start) in link_of:
            loops[start] = link, link_of[end, start]
    return loops


@takes_wire
@plain_numbers
def from_networkx(graph: nx.Graph, *, hosts: Iterable[Hashable] | None = None,
                  capacity: Quantity | None = None, routing: str = "ecmp",
                  paths: Paths | None = None, relay: bool = True, name: str | None = None,
                  loopback_uses_ports: bool = False) -> GraphTopology:
    """Make a network of a networkx graph, which may be directed and may have parallel edges.

    An undirected edge becomes two links, one in each direction, with its capacity each. A link is
    named by the edge's attribute ``name``, followed by ``:from->to`` if the edge is undirected;
    without this attribute, its name is ``from->to``.

    Parameters
    ----------
    graph : networkx.Graph, DiGraph, MultiGraph or MultiDiGraph
    hosts : iterable of nodes, optional
        The nodes that are hosts; host i is the i-th of them. By default, the nodes with the
        attribute ``host=True`` or ``kind="host"``, in the graph's order, or, if there are none,
        the nodes with a single neighbour.
    capacity : quantity, optional
        Capacity of edges without the attribute ``capacity``, in bytes/s or such as ``"10Gbps"``.
        The attributes ``latency`` and ``efficiency`` are read, too; see `wired`.
    routing : {"ecmp", "shortest"}
        Flows take shortest paths, in hops. With ``"ecmp"``, each node chooses among the next
        links of shortest paths by a hash of (src, dst, key); with ``"shortest"``, it always
        chooses the first of them.
    paths : mapping or iterable, optional
        Paths that flows between some pairs of hosts take instead, as lists of nodes:
        ``{(a, b): path}`` or ``{(a, b): [path, path]}``, of which the hash chooses one; or a list
        of paths.
    relay : bool
        Whether paths may lead through hosts.
    name : str, optional
        A label; the graph's name if not given.
    loopback_uses_ports : bool
        Whether a flow from a host to itself uses the host's first link and the link back.

    Raises
    ------
    InputError
        If there is no host or an unknown one, an edge has no capacity or is a self-loop, a path is
        invalid, or two hosts have no path between them.
    UnitError
        If a capacity cannot be read or is not positive.

    Examples
    --------
    >>> net = from_networkx(nx.star_graph(4), capacity="10Gbps")
    >>> [net.link_names[link] for link in net.route(0, 3)]
    ['1->0', '0->4']
    """
    if not isinstance(graph, nx.Graph):
        raise InputError(f"graph must be a networkx graph, not {graph!r}")
    if name is not None:
        check_name(name, "network: name")
    label = str(name or graph.name or "graph")
    chosen = _hosts(graph, hosts, label)
    nodes = list(dict.fromkeys([*chosen, *graph]))
    number = {node: i for i, node in enumerate(nodes)}
    ends, capacities = [], []
    names: list[str] = []
    for start, end, place, edge in _edges(graph, nodes):
        if start == end:
            raise InputError(f"network {label!r}: an edge leads from {start!r} to itself")
        ends.append((number[start], number[end]))
        names.append(_link_name(graph, f"{start}->{end}", place, edge))
        capacities.append(_capacity(edge, capacity, names[-1], label))
    network = GraphTopology(label, nodes, len(chosen), ends, capacities, names, routing=routing,
                            paths=paths, relay=relay, loopback_uses_ports=loopback_uses_ports)
    edges = [edge for *_, edge in _edges(graph, nodes)]
    if any({"latency", "efficiency"} & edge.keys() for edge in edges):
        network.wire = _wire_of(edges, names)
    return network


def _wire_of(edges: Sequence[dict[str, Any]], names: Sequence[str]) -> Wire:
    """Return the latencies and efficiencies that edges have as attributes."""
    latency = [parse_seconds(edge.get("latency", 0.0), f"{name}: latency")
               for name, edge in zip(names, edges, strict=True)]
    return Wire(len(edges), latency, [edge.get("efficiency", 1.0) for edge in edges],
                link_names=tuple(names))


def _hosts(graph: nx.Graph, hosts: Iterable[Hashable] | None, label: str) -> list[Hashable]:
    if hosts is not None:
        chosen: list[Hashable] = list(check_sequence(
            hosts, object, f"network {label!r}: hosts", "nodes"))
        seen: set[Hashable] = set()
        for node in chosen:
            if not isinstance(node, Hashable) or node not in graph:
                raise InputError(f"network {label!r}: the host {node!r} is not a node of the "
                                 "graph")
            if node in seen:
                raise InputError(f"network {label!r}: the host {node!r} is listed twice")
            seen.add(node)
    else:
        chosen = [node for node, attributes in graph.nodes.items()
                  if _is_host(node, attributes, label)]
        chosen = chosen or _leaf_nodes(graph, label)
    if not chosen:
        raise InputError(f"network {label!r} has no host: no node has host=True or kind='host', "
                         "and none has a single neighbour")
    return chosen


def _leaf_nodes(graph: nx.Graph, label: str) -> list[Hashable]:
    """Return the nodes with a single neighbour, which are the hosts if no node is marked."""
    neighbours = {node: set(nx.all_neighbors(graph, node)) for node in graph}
    for node, others in neighbours.items():
        if not others:  # otherwise, a host whose edge was forgotten would be dropped silently
            raise InputError(f"network {label!r}: node {node!r} has no edge; if it is not a host, "
                             "give the hosts the attribute host=True")
    return [node for node, others in neighbours.items() if len(others) == 1]


def _is_host(node: Hashable, attributes: dict[str, Any], label: str) -> bool:
    marked = attributes.get("host", attributes.get("kind") == "host")
    if marked not in (True, False):  # GML writes them 1 and 0
        raise InputError(f"network {label!r}: host of node {node!r} must be true or false, "
                         f"not {marked!r}")
    return bool(marked)


def _edges(graph: nx.Graph, nodes: Iterable[Hashable]
           ) -> Iterator[tuple[Hashable, Hashable, int, dict[str, Any]]]:
    """Yield start, end, position among parallel edges, and attributes of each link.

    Links are in order of `nodes`; undirected edges are yielded in both directions.
    """
    for start in nodes:
        for end, between in graph.adj[start].items():
            edges = between.values() if graph.is_multigraph() else (between,)
            for place, edge in enumerate(edges):
                yield start, end, place, edge


def _link_name(graph: nx.Graph, arrow: str, place: int, edge: dict[str, Any]) -> str:
    if edge.get("name") is not None:
        return str(edge["name"]) if graph.is_directed() else f"{edge['name']}:{arrow}"
    return f"{arrow}#{place + 1}" if place else arrow


def _capacity(edge: dict[str, Any], default: Quantity | None, link: str, label: str) -> float:
    value = edge.get("capacity")
    if value is None:
        value = default
    if value is None:
        raise InputError(f"network {label!r}: link {link!r} has no capacity; give the edge the "
                         "attribute 'capacity', or a capacity for all edges without one")
    return parse_rate(value, f"network {label!r}: the capacity of link {link!r}", strict=True)
