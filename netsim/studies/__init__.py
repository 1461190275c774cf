"""Studies: one run, a comparison or a sweep, on one core or many."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
