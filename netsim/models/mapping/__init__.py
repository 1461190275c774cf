"""Mappings of a job's replicas to the servers that the job gets (A-SRPT, Section IV)."""

from __future__ import annotations

from netsim.base.lazy import loading
from netsim.base.plugins import Registry
from netsim.models import allreduce_edges
from netsim.models.mapping.heavy_edge import (
    Mapper,
    consolidated_counts,
    heavy_edge,
    heavy_edge_ranks,
    heavy_edge_servers,
    job_graph,
)
from netsim.models.mapping.optimal import exhaustive_mapping, optimal_mapping
from netsim.models.mapping.simple import (
    Mapped,
    can_hold,
    check_counts,
    random_mapping,
    round_robin_mapping,
)

__all__ = ["MAPPINGS", "Mapped", "Mapper", "allreduce_edges", "can_hold", "check_counts",
           "consolidated_counts", "exhaustive_mapping", "heavy_edge", "heavy_edge_ranks",
           "heavy_edge_servers", "job_graph", "optimal_mapping", "random_mapping",
           "round_robin_mapping"]

#: Mappings by name: functions ``mapping(model, counts, server, seed)`` that return a `Mapped`.
MAPPINGS = Registry("mapping", {
    "heavy-edge": "netsim.models.mapping.heavy_edge:heavy_edge",
    "optimal": "netsim.models.mapping.optimal:optimal_mapping",
    "random": "netsim.models.mapping.simple:random_mapping",
    "round-robin": "netsim.models.mapping.simple:round_robin_mapping",
})

__getattr__ = loading(__name__)
