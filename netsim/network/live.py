"""Networks with dead links: flows take other paths, and trunks lose a part of their capacity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np

from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.lazy import nx
from netsim.base.values import Node
from netsim.errors import InputError
from netsim.network.graph import GraphTopology
from netsim.network.spray import SprayedNetwork
from netsim.network.topology import Topology
from netsim.network.wire import Wire


def parts_of(network: Topology) -> Topology:
    """Return the network of the links that events change: single links, without trunks.

    Links that belong to both networks have the same numbers.
    """
    return LiveTrunks(network) if isinstance(network, SprayedNetwork) else network


def live_network(network: GraphTopology) -> LiveNetwork:
    """Return a network with routes that avoid links while they are dead."""
    return LiveTrunks(network) if isinstance(network, SprayedNetwork) else LiveNetwork(network)


def moves_flows(network: Topology, capacity: Mapping[int, float]) -> bool:
    """Whether new capacities of some links may change routes.

    They do if flows can avoid a dead link, or if a member of a trunk changes.
    """
    if not isinstance(network, GraphTopology):
        return False
    dead = [link for link, rate in capacity.items() if rate == 0 and link < network.links]
    return bool(network.avoidable[dead].any()) or max(capacity, default=-1) >= network.links


class LiveNetwork(Topology):
    """A network whose routes avoid the links that are currently dead, at first none.

    A flow takes its usual path if none of its links is dead. Otherwise it takes a shortest path in
    the network without the dead links, chosen by the same hash. If there is none, it keeps its
    usual path, on which it waits.

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
        return copy(self)  # its attributes are replaced, never modified

    def set_dead(self, links: Iterable[int]) -> bool:
        """Set the links that are dead from now on; return whether they have changed."""
        dead = np.zeros(self.links, np.bool_)
        dead[list(links)] = True
        changed = not np.array_equal(dead, self._dead)
        if changed:
            self._dead, self._others = dead, self._without(dead)
        return changed

    @property
    def _node_ids(self) -> Mapping[str, int]:
        return self._network.cables._node_ids

    def _without(self, dead: Bools) -> GraphTopology:
        """Return the network on which flows go round dead links."""
        return self._network.without(dead)

    def with_trunks(self, capacity: Mapping[int, float], now: Floats) -> Mapping[int, float]:
        """Return new capacities of links, together with those of their trunks, in bytes per second.

        A trunk has the capacity of all its links together; `now` has the capacity of each link
        before the change.
        """
        return capacity

    def routes(self, src: Ints, dst: Ints, key: Ints) -> tuple[Ints, Ints]:
        """Return the current path of each flow; see `Topology.routes`."""
        ptr, links = self._network.routes(src, dst, key)
        cut = np.flatnonzero(self._cut(ptr, links))
        if not len(cut):
            return ptr, links
        goes = self._others.reaches(src[cut], dst[cut])
        paths = ptr, links
        for rows, route in ((cut[goes], self._go_round), (cut[~goes], self._wait)):
            if len(rows):
                paths = _replaced(*paths, rows, *route(src[rows], dst[rows], key[rows]))
        return paths

    def _cut(self, ptr: Ints, links: Ints) -> Bools:
        """Return the mask of the paths that no byte can pass."""
        owner = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
        cut: Bools = np.bincount(owner, self._dead[links], len(ptr) - 1) > 0
        return cut

    def _go_round(self, src: Ints, dst: Ints, key: Ints) -> tuple[Ints, Ints]:
        """Return new paths for flows with a cut usual path."""
        return self._others.routes(src, dst, key)

    def _wait(self, src: Ints, dst: Ints, key: Ints) -> tuple[Ints, Ints]:
        """Return the paths on which flows wait if there is no other path."""
        return self._network.routes(src, dst, key)

    def wire_bytes(self, nbytes: Floats, src: Ints, dst: Ints, key: Ints, ptr: Ints,
                   links: Ints, messages: Ints | int = 1) -> Floats:
        """Return the bytes on the wire on the usual paths; see `Topology.wire_bytes`."""
        if self.wire.plain:
            return nbytes
        return self.wire.bytes_of(nbytes, *self._network.routes(src, dst, key), messages)

    def to_networkx(self) -> nx.DiGraph:
        """Return the graph of all links, including dead ones; see `Topology.to_networkx`."""
        return self._network.cables.to_networkx()


