"""Experiment files: what one may say, and what it becomes."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
