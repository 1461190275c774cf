"""Checks of arguments, whose errors name the argument, the value and the allowed values."""

from __future__ import annotations

import inspect
import reprlib
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import UnionType
from typing import Any, TypeGuard

import numpy as np

from netsim.errors import InputError, UnknownNameError
from netsim.plain import plain
from netsim.text import said

__all__ = ["LARGEST", "MOST_ID", "Node", "check_collection", "check_flag", "check_label",
           "check_name", "check_options", "check_path", "check_sequence", "check_weight",
           "check_whole", "is_number", "is_utf8", "is_whole", "node_name", "parents_first",
           "refuse_set", "refuse_twice"]

#: A host or a switch: by number or name, or as a tuple, as nodes of networkx graphs may be.
Node = str | int | tuple[Any, ...]

#: The largest id of a job or a coflow, which tables of results and JSON can represent exactly.
MOST_ID = 10**15

#: The largest finite float; integers may be larger.
LARGEST = sys.float_info.max


def is_whole(value: object) -> bool:
    """Whether a value is an integer; a bool or a NumPy duration is not."""
    return (isinstance(value, int | np.integer)
            and not isinstance(value, bool | np.timedelta64))


def check_whole(value: Any, what: str, least: int = 0, most: int | None = None) -> None:
    """Check that a value is a whole number from `least` to `most`.

    Raises
    ------
    InputError
        If it is not; the message begins with `what`.
    """
    if not is_whole(value) or value < least or (most is not None and value > most):
        allowed = f"of at least {least:,}" if most is None else f"from {least:,} to {most:,}"
        raise InputError(f"{what} must be a whole number {allowed}, not {reprlib.repr(value)}")


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a float or an integer, but not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_name(value: Any, what: str) -> None:
    """Check that a value is a string that can be written as UTF-8, as in tables of results.

    Raises
    ------
    InputError
        If it is not; the message begins with `what`.
    """
    if not isinstance(value, str):
        raise InputError(f"{what} must be a string, not {reprlib.repr(value)}")
    if not is_utf8(value):
        raise InputError(f"{what} must be a string that can be written as UTF-8, not "
                         f"{reprlib.repr(value)}")


def check_label(value: Any, what: str) -> None:
    """Check that a value is a label: a name, a number from 0 to `MOST_ID`, or None.

    Raises
    ------
    InputError
        If it is not; the message begins with `what`.
    """
    if isinstance(value, str):
        check_name(value, what)
    elif value is not None and not (is_whole(value) and 0 <= value <= MOST_ID):
        raise InputError(f"{what} must be a label: a name, or a whole number from 0 to "
                         f"{MOST_ID:,}, not {reprlib.repr(value)}")


def check_weight(value: Any, what: str) -> float:
    """Return a weight as a float.

    Raises
    ------
    InputError
        If it is not finite and more than 0; the message begins with `what`.
    """
    weight = plain(value)
    if not (is_number(weight) and 0 < weight <= LARGEST):
        raise InputError(f"{what} must be finite and positive, not {reprlib.repr(weight)}")
    return float(weight)


