"""`check_topology` on every kind of network, and on broken ones that it must catch."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import netsim
from netsim import BigSwitch, InputError
from netsim.network import Topology, ready_made
from netsim.network.simgrid import PlatformNetwork
from netsim.testing import check_topology, promises_of
from tests.conformance.test_topologies import NETWORKS

#: With options that change routes.
VARIANTS = [
    netsim.leaf_spine(3, 2, 2, "1MB/s", routing="shortest"),
    netsim.ring(6, "1MB/s", loopback_uses_ports=True),
    netsim.big_switch(3, "1MB/s", loopback_uses_ports=True),
    netsim.big_switch(1),
    netsim.edge_cloud(2, 2, "1MB/s", "0.25MB/s", cloud_hosts=0),
]


NEED_A_GRAPH = "graph-matches", "round-trip", "routes-lead-there", "symmetric"


@pytest.mark.parametrize("network", [*NETWORKS.values(), *VARIANTS], ids=repr)
def test_keeps_its_promises(network):
    """Routes of a SimGrid platform are lists of links without ends: there is no graph."""
    promises = [name for name in promises_of(check_topology) if not (
        isinstance(network, PlatformNetwork) and name in NEED_A_GRAPH)]
    check_topology(network, symmetric=True, promises=promises)


@pytest.mark.parametrize("name", ready_made())
def test_ready_made_ones_keep_their_promises(name):
    check_topology(name, pairs=100)


# --- broken networks, one or more for each promise ----------------------------------------------


class Line(Topology):
    """Hosts in a row, a link each way between neighbours."""

    def __init__(self, hosts=3, **options):
        self.pairs = [(a, b) for a in range(hosts) for b in (a - 1, a + 1) if 0 <= b < hosts]
        super().__init__("line", hosts, [1e6] * len(self.pairs),
                         [f"{a}>{b}" for a, b in self.pairs], **options)

    def path(self, src, dst, key):
        step = 1 if dst > src else -1
        return [self.pairs.index((at, at + step)) for at in range(src, dst, step)]

    def routes(self, src, dst, key):
        paths = [self.path(*flow) for flow in zip(src.tolist(), dst.tolist(), key.tolist(),
                                                  strict=True)]
        return (np.cumsum([0, *map(len, paths)]),
                np.array([link for path in paths for link in path], np.int64))

    def to_networkx(self):
        graph = nx.DiGraph()
        graph.add_nodes_from(range(self.hosts), host=True)
        for name, rate, (a, b) in zip(self.link_names, self.capacity.tolist(), self.pairs,
                                      strict=True):
            graph.add_edge(a, b, name=name, capacity=rate)
        return graph


class NoGraph(Line):
    def to_networkx(self):
        return Topology.to_networkx(self)


class Undirected(Line):
    def to_networkx(self):
        return super().to_networkx().to_undirected()


class Renamed(Line):
    def to_networkx(self):
        graph = super().to_networkx()
        graph.edges[0, 1]["name"] = "first"
        return graph


class Faster(Line):
    def to_networkx(self):
        graph = super().to_networkx()
        graph.edges[0, 1]["capacity"] *= 2
        return graph


class Unmarked(Line):
    def to_networkx(self):
        graph = super().to_networkx()
        graph.nodes[1]["host"] = False
        return graph


class Dead(Line):
    def __init__(self):
        super().__init__()
        self.capacity = np.zeros(self.links)


class Shorter(Line):
    def __init__(self):
        super().__init__()
        self.capacity = self.capacity[1:]


class Twins(Line):
    def __init__(self):
        super().__init__()
        self.link_names = ("0>1", *self.link_names[:-1])


class Cut(Line):
    """Leads from node to node otherwise than flows would."""

    def to_networkx(self):
        graph = super().to_networkx()
        graph.remove_edge(1, 0)
        graph.add_edge(1, "nowhere", name="1>0", capacity=1e6)
        return graph


class Swapped(Line):

    def to_networkx(self):
        graph = super().to_networkx()
        graph.remove_edge(0, 1)
        graph.add_edge(0, 2, name="0>1", capacity=1e6)
        graph.remove_edge(1, 0)
        graph.add_edge(2, 0, name="1>0", capacity=1e6)
        return graph


class Listed(Line):
    def routes(self, src, dst, key):
        return [self.path(*flow) for flow in zip(src, dst, key, strict=True)]


class Overrun(Line):
    def routes(self, src, dst, key):
        ptr, links = super().routes(src, dst, key)
        return ptr + 1, links


class Unknown(Line):
    def path(self, src, dst, key):
        return [99] * (src != dst)


class Unreachable(Line):
    def path(self, src, dst, key):
        return [] if (src, dst) == (2, 0) else super().path(src, dst, key)


class Looping(Line):
    """Loopback that crosses ports though it is said to be free."""

    def path(self, src, dst, key):
        if src == dst == 0:
            return [self.pairs.index((0, 1)), self.pairs.index((1, 0))]
        return super().path(src, dst, key)


class Backwards(Line):
    def path(self, src, dst, key):
        return super().path(src, dst, key)[::-1]


class Halfway(Line):
    def path(self, src, dst, key):
        return super().path(src, dst, key)[:1]


class Wandering(Line):
    def path(self, src, dst, key):
        path = super().path(src, dst, key)
        back = [self.pairs.index((1, 0)), self.pairs.index((0, 1))]
        return path[:1] + back + path[1:] if (src, dst) == (0, 2) else path


class Diamond(Line):
    """Hosts 0 and 1, and two switches between; the way is chosen as a subclass says."""

    def __init__(self):
        Topology.__init__(self, "diamond", 2, [1e6] * 8,
                          [f"{a}>{b}" for a in (0, 1) for b in (2, 3)]
                          + [f"{b}>{a}" for a in (0, 1) for b in (2, 3)])
        self.pairs = [tuple(map(int, name.split(">"))) for name in self.link_names]
        self.asked = 0

    def way(self, key):
        return 2 + key % 2

    def path(self, src, dst, key):
        if src == dst:
            return []
        self.asked += 1
        way = self.way(key)
        return [self.pairs.index((src, way)), self.pairs.index((way, dst))]


class Marked(Diamond):
    """Has a switch that `from_networkx` takes for a host."""

    def to_networkx(self):
        graph = super().to_networkx()
        graph.nodes[2]["kind"] = "host"
        return graph


class Alternating(Diamond):
    def way(self, key):
        return 2 + (self.asked // 2) % 2


class InTurn(Diamond):
    """The first flow of a call takes one way, the next the other."""

    def routes(self, src, dst, key):
        self.asked = 0
        return super().routes(src, dst, key)

    def way(self, key):
        return 2 + self.asked % 2


class Alone(Diamond):
    """Goes another way where it is asked for one flow only."""

    def routes(self, src, dst, key):
        return super().routes(src, dst, key + (len(src) == 1))


BROKEN = [
    (Dead, "has invalid links: link '0>1' has the capacity 0.0"),
    (Shorter, r"has invalid links: there are 4 names, and capacities of shape \(3,\)"),
    (Twins, "has invalid links: '0>1' names 2"),
    (NoGraph, "has no to_networkx"),
    (Undirected, "has a graph that does not match its links: to_networkx returned"),
    (Renamed, r"has a graph that does not match its links: edges are named \[.*'first'\], and "
              "links"),
    (Faster, "edge '0>1' has the capacity 2000000.0, and the link"),
    (Unmarked, r"its first 3 nodes must be the hosts, with host=True; the hosts are \[0, 2\]"),
    (Marked, "does not survive a round trip through networkx: from_networkx finds 3 hosts"),
    (Cut, "does not survive a round trip through networkx: .* no path from host 1, 1, to host 0, "
          "0"),
    (Listed, "does not return routes in compressed rows: for 27 flows, routes returned"),
    (Overrun, "does not return routes in compressed rows"),
    (Unknown, r"takes links that do not exist: from host 0 to 1, key 0, it takes links \[99\], "),
    (Unreachable, "lacks a route, or has one that is not needed: from host 2 to 0, key 0, it "
                  r"takes links \[\]"),
    (Looping, "not needed: from host 0 to 0, .*, and loopback_uses_ports is False"),
    (lambda: Line(loopback_uses_ports=True), "not needed: from host 0 to 0, .*_ports is True"),
    (Swapped, "takes links that do not lead to the destination: from host 0 to 1, .*, which end "
              "at 2, and not"),
    (Backwards, "takes links that do not lead to the destination: from host 0 to 2, .*, of which "
                "link 2 begi"),
    (Halfway, "takes links that do not lead to the destination: from host 0 to 2, .*, which end "
              "at 1, and not"),
    (Wandering, "takes a link twice: from host 0 to 2"),
    (Alternating, "is not deterministic: from host . to "),
    (InTurn, "is not deterministic: from host 0 to 1, .* asked for in another order"),
    (Alone, "is not deterministic: from host 0 to 1, .* asked for alone"),
]


@pytest.mark.parametrize(("kind", "message"), BROKEN, ids=lambda each: getattr(
    each, "__name__", "-"))
def test_a_broken_promise_is_caught(kind, message):
    with pytest.raises(AssertionError, match=message) as error:
        check_topology(kind())
    assert str(error.value).startswith(f"network {kind().name!r} ")


def test_those_are_right_but_for_that():
    check_topology(Line(), symmetric=True)
    check_topology(Diamond(), symmetric=True)


def test_what_is_lost_on_the_way_to_networkx_and_back():
    """A host that no link leads to is none that `from_networkx` would take."""
    class Forgetful(Line):
        def to_networkx(self):
            graph = super().to_networkx()
            graph.add_node("lost", host=True)
            return graph

    with pytest.raises(AssertionError, match="its first 3 nodes must be the hosts"):
        check_topology(Forgetful())


def test_a_network_that_is_said_to_be_symmetric():
    uneven = netsim.big_switch(2, egress="1MB/s", ingress="2MB/s")
    check_topology(uneven)
    with pytest.raises(AssertionError, match=r"is not symmetric: link 'egress-0' of 1e.06 bytes/s "
                                             "has no reverse link of that "):
        check_topology(uneven, symmetric=True)


def test_an_exception_passes_through_with_what_was_asked():
    class Hasty(Line):
        def routes(self, src, dst, key):
            raise KeyError("nowhere")

    with pytest.raises(KeyError) as error:
        check_topology(Hasty())
    assert error.value.__notes__[0].startswith("of <Hasty 'line': 3 hosts, 4 links>, asked for rou")


def test_what_is_no_network_is_refused():
    with pytest.raises(AssertionError, match="is not a network: it must derive from "):
        check_topology(3)
    with pytest.raises(InputError, match="unknown network 'nowhere'"):
        check_topology("nowhere")
    assert issubclass(BigSwitch, Topology)
