"""GPU clusters: where the workers of a job are, and what they exchange there."""

from netsim.cluster.ring import RingLayout, ring_stages

__all__ = ["RingLayout", "ring_stages"]
