"""Numerical analysis of results: bounds, links, comparisons, confidence intervals."""

from netsim.base.lazy import loading

__getattr__ = loading(__name__)
