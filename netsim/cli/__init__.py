"""The command line."""

from netsim.base.lazy import loading

__getattr__ = loading(__name__)
