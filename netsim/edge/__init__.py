"""Edge-cloud systems: servers with few workers near the data, and a distant cloud with many."""

from netsim.edge.jobs import EdgeJob, EdgeWorkload
from netsim.edge.system import EdgeCloud
from netsim.lazy import loading

__all__ = ["EdgeCloud", "EdgeJob", "EdgeWorkload"]

__getattr__ = loading(__name__)
