"""Pictures of results, timelines for Perfetto, and reports."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
