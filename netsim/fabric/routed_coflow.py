"""A coflow on a network: the links that its flows cross, and the load on each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError
from netsim.fabric.kernels.binding import bind
from netsim.fabric.least_times import least_times
from netsim.forking import same
from netsim.network import Topology
from netsim.workload import Flows

__all__ = ["Alone", "RoutedCoflow"]

#: The steps of a collective for which a coflow stands; see `netsim.Stage.steps`.
_Steps = tuple[tuple[NDArray[np.int64], int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class RoutedCoflow:
    """The rows of a coflow on the fabric, built once per stage and reused in each iteration.

    Flows without bytes and flows that cross no link are left out. A flow without a link is complete
    as soon as the stage is valid. A flow without bytes is complete a path's latency after the
    coflow begins.

    Attributes
    ----------
    coflows : ndarray of COFLOW
        One row, unless many are built at once. Job, order and time are not set yet.
    flows : ndarray of FLOW
        Their hops are numbered from the first hop of this coflow.
    hops : ndarray of HOP
        Flow by flow.
    loads : ndarray of LOAD
        One row per link that a coflow uses.
    nbytes : float
        Bytes on the wire in total.
    gamma : float
        Effective bottleneck of the first row at the network's nominal capacities, in seconds.
    weight : float
        The coflow's weight.
    deadline_s : float
        Seconds after it becomes valid by which the coflow should finish; inf without a deadline.
    overhead_s : float
        Seconds from the time at which its stage is valid until it can begin to send.
    payload : float
        Bytes in total, without headers.
    stands_for : RoutedCoflow or None
        The full coflow, if this one keeps only the flows that determine when it is sent; see
        `jobs.fold`.
    """

    coflows: NDArray[Any]
    flows: NDArray[Any]
    hops: NDArray[Any]
    loads: NDArray[Any]
    nbytes: float
    gamma: float
    weight: float = 1.0
    deadline_s: float = math.inf
    overhead_s: float = 0.0
    payload: float = math.nan
    stands_for: RoutedCoflow | None = None
    __deepcopy__ = same

    @classmethod
    def of(cls, flows: Flows, network: Topology, hosts: ArrayLike | None = None, *,
           key: ArrayLike = 0, weight: float = 1.0, deadline_s: float = math.inf,
           overhead_s: float | None = None, steps: _Steps = (),
           like: RoutedCoflow | None = None) -> RoutedCoflow:
        """Route the flows of a coflow.

        Parameters
        ----------
        flows : Flows
            In rank space.
        network : Topology
            Where they run.
        hosts : array_like of int, optional
            The host of each rank; rank r is host r if not given.
        key : int or array_like of int, shape (flows,)
            The ECMP key of each flow; a single number is the key of the first flow, and flow i has
            ``key + i``.
        weight : float
            The coflow's weight.
        deadline_s : float
            Seconds after it becomes valid by which the coflow should finish.
        overhead_s : float, optional
            The overhead of each step; by default the network's.
        steps : tuple of (ndarray of int, int)
            The steps that the coflow merges; see `netsim.Stage`.
        like : RoutedCoflow, optional
            A coflow with the same flows between the same hosts, perhaps on other links; reused if
            possible.

        Returns
        -------
        RoutedCoflow
            `like` itself, if it has the same links, weight, deadline and overhead.

        Raises
        ------
        InputError
            If a flow's host is not on the network.
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
        overhead = wire.overhead_of(ptr, latency, steps, overhead_s)
        if (like is not None
                and (like.weight, like.deadline_s, like.overhead_s)
                == (weight, deadline_s, overhead)
                and np.array_equal(like.flows["hops"], np.diff(ptr))
                and np.array_equal(like.hops["link"], links)):
            return like
        nbytes = network.wire_bytes(flows.nbytes, src, dst, keys, ptr, links)
        coflows, rows, hops, loads = bind(src, dst, nbytes, ptr, links, network.usable,
                                          np.array([len(src)]), flows.nbytes, latency)
        coflows["overhead"] = overhead
        for array in (coflows, rows, hops, loads):
            array.setflags(write=False)
        one = coflows[0]
        return cls(coflows, rows, hops, loads, float(one["total"]), float(one["gamma"]), weight,
                   deadline_s, overhead, float(one["payload"]))

    def with_left(self, left: NDArray[np.float64], of_bytes: float,
                  capacity: NDArray[np.float64]) -> RoutedCoflow:
        """Return the rest of this coflow, or of the same coflow on other hosts.

        Parameters
        ----------
        left : ndarray of float
            Bytes left of each flow. If this coflow has another number of flows, each gets the same
            fraction of its bytes: the fraction that is left of all flows together.
        of_bytes : float
            Total bytes of the flows of `left`.
        capacity : ndarray of float, shape (links of the network,)
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
    def empty_until_s(self) -> float:
        """Seconds from the coflow's begin until its messages without bytes arrive; 0 if none."""
        return max(float(self.coflows["arrives"][0]), 0.0)

    def least_s(self, capacity: NDArray[np.float64], latency: NDArray[np.float64]) -> float:
        """Return a lower bound on the completion time; see `least_times`."""
        return float(least_times(self.coflows, self.flows, self.hops, self.loads, capacity,
                                 latency)[0])


class Alone(NamedTuple):
    """What jobs without a process send.

    Attributes
    ----------
    singles : RoutedCoflow, optional
        Active coflows, each the only one of its job.
    chains : mapping of int to sequence of RoutedCoflow
        By job, what its coflows send, repeated in this order.
    """

    singles: RoutedCoflow | None = None
    chains: Mapping[int, Sequence[RoutedCoflow]] = MappingProxyType({})
