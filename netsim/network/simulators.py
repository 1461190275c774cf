"""Networks from files of packet simulators: HPCC, PowerTCP and SimAI on ns-3, and htsim."""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from netsim.base.files import stem_of
from netsim.base.limits import check_limit
from netsim.base.reading import Line, in_file, lines_of
from netsim.base.units import decimal, is_digits, parse_rate, parse_seconds
from netsim.base.values import as_path
from netsim.errors import InputError, NetsimWarning, TraceError, unknown_name
from netsim.network.graph import GraphTopology
from netsim.network.routing import Paths
from netsim.network.spray import sprayed
from netsim.network.wire import Wire
from netsim.network.wired import takes_wire


# --- cables --------------------------------------------------------------------------------
class Cable(NamedTuple):
    """Two links between two nodes, given by number."""

    start: int
    end: int
    rate: float  #: of each link, in bytes per second
    there: float = 0.0  #: latency from `start` to `end`, in seconds
    back: float = 0.0  #: latency from `end` to `start`


def cabled(name: str, nodes: Sequence[str], hosts: int, cables: Sequence[Cable], *,
           routing: str = "ecmp", paths: Paths | None = None, relay: bool = True,
           loopback_uses_ports: bool = False,
           layers: Mapping[Any, str] | None = None) -> GraphTopology:
    """Make a network of cables between `nodes`, of which the first are the hosts.

    Several cables between the same nodes become parallel links, ``a->b``, ``a->b#2`` and so on. For
    `layers`, see `SprayedNetwork`; for the other options, `from_networkx`.
    """
    rows: list[tuple[int, int, float, float]] = []
    for start, end, rate, there, back in cables:
        if start == end:
            raise InputError(f"network {name!r}: a cable leads from {nodes[start]!r} to itself")
        rows += (start, end, rate, there), (end, start, rate, back)
    rows.sort(key=lambda row: row[0])  # stable: links of a node stay in order
    seen: Counter[tuple[int, int]] = Counter()
    names = []
    for start, end, _, _ in rows:
        seen[start, end] += 1
        place = seen[start, end]
        names.append(f"{nodes[start]}->{nodes[end]}" + (f"#{place}" if place > 1 else ""))
    made = GraphTopology(name, nodes, hosts, [row[:2] for row in rows], [row[2] for row in rows],
                         names, routing=routing, paths=paths, relay=relay,
                         loopback_uses_ports=loopback_uses_ports)
    made.set_wire(Wire(made.links, np.array([row[3] for row in rows]), link_names=tuple(names)))
    return sprayed(made, routing, layers or {})


# --- HPCC, PowerTCP and SimAI --------------------------------------------------------------

#: Units of ns-3 that netsim writes in another way, or does not have.
_BYTES = re.compile(r"Bps$")

_NO_UNIT = re.compile(r"(?<=[\d.])$")

_SHORT = {"ps": 1e-12, "fs": 1e-15}


@takes_wire
def hpcc(file: str | Path, *, routing: str = "ecmp", name: str | None = None,
         loopback_uses_ports: bool = False) -> GraphTopology:
    """Read a network from a ``topology.txt`` of the HPCC simulator (ns-3), of PowerTCP or SimAI.

    The first line has the numbers of nodes, switches and links. In PowerTCP's form, the number of
    top-of-rack switches is before that of links, and two rates may follow; neither is used. In
    SimAI's form, the line has the numbers of nodes, GPUs per server, NVSwitches, switches and
    links, and the name of the GPU. The second line lists the switches, NVSwitches first. Each
    further line is a cable, ``src dst rate delay error``, with units of ns-3. Without a unit, a
    rate is in bits per second, and a delay in seconds. All nodes that are not switches are hosts,
    in the order of their numbers, and no path leads through a host. Hosts on the same NVSwitch
    reach each other through it. Names of nodes are ``host-``, ``switch-`` or ``nvswitch-`` followed
    by their number in the file.

    Parameters
    ----------
    file : path-like
    routing, loopback_uses_ports
        See `from_networkx`.
    name : str, optional
        A label; by default that of the file.

    Raises
    ------
    TraceError
        If the file cannot be read, or its contents are invalid, with the line.

    Warns
    -----
    NetsimWarning
        If links lose packets, because netsim ignores these losses. Also if the file has more links
        than the first line announces; the additional ones are ignored.
    """
    path = Path(as_path(file, "file"))
    nodes, kinds, cables = _read_lines(path)
    hosts = [node for node in range(nodes) if node not in kinds]
    if not hosts:
        raise TraceError(f"all {nodes} nodes are switches; there must be a host", path)
    order = hosts + list(kinds)
    number = {node: k for k, node in enumerate(order)}
    moved = [cable._replace(start=number[cable.start], end=number[cable.end])
             for cable in cables]
    names = [f"{kinds.get(node, 'host')}-{node}" for node in order]
    with in_file(path):
        return cabled(name or stem_of(path), names, len(hosts), moved, routing=routing, relay=False,
                      paths=_inside(names, moved, path) or None,
                      loopback_uses_ports=loopback_uses_ports)


