"""Compiled kernels. Each is compiled when first called, and cached from then on."""

from netsim.compiling import compiled, in_place, inlined, inner, summing
from netsim.lazy import loading

__all__ = ["compiled", "in_place", "inlined", "inner", "summing"]

__getattr__ = loading(__name__)
