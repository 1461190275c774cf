"""Tools to test your own policies: hand-built views, conformance checks, hypothesis strategies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netsim.base.lazy import listing, loading

if TYPE_CHECKING:
    from netsim.testing.allocators import check_allocator
    from netsim.testing.cases import networks, views, workloads
    from netsim.testing.listing import promises_of
    from netsim.testing.made_view import make_view
    from netsim.testing.patterns import check_pattern
    from netsim.testing.placements import check_placement
    from netsim.testing.schedulers import check_scheduler
    from netsim.testing.topologies import check_topology

_MODULE_OF = {name: f"netsim.testing.{module}" for name, module in {
    "check_allocator": "allocators", "check_pattern": "patterns", "check_placement": "placements",
    "check_scheduler": "schedulers", "check_topology": "topologies", "make_view": "made_view",
    "networks": "cases", "promises_of": "listing", "views": "cases", "workloads": "cases",
}.items()}

__all__ = ["check_allocator", "check_pattern", "check_placement", "check_scheduler",
           "check_topology", "make_view", "networks", "promises_of", "views", "workloads"]

__getattr__, __dir__ = loading(__name__, _MODULE_OF), listing(__name__)
