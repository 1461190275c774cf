"""Schedulers of edge-clouds by name, and what goes with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from netsim.edge.jobs import EdgeWorkload
from netsim.edge.registry import TRANSPORTS
from netsim.edge.setting import EdgeSetting
from netsim.edge.system import EdgeCloud
from netsim.edge.transport import ConstantTransport, TransportKind
from netsim.plugins import Registry

__all__ = ["EDGE_SCHEDULERS", "check_run", "check_setting", "make_edge_scheduler",
           "problem_between"]

#: Classes with ``begin``, which dispatch chunks, or with ``run``.
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
    """Make a scheduler.

    Parameters
    ----------
    given : str, mapping or object
        A name of `EDGE_SCHEDULERS`, or ``"module:Class"``, with options as in
        ``"batch:mode=periodic"``; ``{"name": ..., option: ...}``; or an object with ``begin`` (see
        `netsim.schedulers.a_online.Dispatcher`) or ``run`` (of an `EdgeSetting`, which returns a
        `Schedule`), which is copied.

    Raises
    ------
    UnknownNameError
        If the name or an option does not exist.
    InputError
        If it is no scheduler, or an option has a value that is not allowed.
    """
    return EDGE_SCHEDULERS.instantiate(given)


def problem_between(scheduler: Any, transport: TransportKind) -> str | None:
    """Return why a scheduler does not go with a transport; None if it does."""
    if hasattr(scheduler, "begin") or isinstance(transport, ConstantTransport):
        return None
    name = EDGE_SCHEDULERS.to_dict(scheduler)["name"]
    other = TRANSPORTS.to_dict(transport)["name"]
    return (f"transport {other!r} is for schedulers of chunks; scheduler {name!r} has constant "
            "delays")


def check_run(system: EdgeCloud, jobs: EdgeWorkload, schedulers: Iterable[Any],
              transport: TransportKind) -> None:
    """Refuse jobs that a run would refuse at its beginning.

    Raises
    ------
    InputError
        Naming the first job with a type of workers, a size or a site that does not fit.
    """
    setting = EdgeSetting(system, jobs.jobs)
    for made in schedulers:
        check_setting(setting, made, transport)


def check_setting(setting: EdgeSetting, scheduler: Any, transport: TransportKind) -> None:
    """Refuse jobs that a scheduler cannot run on an edge-cloud.

    Raises
    ------
    InputError
        As `check_run` does.
    """
    if transport.shares_links:
        setting.check_sites()
    if getattr(scheduler, "edge", False):
        setting.check_workers(cloud := bool(getattr(scheduler, "cloud", False)))
        if hasattr(scheduler, "begin"):
            setting.check_storage(cloud)
