"""Compiled kernels. Each is compiled when first called, and cached from then on."""

from netsim.base.compiling import anywhere, compiled, in_place, inlined, row_type
from netsim.base.lazy import loading

__all__ = ["anywhere", "compiled", "in_place", "inlined", "row_type"]

__getattr__ = loading(__name__)