def is_utf8(text: str) -> bool:
    """Whether a text can be written as UTF-8; halves of surrogate pairs cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_flag(value: Any, what: str) -> None:
    """Check that a value is true or false.

    Raises
    ------
    InputError
        If it is not; the message begins with `what`.
    """
    if not isinstance(plain(value), bool):
        raise InputError(f"{what} must be true or false, not {said(value)}")


def node_name(node: Any) -> Any:
    """Return the name that networks give to a node that is a tuple; return others unchanged.

    Examples
    --------
    >>> node_name(("rack", 3)), node_name("host-1"), node_name(7)
    ("('rack', 3)", 'host-1', 7)
    """
    return str(node) if isinstance(node, tuple) else node


def check_path(value: Any, what: str) -> None:
    """Check that a value is a string or a path.

    Raises
    ------
    InputError
        If it is not; the message begins with `what`.
    """
    if not isinstance(value, str | Path):
        raise InputError(f"{what} must be a name or a path, not {reprlib.repr(value)}")


def refuse_set(values: Any, what: str, *, within: bool = False) -> None:
    """Refuse a set where order means something: it differs from one run of Python to the next.

    Parameters
    ----------
    values : object
    what : str
        What it is.
    within : bool
        Whether to refuse also the sets in a list, such as rows.

    Raises
    ------
    InputError
        If the value is a set; the message says what to give instead.
    """
    if isinstance(values, set | frozenset):
        raise InputError(f"{what} must not be a set, {reprlib.repr(values)}: a set has no order; "
                         "give a list, such as sorted(...)")
    if within and isinstance(values, list | tuple):
        for k, each in enumerate(values):
            if isinstance(each, set | frozenset):
                refuse_set(each, f"{what}: entry {k}")


def refuse_several(value: Any, name: str) -> None:
    """Refuse a list for an argument of which a run has one value, and `netsim.sweep` takes lists.

    Raises
    ------
    InputError
        If the value is a list, a tuple or a range.
    """
    if isinstance(value, list | tuple | range):
        raise InputError(f"{name}: a run has one, not several, {reprlib.repr(value)}; "
                         f"netsim.sweep(..., {name}=[...]) runs each")


def check_sequence(values: Any, kind: type | UnionType, what: str, of: str) -> tuple[Any, ...]:
    """Check that a value is a list of items of one type, in order, and return it as a tuple.

    NumPy's numbers are converted to Python's.

    Raises
    ------
    InputError
        If the value is not a list, is a set, or holds an item of another type.
    """
    refuse_set(values, what)
    return check_collection(values, kind, what, of)


def check_collection(values: Any, kind: type | UnionType, what: str, of: str) -> tuple[Any, ...]:
    """As `check_sequence`, but where order means nothing: sets are taken, and sorted."""
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise InputError(f"{what} must be a list of {of}, not {reprlib.repr(values)}")
    try:
        items: tuple[Any, ...] = plain(tuple(values))
    except TypeError:  # an array without dimensions
        raise InputError(f"{what} must be a list of {of}, not {reprlib.repr(values)}") from None
    if not all(issubclass(each, kind) for each in set(map(type, items))):
        wrong = next(item for item in items if not isinstance(item, kind))
        raise InputError(f"{what} must be a list of {of}, but holds {reprlib.repr(wrong)}")
    return tuple(sorted(items)) if isinstance(values, set | frozenset) else items


def refuse_twice(ids: Iterable[Hashable], what: str) -> None:
    """Check that ids are unique.

    Raises
    ------
    InputError
        If an id occurs twice; the message is `what` and the id.
    """
    seen: set[Hashable] = set()
    for each in ids:
        if each in seen:
            raise InputError(f"{what} {each}")
        seen.add(each)


def check_options(make: Callable[..., object], options: Iterable[str], owner: str) -> None:
    """Check that a callable has all given options, and that all required ones are given.

    Raises
    ------
    UnknownNameError
        If the callable does not have an option; the choices are listed.
    InputError
        If required options are missing.
    """
    parameters = (_parameters_of(make) if isinstance(make, type)
                  else inspect.signature(make).parameters)
    for option in options:
        if option not in parameters:
            raise UnknownNameError(f"option of {owner}", option, parameters)
    missing = [name for name, parameter in parameters.items()
               if parameter.default is parameter.empty and name not in options
               and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)]
    if missing:
        raise InputError(f"{owner} needs: {', '.join(missing)}")


@lru_cache
def _parameters_of(kind: type) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(kind).parameters


def parents_first(names: Sequence[str], parents: Sequence[Sequence[str]], owner: str
                  ) -> list[int]:
    """Sort stages topologically, in time linear in stages and dependencies.

    Parameters
    ----------
    names : sequence of str
        The names of the stages.
    parents : sequence of sequence of str
        For each stage, the stages on which it depends.
    owner : str
        The owner of the stages, for error messages.

    Returns
    -------
    list of int
        The indices of the stages, each after all stages on which it depends.

    Raises
    ------
    InputError
        If two stages have the same name, a stage depends on one that does not exist, or there is
        a cycle.
    """
    graph = dict(zip(names, parents, strict=True))
    if len(graph) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{owner}: two stages are named {twice!r}")
    for name, needed in graph.items():
        unknown = [parent for parent in needed if parent not in graph]
        if unknown:
            raise InputError(f"{owner}: stage {name!r} depends on {unknown[0]!r}, "
                             f"which is not one of its stages: {', '.join(names)}")
    if not any(parents):
        return list(range(len(names)))
    place = {name: k for k, name in enumerate(names)}
    try:
        return [place[name] for name in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        cycle = sorted({place[name] for name in error.args[1]})
        raise InputError(f"{owner}: dependency cycle among stages "
                         f"{', '.join(names[k] for k in cycle)}") from None
