"""The transport in which uploads and exchanges of chunks are flows over shared links."""

from netsim.base.lazy import loading
from netsim.edge.on_fabric.transport import FabricTransport

__all__ = ["FabricTransport"]

__getattr__ = loading(__name__)