def _inside(names: Sequence[str], cables: Sequence[Cable], path: Path
            ) -> dict[tuple[str, str], list[str]]:
    """Return the paths between hosts on one NVSwitch, the first of several."""
    on: dict[str, list[str]] = {}
    for cable in cables:
        ends = names[cable.start], names[cable.end]
        for host, switch in (ends, ends[::-1]):
            if switch.startswith("nvswitch") and host.startswith("host"):
                on.setdefault(switch, []).append(host)
    check_limit("paths", sum(len(hosts) ** 2 for hosts in on.values()), path)
    paths: dict[tuple[str, str], list[str]] = {}
    for switch, hosts in on.items():
        for one, other in permutations(dict.fromkeys(hosts), 2):
            paths.setdefault((one, other), [one, switch, other])
    return paths


def host_numbers(file: str | Path) -> dict[int, int]:
    """Return the host of each node of a topology file that is not a switch."""
    nodes, kinds, _ = _read_lines(Path(file))
    return {node: k for k, node in enumerate(node for node in range(nodes) if node not in kinds)}


def _read_lines(path: Path) -> tuple[int, dict[int, str], list[Cable]]:
    """Return the number of nodes, the kinds of the switches among them, and the cables."""
    lines = lines_of(path)
    head = next(lines, None)
    if head is None:
        raise TraceError("is empty; the first line must have the numbers of nodes, switches and "
                         "links", path, 1)
    of_simai, of_powertcp = _form(head)
    nodes = head.whole(0, "the number of nodes", 1)
    inside = head.whole(2, "the number of NVSwitches", 0, nodes) if of_simai else 0
    place = 3 if of_simai else 1
    switches = head.whole(place, "the number of switches", 0, nodes)
    links = head.whole(place + 1 + of_powertcp, "the number of links", 0)
    check_limit("cables", links, path, head.number, where="links")
    hosts = nodes - inside - switches
    if hosts > max(2 * links, 1):
        head.refuse(f"{links} links cannot join {hosts} hosts")
    check_limit("hosts", nodes, path, head.number, where="nodes")
    kinds = _kinds(path, lines, nodes, inside, switches)
    cables = []
    for k in range(links):
        line = next(lines, None)
        if line is None:
            raise TraceError(f"{links} links announced, {k} found", path, head.number)
        cables.append(_cable(line, nodes))
    _warn(path, [each for each in cables if each[1]], rest_of(lines, 5))
    return nodes, kinds, [cable for cable, _ in cables]


def _form(head: Line) -> tuple[bool, bool]:
    """Return whether the first line has SimAI's form, and whether it has that of PowerTCP.

    Both may have six words: the last one names a GPU of SimAI, and is a rate for PowerTCP, which
    begins with a digit.
    """
    words = len(head.words)
    of_powertcp = words == 4 or (words == 6 and head.words[5][0].isdecimal())
    return words >= 5 and not of_powertcp, of_powertcp


def _kinds(path: Path, lines: Iterator[Line], nodes: int, inside: int, switches: int
           ) -> dict[int, str]:
    """Read the numbers of the switches, which may span several lines."""
    kinds: dict[int, str] = {}
    while len(kinds) < inside + switches:
        line = next(lines, None)
        if line is None:
            raise TraceError(f"{inside + switches} switches announced, {len(kinds)} found", path)
        for k in range(len(line.words)):
            node = line.whole(k, "the number of a switch", 0, nodes - 1)
            if node in kinds:
                line.refuse(f"switch {node} is there twice")
            kinds[node] = "nvswitch" if len(kinds) < inside else "switch"
        if len(kinds) > inside + switches:
            line.refuse(f"{inside + switches} switches announced, {len(kinds)} found")
    return kinds


