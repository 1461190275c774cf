"""The network of an edge-cloud, extended by a rate limit for each flow."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.network import Topology


class PerFlowCapNetwork(Topology):
    """A network with an additional link per flow, whose capacity is the highest rate of the flow.

    These links are called limits. A flow with the key k crosses limit k after the links of its
    path, so that any allocator respects the limit. A flow from a host to itself crosses only its
    limit.
    """

    def __init__(self, network: Topology, limits: int) -> None:
        # `first` is the number of the link that is limit 0.
        self._network, self.first = network, network.links
        super().__init__(network.name, network.hosts, network.usable, network.link_names)
        #: The chunk and the purpose of each limit as one number, which is also the ECMP key of its
        #: flow. Never changed in place.
        self.codes = np.empty(0, np.int64)
        self.add_limits(np.arange(limits))

    def add_limits(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Append limits with the given codes, without rates yet; return their numbers."""
        limits, known = len(codes), self.links - self.first
        self.codes = np.concatenate((self.codes, codes))
        self.link_names += tuple(f"limit-{known + each} of a flow" for each in range(limits))
        self.__dict__.pop("_link_ids", None)
        self.capacity = np.concatenate((self.capacity, np.ones(limits)))
        self.capacity.flags.writeable = False
        return np.arange(known, known + limits)

    def limit(self, limits: NDArray[np.int64], rates: NDArray[np.float64]) -> NDArray[np.int64]:
        """Set the capacities of limits, in bytes per second; return the numbers of their links."""
        links = self.first + limits
        self.capacity.flags.writeable = True
        self.capacity[links] = rates
        self.capacity.flags.writeable = False
        return links

    def __deepcopy__(self, memo: dict[int, Any]) -> PerFlowCapNetwork:
        other = copy.copy(self)
        other.capacity = self.capacity.copy()
        other.capacity.flags.writeable = False
        return other

    def routes(self, src: NDArray[np.int64], dst: NDArray[np.int64], key: NDArray[np.int64]
               ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Compute the paths of flows, each followed by its limit; see `Topology.routes`."""
        ptr, links = self._network.routes(src, dst, self.codes[key])
        return ptr + np.arange(len(ptr)), np.insert(links, ptr[1:], self.first + key)
