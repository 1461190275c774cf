"""The key of a compiled rule in the cache: a digest of all that its machine code depends on."""

from __future__ import annotations

import dis
import hashlib
import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum, EnumMeta
from types import CodeType, EllipsisType, ModuleType
from typing import Any

import numpy as np
from numba import types

from netsim.fabric.rule import names_in

#: Whatever these have is described by its name.
_LIBRARIES = {"numba", "numpy", *sys.stdlib_module_names}

#: What `repr` describes.
_PLAIN = {bool, int, float, complex, str, bytes, slice, EllipsisType, type(None)}


class _UnknownError(Exception):
    """A rule takes something that might change unnoticed."""


def key_of(rule: Callable[..., Any]) -> str | None:
    """Return the key of a rule, the same in all processes; None if there is nothing to go by."""
    try:
        described = _Description().of_function(rule)
    except _UnknownError:
        return None
    return _digest(repr(described).encode())[:16]


class _Description:
    """Describes code, and all that it calls or takes by name, as tuples and lists of text."""

    def __init__(self) -> None:
        self._seen: dict[Any, int] = {}

    def of_function(self, function: Callable[..., Any]) -> Any:
        """Describe a function: its code, its file, its defaults, and what its names stand for."""
        if function in self._seen:  # it calls itself, say
            return self._seen[function]
        self._seen[function] = len(self._seen)
        code = function.__code__
        names = tuple(names_in(code))
        linecache.checkcache(code.co_filename)
        text = "".join(linecache.getlines(code.co_filename, function.__globals__))
        takes = *_taken_by(function), ("", function.__defaults__), ("", function.__kwdefaults__)
        return (self._of_code(code), _digest(text.encode()),
                [(name, self._of(value, names)) for name, value in takes])

    def _of_code(self, code: CodeType) -> Any:
        """Describe what code does, but for the values of names; instructions refer to these."""
        return (code.co_code, code.co_exceptiontable, code.co_flags, code.co_argcount,
                code.co_kwonlyargcount, code.co_names, code.co_varnames, code.co_freevars,
                code.co_cellvars, [self._of(each, ()) for each in code.co_consts])

    def _of(self, value: Any, names: tuple[str, ...]) -> Any:
        """Describe a value that code with these names takes."""
        kind = type(value)
        if kind in _PLAIN or isinstance(value, np.dtype | types.Number):
            return kind.__qualname__, repr(value)
        if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
            layout = value.shape, value.flags.c_contiguous, value.flags.f_contiguous
            return kind.__qualname__, repr(value.dtype), layout, _digest(value.tobytes())
        if isinstance(value, CodeType):
            return self._of_code(value)
        if isinstance(value, tuple):
            return self._of(kind, names), [self._of(each, names) for each in value]
        if isinstance(value, set | frozenset):
            return kind.__qualname__, sorted(repr(self._of(each, names)) for each in value)
        if isinstance(value, dict):
            return kind.__qualname__, self._of(tuple(value.items()), names)
        if isinstance(value, Enum):
            return self._of(kind, names), value.name
        if isinstance(value, ModuleType | EnumMeta) or kind is type:
            return self._of_members(value, names)
        if hasattr(value, "targetoptions") and hasattr(value, "py_func"):  # Numba compiles it
            return self._of(value.targetoptions, ()), self.of_function(value.py_func)
        return _library_name(value)

    def _of_members(self, value: Any, names: tuple[str, ...]) -> Any:
        """Describe a module or class by its name, and what code may take of it."""
        with suppress(_UnknownError):
            return _library_name(value)
        if (value, names) in self._seen:
            return self._seen[value, names]
        self._seen[value, names] = len(self._seen)
        members: dict[str, Any]
        if isinstance(value, EnumMeta):
            members = {name: value.__members__[name].value for name in value.__members__}
        elif hasattr(value, "_field_defaults"):
            members = {**dict.fromkeys(value._fields), **value._field_defaults}
        else:
            members = {name: getattr(value, name) for name in names if hasattr(value, name)}
        return (getattr(value, "__module__", ""), value.__name__, getattr(value, "_fields", ()),
                [(name, self._of(each, names)) for name, each in members.items()])


def _library_name(value: Any) -> tuple[str, str]:
    """Return the name of a module, class or function of a library."""
    home, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if isinstance(value, ModuleType):
        home, name = value.__name__, ""
    if home is None or name is None or home.partition(".")[0] not in _LIBRARIES:
        raise _UnknownError
    return home, name


def _taken_by(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yield what a function's code takes by name, from its module or from outer functions."""
    for name in dict.fromkeys(_globals_in(function.__code__)):
        if name in function.__globals__:  # else it is built in
            yield name, function.__globals__[name]
    yield from ((name, cell.cell_contents) for name, cell in zip(
        function.__code__.co_freevars, function.__closure__ or (), strict=True))


def _globals_in(code: CodeType) -> Iterator[str]:
    """Yield the names that code, and code within it, looks up in its module."""
    for each in dis.get_instructions(code):
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield each.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_in(constant)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
