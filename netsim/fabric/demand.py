"""A coflow bound to a network: which links its flows cross, and how loaded they get."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError
from netsim.fabric.kernels.binding import bind
from netsim.model import Flows
from netsim.network import Topology

__all__ = ["Demand", "bottleneck"]


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """The rows that a coflow brings to the fabric: built once per stage, reused each iteration.

    Flows without bytes, and flows that cross no link, are not among them: they are
    complete as soon as the coflow is valid.

    Attributes
    ----------
    flows : ndarray of FLOW
        Hops count from this demand's first.
    hops : ndarray of HOP
        Flow by flow.
    loads : ndarray of LOAD
        One row per link that the coflow uses.
    nbytes : float
        Bytes in total.
    longest : float
        Bytes of the longest flow; 0 if there is none.
    gamma : float
        Effective bottleneck at the network's nominal capacities, in seconds.
    weight : float
        The coflow's weight.
    """

    flows: NDArray[Any]
    hops: NDArray[Any]
    loads: NDArray[Any]
    nbytes: float
    longest: float
    gamma: float
    weight: float = 1.0

    @classmethod
    def of(cls, flows: Flows, network: Topology, hosts: ArrayLike | None = None, *,
           key: int = 0, weight: float = 1.0, capacity: NDArray[np.float64] | None = None
           ) -> Demand:
        """Route the flows of a coflow.

        Parameters
        ----------
        flows : Flows
            In rank space.
        network : Topology
            Where they run.
        hosts : array_like of int, optional
            The host of each rank; rank r is host r if not given.
        key : int
            First ECMP key; flow i has ``key + i``.
        weight : float
            The coflow's weight.
        capacity : ndarray of float, shape (links,), optional
            For gamma, instead of the network's.

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
        ptr, links = network.routes(src, dst, key + np.arange(len(flows)))
        rows, hops, loads = bind(src, dst, flows.nbytes, ptr, links, network.capacity)
        for array in (rows, hops, loads):
            array.flags.writeable = False
        gamma = bottleneck(loads, network.capacity if capacity is None else capacity)
        return cls(rows, hops, loads, float(rows["size"].sum()),
                   float(rows["size"].max(initial=0.0)), gamma, weight)


def bottleneck(loads: NDArray[Any], capacity: NDArray[np.float64]) -> float:
    """Return the effective bottleneck of LOAD rows: max over links of bytes/capacity (Eq. 26)."""
    if not len(loads):
        return 0.0
    return float(np.max(loads["nbytes"] / capacity[loads["link"]]))
