"""Chunks whose uploads and exchanges are flows over the links of an edge-cloud."""

from netsim.edge.on_fabric.transport import FabricTransport

__all__ = ["FabricTransport"]
