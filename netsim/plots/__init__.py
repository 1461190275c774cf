"""Plots of results, timelines for Perfetto, and HTML reports."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
