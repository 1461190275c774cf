"""Networks from platforms of SimGrid (XML), whose routes are lists of links."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from netsim.base.arrays import Ints
from netsim.base.files import stem_of
from netsim.base.lazy import nx
from netsim.base.limits import check_limit
from netsim.base.reading import in_file
from netsim.base.units import is_digits, parse_rate, parse_seconds
from netsim.base.values import as_path
from netsim.base.xml_tree import Element, read_xml
from netsim.errors import InputError, NetsimWarning, TraceError, UnitError, unknown_name
from netsim.network.topology import Topology
from netsim.network.wire import Wire
from netsim.network.wired import takes_wire

#: The root of a platform's file, and its document type.
ROOT = "platform"

#: The elements that are read, with the attributes that SimGrid knows.
_READ = {kind: frozenset(names.split()) for kind, names in {
    ROOT: "version",
    "host": "id speed core pstate coordinates speed_file availability_file state_file",
    "router": "id coordinates", "zone": "id routing",
    "link": "id bandwidth latency sharing_policy bandwidth_file latency_file state_file",
    "route": "src dst symmetrical", "zoneRoute": "src dst gw_src gw_dst symmetrical",
    "link_ctn": "id direction", "host_link": "id up down", "backbone": "id bandwidth latency",
    "cluster": "id prefix suffix radical speed core bw lat sharing_policy topology topo_parameters"
               " bb_bw bb_lat bb_sharing_policy router_id limiter_link loopback_bw loopback_lat",
    "cabinet": "id prefix suffix radical speed bw lat",
    "config": "id", "trace_connect": "kind trace element"}.items()}

#: Elements by their former names.
_FORMER = {"AS": "zone", "ASroute": "zoneRoute"}

#: Elements that say nothing about the network, such as a trace until it is connected.
_IGNORED = ("prop", "disk", "storage", "storage_type", "mount", "process", "actor", "trace")

_ROUTES = ("route", "zoneRoute")

#: How zones find routes: in the list that they give, over a hub, or by a search for the fewest
#: links.
_ROUTING = {name.lower(): name for name in (
    "Full", "None", "Floyd", "Dijkstra", "DijkstraCache", "Cluster")}

#: The middle of a cluster, to which its hosts have routes.
_HUB = ""

#: What is read after all else in a zone.
_LAST = {"host_link": 1, "backbone": 2}

#: What sharing policies add to the name of a link: one for both directions, or one for each. Routes
#: between hosts must not cross links of the last one, on which flows do not slow each other down.
_ENDS = {"SHARED": ("",), "SPLITDUPLEX": ("_UP", "_DOWN"), "FULLDUPLEX": ("_UP", "_DOWN"),
         "FATPIPE": ("",)}

#: The deepest nesting of zones, as each level can double the length of a path.
_MOST_NESTED = 10

#: Units that netsim writes in another way, and numbers without one.
_RATE, _MINUTES, _NO_UNIT = map(re.compile, (r"Bps$|(?<=[\d.])$", r"(?<=[\d.])m$", r"(?<=[\d.])$"))

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

    def join(self, point: str, up: list[int], down: list[int]) -> None:
        """Add the routes from a point of a cluster to its hub and back."""
        self.routes[point, _HUB] = _Route(point, up, _HUB)
        self.routes[_HUB, point] = _Route(_HUB, down, point)


def _check_names(root: Element) -> None:
    """Give elements their present names, and refuse those and attributes that are not read."""
    every = [root]
    for element in every:
        element.name = kind = _FORMER.get(element.name, element.name)
        if kind in _IGNORED:
            continue
        if kind not in _READ:
            element.refuse(unknown_name("element of a zone", kind, list(_READ)[1:]))
        for name in sorted(element.attributes.keys() - _READ[kind]):
            element.refuse(unknown_name(f"attribute of <{kind}>", name, sorted(_READ[kind])))
        every += element.children


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
        self._left_out: list[str] = []
        root = read_xml(path, doctype=ROOT)
        if root.name != ROOT:
            root.refuse(f"is not a platform of SimGrid: the root must be <{ROOT}>, not "
                        f"<{root.name}>")
        _check_names(root)
        zones = sum(each.name in ("zone", "cluster") for each in root.children)
        if zones != 1:
            root.refuse(f"<{ROOT}> must hold one zone or cluster, not {zones}")
        for element in root.children:
            self._read(element, None)
        for zone in self._zones.values():
            for element in zone.element.named(*_ROUTES):
                self._read_route(zone, element)
        if self._left_out:
            some = ", ".join(self._left_out[:3]) + ", ..." * (len(self._left_out) > 3)
            warnings.warn(NetsimWarning(f"is read without: {some}", path), stacklevel=4)

    # Hosts, routers, links and zones.

    def _read(self, element: Element, zone: _Zone | None) -> None:
        """Read a part of the file or of a zone; routes are read when all points are known."""
        kind = element.name
        if kind == "zone":
            self._read_zone(element, zone)
        elif kind == "cluster":
            self._read_cluster(element, zone)
        elif kind == "config":
            self._left_out += [f"{each.text('id')}={each.text('value')}" for each in
                               element.named("prop") if each.text("id").startswith("network/")]
        elif kind == "trace_connect":
            what = f"{element.text('kind', 'HOST_AVAIL')} of {element.text('element')!r}"
            if not what.startswith(("HOST_AVAIL", "SPEED")):
                self._refuse_profile(element, what)
            self._left_out.append(what)
        elif kind in (*_ROUTES, *_IGNORED):
            return
        elif zone is None:
            element.refuse(f"<{kind}> must stand in a zone")
        elif kind in ("host", "router"):
            self._add_point(element, element.text("id"), zone, is_host=kind == "host")
        elif kind == "link":
            policy = element.text("sharing_policy", "SHARED")
            self._add_link(element, element.text("id"), policy, "bandwidth", "latency")
        elif zone.routing != "Cluster":
            element.refuse(f"<{kind}> must stand in a zone with routing='Cluster'")
        elif kind == "host_link":
            up, down = (self._link(element, element.text(key)) for key in ("up", "down"))
            zone.join(self._point(element, "id", zone), [up.up], [down.down])
        elif kind == "cabinet":
            self._add_row(element, zone)
        elif next(zone.element.named("backbone")) is not element:
            element.refuse("a zone has one <backbone>")
        else:
            self._add_backbone(element, zone, element.text("id"), "bandwidth", "latency")

    def _read_zone(self, element: Element, outer: _Zone | None) -> None:
        given = element.text("routing")
        routing = _ROUTING.get(given.lower())
        if routing is None:
            element.refuse(unknown_name("routing", given, _ROUTING.values()))
        zone = self._add_zone(element, routing, outer)
        if len(zone.outer) >= _MOST_NESTED:
            element.refuse(f"zones are nested more than {_MOST_NESTED} deep")
        for child in sorted(element.children, key=lambda each: _LAST.get(each.name, 0)):
            self._read(child, zone)

    def _add_zone(self, element: Element, routing: str, outer: _Zone | None) -> _Zone:
        name = element.text("id")
        self._refuse_twice(element, name)
        zone = self._zones[name] = _Zone(name, routing, element, outer.chain if outer else ())
        if outer:
            outer.points.add(name)
        return zone

    def _refuse_twice(self, element: Element, name: str) -> None:
        if name in self._home or name in self._zones:
            element.refuse(f"<{element.name}>: the id {name!r} is there twice")

    def _add_point(self, element: Element, name: str, zone: _Zone, *, is_host: bool) -> None:
        """Add a host or a router to a zone."""
        self._refuse_twice(element, name)
        self._home[name] = zone
        zone.points.add(name)
        self._left_out += [f"{key} of {name!r}" for key in (
            "speed_file", "availability_file", "state_file") if element.attributes.get(key)]
        if is_host:
            self.hosts.append(name)
            check_limit("hosts", len(self.hosts), self.path, element.line)
        elif zone.routing == "Cluster":
            zone.join(name, [], [])

    def _refuse_profile(self, element: Element, what: str) -> NoReturn:
        element.refuse(f"<{element.name}>: {what} is not read; events of a run change the capacity "
                       "of links, and let them fail")

    def _point(self, element: Element, key: str, zone: _Zone) -> str:
        """Return a point of a zone, given by name."""
        name = element.text(key)
        if name not in zone.points:
            element.refuse(unknown_name(f"point of zone {zone.name!r}", name, zone.points))
        return name

    def _add_link(self, element: Element, name: str, policy: str, rate: str, delay: str) -> None:
        """Add a link; `rate` and `delay` name the attributes that describe it."""
        if policy not in _ENDS:
            element.refuse(unknown_name("sharing policy", policy, _ENDS))
        for key in ("bandwidth_file", "latency_file", "state_file"):
            if element.attributes.get(key):
                self._refuse_profile(element, key)
        try:
            capacity = parse_rate(_RATE.sub("B/s", element.text(rate)), rate, strict=True)
            latency = parse_seconds(_MINUTES.sub("min", _NO_UNIT.sub("s", element.text(
                delay, "0s"))), delay)
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

    def _read_cluster(self, element: Element, outer: _Zone | None) -> None:
        """Read a <cluster>: hosts with a link each, and perhaps a backbone between them."""
        if element.text("topology", "FLAT") != "FLAT":
            element.refuse(f"<cluster>: topology={element.text('topology')!r} is not read; only "
                           "flat clusters are")
        zone = self._add_zone(element, "Cluster", outer)
        self._add_row(element, zone)
        prefix, suffix = element.text("prefix"), element.text("suffix")
        router = element.text("router_id", "") or f"{prefix}{zone.name}_router{suffix}"
        self._add_point(element, router, zone, is_host=False)
        if any(element.text(key, "").strip("0s.") for key in ("bb_bw", "bb_lat")):
            self._add_backbone(element, zone, f"{zone.name}_backbone", "bb_bw", "bb_lat")

    def _add_row(self, element: Element, zone: _Zone) -> None:
        """Add the hosts of a <cluster> or <cabinet>, and their links."""
        prefix, suffix = element.text("prefix"), element.text("suffix")
        policy = element.text("sharing_policy", "SPLITDUPLEX")
        for number in self._numbers(element):
            host = f"{prefix}{number}{suffix}"
            name = f"link_{host}" if element.name == "cabinet" else f"{zone.name}_link_{number}"
            self._add_point(element, host, zone, is_host=True)
            self._add_link(element, name, policy, "bw", "lat")
            link, limiter = self._link(element, name), []
            if element.attributes.get("limiter_link"):
                limiter = [len(self.link_names)]
                self._add_link(element, f"{name}_limiter", "SHARED", "limiter_link", "")
            zone.join(host, [*limiter, link.up], [link.down, *limiter])

    def _add_backbone(self, element: Element, zone: _Zone, name: str, rate: str, delay: str
                      ) -> None:
        """Add the link between the hosts of a cluster, also on their way to its router."""
        self._add_link(element, name, element.text("bb_sharing_policy", "SHARED"), rate, delay)
        backbone = self._link(element, name)
        if backbone.up != backbone.down:
            element.refuse("<cluster>: bb_sharing_policy must be SHARED")
        for (_, end), route in zone.routes.items():
            if route.links:
                route.links.insert(len(route.links) if end == _HUB else 0, backbone.up)

    def _numbers(self, element: Element) -> Iterator[int]:
        """Yield the numbers of a row of hosts: its radical, such as ``0-3,8``."""
        kind, radical = element.name, element.text("radical")
        for part in radical.split(","):
            found = _RANGE.fullmatch(part.strip())
            if found is None:
                element.refuse(f"<{kind}>: radical must list numbers and ranges, as '0-3,8', not "
                               f"{radical!r}")
            first, last = int(found[1]), int(found[2] or found[1])
            if last < first:
                element.refuse(f"<{kind}>: the range {part.strip()!r} of the radical is empty")
            check_limit("hosts", len(self.hosts) + last - first + 1, self.path, element.line)
            yield from range(first, last + 1)

    # Routes.

    def _read_route(self, zone: _Zone, element: Element) -> None:
        src, dst = (self._point(element, key, zone) for key in ("src", "dst"))
        if src == dst:  # flows from a host to itself are free
            return
        if zone.routing == "Cluster":
            element.refuse(f"<{element.name}>: a cluster has no routes but its <host_link>")
        begin, end = self._gateway(element, src, "gw_src"), self._gateway(element, dst, "gw_dst")
        links = [self._crossed(each) for each in element.named("link_ctn")]
        if not links:
            element.refuse(f"<{element.name}>: the route from {src!r} to {dst!r} has no "
                           "<link_ctn>; flows would take no time")
        symmetrical = element.text("symmetrical", "YES").upper()
        if symmetrical not in ("YES", "NO"):
            element.refuse(f"<{element.name}>: symmetrical must be YES or NO, not {symmetrical!r}")
        ways = [(src, dst, _Route(begin, [each.up for each in links], end))]
        if symmetrical == "YES":
            ways.append((dst, src, _Route(end, [each.down for each in reversed(links)], begin)))
        for start, goal, route in ways:
            if zone.routes.setdefault((start, goal), route) is not route:
                element.refuse(f"the route from {start!r} to {goal!r} is there twice; routes lead "
                               "both ways unless symmetrical='NO'")

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
        points = [start, end]
        if zone.routing == "Cluster":
            points.insert(1, _HUB)
        elif zone.routing not in ("Full", "None") and nx.has_path(zone.graph, start, end):
            points = nx.dijkstra_path(zone.graph, start, end)
        legs = [zone.routes.get(pair) or self._refuse_route(zone, start, end)
                for pair in pairwise(points)]
        links = list(legs[0].links)
        for before, after in pairwise(legs):
            links += [*self.route(before.end, after.begin), *after.links]
        if zone.routing == "Cluster":  # whose links are crossed once, such as the backbone
            links = list(dict.fromkeys(links))
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

    def routes(self, src: Ints, dst: Ints, key: Ints) -> tuple[Ints, Ints]:
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
    and are routed by ``Full``, ``Floyd``, ``Dijkstra`` or ``Cluster``; a ``<cluster>`` is read if
    it is flat. Of equally short paths, SimGrid may take another one. Speeds of hosts are ignored,
    and flows from a host to itself are free.

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

    Warns
    -----
    NetsimWarning
        If profiles of hosts, or settings of SimGrid's network model, are left out.
    """
    path = Path(as_path(file, "file"))
    platform = Platform(path)
    with in_file(path):
        return PlatformNetwork(name or stem_of(path), platform)
