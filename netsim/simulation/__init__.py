"""Simulation: a network, a cluster or an edge-cloud, jobs, and a run of them."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
