"""Schedulers of jobs on clusters and edge-clouds."""

from netsim.base.lazy import loading

__getattr__ = loading(__name__)
