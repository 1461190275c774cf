"""The ground: what every room stands on, and nothing of networks or jobs."""

from netsim.base.lazy import loading

__getattr__ = loading(__name__)
