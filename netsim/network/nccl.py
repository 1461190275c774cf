"""Networks of servers described by NCCL's topology XML: the devices of a server, and the paths."""

from __future__ import annotations

import re
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from netsim.base.arrays import Ints
from netsim.base.files import stem_of
from netsim.base.lazy import nx
from netsim.base.limits import check_limit
from netsim.base.units import Quantity, decimal, parse_rate
from netsim.base.values import about, as_choice, as_path, as_whole, refused
from netsim.base.xml_tree import Element, read_xml
from netsim.errors import InputError, NetsimWarning, TraceError
from netsim.network.topology import Topology
from netsim.network.wire import Wire
from netsim.network.wired import takes_wire

# --- the server in the file ----------------------------------------------------------------

#: Bytes per second of one GB/s, as NCCL counts them.
_GB = 1e9

#: The rate of one lane of PCIe, in units of 100 Mbps, by its gigatransfers per second.
_LANES = {2.5: 15, 5.0: 30, 8.0: 60, 16.0: 120, 32.0: 240, 64.0: 480}

_SPEED = re.compile(r"\s*(\d+(?:\.\d+)?)\s*GT/s", re.ASCII)

#: GB/s of an NVLink, by the least compute capability that has it; 8.6 is a case of its own.
_NVLINKS = ((100, 40.1), (90, 20.6), (70, 20.0), (60, 18.0))

_NVLINK_86 = 12.0

#: GB/s between CPUs: of Intel by the least model, of others by vendor or architecture.
_INTEL = ((0xCF, 40.0), (0x8F, 22.0), (0x55, 10.0), (0, 6.0))

_BETWEEN = {"AuthenticAMD": 16.0, "arm64": 6.0, "ppc64": 32.0}

_UNKNOWN_CPU = 5000.0

#: Kinds of devices that the option may name.
_KINDS = ("gpu", "nic", "pci")

#: Mbit/s of a network card whose speed is not given.
_NET_MBPS = 10_000


@dataclass(frozen=True)
class NcclCpu:
    """A CPU, or NUMA node."""

    name: str  #: ``numa0`` and so on
    arch: str | None
    vendor: str | None
    between: float  #: the rate of its links to other CPUs, in bytes per second


@dataclass(frozen=True)
class NcclDevice:
    """A device on PCIe."""

    busid: str
    #: ``"gpu"``, ``"nic"``, ``"pci"`` (a PCIe switch), ``"nvswitch"``, or ``"unknown"`` if the file
    #: gives no PCI class.
    kind: str
    parent: str  #: the bus id of the PCIe switch above the device, or the name of the CPU
    cpu: str
    rate: float  #: of its link to the parent in each direction, in bytes per second
    speed_given: bool = False  #: whether the file has the speed of that link
    rank: int | None = None  #: of a GPU, as its device number and its compute capability
    dev: int | None = None
    sm: int | None = None


@dataclass(frozen=True)
class NcclLink:
    """One direction of NVLinks, xGMI or a chip-to-chip link."""

    start: str  #: the bus id of a GPU, the name of a CPU, or ``"nvswitch"``
    end: str
    rate: float  #: in bytes per second; for xGMI, the number of links, as the file has no speed
    kind: str = "nvlink"  #: or ``"xgmi"`` or ``"c2c"``


@dataclass(frozen=True)
class NcclServer:
    """A server as NCCL sees it.

    Attributes
    ----------
    path : Path
    version : str
    cpus : tuple of NcclCpu
    devices : tuple of NcclDevice
        In the order of the file, each switch before the devices below it.
    links : tuple of NcclLink
    nets : tuple of (str, str, float, float)
        For each port of a NIC: the bus id of the NIC, and the port's name, rate in bytes per second
        and latency in seconds.
    """

    path: Path
    version: str
    cpus: tuple[NcclCpu, ...]
    devices: tuple[NcclDevice, ...]
    links: tuple[NcclLink, ...]
    nets: tuple[tuple[str, str, float, float], ...]

    def of_kind(self, kind: str) -> list[NcclDevice]:
        """Return the devices of a kind, in order of the file."""
        return [each for each in self.devices if each.kind == kind]

    @property
    def gpus(self) -> list[NcclDevice]:
        """The GPUs, in order of ranks, or else of device numbers, or else of the file.

        Ranks and device numbers determine the order only if all GPUs have them.
        """
        found = self.of_kind("gpu")
        for numbers in ([each.rank for each in found], [each.dev for each in found]):
            known = [number for number in numbers if number is not None]
            if len(known) == len(set(known)) == len(found):
                return [found[k] for k in sorted(range(len(found)), key=known.__getitem__)]
        return found


