"""netsim in a user's SimPy program: coflows as events, at any time."""

from netsim.base.lazy import loading

__getattr__ = loading(__name__)
