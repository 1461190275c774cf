"""Networks from platforms of SimGrid (XML), whose routes are lists of links."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from netsim.base.lazy import nx
from netsim.base.limits import check_limit
from netsim.base.reading import in_file
from netsim.base.units import is_digits, parse_rate, parse_seconds
from netsim.base.values import as_path
from netsim.base.xml_tree import Element, read_xml
from netsim.errors import InputError, TraceError, UnitError, unknown_name
from netsim.network.topology import Topology
from netsim.network.wire import Wire
from netsim.network.wired import takes_wire

#: The root of a platform's file, and its document type.
ROOT = "platform"

_ZONES = ("zone", "AS")

_ZONE_ROUTES = ("zoneRoute", "ASroute")

#: Elements that say nothing about the network.
_IGNORED = {"prop", "config", "disk", "storage", "storage_type", "mount", "process", "actor"}

#: How zones find routes: from the list that they give, or by a search for the fewest links.
_ROUTING = ("Full", "None", "Floyd", "Dijkstra", "DijkstraCache")

#: What sharing policies add to the name of a link: one for both directions, or one for each. Routes
#: between hosts must not cross links of the last one, on which flows do not slow each other down.
_ENDS = {"SHARED": ("",), "SPLITDUPLEX": ("_UP", "_DOWN"), "FULLDUPLEX": ("_UP", "_DOWN"),
         "FATPIPE": ("",)}

#: The deepest nesting of zones, as each level can double the length of a path.
_MOST_NESTED = 10

_BYTES = re.compile(r"Bps$")

_NO_UNIT = re.compile(r"(?<=[\d.])$")

_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)


# --- platforms -----------------------------------------------------------------------------
class _Link(NamedTuple):
    """A link of the platform: the netsim link in each direction, which may be the same."""

    up: int
    down: int


class _Route(NamedTuple):
    """A route between two points of a zone, with the gateways where they are zones."""

    begin: str
    links: list[int]
    end: str


@dataclass(eq=False)
class _Zone:
    """A zone, with the routes between its points: hosts, routers and the zones inside it."""

    name: str
    routing: str
    element: Element
    outer: tuple[_Zone, ...]  #: the zones around it, from the root
    points: set[str] = field(default_factory=set)
    routes: dict[tuple[str, str], _Route] = field(default_factory=dict)
    #: In a cluster: the link of each host, and the backbone.
    ports: dict[str, _Link] = field(default_factory=dict)
    backbone: list[int] = field(default_factory=list)

    @property
    def chain(self) -> tuple[_Zone, ...]:
        """The zones around it, and itself."""
        return *self.outer, self

    @cached_property
    def graph(self) -> nx.DiGraph:
        """The routes as edges, whose weight is the number of links."""
        graph = nx.DiGraph()
        graph.add_nodes_from(self.points)
        for (start, end), route in self.routes.items():
            graph.add_edge(start, end, weight=len(route.links))
        return graph


class Platform:
    """The hosts, links and zones of a platform's file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.hosts: list[str] = []
        self.link_names: list[str] = []
        self.capacity: list[float] = []
        self.latency: list[float] = []
        self._home: dict[str, _Zone] = {}  # of each host and router
        self._zones: dict[str, _Zone] = {}
        self._links: dict[str, _Link] = {}
        self._fatpipes: set[str] = set()
        root = read_xml(path, doctype=ROOT)
        if root.name != ROOT:
            root.refuse(f"is not a platform of SimGrid: the root must be <{ROOT}>, not "
                        f"<{root.name}>")
        zones = [each for each in root.children if each.name not in _IGNORED]
        if len(zones) != 1:
            root.refuse(f"<{ROOT}> must hold one zone or cluster, not {len(zones)}")
        self._read(zones[0], ())
        for zone in self._zones.values():
            for element in zone.element.named("route", *_ZONE_ROUTES):
                self._read_route(zone, element)

    # Hosts, routers, links and zones.

    def _read(self, element: Element, outer: tuple[_Zone, ...]) -> None:
        """Read a zone, or what stands in one."""
        kind = element.name
        if kind in _ZONES:
            self._read_zone(element, outer)
        elif kind == "cluster":
            self._read_cluster(element, outer)
        elif not outer:
            element.refuse(f"<{kind}> must stand in a zone")
        elif kind in ("host", "router"):
            self._add_point(element, element.text("id"), outer[-1], is_host=kind == "host")
        elif kind == "link":
            policy = element.text("sharing_policy", "SHARED")
            self._add_link(element, element.text("id"), policy, "bandwidth", "latency")
        elif kind not in ("route", *_ZONE_ROUTES, *_IGNORED):
            element.refuse(unknown_name("element of a zone", kind, (
                "host", "router", "link", "route", "zone", "zoneRoute", "cluster")))

    def _read_zone(self, element: Element, outer: tuple[_Zone, ...]) -> None:
        routing = element.text("routing")
        if routing not in _ROUTING:
            element.refuse(unknown_name("routing", routing, _ROUTING))
        if len(outer) >= _MOST_NESTED:
            element.refuse(f"zones are nested more than {_MOST_NESTED} deep")
        zone = self._add_zone(element, routing, outer)
        for child in element.children:
            self._read(child, zone.chain)

    def _add_zone(self, element: Element, routing: str, outer: tuple[_Zone, ...]) -> _Zone:
        name = element.text("id")
        self._refuse_twice(element, name)
        zone = self._zones[name] = _Zone(name, routing, element, outer)
        if outer:
            outer[-1].points.add(name)
        return zone

    def _refuse_twice(self, element: Element, name: str) -> None:
        if name in self._home or name in self._zones:
            element.refuse(f"<{element.name}>: the id {name!r} is there twice")

    def _add_point(self, element: Element, name: str, zone: _Zone, *, is_host: bool) -> None:
        """Add a host or a router to a zone."""
        self._refuse_twice(element, name)
        self._home[name] = zone
        zone.points.add(name)
        if is_host:
            self.hosts.append(name)
            check_limit("hosts", len(self.hosts), self.path, element.line)

    def _add_link(self, element: Element, name: str, policy: str, rate: str, delay: str) -> None:
        """Add a link; `rate` and `delay` name the attributes that describe it."""
        if policy not in _ENDS:
            element.refuse(unknown_name("sharing policy", policy, _ENDS))
        for key in ("bandwidth_file", "latency_file", "state_file"):
            if element.attributes.get(key):
                element.refuse(f"<{element.name}>: {key} is not read; events of a run change the "
                               "capacity of links, and let them fail")
        try:
            capacity = parse_rate(_NO_UNIT.sub("B/s", _BYTES.sub("B/s", element.text(rate))), rate,
                                  strict=True)
            latency = parse_seconds(_NO_UNIT.sub("s", element.text(delay, "0s")), delay)
        except UnitError as error:
            element.refuse(f"<{element.name}>: {error}")
        links = []
        for each in (name + end for end in _ENDS[policy]):
            if each in self._links or name in self._links:
                element.refuse(f"<{element.name}>: the link {each!r} is there twice")
            links.append(len(self.link_names))
            self._links[each] = _Link(links[-1], links[-1])
            self.link_names.append(each)
            self.capacity.append(capacity)
            self.latency.append(latency)
        if policy == "FATPIPE":
            self._fatpipes.add(name)
        self._links[name] = _Link(links[0], links[-1])

    def _link(self, element: Element, name: str) -> _Link:
        """Return a link between hosts, given by name."""
        if name not in self._links:
            element.refuse(unknown_name("link", name, self._links))
        if name in self._fatpipes:
            element.refuse(f"link {name!r} is a FATPIPE, on which flows do not slow each other "
                           "down; netsim has none: make it SHARED, or leave it out")
        return self._links[name]

    # Clusters.

    def _read_cluster(self, element: Element, outer: tuple[_Zone, ...]) -> None:
        """Read a <cluster>: hosts with a link each, and perhaps a backbone between them."""
        for key, allowed in (("topology", "FLAT"), ("limiter_link", "")):
            if element.attributes.get(key, allowed) != allowed:
                element.refuse(f"<cluster>: {key}={element.attributes[key]!r} is not read; only "
                               "flat clusters without limiters are")
        zone = self._add_zone(element, "Cluster", outer)
        prefix, suffix = element.text("prefix"), element.text("suffix")
        policy = element.text("sharing_policy", "SPLITDUPLEX")
        for number in self._numbers(element):
            host, link = f"{prefix}{number}{suffix}", f"{zone.name}_link_{number}"
            self._add_point(element, host, zone, is_host=True)
            self._add_link(element, link, policy, "bw", "lat")
            zone.ports[host] = self._link(element, link)
        router = element.text("router_id", "") or f"{prefix}{zone.name}_router{suffix}"
        self._add_point(element, router, zone, is_host=False)
        if element.attributes.get("bb_bw"):
            link = f"{zone.name}_backbone"
            policy = element.text("bb_sharing_policy", "SHARED")
            self._add_link(element, link, policy, "bb_bw", "bb_lat")
            backbone = self._link(element, link)
            if backbone.up != backbone.down:
                element.refuse("<cluster>: bb_sharing_policy must be SHARED")
            zone.backbone.append(backbone.up)

    def _numbers(self, element: Element) -> Iterator[int]:
        """Yield the numbers of a cluster's hosts: its radical, such as ``0-3,8``."""
        for part in element.text("radical").split(","):
            found = _RANGE.fullmatch(part.strip())
            if found is None:
                element.refuse("<cluster>: radical must list numbers and ranges, as '0-3,8', not "
                               f"{element.text('radical')!r}")
            first, last = int(found[1]), int(found[2] or found[1])
            if last < first:
                element.refuse(f"<cluster>: the range {part.strip()!r} of the radical is empty")
            check_limit("hosts", len(self.hosts) + last - first + 1, self.path, element.line)
            yield from range(first, last + 1)

    # Routes.

    def _read_route(self, zone: _Zone, element: Element) -> None:
        src, dst = ends = element.text("src"), element.text("dst")
        if src == dst:  # flows from a host to itself are free
            return
        for end in ends:
            if end not in zone.points:
                element.refuse(unknown_name(f"point of zone {zone.name!r}", end, zone.points))
        begin, end = (self._gateway(element, point, key)
                      for point, key in zip(ends, ("gw_src", "gw_dst"), strict=True))
        links = [self._crossed(each) for each in element.named("link_ctn")]
        if not links:
            element.refuse(f"<{element.name}>: the route from {src!r} to {dst!r} has no "
                           "<link_ctn>; flows would take no time")
        symmetrical = element.text("symmetrical", "YES").upper()
        if symmetrical not in ("YES", "NO"):
            element.refuse(f"<{element.name}>: symmetrical must be YES or NO, not {symmetrical!r}")
        self._add_route(zone, element, ends, _Route(begin, [each.up for each in links], end))
        if symmetrical == "YES":
            back = [each.down for each in reversed(links)]
            self._add_route(zone, element, (dst, src), _Route(end, back, begin))

    def _add_route(self, zone: _Zone, element: Element, ends: tuple[str, str], route: _Route
                   ) -> None:
        if ends in zone.routes:
            element.refuse(f"the route from {ends[0]!r} to {ends[1]!r} is there twice; routes "
                           "lead both ways unless symmetrical='NO'")
        zone.routes[ends] = route

    def _gateway(self, element: Element, point: str, key: str) -> str:
        """The host or router at which a route meets a point: the point, or a zone's gateway."""
        if point not in self._zones:
            return point
        gateway = element.text(key)
        if self._zones[point] not in getattr(self._home.get(gateway), "chain", ()):
            element.refuse(f"<{element.name}>: {key} {gateway!r} is not in zone {point!r}")
        return gateway

    def _crossed(self, element: Element) -> _Link:
        """Return the link that a <link_ctn> names, in its direction."""
        link, way = self._link(element, element.text("id")), element.text("direction", "NONE")
        if way not in ("UP", "DOWN", "NONE"):
            element.refuse(f"<link_ctn>: direction must be UP, DOWN or NONE, not {way!r}")
        if way == "NONE" and link.up != link.down:
            element.refuse(f"<link_ctn>: link {element.text('id')!r} is split in two; give the "
                           "direction, UP or DOWN")
        return _Link(link.down, link.up) if way == "DOWN" else link

    # Paths.

    def route(self, src: str, dst: str) -> list[int]:
        """Return the links on the way between two hosts or routers."""
        if src == dst:
            return []
        chains = self._home[src].chain, self._home[dst].chain
        depth = sum(one is other for one, other in zip(*chains, strict=False))
        zone = chains[0][depth - 1]
        ends = (chain[depth].name if len(chain) > depth else point
                for chain, point in zip(chains, (src, dst), strict=True))
        route = self._between(zone, *ends)
        return [*self.route(src, route.begin), *route.links, *self.route(route.end, dst)]

    def _between(self, zone: _Zone, start: str, end: str) -> _Route:
        """Return the route between two points of a zone."""
        if zone.routing == "Cluster":
            up, down = (zone.ports.get(point, ()) for point in (start, end))  # the router has none
            return _Route(start, [*up[:1], *zone.backbone, *down[1:]], end)
        if zone.routing in ("Full", "None"):
            return zone.routes.get((start, end)) or self._refuse_route(zone, start, end)
        try:
            points = nx.dijkstra_path(zone.graph, start, end)
        except nx.NetworkXNoPath:
            self._refuse_route(zone, start, end)
        legs = [zone.routes[pair] for pair in pairwise(points)]
        links = list(legs[0].links)
        for before, after in pairwise(legs):
            links += [*self.route(before.end, after.begin), *after.links]
        return _Route(legs[0].begin, links, legs[-1].end)

    def _refuse_route(self, zone: _Zone, start: str, end: str) -> NoReturn:
        zone.element.refuse(f"zone {zone.name!r} ({zone.routing}) has no route from {start!r} to "
                            f"{end!r}")


