"""Experiments: simulate, compare and sweep; experiment files, results and where they are kept."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
