"""What collectives need to know of the network of their ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netsim.collectives import NcclCosts, SwitchCosts
from netsim.errors import InputError
from netsim.network import Topology
from netsim.network.routing import Ints


def costs_on(network: Topology, hosts: Sequence[int] | Ints, algorithm: str,
             servers: int | None = None, inside: float | None = None) -> NcclCosts | SwitchCosts:
    """Compute the costs by which the rule ``"auto"`` or ``"fastest"`` chooses on a network.

    By default, the servers of the ranks are counted on the network; if this does not define
    servers, each host counts as one. If hosts are servers rather than GPUs, `inside` is the rate
    inside a server, in bytes per second.
    """
    machines, places = network.gpu_servers, np.asarray(hosts, np.int64)
    if algorithm == "fastest" or machines is None:
        ports = np.unique(np.concatenate([network.links_of(int(host))
                                          for host in np.unique(places)]))
        rate = float(network.usable[ports].min())
        if algorithm == "fastest":
            return SwitchCosts(rate, _longest_s(network, places), network.wire.overhead)
        own = len(np.unique(places)) if servers is None else servers
        if inside is not None:
            rate = inside if own == 1 else min(inside, rate)
        return NcclCosts(rate, servers=own)
    own = len(np.unique(machines.server_of(places))) if servers is None else servers
    efficiency = network.wire.efficiency[_links_of_first_gpu(network, int(places[0]))]
    nvlink = machines.nvlink * float(efficiency[0])
    nics = machines.nic * machines.nics * float(efficiency[1])
    return NcclCosts(nvlink if own == 1 else min(nvlink, nics), servers=own,
                     generation=machines.generation)


def _links_of_first_gpu(network: Topology, host: int) -> list[int]:
    """Return the NVLink of the first GPU of a host's server, and the link of its first NIC."""
    assert network.gpu_servers is not None
    server = host // network.gpu_servers.gpus
    of_nic = network.links_of_switch(f"nic-{server}.0").tolist()
    up = next(link for link in of_nic
              if network.link_names[link].startswith(f"nic-{server}.0->rail-"))
    return [network.link(f"gpu-{server}.0->server-{server}"), up]


def _longest_s(network: Topology, hosts: Ints) -> float:
    """Return the largest latency of a path between some hosts, in seconds."""
    if not network.wire.latency.any():
        return 0.0
    longest, hosts = 0.0, np.unique(hosts)
    for host in hosts.tolist():
        ptr, links = network.routes(np.full_like(hosts, host), hosts, np.zeros_like(hosts))
        longest = max(longest, float(network.wire.latency_of(ptr, links).max()))
    return longest


def groups_on(network: Topology, hosts: Sequence[int] | Ints, order: Sequence[int] | None,
              hosts_are_servers: bool = False) -> dict[str, Any]:
    """Find the ``group`` of a hierarchical collective, the ranks of each server, as an option.

    If no order is given, ranks of a server follow each other: the options include ``order`` if this
    is not the order of ranks. With `hosts_are_servers`, the network need not define servers.
    """
    on = np.asarray(hosts, np.int64)
    if not hosts_are_servers:
        if network.gpu_servers is None:
            raise InputError(f"hierarchical: network {network.name!r} does not say which hosts are "
                             "on one server, as netsim.gpu_cluster does; give group")
        on = network.gpu_servers.server_of(on)
    found: dict[str, Any] = {}
    places = np.arange(len(on)) if order is None else np.array(order, np.int64)
    if order is None and (np.diff(on) < 0).any():
        places = np.argsort(on, kind="stable")
        found["order"] = places.tolist()
    on = on[places]
    first = np.flatnonzero(np.diff(on, prepend=-1))
    sizes = np.diff(first, append=len(on))
    if len(np.unique(sizes)) > 1 or len(np.unique(on[first])) < len(first):
        raise InputError("hierarchical: servers must have equally many ranks, which follow each "
                         f"other in the order, not {sizes.tolist()[:8]} of the servers "
                         f"{on[first].tolist()[:8]}; give group")
    return {**found, "group": int(sizes[0])}
