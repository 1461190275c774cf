"""Networks from networkx graphs."""

from __future__ import annotations

import reprlib
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from netsim.checks import check_name, check_sequence
from netsim.errors import InputError, NetsimWarning
from netsim.late import nx
from netsim.network.given import Paths
from netsim.network.graph import GraphTopology
from netsim.network.spray import sprayed
from netsim.network.wire import Wire
from netsim.network.wired import parse_efficiency, takes_wire
from netsim.plain import plain_numbers
from netsim.units import Quantity, parse_rate, parse_seconds

__all__ = ["from_networkx"]

#: The attribute of edges whose numbers are bits per second, in the Internet Topology Zoo.
_IN_BITS = "LinkSpeedRaw"


@takes_wire
@plain_numbers
def from_networkx(graph: nx.Graph, *, hosts: Iterable[Hashable] | None = None,
                  capacity: Quantity | None = None, attribute: str = "capacity",
                  routing: str = "ecmp", paths: Paths | None = None, relay: bool = True,
                  name: str | None = None, loopback_uses_ports: bool = False) -> GraphTopology:
    """Make a network from a networkx graph, which may be directed and have parallel edges.

    An undirected edge becomes two links, one in each direction, each with the capacity of the edge.
    A link is named by the edge's attribute ``name``, followed by ``:from->to`` if the edge is
    undirected; without this attribute, its name is ``from->to``.

    Parameters
    ----------
    graph : networkx.Graph, DiGraph, MultiGraph or MultiDiGraph
    hosts : iterable of nodes, optional
        The nodes that are hosts; host i is the i-th of them. By default, the nodes with the
        attribute ``host=True`` or ``kind="host"``, in the graph's order, or, if there are none,
        the nodes with a single neighbour, of which there must be two.
    capacity : quantity, optional
        Capacity of edges without the `attribute`, in bytes/s or with a unit, as in ``"10Gbps"``.
    attribute : str
        The attribute of edges that holds their capacity. By default ``"capacity"``; or
        ``"bandwidth"``, if no edge has ``"capacity"`` and `capacity` is not given. Numbers are
        bytes/s, but bits/s in ``"LinkSpeedRaw"``, an attribute of the Internet Topology Zoo. The
        attributes ``latency`` and ``efficiency`` are read as well; see `wired`.
    routing : {"ecmp", "shortest", "spray"}
        Flows take shortest paths, in hops. With ``"ecmp"``, each node chooses among the next links
        of shortest paths by a hash of (src, dst, key); with ``"shortest"``, it always chooses the
        first of them. With ``"spray"``, each flow is spread over all parallel links. Parallel links
        are those between the same two nodes, and those from a node to all switches with the same
        attribute ``layer``. They form a *trunk*, one link with the sum of their capacities.
    paths : mapping or iterable, optional
        Paths to use instead of shortest paths between some pairs of hosts, as lists of nodes:
        ``{(a, b): path}``; ``{(a, b): [path, path]}``, where a hash chooses one of the paths for
        each flow; or a list of paths.
    relay : bool
        Whether paths may lead through hosts.
    name : str, optional
        A label; the graph's name if not given.
    loopback_uses_ports : bool
        Whether a flow from a host to itself uses the host's first link and the link back.

    Raises
    ------
    InputError
        If there is no host or an unknown one, an edge has no capacity, a path is invalid, or two
        hosts have no path between them.
    UnitError
        If a capacity cannot be read or is not positive.

    Warns
    -----
    NetsimWarning
        If edges lead from a node to itself, because they are left out.

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
    ends, capacities, edges = [], [], []
    names: list[str] = []
    known: dict[str | float, float] = {}  # most links of large networks are alike
    for start, end, place, edge in _edges(graph, nodes):
        ends.append((number[start], number[end]))
        names.append(_link_name(graph, f"{start}->{end}", place, edge))
        edges.append(edge)
        value = edge.get(attribute)
        if not isinstance(value, str | float):  # 1 and True are the same key
            capacities.append(_capacity(edge, attribute, capacity, names[-1], label))
            continue
        if value not in known:
            known[value] = _capacity(edge, attribute, capacity, names[-1], label)
        capacities.append(known[value])
    _check_names(names, nodes, label)
    _warn_of_loops(graph, label)
    network = GraphTopology(label, nodes, len(chosen), ends, capacities, names, routing=routing,
                            paths=paths, relay=relay, loopback_uses_ports=loopback_uses_ports)
    if any({"latency", "efficiency"} & edge.keys() for edge in edges):
        network.set_wire(_wire_of(edges, names))
    layers = {node: layer for node, layer in graph.nodes(data="layer") if layer is not None}
    return sprayed(network, routing, layers)


def _check_names(names: Sequence[str], nodes: Sequence[Hashable], label: str) -> None:
    """Check that no two links have the same name; nodes that are written alike may be why.

    All names must be texts that results can be written with.
    """
    for name in (*map(str, nodes), *names):
        check_name(name, f"network {label!r}: the name of a node or a link")
    (twice, count), = Counter(names).most_common(1) or [("", 0)]
    if count < 2:
        return
    known: dict[str, Hashable] = {}
    alike = next(((known[str(node)], node) for node in nodes
                  if known.setdefault(str(node), node) != node), None)
    why = "" if alike is None else (f"; the names of nodes {alike[0]!r} and {alike[1]!r} are the "
                                    f"same as text, {str(alike[1])!r}")
    raise InputError(f"network {label!r}: two links are named {twice!r}{why}")


def _warn_of_loops(graph: nx.Graph, label: str) -> None:
    loops = list(nx.nodes_with_selfloops(graph))
    if loops:
        warnings.warn(NetsimWarning(
            f"network {label!r}: edges from a node to itself are left out: those of "
            f"{reprlib.repr(loops)[1:-1]}"), stacklevel=5)


def _wire_of(edges: Sequence[dict[str, Any]], names: Sequence[str]) -> Wire:
    """Return the latencies and efficiencies that edges have as attributes."""
    latency = [parse_seconds(edge.get("latency", 0.0), f"{name}: latency")
               for name, edge in zip(names, edges, strict=True)]
    part = [parse_efficiency(edge.get("efficiency", 1.0), f"{name}: efficiency")
            for name, edge in zip(names, edges, strict=True)]
    return Wire(len(edges), latency, part, link_names=tuple(names))


def _hosts(graph: nx.Graph, hosts: Iterable[Hashable] | None, label: str) -> list[Hashable]:
    if hosts is not None:
        if isinstance(hosts, nx.classes.reportviews.NodeView):  # graph.nodes: a mapping, too
            hosts = list(hosts)
        chosen: list[Hashable] = list(check_sequence(
            hosts, object, f"network {label!r}: hosts", "nodes"))
        seen: set[Hashable] = set()
        for node in chosen:
            if not isinstance(node, Hashable) or node not in graph:
                raise InputError(f"network {label!r}: the host {node!r} is not a node of the "
                                 f"graph, which has {reprlib.repr(list(graph))[1:-1]}")
            if node in seen:
                raise InputError(f"network {label!r}: the host {node!r} is listed twice")
            seen.add(node)
    else:
        chosen = [node for node, attributes in graph.nodes.items()
                  if _is_host(node, attributes, label)]
        chosen = chosen or _leaf_nodes(graph, label)
    if not chosen:
        raise InputError(f"network {label!r} has no host: no node has host=True or kind='host', "
                         "and none has a single neighbour; name the hosts in hosts=[...]")
    return chosen


def _leaf_nodes(graph: nx.Graph, label: str) -> list[Hashable]:
    """Return the nodes with a single neighbour, which are the hosts if no node is marked."""
    neighbours = {node: {*nx.all_neighbors(graph, node)} - {node} for node in graph}
    for node, others in neighbours.items():
        if not others:  # otherwise, a host whose edge was forgotten would be dropped silently
            raise InputError(f"network {label!r}: node {node!r} has no edge; if it is not a host, "
                             "give the hosts the attribute host=True, or name them in hosts=[...]")
    leaves = [node for node, others in neighbours.items() if len(others) == 1]
    if len(leaves) == 1:  # it would be the only host, and no flow could use the network
        raise InputError(f"network {label!r}: no node has host=True or kind='host', and only "
                         f"{leaves[0]!r} has a single neighbour; name the hosts in hosts=[...]")
    return leaves


def _is_host(node: Hashable, attributes: dict[str, Any], label: str) -> bool:
    marked = attributes.get("host", attributes.get("kind") == "host")
    if marked not in (True, False):  # GML writes them 1 and 0
        raise InputError(f"network {label!r}: host of node {node!r} must be true or false, "
                         f"not {marked!r}")
    return bool(marked)


def _edges(graph: nx.Graph, nodes: Iterable[Hashable]
           ) -> Iterator[tuple[Hashable, Hashable, int, dict[str, Any]]]:
    """Yield start, end, position among parallel edges, and attributes of each link but loops.

    Links are in order of `nodes`; undirected edges are yielded in both directions.
    """
    neighbours, several = dict(graph.adjacency()), graph.is_multigraph()
    for start in nodes:
        for end, between in neighbours[start].items():
            if start == end:
                continue
            edges = between.values() if several else (between,)
            for place, edge in enumerate(edges):
                yield start, end, place, edge


def _link_name(graph: nx.Graph, arrow: str, place: int, edge: dict[str, Any]) -> str:
    if edge.get("name") is not None:
        return str(edge["name"]) if graph.is_directed() else f"{edge['name']}:{arrow}"
    return f"{arrow}#{place + 1}" if place else arrow


def _capacity(edge: dict[str, Any], attribute: str, default: Quantity | None, link: str,
              label: str) -> float:
    usual = edge.get("bandwidth") if attribute == "capacity" else None
    value = next((each for each in (edge.get(attribute), default, usual) if each is not None), None)
    if value is None:
        others = ", ".join(repr(name) for name in edge if name != "name")
        named = f"; attribute=... may name another of those it has, {others}" if others else ""
        raise InputError(f"network {label!r}: link {link!r} has no capacity; give the edge the "
                         f"attribute {attribute!r}, or a capacity for all edges without "
                         f"one{named}")
    rate = parse_rate(value, f"network {label!r}: the capacity of link {link!r}", strict=True)
    return rate / 8 if attribute == _IN_BITS and _is_plain(edge.get(attribute)) else rate


def _is_plain(value: object) -> bool:
    """Whether a rate is given, and has no unit."""
    return value is not None and not (isinstance(value, str) and value.strip()[-1:].isalpha())
