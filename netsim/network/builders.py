"""Builders: big switch, leaf-spine, fat-tree, rail-optimised pod, ring, torus, edge-cloud."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import permutations, product
from typing import Any

from netsim.base.lazy import nx
from netsim.base.limits import check_limit
from netsim.base.units import Quantity, parse_rate
from netsim.base.values import (
    about,
    as_choice,
    as_list,
    as_number,
    as_whole,
    known_names,
    refuse_set,
    refused,
)
from netsim.collectives import GENERATIONS
from netsim.errors import InputError
from netsim.network.from_graph import from_networkx
from netsim.network.graph import GraphTopology
from netsim.network.topology import BigSwitch, GpuServers
from netsim.network.wired import takes_wire, wired

#: The most hosts of a big switch, and cables of a network, that a program may build: more would
#: end in a MemoryError, or take hours. What is described by a file has lower `LIMITS`.
_MOST_HOSTS = _MOST_CABLES = 10_000_000

#: Ways from a GPU to one on another rail.
_ACROSS = ("spine", "nvlink")

#: Measured links of GPUs by name: seconds of a path through a switch, the efficiency of NVLink, and
#: that of all other links. They are those of ``netsim/reproductions/fitted.toml``.
_LINKS = {"h100": (4.116e-07, 0.7464, 0.7226)}


@takes_wire
def big_switch(hosts: int | Sequence[str], capacity: Quantity | Sequence[Quantity] = "10Gbps", *,
               egress: Quantity | Sequence[Quantity] | None = None,
               ingress: Quantity | Sequence[Quantity] | None = None,
               name: str = "big-switch", loopback_uses_ports: bool = False) -> BigSwitch:
    """Build a non-blocking switch, on which only the ports of hosts limit flows.

    Parameters
    ----------
    hosts : int or sequence of str
        Number of hosts, or their names.
    capacity : quantity or sequence of quantities
        Capacity of each port in both directions, such as ``"10Gbps"``: one value for all hosts,
        or one per host.
    egress, ingress : quantity or sequence of quantities, optional
        Capacities of the ports by which hosts send, and of those by which they receive, instead of
        `capacity`.
    name : str
        A label.
    loopback_uses_ports : bool
        Whether a flow from a host to itself crosses the host's ports; it is free if not.

    Raises
    ------
    UnitError
        If a capacity cannot be read or is not positive.
    InputError
        If there is no host, or a list does not have one capacity per host.

    Examples
    --------
    >>> big_switch(4, "10Gbps").route(0, 3)
    array([0, 7])
    """
    refuse_set(hosts, "hosts")
    names = tuple(hosts) if isinstance(hosts, Sequence) and not isinstance(hosts, str) else ()
    count = as_whole(len(names) if names else hosts, "hosts", 1, _MOST_HOSTS)
    check_limit("hosts", count, where="hosts", otherwise=_MOST_HOSTS)
    ports = []
    for key, own in (("egress", egress), ("ingress", ingress)):
        try:
            ports.append(_per_host(capacity if own is None else own, count, f"{key} capacity"))
        except InputError as error:
            error.key = "capacity" if own is None else key
            raise
    return BigSwitch(*ports, name=name, loopback_uses_ports=loopback_uses_ports, hosts=names)


@takes_wire
def leaf_spine(leaves: int, spines: int, hosts_per_leaf: int, capacity: Quantity = "10Gbps", *,
               oversubscription: float = 1.0, uplink: Quantity | None = None,
               routing: str = "ecmp", name: str = "leaf-spine",
               loopback_uses_ports: bool = False) -> GraphTopology:
    """Build a leaf-spine: hosts on leaf switches, each of which is connected to every spine.

    Parameters
    ----------
    leaves, spines, hosts_per_leaf : int
        Numbers of switches and hosts. Host h is connected to leaf h // hosts_per_leaf.
    capacity : quantity
        Capacity of each host's link, in each direction.
    oversubscription : float
        Ratio of the capacity of a leaf's host links to that of its uplinks.
    uplink : quantity, optional
        Instead of `oversubscription`, the capacity of each link between a leaf and a spine.
    routing : {"ecmp", "shortest", "spray"}
        See `from_networkx`.
    name : str
        A label.
    loopback_uses_ports : bool
        See `Topology`.

    Raises
    ------
    InputError
        If a count is not a whole number of at least 1, or a quantity is invalid. This also applies
        to the other builders.

    Examples
    --------
    >>> net = leaf_spine(4, 2, 8, "10Gbps", oversubscription=4)
    >>> [net.link_names[link] for link in net.route(0, 9)]
    ['host-0->leaf-0', 'leaf-0->spine-1', 'spine-1->leaf-1', 'leaf-1->host-9']
    """
    leaves, spines, hosts_per_leaf = _counts(leaves=leaves, spines=spines,
                                             hosts_per_leaf=hosts_per_leaf)
    _check_cables(leaves * (hosts_per_leaf + spines))
    port = _rate(capacity, "capacity")
    up = _uplink(uplink, oversubscription, port * hosts_per_leaf, spines)
    graph = _with_hosts([f"host-{host}" for host in range(leaves * hosts_per_leaf)])
    for host, node in enumerate(graph.graph["hosts"]):
        graph.add_edge(node, f"leaf-{host // hosts_per_leaf}", capacity=port)
    _join(graph, "leaf", range(leaves), spines, up)
    return _built(graph, _leaf_spine_bisection(leaves, hosts_per_leaf, port, up * spines),
                  routing=routing, name=name, loopback_uses_ports=loopback_uses_ports)


@takes_wire
def fat_tree(k: int, capacity: Quantity = "10Gbps", *, routing: str = "ecmp",
             name: str = "fat-tree", loopback_uses_ports: bool = False) -> GraphTopology:
    """Build a non-blocking k-ary fat-tree of k-port switches, with k**3/4 hosts in k pods.

    Parameters
    ----------
    k : int
        Number of ports of a switch; even. A pod has k/2 edge and k/2 aggregation switches, and
        k/2 hosts per edge switch; aggregation switch a of each pod is connected to the cores
        a*k/2 to a*k/2 + k/2 - 1.
    capacity : quantity
        Capacity of each link, in each direction.
    routing, name, loopback_uses_ports
        See `leaf_spine`.
    """
    k = as_whole(k, "k", 1)
    if k % 2:
        raise refused("k", "even", k)
    _check_cables(3 * k**3 // 4)
    port, half = _rate(capacity, "capacity"), k // 2
    graph = _with_hosts([f"host-{host}" for host in range(k * half * half)])
    for host, node in enumerate(graph.graph["hosts"]):
        graph.add_edge(node, f"edge-{host // half}", capacity=port)
    for pod, above in product(range(k), range(half)):
        graph.add_node(f"agg-{pod * half + above}", layer=f"pod-{pod}")
    for core in range(half * half):
        graph.add_node(f"core-{core}", layer="cores")
    for pod, edge, above in product(range(k), range(half), range(half)):
        graph.add_edge(f"edge-{pod * half + edge}", f"agg-{pod * half + above}", capacity=port)
    for pod, above, core in product(range(k), range(half), range(half)):
        graph.add_edge(f"agg-{pod * half + above}", f"core-{above * half + core}", capacity=port)
    return _built(graph, k * half * half / 2 * port, routing=routing, name=name,
                  loopback_uses_ports=loopback_uses_ports)


@takes_wire
def rail_pod(servers: int, gpus_per_server: int = 8, spines: int = 4,
             capacity: Quantity = "400Gbps", *, oversubscription: float = 1.0,
             uplink: Quantity | None = None, intra: Quantity | None = None,
             routing: str = "ecmp", name: str = "rail-pod",
             loopback_uses_ports: bool = False) -> GraphTopology:
    """Build a rail-optimised GPU pod: GPU r of each server is connected to rail switch r.

    Parameters
    ----------
    servers, gpus_per_server : int
        Numbers of servers and GPUs. Each GPU is a host: host s * gpus_per_server + r is GPU r of
        server s.
    spines : int
        Number of switches that connect the rails. With 0, rails are connected only through
        servers, whose GPUs relay; this needs `intra`.
    capacity : quantity
        Capacity of each GPU's link to its rail, in each direction.
    oversubscription : float
        Ratio of the capacity of a rail's GPU links to that of its uplinks.
    uplink : quantity, optional
        Instead of `oversubscription`, the capacity of each link between a rail and a spine.
    intra : quantity, optional
        Capacity of each GPU's link to its server's internal switch, in each direction, such as
        ``"450GB/s"``. Without it, GPUs of a server reach each other through the rails.
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
    servers, gpus_per_server = _counts(servers=servers, gpus_per_server=gpus_per_server)
    spines = as_whole(spines, "spines")
    _check_cables(gpus_per_server * ((1 if intra is None else 2) * servers + spines))
    port = _rate(capacity, "capacity")
    up = _uplink(uplink, oversubscription, port * servers, spines) if spines else 0.0
    gpus = list(product(range(servers), range(gpus_per_server)))
    if not spines and intra is None and len(gpus) > servers:
        raise InputError("spines = 0 leaves the rails disconnected: give spines, or intra",
                         "spines")
    graph = _with_hosts([f"gpu-{server}.{rail}" for server, rail in gpus])
    inside = None if intra is None else _rate(intra, "intra")
    for server, rail in gpus:
        graph.add_edge(f"gpu-{server}.{rail}", f"rail-{rail}", capacity=port)
        if inside is not None:
            graph.add_edge(f"gpu-{server}.{rail}", f"server-{server}", capacity=inside)
    _join(graph, "rail", range(gpus_per_server), spines, up)
    # With links inside servers, which carry some of the traffic across a cut, no formula is known.
    bisection = (None if inside is not None else
                 _leaf_spine_bisection(gpus_per_server, servers, port, up * spines))
    return _built(graph, bisection, relay=spines == 0, routing=routing, name=name,
                  loopback_uses_ports=loopback_uses_ports)


