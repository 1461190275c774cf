"""Summarise networks: counts, oversubscription and bisection bandwidth."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from netsim.base.arrays import Bools
from netsim.base.lazy import nx
from netsim.errors import InputError
from netsim.network.routing import reach
from netsim.network.topology import BigSwitch, Topology

EXACT = "exact"
BOUND = "at most: least maximum flow over three splits of the hosts"


def describe_network(network: Topology) -> dict[str, Any]:
    """Summarise a network: counts, layers, capacities, oversubscription and bisection bandwidth.

    ``layers`` is the largest number of hops from a switch to its nearest host. ``links`` are
    directed. Capacities and the bisection bandwidth are in bytes/s. ``oversubscription`` is the
    largest ratio, over switches with hosts, of the capacity of links from the hosts to that of
    links to other switches: 1 with a single switch, None without switches. Oversubscription further
    up in the network affects the bisection bandwidth only. What needs a graph is None for a network
    without one, such as a platform of SimGrid.

    >>> from netsim.network import leaf_spine
    >>> found = describe_network(leaf_spine(4, 2, 8, "10Gbps", oversubscription=4))
    >>> found["hosts"], found["switches"], found["links"], found["oversubscription"]
    (32, 6, 80, 4.0)
    """
    name, network = network.name, network.cables
    known = network.links > 0
    facts: dict[str, Any] = {
        "name": name, "hosts": network.hosts, "switches": None, "layers": None,
        "links": network.links,
        "capacity_min": float(network.capacity.min()) if known else 0.0,
        "capacity_max": float(network.capacity.max()) if known else 0.0,
        "bisection_bandwidth": None, "bisection_method": None, "oversubscription": None,
    }
    try:
        graph = network.to_networkx()
    except (InputError, NotImplementedError):
        return facts
    bandwidth, method = bisection_bandwidth(network)
    return facts | {
        "switches": len(graph) - network.hosts, "layers": max(host_layers(graph).values()),
        "bisection_bandwidth": bandwidth, "bisection_method": method,
        "oversubscription": _oversubscription(graph)}


def host_layers(graph: nx.DiGraph) -> dict[Any, int]:
    """Return the number of hops from the nearest host to each node of an exported network."""
    nodes = list(graph)
    number = {node: place for place, node in enumerate(nodes, start=1)}
    hosts = [number[node] for node in nodes if graph.nodes[node].get("host")]
    # Search from an additional node 0, which is linked to every host.
    neighbours = [hosts, *([number[other] for other in graph.adj[node]] for node in nodes)]
    hops = reach(0, neighbours, [True] * len(neighbours))
    return {node: max(0, hops[number[node]] - 1) for node in nodes}


def bisection_bandwidth(network: Topology) -> tuple[float, str]:
    """Compute the bisection bandwidth, in bytes/s, and name the method, ``"exact"`` or a bound.

    The bisection bandwidth is the least maximum flow over all splits of the hosts into halves; with
    an odd number of hosts, the smaller part sends. The result is exact for big switches and for
    families with a known formula (leaf-spine, fat-tree, rail pod without links in its servers,
    ring, torus with an even longest side). For any other graph it is an upper bound: the least over
    three splits, in which the senders are the first half of the hosts, every other host, or the
    hosts nearest to host 0.
    """
    half = network.hosts // 2
    if not half:
        return 0.0, EXACT
    if isinstance(network, BigSwitch):
        out, into = np.sort(network.capacity.reshape(2, -1), axis=1)
        return float(min(out[:half].sum(), into[:network.hosts - half].sum())), EXACT
    known = getattr(network, "bisection", None)
    if known is not None:
        return float(known), EXACT
    return min(_flow(network, senders) for senders in _splits(network)), BOUND


def _splits(network: Topology) -> Iterator[Bools]:
    """Yield masks of the hosts that send, for splits whose cuts are likely to be small."""
    half, numbers = network.hosts // 2, np.arange(network.hosts)
    yield numbers < half
    yield (numbers % 2 == 1) & (numbers < 2 * half)
    graph = network.to_networkx()
    hops = nx.single_source_shortest_path_length(graph, next(iter(graph)))
    # Hosts only, which come first in the graph, as switches may be unreachable.
    nearest = sorted(numbers, key=[hops[node] for node in islice(graph, network.hosts)].__getitem__)
    yield np.isin(numbers, nearest[:half])


def _flow(network: Topology, senders: Bools) -> float:
    """Compute the maximum flow from some hosts to all others, in bytes/s."""
    flows = nx.DiGraph()
    source, sink = object(), object()
    for place, node in enumerate(graph := network.to_networkx()):
        if place < network.hosts:  # without a capacity, an edge is unlimited
            flows.add_edge(*((source, node) if senders[place] else (node, sink)))
    for start, end, capacity in graph.edges.data("capacity"):
        before = flows.get_edge_data(start, end, {"capacity": 0.0})["capacity"]
        flows.add_edge(start, end, capacity=before + capacity)
    return float(nx.maximum_flow_value(flows, source, sink))


def _oversubscription(graph: nx.DiGraph) -> float | None:
    """Compute the oversubscription of `describe_network`."""
    hosts = {node for node, host in graph.nodes.data("host") if host}
    if len(hosts) == len(graph):
        return None
    ratios = [1.0]
    for switch in graph:
        into = sum(edge["capacity"] for start, _, edge in graph.in_edges(switch, data=True)
                   if start in hosts)
        up = sum(edge["capacity"] for _, end, edge in graph.out_edges(switch, data=True)
                 if end not in hosts)
        if switch not in hosts and into and up:
            ratios.append(into / up)
    return max(ratios[1:] or ratios)
