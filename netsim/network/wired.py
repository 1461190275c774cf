"""Latency, efficiency, packets, overhead and protocols, as options of all builders of networks."""

from __future__ import annotations

import functools
import inspect
import tomllib
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from netsim.base.arrays import Ints
from netsim.base.files import read_text
from netsim.base.units import LONG_LATENCY, parse_bytes, parse_seconds
from netsim.base.values import about, as_choice, as_share, check_options, known_names, refused
from netsim.errors import InputError
from netsim.network.topology import Topology
from netsim.network.wire import Packet, Protocol, Wire

#: Options that `takes_wire` adds to a builder.
WIRE_OPTIONS = ("latency", "efficiency", "packet", "overhead", "protocols", "profile")

Made = TypeVar("Made", bound=Callable[..., Topology])


class Profile(NamedTuple):
    """The packets and the efficiency of a transport or medium.

    Attributes
    ----------
    packet : Packet or None
        The format of its packets, if it has headers.
    efficiency : float
        The fraction of the line rate that flows get.
    source : str
        Where these numbers come from.
    """

    packet: Packet | None
    efficiency: float
    source: str


@functools.cache
def profiles() -> dict[str, Profile]:
    """Return all profiles by name."""
    given = tomllib.loads(read_text(Path(__file__).with_name("profiles.toml")))
    return {name: Profile(Packet(**each["packet"]) if "packet" in each else None,
                          each.get("efficiency", 1.0), each["source"])
            for name, each in given.items()}


def profile(name: str) -> Profile:
    """Return a profile by name.

    Raises
    ------
    UnknownNameError
        If there is no profile of this name.

    Examples
    --------
    >>> profile("ethernet-1500").packet
    Packet(payload=1460, header=78)
    """
    return profiles()[as_choice(name, "profile", profiles(), "name")]


def takes_wire(builder: Made) -> Made:
    """Decorate a builder of networks so that it also takes the options of `wired`."""
    signature = inspect.signature(builder)

    @functools.wraps(builder)
    def build(*args: Any, **options: Any) -> Topology:
        wire = {name: options.pop(name) for name in WIRE_OPTIONS if name in options}
        network = builder(*args, **options)
        return wired(network, **wire) if wire else network

    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
            for name in WIRE_OPTIONS]
    build.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), *more])
    return known_names(build)  # type: ignore[return-value]


def wired(network: Topology, latency: Any = None, efficiency: Any = None, packet: Any = None,
          overhead: Any = None, protocols: Any = None, profile: Any = None) -> Topology:
    """Set what affects bytes in transit on a network; return the network.

    All builders take these options. Each option is one value for all links or, except for overhead
    and protocols, a mapping to values. Its keys are names of links, in which ``*`` matches
    anything, or the two nodes of a link: ``{"*": "1us", "leaf-*->spine-*": "2us"}``. If several
    keys match, the last one counts. Options that are not given keep their values.

    Parameters
    ----------
    network : Topology
    latency : quantity or mapping
        Seconds from one end of a link to the other, such as ``"500ns"``.
    efficiency : float or mapping
        The fraction of the capacity that flows can use, in (0, 1].
    packet : Packet or mapping
        The format of packets: a `Packet`, or ``{"payload": 1460, "header": 78}``.
    overhead : quantity
        Time of software before the first byte of each step.
    protocols : sequence of Protocol or mapping
        How software sends messages, by their size: a `Protocol`, or a mapping such as
        ``{"upto": "64KB", "launch": "20us", "efficiency": 0.5}``, the last one without ``upto``.
    profile : str or mapping
        The name of a profile, which defines packets and efficiency.

    Raises
    ------
    InputError
        If a value is not allowed, or a pattern matches no link.
    UnknownNameError
        If there is no profile of a name.

    Examples
    --------
    >>> from netsim.network import big_switch
    >>> net = big_switch(2, "10Gbps", latency="1us", profile="ethernet-1500")
    >>> net.wire.latency
    array([1.e-06, 1.e-06, 1.e-06, 1.e-06])
    """
    cables, old = network.cables, network.cables.wire
    seconds, part = old.latency.copy(), old.efficiency.copy()
    formats = [old.link_packets.get(link, old.packet) for link in range(cables.links)]
    for links, name, _ in _by_link(network, profile, "profile"):
        found = profiles()[as_choice(name, "profile", profiles())]
        part[links] = found.efficiency
        for link in links.tolist():
            formats[link] = found.packet
    for links, value, what in _by_link(network, latency, "latency"):
        seconds[links] = parse_seconds(value, what, usual=LONG_LATENCY)
    for links, value, what in _by_link(network, efficiency, "efficiency"):
        part[links] = as_share(value, what)
    for links, value, what in _by_link(network, packet, "packet", ("payload", "header")):
        for link in links.tolist():
            formats[link] = _packet(value, what)
    alike = len(set(formats)) == 1
    own = {} if alike else {link: each for link, each in enumerate(formats) if each is not None}
    later = old.overhead if overhead is None else parse_seconds(
        overhead, f"network {network.name!r}: overhead", usual=LONG_LATENCY)
    ways = old.protocols if protocols is None else _protocols(
        protocols, f"network {network.name!r}: protocols")
    network.set_wire(Wire(cables.links, seconds, part, formats[0] if alike else None, own, later,
                          cables.link_names, ways))
    return network


