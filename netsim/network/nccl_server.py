"""The devices and links of a server, from NCCL's topology XML."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from netsim.checks import check_path
from netsim.errors import InputError, NetsimWarning, UnknownNameError
from netsim.units import decimal
from netsim.xml_tree import Element, read_xml

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
    check_path(file, "file")
    path = Path(file)
    root = read_xml(path)
    if root.name != "system":
        root.refuse(f"must be a <system>, not a <{root.name}>")
    named = _checked_kinds(kinds)
    found = _Found()
    for cpu in root.named("cpu"):
        _add_cpu(found, cpu, named)
    missing = sorted(named.keys() - found.devices.keys())
    if missing:
        raise InputError(f"kinds: {path} has no device {missing[0]!r}")
    links = tuple(link for busid, gpu in found.gpus for link in _links(found, busid, gpu))
    return NcclServer(path, root.text("version", ""), tuple(found.cpus),
                      tuple(device for device, _ in found.devices.values()), links,
                      tuple(found.nets))


def _checked_kinds(kinds: Mapping[str, str] | None) -> dict[str, str]:
    if kinds is not None and not isinstance(kinds, Mapping):
        raise InputError(f"kinds must be a table of bus ids and kinds, not {kinds!r}")
    for busid, kind in (kinds or {}).items():
        if kind not in _KINDS:
            raise UnknownNameError(f"kind of device {busid!r}", kind, _KINDS)
    return dict(kinds or {})


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

