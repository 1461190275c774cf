"""Experiment files: their keys, their checks, and the objects made from them."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
