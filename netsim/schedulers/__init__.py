"""Schedulers of jobs, on clusters and on edge-clouds."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
