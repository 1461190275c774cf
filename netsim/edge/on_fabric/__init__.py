"""Chunks whose uploads and exchanges are flows over the links of an edge-cloud."""

from netsim.edge.on_fabric.transport import FabricTransport
from netsim.lazy import loading

__all__ = ["FabricTransport"]

__getattr__ = loading(__name__)
