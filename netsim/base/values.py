"""Values that users give: NumPy's numbers, names that are unknown, and checks of arguments.

NumPy's small integers overflow silently, unlike Python's, and checks should not need to handle both
kinds of numbers. So numbers become Python's own where they enter. At the end: objects that copies
of a run share, because they do not change any more.
"""

from __future__ import annotations

import functools
import inspect
import math
import reprlib
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeGuard, TypeVar

import numpy as np

from netsim.errors import InputError, UnknownNameError
from netsim.text import said

# --- numbers and names ---------------------------------------------------------------------

Made = TypeVar("Made", bound=Callable[..., Any])

#: Digits of the largest decimals that become whole numbers; those of others could fill the memory.
_DIGITS = 30

_AS_THEY_ARE = frozenset((bool, int, float, str, NoneType))


def plain(value: Any) -> Any:
    """Convert NumPy's numbers in a value, and decimals, to ``int`` and ``float``.

    Numbers in lists, tuples and dictionaries are converted as well. Arrays and all other objects
    are returned unchanged, including NumPy's durations.
    """
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is list or kind is tuple:
        return kind(map(plain, value)) if any(map(_may_hold, set(map(type, value)))) else value
    if kind is dict:
        return {plain(key): plain(each) for key, each in value.items()}
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, np.integer) and not isinstance(value, np.timedelta64):
        return int(value)
    if isinstance(value, np.floating):
        return float(value)
    return _of_decimal(value) if isinstance(value, Decimal) else value


def _of_decimal(value: Decimal) -> int | float:
    """Convert a decimal: whole numbers of up to 30 digits stay exact."""
    if value.is_nan():  # a signalling one has no float
        return math.nan
    whole = value.is_finite() and value.adjusted() < _DIGITS and value == value.to_integral_value()
    return int(value) if whole else float(value)


def _may_hold(kind: type) -> bool:
    """Whether objects of a type are, or may contain, NumPy's numbers or decimals."""
    return kind in (list, tuple, dict) or issubclass(kind, np.generic | Decimal)


def plain_numbers(made: Made) -> Made:
    """Decorate a function or a class with `known_names`, and convert its arguments by `plain`."""
    if isinstance(made, type):
        made.__init__ = _plain_arguments(made.__init__)  # type: ignore[misc]
        return made
    return _plain_arguments(made)


def known_names(made: Made) -> Made:
    """Decorate a function or a class so that arguments with unknown names are a netsim error.

    Python's own error does not say which names there are, nor that an argument needs its name.
    """
    if not isinstance(made, type):
        return _with_known_names(made)
    if issubclass(made, tuple):
        made.__new__ = staticmethod(_with_known_names(made.__new__))  # type: ignore[method-assign]
    else:
        made.__init__ = _with_known_names(made.__init__)  # type: ignore[method-assign]
    return made


def _with_known_names(function: Any) -> Any:
    check = _argument_check(function)

    @functools.wraps(function)
    def with_names(*args: Any, **kwargs: Any) -> Any:
        check(args, kwargs)
        return function(*args, **kwargs)

    return with_names


def _argument_check(function: Any) -> Callable[[tuple[Any, ...], dict[str, Any]], None]:
    """Make a function that checks the names of arguments, and that keyword-only ones have one."""
    parameters = inspect.signature(function).parameters.values()
    names = [each.name for each in parameters if each.kind in (
        each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY) and each.name not in ("self", "cls", "_cls")]
    known = frozenset(names)
    owner = function.__qualname__.removesuffix(".__init__").removesuffix(".__new__")
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    by_name = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    in_order = math.inf if any(each.kind is each.VAR_POSITIONAL for each in parameters) else sum(
        each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters)

    def check(args: tuple[Any, ...], given: dict[str, Any]) -> None:
        if len(args) > in_order and by_name:
            raise InputError(f"{owner}: {args[int(in_order)]!r} needs the name of its argument, "
                             f"one of {', '.join(f'{name}=' for name in by_name)}")
        if given and not takes_any and not given.keys() <= known:
            unknown = next(name for name in given if name not in known)
            raise UnknownNameError(f"argument of {owner}", unknown, names)

    return check


def _plain_arguments(function: Any) -> Any:
    check = _argument_check(function)

    @functools.wraps(function)
    def with_plain(*args: Any, **kwargs: Any) -> Any:
        check(args, kwargs)
        return function(*map(plain, args), **{name: plain(each) for name, each in kwargs.items()})

    return with_plain


