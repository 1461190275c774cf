"""Arguments where they enter netsim: numbers become Python's own, unknown names are refused.

NumPy's small integers overflow silently, unlike Python's, and checks should not need to handle both
kinds of numbers.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from decimal import Decimal
from types import NoneType
from typing import Any, TypeVar

import numpy as np

from netsim.errors import InputError, UnknownNameError

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
