"""Placements: policies that choose the GPUs of a job."""

from netsim.base.lazy import loading

__getattr__ = loading(__name__)
