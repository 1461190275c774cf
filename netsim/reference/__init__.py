"""Slow, readable reference implementations that tests compare the compiled code with."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
