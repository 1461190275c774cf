"""Numbers of NumPy's become Python's own where they enter netsim: the one place for that.

Small integers of NumPy's wrap around in silence, where Python's grow; and both are numbers to
whoever checks them.
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
    """Return a value with Python's own numbers in place of NumPy's.

    Those in lists, tuples and dictionaries count too. Arrays and all else are returned as they
    are, and so are NumPy's durations, which are no numbers.

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
    return kind in (list, tuple, dict) or issubclass(kind, np.generic)


def plain_numbers(made: Made) -> Made:
    """Return a function, or a class, whose arguments are `plain` by the time that it has them.

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
