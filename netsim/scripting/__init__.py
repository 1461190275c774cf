"""netsim in a SimPy program of the user's own: coflows as events, at any time."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
