"""Bandwidth allocators: a module per family, and a name for each in `ALLOCATORS`."""

from netsim.allocators.registry import ALLOCATORS, check_installed, make_allocator
from netsim.base.lazy import loading

__all__ = ["ALLOCATORS", "check_installed", "make_allocator"]

__getattr__ = loading(__name__)
