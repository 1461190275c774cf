"""Schedulers of edge-clouds, and transports, by name."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from netsim.errors import InputError
from netsim.plugins import build, find, named

__all__ = ["EDGE_SCHEDULERS", "TRANSPORTS", "make_edge_scheduler", "make_transport"]

#: Name -> where the class is: with ``begin``, of those that dispatch chunks, or ``run``.
EDGE_SCHEDULERS: dict[str, str] = {
    "a-online": "netsim.edge.online:AOnline",
    "a-online-e": "netsim.edge.online:AOnlineEdge",
    "batch": "netsim.edge.batch:BatchSche",
    "cloud-only": "netsim.edge.online:CloudOnly",
    "srtf": "netsim.edge.gang:SRTF",
    "tiresias-l": "netsim.edge.gang:TiresiasL",
}

#: Name -> where what makes one of a setting is; see `netsim.edge.transport.Transport`.
TRANSPORTS: dict[str, str] = {"constant": "netsim.edge.transport:Constant"}


def make_edge_scheduler(given: Any) -> Any:
    """Return a scheduler.

    Parameters
    ----------
    given : str, mapping or object
        A name of `EDGE_SCHEDULERS`, or ``"module:Class"``, with options as in
        ``"batch:mode=periodic"``; ``{"name": ..., option: ...}``; or an object with ``begin`` (see
        `netsim.edge.online.Dispatcher`) or ``run`` (of an `EdgeSetting`, which returns a
        `Schedule`), which is copied.

    Raises
    ------
    UnknownNameError
        If the name or an option does not exist.
    InputError
        If it is no scheduler, or an option has a value that is not allowed.
    """
    if isinstance(given, type) or not isinstance(given, str | Mapping):
        return copy.deepcopy(_checked(given() if isinstance(given, type) else given, given))
    name, options = named(given, "scheduler")
    kind = find("scheduler of an edge-cloud", name, EDGE_SCHEDULERS)
    return _checked(build(kind, options, f"scheduler {name!r}"), name)


def _checked(made: Any, said: object) -> Any:
    if not (hasattr(made, "begin") or hasattr(made, "run")):
        raise InputError(f"{said!r} is no scheduler of an edge-cloud: it needs a method begin, "
                         "or run")
    return made


def make_transport(given: str | Mapping[str, Any]) -> Any:
    """Return what makes a transport of a setting.

    Parameters
    ----------
    given : str or mapping
        A name of `TRANSPORTS`, or ``"module:Class"``, with options.

    Raises
    ------
    UnknownNameError
        If the name does not exist.
    """
    name, options = named(given, "transport")
    kind = find("transport", name, TRANSPORTS)
    return lambda setting: build(kind, {"setting": setting} | options, f"transport {name!r}")
