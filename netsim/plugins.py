"""Plug-ins by name: what a string or a mapping that names a policy becomes."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from netsim.checks import check_options
from netsim.errors import InputError, NetsimError, UnknownNameError
from netsim.plain import plain_numbers
from netsim.units import parse_value

__all__ = ["build", "copied", "described", "find", "labelled", "named", "parse_named"]


def parse_named(text: str) -> dict[str, Any]:
    """Return what is written on one line as ``{"name": ..., option: ...}``.

    Examples
    --------
    >>> parse_named("parrot:work_conservation=none:theta_max=0.6")
    {'name': 'parrot', 'work_conservation': 'none', 'theta_max': 0.6}
    >>> parse_named("package.module:Class")
    {'name': 'package.module:Class'}
    """
    parts = text.split(":")
    options = [part.partition("=") for part in parts if "=" in part]
    name = ":".join(part for part in parts if "=" not in part)
    return {"name": name} | {key.strip(): parse_value(value) for key, _, value in options}


def named(given: str | Mapping[str, Any], what: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the options of what is given by name, or as a mapping with one.

    Raises
    ------
    InputError
        If it is neither.
    """
    table = parse_named(given) if isinstance(given, str) else given
    if not (isinstance(table, Mapping) and isinstance(table.get("name"), str)):
        raise InputError(f"{what} must be a name, or a mapping with a 'name' and options, "
                         f"not {given!r}")
    return table["name"], {key: value for key, value in table.items() if key != "name"}


def labelled(table: Mapping[str, Any]) -> str:
    """Return a name with its options, as a label.

    Examples
    --------
    >>> labelled({"name": "ff", "order": "by_size"})
    'ff (order=by_size)'
    """
    options = ", ".join(f"{name}={value}" for name, value in table.items() if name != "name")
    return f"{table['name']} ({options})" if options else str(table["name"])


def find(what: str, name: str, registry: Mapping[str, str], choices: Iterable[str] = ()) -> Any:
    """Return what a name stands for: what is registered, or found at ``"module:Class"``.

    Parameters
    ----------
    what : str
        Of what kind it is, for messages.
    name : str
    registry : mapping of str to str
        Name to ``"module:attribute"``.
    choices : iterable of str
        All names, where there are more than those of the registry.

    Raises
    ------
    UnknownNameError
        If it is neither a name nor has the form of a place.
    InputError
        If it cannot be loaded.
    """
    module, _, attribute = registry.get(name, name).partition(":")
    if not (module and attribute):
        raise UnknownNameError(what, name, tuple(choices) or registry)
    try:
        loaded = importlib.import_module(module)
    except Exception as error:  # whatever a module of the user's own raises
        raise InputError(f"{what} {name!r} cannot be loaded: {_said(error)}") from error
    if not hasattr(loaded, attribute):
        raise InputError(f"{what} {name!r} cannot be loaded: the module {module!r} has no "
                         f"attribute {attribute!r}")
    return getattr(loaded, attribute)


@plain_numbers
def build(make: Callable[..., Any], options: Mapping[str, Any], owner: str) -> Any:
    """Return ``make(**options)``.

    Raises
    ------
    UnknownNameError
        If it has no such option.
    InputError
        If an option has a value that is not allowed, or it cannot be made.
    """
    try:
        check_options(make, options, owner)
        return make(**options)
    except NetsimError:
        raise
    except (TypeError, ValueError) as error:
        given = f" of {dict(options)!r}" if options else ""
        raise InputError(f"{owner} cannot be made{given}: {error}") from error
    except Exception as error:  # likewise
        raise InputError(f"{owner} cannot be made: {_said(error)}") from error


def copied(policy: Any, what: str) -> Any:
    """Return a copy of a policy, so that its state serves one run only.

    Raises
    ------
    InputError
        If it cannot be copied, as what holds a lock or an open file cannot; beginning with `what`.
    """
    try:
        return copy.deepcopy(policy)
    except Exception as error:  # whatever it raises that is asked to copy itself
        raise InputError(f"{what}: {policy!r} cannot be copied, which each run does: {error}; keep "
                         "locks, open files and the like out of it, or give it a __deepcopy__"
                         ) from error


def _said(error: Exception) -> str:
    """Return what an error says, and where it was raised unless it says so itself."""
    if isinstance(error, ImportError | SyntaxError):
        return str(error)
    *_, last = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})"


def described(thing: Any, registry: Mapping[str, str]) -> dict[str, Any]:
    """Return a plug-in as ``{"name": ..., option: ...}``, for results and tables."""
    kind = type(thing)
    target = f"{kind.__module__}:{kind.__qualname__}"
    name = next((name for name, where in registry.items() if where == target), target)
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        return {"name": name} | {field.name: getattr(thing, field.name)
                                 for field in dataclasses.fields(thing) if field.init}
    return {"name": name}