@dataclass
class _Found:
    """What has been found so far."""

    cpus: list[NcclCpu] = field(default_factory=list)
    devices: dict[str, tuple[NcclDevice, Element]] = field(default_factory=dict)
    gpus: list[tuple[str, Element]] = field(default_factory=list)
    nets: list[tuple[str, str, float, float]] = field(default_factory=list)


def read_nccl_server(file: str | Path, *, kinds: Mapping[str, str] | None = None) -> NcclServer:
    """Read NCCL's topology XML, as in ``NCCL_TOPO_FILE`` or from ``NCCL_TOPO_DUMP_FILE``.

    Rates are those that NCCL assumes: for PCIe by speed and lanes, for NVLink by compute
    capability, for links between CPUs by their model.

    Parameters
    ----------
    file : path-like
    kinds : mapping of str to str, optional
        The kinds of devices without a class, by bus id: ``"gpu"``, ``"nic"``, or ``"pci"`` for a
        switch.

    Raises
    ------
    TraceError
        If the file cannot be read or is invalid, with the line; document types and entities are
        refused.
    InputError
        If `kinds` names a missing device or an unknown kind.

    Warns
    -----
    NetsimWarning
        If an NVLink leads from a GPU to itself, which is left out.
    """
    path = Path(as_path(file, "file"))
    root = read_xml(path)
    if root.name != "system":
        root.refuse(f"must be a <system>, not a <{root.name}>")
    named = _checked_kinds(kinds)
    found = _Found()
    for cpu in root.named("cpu"):
        _add_cpu(found, cpu, named)
    missing = sorted(named.keys() - found.devices.keys())
    if missing:
        raise InputError(f"kinds: {path} has no device {missing[0]!r}", "kinds")
    links = tuple(link for busid, gpu in found.gpus for link in _links(found, busid, gpu))
    return NcclServer(path, root.text("version", ""), tuple(found.cpus),
                      tuple(device for device, _ in found.devices.values()), links,
                      tuple(found.nets))


@about("kinds")
def _checked_kinds(kinds: Mapping[str, str] | None) -> dict[str, str]:
    if not isinstance(kinds, Mapping | None):
        raise refused("kinds", "a table of bus ids and kinds", kinds)
    return {busid: as_choice(kind, f"kind of device {busid!r}", _KINDS)
            for busid, kind in (kinds or {}).items()}


def _add_cpu(found: _Found, cpu: Element, named: Mapping[str, str]) -> None:
    """Add a CPU and all devices below it."""
    name = f"numa{cpu.whole('numaid', -1)}"
    if any(each.name == name for each in found.cpus):
        cpu.refuse(f"CPU {name} is there twice")
    arch, vendor = (cpu.attributes.get(key) for key in ("arch", "vendor"))
    found.cpus.append(NcclCpu(name, arch, vendor, _between(cpu, arch, vendor)))
    waiting = [(name, child) for child in reversed(cpu.children)]
    while waiting:  # no recursion, as files may be nested deeply
        parent, element = waiting.pop()
        if element.name == "pci":
            busid = _add_pci(found, element, parent, name, named)
            waiting += [(busid, child) for child in reversed(element.children)
                        if child.name == "pci"]
        elif element.name == "nic":
            busid = f"nic-{len(found.devices)}@{name}"
            found.devices[busid] = NcclDevice(busid, "nic", parent, name,
                                              _UNKNOWN_CPU * _GB), element
            _add_nets(found, busid, element)


def _between(cpu: Element, arch: str | None, vendor: str | None) -> float:
    """Return the rate between CPUs, in bytes per second."""
    if vendor == "GenuineIntel":
        model = cpu.whole("modelid", -1, 0)
        return _GB * next(rate for least, rate in _INTEL if model >= least or least == 0)
    return _GB * (_BETWEEN.get(vendor or "") or _BETWEEN.get(arch or "", _UNKNOWN_CPU))


