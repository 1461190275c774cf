"""Values that users give: converted and checked where they enter, in calls and in files.

Each ``as_...`` takes a value and what messages call it, and returns the value in Python's own
types: NumPy's small integers overflow silently, and checks should not need to handle two kinds of
numbers. It raises an `InputError` whose key is the last part of that name. `convert` does so for
the fields of a dataclass. At the end: objects that copies of a run share, because they do not
change any more.
"""

from __future__ import annotations

import functools
import inspect
import math
import reprlib
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeGuard, TypeVar

import numpy as np

from netsim.errors import InputError, UnknownNameError, key_of
from netsim.text import said

# --- numbers and names ---------------------------------------------------------------------

Made = TypeVar("Made", bound=Callable[..., Any])

#: Digits of the largest decimals that become whole numbers; those of others could fill the memory.
_DIGITS = 30

_AS_THEY_ARE = frozenset((bool, int, float, str, NoneType))


def plain(value: Any, _what: str = "") -> Any:
    """Convert NumPy's numbers in a value, and decimals, to ``int`` and ``float``.

    Numbers in lists, tuples and dictionaries are converted as well. Arrays and all other objects
    are returned unchanged, including NumPy's durations. Nothing is refused, so that a name for
    messages has no use.
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
    if isinstance(value, np.str_):
        return str(value)
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
    @functools.wraps(function)
    def with_names(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError:
            _check_names(function, args, kwargs)
            raise

    return with_names


def _check_names(function: Any, args: tuple[Any, ...], given: Mapping[str, Any]) -> None:
    """Check the names of arguments, and that keyword-only ones have one."""
    kinds = inspect.Parameter
    every = list(inspect.signature(function).parameters.values())
    parameters = [each for each in every if each.name not in ("self", "cls", "_cls")]
    positional = [each for each in parameters if each.kind in (
        kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    names = [each.name for each in parameters
             if each.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)]
    by_name = [each.name for each in parameters if each.kind is kinds.KEYWORD_ONLY]
    rest = {each.kind for each in parameters} & {kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD}
    owner = function.__qualname__.removesuffix(".__init__").removesuffix(".__new__")
    is_method = bool(every) and every[0].name == "self" and owner == function.__qualname__
    if args and is_method:
        owner = f"{type(args[0]).__name__}.{function.__name__}"
    own = args[len(every) - len(parameters):]
    if by_name and len(own) > len(positional) and kinds.VAR_POSITIONAL not in rest:
        raise InputError(f"{owner}: {own[len(positional)]!r} needs the name of its argument, "
                         f"one of {', '.join(f'{name}=' for name in by_name)}") from None
    unknown = [name for name in given if name not in names]
    if unknown and kinds.VAR_KEYWORD not in rest:
        raise UnknownNameError(f"argument of {owner}", unknown[0], names) from None


# --- values of arguments and fields ----------------------------------------------------------

#: A host or a switch: by number or name, or as a tuple, as nodes of networkx graphs may be.
Node = str | int | tuple[Any, ...]

#: The largest id of a job or a coflow, which tables of results and JSON can represent exactly.
MOST_ID = 10**15

#: The largest finite float; integers may be larger.
LARGEST = sys.float_info.max


def convert(thing: Any, owner: str = "", /, **converters: Callable[[Any, str], Any]) -> None:
    """Convert fields of a dataclass in place, each by a function of its value and its name.

    Messages call a field by its name, after the `owner` if there is one. The error of the first
    wrong field is raised, and has those of the others.
    """
    errors, before = [], f"{owner}: " if owner else ""
    for field, converter in converters.items():
        value = getattr(thing, field)
        try:
            converted = converter(value, before + field)
        except InputError as error:
            for each in (error, *error.others):
                each.key = field
                errors.append(each)
        else:
            if converted is not value:
                object.__setattr__(thing, field, converted)
    if errors:
        errors[0].others = tuple(errors[1:])
        raise errors[0]


def optional(converter: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """Make a converter that keeps None."""
    return lambda value, what: None if value is None else converter(value, what)


@contextmanager
def about(key: str) -> Iterator[None]:
    """Give errors in this context a key: that of the argument from which something is made."""
    try:
        yield
    except InputError as error:
        for each in (error, *error.others):
            each.key = key
        raise


def refused(what: str, allowed: str, value: object) -> InputError:
    """Make the error for a value that is not what is allowed, such as ``"a name"``."""
    return InputError(f"{what} must be {allowed}, not {reprlib.repr(value)}", key_of(what))


def is_whole(value: object) -> bool:
    """Whether a value is an integer; a bool or a NumPy duration is not."""
    return (isinstance(value, int | np.integer)
            and not isinstance(value, bool | np.timedelta64))


def as_whole(value: Any, what: str, least: int = 0, most: int | None = None) -> int:
    """Convert a whole number from `least` to `most`."""
    number = value if type(value) is int else plain(value)
    if not is_whole(number) or number < least or (most is not None and number > most):
        allowed = f"of at least {least:,}" if most is None else f"from {least:,} to {most:,}"
        raise refused(what, f"a whole number {allowed}", number)
    return number


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a float or an integer, but not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_number(value: Any, what: str, *, least: float | None = None, above: float | None = None,
              most: float = LARGEST, below: float | None = None) -> float:
    """Convert a finite number of at least `least`, or `above` a bound, up to `most` or `below`.

    An integer stays one.
    """
    number = plain(value)
    if not (is_number(number) and number <= most and (least is None or number >= least)
            and (above is None or number > above) and (below is None or number < below)):
        raise refused(what, _allowed(least, above, most, below), number)
    return number


def _allowed(least: float | None, above: float | None, most: float, below: float | None) -> str:
    """Say which numbers are allowed."""
    low = least if above is None else above
    high = most if below is None else below
    if high == LARGEST:
        return ("a finite number" if low is None else
                f"a finite number {'of at least' if above is None else 'greater than'} {low:g}")
    if above is None and below is None:
        return f"a number from {low:g} to {high:g}"
    return f"a number in {'[' if above is None else '('}{low:g}, {high:g}{'])'[below is not None]}"


def as_weight(value: Any, what: str) -> float:
    """Convert a weight, which is finite and positive, to a float."""
    return float(as_number(value, what, above=0))


#: Converts a share: above 0, and at most 1.
as_share = functools.partial(as_number, above=0, most=1)


def as_flag(value: Any, what: str) -> bool:
    """Convert true or false."""
    flag = plain(value)
    if not isinstance(flag, bool):
        raise InputError(f"{what} must be true or false, not {said(value)}", key_of(what))
    return flag


def as_choice(value: Any, what: str, choices: Iterable[str], key: str | None = None) -> str:
    """Return a value that is one of some strings.

    `key` is the argument to blame, where `what` is a word for people.
    """
    known, value = list(choices), plain(value)
    if not (isinstance(value, str) and value in known):
        raise UnknownNameError(what, value, known, key=key_of(what) if key is None else key)
    return value


def as_name(value: Any, what: str) -> str:
    """Return a string that can be written as UTF-8, as in tables of results."""
    value = value if type(value) is str else plain(value)
    if not isinstance(value, str):
        raise refused(what, "a string", value)
    if not is_utf8(value):
        raise refused(what, "a string that can be written as UTF-8", value)
    return value


def as_label(value: Any, what: str) -> str | int | None:
    """Convert a label: a name, a number from 0 to `MOST_ID`, or None."""
    if isinstance(value, str):
        return as_name(value, what)
    label = plain(value)
    if label is not None and not (is_whole(label) and 0 <= label <= MOST_ID):
        raise refused(what, f"a label: a name, or a whole number from 0 to {MOST_ID:,}", label)
    return label


def as_path(value: Any, what: str) -> str | Path:
    """Return a string or a path."""
    if not isinstance(value, str | Path):
        raise refused(what, "a name or a path", value)
    return value


def as_list(values: Any, what: str, kind: type | UnionType, of: str) -> tuple[Any, ...]:
    """Convert a list of items of one type to a tuple of Python's own numbers; refuse sets."""
    refuse_set(values, what)
    return as_collection(values, what, kind, of)


