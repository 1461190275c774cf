"""Compiled kernels. They are compiled when first called, and cached from then on."""

from netsim.compiling import compiled, in_place, summing

__all__ = ["compiled", "in_place", "summing"]
