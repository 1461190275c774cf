"""Clusters: servers with GPUs, who gets which of them and when, and how placed jobs run."""

from netsim.cluster.cluster import Cluster, draw_gpus
from netsim.cluster.contention import Contention
from netsim.cluster.ring import RingLayout, ring_stages
from netsim.lazy import loading

__all__ = ["Cluster", "Contention", "RingLayout", "draw_gpus", "ring_stages"]

__getattr__ = loading(__name__)