def as_collection(values: Any, what: str, kind: type | UnionType, of: str) -> tuple[Any, ...]:
    """Do as `as_list` does, where order means nothing: sets are allowed, and sorted."""
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise refused(what, f"a list of {of}", values)
    try:
        items: tuple[Any, ...] = plain(tuple(values))
    except TypeError:  # an array without dimensions
        raise refused(what, f"a list of {of}", values) from None
    if not all(issubclass(each, kind) for each in set(map(type, items))):
        wrong = next(item for item in items if not isinstance(item, kind))
        raise InputError(f"{what} must be a list of {of}, but holds {reprlib.repr(wrong)}",
                         key_of(what))
    return tuple(sorted(items)) if isinstance(values, set | frozenset) else items


def as_range(values: Any, what: str, converter: Callable[[Any, str], Any]) -> tuple[Any, Any]:
    """Convert the least and the most of a range."""
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) != 2:
        raise refused(what, "the least and the most", values)
    least, most = (converter(value, what) for value in values)
    if least > most:
        raise InputError(f"{what}: the least, {values[0]}, is more than the most, {values[1]}",
                         what)
    return least, most


def is_utf8(text: str) -> bool:
    """Whether a text can be written as UTF-8; halves of surrogate pairs cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def node_name(node: Any) -> Any:
    """Convert a node that is a tuple, ``("rack", 3)``, to the name that networks give to it."""
    return str(node) if isinstance(node, tuple) else node


def refuse_set(values: Any, what: str, *, within: bool = False) -> None:
    """Refuse a set where order matters: it differs from one run of Python to the next.

    With `within`, sets in a list, such as rows, are refused as well.
    """
    if isinstance(values, set | frozenset):
        raise InputError(f"{what} must not be a set, {reprlib.repr(values)}: a set has no order; "
                         "give a list, such as sorted(...)", key_of(what))
    if within and isinstance(values, list | tuple):
        for k, each in enumerate(values):
            if isinstance(each, set | frozenset):
                refuse_set(each, f"{what}: entry {k}")


def refuse_several(value: Any, name: str) -> None:
    """Refuse a list for an argument of which a run has one value; `netsim.sweep` takes lists."""
    if isinstance(value, list | tuple | range):
        raise InputError(f"{name}: a run has one, not several, {reprlib.repr(value)}; "
                         f"netsim.sweep(..., {name}=[...]) runs each", name)


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
            raise UnknownNameError(f"option of {owner}", option, parameters, key=option)
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
