"""Which allocators there are, and how a name, a mapping or an instance becomes one."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
from collections.abc import Mapping
from typing import Any

from netsim.checks import check_options
from netsim.errors import InputError, NetsimError, UnknownNameError
from netsim.fabric.policy import Allocator

__all__ = ["ALLOCATORS", "allocator_options", "describe", "make_allocator"]

#: Name -> where the class is. The first line of its docstring is its one-line summary.
ALLOCATORS: dict[str, str] = {
    "aalo": "netsim.allocators.dclas:DCLAS",
    "aalo-lbsf": "netsim.allocators.first:AaloLBSF",
    "coflow-fair": "netsim.allocators.srtf:CoflowFair",
    "fifo": "netsim.allocators.ordered:FIFO",
    "lccf": "netsim.allocators.first:LCCF",
    "lcf": "netsim.allocators.ordered:LCF",
    "maxmin": "netsim.allocators.maxmin:MaxMin",
    "ncf": "netsim.allocators.ordered:NCF",
    "parrot": "netsim.allocators.parrot:Parrot",
    "scf": "netsim.allocators.ordered:SCF",
    "sebf": "netsim.allocators.ordered:SEBF",
    "sincronia": "netsim.allocators.sincronia:Sincronia",
    "srpt": "netsim.allocators.first:JobSRPT",
    "srtf": "netsim.allocators.srtf:SRTF",
}

#: Other names by which the field knows some of them.
ALIASES = {"dclas": "aalo", "fair": "maxmin", "varys": "sebf"}


def make_allocator(policy: str | Mapping[str, Any] | Allocator | type[Allocator]) -> Allocator:
    """Return a fresh allocator.

    Parameters
    ----------
    policy : str, mapping, Allocator or class
        A registered name; ``"module:Class"``; ``{"name": ..., option: ...}``; a class; or
        an instance, which is copied so that its state serves one run only.

    Raises
    ------
    UnknownNameError
        If the name or an option does not exist; the choices are listed.
    InputError
        If it is not an allocator, or an option has a value that is not allowed.
    """
    if isinstance(policy, str):
        return _make(_find(policy), policy, {})
    if isinstance(policy, Mapping):
        options = dict(policy)
        name = options.pop("name", None)
        if not isinstance(name, str):
            raise InputError(f"an allocator given as a mapping needs a 'name', not {policy!r}")
        return _make(_find(name), name, options)
    if isinstance(policy, type):
        return _make(policy, policy.__name__, {})
    if not isinstance(policy, Allocator):
        raise InputError(f"{policy!r} is not an allocator: it must derive from netsim.Allocator")
    return copy.deepcopy(policy)


def _find(name: str) -> type[Allocator]:
    target = ALLOCATORS.get(ALIASES.get(name, name), name)
    module, _, attribute = target.partition(":")
    if not attribute:
        raise UnknownNameError("allocator", name, ALLOCATORS)
    try:
        found: type[Allocator] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"allocator {name!r} cannot be loaded: {error}") from error
    return found


def allocator_options(name: str) -> dict[str, Any]:
    """Return the options of a registered allocator with their defaults."""
    parameters = inspect.signature(_find(name)).parameters
    return {option: parameter.default for option, parameter in parameters.items()}


def _make(kind: Any, name: str, options: dict[str, Any]) -> Allocator:
    if not (isinstance(kind, type) and issubclass(kind, Allocator)):
        raise InputError(f"{name!r} is not an allocator: it must derive from netsim.Allocator")
    check_options(kind, options, f"allocator {name!r}")
    try:
        made: Allocator = kind(**options)
    except NetsimError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"allocator {name!r} cannot be made: {error}") from error
    return made


def describe(policy: Allocator) -> dict[str, Any]:
    """Return an allocator as ``{"name": ..., option: ...}``, for results and tables."""
    kind: Any = type(policy)
    target = f"{kind.__module__}:{kind.__qualname__}"
    name = next((name for name, where in ALLOCATORS.items() if where == target), target)
    if dataclasses.is_dataclass(policy) and not isinstance(policy, type):
        return {"name": name} | {field.name: getattr(policy, field.name)
                                 for field in dataclasses.fields(policy) if field.init}
    return {"name": name}
