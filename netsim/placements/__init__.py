"""Placements: policies that choose the GPUs of a job."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
