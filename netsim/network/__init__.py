"""Networks: hosts, links, capacities and routes."""

from netsim.network.files import TOPOLOGIES, make_network, read_network, ready_made
from netsim.network.topology import BigSwitch, Topology, big_switch

__all__ = ["TOPOLOGIES", "BigSwitch", "Topology", "big_switch", "make_network", "read_network",
           "ready_made"]
