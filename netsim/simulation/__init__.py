"""Simulation of jobs on a network, a cluster or an edge-cloud."""

from netsim.base.lazy import loading

__getattr__ = loading(__name__)
