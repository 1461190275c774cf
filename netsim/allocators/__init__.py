"""Bandwidth allocators: one file per family, one entry each in `ALLOCATORS`."""

from netsim.allocators.registry import (
    ALLOCATORS,
    PRESETS,
    allocator_options,
    describe,
    make_allocator,
    parse_allocator,
)

__all__ = ["ALLOCATORS", "PRESETS", "allocator_options", "describe", "make_allocator",
           "parse_allocator"]
