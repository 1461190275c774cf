"""Placements by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from netsim.errors import InputError
from netsim.placements.placement import Placement
from netsim.plugins import build, copied, find, named

__all__ = ["PLACEMENTS", "make_placement"]

#: Name -> where the class is.
PLACEMENTS: dict[str, str] = {
    "first-fit": "netsim.placements.placement:FirstFit",
    "least-busy-servers": "netsim.placements.placement:LeastBusyServers",
    "least-loaded": "netsim.placements.placement:LeastLoaded",
    "mapped": "netsim.placements.mapped:MappedPlacement",
    "random": "netsim.placements.placement:RandomChoice",
}


def make_placement(given: str | Mapping[str, Any] | Placement | type, seed: int = 0) -> Placement:
    """Return a placement.

    Parameters
    ----------
    given : str, mapping, Placement or class
        A name of `PLACEMENTS`, or ``"module:Class"``, with options as in
        ``"least-busy-servers:lam=2"``; ``{"name": ..., option: ...}``; a class; or an instance,
        which is copied.
    seed : int
        Of a random one that is given none.

    Raises
    ------
    UnknownNameError
        If the name or an option does not exist.
    InputError
        If it is no placement, or an option has a value that is not allowed.
    """
    options: Mapping[str, Any]
    if isinstance(given, type):
        name, options, kind = given.__name__, {}, given
    elif not isinstance(given, str | Mapping):
        return copied(_checked(given, given), "placement")
    else:
        name, options = named(given, "placement")
        kind = find("placement", name, PLACEMENTS)
    if "seed" in inspect.signature(kind).parameters:
        options = {"seed": seed} | options
    return _checked(build(kind, options, f"placement {name!r}"), name)


def _checked(made: Any, said: object) -> Placement:
    if not isinstance(made, Placement):
        raise InputError(f"{said!r} is no placement: it needs methods scope and choose")
    return made
