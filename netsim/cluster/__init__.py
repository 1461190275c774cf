"""Clusters: servers with GPUs, who gets which of them and when, and how placed jobs run."""

from netsim.cluster.cluster import Cluster
from netsim.cluster.contention import Contention

__all__ = ["Cluster", "Contention"]
