"""Networks: hosts, links, capacities and routes."""

from netsim.lazy import loading
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
from netsim.network.gpu_servers import GpuServers
from netsim.network.graph import GraphTopology
from netsim.network.hpcc import hpcc
from netsim.network.htsim import htsim
from netsim.network.nccl import NcclNetwork, nccl
from netsim.network.nccl_server import NcclServer, read_nccl_server
from netsim.network.spray import SprayedNetwork
from netsim.network.topology import BigSwitch, Topology
from netsim.network.wire import Packet, Wire
from netsim.network.wired import Profile, profile, profiles, wired

__all__ = ["TOPOLOGIES", "BigSwitch", "GpuServers", "GraphTopology", "NcclNetwork", "NcclServer",
           "Packet", "Profile", "SprayedNetwork", "Topology", "Wire", "big_switch",
           "describe_network", "edge_cloud", "fat_tree", "from_networkx", "gpu_cluster", "hpcc",
           "htsim", "leaf_spine",
           "make_network", "nccl", "profile", "profiles", "rail_pod", "read_nccl_server",
           "read_network", "ready_made", "ring", "torus", "wired"]

__getattr__ = loading(__name__)
