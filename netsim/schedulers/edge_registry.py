"""Schedulers of edge-clouds by name."""

from __future__ import annotations

from typing import Any

from netsim.plugins import Registry

__all__ = ["EDGE_SCHEDULERS", "make_edge_scheduler"]

#: Classes with ``begin``, for schedulers of chunks, or with ``run``, for schedulers of whole jobs.
EDGE_SCHEDULERS = Registry(
    "scheduler of an edge-cloud", {
        "a-online": "netsim.schedulers.a_online:AOnline",
        "a-online-e": "netsim.schedulers.a_online:AOnlineEdge",
        "batch": "netsim.schedulers.batch:BatchSche",
        "cloud-only": "netsim.schedulers.a_online:CloudOnly",
        "srtf": "netsim.schedulers.gang:SRTF",
        "tiresias-l": "netsim.schedulers.gang:TiresiasL",
    },
    noun="scheduler", accepts=lambda made: hasattr(made, "begin") or hasattr(made, "run"),
    refusal="is no scheduler of an edge-cloud: it needs a method begin, or run")


def make_edge_scheduler(given: Any) -> Any:
    """Make a scheduler of an edge-cloud.

    Parameters
    ----------
    given : str, mapping or object
        A name from `EDGE_SCHEDULERS`, or ``"module:Class"``, with options as in
        ``"batch:mode=periodic"``; ``{"name": ..., option: ...}``; or an object with ``begin`` (see
        `netsim.schedulers.a_online.Dispatcher`) or ``run`` (of an `EdgeSetting`, which returns a
        `Schedule`), which is copied.

    Raises
    ------
    UnknownNameError
        If the name or an option does not exist.
    InputError
        If the argument is not a scheduler, or an option has an invalid value.
    """
    return EDGE_SCHEDULERS.instantiate(given)
