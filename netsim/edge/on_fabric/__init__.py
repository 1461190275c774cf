"""The transport in which uploads and exchanges of chunks are flows over shared links."""

from netsim.edge.on_fabric.transport import FabricTransport
from netsim.lazy import loading

__all__ = ["FabricTransport"]

__getattr__ = loading(__name__)
