"""What affects bytes in transit: latency, headers of packets, efficiency, and protocols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from netsim.base.arrays import Floats, Ints
from netsim.base.values import as_number, as_share, convert, same
from netsim.errors import InputError

#: Relative distance within which a number of packets counts as whole.
_WHOLE = 1e-12


@dataclass(frozen=True, slots=True)
class Packet:
    """A format of packets: each packet has a header, even if it carries little.

    Parameters
    ----------
    payload : float
        The largest number of bytes that a packet carries.
    header : float
        Further bytes on the wire per packet, including gaps and preambles.

    Raises
    ------
    InputError
        If the payload is not positive and finite, or the header negative or infinite.
    """

    payload: float
    header: float

    def __post_init__(self) -> None:
        convert(self, "packet", payload=partial(as_number, above=0),
                header=partial(as_number, least=0))

    def wire_bytes(self, nbytes: Floats) -> Floats:
        """Return the bytes on the wire, headers included, of messages with `nbytes` of payload."""
        packets = nbytes / self.payload
        whole = np.rint(packets)
        exact = np.abs(packets - whole) <= _WHOLE * whole
        return nbytes + self.header * np.where(exact, whole, np.ceil(packets))


@dataclass(frozen=True, slots=True)
class Protocol:
    """How software sends messages of some sizes, such as NCCL's LL, LL128 and Simple.

    Parameters
    ----------
    launch : float
        Seconds of software before the first byte of a collective, or of any other coflow; it is
        needed once, whatever the number of steps.
    efficiency : float
        The payload's fraction of the bytes on the wire, in (0, 1].
    upto : float
        The largest messages that are sent like this, in bytes. A message is what a flow sends in
        one step of a collective.

    Raises
    ------
    InputError
        If the launch is negative or infinite, the efficiency not in (0, 1], or `upto` not positive.
    """

    launch: float = 0.0
    efficiency: float = 1.0
    upto: float = np.inf

    def __post_init__(self) -> None:
        convert(self, "protocol", launch=partial(as_number, least=0), efficiency=as_share)
        if not self.upto > 0:
            raise InputError(f"protocol: upto must be positive, not {self.upto!r}", "upto")


class Wire:
    """Latency, efficiency, packets, overhead and protocols of the links of a network.

    Parameters
    ----------
    links : int
        Number of links.
    latency : array_like of float, shape (links,) or ()
        Seconds from one end of each link to the other.
    efficiency : array_like of float, shape (links,) or ()
        The fraction of each link's capacity that flows can use, in (0, 1].
    packet : Packet, optional
        The format of packets on the network; without one, there are no headers.
    link_packets : mapping of int to Packet, optional
        The formats of links that have their own.
    overhead : float
        Seconds of software before the first byte of a stage, unless the stage has its own value.
    link_names : sequence of str, optional
        The names of the links, for error messages.
    protocols : sequence of Protocol
        How messages are sent, by their size, the smallest first. Without any, they need no launch.

    Raises
    ------
    InputError
        If a latency or the overhead is negative or not finite, or an efficiency not in (0, 1]; or
        if the protocols are not in order, or do not end with one for all larger messages.

    Attributes
    ----------
    ideal : bool
        Whether the links add nothing at all.
    timed : bool
        Whether there is any latency or overhead.

    Examples
    --------
    >>> wire = Wire(2, latency=1e-6, packet=Packet(1460, 78))
    >>> wire.latency_of(np.array([0, 2]), np.array([0, 1]))
    array([2.e-06])
    >>> wire.bytes_of(np.array([2920.0]), np.array([0, 2]), np.array([0, 1]))
    array([3076.])
    """

    __deepcopy__ = same

    def __init__(self, links: int, latency: ArrayLike = 0.0, efficiency: ArrayLike = 1.0,
                 packet: Packet | None = None, link_packets: Mapping[int, Packet] | None = None,
                 overhead: float = 0.0, link_names: tuple[str, ...] = (),
                 protocols: Sequence[Protocol] = ()) -> None:
        self.latency = _per_link(latency, links, "latency")
        self.efficiency = _per_link(efficiency, links, "efficiency")
        self.packet = packet
        self.link_packets = dict(link_packets or {})
        self.overhead = as_number(overhead, "overhead", least=0)
        names = link_names or [f"link {link}" for link in range(links)]
        # Converters say what is wrong.
        wrong = ~(np.isfinite(self.latency) & (self.latency >= 0))
        for link in np.flatnonzero(wrong)[:1].tolist():
            as_number(self.latency[link], f"{names[link]}: latency", least=0)
        wrong = ~((self.efficiency > 0) & (self.efficiency <= 1))
        for link in np.flatnonzero(wrong)[:1].tolist():
            as_share(self.efficiency[link], f"{names[link]}: efficiency")
        # Many links share few formats.
        code = dict.fromkeys([packet, *self.link_packets.values()])
        self._formats = [each for each in code if each is not None]
        self._format_of = np.full(links, self._formats.index(packet) if packet else -1)
        for link, own in self.link_packets.items():
            self._format_of[link] = self._formats.index(own)
        self.protocols = _in_order(protocols)
        self._upto, self._launch, self._part = (
            np.array([getattr(each, name) for each in self.protocols])
            for name in ("upto", "launch", "efficiency"))
        self.timed = (bool(self.latency.any()) or self.overhead > 0
                      or bool(self._launch.any()))
        self.plain = (packet is None and not self.link_packets
                      and bool((self._part == 1).all()))
        self.ideal = not self.timed and self.plain and bool((self.efficiency == 1).all())

    def latency_of(self, ptr: Ints, links: Ints) -> Floats:
        """Return the latency of paths, summed in their order; shape (flows,).

        Parameters
        ----------
        ptr, links : ndarray of int
            The paths, in compressed rows; see `Topology.routes`.
        """
        return np.bincount(_owner(ptr), self.latency[links], len(ptr) - 1).astype(np.float64)

    def launch_of(self, message: ArrayLike) -> Floats:
        """Return the launch of coflows, given the bytes of the largest message of each.

        There must be protocols.
        """
        found: Floats = self._launch[np.searchsorted(self._upto, message)]
        return found

    def overhead_of(self, ptr: Ints, latency: Floats, steps: Iterable[tuple[Ints, int]] = (),
                    overhead: float | None = None, launch: float = 0.0) -> float:
        """Return the overhead of a coflow before its first byte; 0 without paths.

        If a coflow merges the sigma steps of a collective, its overhead includes the overhead o and
        the latency of every step. The latency that the coflow has anyway is subtracted:

            launch + sigma o + sum over s of Lambda_s - max over f of Lambda_f

        Here, Lambda_s is the largest latency of the paths in step s, and Lambda_f is the latency of
        the path of flow f.

        Parameters
        ----------
        ptr : ndarray of int
            Paths of the coflow's flows, in compressed rows.
        latency : ndarray of float, shape (flows,)
            Latencies of these paths, in seconds.
        steps : iterable of (ndarray of int, int)
            The flows of each kind of step, and how many steps are of this kind; see
            `netsim.Stage.steps`.
        overhead : float, optional
            The overhead o of one step, in seconds; by default the network's.
        launch : float
            Seconds before the first step; see `launch_of`.

        Examples
        --------
        Two steps over the first flow and one over the second:

        >>> ptr, latency = np.array([0, 1, 2]), np.array([1.0, 5.0])
        >>> steps = ((np.array([0]), 2), (np.array([1]), 1))
        >>> Wire(2).overhead_of(ptr, latency, steps, overhead=10.0)
        32.0
        """
        own = self.overhead if overhead is None else overhead
        if not (own or self.timed) or not ptr[-1]:
            return 0.0
        kinds = list(steps)
        if not kinds:
            return launch + own
        after = sum(times * float(latency[flows].max(initial=0.0)) for flows, times in kinds)
        count = sum(times for _, times in kinds)
        return launch + (count * own + after - float(latency.max(initial=0.0)))

    def bytes_of(self, nbytes: Floats, ptr: Ints, links: Ints, messages: Ints | int = 1) -> Floats:
        """Return the bytes on the wire of flows: the most over all packet formats on the path.

        Before they are packed, the bytes of each message grow as its protocol says.

        Parameters
        ----------
        nbytes : ndarray of float, shape (flows,)
            Payload.
        ptr, links : ndarray of int
            The paths, in compressed rows; flows with an empty path have no headers.
        messages : int or ndarray of int, shape (flows,)
            The number of equal messages of each flow.
        """
        if self.plain:
            return nbytes
        if self.protocols:
            nbytes = nbytes / self._part[np.searchsorted(self._upto, nbytes / messages)]
        most, owner, format_of = nbytes.copy(), _owner(ptr), self._format_of[links]
        for number, packet in enumerate(self._formats):
            flows = np.unique(owner[format_of == number])
            most[flows] = np.maximum(most[flows], packet.wire_bytes(nbytes[flows]))
        return most


def messages_of(flows: int, steps: Iterable[tuple[Ints, int]]) -> Ints:
    """Count the messages of each flow, given the steps that a coflow merges; see `overhead_of`."""
    count = np.zeros(flows, np.int64)
    for sent, times in steps:
        count[sent] += times
    return np.maximum(count, 1)


def _in_order(protocols: Sequence[Protocol]) -> tuple[Protocol, ...]:
    """Check that protocols are in order of their sizes, and that the last one has no limit."""
    sizes = [each.upto for each in protocols]
    if sizes and (sorted(set(sizes)) != sizes or sizes[-1] != np.inf):
        raise InputError("protocols must be in order of upto, the last one without upto; they have "
                         + ", ".join(f"{size:g}" for size in sizes), "protocols")
    return tuple(protocols)


def _owner(ptr: Ints) -> Ints:
    """Return the flow of each link in compressed rows."""
    return np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))


def _per_link(values: ArrayLike, links: int, what: str) -> Floats:
    """Return a value per link, read-only."""
    try:
        given = np.asarray(values, np.float64)
    except (ValueError, TypeError):
        given = np.empty((0, 0))
    if given.shape not in ((), (links,)):
        raise InputError(f"{what}: {links} links need one number, or one each, not {values!r}",
                         what)
    found = np.full(links, given)
    found.flags.writeable = False
    return found
