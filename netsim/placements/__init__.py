"""Placements: which GPUs a job gets."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