def _add_pci(found: _Found, element: Element, parent: str, cpu: str, named: Mapping[str, str]
             ) -> str:
    busid = element.text("busid")
    if busid in found.devices:
        element.refuse(f"busid {busid!r} is there twice, first on line "
                       f"{found.devices[busid][1].line}")
    rate, given = _pcie(element)
    gpu = next(element.named("gpu"), None)
    numbers: dict[str, int | None] = dict.fromkeys(("rank", "dev", "sm"))
    if gpu is not None:
        found.gpus.append((busid, gpu))
        numbers = {key: gpu.whole(key, -1) if key in gpu.attributes else None for key in numbers}
    kind = _kind(element, named)
    found.devices[busid] = NcclDevice(busid, kind, parent, cpu, rate, given, **numbers), element
    for nic in element.named("nic"):
        _add_nets(found, busid, nic)
    return busid


def _kind(element: Element, named: Mapping[str, str]) -> str:
    """Return the kind of a device, from its contents, else its class, else the option."""
    for kind in ("gpu", "nic"):
        if any(element.named(kind)):
            return kind
    of_class = element.attributes.get("class", "").strip().lower()
    for prefix, kind in (("0x03", "gpu"), ("0x02", "nic"), ("0x068000", "nvswitch")):
        if of_class.startswith(prefix):
            return kind
    if of_class:
        return "pci"
    return named.get(element.text("busid"), "pci" if any(element.named("pci")) else "unknown")


def _pcie(element: Element) -> tuple[float, bool]:
    """Return the rate of a device's PCIe link, and whether the file has its speed."""
    speed = element.attributes.get("link_speed", "")
    match = _SPEED.match(speed)
    if match is None and "GT/s" in speed:
        element.refuse(f"<{element.name}>: link_speed must be such as '16.0 GT/s PCIe', not "
                       f"{speed!r}")
    lanes = element.whole("link_width", 0, 0) or 16
    per_lane = _LANES.get(float(match[1]), 60) if match else 60
    return _GB * lanes * per_lane / 80, match is not None


def _add_nets(found: _Found, busid: str, nic: Element) -> None:
    for net in nic.named("net"):
        mbps = net.whole("speed", -(10**9), 0)
        name = net.attributes.get("name", f"net-{len(found.nets)}")
        text = net.attributes.get("latency", "0")
        latency = decimal(text)
        if not 0 <= latency < 1e9:
            net.refuse(f"<net>: latency must be a number of microseconds, not {text!r}")
        found.nets.append((busid, name, (mbps if mbps > 0 else _NET_MBPS) * 1e6 / 8,
                           latency * 1e-6))


def _links(found: _Found, busid: str, gpu: Element) -> Iterator[NcclLink]:
    """Yield the links of a GPU besides PCIe, in the directions that its entries describe."""
    device = found.devices[busid][0]
    for link in gpu.named("nvlink", "xgmi"):
        count = link.whole("count", 1)
        rate = float(count) if link.name == "xgmi" else count * _nvlink(device.sm) * _GB
        other = _other(found, device, link)
        if other == busid:
            warnings.warn(NetsimWarning(f"a link of GPU {busid} leads to itself, and is left out",
                                        link.path, link.line), stacklevel=3)
            continue
        yield NcclLink(busid, other, rate, link.name)
        if other == "nvswitch" or other == device.cpu:
            yield NcclLink(other, busid, rate, link.name)
    for link in gpu.named("c2c"):
        rate = link.whole("bw", 1) * link.whole("count", 1) / 1000 * _GB
        yield NcclLink(busid, device.cpu, rate, "c2c")
        yield NcclLink(device.cpu, busid, rate, "c2c")


def _other(found: _Found, device: NcclDevice, link: Element) -> str:
    """Return the other end of a link."""
    of_class = link.text("tclass", "0x03").strip().lower()
    if of_class.startswith("0x068001"):
        return device.cpu
    if not of_class.startswith("0x03"):
        return "nvswitch"
    target = link.text("target")
    if target not in found.devices or found.devices[target][0].kind != "gpu":
        link.refuse(f"a link of GPU {device.busid} leads to {target!r}, which is no GPU")
    return target


def _nvlink(sm: int | None) -> float:
    """Return GB/s of one NVLink, each way."""
    if sm == 86:
        return _NVLINK_86
    return next((rate for least, rate in _NVLINKS if sm is not None and sm >= least), 20.0)


# --- the network ---------------------------------------------------------------------------

#: The node that joins the NICs of all servers.
_FABRIC = "fabric"


