"""netsim in a user's SimPy program: coflows as events, at any time."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
