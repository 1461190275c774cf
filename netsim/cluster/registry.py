"""Schedulers and executions by name; placements are in `netsim.cluster.placement`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netsim.cluster.contention import Contention
from netsim.errors import InputError, UnknownNameError
from netsim.plugins import build, copied, find, named

__all__ = ["EXECUTIONS", "SCHEDULERS", "chooses_gpus", "make_execution",
           "make_scheduler"]

#: Name -> where the class is: with ``decide``, or ``begin`` that returns who decides in a run.
SCHEDULERS: dict[str, str] = {
    "a-srpt": "netsim.cluster.asrpt:ASRPT",
    "a-srpt-perfect": "netsim.cluster.asrpt:ASRPTPerfect",
    "ff": "netsim.cluster.planners:FF",
    "fifo": "netsim.cluster.scheduling:FIFO",
    "ls": "netsim.cluster.planners:LS",
    "rand": "netsim.cluster.planners:RAND",
    "sjf": "netsim.cluster.scheduling:SJF",
    "sjf-bco": "netsim.cluster.planners:SjfBco",
    "spjf": "netsim.cluster.predicted:SPJF",
    "spwf": "netsim.cluster.predicted:SPWF",
    "wcs-duration": "netsim.cluster.predicted:WCSDuration",
    "wcs-subtime": "netsim.cluster.predicted:WCSSubTime",
    "wcs-workload": "netsim.cluster.predicted:WCSWorkload",
}

#: How placed jobs run: name -> one line.
EXECUTIONS: dict[str, str] = {
    "asrpt": "models by the time of an iteration on their GPUs, as A-SRPT has it",
    "fabric": "as coflows on the network, under an allocator",
    "rar-contention": "rings that contend for NICs, as the model of SJF-BCO says",
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


def make_execution(given: str | Mapping[str, Any]) -> tuple[str, Contention]:
    """Return how placed jobs run, and the contention model: that runs them, or plans go by it.

    Parameters
    ----------
    given : str or mapping
        A name of `EXECUTIONS`, with options of `Contention` as in
        ``"rar-contention:time=continuous"``; or ``{"name": ..., option: ...}``.

    Raises
    ------
    UnknownNameError
        If the name or an option does not exist.
    InputError
        If an option has a value that is not allowed.
    """
    name, options = named(given, "execution")
    if name not in EXECUTIONS:
        raise UnknownNameError("execution", name, EXECUTIONS)
    if name == "asrpt":
        if options:
            raise UnknownNameError(f"option of execution {name!r}", next(iter(options)), ())
        return name, Contention(time="continuous")
    if name == "fabric":  # which has no slots
        options = {"time": "continuous"} | options
    return name, build(Contention, options, f"execution {name!r}")