class LiveTrunks(LiveNetwork):
    """A network of trunks, each of which has the capacity that its members have now.

    Its links are those of the sprayed network, followed by the members of the trunks as separate
    links, which events change. A flow takes its usual trunks if a path of live members leads along
    them. Otherwise, ECMP chooses a path of live members, and the flow takes the trunks of that
    path. If there is none, the flow waits on its path of single links, one of which is dead, even
    if its trunks have capacity.
    """

    _network: SprayedNetwork

    def __init__(self, network: SprayedNetwork) -> None:
        cables, trunks = network.cables, network.links
        members = network.members
        self._trunk = network.trunk_of[members]
        # The number of each cable's link here, as a member of a trunk or by itself.
        self.row_of = network.trunk_of.copy()
        self.row_of[members] = trunks + np.arange(len(members))
        names = *network.link_names, *(cables.link_names[each] for each in members.tolist())
        wire, under = network.wire, cables.wire
        packets = {int(self.row_of[link]): each for link, each in under.link_packets.items()}
        Topology.__init__(
            self, network.name, network.hosts,
            np.concatenate((network.capacity, cables.capacity[members])), names,
            loopback_uses_ports=network.loopback_uses_ports,
            wire=Wire(len(names), np.concatenate((wire.latency, under.latency[members])),
                      np.concatenate((wire.efficiency, under.efficiency[members])), wire.packet,
                      wire.link_packets | packets, wire.overhead, names, wire.protocols))
        self._network, self._others = network, cables
        self._dead = np.zeros(self.links, np.bool_)
        self._ways: dict[tuple[frozenset[int] | None, int], frozenset[int]] = {}

    def link(self, name: Node) -> int:
        """Return the id of a single link; a trunk is refused."""
        link = super().link(name)
        if link < self._network.links and link in self._trunk:
            member = self.link_names[self._network.links + int(np.argmax(self._trunk == link))]
            raise InputError(f"network {self.name!r}: {self.link_names[link]!r} is a trunk; name "
                             f"one of its members, such as {member!r}")
        return link

    def links_of_switch(self, name: Node) -> Ints:
        """Return the single links that lead from or to a switch."""
        return self.row_of[self._network.cables.links_of_switch(name)]

    def with_trunks(self, capacity: Mapping[int, float], now: Floats) -> Mapping[int, float]:
        """Return new capacities of links and their trunks; see `LiveNetwork.with_trunks`."""
        trunks, later = self._network.links, now.copy()
        later[list(capacity)] = list(capacity.values())
        touched = {int(self._trunk[link - trunks]) for link in capacity if link >= trunks}
        sums = np.bincount(self._trunk, later[trunks:], trunks)
        return {**capacity, **{trunk: float(sums[trunk]) for trunk in sorted(touched)}}

    def _without(self, dead: Bools) -> GraphTopology:
        self._ways = {}
        return self._network.cables.without(dead[self.row_of])

    def _cut(self, ptr: Ints, links: Ints) -> Bools:
        """Return the mask of trunk paths without a path of live members."""
        hurt = np.zeros(self.links, np.bool_)
        hurt[self._network.trunk_of[self._dead[self.row_of]]] = True
        owner = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
        cut = np.zeros(len(ptr) - 1, np.bool_)
        for flow in np.unique(owner[hurt[links]]).tolist():
            reached = None
            for trunk in links[ptr[flow]:ptr[flow + 1]].tolist():
                reached = self._after(reached, trunk)
            cut[flow] = not reached
        return cut

    def _after(self, nodes: frozenset[int] | None, trunk: int) -> frozenset[int]:
        """Return the nodes to which a trunk leads from some nodes, or from any if they are None.

        They are cached, because many flows reach few different sets.
        """
        if (nodes, trunk) not in self._ways:
            cables, members = self._network.cables, self._members[trunk]
            live = members[~self._dead[self.row_of[members]]]
            self._ways[nodes, trunk] = frozenset(
                head for tail, head in zip(cables.tail[live].tolist(), cables.head[live].tolist(),
                                           strict=True) if nodes is None or tail in nodes)
        return self._ways[nodes, trunk]

    @cached_property
    def _members(self) -> list[Ints]:
        """The cables of each trunk; a link that is no trunk has itself."""
        trunk_of = self._network.trunk_of
        order = np.argsort(trunk_of, kind="stable")
        return np.split(order, np.searchsorted(trunk_of[order], np.arange(1, self._network.links)))

    def _go_round(self, src: Ints, dst: Ints, key: Ints) -> tuple[Ints, Ints]:
        ptr, cables = self._others.routes(src, dst, key)
        return ptr, self._network.trunk_of[cables]

    def _wait(self, src: Ints, dst: Ints, key: Ints) -> tuple[Ints, Ints]:
        ptr, cables = self._network.cables.routes(src, dst, key)
        return ptr, self.row_of[cables]


def _replaced(ptr: Ints, links: Ints, rows: Ints, other_ptr: Ints, others: Ints
              ) -> tuple[Ints, Ints]:
    """Return paths in compressed rows, some of them replaced by others."""
    counts = np.diff(ptr)
    owner = np.repeat(np.arange(len(counts)), counts)
    counts[rows] = np.diff(other_ptr)
    stays = ~np.isin(owner, rows)
    owner = np.concatenate((owner[stays], np.repeat(rows, counts[rows])))
    found = np.concatenate((links[stays], others))
    return np.concatenate(([0], np.cumsum(counts))), found[np.argsort(owner, kind="stable")]
