"""The network of an edge-cloud, with a limit of its own for what each flow may send."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netsim.network import Topology

__all__ = ["PerFlowCapNetwork"]


class PerFlowCapNetwork(Topology):
    """A network to which each flow brings one more link, whose capacity is what it may send.

    A flow with the ECMP key k crosses limit k after the links of its path, so that any allocator
    keeps to it. A flow from a host to itself crosses that alone.

    Parameters
    ----------
    network : Topology
    limits : int
        How many there are.

    Attributes
    ----------
    first : int
        The link that is limit 0; those before are the network's.
    """

    def __init__(self, network: Topology, limits: int) -> None:
        self._network, self.first = network, network.links
        names = [f"limit-{each} of a flow" for each in range(limits)]
        super().__init__(network.name, network.hosts,
                         np.concatenate((network.capacity, np.ones(limits))),
                         (*network.link_names, *names))

    def limit(self, first: int, rates: NDArray[np.float64]) -> slice:
        """Set limits from one on, in bytes per second; return which links they are."""
        links = slice(self.first + first, self.first + first + len(rates))
        self.capacity.flags.writeable = True
        self.capacity[links] = rates
        self.capacity.flags.writeable = False
        return links

    def routes(self, src: NDArray[np.int64], dst: NDArray[np.int64], key: NDArray[np.int64]
               ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the paths of flows, each with its limit; see `Topology.routes`."""
        ptr, links = self._network.routes(src, dst, key)
        return ptr + np.arange(len(ptr)), np.insert(links, ptr[1:], self.first + key)
