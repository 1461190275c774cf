"""A coflow bound to a network: which links its flows cross, and how loaded they get."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError
from netsim.fabric.kernels import compiled
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
    crosses : int
        The most links that one of its flows crosses.
    gamma : float
        Effective bottleneck at the network's nominal capacities, in seconds.
    weight : float
        The coflow's weight.
    deadline_s : float
        Seconds after its validity by which the coflow is to finish; inf if at no time.
    """

    flows: NDArray[Any]
    hops: NDArray[Any]
    loads: NDArray[Any]
    nbytes: float
    longest: float
    crosses: int
    gamma: float
    weight: float = 1.0
    deadline_s: float = math.inf

    @classmethod
    def of(cls, flows: Flows, network: Topology, hosts: ArrayLike | None = None, *,
           key: int = 0, weight: float = 1.0, deadline_s: float = math.inf) -> Demand:
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
        deadline_s : float
            Seconds after its validity by which the coflow is to finish.

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
        ptr, links = network.routes(src, dst, np.arange(key, key + len(flows)))
        rows, hops, loads = bind(src, dst, flows.nbytes, ptr, links, network.capacity)
        gamma = bottleneck(loads, network.capacity)
        for array in (rows, hops, loads):
            array.setflags(write=False)
        sizes = rows["size"]
        longest = float(np.maximum.reduce(sizes, initial=0.0))
        crosses = int(np.maximum.reduce(rows["hops"], initial=0))
        return cls(rows, hops, loads, float(np.add.reduce(sizes)), longest, crosses, gamma, weight,
                   deadline_s)


@compiled
def bottleneck(loads: NDArray[Any], capacity: NDArray[np.float64]) -> float:
    """Return the effective bottleneck of LOAD rows: max over links of bytes/capacity (Eq. 26)."""
    longest = 0.0
    for load in loads:
        longest = max(longest, load.nbytes / capacity[load.link])
    return longest
