"""Runs of experiments, comparisons and sweeps, in one process or many."""

from netsim.base.lazy import loading

__getattr__ = loading(__name__)
