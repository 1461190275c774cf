"""Readable twins of what is fast: slow, and held against it."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
