"""Results of runs: tables, summaries, and folders on disk."""

from netsim.base.lazy import loading

__getattr__ = loading(__name__)
