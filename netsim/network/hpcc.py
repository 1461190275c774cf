"""Networks from the topology files of simulators on ns-3: those of HPCC, PowerTCP and SimAI."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path

from netsim.checks import check_path
from netsim.errors import InputError, NetsimWarning, TraceError
from netsim.limits import check_limit
from netsim.network.cables import Cable, cabled
from netsim.network.graph import GraphTopology
from netsim.network.lines import Line, lines_of
from netsim.network.wired import takes_wire
from netsim.units import decimal, is_digits, parse_rate, parse_seconds

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
    check_path(file, "file")
    path = Path(file)
    nodes, kinds, cables = _read(path)
    hosts = [node for node in range(nodes) if node not in kinds]
    if not hosts:
        raise TraceError(f"all {nodes} nodes are switches; there must be a host", path)
    order = hosts + list(kinds)
    number = {node: k for k, node in enumerate(order)}
    moved = [cable._replace(start=number[cable.start], end=number[cable.end])
             for cable in cables]
    names = [f"{kinds.get(node, 'host')}-{node}" for node in order]
    try:
        return cabled(name or path.stem, names, len(hosts), moved, routing=routing, relay=False,
                      paths=_inside(names, moved, path) or None,
                      loopback_uses_ports=loopback_uses_ports)
    except TraceError:
        raise
    except InputError as error:
        raise TraceError(str(error), path) from error


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
    nodes, kinds, _ = _read(Path(file))
    return {node: k for k, node in enumerate(node for node in range(nodes) if node not in kinds)}


def _read(path: Path) -> tuple[int, dict[int, str], list[Cable]]:
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
    try:
        wait = parse_seconds(delay if short is None else number * short, "delay")
        rate = _NO_UNIT.sub("bps", _BYTES.sub("B/s", rate))
        cable = Cable(start, end, parse_rate(rate, "rate", strict=True), wait, wait)
    except ValueError as problem:  # an InputError is one, too
        line.refuse(str(problem))
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
