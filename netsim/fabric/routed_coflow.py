"""A coflow on a network: its links, loads and least time; and the arrays of all flows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.base.arrays import Floats, Ints
from netsim.base.values import same
from netsim.errors import InputError
from netsim.fabric.kernels.binding import bind, bottlenecks
from netsim.fabric.kernels.progress import copy_in, copy_in_place, move
from netsim.fabric.records import FLOW, HOP, LOAD, FlowRows
from netsim.network import Topology
from netsim.network.wire import messages_of
from netsim.workload import Flows


def least_times(coflows: NDArray[Any], flows: NDArray[Any], hops: NDArray[Any], loads: NDArray[Any],
                capacity: Floats, latency: Floats) -> Floats:
    """Return a lower bound on the completion time of each coflow, counted from its valid time.

    If o is the overhead, U_l the capacity of link l, and the flows on l are numbered by falling
    latency Lambda_f of their paths, with w_f bytes each, the bound is

            o + max( max_f Lambda_f,  max_l max_k [ (w_1 + ... + w_k) / U_l + Lambda_k ] )

    A link that sends its flows in that order reaches the bound, and no other order is faster
    (Jackson's rule for delivery times). With equal latencies the bound is o + gamma + Lambda.

    The rows are as `netsim.fabric.kernels.binding.bind` makes them. A capacity of inf means that
    flows may avoid the link; its latency then does not count. `capacity` and `latency` may include
    links that the coflows do not cross.
    """
    gamma = bottlenecks(coflows, loads, capacity)
    sure = np.isfinite(capacity[:len(latency)])
    messages = np.maximum(coflows["arrives"], 0.0) if sure.all() else np.zeros(len(coflows))
    if not (coflows["reach"].any() or messages.any()):
        return gamma + coflows["overhead"]
    of_flow = np.repeat(np.arange(len(flows)), flows["hops"])
    counted = np.where(sure, latency, 0.0)[hops["link"]]
    paths = np.bincount(of_flow, counted, len(flows)).astype(np.float64)
    shortest, longest = _ends_of_paths(coflows["flows"], paths)
    least = gamma + longest
    for k in np.flatnonzero(shortest < longest).tolist():
        row = coflows[k]
        own = slice(row["flow"], row["flow"] + row["flows"])
        on = slice(row["hop"], row["hop"] + row["hops"])
        least[k] = _least_time(paths[own], flows["size"][own], of_flow[on] - row["flow"],
                               hops["link"][on], capacity)
    return coflows["overhead"] + np.maximum(least, messages)


def _ends_of_paths(flows: Ints, paths: Floats) -> tuple[Floats, Floats]:
    """Return the lowest and the highest path latency of each coflow; inf and 0 without flows."""
    owner = np.repeat(np.arange(len(flows)), flows)
    shortest, longest = np.full(len(flows), np.inf), np.zeros(len(flows))
    np.minimum.at(shortest, owner, paths)
    np.maximum.at(longest, owner, paths)
    return shortest, longest


def _least_time(paths: Floats, nbytes: Floats, flow: Ints, link: Ints, capacity: Floats) -> float:
    """Return the bound of a coflow with unequal latencies, given the flow and link of each hop."""
    order = np.lexsort((-paths[flow], link))
    flow, link = flow[order], link[order]
    sent = np.cumsum(nbytes[flow])
    first = np.flatnonzero(np.diff(link, prepend=-1))
    before = np.repeat(sent[first] - nbytes[flow[first]], np.diff(first, append=len(link)))
    return float(((sent - before) / capacity[link] + paths[flow]).max())


#: The steps of a collective for which a coflow stands; see `netsim.Stage.steps`.
_Steps = tuple[tuple[Ints, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class RoutedCoflow:
    """The rows of a coflow on the fabric, built once per stage and reused in each iteration.

    Flows without bytes and flows that cross no link are left out. A flow without a link is complete
    as soon as the stage is valid. A flow without bytes is complete a path's latency after the
    coflow begins.
    """

    #: One COFLOW row, unless many coflows are built at once; job, order and time are not set.
    coflows: NDArray[Any]
    flows: NDArray[Any]  #: FLOW rows; their hops are numbered from the first hop of this coflow
    hops: NDArray[Any]  #: HOP rows, flow by flow
    loads: NDArray[Any]  #: one LOAD row per link in use
    nbytes: float  #: on the wire, in total
    gamma: float  #: effective bottleneck of the first row at nominal capacities, in seconds
    weight: float = 1.0
    deadline_s: float = math.inf  #: seconds after it becomes valid
    overhead_s: float = 0.0  #: seconds from the time at which its stage is valid until it begins
    payload: float = math.nan  #: bytes in total, without headers
    #: The full coflow, if this one keeps only the flows that determine when it is sent; see
    #: `jobs.fold`.
    stands_for: RoutedCoflow | None = None
    __deepcopy__ = same

    @classmethod
    def of(cls, flows: Flows, network: Topology, hosts: ArrayLike | None = None, *,
           key: ArrayLike = 0, weight: float = 1.0, deadline_s: float = math.inf,
           overhead_s: float | None = None, steps: _Steps = (), continues: bool = False,
           like: RoutedCoflow | None = None) -> RoutedCoflow:
        """Route the flows of a coflow; rank r is on host ``hosts[r]``, or on host r by default.

        `key` has the ECMP key of each flow; if it is a single number, flow i has ``key + i``.
        `overhead_s` is the overhead of each of the merged `steps` (see `netsim.Stage`), by default
        the network's; a coflow that `continues` a collective needs no launch. `like`, a coflow with
        the same flows between the same hosts, is itself returned if links, weight, deadline and
        overhead are the same.
        """
        places = np.arange(network.hosts) if hosts is None else np.asarray(hosts, dtype=np.int64)
        if flows.ranks > len(places):
            raise InputError(f"host {flows.ranks - 1} is out of range: network {network.name!r} "
                             f"has the hosts 0 to {network.hosts - 1}")
        src, dst = places[flows.src], places[flows.dst]
        keys = np.broadcast_to(np.asarray(key, np.int64), len(flows))
        if not np.ndim(key):
            keys = keys + np.arange(len(flows))
        ptr, links = network.routes(src, dst, keys)
        wire = network.wire
        latency = wire.latency_of(ptr, links) if wire.timed else np.zeros(len(src))
        messages, launch = messages_of(len(src), steps), 0.0
        if wire.protocols and not continues:
            launch = float(wire.launch_of((flows.nbytes / messages).max(initial=0.0)))
        overhead = wire.overhead_of(ptr, latency, steps, overhead_s, launch)
        if (like is not None
                and (like.weight, like.deadline_s, like.overhead_s)
                == (weight, deadline_s, overhead)
                and np.array_equal(like.flows["hops"], np.diff(ptr))
                and np.array_equal(like.hops["link"], links)):
            return like
        nbytes = network.wire_bytes(flows.nbytes, src, dst, keys, ptr, links, messages)
        coflows, rows, hops, loads = bind(src, dst, nbytes, ptr, links, network.usable,
                                          np.array([len(src)]), flows.nbytes, latency)
        coflows["overhead"] = overhead
        for array in (coflows, rows, hops, loads):
            array.setflags(write=False)
        one = coflows[0]
        return cls(coflows, rows, hops, loads, float(one["total"]), float(one["gamma"]), weight,
                   deadline_s, overhead, float(one["payload"]))

    def with_left(self, left: Floats, of_bytes: float, capacity: Floats) -> RoutedCoflow:
        """Return the rest of this coflow, or of the same coflow on other hosts.

        `left` has the bytes left of each flow, out of `of_bytes` in total. If this coflow has
        another number of flows, each gets the same fraction of its bytes: the fraction that is left
        of all flows together.
        """
        rows = self.flows
        share = float(left.sum()) / of_bytes if of_bytes else 0.0
        nbytes = left if len(left) == len(rows) else rows["size"] * share
        ptr = np.concatenate(([0], np.cumsum(rows["hops"])))
        coflows, flows, hops, loads = bind(
            rows["src"].astype(np.int64), rows["dst"].astype(np.int64), nbytes, ptr,
            self.hops["link"].astype(np.int64), capacity, np.array([len(rows)]),
            rows["payload"] * (nbytes / rows["size"]), rows["latency"])
        coflows["overhead"] = self.overhead_s
        return RoutedCoflow(coflows, flows, hops, loads, float(coflows[0]["total"]),
                            float(coflows[0]["gamma"]), self.weight, self.deadline_s,
                            self.overhead_s, float(coflows[0]["payload"]))

    @property
    def arrays(self) -> FlowRows:
        """The flows, hops and loads."""
        return FlowRows(self.flows, self.hops, self.loads)

    @property
    def empty_until_s(self) -> float:
        """Seconds from the coflow's begin until its messages without bytes arrive; 0 if none."""
        return max(float(self.coflows["arrives"][0]), 0.0)

    def least_s(self, capacity: Floats, latency: Floats) -> float:
        """Return a lower bound on the completion time; see `least_times`."""
        return float(least_times(self.coflows, self.flows, self.hops, self.loads, capacity,
                                 latency)[0])


class WithoutProcess(NamedTuple):
    """The routed coflows of jobs without a process."""

    singles: RoutedCoflow | None = None  #: active coflows, each the only one of its job
    #: By job, what its coflows send, repeated in this order.
    graphs: Mapping[int, Sequence[RoutedCoflow]] = MappingProxyType({})


# --- the rows of all coflows ---------------------------------------------------------------
#: How many rows each has at first.
_LEAST = 256

#: Up to this size, arrays have several times the rows in use, so that few stops are for room.
_MANY = 16384


def _size(rows: int) -> int:
    """The number of rows to allocate for this number in use."""
    return max(_LEAST, 2 * rows, min(8 * rows, _MANY))


class FlowArrays:
    """Rows of flows, hops and loads; the used ones come first."""

    def __init__(self) -> None:
        self.arrays = FlowRows(*(np.zeros(_LEAST, kind) for kind in (FLOW, HOP, LOAD)))
        self.used = np.zeros(3, np.int64)  #: rows of each array in use

    def copied(self, *live: NDArray[Any]) -> FlowArrays:
        """Return a copy with only the segments of the coflows in `live`, in the same places.

        Unused rows are not copied. Flows keep their places because a max-min sharing refers to
        them.
        """
        other = FlowArrays()
        other.used = self.used.copy()
        other.arrays = FlowRows(*(np.zeros(len(array), array.dtype) for array in self.arrays))
        for rows in live:
            copy_in_place(rows, self.arrays, other.arrays)
        return other

    def have_room(self, wanted: Sequence[int]) -> bool:
        """Whether the arrays have room for this number of flows, hops and loads."""
        return all(more <= len(array) - used for more, array, used in zip(
            wanted, self.arrays, self.used.tolist(), strict=True))

    def make_room(self, wanted: Sequence[int], *live: NDArray[Any]) -> None:
        """Move the segments of the coflows in `live` to new arrays of at least twice the size used.

        The `wanted` flows, hops and loads, which are about to be added, count as used.
        """
        old, self.used[:] = self.arrays, 0
        self.arrays = FlowRows(*(
            np.zeros(_size(more + sum(int(rows[name].sum()) for rows in live)), array.dtype)
            for array, name, more in zip(old, FlowRows._fields, wanted, strict=True)))
        for rows in live:
            move(rows, old, self.arrays, self.used)

    def copy_in(self, rows: NDArray[Any], demand: RoutedCoflow) -> None:
        """Append the flows, hops and loads of the coflows in `rows`; there must be room."""
        copy_in(self.arrays, self.used, rows, demand.arrays)


class Source(Protocol):
    """Knows beforehand when coflows become valid; each is the only coflow of its job."""

    def more(self) -> RoutedCoflow | None:
        """Return the next coflows, in order of (validity, job); None if there are no more.

        Each coflow has bytes to send.
        """
