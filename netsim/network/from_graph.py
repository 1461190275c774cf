"""Networks from networkx graphs, and from files of graphs: GraphML, GML and node-link JSON."""

from __future__ import annotations

import re
import reprlib
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

from netsim.base.files import stem_of, suffix_of
from netsim.base.json_tree import parse_json
from netsim.base.lazy import nx
from netsim.base.reading import in_file, read_text
from netsim.base.units import LONG_LATENCY, Quantity, decimal, parse_rate, parse_seconds
from netsim.base.values import (
    about,
    as_flag,
    as_list,
    as_name,
    as_path,
    as_share,
    as_weight,
    is_number,
    optional,
    plain,
    refuse_twice,
    refused,
)
from netsim.errors import InputError, NetsimWarning, TraceError, UnknownNameError
from netsim.network.graph import GraphTopology
from netsim.network.routing import Paths
from netsim.network.spray import sprayed
from netsim.network.wire import Wire
from netsim.network.wired import takes_wire

#: The attribute of edges whose numbers are bits per second, in the Internet Topology Zoo.
_IN_BITS = "LinkSpeedRaw"

#: Matches the beginning of an attribute's name, but not that of a quantity.
_NAME = re.compile(r"\s*[A-Za-z_]")

#: The most that (number of links x largest weight) / smallest weight may be: sums of floats then
#: tell paths apart, and every link of a path leads nearer to its end.
_WIDEST = 1e12


