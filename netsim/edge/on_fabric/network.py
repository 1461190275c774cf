"""The network of an edge-cloud, extended by a rate limit for each flow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netsim.network import Topology

__all__ = ["PerFlowCapNetwork"]


class PerFlowCapNetwork(Topology):
    """A network with one additional link per flow, whose capacity is the flow's highest rate.

    A flow with the ECMP key k crosses limit k after the links of its path, so that any allocator
    respects the limit. A flow from a host to itself crosses its limit only.

    Parameters
    ----------
    network : Topology
    limits : int
        Number of limits.

    Attributes
    ----------
    first : int
        The link that is limit 0; the links before it are those of the network.
    """

    def __init__(self, network: Topology, limits: int) -> None:
        self._network, self.first = network, network.links
        names = [f"limit-{each} of a flow" for each in range(limits)]
        super().__init__(network.name, network.hosts,
                         np.concatenate((network.capacity, np.ones(limits))),
                         (*network.link_names, *names))

    def limit(self, first: int, rates: NDArray[np.float64]) -> slice:
        """Set consecutive limits from `first` on, in bytes per second; return their links."""
        links = slice(self.first + first, self.first + first + len(rates))
        self.capacity.flags.writeable = True
        self.capacity[links] = rates
        self.capacity.flags.writeable = False
        return links

    def routes(self, src: NDArray[np.int64], dst: NDArray[np.int64], key: NDArray[np.int64]
               ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the paths of flows, each followed by its limit; see `Topology.routes`."""
        ptr, links = self._network.routes(src, dst, key)
        return ptr + np.arange(len(ptr)), np.insert(links, ptr[1:], self.first + key)