def _cable(line: Line, nodes: int) -> tuple[Cable, float]:
    """Return a cable, and the share of packets that it loses."""
    start, end = (line.whole(k, f"{what} of the link", 0, nodes - 1)
                  for k, what in enumerate(("src", "dst")))
    if start == end:
        line.refuse(f"the link leads from node {start} to itself")
    rate, delay = line.word(2, "rate of the link"), line.word(3, "delay of the link")
    error = line.real(4, "error of the link")
    short = _SHORT.get(delay[-2:])
    number = math.nan if short is None else decimal(delay[:-2])
    if short is not None and math.isnan(number):
        line.refuse(f"delay must be a number with a unit, such as '10{delay[-2:]}', not {delay!r}")
    with in_file(line.path, line.number):
        wait = parse_seconds(delay if short is None else number * short, "delay")
        rate = _NO_UNIT.sub("bps", _BYTES.sub("B/s", rate))
        cable = Cable(start, end, parse_rate(rate, "rate", strict=True), wait, wait)
    return cable, error


def rest_of(lines: Iterator[Line], words: int) -> Sequence[Line]:
    """Return the remaining lines with `words` words, of which the first two are numbers."""
    return [line for line in lines
            if len(line.words) == words and all(is_digits(word) for word in line.words[:2])]


def _warn(path: Path, lossy: Sequence[tuple[Cable, float]], rest: Sequence[Line]) -> None:
    if lossy:
        cable, error = lossy[0]
        warnings.warn(NetsimWarning(
            f"{len(lossy)} links lose packets, the one from {cable.start} to {cable.end} "
            f"{error:g} of them, which is ignored", path), stacklevel=4)
    if rest:
        warnings.warn(NetsimWarning(
            f"{len(rest)} lines like links follow those that are announced, and are ignored",
            path, rest[0].number), stacklevel=4)


# --- htsim ---------------------------------------------------------------------------------

#: Keys before the first tier, as files write them; case does not matter.
_HEADER = ("Nodes", "Tiers", "Podsize")

#: Keys of a tier. Queues are read and not used, as flows do not queue.
_WHOLE = ("Radix_Up", "Radix_Down", "Queue_Up", "Queue_Down", "Oversubscribed", "Bundle")

_REAL = ("Downlink_speed_Gbps", "Switch_Latency_ns", "Downlink_Latency_ns")

_OF_TIER = (*_WHOLE, *_REAL)

_KEYS = {key.lower(): key for key in ("Tier", *_HEADER, *_OF_TIER)}

#: Kinds of nodes, from the bottom up.
_NODES = ("host", "tor", "agg", "core")


@takes_wire
def htsim(file: str | Path, *, routing: str = "ecmp", name: str | None = None,
          loopback_uses_ports: bool = False) -> GraphTopology:
    """Read a leaf-spine or a three-tier fat-tree from a ``.topo`` file of htsim.

    Nodes are ``host-0``, ``tor-0``, ``agg-0`` and ``core-0`` and so on. Links have the latencies of
    the file; the latency of a switch is added to the links that leave it. Queues are ignored.

    Parameters
    ----------
    file : path-like
    routing, loopback_uses_ports
        See `from_networkx`.
    name : str, optional
        A label; by default that of the file.

    Raises
    ------
    TraceError
        If the file cannot be read, lacks a value, or its values contradict each other. The message
        gives the line, if a single line is at fault.
    """
    path = Path(as_path(file, "file"))
    plan = htsim_tiers(path)
    with in_file(path):
        made = cabled(name or stem_of(path), plan.names(), plan.nodes, list(plan.cables()),
                      routing=routing, relay=False, loopback_uses_ports=loopback_uses_ports,
                      layers=plan.layers())
    made.cables.bisection = plan.bisection()
    return made


