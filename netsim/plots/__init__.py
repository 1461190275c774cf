"""Plots of results, timelines for Perfetto, and HTML reports."""

from netsim.base.lazy import loading

__getattr__ = loading(__name__)
