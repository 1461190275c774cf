"""Compiled kernels. Each is compiled when first called, and cached from then on."""

from netsim.base.compiling import addressed, compiled, in_place, inlined, summing
from netsim.base.lazy import loading
from netsim.base.signals import check_signals

__all__ = ["addressed", "check_signals", "compiled", "in_place", "inlined", "summing"]

__getattr__ = loading(__name__)
