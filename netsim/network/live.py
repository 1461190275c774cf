"""Networks with dead links, which flows avoid if there is another path."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from netsim.network.graph import GraphTopology
from netsim.network.routing import Ints
from netsim.network.topology import Topology

__all__ = ["LiveNetwork"]


class LiveNetwork(Topology):
    """A network whose routes avoid the links that are currently dead.

    A flow takes its usual path if none of its links is dead. Otherwise it takes a shortest path in
    the network without the dead links, chosen by the same hash. If there is none, it keeps its
    usual path, on which it waits.

    Parameters
    ----------
    network : GraphTopology
        The network with all links alive.

    Examples
    --------
    >>> from netsim.network import ring
    >>> live = LiveNetwork(ring(4))
    >>> live.set_dead([live.link("host-0->host-1")])
    True
    >>> [live.link_names[link] for link in live.route(0, 1)]
    ['host-0->host-3', 'host-3->host-2', 'host-2->host-1']
    """

    def __init__(self, network: GraphTopology) -> None:
        super().__init__(network.name, network.hosts, network.capacity, network.link_names,
                         loopback_uses_ports=network.loopback_uses_ports, wire=network.wire)
        self._network = self._others = network
        self._dead = np.zeros(self.links, np.bool_)

    def __deepcopy__(self, _: dict[int, Any]) -> LiveNetwork:
        return copy(self)  # what it has is replaced, and not changed

    def set_dead(self, links: Iterable[int]) -> bool:
        """Set the links that are dead from now on; return whether they have changed."""
        dead = np.zeros(self.links, np.bool_)
        dead[list(links)] = True
        changed = not np.array_equal(dead, self._dead)
        if changed:
            self._dead, self._others = dead, self._network.without(dead)
        return changed

    def routes(self, src: Ints, dst: Ints, key: Ints) -> tuple[Ints, Ints]:
        """Return the current path of each flow; see `Topology.routes`."""
        ptr, links = self._network.routes(src, dst, key)
        counts = np.diff(ptr)
        owner = np.repeat(np.arange(len(src)), counts)
        cut = np.bincount(owner, self._dead[links], len(src)) > 0
        if not cut.any():
            return ptr, links
        cut[cut] = self._others.reaches(src[cut], dst[cut])
        rerouted = np.flatnonzero(cut)
        other_ptr, others = self._others.routes(src[rerouted], dst[rerouted], key[rerouted])
        counts[rerouted] = np.diff(other_ptr)
        stays = ~cut[owner]
        owner = np.concatenate((owner[stays], np.repeat(rerouted, counts[rerouted])))
        found = np.concatenate((links[stays], others))
        return np.concatenate(([0], np.cumsum(counts))), found[np.argsort(owner, kind="stable")]

    def wire_bytes(self, nbytes: NDArray[np.float64], src: Ints, dst: Ints, key: Ints, ptr: Ints,
                   links: Ints) -> NDArray[np.float64]:
        """Return the bytes on the wire on the usual paths; see `Topology.wire_bytes`."""
        if self.wire.plain:
            return nbytes
        return self.wire.bytes_of(nbytes, *self._network.routes(src, dst, key))

    def to_networkx(self) -> nx.DiGraph:
        """Return the graph of all links, including dead ones; see `Topology.to_networkx`."""
        return self._network.to_networkx()
