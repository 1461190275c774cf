"""Networks from InfraGraph's infrastructures (JSON): instances of devices, joined by edges."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations, product
from pathlib import Path
from typing import Any, NoReturn

from netsim.base.json_tree import parse_json
from netsim.base.limits import check_limit
from netsim.base.reading import in_file, read_text
from netsim.base.units import Quantity, parse_rate, parse_seconds
from netsim.base.values import about, as_flag, as_name, as_path, is_number, is_whole
from netsim.errors import TraceError, unknown_name
from netsim.network.graph import GraphTopology
from netsim.network.simulators import Cable, cabled
from netsim.network.wired import takes_wire

#: Bytes per second, and seconds, of a link's units. A rate of transfers depends on the lanes.
_RATES = {"gigabits_per_second": 1.25e8, "gigabytes_per_second": 1e9}

_TIMES = {"ms": 1e-3, "us": 1e-6, "ns": 1e-9}

_SCHEMES = ("one2one", "many2many")

#: A name, perhaps with an index or a slice as in Python.
_PART = re.compile(r"([^\[\]]+)(?:\[(\d{1,9})?(:)?(\d{1,9})?(?::([1-9]\d{0,8})?)?\])?", re.ASCII)


class Infrastructure:
    """The nodes and cables of an infrastructure's file.

    Nodes are named as in InfraGraph: by instance, components and their numbers, ``host.0.xpu.3``.
    """

    def __init__(self, path: Path, document: Any, capacity: Quantity | Mapping[str, Quantity] | None
                 ) -> None:
        self._path, self._capacity = path, capacity
        self.types: dict[str, tuple[str, str]] = {}  #: of each node, with its component's name
        #: Rate and latency between two nodes; of several edges the last one counts.
        self.cables: dict[tuple[str, str], tuple[float, float]] = {}
        self._expanded = 0
        self._devices = self._by_name(document, "devices")
        self._components = {name: self._by_name(device, "components")
                            for name, device in self._devices.items()}
        self._edges: dict[str, list[tuple[str, str, float, float]]] = {}  # of devices in use
        self._instances = self._by_name(document, "instances")
        for name, instance in self._instances.items():
            device = self._known(self._devices, self._text(instance, "device"), "device")
            for k in self._parts(instance):
                self._expand(f"{name}.{k}", device, ())
        for one, other, rate, latency in self._edges_of(document, "the infrastructure", None):
            self._join(one, other, rate, latency)

    # What the file holds.

    def _refuse(self, message: str) -> NoReturn:
        raise TraceError(message, self._path)

    def _list(self, table: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
        found = table.get(key, [])
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            self._refuse(f"{key} must be a list of objects")
        return found

    def _by_name(self, table: Mapping[str, Any], key: str) -> dict[str, dict[str, Any]]:
        """Return a list of named objects by name."""
        found: dict[str, dict[str, Any]] = {}
        for each in self._list(table, key):
            name = self._text(each, "name")
            if name in found:
                self._refuse(f"{key}: the name {name!r} is there twice")
            found[name] = each
        return found

    def _text(self, table: Mapping[str, Any], key: str) -> str:
        value = table.get(key)
        if not isinstance(value, str):
            self._refuse(f"{key} must be a string, not {value!r}")
        return value

    def _count(self, table: Mapping[str, Any]) -> int:
        count: Any = table.get("count")
        if not is_whole(count) or count < 0:
            self._refuse(f"count of {table['name']!r} must be a whole number of at least 0, not "
                         f"{count!r}")
        check_limit("hosts", count, self._path, where=f"count of {table['name']!r}")
        return int(count)

    def _known(self, names: Mapping[str, Any], name: str, what: str) -> str:
        if name not in names:
            self._refuse(unknown_name(what, name, names))
        return name

    # Links.

    def _link(self, links: Mapping[str, dict[str, Any]], name: str, owner: str
              ) -> tuple[float, float]:
        """Return the rate and the latency of a link."""
        physical = links[name].get("physical") or {} if name in links else {}
        rate = self._quantity(physical, "bandwidth", _RATES, name)
        if rate is None:
            given = self._capacity
            own = given.get(name) if isinstance(given, Mapping) else given
            if own is None:
                self._refuse(f"link {name!r} of {owner} has no bandwidth in bits or bytes; give "
                             f"capacity = {{{name} = ...}}, or one rate for all such links")
            with about("capacity"):
                rate = parse_rate(own, f"capacity of link {name!r}", strict=True)
        return rate, self._quantity(physical, "latency", _TIMES, name) or 0.0

    def _quantity(self, physical: Any, key: str, units: Mapping[str, float], name: str
                  ) -> float | None:
        """Return a physical property of a link in base units, if it is given in a known unit."""
        given = physical.get(key) or {} if isinstance(physical, dict) else None
        if not isinstance(given, dict):
            self._refuse(f"link {name!r}: {key} must be an object, as in "
                         f"{{{next(iter(units))!r}: 100}}")
        unit = given.get("choice", next((unit for unit in units if unit in given), None))
        if unit not in tuple(units) or unit not in given:
            return None
        value = given[unit]
        if not is_number(value) or not 0 <= value <= 1e18 or (key == "bandwidth" and not value):
            self._refuse(f"link {name!r}: {unit} must be a number up to 1e18, not {value!r}")
        parse = parse_rate if key == "bandwidth" else parse_seconds
        with in_file(self._path):
            return parse(value * units[unit], f"link {name!r}: {key}")

    # Edges.

    def _edges_of(self, table: Mapping[str, Any], owner: str, device: str | None
                  ) -> Iterator[tuple[str, str, float, float]]:
        """Yield the two ends, the rate and the latency of each edge of a device, or of all."""
        links = self._by_name(table, "links")
        for edge in self._list(table, "edges"):
            rate, latency = self._link(links, self._text(edge, "link"), owner)
            ends = []
            for key in ("ep1", "ep2"):
                point = edge.get(key)
                if not isinstance(point, dict):
                    self._refuse(f"{key} of an edge of {owner} must be an object, not {point!r}")
                ends.append(self._ends(point, device))
            scheme = edge.get("scheme")
            if scheme not in _SCHEMES:
                self._refuse(unknown_name(f"scheme of an edge of {owner}", scheme, _SCHEMES))
            ones, others = ends
            if scheme == "many2many":
                check_limit("cables", len(ones) * len(others), self._path, where=owner)
            for one, other in (zip(ones, others, strict=False) if scheme == "one2one" else
                               product(ones, others)):
                if one != other:
                    yield one, other, rate, latency

    def _ends(self, point: Mapping[str, Any], device: str | None) -> list[str]:
        """Return the nodes of an endpoint: inside of a device, or of instances if it is None."""
        parts = self._text(point, "component").split(".")
        if device is not None:
            within = point.get("device")
            return self._slices(device, [*([] if within is None else str(within).split(".")),
                                         *parts])
        name, numbers = self._picked(self._text(point, "instance"), self._instances, "instance")
        instance = self._instances[name]
        inside = self._slices(self._text(instance, "device"), parts)
        check_limit("cables", len(numbers) * len(inside), self._path, where=f"instance {name!r}")
        return [f"{name}.{k}.{each}" for k in numbers for each in inside]

    def _slices(self, device: str, parts: Sequence[str]) -> list[str]:
        """Return the components of a device that a path such as ``cx5[0:2].port[0]`` names."""
        found = [""]
        for place, part in enumerate(parts):
            name, numbers = self._picked(part, self._components[device],
                                         f"component of device {device!r}")
            component = self._components[device][name]
            check_limit("cables", len(numbers) * len(found), self._path, where=part)
            found = [f"{before}{name}.{k}" for before in found for k in numbers]
            if (component.get("choice") == "device") != (place < len(parts) - 1):
                self._refuse(f"{'.'.join(parts)!r} must end with a component of a device, and not "
                             "before")
            if place < len(parts) - 1:
                found = [each + "." for each in found]
                device = self._known(self._devices, name, "device")
        return found

    def _picked(self, part: str, known: Mapping[str, dict[str, Any]], what: str
                ) -> tuple[str, range]:
        """Return the name and the numbers that a part of a path stands for: all, some or one."""
        match = _PART.fullmatch(part)
        if match is None:
            self._refuse(f"{part!r} must be a name, perhaps with a number or a slice, such as "
                         "'nic[0:2]'")
        name, first, colon, last, step = match.groups()
        count = self._count(known[self._known(known, name, what)])
        begin = int(first or 0)
        end = begin + 1 if first and not colon else count if last is None else int(last)
        if end > count:
            self._refuse(f"{part!r} is too much: there are {count:,} of {name!r}")
        return name, range(begin, end, int(step or 1))

    # Nodes.

    def _parts(self, counted: Mapping[str, Any]) -> range:
        """Return the numbers of an instance or a component, of which all nodes are made."""
        numbers = range(self._count(counted))
        self._expanded += len(numbers)
        check_limit("hosts", self._expanded, self._path, where="instances and components")
        return numbers

    def _expand(self, prefix: str, device: str, around: tuple[str, ...]) -> None:
        """Add the nodes and the cables of a device, and of the devices in it."""
        if device in around:
            self._refuse(f"device {device!r} is a part of itself")
        for name, component in self._components[device].items():
            choice, custom = self._text(component, "choice"), component.get("custom")
            kind = (str(custom.get("type")) if choice == "custom" and isinstance(custom, dict) else
                    choice)
            for k in self._parts(component):
                if choice == "device":
                    self._expand(f"{prefix}.{name}.{k}", self._known(self._devices, name, "device"),
                                 (*around, device))
                else:
                    self.types[f"{prefix}.{name}.{k}"] = kind, name
        if device not in self._edges:
            self._edges[device] = list(self._edges_of(self._devices[device], f"device {device!r}",
                                                      device))
        for one, other, rate, latency in self._edges[device]:
            self._join(f"{prefix}.{one}", f"{prefix}.{other}", rate, latency)

    def _join(self, one: str, other: str, rate: float, latency: float) -> None:
        self.cables[min(one, other), max(one, other)] = rate, latency
        check_limit("cables", len(self.cables), self._path)


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


@takes_wire
def infragraph(file: str | Path, *, capacity: Quantity | Mapping[str, Quantity] | None = None,
               hosts: str = "xpu", routing: str = "ecmp", relay: bool = True,
               name: str | None = None, loopback_uses_ports: bool = False) -> GraphTopology:
    """Read a network from an infrastructure of InfraGraph (JSON).

    Devices, their components and the edges between them become nodes and links, in both directions,
    as in InfraGraph's own graph; its blueprints write such files with ``serialize()``. Hosts that
    are linked to the same switches take the fastest of them.

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
        If the file cannot be read or is invalid, or a link has no rate.
    """
    path = Path(as_path(file, "file"))
    hosts = as_name(hosts, "hosts")
    document = parse_json(read_text(path), path)
    if not isinstance(document, dict):
        raise TraceError("must hold an object with the keys 'devices' and 'instances'", path)
    made = Infrastructure(path, document, capacity)
    chosen = [node for node, names in made.types.items() if hosts in names]
    if not chosen:
        kinds = sorted({each for names in made.types.values() for each in names})
        raise TraceError(unknown_name("component of hosts", hosts, kinds), path, key="hosts")
    nodes = list(dict.fromkeys((*chosen, *made.types)))
    number = {node: k for k, node in enumerate(nodes)}
    cables = [Cable(number[one], number[other], rate, latency, latency)
              for (one, other), (rate, latency) in made.cables.items()]
    with in_file(path):
        return cabled(name or str(document.get("name") or path.stem), nodes, len(chosen), cables,
                      routing=routing, paths=_inside(made, chosen, path) or None,
                      relay=as_flag(relay, "relay"),
                      loopback_uses_ports=loopback_uses_ports)
