"""Experiment files: their keys, their checks, and the objects made from them."""

from netsim.base.lazy import loading

__getattr__ = loading(__name__)
