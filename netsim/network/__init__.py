"""Networks: hosts, links, capacities and routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netsim.base.lazy import loading

if TYPE_CHECKING:
    from netsim.network.builders import (
        big_switch,
        edge_cloud,
        fat_tree,
        gpu_cluster,
        leaf_spine,
        rail_pod,
        ring,
        torus,
    )
    from netsim.network.describe import describe_network
    from netsim.network.files import TOPOLOGIES, make_network, read_network, ready_made
    from netsim.network.from_graph import from_networkx
    from netsim.network.graph import GraphTopology
    from netsim.network.infragraph import infragraph
    from netsim.network.nccl import NcclNetwork, NcclServer, nccl, read_nccl_server
    from netsim.network.simgrid import PlatformNetwork, simgrid
    from netsim.network.simulators import hpcc, htsim
    from netsim.network.spray import SprayedNetwork
    from netsim.network.topology import BigSwitch, GpuServers, Topology
    from netsim.network.wire import Packet, Protocol, Wire
    from netsim.network.wired import Profile, profile, profiles, wired

__all__ = ["TOPOLOGIES", "BigSwitch", "GpuServers", "GraphTopology", "NcclNetwork", "NcclServer",
           "Packet", "PlatformNetwork", "Profile", "Protocol", "SprayedNetwork", "Topology", "Wire",
           "big_switch", "describe_network", "edge_cloud", "fat_tree", "from_networkx",
           "gpu_cluster", "hpcc", "htsim", "infragraph", "leaf_spine", "make_network", "nccl",
           "profile", "profiles", "rail_pod", "read_nccl_server", "read_network", "ready_made",
           "ring", "simgrid", "torus", "wired"]

_HOME = {
    "netsim.network.builders": ("big_switch", "edge_cloud", "fat_tree", "gpu_cluster", "leaf_spine",
                                "rail_pod", "ring", "torus"),
    "netsim.network.describe": ("describe_network",),
    "netsim.network.files": ("TOPOLOGIES", "make_network", "read_network", "ready_made"),
    "netsim.network.from_graph": ("from_networkx",),
    "netsim.network.graph": ("GraphTopology",),
    "netsim.network.infragraph": ("infragraph",),
    "netsim.network.nccl": ("NcclNetwork", "NcclServer", "nccl", "read_nccl_server"),
    "netsim.network.simgrid": ("PlatformNetwork", "simgrid"),
    "netsim.network.simulators": ("hpcc", "htsim"),
    "netsim.network.spray": ("SprayedNetwork",),
    "netsim.network.topology": ("BigSwitch", "GpuServers", "Topology"),
    "netsim.network.wire": ("Packet", "Protocol", "Wire"),
    "netsim.network.wired": ("Profile", "profile", "profiles", "wired"),
}

__getattr__ = loading(
    __name__, {name: module for module, names in _HOME.items() for name in names})
