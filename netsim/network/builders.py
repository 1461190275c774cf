"""Networks by family: leaf-spine, fat-tree, rail-optimised pod, ring, torus, edge and cloud."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import networkx as nx

from netsim.checks import check_whole, is_number
from netsim.errors import InputError
from netsim.network.graph import GraphTopology, from_networkx
from netsim.plain import plain_numbers
from netsim.units import Quantity, parse_rate

__all__ = ["edge_cloud", "fat_tree", "leaf_spine", "rail_pod", "ring", "torus"]

#: Cables: more would take hours and tens of gigabytes.
_MOST_CABLES = 10_000_000


@plain_numbers
def leaf_spine(leaves: int, spines: int, hosts_per_leaf: int, capacity: Quantity = "10Gbps", *,
               oversubscription: float = 1.0, uplink: Quantity | None = None,
               routing: str = "ecmp", name: str = "leaf-spine",
               loopback_uses_ports: bool = False) -> GraphTopology:
    """Hosts on leaf switches, each joined to every spine; oversubscribed or not.

    Parameters
    ----------
    leaves, spines, hosts_per_leaf : int
        Host h hangs on leaf h // hosts_per_leaf.
    capacity : quantity
        Of every host's link, each way.
    oversubscription : float
        What a leaf's hosts can send over what its uplinks can.
    uplink : quantity, optional
        Instead, the capacity of each link between leaf and spine.
    routing : {"ecmp", "shortest"}
        See `from_networkx`.
    name : str
        A label.
    loopback_uses_ports : bool
        See `Topology`.

    Raises
    ------
    InputError
        If a count is not a whole number of at least 1, or a quantity is not allowed; so do the
        other builders.

    Examples
    --------
    >>> net = leaf_spine(4, 2, 8, "10Gbps", oversubscription=4)
    >>> [net.link_names[link] for link in net.route(0, 9)]
    ['host-0->leaf-0', 'leaf-0->spine-1', 'spine-1->leaf-1', 'leaf-1->host-9']
    """
    _check_counts(leaves=leaves, spines=spines, hosts_per_leaf=hosts_per_leaf)
    _check_cables(leaves * (hosts_per_leaf + spines))
    port = parse_rate(capacity, "capacity", strict=True)
    up = _uplink(uplink, oversubscription, port * hosts_per_leaf, spines)
    graph = _with_hosts([f"host-{host}" for host in range(leaves * hosts_per_leaf)])
    for host, node in enumerate(graph.graph["hosts"]):
        graph.add_edge(node, f"leaf-{host // hosts_per_leaf}", capacity=port)
    _join(graph, "leaf", leaves, spines, up)
    return _built(graph, _leaf_spine_bisection(leaves, hosts_per_leaf, port, up * spines),
                  routing=routing, name=name, loopback_uses_ports=loopback_uses_ports)


@plain_numbers
def fat_tree(k: int, capacity: Quantity = "10Gbps", *, routing: str = "ecmp",
             name: str = "fat-tree", loopback_uses_ports: bool = False) -> GraphTopology:
    """A k-ary fat-tree of k-port switches: k**3/4 hosts in k pods, non-blocking.

    Parameters
    ----------
    k : int
        Even. A pod has k/2 edge and k/2 aggregation switches, and k/2 hosts per edge switch;
        aggregation switch a of every pod is joined to the cores a*k/2 to a*k/2 + k/2 - 1.
    capacity : quantity
        Of every link, each way.
    routing, name, loopback_uses_ports
        See `leaf_spine`.
    """
    _check_counts(k=k)
    if k % 2:
        raise InputError(f"k must be even, not {k!r}")
    _check_cables(3 * k**3 // 4)
    port, half = parse_rate(capacity, "capacity", strict=True), k // 2
    graph = _with_hosts([f"host-{host}" for host in range(k * half * half)])
    for host, node in enumerate(graph.graph["hosts"]):
        graph.add_edge(node, f"edge-{host // half}", capacity=port)
    for pod, edge, above in product(range(k), range(half), range(half)):
        graph.add_edge(f"edge-{pod * half + edge}", f"agg-{pod * half + above}", capacity=port)
    for pod, above, core in product(range(k), range(half), range(half)):
        graph.add_edge(f"agg-{pod * half + above}", f"core-{above * half + core}", capacity=port)
    return _built(graph, k * half * half / 2 * port, routing=routing, name=name,
                  loopback_uses_ports=loopback_uses_ports)


@plain_numbers
def rail_pod(servers: int, gpus_per_server: int = 8, spines: int = 4,
             capacity: Quantity = "400Gbps", *, oversubscription: float = 1.0,
             uplink: Quantity | None = None, intra: Quantity | None = None,
             routing: str = "ecmp", name: str = "rail-pod",
             loopback_uses_ports: bool = False) -> GraphTopology:
    """A rail-optimised GPU pod: GPU r of every server hangs on rail switch r; each is a host.

    Parameters
    ----------
    servers, gpus_per_server : int
        Host s * gpus_per_server + r is GPU r of server s.
    spines : int
        Switches that join the rails. 0: rails are joined in the servers alone, whose GPUs
        relay; this needs `intra`.
    capacity : quantity
        Of every GPU's link to its rail, each way.
    oversubscription : float
        What a rail's GPUs can send over what its uplinks can.
    uplink : quantity, optional
        Instead, the capacity of each link between rail and spine.
    intra : quantity, optional
        Of every GPU's link to its server's internal switch, each way, such as ``"450GB/s"``.
        Without it, GPUs of a server reach each other over their rails.
    routing, name, loopback_uses_ports
        See `leaf_spine`.

    Examples
    --------
    >>> net = rail_pod(2, 4, intra="450GB/s")
    >>> [net.link_names[link] for link in net.route(1, 5)]
    ['gpu-0.1->rail-1', 'rail-1->gpu-1.1']
    >>> [net.link_names[link] for link in net.route(1, 2)]
    ['gpu-0.1->server-0', 'server-0->gpu-0.2']
    """
    _check_counts(servers=servers, gpus_per_server=gpus_per_server)
    _check_counts(least=0, spines=spines)
    _check_cables(gpus_per_server * ((1 if intra is None else 2) * servers + spines))
    port = parse_rate(capacity, "capacity", strict=True)
    up = _uplink(uplink, oversubscription, port * servers, spines) if spines else 0.0
    gpus = list(product(range(servers), range(gpus_per_server)))
    if not spines and intra is None and len(gpus) > servers:
        raise InputError("spines = 0 leaves the rails apart: they need spines, or intra")
    graph = _with_hosts([f"gpu-{server}.{rail}" for server, rail in gpus])
    inside = None if intra is None else parse_rate(intra, "intra", strict=True)
    for server, rail in gpus:
        graph.add_edge(f"gpu-{server}.{rail}", f"rail-{rail}", capacity=port)
        if inside is not None:
            graph.add_edge(f"gpu-{server}.{rail}", f"server-{server}", capacity=inside)
    _join(graph, "rail", gpus_per_server, spines, up)
    # Links inside servers carry some of what crosses a cut, and no formula is known then.
    bisection = (None if inside is not None else
                 _leaf_spine_bisection(gpus_per_server, servers, port, up * spines))
    return _built(graph, bisection, relay=spines == 0, routing=routing, name=name,
                  loopback_uses_ports=loopback_uses_ports)


@plain_numbers
def ring(hosts: int, capacity: Quantity = "10Gbps", *, routing: str = "ecmp",
         name: str = "ring", loopback_uses_ports: bool = False) -> GraphTopology:
    """Hosts in a ring, with a link each way to both neighbours; no switches.

    Parameters
    ----------
    hosts : int
        At least 2.
    capacity : quantity
        Of every link.
    routing, name, loopback_uses_ports
        See `leaf_spine`.

    Examples
    --------
    >>> net = ring(5)
    >>> [net.link_names[link] for link in net.route(1, 4)]
    ['host-1->host-0', 'host-0->host-4']
    """
    _check_counts(least=2, hosts=hosts)
    return torus([hosts], capacity, routing=routing, name=name,
                 loopback_uses_ports=loopback_uses_ports)


@plain_numbers
def torus(shape: Sequence[int], capacity: Quantity = "10Gbps", *, routing: str = "ecmp",
          name: str = "torus", loopback_uses_ports: bool = False) -> GraphTopology:
    """Hosts on a grid that wraps around in every dimension, linked to their neighbours.

    Parameters
    ----------
    shape : sequence of int
        Hosts along each dimension, each at least 2; the last runs fastest. Where there are
        but 2, they are linked once.
    capacity : quantity
        Of every link.
    routing, name, loopback_uses_ports
        See `leaf_spine`.

    Examples
    --------
    >>> torus([4, 4, 4])
    <GraphTopology 'torus': 64 hosts, 384 links>
    """
    if isinstance(shape, str) or not isinstance(shape, Sequence) or not len(shape):
        raise InputError(f"shape must be a list of whole numbers, not {shape!r}")
    for length in shape:
        _check_counts(least=2, **{"each length of the shape": length})
    _check_cables(len(shape) * math.prod(shape))
    port = parse_rate(capacity, "capacity", strict=True)
    places = list(product(*map(range, shape)))
    node = {place: f"host-{host}" for host, place in enumerate(places)}
    graph = _with_hosts(list(node.values()))
    for place, axis in product(places, range(len(shape))):
        after = (*place[:axis], (place[axis] + 1) % shape[axis], *place[axis + 1:])
        graph.add_edge(node[place], node[after], capacity=port)
    longest = max(shape)
    # The cut across the longest dimension is the least if it can halve the hosts.
    cut = min(longest - 1, 2) * (len(places) // longest) * port
    return _built(graph, cut if longest % 2 == 0 or len(shape) == 1 else None, routing=routing,
                  name=name, loopback_uses_ports=loopback_uses_ports)


@plain_numbers
def edge_cloud(sites: int, hosts_per_site: int, lan: Quantity = "1Gbps",
               wan: Quantity = "100Mbps", *, cloud_hosts: int = 1, cloud: Quantity = "10Gbps",
               routing: str = "ecmp", name: str = "edge-cloud",
               loopback_uses_ports: bool = False) -> GraphTopology:
    """Edge sites around a cloud: hosts on a LAN per site, and a WAN link from each to the cloud.

    Parameters
    ----------
    sites, hosts_per_site : int
        Host h is at site h // hosts_per_site.
    lan : quantity
        Of every link between a host and its site's switch, each way.
    wan : quantity
        Of every link between a site and the cloud, each way.
    cloud_hosts : int
        Hosts in the cloud; they come after those of the sites.
    cloud : quantity
        Of every link between a host and the cloud's switch, each way.
    routing, name, loopback_uses_ports
        See `leaf_spine`.

    Examples
    --------
    >>> net = edge_cloud(3, 2)
    >>> [net.link_names[link] for link in net.route(0, 6)]
    ['host-0->site-0', 'site-0->cloud', 'cloud->host-6']
    """
    _check_counts(sites=sites, hosts_per_site=hosts_per_site)
    _check_counts(least=0, cloud_hosts=cloud_hosts)
    _check_cables(sites * (hosts_per_site + 1) + cloud_hosts)
    rates = {what: parse_rate(value, what, strict=True)
             for what, value in (("lan", lan), ("wan", wan), ("cloud", cloud))}
    at_sites = sites * hosts_per_site
    graph = _with_hosts([f"host-{host}" for host in range(at_sites + cloud_hosts)])
    for host, node in enumerate(graph.graph["hosts"]):
        if host < at_sites:
            graph.add_edge(node, f"site-{host // hosts_per_site}", capacity=rates["lan"])
        else:
            graph.add_edge(node, "cloud", capacity=rates["cloud"])
    for site in range(sites):
        graph.add_edge(f"site-{site}", "cloud", capacity=rates["wan"])
    return _built(graph, None, routing=routing, name=name,
                  loopback_uses_ports=loopback_uses_ports)


def _with_hosts(names: list[str]) -> nx.Graph:
    graph = nx.Graph(hosts=names)
    graph.add_nodes_from(names)  # first, and so are their links
    return graph


def _join(graph: nx.Graph, below: str, count: int, spines: int, up: float) -> None:
    for leaf, spine in product(range(count), range(spines)):
        graph.add_edge(f"{below}-{leaf}", f"spine-{spine}", capacity=up)


def _built(graph: nx.Graph, bisection: float | None, **options: Any) -> GraphTopology:
    network = from_networkx(graph, hosts=graph.graph["hosts"], **options)
    network.bisection = bisection
    return network


def _uplink(uplink: Quantity | None, oversubscription: float, below: float, spines: int) -> float:
    """Return the capacity of each uplink of a leaf whose hosts can send `below`."""
    ratio = oversubscription
    if not (is_number(ratio) and 0 < ratio < 1e300):
        raise InputError(f"oversubscription must be a number above 0, not {ratio!r}")
    if uplink is None:
        return below / (spines * ratio)
    if ratio != 1:
        raise InputError(f"give either uplink, {uplink!r}, or oversubscription, {ratio!r}, "
                         "not both")
    return parse_rate(uplink, "uplink", strict=True)


def _leaf_spine_bisection(leaves: int, hosts: int, port: float, up: float) -> float:
    """Return the least cut between halves of the hosts of a leaf-spine.

    Half of the leaves on each side cost their uplinks or their hosts' links, an odd leaf half
    of its hosts' links: a leaf's cost is concave in its hosts on one side, so that the least
    is where leaves are whole.
    """
    return leaves // 2 * min(hosts * port, up) + leaves % 2 * (hosts // 2) * port


def _check_counts(least: int = 1, **counts: Any) -> None:
    for what, count in counts.items():
        check_whole(count, what, least)


def _check_cables(count: int) -> None:
    """Refuse a network that is too large, before anything of it is made."""
    if count > _MOST_CABLES:
        raise InputError(f"the network would have more than {_MOST_CABLES:,} cables; make it "
                         "smaller")

