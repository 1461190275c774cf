"""Schedulers of edge-clouds by name, and what goes with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from netsim.edge.jobs import EdgeWorkload
from netsim.edge.registry import TRANSPORTS
from netsim.edge.setting import EdgeSetting
from netsim.edge.system import EdgeCloud
from netsim.edge.transport import ConstantTransport, TransportKind
from netsim.errors import InputError
from netsim.plugins import build, copied, described, find, named

__all__ = ["EDGE_SCHEDULERS", "check_run", "check_setting", "make_edge_scheduler",
           "problem_between"]

#: Name -> where the class is: with ``begin``, of those that dispatch chunks, or ``run``.
EDGE_SCHEDULERS: dict[str, str] = {
    "a-online": "netsim.schedulers.a_online:AOnline",
    "a-online-e": "netsim.schedulers.a_online:AOnlineEdge",
    "batch": "netsim.schedulers.batch:BatchSche",
    "cloud-only": "netsim.schedulers.a_online:CloudOnly",
    "srtf": "netsim.schedulers.gang:SRTF",
    "tiresias-l": "netsim.schedulers.gang:TiresiasL",
}


def make_edge_scheduler(given: Any) -> Any:
    """Return a scheduler.

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
    if isinstance(given, type) or not isinstance(given, str | Mapping):
        return copied(_checked(given() if isinstance(given, type) else given, given), "scheduler")
    name, options = named(given, "scheduler")
    kind = find("scheduler of an edge-cloud", name, EDGE_SCHEDULERS)
    return _checked(build(kind, options, f"scheduler {name!r}"), name)


def _checked(made: Any, said: object) -> Any:
    if not (hasattr(made, "begin") or hasattr(made, "run")):
        raise InputError(f"{said!r} is no scheduler of an edge-cloud: it needs a method begin, "
                         "or run")
    return made


def problem_between(scheduler: Any, transport: TransportKind) -> str | None:
    """Return why a scheduler does not go with a transport; None if it does."""
    if hasattr(scheduler, "begin") or isinstance(transport, ConstantTransport):
        return None
    name, other = (described(each, known)["name"] for each, known in (
        (scheduler, EDGE_SCHEDULERS), (transport, TRANSPORTS)))
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