@takes_wire
def nccl(file: str | Path, *, servers: int = 1, nvlink: Quantity | None = None,
         nic: Quantity | None = None, xgmi: Quantity | None = None,
         kinds: Mapping[str, str] | None = None, name: str | None = None,
         loopback_uses_ports: bool = False) -> NcclNetwork:
    """Make a network of servers from NCCL's topology XML, with each GPU as a host.

    Host s g + r is GPU r of server s, with g GPUs per server; see `NcclServer.gpus` for their
    order. Inside a server, a flow takes a direct NVLink, or else the NVSwitch, or else PCIe.
    Between servers, it takes the NIC that is nearest on PCIe on both sides, and a non-blocking
    fabric. GPUs that are equally near to several NICs are assigned to them in turn.

    Nodes are ``gpu-s.r``, ``nic-s.k``, ``pci-s.k``, ``cpu-s.k``, ``nvswitch-s`` and ``fabric``.

    Parameters
    ----------
    file : path-like
    servers : int
        Number of servers of this kind.
    nvlink : quantity, optional
        If the file has no NVLinks, as in clouds: rate of all NVLinks of a GPU to an NVSwitch
        together, in each direction; 0 if the GPUs have none.
    nic : quantity, optional
        Rate of each NIC that has no ports in the file.
    xgmi : quantity, optional
        Rate of one xGMI link in each direction, if there are any.
    kinds : mapping of str to str, optional
        See `netsim.network.read_nccl_server`.
    name : str, optional
        A label; by default that of the file.
    loopback_uses_ports : bool
        Whether a flow from a GPU to itself uses its PCIe link.

    Raises
    ------
    TraceError
        If the file cannot be read, is invalid, or has no NIC although several servers need one; or
        if it lacks a value, and `nvlink`, `nic`, `xgmi` or `kinds` does not give it.
    InputError
        If an option is invalid.
    """
    servers = as_whole(servers, "servers", 1)
    rates = {what: None if value is None else parse_rate(value, what)
             for what, value in (("nvlink", nvlink), ("nic", nic), ("xgmi", xgmi))}
    server = read_nccl_server(file, kinds=kinds)
    inside = _inside(server, servers, **rates)
    with about("servers"):
        check_limit("cables", servers * len(inside.links), where=f"{servers:,} servers")
    return NcclNetwork(server, inside, servers, name or stem_of(file), loopback_uses_ports)


@dataclass
class _Inside:
    """The nodes and links of a server, numbered from 0, and its paths."""

    #: Names without the number of the server, GPUs first.
    nodes: list[str] = field(default_factory=list)
    #: Start, end, rate (bytes/s) and latency (s); `_FABRIC` may be an end.
    links: list[tuple[str, str, float, float]] = field(default_factory=list)
    #: The links between two GPUs; from a GPU to the fabric, and back.
    paths: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def join(self, start: str, end: str, rate: float, latency: float = 0.0) -> None:
        self.links.append((start, end, rate, latency))


class NcclNetwork(Topology):
    """Servers, of `gpus` GPUs each, described by NCCL's topology XML; made by `nccl`."""

    def __init__(self, server: NcclServer, inside: _Inside, servers: int, name: str,
                 loopback_uses_ports: bool) -> None:
        self.server, self.servers, self.gpus = server, servers, len(server.gpus)
        self._inside = inside
        names = [f"{_at(start, s)}->{_at(end, s)}" for s in range(servers)
                 for start, end, _, _ in inside.links]
        rate, latency = (np.tile([link[k] for link in inside.links], servers) for k in (2, 3))
        super().__init__(name, servers * self.gpus, rate, names,
                         loopback_uses_ports=loopback_uses_ports,
                         wire=Wire(len(names), latency, link_names=tuple(names)))
        own = inside.nodes[:self.gpus]
        self._between = [[inside.paths.get((one, other), []) for other in own] for one in own]
        self._up = [inside.paths.get((each, _FABRIC), []) for each in own]
        self._down = [inside.paths.get((_FABRIC, each), []) for each in own]
        if loopback_uses_ports:
            for k, each in enumerate(own):
                self._between[k][k] = _loop(inside, each)

    def routes(self, src: Ints, dst: Ints, key: Ints) -> tuple[Ints, Ints]:
        """Return the path of each flow, whatever its key; see `Topology.routes`."""
        per, links = len(self._inside.links), []
        ptr = np.zeros(len(src) + 1, np.int64)
        self._check_range(src, dst)
        for k, (one, other) in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
            (s, gpu), (t, end) = divmod(one, self.gpus), divmod(other, self.gpus)
            if s == t:
                links += [s * per + link for link in self._between[gpu][end]]
            else:
                links += [s * per + link for link in self._up[gpu]]
                links += [t * per + link for link in self._down[end]]
            ptr[k + 1] = len(links)
        return ptr, np.array(links, np.int64)

    def to_networkx(self) -> nx.DiGraph:
        """Return the network as a graph; see `Topology.to_networkx`."""
        graph = nx.DiGraph(name=self.name)
        nodes = self._inside.nodes
        graph.add_nodes_from((_at(each, s) for s in range(self.servers)
                              for each in nodes[:self.gpus]), host=True)
        graph.add_nodes_from(_at(each, s) for s in range(self.servers)
                             for each in nodes[self.gpus:])
        for name, capacity in zip(self.link_names, self.capacity.tolist(), strict=True):
            graph.add_edge(*name.split("->"), name=name, capacity=capacity)
        return graph


