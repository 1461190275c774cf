"""The command line, a file per command."""

from netsim.base.lazy import loading

__getattr__ = loading(__name__)
