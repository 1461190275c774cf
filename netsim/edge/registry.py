"""Transports of edge-clouds by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netsim.plugins import Registry

if TYPE_CHECKING:
    from netsim.edge.transport import TransportKind

__all__ = ["TRANSPORTS", "make_transport"]

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
    """Instantiate a kind of transport, which makes the transport of each run.

    Parameters
    ----------
    given : str, mapping or object
        A name of `TRANSPORTS`, or ``"module:Class"``, with options as in ``"fabric:mode=exact"``;
        ``{"name": ..., option: ...}``; or a `TransportKind`.

    Raises
    ------
    UnknownNameError
        If the name or an option does not exist.
    InputError
        If the object is not a transport, or an option has an invalid value.
    """
    made: TransportKind = TRANSPORTS.instantiate(given)
    return made