def _at(node: str, server: int) -> str:
    """Return the name of a node of a server."""
    if node == _FABRIC:
        return node
    kind, sign, number = node.partition("-")
    return f"{kind}-{server}.{number}" if sign else f"{kind}-{server}"


def _loop(inside: _Inside, gpu: str) -> list[int]:
    """Return the first link of a GPU, and the link back."""
    for there, (start, end, _, _) in enumerate(inside.links):
        if start == gpu:
            return [there, *(back for back, link in enumerate(inside.links)
                             if link[:2] == (end, gpu))][:2]
    return []


def _inside(server: NcclServer, servers: int, nvlink: float | None, nic: float | None,
            xgmi: float | None) -> _Inside:
    """Lay out the inside of a server; a missing option that the file needs is a `TraceError`."""
    unknown = [each.busid for each in server.of_kind("unknown")]
    if unknown:
        raise TraceError(f"does not say what these devices are: {', '.join(unknown)}; give kinds, "
                         f'such as {{"{unknown[0]}" = "gpu"}}', server.path)
    if not server.gpus:
        raise TraceError("has no GPU", server.path)
    check_limit("paths", len(server.gpus) ** 2, server.path, where=f"{len(server.gpus)} GPUs")
    nics = server.of_kind("nic")
    if servers > 1 and not nics:
        raise TraceError(f"has no NIC, which GPU {server.gpus[0].busid} needs to reach another "
                         "server; give servers = 1, or kinds", server.path, key="servers")
    names = _names(server)
    made = _Inside(list(names.values()))
    _add_pcie(made, server, names)
    _add_links(made, server, names, nvlink, xgmi)
    if servers > 1:
        _add_fabric(made, server, names, nic)
    _add_paths(made, server, names, servers > 1)
    return made


def _names(server: NcclServer) -> dict[str, str]:
    """Return the names of nodes by their bus id or name in the file, GPUs first."""
    names = {each.busid: f"gpu-{k}" for k, each in enumerate(server.gpus)}
    for kind in ("nic", "pci"):
        names |= {each.busid: f"{kind}-{k}" for k, each in enumerate(server.of_kind(kind))}
    return names | {cpu.name: f"cpu-{k}" for k, cpu in enumerate(server.cpus)}


def _add_pcie(made: _Inside, server: NcclServer, names: Mapping[str, str]) -> None:
    """Add the trees of PCIe, and the links between CPUs."""
    for each in server.devices:
        if each.kind != "nvswitch":
            if each.parent not in names:
                raise TraceError(f"device {each.busid} hangs on {each.parent}, an NVSwitch",
                                 server.path)
            made.join(names[each.busid], names[each.parent], each.rate)
            made.join(names[each.parent], names[each.busid], each.rate)
    for one in server.cpus:
        for other in server.cpus:
            if one is not other:
                made.join(names[one.name], names[other.name], min(one.between, other.between))


