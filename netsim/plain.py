"""Conversion of NumPy's numbers to Python's where they enter netsim.

NumPy's small integers overflow silently, unlike Python's, and checks should not need to handle both
kinds of numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import NoneType
from typing import Any, TypeVar

import numpy as np

__all__ = ["plain", "plain_numbers"]

Made = TypeVar("Made", bound=Callable[..., Any])

_AS_THEY_ARE = frozenset((bool, int, float, str, NoneType))


def plain(value: Any) -> Any:
    """Convert NumPy's numbers in a value to Python's.

    Numbers in lists, tuples and dictionaries are converted as well. Arrays and all other objects
    are returned unchanged, including NumPy's durations.

    Examples
    --------
    >>> import numpy as np
    >>> plain([np.int8(100), {"factor": np.float32(0.5)}, "10ms"])
    [100, {'factor': 0.5}, '10ms']
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
    return value


def _may_hold(kind: type) -> bool:
    """Whether objects of a type are, or may contain, NumPy's numbers."""
    return kind in (list, tuple, dict) or issubclass(kind, np.generic)


def plain_numbers(made: Made) -> Made:
    """Decorate a function, or a class, so that its arguments are converted by `plain`.

    Examples
    --------
    >>> import numpy as np
    >>> @plain_numbers
    ... def cube(k):
    ...     return k ** 3
    >>> cube(np.uint8(20))
    8000
    """
    if isinstance(made, type):
        made.__init__ = _plain_arguments(made.__init__)  # type: ignore[misc]
        return made
    return _plain_arguments(made)


def _plain_arguments(function: Any) -> Any:
    @functools.wraps(function)
    def with_plain(*args: Any, **kwargs: Any) -> Any:
        return function(*map(plain, args), **{name: plain(each) for name, each in kwargs.items()})

    return with_plain
