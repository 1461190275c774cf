"""Schedulers of clusters by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netsim.errors import InputError
from netsim.plugins import build, copied, find, named

__all__ = ["SCHEDULERS", "chooses_gpus", "make_scheduler"]

#: Name -> where the class is: with ``decide``, or ``begin`` that returns who decides in a run.
SCHEDULERS: dict[str, str] = {
    "a-srpt": "netsim.schedulers.a_srpt:ASRPT",
    "a-srpt-perfect": "netsim.schedulers.a_srpt:ASRPTPerfect",
    "ff": "netsim.schedulers.sjf_bco:FF",
    "fifo": "netsim.schedulers.queues:FIFO",
    "ls": "netsim.schedulers.sjf_bco:LS",
    "rand": "netsim.schedulers.sjf_bco:RAND",
    "sjf": "netsim.schedulers.queues:SJF",
    "sjf-bco": "netsim.schedulers.sjf_bco:SjfBco",
    "spjf": "netsim.schedulers.predicted:SPJF",
    "spwf": "netsim.schedulers.predicted:SPWF",
    "wcs-duration": "netsim.schedulers.predicted:WCSDuration",
    "wcs-subtime": "netsim.schedulers.predicted:WCSSubTime",
    "wcs-workload": "netsim.schedulers.predicted:WCSWorkload",
}


def make_scheduler(given: Any) -> Any:
    """Return a scheduler.

    Parameters
    ----------
    given : str, mapping or object
        A name of `SCHEDULERS`, or ``"module:Class"``, with options as in ``"ff:order=by_size"``;
        ``{"name": ..., option: ...}``; or an object with ``begin`` or ``decide``, which is
        copied.

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
    kind = find("scheduler", name, SCHEDULERS)
    return _checked(build(kind, options, f"scheduler {name!r}"), name)


def _checked(made: Any, said: object) -> Any:
    if not (hasattr(made, "begin") or hasattr(made, "decide")):
        raise InputError(f"{said!r} is no scheduler: it needs a method decide, or begin")
    return made


def chooses_gpus(scheduler: Any) -> bool:
    """Say whether a scheduler says which GPUs jobs get, and leaves nothing to a placement."""
    return bool(getattr(scheduler, "chooses_gpus", False))
