"""The choice of an algorithm for a collective: by NCCL's cost model, or by the network alone.

`predicted` is the model of NCCL 2.x (``src/graph/tuning.cc``, commit b6475625), without its search
of the topology, CollNet, NVLS and plug-ins of users. For each of two algorithms and three protocols
it predicts

time = latency + size / bandwidth

and the smallest time wins. Its tables hold measured constants of GPU generations, with times in
microseconds and rates in GB/s.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from netsim.base.units import Quantity, format_seconds, parse_rate, parse_seconds
from netsim.base.values import as_choice, as_whole, check_options, convert, known_names, optional
from netsim.collectives.algorithms import algorithms_of, schedule
from netsim.collectives.times import closed_form_s, stepwise_s
from netsim.errors import InputError

_TREE, _RING = "double-tree", "ring"
_PROTOCOLS = ("LL", "LL128", "Simple")

#: In microseconds, for trees and rings: before the first byte, and per hop, by protocol.
_BASE = {_TREE: (6.8, 14.0, 0.0), _RING: (6.6, 14.0, 8.4)}
_PER_HOP = {"nvlink": {_TREE: (0.6, 1.25, 28.0), _RING: (0.6, 1.9, 3.4)},
            "pcie": {_TREE: (1.0, 1.9, 28.0), _RING: (1.0, 2.5, 5.7)},
            "net": {_TREE: (5.0, 8.5, 28.0), _RING: (2.7, 4.0, 14.0)}}


@dataclass(frozen=True)
class _Generation:
    """Rates of a generation of GPUs in GB/s; tuples are for 1, 2 and more servers."""

    ll_most: float
    ring_ll128: tuple[float, float, float]
    tree_ll128: tuple[float, float, float]
    tree: tuple[float, float, float]
    channels: int
    simple_factor: float


_GENERATIONS = {
    "volta": _Generation(39.0, (20, 20, 20), (20, 20, 20), (26.5, 18.5, 10.0), 12, 1.9),
    "ampere": _Generation(87.7, (20, 20, 20), (20, 20, 20), (24.0, 23.6, 17.8), 24, 1.4),
    "hopper": _Generation(87.7, (36.7, 36.7, 36.7), (36.7, 36.7, 29.0), (38.7, 41.4, 36.0), 16,
                          1.4)}

#: Generations of GPUs of which the rates are known.
GENERATIONS = tuple(_GENERATIONS)

#: By CPU: the rate of LL on 2 and on more servers in GB/s, and microseconds between servers.
_CPUS = {"intel": (39.0, 20.4, 1.0), "amd": (22.5, 19.0, 2.0)}

#: By protocol: the fraction of its bandwidth that a tree gets, by log2 of (size / 64 bytes).
_CORRECTION = (
    (1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1),
    (1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1),
    (.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9))


@dataclass(frozen=True)
class Choice:
    """The algorithm of a collective, and the reason for it.

    Attributes
    ----------
    algorithm : str
    protocol : str
        NCCL's protocol, which is reported but has no effect on a run; empty if the network alone
        decides.
    times_s : mapping of str to float
        The predicted time of each candidate, in seconds; for ``auto``, by ``"algorithm/protocol"``.
    """

    algorithm: str
    protocol: str
    times_s: Mapping[str, float]

    @property
    def runner_up(self) -> str:
        """The second best candidate; empty if there is only one."""
        ranked = sorted(self.times_s, key=self.times_s.__getitem__)
        return next((each for each in ranked if each != self._name), "")

    @property
    def why(self) -> str:
        """The choice in words, with all times."""
        if not self.times_s:
            return f"{self.algorithm}: the only one that the model has"
        listed = ", ".join(f"{name} {format_seconds(time)}" for name, time in self.times_s.items())
        second = f", before {self.runner_up}" if self.runner_up else ""
        return f"{self._name}{second}; predicted: {listed}"

    @property
    def _name(self) -> str:
        return f"{self.algorithm}/{self.protocol}" if self.protocol else self.algorithm


@known_names
@dataclass(frozen=True)
class NcclCosts:
    """The parameters of a machine in NCCL's model.

    Parameters
    ----------
    rate : quantity
        The bus rate, in bytes per second: on one server, the rate of a GPU's NVLink (or PCIe) port;
        on several, the smaller of this rate and the sum of the rates of a server's NICs.
    servers : int
        Number of servers on which the ranks run.
    generation : {"hopper", "ampere", "volta"}
    cpu : {"intel", "amd"}
    inside : {"nvlink", "pcie"}
        What connects the GPUs of a server.
    nic_latency : quantity
        The latency of the NICs themselves, in seconds.
    channels : int, optional
        Number of channels; by default 12 for Volta, 24 for Ampere and 16 for Hopper.

    Raises
    ------
    InputError
        If an option is invalid.
    """

    rate: Quantity
    servers: int = 1
    generation: str = "hopper"
    cpu: str = "intel"
    inside: str = "nvlink"
    nic_latency: Quantity = 0.0
    channels: int | None = None

    def __post_init__(self) -> None:
        convert(self, rate=partial(parse_rate, strict=True), servers=partial(as_whole, least=1),
                generation=partial(as_choice, choices=_GENERATIONS),
                cpu=partial(as_choice, choices=_CPUS),
                inside=partial(as_choice, choices=("nvlink", "pcie")), nic_latency=parse_seconds,
                channels=optional(partial(as_whole, least=1)))


@known_names
@dataclass(frozen=True)
class SwitchCosts:
    """Parameters of a non-blocking switch: rate of its ports, latency of paths, overhead of steps.

    Parameters
    ----------
    rate : quantity
        Bytes per second.
    latency, overhead : quantity
        Latency of every path, and overhead of every step, in seconds.
    """

    rate: Quantity
    latency: Quantity = 0.0
    overhead: Quantity = 0.0

    def __post_init__(self) -> None:
        convert(self, rate=partial(parse_rate, strict=True), latency=parse_seconds,
                overhead=parse_seconds)


def auto(collective: str, ranks: int, nbytes: float, costs: NcclCosts) -> Choice:
    """Choose the algorithm of a collective as NCCL's published cost model does.

    An all-reduce takes a ring or a double tree, whichever is faster with its best protocol
    according to the model. In a tie, the tree wins, and LL before LL128 before Simple. Other
    collectives take the only algorithm that the model has for them.

    Parameters
    ----------
    collective : str
    ranks : int
    nbytes : float
        The size, as in `netsim.collectives.schedule`.
    costs : NcclCosts

    Raises
    ------
    InputError
        If there are more servers than ranks.

    Examples
    --------
    >>> chosen = auto("all-reduce", 64, 1e9, NcclCosts("370GB/s", servers=8))
    >>> chosen.algorithm, chosen.protocol, chosen.runner_up
    ('ring', 'LL128', 'ring/Simple')
    """
    first = next(iter(algorithms_of(collective)))
    if collective != "all-reduce" or ranks == 1:
        return Choice(first, "", {})
    if costs.servers > ranks:
        raise InputError(f"auto: {ranks} ranks cannot be on {costs.servers} servers", "servers")
    times = {f"{algorithm}/{protocol}": 1e-6 * _time_us(algorithm, k, ranks, nbytes, costs)
             for algorithm in (_TREE, _RING) for k, protocol in enumerate(_PROTOCOLS)
             if protocol != "LL128" or costs.inside == "nvlink"}
    algorithm, protocol = min(times, key=times.__getitem__).split("/")
    return Choice(algorithm, protocol, times)


def _time_us(algorithm: str, protocol: int, n: int, nbytes: float, costs: NcclCosts) -> float:
    rate = (_tree_rate if algorithm == _TREE else _ring_rate)(protocol, n, nbytes, costs)
    wait = (_tree_wait if algorithm == _TREE else _ring_wait)(protocol, n, nbytes, costs)
    return wait + nbytes / (1000 * rate)


def _most_ll(costs: NcclCosts) -> float:
    if costs.servers == 1:
        return _GENERATIONS[costs.generation].ll_most
    return _CPUS[costs.cpu][min(costs.servers, 3) - 2]


def _channels(costs: NcclCosts) -> int:
    return costs.channels or _GENERATIONS[costs.generation].channels


def _ring_rate(protocol: int, n: int, _: float, costs: NcclCosts) -> float:
    """Return GB/s of a ring: its bus rate over the number of times each byte crosses a port."""
    wide, spread = float(costs.rate) / 1e9, min(costs.servers, 3) - 1
    per_channel = _GENERATIONS[costs.generation].ring_ll128[spread]
    bus = (min(_most_ll(costs), wide / 4),
           min((0.7 if n / costs.servers < 2 else 0.92) * wide, _channels(costs) * per_channel),
           wide)[protocol]
    return bus * n / (2 * (n - 1))


def _tree_rate(protocol: int, _: int, nbytes: float, costs: NcclCosts) -> float:
    """Return GB/s of a double tree, with NCCL's correction for its size."""
    of, spread, channels = (_GENERATIONS[costs.generation], min(costs.servers, 3) - 1,
                            _channels(costs))
    most = min(0.92 * float(costs.rate) / 1e9, channels * of.tree[spread])
    bus = (min(most / 3.8, _most_ll(costs)),
           min(most * (7 / 9 if costs.servers == 1 else 120 / 128),
               channels * of.tree_ll128[spread]),
           most)[protocol]
    size = int(math.log2(max(nbytes // 64, 1)))
    listed = _CORRECTION[protocol]
    return bus / 2 * (listed[size] if size < len(listed) else 1.0)


def _between(algorithm: str, protocol: int, costs: NcclCosts) -> float:
    """Return the microseconds of a hop between servers."""
    own = 1e6 * float(costs.nic_latency) * (2 if protocol == 2 else 1)
    return _PER_HOP["net"][algorithm][protocol] + own


def _ring_wait(protocol: int, n: int, nbytes: float, costs: NcclCosts) -> float:
    """Return the microseconds of 2(n - 1) hops; 2 hops per server cross the network."""
    hop, crossing, least = _PER_HOP[costs.inside][_RING][protocol], 0, 0.0
    if costs.servers > 1:
        crossing = 2 * costs.servers
        least = _CPUS[costs.cpu][2] * (3 if protocol == 2 else 1)
    wait = (_BASE[_RING][protocol] + (2 * (n - 1) - crossing) * max(hop, least)
            + crossing * _between(_RING, protocol, costs))
    if protocol == 2 and costs.servers > 1 and nbytes >= 64 * _channels(costs) * n:
        wait *= _GENERATIONS[costs.generation].simple_factor
    return wait


def _tree_wait(protocol: int, n: int, _: float, costs: NcclCosts) -> float:
    """Return the microseconds of the hops of a chain inside a server, and a tree across them."""
    inside = (n // costs.servers - 1) * _PER_HOP[costs.inside][_TREE][protocol]
    across = (costs.servers.bit_length() - 1) * _between(_TREE, protocol, costs)
    return _BASE[_TREE][protocol] + 2 * (inside + across)


#: The algorithms among which `fastest` chooses; the first one wins a tie.
_CANDIDATES = ("ring", "double-tree", "halving-doubling")


def fastest(collective: str, ranks: int, nbytes: float, costs: SwitchCosts) -> Choice:
    """Choose the algorithm that takes the least time in steps on an idle switch.

    For an all-reduce, the candidates are ring, double tree and halving-doubling, with one chunk;
    the first one wins a tie. ``direct`` is not a candidate. It would always win, because in this
    model the overheads of parallel messages overlap, and many senders to one port cost nothing
    extra. Other collectives take the same algorithm as with `auto`.

    Examples
    --------
    >>> costs = SwitchCosts("50GB/s", latency="2us", overhead="5us")
    >>> [fastest("all-reduce", 48, size, costs).algorithm for size in (1e3, 1e9)]
    ['halving-doubling', 'ring']
    """
    first = next(iter(algorithms_of(collective)))
    if collective != "all-reduce" or ranks == 1:
        return Choice(first, "", {})
    given = float(costs.rate), float(costs.latency), float(costs.overhead)
    times = {}
    for algorithm in _CANDIDATES:
        time = closed_form_s(collective, algorithm, ranks, nbytes, *given)
        if time is None:
            made = schedule(collective, ranks, algorithm)
            time = stepwise_s(made, made.sizes(nbytes), *given)
        times[algorithm] = time
    return Choice(min(times, key=times.__getitem__), "", times)


def costs_of(kind: type[Any], given: Mapping[str, Any] | Any, what: str) -> Any:
    """Make costs from a mapping of their options; costs are returned unchanged."""
    if isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        raise InputError(f"{what} must be a table with the options of {kind.__name__}, not "
                         f"{given!r}")
    check_options(kind, given, what)
    return kind(**given)
