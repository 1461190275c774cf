"""Analysis of results, as numbers: bounds, links, comparisons, intervals."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
