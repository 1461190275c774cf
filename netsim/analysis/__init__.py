"""What reads results: metrics, bounds, comparisons, pictures and reports."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
