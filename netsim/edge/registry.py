"""Transports of edge-clouds by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netsim.base.plugins import Registry

if TYPE_CHECKING:
    from netsim.edge.transport import TransportKind

#: The transports; see `netsim.edge.transport.TransportKind`.
TRANSPORTS = Registry(
    "transport", {
        "constant": "netsim.edge.transport:ConstantTransport",
        "fabric": "netsim.edge.on_fabric.transport:FabricTransport",
    },
    accepts=lambda made: hasattr(made, "begin") and hasattr(made, "shares_links"),
    refusal="is not a transport: it needs a method begin, and shares_links",
    group="transports")


def make_transport(given: Any) -> TransportKind:
    """Make a kind of transport from a name with options, such as ``"fabric:mode=exact"``."""
    made: TransportKind = TRANSPORTS.instantiate(given)
    return made
