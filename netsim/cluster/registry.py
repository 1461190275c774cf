"""Schedulers and executions by name."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from netsim.checks import check_options
from netsim.cluster.contention import Contention
from netsim.cluster.planners import FF, LS, RAND, SjfBco
from netsim.cluster.scheduling import Queue
from netsim.errors import InputError, UnknownNameError

__all__ = ["EXECUTIONS", "SCHEDULERS", "described", "make_execution", "make_scheduler"]

#: Name to class. Those that plan have ``plan``, the others ``decide``.
SCHEDULERS: dict[str, Callable[..., Any]] = {
    "sjf-bco": SjfBco, "ff": FF, "ls": LS, "rand": RAND, "fifo": Queue,
    "sjf": lambda: Queue(by_size=True),
}

#: How placed jobs run: by the contention model, or as coflows on the network.
EXECUTIONS = ("rar-contention", "fabric")


def make_scheduler(given: Any) -> Any:
    """Return a scheduler.

    Parameters
    ----------
    given : str, mapping or object
        A name of `SCHEDULERS`; ``{"name": ..., option: ...}``; or an object with ``plan`` or
        ``decide``.

    Raises
    ------
    UnknownNameError
        If the name or an option does not exist.
    InputError
        If it is no scheduler, or an option has a value that is not allowed.
    """
    if hasattr(given, "plan") or hasattr(given, "decide"):
        return given
    name, options = _named(given, "scheduler")
    if name not in SCHEDULERS:
        raise UnknownNameError("scheduler", name, SCHEDULERS)
    check_options(SCHEDULERS[name], options, f"scheduler {name!r}")
    return SCHEDULERS[name](**options)


def make_execution(given: Any) -> tuple[str, Contention]:
    """Return how placed jobs run, and the contention model: that runs them, or plans go by it.

    Parameters
    ----------
    given : str or mapping
        A name of `EXECUTIONS`; or ``{"name": ..., option: ...}`` with options of `Contention`.

    Raises
    ------
    UnknownNameError
        If the name or an option does not exist.
    InputError
        If an option has a value that is not allowed.
    """
    name, options = _named(given, "execution")
    if name not in EXECUTIONS:
        raise UnknownNameError("execution", name, EXECUTIONS)
    check_options(Contention, options, f"execution {name!r}")
    return name, Contention(**options)


def _named(given: Any, what: str) -> tuple[str, dict[str, Any]]:
    if isinstance(given, str):
        return given, {}
    if not (isinstance(given, Mapping) and isinstance(given.get("name"), str)):
        raise InputError(f"{what} must be a name, or a mapping with a 'name' and options, "
                         f"not {given!r}")
    return given["name"], {key: value for key, value in given.items() if key != "name"}


def described(scheduler: Any) -> dict[str, Any]:
    """Return a scheduler as ``{"name": ..., option: ...}``, for results."""
    kind = type(scheduler)
    name = next((name for name, each in SCHEDULERS.items()
                 if inspect.isclass(each) and each is kind), f"{kind.__module__}:{kind.__name__}")
    if dataclasses.is_dataclass(scheduler):
        return {"name": name} | {field.name: getattr(scheduler, field.name)
                                 for field in dataclasses.fields(scheduler)}
    return {"name": name}
