"""Runs of experiments, comparisons and sweeps, in one process or many."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
