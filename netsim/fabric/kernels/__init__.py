"""Compiled kernels. Each is compiled when first called, and cached from then on."""

from netsim.base.compiling import compiled, in_place, inlined, row_type, summing
from netsim.base.lazy import loading

__all__ = ["compiled", "in_place", "inlined", "row_type", "summing"]

__getattr__ = loading(__name__)
