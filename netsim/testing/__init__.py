"""For users' own policies: views built by hand, a conformance check, hypothesis strategies."""

from netsim.testing.conformance import check_allocator
from netsim.testing.strategies import networks, views, workloads
from netsim.testing.view import make_view

__all__ = ["check_allocator", "make_view", "networks", "views", "workloads"]