@takes_wire
def gpu_cluster(servers: int, gpus: int = 8, nvlink: Quantity = "450GB/s",
                nic: Quantity = "400Gbps", *, gpus_per_nic: int = 1, pcie: Quantity | None = None,
                rails: int | None = None, leaf: int | None = None, spine: int | None = None,
                oversubscription: float = 1.0, uplink: Quantity | None = None,
                across: str = "spine", generation: str = "hopper", links: str | None = None,
                routing: str = "ecmp", name: str = "gpu-cluster",
                loopback_uses_ports: bool = False) -> GraphTopology:
    """Build servers of GPUs, with NVLink inside and NICs on rails across them.

    Each GPU is a host, ``gpu-s.r``, numbered server by server. Its NVLink port leads to the switch
    of its server, ``server-s``, and its NIC, ``nic-s.k``, to a switch of rail k, ``rail-k``. The
    network also defines a cluster of these servers, on which schedulers give single GPUs to jobs:
    see `netsim.Cluster`.

    Parameters
    ----------
    servers, gpus : int
        Number of servers, and of GPUs per server.
    nvlink : quantity
        Rate of a GPU's NVLink port, in each direction.
    nic : quantity
        Rate of a NIC, in each direction.
    gpus_per_nic : int
        Number of GPUs that share a NIC.
    pcie : quantity, optional
        Rate between a GPU and its NIC, if it is lower than that of the NIC.
    rails : int, optional
        Number of rails; NIC k of each server is on rail ``k % rails``. By default one per NIC of a
        server; with 1, all NICs of a server lead to the same switch.
    leaf : int, optional
        Servers per switch of a rail: rail k then has the switches ``rail-k.0``, ``rail-k.1`` and
        so on. By default a single one for all servers.
    spine : int, optional
        Number of switches that connect the switches of the rails; by default 4, or none if there is
        only one switch.
    oversubscription : float
        Ratio of the rates of the NICs on a switch of a rail to that of its uplinks.
    uplink : quantity, optional
        Instead of `oversubscription`, the capacity of each link between a rail and a spine.
    across : {"spine", "nvlink"}
        How flows reach a GPU on another rail. ``"spine"``: over the spines. ``"nvlink"``: by NVLink
        to the GPU of their own server on that rail, and then over the rail, as NCCL's PXN does. The
        default without spines is ``"nvlink"``.
    generation : {"hopper", "ampere", "volta"}
        Generation of the GPUs, for the algorithms of collectives that ``"auto"`` chooses.
    links : {"h100"}, optional
        Give links the latency and the efficiency that were fitted to measured times of a DGX H100.
        By default links add nothing, so that messages of a few bytes take no time. The options
        `latency` and `efficiency` replace these values.
    routing, name, loopback_uses_ports
        See `leaf_spine`.

    Examples
    --------
    >>> net = gpu_cluster(2, 4, across="nvlink")
    >>> [net.link_names[link] for link in net.route(0, 2)]
    ['gpu-0.0->server-0', 'server-0->gpu-0.2']
    >>> [net.link_names[link] for link in net.route(1, 5)]
    ['gpu-0.1->nic-0.1', 'nic-0.1->rail-1', 'rail-1->nic-1.1', 'nic-1.1->gpu-1.1']
    >>> [net.link_names[link] for link in net.route(1, 4)][:3]
    ['gpu-0.1->server-0', 'server-0->gpu-0.0', 'gpu-0.0->nic-0.0']
    """
    servers, gpus, gpus_per_nic = _counts(servers=servers, gpus=gpus, gpus_per_nic=gpus_per_nic)
    nics = _divided(gpus, gpus_per_nic, "gpus", "gpus_per_nic")
    rails, leaf = _counts(rails=nics if rails is None else rails,
                          leaf=servers if leaf is None else leaf)
    nics_on_leaf = leaf * _divided(nics, rails, "NICs of a server", "rails")
    pods = _divided(servers, leaf, "servers", "leaf")
    spines = as_whole((4 if rails * pods > 1 else 0) if spine is None else spine, "spine")
    _check_cables(servers * (2 * gpus + nics) + rails * pods * spines)
    across = as_choice(across, "across", _ACROSS)
    generation = as_choice(generation, "generation", GENERATIONS)
    measured = None if links is None else _LINKS[as_choice(links, "links", _LINKS)]
    if not spines and pods > 1:
        raise InputError(f"spine = 0 leaves the {pods} switches of each rail disconnected: give "
                         "spine, or leave leaf out", "spine" if spine is not None else "leaf")
    inside, port = _rate(nvlink, "nvlink"), _rate(nic, "nic")
    lane = port if pcie is None else _rate(pcie, "pcie")
    up = _uplink(uplink, oversubscription, port * nics_on_leaf, spines) if spines else 0.0
    graph = _with_hosts([f"gpu-{server}.{gpu}" for server, gpu in
                         product(range(servers), range(gpus))])
    for server, gpu in product(range(servers), range(gpus)):
        graph.add_edge(f"gpu-{server}.{gpu}", f"server-{server}", capacity=inside)
        graph.add_edge(f"gpu-{server}.{gpu}", f"nic-{server}.{gpu // gpus_per_nic}", capacity=lane)
    of_rail = [f"{rail}" if pods == 1 else f"{rail}.{pod}" for rail in range(rails)
               for pod in range(pods)]
    for server, k in product(range(servers), range(nics)):
        switch = of_rail[k % rails * pods + server // leaf]
        graph.add_edge(f"nic-{server}.{k}", f"rail-{switch}", capacity=port)
    _join(graph, "rail", of_rail, spines, up)
    # For GPUs that share a NIC, the path over it is as short as NVLink, but must not be used.
    beside = [(f"gpu-{server}.{one}", f"server-{server}", f"gpu-{server}.{other}")
              for server, k in product(range(servers), range(nics))
              for one, other in permutations(range(k * gpus_per_nic, (k + 1) * gpus_per_nic), 2)]
    network = _built(graph, None, relay=not spines, routing=routing, name=name,
                     paths=beside or None, loopback_uses_ports=loopback_uses_ports)
    machines = GpuServers(gpus, inside, port, nics, rails, generation)
    network.serve_gpus(machines)
    if across == "nvlink" or not spines:
        network.relay_by(machines.relays)
    if measured is not None:
        path_s, inside_part, part = measured
        # A path goes through a link before a switch and one after it; NICs are no switches.
        wired(network, {"*": path_s / 2, "gpu-*->nic-*": 0, "nic-*->gpu-*": 0},
              {"*": part, "*server-*": inside_part})
    return network


@takes_wire
def ring(hosts: int, capacity: Quantity = "10Gbps", *, routing: str = "ecmp",
         name: str = "ring", loopback_uses_ports: bool = False) -> GraphTopology:
    """Build a ring of hosts without switches, with a link to and from each neighbour.

    Parameters
    ----------
    hosts : int
        Number of hosts, at least 2.
    capacity : quantity
        Capacity of each link.
    routing, name, loopback_uses_ports
        See `leaf_spine`.

    Examples
    --------
    >>> net = ring(5)
    >>> [net.link_names[link] for link in net.route(1, 4)]
    ['host-1->host-0', 'host-0->host-4']
    """
    return torus([as_whole(hosts, "hosts", 2)], capacity, routing=routing, name=name,
                 loopback_uses_ports=loopback_uses_ports)


@takes_wire
def torus(shape: Sequence[int], capacity: Quantity = "10Gbps", *, routing: str = "ecmp",
          name: str = "torus", loopback_uses_ports: bool = False) -> GraphTopology:
    """Build a torus: a grid of hosts that wraps around in every dimension, without switches.

    Parameters
    ----------
    shape : sequence of int
        Number of hosts along each dimension, at least 2; the last index varies fastest. In a
        dimension of 2, neighbours have a single link in each direction.
    capacity : quantity
        Capacity of each link.
    routing, name, loopback_uses_ports
        See `leaf_spine`.

    Examples
    --------
    >>> torus([4, 4, 4])
    <GraphTopology 'torus': 64 hosts, 384 links>
    """
    with about("shape"):
        lengths = [as_whole(each, "each length of the shape", 2)
                   for each in as_list(shape, "shape", int, "whole numbers")]
    if not lengths:
        raise refused("shape", "a list of whole numbers", shape)
    _check_cables(len(lengths) * math.prod(lengths))
    port = _rate(capacity, "capacity")
    places = list(product(*map(range, lengths)))
    node = {place: f"host-{host}" for host, place in enumerate(places)}
    graph = _with_hosts(list(node.values()))
    for place, axis in product(places, range(len(lengths))):
        after = (*place[:axis], (place[axis] + 1) % lengths[axis], *place[axis + 1:])
        graph.add_edge(node[place], node[after], capacity=port)
    longest = max(lengths)
    # The cut across the longest dimension is the smallest if it can halve the hosts.
    cut = min(longest - 1, 2) * (len(places) // longest) * port
    return _built(graph, cut if longest % 2 == 0 or len(lengths) == 1 else None, routing=routing,
                  name=name, loopback_uses_ports=loopback_uses_ports)


@known_names
def edge_cloud(sites: int, hosts_per_site: int, lan: Quantity = "1Gbps",
               wan: Quantity = "100Mbps", *, cloud_hosts: int = 1, cloud: Quantity = "10Gbps",
               routing: str = "ecmp", name: str = "edge-cloud",
               loopback_uses_ports: bool = False) -> GraphTopology:
    """Build edge sites around a cloud: each site has a LAN of hosts and a WAN link to the cloud.

    Parameters
    ----------
    sites, hosts_per_site : int
        Numbers of sites and hosts. Host h is at site h // hosts_per_site.
    lan : quantity
        Capacity of each link between a host and its site's switch, in each direction.
    wan : quantity
        Capacity of each link between a site and the cloud, in each direction.
    cloud_hosts : int
        Number of hosts in the cloud, which are numbered after those of the sites.
    cloud : quantity
        Capacity of each link between a host and the cloud's switch, in each direction.
    routing, name, loopback_uses_ports
        See `leaf_spine`.

    Examples
    --------
    >>> net = edge_cloud(3, 2)
    >>> [net.link_names[link] for link in net.route(0, 6)]
    ['host-0->site-0', 'site-0->cloud', 'cloud->host-6']
    """
    sites, hosts_per_site = _counts(sites=sites, hosts_per_site=hosts_per_site)
    cloud_hosts = as_whole(cloud_hosts, "cloud_hosts")
    _check_cables(sites * (hosts_per_site + 1) + cloud_hosts)
    inside, outside, central = _rate(lan, "lan"), _rate(wan, "wan"), _rate(cloud, "cloud")
    at_sites = sites * hosts_per_site
    graph = _with_hosts([f"host-{host}" for host in range(at_sites + cloud_hosts)])
    for host, node in enumerate(graph.graph["hosts"]):
        if host < at_sites:
            graph.add_edge(node, f"site-{host // hosts_per_site}", capacity=inside)
        else:
            graph.add_edge(node, "cloud", capacity=central)
    for site in range(sites):
        graph.add_edge(f"site-{site}", "cloud", capacity=outside)
    return _built(graph, None, routing=routing, name=name,
                  loopback_uses_ports=loopback_uses_ports)


_rate = partial(parse_rate, strict=True)


def _per_host(value: Quantity | Sequence[Quantity], hosts: int, what: str) -> list[float]:
    if isinstance(value, str) or not isinstance(value, Iterable) or getattr(value, "ndim", 1) == 0:
        return [_rate(value, what)] * hosts  # type: ignore[arg-type]
    refuse_set(value, what)
    values = list(value)
    if len(values) != hosts:
        raise InputError(f"{what}: {hosts} hosts need {hosts} values, not {len(values)}")
    return [_rate(each, f"{what} of host {host}") for host, each in enumerate(values)]


def _with_hosts(names: list[str]) -> nx.Graph:
    """Make a graph of hosts, which come first, so that their links do as well."""
    graph = nx.Graph(hosts=names)
    graph.add_nodes_from(names)
    return graph


def _join(graph: nx.Graph, below: str, numbers: Iterable[Any], spines: int, up: float) -> None:
    """Connect each leaf, or switch of a rail, to each spine."""
    for spine in range(spines):
        graph.add_node(f"spine-{spine}", layer="spines")
    for leaf, spine in product(numbers, range(spines)):
        graph.add_edge(f"{below}-{leaf}", f"spine-{spine}", capacity=up)


def _built(graph: nx.Graph, bisection: float | None, **options: Any) -> GraphTopology:
    network = from_networkx(graph, hosts=graph.graph["hosts"], **options)
    network.cables.bisection = bisection
    return network


def _uplink(uplink: Quantity | None, oversubscription: float, below: float, spines: int) -> float:
    """Return the capacity of each uplink of a leaf whose host links add up to `below`."""
    ratio = as_number(oversubscription, "oversubscription", above=0)
    if uplink is None:
        return below / (spines * ratio)
    if ratio != 1:
        raise InputError(f"give either uplink, {uplink!r}, or oversubscription, {ratio!r}, "
                         "not both", "uplink")
    return _rate(uplink, "uplink")


def _leaf_spine_bisection(leaves: int, hosts: int, port: float, up: float) -> float:
    """Compute the smallest cut between halves of the hosts of a leaf-spine.

    The cost of a leaf is concave in the number of its hosts on one side, so that the smallest cut
    leaves as many leaves as possible whole. Half of the leaves on either side cost their uplinks
    or their hosts' links; with an odd number of leaves, one costs half of its hosts' links.
    """
    return leaves // 2 * min(hosts * port, up) + leaves % 2 * (hosts // 2) * port


def _divided(number: int, by: int, what: str, of: str) -> int:
    """Divide one whole number by another; refuse a remainder."""
    if number % by:
        raise InputError(f"{of} must divide the number of {what}, {number}, not be {by}", of)
    return number // by


def _counts(**counts: int) -> Iterator[int]:
    return (as_whole(count, what, 1) for what, count in counts.items())


def _check_cables(count: int) -> None:
    """Check that a network is not too large, before building it."""
    if count > _MOST_CABLES:
        raise InputError(f"the network would have more than {_MOST_CABLES:,} cables; make it "
                         "smaller")
    check_limit("cables", count, where="the network", otherwise=_MOST_CABLES)

