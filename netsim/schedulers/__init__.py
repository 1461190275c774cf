"""Schedulers of jobs on clusters and edge-clouds."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
