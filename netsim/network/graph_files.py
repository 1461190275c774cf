"""Read graphs from GraphML, GML and node-link JSON files."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

from netsim.base.files import suffix_of
from netsim.base.json_tree import parse_json
from netsim.base.lazy import nx
from netsim.base.reading import in_file, read_text
from netsim.base.units import Quantity
from netsim.base.values import as_path
from netsim.errors import TraceError, UnknownNameError
from netsim.network.from_graph import from_networkx
from netsim.network.graph import GraphTopology
from netsim.network.routing import Paths
from netsim.network.wired import takes_wire


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
                             relay=relay, name=name or str(parsed.name) or path.stem,
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
