"""A coflow bound to a network: which links its flows cross, and how loaded they get."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError
from netsim.fabric.kernels.binding import bind, bottleneck
from netsim.forking import same
from netsim.network import Topology
from netsim.workload import Flows

__all__ = ["RoutedCoflow", "bottleneck"]


@dataclass(frozen=True, slots=True, eq=False)
class RoutedCoflow:
    """The rows that coflows bring to the fabric: built once per stage, reused each iteration.

    Flows without bytes, and flows that cross no link, are not among them: they are
    complete as soon as the coflow is valid.

    Attributes
    ----------
    coflows : ndarray of COFLOW
        One, unless many are built at once. Nobody's yet: job, order and time are to be set.
    flows : ndarray of FLOW
        Hops count from this demand's first.
    hops : ndarray of HOP
        Flow by flow.
    loads : ndarray of LOAD
        One row per link that a coflow uses.
    nbytes : float
        Bytes in total.
    gamma : float
        Effective bottleneck of the first at the network's nominal capacities, in seconds.
    weight : float
        The coflow's weight.
    deadline_s : float
        Seconds after its validity by which the coflow is to finish; inf if at no time.
    """

    coflows: NDArray[Any]
    flows: NDArray[Any]
    hops: NDArray[Any]
    loads: NDArray[Any]
    nbytes: float
    gamma: float
    weight: float = 1.0
    deadline_s: float = math.inf
    __deepcopy__ = same

    @classmethod
    def of(cls, flows: Flows, network: Topology, hosts: ArrayLike | None = None, *,
           key: ArrayLike = 0, weight: float = 1.0, deadline_s: float = math.inf,
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
            The ECMP key of each flow; or the first, and flow i has ``key + i``.
        weight : float
            The coflow's weight.
        deadline_s : float
            Seconds after its validity by which the coflow is to finish.
        like : RoutedCoflow, optional
            One of the same flows between the same hosts, perhaps on other links.

        Returns
        -------
        RoutedCoflow
            `like` itself, if it has the same links, weight and deadline.

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
        keys = np.asarray(key, np.int64)
        ptr, links = network.routes(src, dst, keys if keys.ndim else keys + np.arange(len(flows)))
        if (like is not None and (like.weight, like.deadline_s) == (weight, deadline_s)
                and np.array_equal(like.flows["hops"], np.diff(ptr))
                and np.array_equal(like.hops["link"], links)):
            return like
        coflows, rows, hops, loads = bind(src, dst, flows.nbytes, ptr, links, network.usable,
                                          np.array([len(src)]))
        for array in (coflows, rows, hops, loads):
            array.setflags(write=False)
        one = coflows[0]
        return cls(coflows, rows, hops, loads, float(one["total"]), float(one["gamma"]), weight,
                   deadline_s)

    def with_left(self, left: NDArray[np.float64], of_bytes: float,
                  capacity: NDArray[np.float64]) -> RoutedCoflow:
        """Return what is left of this coflow, or of the same coflow on other hosts.

        Parameters
        ----------
        left : ndarray of float
            Bytes that were left of each flow. If there are other flows here, each of them has the
            share of its bytes that was left of all.
        of_bytes : float
            Bytes of all those flows in total.
        capacity : ndarray of float, shape (links of the network,)
        """
        rows = self.flows
        share = float(left.sum()) / of_bytes if of_bytes else 0.0
        nbytes = left if len(left) == len(rows) else rows["size"] * share
        ptr = np.concatenate(([0], np.cumsum(rows["hops"])))
        coflows, flows, hops, loads = bind(
            rows["src"].astype(np.int64), rows["dst"].astype(np.int64), nbytes, ptr,
            self.hops["link"].astype(np.int64), capacity, np.array([len(rows)]))
        return RoutedCoflow(coflows, flows, hops, loads, float(coflows[0]["total"]),
                            float(coflows[0]["gamma"]), self.weight, self.deadline_s)