# --- checks of arguments -------------------------------------------------------------------

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
    """Check that a value is a whole number from `least` to `most`; messages begin with `what`."""
    if not is_whole(value) or value < least or (most is not None and value > most):
        allowed = f"of at least {least:,}" if most is None else f"from {least:,} to {most:,}"
        raise InputError(f"{what} must be a whole number {allowed}, not {reprlib.repr(value)}")


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a float or an integer, but not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_name(value: Any, what: str) -> None:
    """Check that a value is a string that can be written as UTF-8, as in tables of results."""
    if not isinstance(value, str):
        raise InputError(f"{what} must be a string, not {reprlib.repr(value)}")
    if not is_utf8(value):
        raise InputError(f"{what} must be a string that can be written as UTF-8, not "
                         f"{reprlib.repr(value)}")


def check_label(value: Any, what: str) -> None:
    """Check that a value is a label: a name, a number from 0 to `MOST_ID`, or None."""
    if isinstance(value, str):
        check_name(value, what)
    elif value is not None and not (is_whole(value) and 0 <= value <= MOST_ID):
        raise InputError(f"{what} must be a label: a name, or a whole number from 0 to "
                         f"{MOST_ID:,}, not {reprlib.repr(value)}")


def check_weight(value: Any, what: str) -> float:
    """Convert a weight to a float, after checking that it is finite and positive."""
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
    """Check that a value is true or false."""
    if not isinstance(plain(value), bool):
        raise InputError(f"{what} must be true or false, not {said(value)}")


def node_name(node: Any) -> Any:
    """Convert a node that is a tuple, ``("rack", 3)``, to the name that networks give to it."""
    return str(node) if isinstance(node, tuple) else node


def check_path(value: Any, what: str) -> None:
    """Check that a value is a string or a path."""
    if not isinstance(value, str | Path):
        raise InputError(f"{what} must be a name or a path, not {reprlib.repr(value)}")


def refuse_set(values: Any, what: str, *, within: bool = False) -> None:
    """Refuse a set where order matters: it differs from one run of Python to the next.

    With `within`, sets in a list, such as rows, are refused as well.
    """
    if isinstance(values, set | frozenset):
        raise InputError(f"{what} must not be a set, {reprlib.repr(values)}: a set has no order; "
                         "give a list, such as sorted(...)")
    if within and isinstance(values, list | tuple):
        for k, each in enumerate(values):
            if isinstance(each, set | frozenset):
                refuse_set(each, f"{what}: entry {k}")


def refuse_several(value: Any, name: str) -> None:
    """Refuse a list for an argument of which a run has one value; `netsim.sweep` takes lists."""
    if isinstance(value, list | tuple | range):
        raise InputError(f"{name}: a run has one, not several, {reprlib.repr(value)}; "
                         f"netsim.sweep(..., {name}=[...]) runs each")


def check_sequence(values: Any, kind: type | UnionType, what: str, of: str) -> tuple[Any, ...]:
    """Convert a list of items of one type to a tuple of Python's own numbers; refuse sets."""
    refuse_set(values, what)
    return check_collection(values, kind, what, of)


def check_collection(values: Any, kind: type | UnionType, what: str, of: str) -> tuple[Any, ...]:
    """Do as `check_sequence` does, where order means nothing: sets are allowed, and sorted."""
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
    """Check that ids are unique; the message is `what` and an id that occurs twice."""
    seen: set[Hashable] = set()
    for each in ids:
        if each in seen:
            raise InputError(f"{what} {each}")
        seen.add(each)


def check_options(make: Callable[..., object], options: Iterable[str], owner: str) -> None:
    """Check that a callable has all given options, and that all required ones are given."""
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
    """Sort stages topologically, in linear time; return their indices, each after all its parents.

    `parents` has, for each stage, the names of the stages on which it depends. Equal names, unknown
    parents and cycles are errors, which name the `owner` of the stages.
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


# --- what copies of a run share ------------------------------------------------------------

T = TypeVar("T")


def same(thing: T, _: dict[int, Any]) -> T:
    """Return the object itself; used as the ``__deepcopy__`` of immutable classes."""
    return thing


class Known(dict[Any, Any]):
    """A dict with immutable values; a deep copy is a new dict with the same values."""

    def __deepcopy__(self, _: dict[int, Any]) -> Known:
        return Known(self)


class Rows(list[Any]):
    """A list of immutable past records; a deep copy is a new list of the same records."""

    def __deepcopy__(self, _: dict[int, Any]) -> Rows:
        return Rows(self)
