"""Networks from InfraGraph's infrastructures (JSON, YAML): instances of devices, and edges."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import permutations, product
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from netsim.base.files import stem_of, suffix_of
from netsim.base.json_tree import parse_json
from netsim.base.limits import check_limit
from netsim.base.reading import in_file, read_text
from netsim.base.units import Quantity, parse_rate
from netsim.base.values import about, as_flag, as_name, as_path, is_number, is_whole
from netsim.errors import MissingExtraError, NetsimWarning, TraceError, did_you_mean, unknown_name
from netsim.network.graph import GraphTopology
from netsim.network.simulators import Cable, cabled
from netsim.network.wired import takes_wire

#: Bytes per second, and seconds, of a link's units. A rate of transfers depends on the lanes.
_RATES = {"gigabits_per_second": 1.25e8, "gigabytes_per_second": 1e9}

_TIMES = {"ms": 1e-3, "us": 1e-6, "ns": 1e-9}

#: The keys of a link's tables.
_OF_LINKS = {"physical": ("bandwidth", "latency"), "latency": ("choice", *_TIMES),
             "bandwidth": ("choice", *_RATES, "gigatransfers_per_second")}

_SCHEMES = ("one2one", "many2many")

#: A name, perhaps with an index or a slice as in Python.
_PART = re.compile(r"([^\[\]]+)(?:\[(N(?::N(?::-?[1-9]\d{0,8})?)?)\])?".replace(
    "N", r"(?:-?\d{1,9})?"), re.ASCII)

#: The two ends, the rate and the latency of a cable.
_Edge = tuple[str, str, float, float]


class _Table(NamedTuple):
    """An object of the file, with its place for errors, such as ``devices[0].links[1].``."""

    path: Path
    where: str
    fields: Mapping[str, Any]

    def refuse(self, key: str, message: str) -> NoReturn:
        """Raise a `TraceError` for a field."""
        raise TraceError(f"{self.where}{key}{message}", self.path)

    def must_be(self, key: str, allowed: str) -> NoReturn:
        """Raise a `TraceError` for the value of a field."""
        self.refuse(key, f" must be {allowed}, not {self.fields.get(key)!r}")

    def text(self, key: str, what: str = "", known: Iterable[str] = ()) -> str:
        """Return a field that holds a text, and if it is of some kind, one that is known."""
        value = self.fields.get(key)
        if not isinstance(value, str):
            self.must_be(key, "a string")
        if what and value not in known:
            self.refuse(key, f": {unknown_name(what, value, known)}")
        return value

    def number(self) -> int:
        """Return the count of an instance or a component."""
        value: Any = self.fields.get("count")
        if not is_whole(value) or int(value) < 0:
            self.must_be("count", "a whole number of at least 0")
        self.limit("hosts", int(value), "count")
        return int(value)

    def limit(self, name: str, count: int, key: str) -> None:
        """Check that a field does not ask for too many."""
        check_limit(name, count, self.path, where=f"{self.where}{key}")

    def table(self, key: str) -> _Table:
        """Return a field that holds an object."""
        value = self.fields.get(key)
        if not isinstance(value, Mapping):
            self.must_be(key, "an object")
        return _Table(self.path, f"{self.where}{key}.", value)

    def tables(self, key: str) -> list[_Table]:
        """Return a field that may hold a list of objects."""
        found = self.fields.get(key, [])
        if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
            self.refuse(key, " must be a list of objects")
        return [_Table(self.path, f"{self.where}{key}[{k}].", each) for k, each in enumerate(found)]

    def named(self, key: str) -> dict[str, _Table]:
        """Return a list of objects by their names."""
        found: dict[str, _Table] = {}
        for each in self.tables(key):
            name = each.text("name")
            if name in found:
                self.refuse(key, f": the name {name!r} is there twice")
            found[name] = each
        return found


class Infrastructure:
    """The nodes and cables of an infrastructure's file.

    Nodes are named as in InfraGraph: by instance, components and their numbers, ``host.0.xpu.3``.
    """

    def __init__(self, document: _Table, capacity: Quantity | Mapping[str, Quantity] | None
                 ) -> None:
        self._document, self._capacity = document, capacity
        self.types: dict[str, tuple[str, str]] = {}  #: of each node, with its component's name
        #: Rate and latency between two nodes; of several edges the last one counts.
        self.cables: dict[tuple[str, str], tuple[float, float]] = {}
        self._expanded = 0
        self._devices = document.named("devices")
        self._components = {name: device.named("components")
                            for name, device in self._devices.items()}
        self._edges: dict[str, list[_Edge]] = {}  # of devices in use
        self._instances = document.named("instances")
        for name, instance in self._instances.items():
            device = instance.text("device", "device", self._devices)
            for k in self._numbers(instance):
                self._expand(f"{name}.{k}", device, ())
        self._join(self._edges_of(document, None))

    # Nodes.

    def _numbers(self, counted: _Table) -> range:
        """Return the numbers of an instance or a component, of which all nodes are made."""
        numbers = range(counted.number())
        self._expanded += len(numbers)
        check_limit("hosts", self._expanded, counted.path, where="instances and components")
        return numbers

    def _expand(self, prefix: str, device: str, around: tuple[str, ...]) -> None:
        """Add the nodes and the cables of a device, and of the devices in it."""
        for name, component in self._components[device].items():
            choice, custom = component.text("choice"), component.fields.get("custom")
            if choice == "custom" and isinstance(custom, Mapping):
                choice = str(custom.get("type"))
            elif choice == "device":
                component.text("name", "device", self._devices)
                if name in (*around, device):
                    component.refuse("name", f": device {name!r} is a part of itself")
            for k in self._numbers(component):
                if component.fields["choice"] == "device":
                    self._expand(f"{prefix}.{name}.{k}", name, (*around, device))
                else:
                    self.types[f"{prefix}.{name}.{k}"] = choice, name
        if device not in self._edges:
            self._edges[device] = list(self._edges_of(self._devices[device], device))
        self._join((f"{prefix}.{one}", f"{prefix}.{other}", rate, latency)
                   for one, other, rate, latency in self._edges[device])

    def _join(self, edges: Iterable[_Edge]) -> None:
        for one, other, rate, latency in edges:
            self.cables[min(one, other), max(one, other)] = rate, latency
            self._document.limit("cables", len(self.cables), "edges")

    # Edges.

    def _edges_of(self, table: _Table, device: str | None) -> Iterator[_Edge]:
        """Yield the edges of a device, or between instances."""
        links = table.named("links")
        for edge in table.tables("edges"):
            rate, latency = self._link(edge, links)
            ones, others = (self._ends(edge.table(key), device) for key in ("ep1", "ep2"))
            if edge.text("scheme", "scheme", _SCHEMES) == "many2many":
                edge.limit("cables", len(ones) * len(others), "scheme")
                pairs: Iterable[tuple[str, str]] = product(ones, others)
            else:
                if len(ones) != len(others):
                    warnings.warn(NetsimWarning(
                        f"{edge.path}: {edge.where}scheme: one2one of {len(ones)} and "
                        f"{len(others)} nodes links the first {min(len(ones), len(others))} "
                        "alone"), stacklevel=2)
                pairs = zip(ones, others, strict=False)
            yield from ((one, other, rate, latency) for one, other in pairs if one != other)

    def _ends(self, point: _Table, device: str | None) -> list[str]:
        """Return the nodes of an endpoint: inside of a device, or of instances if it is None."""
        parts = point.text("component").split(".")
        if device is not None:
            within = point.fields.get("device")
            return self._slices(point, device, [*([] if within is None else str(within).split(".")),
                                                *parts])
        name, numbers = self._picked(point, "instance", point.text("instance"), self._instances)
        inside = self._slices(point, str(self._instances[name].fields["device"]), parts)
        point.limit("cables", len(numbers) * len(inside), "instance")
        return [f"{name}.{k}.{each}" for k in numbers for each in inside]

    def _slices(self, point: _Table, device: str, parts: Sequence[str]) -> list[str]:
        """Return the components of a device that a path such as ``cx5[0:2].port[0]`` names."""
        found = [""]
        for place, part in enumerate(parts):
            known, last = self._components[device], place == len(parts) - 1
            name, numbers = self._picked(point, "component", part, known)
            point.limit("cables", len(numbers) * len(found), "component")
            found = [f"{before}{name}.{k}{'' if last else '.'}" for before in found
                     for k in numbers]
            if (known[name].fields.get("choice") == "device") == last:
                point.refuse("component", f": {'.'.join(parts)!r} must end with a component of a "
                                          "device, and not before")
            if not last:
                device = known[name].text("name", "device", self._devices)
        return found

    def _picked(self, point: _Table, key: str, part: str, known: Mapping[str, _Table]
                ) -> tuple[str, range]:
        """Return the name and the numbers that a part of a path stands for: all, some or one."""
        match = _PART.fullmatch(part)
        if match is None:
            point.refuse(key, f": {part!r} must be a name, perhaps with a number or a slice, such "
                              "as 'nic[0:2]'")
        name, given = match.groups()
        if name not in known:
            point.refuse(key, f": {unknown_name(key, name, known)}")
        count = known[name].number()
        bounds = [int(each) if each else None for each in (given or ":").split(":")]
        one = len(bounds) == 1
        if any(each is not None and each not in range(-count, count + 1 - one)
               for each in bounds[:2]):
            point.refuse(key, f": {part!r} is too much: there are {count:,} of {name!r}")
        return name, range(count)[bounds[0]:][:1] if one else range(count)[slice(*bounds)]

    # Links.

    def _link(self, edge: _Table, links: Mapping[str, _Table]) -> tuple[float, float]:
        """Return the rate and the latency of the link of an edge."""
        name = edge.text("link")
        link = links.get(name, edge._replace(fields={}))
        rate, latency = (_quantity(link, *each) for each in (
            ("bandwidth", _RATES, 1e-18), ("latency", _TIMES, 0.0)))
        if rate is None:
            given = self._capacity
            own = given.get(name) if isinstance(given, Mapping) else given
            if own is None and name not in links:
                near = did_you_mean(name, [*links])
                edge.refuse("link", f": no link {name!r} is declared{near}; declared are: "
                                    f"{', '.join(links) or 'none'}")
            if own is None:
                edge.refuse("link", f": link {name!r} has no bandwidth in bits or bytes; give "
                                    f"capacity = {{{name} = ...}}, or one rate for all such links")
            with about("capacity"):
                rate = parse_rate(own, f"capacity of link {name!r}", strict=True)
        return rate, latency or 0.0


def _quantity(link: _Table, key: str, units: Mapping[str, float], least: float) -> float | None:
    """Return a physical property of a link in base units, if it is given in a known unit."""
    for field in ("physical", key):
        if link.fields.get(field) is None:
            return None
        link = link.table(field)
        for name in link.fields:
            if name not in _OF_LINKS[field]:
                link.refuse(name, f": {unknown_name('key', name, _OF_LINKS[field])}")
    unit = link.fields.get("choice", next((each for each in units if each in link.fields), None))
    if unit not in tuple(units) or unit not in link.fields:
        return None
    value = link.fields[unit]
    if not is_number(value) or not least <= value <= 1e18:
        link.must_be(unit, f"a number from {least:g} to 1e18")
    return float(value) * units[unit]


def _inside(made: Infrastructure, hosts: Sequence[str], path: Path
            ) -> dict[tuple[str, str], list[list[str]]]:
    """Return the fastest ways between hosts that are linked to the same nodes, such as NVSwitches.

    By the number of links alone, a slower way, such as PCIe, would be as good.
    """
    ports: dict[str, dict[str, float]] = {}
    inside = frozenset(hosts)
    for ends, (rate, _) in made.cables.items():
        for host, node in (ends, ends[::-1]):
            if host in inside and node not in inside:
                ports.setdefault(node, {})[host] = rate
    check_limit("paths", sum(len(own) ** 2 for own in ports.values()), path)
    ways: dict[tuple[str, str], list[tuple[float, list[str]]]] = {}
    for node, own in ports.items():
        for one, other in permutations(own, 2):
            if (min(one, other), max(one, other)) not in made.cables:
                ways.setdefault((one, other), []).append(
                    (min(own[one], own[other]), [one, node, other]))
    return {pair: [way for rate, way in found if rate == max(found)[0]]
            for pair, found in ways.items() if min(found)[0] < max(found)[0]}


def _read(path: Path) -> Any:
    """Read a document in JSON or YAML."""
    text = read_text(path)
    if suffix_of(path).lower() not in (".yaml", ".yml"):
        return parse_json(text, path)
    if find_spec("yaml") is None:
        raise MissingExtraError("PyYAML", "yaml")
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, loader)):
            raise TraceError("has aliases (*name), of which a few lines can stand for gigabytes; "
                             "write the infrastructure without them", path)
        return yaml.load(text, loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise TraceError(f"is not YAML: {error.problem}", path, mark and mark.line + 1) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError(f"cannot be read as YAML: {error}", path) from error


@takes_wire
def infragraph(file: str | Path, *, capacity: Quantity | Mapping[str, Quantity] | None = None,
               hosts: str = "xpu", routing: str = "ecmp", relay: bool = True,
               name: str | None = None, loopback_uses_ports: bool = False) -> GraphTopology:
    """Read a network from an infrastructure of InfraGraph (JSON or YAML).

    Devices, their components and the edges between them become nodes and links, in both directions,
    as in InfraGraph's own graph; its blueprints write such files with ``serialize()``. In a graph
    that its service returns, the infrastructure is read and annotations are ignored. Hosts that are
    linked to the same switches take the fastest of them.

    Parameters
    ----------
    file : path-like
    capacity : quantity or mapping, optional
        The rate of links that have no bandwidth in the file, or only one in transfers: one for all
        of them, or by name of the link, such as ``{"nvlink": "300GB/s", "pcie": "32GB/s"}``.
    hosts : str
        The type or the name of the components that are hosts, in the order of the file.
    routing, relay, loopback_uses_ports
        See `from_networkx`.
    name : str, optional
        A label; by default that of the infrastructure, or of the file.

    Raises
    ------
    TraceError
        If the file cannot be read or is invalid, with the path of the field; or a link has no rate.
    MissingExtraError
        If the file is YAML, and PyYAML is not installed.
    """
    path = Path(as_path(file, "file"))
    hosts = as_name(hosts, "hosts")
    found = _read(path)
    document = _Table(path, "", found if isinstance(found, Mapping) else {})
    if "infrastructure" in document.fields:
        document = document.table("infrastructure")
    if not {"devices", "instances"} <= document.fields.keys():
        raise TraceError("must hold an object with the keys 'devices' and 'instances'", path)
    made = Infrastructure(document, capacity)
    chosen = [node for node, names in made.types.items() if hosts in names]
    if not chosen:
        kinds = sorted({each for names in made.types.values() for each in names})
        raise TraceError(unknown_name("component of hosts", hosts, kinds), path, key="hosts")
    nodes = list(dict.fromkeys((*chosen, *made.types)))
    number = {node: k for k, node in enumerate(nodes)}
    cables = [Cable(number[one], number[other], rate, latency, latency)
              for (one, other), (rate, latency) in made.cables.items()]
    with in_file(path):
        return cabled(name or str(document.fields.get("name") or stem_of(path)), nodes, len(chosen),
                      cables, routing=routing, paths=_inside(made, chosen, path) or None,
                      relay=as_flag(relay, "relay"), loopback_uses_ports=loopback_uses_ports)
