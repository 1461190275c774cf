"""Results of runs: tables, a summary, and a folder on disk."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
