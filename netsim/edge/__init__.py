"""Edge-cloud systems: servers with few workers near the data, and a distant cloud with many."""

from netsim.base.lazy import loading
from netsim.edge.edge_cloud import EdgeCloud, EdgeJob, EdgeWorkload

__all__ = ["EdgeCloud", "EdgeJob", "EdgeWorkload"]

__getattr__ = loading(__name__)
