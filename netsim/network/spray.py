"""Packet spraying: the links from one switch to the next layer carry packets as one trunk."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.values import Node
from netsim.errors import InputError
from netsim.network.graph import GraphTopology
from netsim.network.wire import Wire


class SprayedNetwork(GraphTopology):
    """A network that sprays packets over parallel links; each bundle of these is a trunk.

    A trunk consists of all links from one switch, or layer of switches, to another. It is a single
    link with the sum of their capacities. Flows take shortest paths of trunks, by ECMP if there are
    several. A single link is not a trunk.

    Parameters
    ----------
    cables : GraphTopology
        The network of single links, with ECMP.
    layers : mapping of node to hashable
        The layer of each switch that belongs to one, such as ``{"spine-0": "spines"}``.

    Attributes
    ----------
    cables : GraphTopology

    Raises
    ------
    InputError
        If the members of a trunk differ in latency, efficiency or packets, a layer has a host, or
        its switches are not joined to the same nodes and layers.

    Examples
    --------
    >>> from netsim.network import leaf_spine
    >>> net = leaf_spine(2, 3, 2, "10Gbps", routing="spray")
    >>> [net.link_names[link] for link in net.route(0, 2)]
    ['host-0->leaf-0', 'leaf-0->spines', 'spines->leaf-1', 'leaf-1->host-2']
    >>> net.link_names[net.link("leaf-0->spine-2")]
    'leaf-0->spines'
    """

    def __init__(self, cables: GraphTopology, layers: Mapping[Hashable, Hashable]) -> None:
        self._cables = cables
        self._check_layers(layers)
        groups = [layers.get(node, node) for node in cables.nodes]
        nodes = list(dict.fromkeys(groups))
        number = {node: place for place, node in enumerate(nodes)}
        group = np.array([number[each] for each in groups], np.int64)
        self._check_layered(group, nodes)
        # Links of a node follow each other, in the order of the first cable of each.
        pairs = np.column_stack((group[cables.tail], group[cables.head]))
        found, first, which = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
        order = np.lexsort((first, found[:, 0]))
        self.trunk_of = np.argsort(order)[which.reshape(-1)]
        count = np.bincount(self.trunk_of, minlength=len(order))
        known = set(cables.link_names)
        names = [cables.link_names[first[k]] if count[place] == 1 else
                 _trunk_name(f"{nodes[found[k, 0]]}->{nodes[found[k, 1]]}", known)
                 for place, k in enumerate(order.tolist())]
        super().__init__(
            cables.name, nodes, cables.hosts, found[order],
            np.bincount(self.trunk_of, cables.capacity, len(order)), names, routing="spray",
            relay=cables.relay, loopback_uses_ports=cables.loopback_uses_ports)
        if cables.given is not None:
            self.given = self._alive = cables.given.on_links(self.trunk_of)
        self._relays = cables._relays
        self.set_wire(cables.wire)

    def _check_layers(self, layers: Mapping[Hashable, Hashable]) -> None:
        cables = self._cables
        for node in cables.nodes[:cables.hosts]:
            if node in layers:
                raise InputError(f"network {cables.name!r}: host {node!r} cannot be in a layer, "
                                 f"{layers[node]!r}, which has switches only")
        for layer in set(layers.values()):
            if layer in cables.nodes and layers.get(layer) != layer:
                raise InputError(f"network {cables.name!r}: {layer!r} names a layer, and a node "
                                 "that is not in it")

    def _check_layered(self, group: Ints, nodes: Sequence[Hashable]) -> None:
        """Check that a switch leads to the same nodes and layers as the others of its layer.

        Every path of trunks then contains a path of cables.
        """
        size = np.bincount(group)
        for start, end in ((self.cables.tail, self.cables.head),
                           (self.cables.head, self.cables.tail)):
            pairs = np.unique(np.column_stack((start, group[end])), axis=0)
            ways, count = np.unique(np.column_stack((group[pairs[:, 0]], pairs[:, 1])), axis=0,
                                    return_counts=True)
            for layer, other in ways[count < size[ways[:, 0]]][:1].tolist():
                raise InputError(
                    f"network {self.cables.name!r}: switches of a layer must be joined to the same "
                    f"nodes and layers; of {nodes[layer]!r} some, but not all, are joined to "
                    f"{nodes[other]!r}")

    @property
    def cables(self) -> GraphTopology:
        """The network of single links."""
        return self._cables

    @property
    def singles(self) -> Bools:
        """Mask of the links that are single cables rather than trunks; shape (links,)."""
        return np.bincount(self.trunk_of, minlength=self.links) == 1

    @property
    def members(self) -> Ints:
        """The cables that belong to trunks of several cables."""
        return np.flatnonzero(~self.singles[self.trunk_of])

    def link(self, name: Node) -> int:
        """Return the id of a link; the name of a member of a trunk gives the id of the trunk."""
        name = self.cables._link_name(self._link_name(name))
        if isinstance(name, str) and name not in self._link_ids and name in self.cables._link_ids:
            return int(self.trunk_of[self.cables.link(name)])
        return super().link(name)

    def links_of_switch(self, name: Node) -> Ints:
        """Return the links that lead from or to a switch, or trunks that have such links."""
        return np.unique(self.trunk_of[self.cables.links_of_switch(name)])

    @property
    def usable_parts(self) -> Floats:
        """A copy of `usable`, followed by what flows can use of the members of trunks."""
        return np.concatenate((self.usable, self.cables.usable[self.members]))

    def set_wire(self, wire: Wire) -> None:
        """Set the latency, efficiency and packets of cables; members of a trunk must be alike."""
        self.cables.set_wire(wire)
        first = np.zeros(self.links, np.int64)
        first[self.trunk_of[::-1]] = np.arange(self.cables.links)[::-1]
        self._check_alike(wire, first)
        packets = {link: wire.link_packets[cable] for link, cable in enumerate(first.tolist())
                   if cable in wire.link_packets}
        super().set_wire(Wire(self.links, wire.latency[first], wire.efficiency[first], wire.packet,
                              packets, wire.overhead, self.link_names, wire.protocols))

    def _check_alike(self, wire: Wire, first: Ints) -> None:
        """Refuse trunks with members that differ from the first one."""
        for what, unlike, values in _differences(wire, first[self.trunk_of]):
            for cable in np.flatnonzero(unlike)[:1].tolist():
                trunk = int(self.trunk_of[cable])
                one = int(first[trunk])
                raise InputError(
                    f"network {self.name!r}: trunk {self.link_names[trunk]!r}: its members "
                    f"{self.cables.link_names[one]!r} and {self.cables.link_names[cable]!r} "
                    f"differ in {what}, {values[one]} and {values[cable]}; links that share "
                    'packets evenly must be alike: change one, or take routing = "ecmp"')


def sprayed(cables: GraphTopology, routing: str, layers: Mapping[Hashable, Hashable]
            ) -> GraphTopology:
    """Return a network of single links, or of trunks of them if the routing is ``"spray"``."""
    if routing != "spray":
        return cables
    made = SprayedNetwork(cables, layers)
    cables.routing = "ecmp"
    return made


def _trunk_name(name: str, known: set[str]) -> str:
    """Name a trunk; parallel links between the same two nodes have its name already."""
    return f"{name}#*" if name in known else name


def _differences(wire: Wire, of: Ints) -> Iterator[tuple[str, Bools, list[Any]]]:
    """Yield the properties in which links differ from another one, and the values of all links."""
    for name in ("latency", "efficiency"):
        values = getattr(wire, name)
        yield name, values != values[of], values.tolist()
    packets = [wire.link_packets.get(link, wire.packet) for link in range(len(of))]
    numbers = {each: place for place, each in enumerate(dict.fromkeys(packets))}
    kind = np.array([numbers[each] for each in packets], np.int64)
    yield "packets", kind != kind[of], packets
