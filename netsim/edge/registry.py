"""Transports of edge-clouds by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from netsim.edge.transport import TransportKind
from netsim.errors import InputError
from netsim.plugins import build, find, named

__all__ = ["TRANSPORTS", "make_transport"]

#: Name -> where the class is; see `netsim.edge.transport.TransportKind`.
TRANSPORTS: dict[str, str] = {
    "constant": "netsim.edge.transport:ConstantTransport",
    "fabric": "netsim.edge.on_fabric.transport:FabricTransport",
}


def make_transport(given: Any) -> TransportKind:
    """Return what makes transports.

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
        If it is no transport, or an option has a value that is not allowed.
    """
    made = given
    if isinstance(given, str | Mapping):
        name, options = named(given, "transport")
        made = build(find("transport", name, TRANSPORTS), options, f"transport {name!r}")
    if isinstance(made, type) or not (hasattr(made, "begin") and hasattr(made, "shares_links")):
        raise InputError(f"{given!r} is no transport: it needs a method begin, and shares_links")
    return cast(TransportKind, made)
