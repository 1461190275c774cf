"""Compiled kernels. Each is compiled when first called, and cached from then on."""

from netsim.compiling import addressed, compiled, in_place, inlined, summing
from netsim.lazy import loading
from netsim.signals import check_signals

__all__ = ["addressed", "check_signals", "compiled", "in_place", "inlined", "summing"]

__getattr__ = loading(__name__)
