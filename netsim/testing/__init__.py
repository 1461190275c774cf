"""For users' own policies: views built by hand, conformance checks, hypothesis strategies."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netsim.testing.conformance import check_allocator
    from netsim.testing.patterns import check_pattern
    from netsim.testing.placements import check_placement
    from netsim.testing.schedulers import check_scheduler
    from netsim.testing.strategies import networks, views, workloads
    from netsim.testing.topologies import check_topology
    from netsim.testing.view import make_view

_MODULE_OF = {
    "check_allocator": "conformance", "check_pattern": "patterns", "check_placement": "placements",
    "check_scheduler": "schedulers", "check_topology": "topologies", "make_view": "view",
    "networks": "strategies", "views": "strategies", "workloads": "strategies",
}

__all__ = ["check_allocator", "check_pattern", "check_placement", "check_scheduler",
           "check_topology", "make_view", "networks", "views", "workloads"]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'netsim.testing' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"netsim.testing.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