def _by_link(network: Topology, given: Any, what: str, keys: tuple[str, ...] = ()
             ) -> list[tuple[Ints, Any, str]]:
    """Return, for each value, its cables, the value, and its name in errors.

    A cable can be given by its own name, and by that of its trunk.
    """
    if given is None:
        return []
    cables, owner = network.cables, f"network {network.name!r}"
    everything = np.arange(cables.links)
    if not isinstance(given, Mapping) or set(given) & set(keys):
        return [(everything, given, f"{owner}: {what}")]
    found = []
    for named, value in given.items():
        pattern = cables._link_name(network._link_name(named))
        names = [{name, network.link_names[trunk]} for name, trunk in zip(
            cables.link_names, network.trunk_of.tolist(), strict=True)]
        links = ([link for link, own in enumerate(names) if pattern in own]
                 or [link for link, own in enumerate(names)
                     if any(fnmatchcase(name, str(pattern)) for name in own)])
        if not links:
            such = f"such as {cables.link_names[0]!r}" if cables.links else "it has none"
            raise InputError(f"{owner}: {what} is for links {pattern!r}, but no link has a name "
                             f"like that, {such}", what)
        found.append((everything[links], value, f"{owner}: {pattern}: {what}"))
    return found


@about("packet")
def _packet(value: Any, what: str) -> Packet:
    if isinstance(value, Packet):
        return value
    if not isinstance(value, Mapping) or set(value) != {"payload", "header"}:
        raise refused(what, "a Packet or have the keys payload and header", value)
    return Packet(parse_bytes(value["payload"], f"{what}: payload", strict=True),
                  parse_bytes(value["header"], f"{what}: header"))


@about("protocols")
def _protocols(given: Any, what: str) -> Sequence[Protocol]:
    """Make protocols of mappings."""
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise refused(what, "a list of protocols, such as [{\"launch\": \"20us\"}]", given)
    return [each if isinstance(each, Protocol) else _protocol(each, f"{what}: protocol {k}")
            for k, each in enumerate(given)]


def _protocol(given: Any, what: str) -> Protocol:
    if not isinstance(given, Mapping):
        raise refused(what, "a Protocol or a mapping of its options", given)
    check_options(Protocol, given, what)
    readers = {"launch": partial(parse_seconds, usual=LONG_LATENCY), "efficiency": as_share,
               "upto": partial(parse_bytes, strict=True)}
    return Protocol(**{name: readers[name](value, f"{what}: {name}")
                       for name, value in given.items()})
