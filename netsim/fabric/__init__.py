"""The fabric: flows on links, moved at the rates that an allocator gives."""

from netsim.base.lazy import loading

__getattr__ = loading(__name__)