@takes_wire
def from_networkx(graph: nx.Graph, *, hosts: Iterable[Hashable] | str | None = None,
                  capacity: Quantity | None = None, attribute: str = "capacity",
                  unit: str | float | None = None, directed: bool | None = None,
                  routing: str = "ecmp", paths: Paths | str | None = None, relay: bool = True,
                  name: str | None = None, loopback_uses_ports: bool = False) -> GraphTopology:
    """Make a network from a networkx graph, which may be directed and have parallel edges.

    An undirected edge becomes two links, one in each direction, each with the capacity of the edge.
    A link is named by the edge's attribute ``name``, followed by ``:from->to`` if the edge is
    undirected; without this attribute, its name is ``from->to``.

    Parameters
    ----------
    graph : networkx.Graph, DiGraph, MultiGraph or MultiDiGraph
    hosts : iterable of nodes or "all", optional
        The nodes that are hosts; host i is the i-th of them. With ``"all"``, every node is one. By
        default, the nodes with the attribute ``host=True`` or ``kind="host"``, in the graph's
        order, or, if there are none, the nodes with a single neighbour, of which there must be two.
    capacity : quantity or str, optional
        Capacity of edges without the `attribute`, in bytes/s or with a unit, as in ``"10Gbps"``; or
        the name of an attribute of edges, which is then the `attribute`.
    attribute : str
        The attribute of edges that holds their capacity. By default ``"capacity"``; or
        ``"bandwidth"``, if no edge has ``"capacity"`` and `capacity` is not given. Numbers are
        bytes/s, but bits/s in ``"LinkSpeedRaw"``, an attribute of the Internet Topology Zoo. The
        attributes ``latency`` and ``efficiency`` are read as well; see `wired`.
    unit : str or float, optional
        The unit of capacities that are plain numbers, such as ``"bps"`` or ``"Gbps"``; or the
        bytes/s that 1 stands for.
    directed : bool, optional
        With False, edges of a directed graph lead both ways, unless an edge leads back already. By
        default, as the graph says.
    routing : {"ecmp", "shortest", "spray"}
        Flows take shortest paths, in hops unless `paths` names a weight. With ``"ecmp"``, each node
        chooses among the next links of shortest paths by a hash of (src, dst, key); with
        ``"shortest"``, it always chooses the first of them. With ``"spray"``, each flow is spread
        over all parallel links. Parallel links
        are those between the same two nodes, and those from a node to all switches with the same
        attribute ``layer``. They form a *trunk*, one link with the sum of their capacities.
    paths : mapping, iterable or str, optional
        Paths to use instead of shortest paths between some pairs of hosts, as lists of nodes:
        ``{(a, b): path}``; ``{(a, b): [path, path]}``, where a hash chooses one of the paths for
        each flow; ``{a: {b: path}}``, as of `networkx.all_pairs_dijkstra_path`, of which paths that
        begin or end at a switch are left out; or a list of paths. Or the name of an attribute of
        all edges, such as ``"weight"``: shortest paths are then those whose edges have the least
        sum of it.
    relay : bool
        Whether paths may lead through hosts.
    name : str, optional
        A label; the graph's name if not given.
    loopback_uses_ports : bool
        Whether a flow from a host to itself uses the host's first link and the link back.

    Raises
    ------
    InputError
        If there is no host or an unknown one, an edge has no capacity or weight, a path is invalid,
        or two hosts have no path between them.
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
        raise refused("graph", "a networkx graph", graph)
    label = optional(as_name)(name, "network: name") or str(graph.name or "graph")
    undirected = _is_undirected(graph, directed, label)
    if undirected and graph.is_directed():
        graph = _both_ways(graph)
    read = _Capacities(graph, capacity, attribute, unit, label)
    chosen = _hosts(graph, hosts, label)
    nodes = list(dict.fromkeys([*chosen, *graph]))
    number = {node: i for i, node in enumerate(nodes)}
    ends, capacities, edges = [], [], []
    names: list[str] = []
    for start, end, place, edge in _edges(graph, nodes):
        ends.append((number[start], number[end]))
        names.append(_link_name(undirected, f"{start}->{end}", place, edge))
        edges.append(edge)
        capacities.append(read.of(edge, names[-1]))
    _check_names(names, nodes, label)
    _warn_of_loops(graph, label)
    weights = None
    if isinstance(paths, str):
        if routing == "spray":
            raise InputError(f"network {label!r}: paths={paths!r} goes by the weights of single "
                             "links, and routing='spray' by trunks of them; give one of both",
                             "paths")
        weights, paths = _weights(edges, paths, names, label), None
    network = GraphTopology(label, nodes, len(chosen), ends, capacities, names, routing=routing,
                            paths=paths, relay=relay, loopback_uses_ports=loopback_uses_ports,
                            weights=weights)
    if any({"latency", "efficiency"} & edge.keys() for edge in edges):
        network.set_wire(_wire_of(edges, names))
    layers = {node: layer for node, layer in graph.nodes(data="layer") if layer is not None}
    return sprayed(network, routing, layers)


def _is_undirected(graph: nx.Graph, directed: bool | None, label: str) -> bool:
    """Whether edges lead both ways: as the graph says, or as `directed` does."""
    directed = optional(as_flag)(directed, f"network {label!r}: directed")
    if directed and not graph.is_directed():
        raise InputError(f"network {label!r}: directed=True is for directed graphs; the edges of "
                         "this one lead both ways", "directed")
    return not graph.is_directed() or directed is False


def _both_ways(graph: nx.Graph) -> nx.Graph:
    """Return a copy of a directed graph in which each edge without one that leads back has one."""
    both = graph.copy()
    for start, end in dict.fromkeys(graph.edges()):
        edges, back = graph[start][end], graph.get_edge_data(end, start, default={})
        if graph.is_multigraph():
            both.add_edges_from((end, start, edge) for edge in [*edges.values()][len(back):])
        elif not graph.has_edge(end, start):
            both.add_edges_from([(end, start, edges)])
    return both


@about("paths")
def _weights(edges: Sequence[dict[str, Any]], attribute: str, names: Sequence[str], label: str
             ) -> list[float]:
    """Return the weights of links, from an attribute of their edges."""
    weights = []
    for name, edge in zip(names, edges, strict=True):
        if edge.get(attribute) is None:
            raise InputError(f"network {label!r}: paths={attribute!r} needs a weight of every "
                             f"edge, and link {name!r} has none{_others(edge)}")
        weights.append(as_weight(edge[attribute],
                                 f"network {label!r}: the weight of link {name!r}"))
    if weights and max(weights) * len(weights) > _WIDEST * min(weights):
        raise InputError(f"network {label!r}: paths={attribute!r}: weights from {min(weights):g} "
                         f"to {max(weights):g} are too far apart to compare sums of them")
    return weights


def _check_names(names: Sequence[str], nodes: Sequence[Hashable], label: str) -> None:
    """Check that no two links have the same name; nodes that are written alike may be why.

    All names must be texts that results can be written with.
    """
    for name in (*map(str, nodes), *names):
        as_name(name, f"network {label!r}: the name of a node or a link")
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
    latency = [parse_seconds(edge.get("latency", 0.0), f"{name}: latency", usual=LONG_LATENCY)
               for name, edge in zip(names, edges, strict=True)]
    part = [as_share(edge.get("efficiency", 1.0), f"{name}: efficiency")
            for name, edge in zip(names, edges, strict=True)]
    return Wire(len(edges), latency, part, link_names=tuple(names))


@about("hosts")
def _hosts(graph: nx.Graph, hosts: Iterable[Hashable] | str | None, label: str) -> list[Hashable]:
    if isinstance(hosts, str) and hosts == "all":
        hosts = graph.nodes
    if hosts is not None:
        if isinstance(hosts, nx.classes.reportviews.NodeView):  # graph.nodes: a mapping, too
            hosts = list(hosts)
        chosen: list[Hashable] = list(as_list(
            hosts, f"network {label!r}: hosts", object, "nodes"))
        for node in chosen:
            if not isinstance(node, Hashable) or node not in graph:
                raise InputError(f"network {label!r}: the host {node!r} is not a node of the "
                                 f"graph, which has {reprlib.repr(list(graph))[1:-1]}")
        refuse_twice(chosen, f"network {label!r}: hosts lists twice")
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


def _link_name(undirected: bool, arrow: str, place: int, edge: dict[str, Any]) -> str:
    if edge.get("name") is not None:
        return f"{edge['name']}:{arrow}" if undirected else str(edge["name"])
    return f"{arrow}#{place + 1}" if place else arrow


def _others(attributes: Iterable[Hashable]) -> str:
    """Return the attributes that an edge has, for a message."""
    others = ", ".join(repr(name) for name in attributes if name != "name")
    return f"; choose from: {others}" if others else ""


class _Capacities:
    """Reads the capacities of edges; the arguments are those of `from_networkx`."""

    def __init__(self, graph: nx.Graph, capacity: Quantity | None, attribute: str,
                 unit: str | float | None, label: str) -> None:
        if isinstance(capacity, str) and _NAME.match(capacity):
            if attribute not in ("capacity", capacity):
                raise InputError(f"network {label!r}: capacity={capacity!r} and "
                                 f"attribute={attribute!r} name two attributes; give one",
                                 "attribute")
            has = {name for _, _, edge in graph.edges(data=True) for name in edge}
            if capacity not in has:
                raise InputError(f"network {label!r}: capacity={capacity!r} is neither a capacity, "
                                 "such as '10Gbps', nor an attribute of an edge"
                                 f"{_others(sorted(has, key=str))}", "capacity")
            attribute, capacity = capacity, None
        self._attribute, self._label = attribute, label
        self._unit = _bytes_per_s(unit, f"network {label!r}: unit")
        self._default = None if capacity is None else self._rate(capacity, "capacity")
        if unit is None and attribute == _IN_BITS:
            self._unit = 1 / 8
        self._known: dict[str | float, float] = {}  # most links of large networks are alike

    def of(self, edge: dict[str, Any], link: str) -> float:
        """Return the capacity of the edge of a link."""
        own = edge.get(self._attribute)
        if own is None and self._default is not None:
            return self._default
        if own is None and self._attribute == "capacity":
            own = edge.get("bandwidth")
        if own is None:
            raise InputError(f"network {self._label!r}: link {link!r} has no capacity; give the "
                             f"edge the attribute {self._attribute!r}, or capacity=... with a "
                             "capacity for all edges without one, or with the name of another "
                             f"attribute{_others(edge)}")
        if not isinstance(own, str | float):  # 1 and True are the same key
            return self._rate(own, f"the capacity of link {link!r}")
        if own not in self._known:
            self._known[own] = self._rate(own, f"the capacity of link {link!r}")
        return self._known[own]

    def _rate(self, given: Any, what: str) -> float:
        number = decimal(given) if isinstance(given, str) else plain(given)
        if self._unit is not None and is_number(number) and number == number:
            given = f"{number * self._unit!r}B/s"
        return parse_rate(given, f"network {self._label!r}: {what}", strict=True)


def _bytes_per_s(unit: str | float | None, what: str) -> float | None:
    """Return what 1 stands for, in bytes per second."""
    if unit is None:
        return None
    unit = plain(unit)
    if not isinstance(unit, str | int | float) or isinstance(unit, bool):
        raise refused(what, "a unit such as 'Gbps', or the bytes/s that 1 stands for", unit)
    return parse_rate(f"1{unit.strip()}" if isinstance(unit, str) else f"{unit!r}B/s", what,
                      strict=True)


# --- files ---------------------------------------------------------------------------------


@takes_wire
def graph(file: str | Path, *, hosts: Iterable[Hashable] | str | None = None,
          capacity: Quantity | None = None, attribute: str = "capacity",
          unit: str | float | None = None, directed: bool | None = None, routing: str = "ecmp",
          paths: Paths | str | None = None, relay: bool = True, name: str | None = None,
          loopback_uses_ports: bool = False) -> GraphTopology:
    """Read any graph with capacities from a GraphML, GML or node-link JSON file.

    Parameters
    ----------
    file : path-like
        A file with the suffix .graphml, .gml or .json.
    hosts, capacity, attribute, unit, directed, routing, paths, relay, loopback_uses_ports
        See `from_networkx`.
    name : str, optional
        A label; by default the graph's name, or the file's.

    Raises
    ------
    TraceError
        If the file cannot be read, or does not describe a network.
    """
    path = Path(as_path(file, "file"))
    suffix = suffix_of(path)
    if suffix not in _PARSERS:
        raise UnknownNameError("suffix of a graph's file", suffix, _PARSERS, key="file")
    parsed = _PARSERS[suffix](read_text(path), path)
    with in_file(path):
        return from_networkx(parsed, hosts=hosts, capacity=capacity, attribute=attribute,
                             unit=unit, directed=directed, routing=routing, paths=paths,
                             relay=relay, name=name or str(parsed.name) or stem_of(path),
                             loopback_uses_ports=loopback_uses_ports)


def _graphml(text: str, path: Path) -> nx.Graph:
    try:
        return nx.parse_graphml(text)
    except ParseError as error:
        raise TraceError(f"is not GraphML: {error}", path, error.position[0]) from error
    except Exception as error:  # the parser raises exceptions of many types
        raise TraceError(f"is not GraphML: {_message(error)}", path) from error


def _gml(text: str, path: Path) -> nx.Graph:
    label = "label" if re.search(r"\blabel\b", text) else "id"
    try:
        return nx.parse_gml(text, label=label)
    except Exception as error:  # as above
        line = re.search(r"at \((\d+), \d+\)", str(error))
        raise TraceError(f"is not GML: {_message(error)}", path, int(line[1]) if line else None
                         ) from error


def _message(error: Exception) -> str:
    told = f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else str(error)
    if re.search(r"^edge .* is duplicated", told) and "multigraph" not in told:
        told += '; for parallel edges, the graph must begin with "multigraph 1"'
    return told


def _node_link(text: str, path: Path) -> nx.Graph:
    """Parse node-link JSON, whose edges may be called ``links`` or ``edges``.

    networkx is not used because its versions expect different names, and because it silently adds
    unknown nodes that edges name.
    """
    data = parse_json(text, path)
    nodes, edges = _records(data, ("nodes",), path), _records(data, ("links", "edges"), path)
    directed, several = (data.get(key, False) for key in ("directed", "multigraph"))
    kind = {(False, False): nx.Graph, (True, False): nx.DiGraph, (False, True): nx.MultiGraph,
            (True, True): nx.MultiDiGraph}[bool(directed), bool(several)]
    attributes = data.get("graph")
    made = kind(**{str(key): value for key, value in attributes.items()}
                if isinstance(attributes, dict) else {})
    for place, node in enumerate(nodes):
        made.add_node(_node(node, "id", f"node {place}", path),
                      **{key: value for key, value in node.items() if key != "id"})
    if len(made) < len(nodes):
        raise TraceError("two nodes have the same id", path)
    for place, edge in enumerate(edges):
        ends = [_node(edge, end, f"edge {place}", path) for end in ("source", "target")]
        for end in ends:
            if end not in made:
                raise TraceError(f"edge {place} has the unknown node {end!r}", path)
        made.add_edges_from([(*ends, {key: value for key, value in edge.items()
                                      if key not in ("source", "target", "key")})])
    return made


def _records(data: Any, keys: tuple[str, ...], path: Path) -> list[dict[str, Any]]:
    found = next((data[key] for key in keys if key in data), None
                 ) if isinstance(data, dict) else None
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise TraceError(f"is not a node-link graph: {' or '.join(map(repr, keys))} must be a "
                         "list of objects", path)
    return found


def _node(record: dict[str, Any], key: str, what: str, path: Path) -> str | int:
    node = record.get(key)
    if isinstance(node, bool) or not isinstance(node, str | int):
        raise TraceError(f"{what}: {key!r} must be text or a whole number, not {node!r}", path)
    return node


_PARSERS: dict[str, Callable[[str, Path], nx.Graph]] = {
    ".graphml": _graphml, ".gml": _gml, ".json": _node_link}

#: Suffixes of graph files. A ``.json`` file may also be an instance.
GRAPH_SUFFIXES = tuple(_PARSERS)