# --- networks ------------------------------------------------------------------------------
class PlatformNetwork(Topology):
    """A platform of SimGrid; made by `simgrid`.

    Routes are lists of links, which have no ends. So there is no graph, and what needs one, such as
    a plot, is refused. As in SimGrid, some hosts may have no route; flows between them are refused.
    """

    def __init__(self, name: str, platform: Platform) -> None:
        super().__init__(name, len(platform.hosts), platform.capacity, platform.link_names)
        self.set_wire(Wire(self.links, np.array(platform.latency), link_names=self.link_names))
        self._platform = platform
        self._known: dict[tuple[int, int], list[int]] = {}

    def routes(self, src: NDArray[np.int64], dst: NDArray[np.int64], key: NDArray[np.int64]
               ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the route that the platform gives to each flow; see `Topology.routes`."""
        src, dst = (np.asarray(each, np.int64) for each in (src, dst))
        self._check_range(src, dst)
        paths = [self._path(*ends) for ends in zip(src.tolist(), dst.tolist(), strict=True)]
        ptr = np.cumsum([0, *map(len, paths)])
        return ptr, np.fromiter((link for path in paths for link in path), np.int64, int(ptr[-1]))

    def _path(self, src: int, dst: int) -> list[int]:
        known = self._known.get((src, dst))
        if known is None:
            hosts = self._platform.hosts
            known = self._platform.route(hosts[src], hosts[dst])
            if len(set(known)) < len(known):
                twice = next(link for link in known if known.count(link) > 1)
                raise TraceError(f"the route from {hosts[src]!r} to {hosts[dst]!r} crosses link "
                                 f"{self.link_names[twice]!r} twice", self._platform.path)
            self._known[src, dst] = known
        return known

    @cached_property
    def _node_ids(self) -> Mapping[str, int]:
        return {name: host for host, name in enumerate(self._platform.hosts)}

    @cached_property
    def misleading(self) -> frozenset[int]:
        """The host numbers that, written as text, are the name of another host."""
        return frozenset(int(name) for host, name in enumerate(self._platform.hosts)
                         if is_digits(name) and host != int(name) < self.hosts)

    def to_networkx(self) -> nx.DiGraph:
        """Raise an `InputError`, as links have no ends."""
        raise InputError(f"network {self.name!r}: links of a SimGrid platform have no ends, as "
                         "routes are lists of links; it has no graph, and events name links")


@takes_wire
def simgrid(file: str | Path, *, name: str | None = None) -> PlatformNetwork:
    """Read a network from a platform of SimGrid (XML, version 4 or 4.1).

    Hosts are those of the file, in its order. A ``SHARED`` link is one link for both directions,
    and a ``SPLITDUPLEX`` one two, with ``_UP`` and ``_DOWN`` after its name. Zones may be nested,
    and are routed by ``Full``, ``Floyd`` or ``Dijkstra``; a ``<cluster>`` is read if it is flat. Of
    equally short paths, SimGrid may take another one. Speeds of hosts are ignored, and flows from a
    host to itself are free.

    Parameters
    ----------
    file : path-like
    name : str, optional
        A label; by default that of the file.

    Raises
    ------
    TraceError
        If the file cannot be read or is invalid, with the line; or if it holds what netsim does not
        have, such as Vivaldi's coordinates, or a ``FATPIPE`` between two hosts.
    """
    path = Path(as_path(file, "file"))
    platform = Platform(path)
    with in_file(path):
        return PlatformNetwork(name or path.stem, platform)
