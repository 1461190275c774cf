"""Bandwidth allocators: one file per family, one entry each in `ALLOCATORS`."""

from netsim.allocators.registry import (
    ALLOCATORS,
    PRESETS,
    allocator_options,
    describe,
    make_allocator,
    parse_allocator,
)
from netsim.lazy import loading

__all__ = ["ALLOCATORS", "PRESETS", "allocator_options", "describe", "make_allocator",
           "parse_allocator"]

__getattr__ = loading(__name__)
