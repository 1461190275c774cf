"""Clusters: servers with GPUs, the contention model of their NICs, and rings of placed jobs."""

from netsim.base.lazy import loading
from netsim.cluster.cluster import Cluster, draw_gpus
from netsim.cluster.contention import Contention
from netsim.cluster.ring import RingLayout, ring_stages

__all__ = ["Cluster", "Contention", "RingLayout", "draw_gpus", "ring_stages"]

__getattr__ = loading(__name__)
