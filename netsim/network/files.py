"""Read networks from TOML descriptions, instances and graph files, or make ready-made ones."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from netsim.base.files import ready_made_folder, stem_of, suffix_of
from netsim.base.json_tree import parse_json
from netsim.base.limits import limited
from netsim.base.plugins import Registry
from netsim.base.reading import in_file, read_description, read_text, ready_made_in
from netsim.base.units import question_units
from netsim.base.values import as_path, known_names, plain, refused
from netsim.base.xml_tree import root_name
from netsim.errors import InputError, TraceError, UnknownNameError
from netsim.network.from_graph import GRAPH_SUFFIXES
from netsim.network.topology import Topology

#: Builders by the ``kind`` that network tables and files name.
TOPOLOGIES = Registry(
    "topology", {
        "big-switch": "netsim.network.builders:big_switch",
        "leaf-spine": "netsim.network.builders:leaf_spine",
        "fat-tree": "netsim.network.builders:fat_tree",
        "gpu-cluster": "netsim.network.builders:gpu_cluster",
        "rail-pod": "netsim.network.builders:rail_pod",
        "ring": "netsim.network.builders:ring",
        "torus": "netsim.network.builders:torus",
        "edge-cloud": "netsim.network.builders:edge_cloud",
        "graph": "netsim.network.from_graph:graph",
        "htsim": "netsim.network.simulators:htsim",
        "hpcc": "netsim.network.simulators:hpcc",
        "nccl": "netsim.network.nccl:nccl",
        "simgrid": "netsim.network.simgrid:simgrid",
        "infragraph": "netsim.network.infragraph:infragraph",
    },
    accepts=lambda made: isinstance(made, Topology),
    refusal="is not a network: it must make a netsim.Topology", group="topologies")

#: Options of a big switch that are rates.
_RATES = {"capacity", "egress", "ingress"}

#: Abbreviates lists in names.
_SHORT = reprlib.Repr()
_SHORT.maxlist = 4

#: Matches names made by `changed_name`.
_CHANGED = re.compile(r"(.*) \((\w+=.*)\)", re.DOTALL)

#: Kinds of the files of other simulators, by suffix; those of graphs have a kind of their own. XML
#: whose root is a platform is SimGrid's.
_KINDS = {".topo": "htsim", ".txt": "hpcc", ".xml": "nccl", ".yaml": "infragraph",
          ".yml": "infragraph"}

#: Kinds in files of edge-clouds, which `netsim.edge` reads.
_EDGE = ("edge-servers", "edge-listed")


def make_network(kind: str, **options: Any) -> Topology:
    """Build a network of a kind: a name of `TOPOLOGIES`, or a user-defined ``"module:function"``.

    The options are those of the builder, and ``limits``, which replaces numbers of
    `netsim.base.limits.LIMITS`.
    """
    with limited(options.pop("limits", None)):
        made: Topology = TOPOLOGIES.make(kind, options)
    return made


@known_names
def read_network(source: str | Path, **changes: Any) -> Topology:
    """Read a network from a file, or make a ready-made one by name.

    Parameters
    ----------
    source : path-like or str
        A TOML file with a ``kind`` and its options; a graph, as GraphML, GML or JSON with
        ``nodes`` and ``links``, see `from_networkx`; an infrastructure of InfraGraph, as YAML or
        as JSON with ``devices`` and ``instances``; a JSON instance with ``hosts`` and
        ``port_capacity_bytes_per_s``, or ``egress_capacity_bytes_per_s`` and
        ``ingress_capacity_bytes_per_s``, and ``loopback_uses_ports``; the files of other
        simulators, by suffix: ``.topo`` of htsim, ``.txt`` of the HPCC simulator and SimAI,
        ``.xml`` of NCCL or SimGrid; or the name of a ready-made network, see `ready_made`.
    **changes
        Options that replace those of the file, such as ``capacity="40Gbps"``. They are added to
        the network's name, unless they include a `name`; see `changed_name`. All networks also
        have ``limits``; see `make_network`.

    Raises
    ------
    TraceError
        If the file cannot be read or has none of these forms.
    UnknownNameError
        If there is neither a file nor a ready-made network of this name.
    InputError
        If one of the changes is invalid.
    """
    changes = plain(changes)
    path, description = network_description(source)
    kind = description.pop("kind")
    if "kind" in changes:
        raise InputError(f"kind cannot be changed to {reprlib.repr(changes['kind'])}: {source} is "
                         f"a {kind!r}; build a network of another kind, as netsim.ring does",
                         "kind")
    # The keys of an instance name the unit of its capacities, so that low rates are no mistake.
    has_units = suffix_of(path) == ".json" and kind == "big-switch" and not _RATES & changes.keys()
    try:
        with in_file(path), question_units(False) if has_units else nullcontext():
            network = make_network(kind, **description | changes)
    except TraceError as error:
        if error.path == path and error.key in changes and error.__cause__ is not None:
            raise error.__cause__ from None  # the error is in the changes, not in the file
        raise
    if "name" not in changes:
        # Options that the file of a graph lacks are additions, not changes.
        network.name = changed_name(network.name, {
            key: value for key, value in changes.items()
            if key != "limits" and description.get(key) != value
            and (key in description or kind != "graph")})
    return network


def network_description(source: str | Path) -> tuple[Path, dict[str, Any]]:
    """Return the file of a network, and its ``kind`` and options; see `read_network`."""
    path = Path(as_path(source, "source"))
    if suffix_of(path) not in (".toml", *GRAPH_SUFFIXES, *_KINDS):
        path = ready_made_folder("topologies") / f"{source}.toml"
        if not path.is_file():
            raise UnknownNameError("network", str(source), ready_made(), key="source")
    description = _describe(path)
    kind = description.get("kind")
    if kind in _EDGE:
        raise TraceError("describes an edge-cloud, not a network; read it with "
                         "netsim.read_edge_cloud", path)
    if kind is None:
        raise TraceError(f"names no kind; choose from: {', '.join(TOPOLOGIES)}", path)
    return path, description


def changed_name(name: str, changes: Mapping[str, Any]) -> str:
    """Return the name of a network with changed options, which lists their new values.

    >>> changed_name("ring-8-100g", {"capacity": "40Gbps"})
    'ring-8-100g (capacity=40Gbps)'
    >>> changed_name("ring-8-100g (capacity=40Gbps)", {"capacity": "5Gbps", "hosts": 4})
    'ring-8-100g (capacity=5Gbps, hosts=4)'
    """
    # Without the check, a name of many opening brackets would take quadratic time.
    before = _CHANGED.fullmatch(name) if name.endswith(")") else None
    base, listed = (name, "") if before is None else before.groups()
    options = dict(each.split("=", 1) for each in re.split(r", (?=\w+=)", listed) if each)
    options |= {key: value if isinstance(value, str) else _SHORT.repr(value)
                for key, value in changes.items()}
    listed = ", ".join(f"{key}={value}" for key, value in options.items())
    return f"{base} ({listed})" if listed else base


def _describe(path: Path) -> dict[str, Any]:
    """Read the kind and the options of a network from a file."""
    suffix = suffix_of(path)
    if suffix in (".graphml", ".gml"):
        return {"kind": "graph", "file": path}
    if suffix in _KINDS:
        of_simgrid = suffix == ".xml" and root_name(path) == "platform"
        return {"kind": "simgrid" if of_simgrid else _KINDS[suffix], "file": path}
    if suffix == ".json":
        instance = parse_json(read_text(path), path)
        if isinstance(instance, Mapping) and "nodes" in instance and "hosts" not in instance:
            return {"kind": "graph", "file": path}
        if isinstance(instance, Mapping) and (
                "infrastructure" in instance or {"devices", "instances"} <= instance.keys()):
            return {"kind": "infragraph", "file": path}
        return {"name": stem_of(path)} | _from_instance(instance, path)
    return read_description(path)


def ready_made() -> dict[str, str]:
    """List the ready-made networks: names to one-line descriptions."""
    return ready_made_in("topologies", lambda table: table.get("kind") in TOPOLOGIES)


def _from_instance(instance: Any, path: Path) -> dict[str, Any]:
    if not isinstance(instance, Mapping):
        raise TraceError("must hold an object with the key 'hosts' or 'nodes'", path)
    if "hosts" not in instance:
        raise TraceError("has no key 'hosts', of an instance, or 'nodes', of a graph", path)
    description = {"kind": "big-switch", "hosts": instance["hosts"]}
    ports = instance.get("port_capacity_bytes_per_s")
    for direction in ("egress", "ingress"):
        capacity = instance.get(f"{direction}_capacity_bytes_per_s", ports)
        if capacity is None:
            raise TraceError("needs port_capacity_bytes_per_s, or egress_capacity_bytes_per_s "
                             "and ingress_capacity_bytes_per_s", path)
        description[direction] = capacity
    return description | {"loopback_uses_ports": instance.get("loopback_uses_ports", False)}


def as_network(given: Topology | str | Path) -> Topology:
    """Convert an argument to a network: from a topology, a name or a path."""
    if isinstance(given, str | Path):
        return read_network(given)
    if not isinstance(given, Topology):
        raise refused("network", "a Topology, a name or a path", given)
    return given