def _add_links(made: _Inside, server: NcclServer, names: Mapping[str, str],
               nvlink: float | None, xgmi: float | None) -> None:
    """Add NVLinks, xGMI and chip-to-chip links; parallel ones are one link."""
    direct = [link for link in server.links if link.kind != "c2c"]
    if direct and nvlink is not None:
        xgmis = any(link.kind == "xgmi" for link in direct)
        raise TraceError("has xGMI links; give xgmi, the rate of each of them, instead of nvlink"
                         if xgmis else "has NVLinks; leave out nvlink", server.path, key="nvlink")
    if not direct and nvlink is None:
        raise TraceError('has no NVLinks; give nvlink, of each GPU, such as "600GB/s", or 0 if '
                         "there are none", server.path)
    if xgmi is None and any(link.kind == "xgmi" for link in direct):
        raise TraceError("has no speed of its xGMI links; give xgmi, of each link", server.path)
    ends = dict(names) | {"nvswitch": "nvswitch"}
    total: dict[tuple[str, str], float] = {}
    for link in server.links:
        pair = ends[link.start], ends[link.end]
        total[pair] = total.get(pair, 0.0) + link.rate * (
            (xgmi or 0.0) if link.kind == "xgmi" else 1.0)
    if not direct and nvlink:
        for each in server.gpus:
            total[names[each.busid], "nvswitch"] = nvlink
            total["nvswitch", names[each.busid]] = nvlink
    have = {link[:2]: k for k, link in enumerate(made.links)}
    for (start, end), rate in total.items():
        if (start, end) in have:  # on the same CPU by PCIe as well; NCCL takes the faster one
            k = have[start, end]
            made.links[k] = (start, end, max(rate, made.links[k][2]), 0.0)
        else:
            made.join(start, end, rate)
    if any("nvswitch" in pair for pair in total):
        made.nodes.append("nvswitch")


def _add_fabric(made: _Inside, server: NcclServer, names: Mapping[str, str], nic: float | None
                ) -> None:
    """Add a link between each NIC and the fabric, with the rate of all its ports together."""
    for each in server.of_kind("nic"):
        ports = [(rate, latency) for busid, _, rate, latency in server.nets
                 if busid == each.busid]
        if not ports and not nic:
            raise TraceError(f'has no speed of NIC {each.busid}; give nic, such as "200Gbps"',
                             server.path)
        rate = sum(rate for rate, _ in ports) or nic or 0.0
        made.join(names[each.busid], _FABRIC, rate, max((each for _, each in ports), default=0.0))
        made.join(_FABRIC, names[each.busid], rate)


def _add_paths(made: _Inside, server: NcclServer, names: Mapping[str, str], several: bool) -> None:
    """Find the paths between GPUs, and to the fabric and back if there are several servers."""
    link_of = {link[:2]: k for k, link in enumerate(made.links)}
    gpus = [names[each.busid] for each in server.gpus]
    hidden = {*gpus, "nvswitch", _FABRIC, *(names[each.busid] for each in server.of_kind("nic"))}
    near = {}
    for gpu in gpus:
        ways = _search(made, gpu, hidden)
        for other in gpus:
            if other == gpu:
                continue
            if (gpu, other) in link_of:
                path = [gpu, other]
            elif (gpu, "nvswitch") in link_of and ("nvswitch", other) in link_of:
                path = [gpu, "nvswitch", other]
            else:
                path = ways[other]
            made.paths[gpu, other] = _links_on(path, link_of)
        near[gpu] = _nearest(ways, [names[each.busid] for each in server.of_kind("nic")])
    if not several:
        return
    for place, gpu in enumerate(gpus):
        alike = sum(near[other] == near[gpu] for other in gpus[:place])
        chosen = near[gpu][alike % len(near[gpu])]
        path = [*_search(made, gpu, hidden)[chosen], _FABRIC]
        made.paths[gpu, _FABRIC] = _links_on(path, link_of)
        made.paths[_FABRIC, gpu] = _links_on(path[::-1], link_of)


def _links_on(path: Sequence[str], link_of: Mapping[tuple[str, str], int]) -> list[int]:
    return [link_of[pair] for pair in pairwise(path)]


def _nearest(ways: Mapping[str, Sequence[str]], nics: Sequence[str]) -> list[str]:
    """Return the NICs with the fewest hops."""
    least = min((len(ways[each]) for each in nics), default=0)
    return [each for each in nics if len(ways[each]) == least]


def _search(made: _Inside, start: str, hidden: set[str]) -> dict[str, list[str]]:
    """Return the shortest path to every node over PCIe, through switches and CPUs only.

    Among equally short paths, the one with faster links is taken.
    """
    onward: dict[str, list[tuple[float, str]]] = {}
    for tail, head, rate, _ in made.links:
        onward.setdefault(tail, []).append((-rate, head))
    ways, frontier = {start: [start]}, deque([start])
    while frontier:
        node = frontier.popleft()
        if node in hidden and node != start:
            continue
        for _, other in sorted(onward.get(node, [])):
            if other not in ways and not (node == start and other in hidden):
                ways[other] = [*ways[node], other]
                frontier.append(other)
    return ways