@dataclass
class Tiers:
    """The contents of a ``.topo`` file; lists have a value per tier, from the bottom up."""

    nodes: int  #: hosts of the network
    podsize: int  #: hosts of a pod
    switches: list[int] = field(default_factory=list)  #: number of top-of-rack switches, ...
    pods: int = 1
    rate: list[float] = field(default_factory=list)  #: of each link below, in bytes per second
    link_s: list[float] = field(default_factory=list)  #: latency of the links below
    switch_s: list[float] = field(default_factory=list)  #: latency of the switches
    up: list[int] = field(default_factory=list)  #: links up from a switch; not of the highest tier
    bundle: list[int] = field(default_factory=list)  #: parallel links below

    def names(self) -> list[str]:
        """Return the names of all nodes, hosts first."""
        counts = (self.nodes, *self.switches)
        return [f"{kind}-{k}" for kind, count in zip(_NODES, counts, strict=False)
                for k in range(count)]

    def layers(self) -> dict[str, str]:
        """Return the layer of each switch above the lowest tier.

        The aggregation switches of a pod are one layer, and so are all core switches.
        """
        three = len(self.switches) == 3
        per_pod = self.switches[1] // self.pods
        of = {f"agg-{k}": f"pod-{k // per_pod}" if three else "aggs"
              for k in range(self.switches[1])}
        return of | {f"core-{k}": "cores" for k in range(self.switches[2] if three else 0)}

    def cables(self) -> Iterator[Cable]:
        """Yield all cables, from the bottom up."""
        tors, aggs = self.switches[0] // self.pods, self.switches[1] // self.pods
        first = [0, self.nodes, self.nodes + self.switches[0], self.nodes + sum(self.switches[:2])]
        for host in range(self.nodes):
            yield self._cable(0, host, first[1] + host // (self.nodes // self.switches[0]))
        for tor, agg, _ in product(range(self.switches[0]), range(aggs), range(self.bundle[1])):
            yield self._cable(1, first[1] + tor, first[2] + tor // tors * aggs + agg)
        if len(self.switches) == 3:
            for agg, k, _ in product(range(self.switches[1]), range(self.switches[2] // aggs),
                                     range(self.bundle[2])):
                yield self._cable(2, first[2] + agg, first[3] + agg % aggs + aggs * k)

    def _cable(self, tier: int, below: int, above: int) -> Cable:
        own = self.switch_s[tier - 1] if tier else 0.0
        return Cable(below, above, self.rate[tier], self.link_s[tier] + own,
                     self.link_s[tier] + self.switch_s[tier])

    def bisection(self) -> float | None:
        """Return the bisection bandwidth, if a formula is known, in bytes per second."""
        hosts = self.nodes // self.switches[0]
        port, above = hosts * self.rate[0], self.up[0] * self.rate[1]
        if len(self.switches) == 2:
            odd = self.switches[0] % 2
            return self.switches[0] // 2 * min(port, above) + odd * (hosts // 2) * self.rate[0]
        full = above >= port and self.up[1] * self.rate[2] * self.switches[1] >= port * (
            self.switches[0])
        return self.nodes // 2 * self.rate[0] if full and self.pods % 2 == 0 else None


def htsim_tiers(file: str | Path) -> Tiers:
    """Read the tiers of a ``.topo`` file."""
    path = Path(file)
    header, tiers = _read(path)
    for key in _HEADER:
        if key not in header:
            raise TraceError(f"{key} is missing before the first tier", path)
    nodes, podsize = (header[key][0] for key in ("Nodes", "Podsize"))
    check_limit("hosts", nodes, path, header["Nodes"][1].number, where="Nodes")
    count, line = header["Tiers"]
    if count not in (2, 3):
        line.refuse(f"Tiers must be 2 or 3, not {count}")
    for tier in range(count):
        if tier not in tiers:
            raise TraceError(f"Tier {tier} is missing; there must be {count} tiers", path)
    for tier in tiers:
        if tier >= count:
            tiers[tier].line.refuse(f"Tier {tier} is too much: Tiers is {count}")
    return _planned(path, int(nodes), int(podsize), [tiers[tier] for tier in range(count)])


@dataclass
class _Tier:
    """The keys of a tier, and the line on which it begins."""

    number: int
    line: Line
    values: dict[str, tuple[float, Line]] = field(default_factory=dict)

    def get(self, key: str, default: float | None = None) -> float:
        if key in self.values:
            return self.values[key][0]
        if default is None:
            self.line.refuse(f"{key} is missing for tier {self.number}")
        return default

    def whole(self, key: str, default: int | None = None) -> int:
        return int(self.get(key, default))

    def refuse(self, key: str, message: str) -> NoReturn:
        """Raise an error on the line of a key, or that of the tier if it is not given."""
        line = self.values[key][1] if key in self.values else self.line
        line.refuse(f"tier {self.number}: {message}")


def _read(path: Path) -> tuple[dict[str, tuple[int, Line]], dict[int, _Tier]]:
    """Read the keys of the header and of the tiers, each with its line."""
    header: dict[str, tuple[int, Line]] = {}
    tiers: dict[int, _Tier] = {}
    tier = None
    for line in lines_of(path, comment="#"):
        key = _KEYS.get(line.words[0].lower(), "")
        if len(line.words) > 2:
            line.refuse(f"{line.words[0]} has one value, not {len(line.words) - 1}")
        if key == "Tier":
            number = line.whole(1, "Tier", 0, 2)
            if number in tiers:
                line.refuse(f"Tier {number} is there twice, first on line "
                            f"{tiers[number].line.number}")
            tier = tiers[number] = _Tier(number, line)
        elif key in _HEADER:
            if tier is not None:
                line.refuse(f"{line.words[0]} must come before the first tier")
            if key in header:
                line.refuse(f"{key} twice, first on line {header[key][1].number}")
            header[key] = line.whole(1, key, 1), line
        elif key in _OF_TIER:
            if tier is None:
                line.refuse(f"{line.words[0]} must come after the first tier")
            if key in tier.values:
                line.refuse(f"{key} twice for tier {tier.number}, first on line "
                            f"{tier.values[key][1].number}")
            tier.values[key] = _value(line, key), line
        else:
            allowed = _HEADER if tier is None else _OF_TIER
            line.refuse(unknown_name("name", line.words[0], ("Tier", *allowed)))
    return header, tiers


def _value(line: Line, key: str) -> float:
    if key in _WHOLE:
        return line.whole(1, key, 1)
    return line.real(1, key, strict=key != "Switch_Latency_ns")


def _planned(path: Path, nodes: int, podsize: int, tiers: list[_Tier]) -> Tiers:
    """Check that the numbers go together, as htsim does, and count switches and links."""
    plan = Tiers(nodes, podsize)
    for tier in tiers:
        plan.rate.append(tier.get("Downlink_speed_Gbps") * 1e9 / 8)
        plan.link_s.append(tier.get("Downlink_Latency_ns") * 1e-9)
        plan.switch_s.append(tier.get("Switch_Latency_ns", 0.0) * 1e-9)
        plan.bundle.append(tier.whole("Bundle", 1))
        tier.whole("Radix_Down")
    plan.up = [tier.whole("Radix_Up") for tier in tiers[:-1]]
    top = tiers[-1]
    if "Radix_Up" in top.values:
        top.refuse("Radix_Up", "the highest tier has no links up, and thus no Radix_Up")
    if plan.bundle[0] > 1:
        tiers[0].refuse("Bundle", "hosts have one link each; Bundle must be 1")
    plan.pods = _whole_ratio(path, nodes, podsize, "Nodes", "Podsize")
    if len(tiers) == 2 and plan.pods > 1:
        raise TraceError(f"two tiers are one pod: Podsize must be {nodes}, as Nodes is, not "
                         f"{podsize}", path)
    down = tiers[0].whole("Radix_Down")
    _whole_ratio(path, podsize, down, "Podsize", "Radix_Down of tier 0")
    plan.switches = [nodes // down]
    cables = nodes + _above(plan, tiers, 0)
    if len(tiers) == 3:
        cables += _above(plan, tiers, 1)
    check_limit("cables", cables, path, where="the network")
    return plan


def _above(plan: Tiers, tiers: list[_Tier], k: int) -> int:
    """Count the switches above tier k; return the links between.

    With T links below tier k, of rate r_k, there are U = T r_k/(r_(k+1) oversubscription) links up.
    """
    tier, above = tiers[k], tiers[k + 1]
    ratio, bundle = tier.whole("Oversubscribed", 1), plan.bundle[k + 1]
    radix_up, radix_down = plan.up[k], above.whole("Radix_Down")
    below = plan.nodes if k == 0 else plan.switches[0] * plan.up[0]
    if k == 0 and tier.whole("Radix_Down") // radix_up != ratio:
        tier.refuse("Radix_Up", f"Radix_Down {tier.whole('Radix_Down')} over Radix_Up {radix_up} "
                    f"must be Oversubscribed, {ratio}")
    for key, radix, at in (("Radix_Up", radix_up, tier), ("Radix_Down", radix_down, above)):
        if radix % bundle:
            at.refuse(key, f"{key} {radix} is no multiple of Bundle, {bundle}")
    links = below * plan.rate[k] / (plan.rate[k + 1] * ratio)
    groups = plan.pods if k == 0 else 1
    count = links / (groups * radix_down)
    per_pod = plan.switches[0] // plan.pods if k == 0 else plan.switches[1] // plan.pods
    if links != int(links) or count != int(count) or not count:
        above.refuse("Radix_Down", f"{links:g} links up are no whole number of switches with "
                     f"Radix_Down {radix_down}" + (f" in each of {groups} pods" * (groups > 1)))
    what = ("aggregation", "core")[k]
    if k == 1 and int(count) % per_pod:
        above.refuse("Radix_Down", f"{int(count)} core switches are no multiple of the {per_pod} "
                     "aggregation switches of a pod")
    needed = int(count) * bundle // (1 if k == 0 else per_pod)
    if needed != radix_up:
        tier.refuse("Radix_Up", f"Radix_Up {radix_up} against {int(count)} {what} switches"
                    f"{' of a pod' * (k == 0)} in bundles of {bundle}, which need {needed}")
    plan.switches.append(int(count) * groups)
    return int(links)


def _whole_ratio(path: Path, number: int, by: int, what: str, of: str) -> int:
    if number % by:
        raise TraceError(f"{what} {number} is no multiple of {of} {by}", path)
    return number // by
