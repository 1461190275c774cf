"""Bandwidth allocators: one file per family, one entry each in `ALLOCATORS`."""

from netsim.allocators.registry import ALLOCATORS, make_allocator
from netsim.lazy import loading

__all__ = ["ALLOCATORS", "make_allocator"]

__getattr__ = loading(__name__)
