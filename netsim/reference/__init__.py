"""Slow, readable reference implementations, with which tests compare the compiled code."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
