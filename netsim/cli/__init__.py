"""The command line, a file per command."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
