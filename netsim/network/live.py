"""A network some of whose links are dead: flows go round them, where there is another way."""

from __future__ import annotations

from collections.abc import Iterable

import networkx as nx
import numpy as np

from netsim.network.graph import GraphTopology
from netsim.network.routing import Ints
from netsim.network.topology import Topology

__all__ = ["LiveNetwork"]


class LiveNetwork(Topology):
    """A network whose routes depend on which links are dead just now, and on nothing else.

    A flow takes the path that it always takes. If that has a dead link, it takes the one that the
    network without its dead links gives it: a shortest one, by the same hash. If there is none, it
    keeps its path, on which it waits.

    Parameters
    ----------
    network : GraphTopology
        As it is while no link is dead.

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
                         loopback_uses_ports=network.loopback_uses_ports)
        self._network = self._others = network
        self._dead = np.zeros(self.links, np.bool_)

    def set_dead(self, links: Iterable[int]) -> bool:
        """Say which links are dead from now on; return whether others were before."""
        dead = np.zeros(self.links, np.bool_)
        dead[list(links)] = True
        changed = not np.array_equal(dead, self._dead)
        if changed:
            self._dead, self._others = dead, self._network.without(dead)
        return changed

    def routes(self, src: Ints, dst: Ints, key: Ints) -> tuple[Ints, Ints]:
        """Return the path of each flow, as links are dead now; see `Topology.routes`."""
        ptr, links = self._network.routes(src, dst, key)
        counts = np.diff(ptr)
        owner = np.repeat(np.arange(len(src)), counts)
        cut = np.bincount(owner, self._dead[links], len(src)) > 0
        if not cut.any():
            return ptr, links
        cut[cut] = self._others.reaches(src[cut], dst[cut])
        turned = np.flatnonzero(cut)
        other_ptr, others = self._others.routes(src[turned], dst[turned], key[turned])
        counts[turned] = np.diff(other_ptr)
        stays = ~cut[owner]
        owner = np.concatenate((owner[stays], np.repeat(turned, counts[turned])))
        found = np.concatenate((links[stays], others))
        return np.concatenate(([0], np.cumsum(counts))), found[np.argsort(owner, kind="stable")]

    def to_networkx(self) -> nx.DiGraph:
        """Return all nodes and links, dead ones included; see `Topology.to_networkx`."""
        return self._network.to_networkx()
