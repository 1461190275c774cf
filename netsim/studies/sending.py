"""Pickling of values for other processes, with the classes that a notebook or script defines."""

from __future__ import annotations

import hashlib
import io
import pickle
import re
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import cloudpickle

from netsim.errors import InputError
from netsim.plugins import parse_named

_MAIN = "__main__"

#: The identifier of a class that cloudpickle draws at random.
_TRACKER = re.compile("[0-9a-f]{32}")

#: Attributes of a class without effect: its place in a file, and names in the order of a set.
_INCIDENTAL = ("__firstlineno__", "__static_attributes__")


def as_bytes(value: object) -> bytes:
    """Pickle a value for another process.

    Importable classes and functions are sent by name. Those defined in ``__main__`` or within a
    function are sent by value, with everything that they refer to. An object that cannot be pickled
    may raise any exception.
    """
    return _pickled(value, cloudpickle.Pickler)


def digest_of(value: object, what: str) -> str:
    """Hash a value to hexadecimal digits, including its class if that is sent by value.

    Equal values may have different digests. `what` names the value in the error if it cannot be
    sent.
    """
    try:
        return hashlib.sha256(_pickled(value, _Timeless)).hexdigest()
    except Exception as error:  # an object may raise anything when it is pickled
        raise InputError(f"{what}: {value!r} cannot be sent to another process: {error}") from error


def _pickled(value: object, pickler: type[cloudpickle.Pickler]) -> bytes:
    try:
        plain = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)  # much faster than cloudpickle
        if _MAIN.encode() not in plain:
            return plain
    except Exception:  # it has no name, or cannot be pickled at all: cloudpickle will tell
        pass
    with io.BytesIO() as file:
        pickler(file).dump(value)
        return file.getvalue()


class _Timeless(cloudpickle.Pickler):
    """A pickler whose output is the same in every session; for hashing, not for loading."""

    def reducer_override(self, thing: Any) -> Any:
        """Leave out properties that differ between sessions that run the same code."""
        if isinstance(thing, types.CodeType):
            return tuple, ([thing.co_code, thing.co_consts, thing.co_names, thing.co_varnames,
                            thing.co_freevars, thing.co_cellvars, thing.co_argcount,
                            thing.co_posonlyargcount, thing.co_kwonlyargcount, thing.co_flags,
                            thing.co_exceptiontable],)
        reduced = super().reducer_override(thing)
        if not isinstance(thing, type) or not isinstance(reduced, tuple) or len(reduced) < 3:
            return reduced
        make, given, (attributes, slots), *rest = reduced
        given = tuple(None if isinstance(each, str) and _TRACKER.fullmatch(each) else each
                      for each in given)
        kept = {name: each for name, each in attributes.items() if name not in _INCIDENTAL}
        return make, given, (kept, slots), *rest


def is_sent_whole(kind: type) -> bool:
    """Whether other processes cannot import a class, as it is in ``__main__`` or a function."""
    return kind.__module__ == _MAIN or "<locals>" in kind.__qualname__


# --- objects that are named, as "__main__:Class" ---------------------------------------


def main_classes(values: object) -> dict[str, Any]:
    """Find the objects of ``__main__`` that some values name, as in ``"__main__:Class"``."""
    here = vars(sys.modules[_MAIN])
    names = (parse_named(text)["name"].partition(":") for text in _texts(values)
             if text.startswith(f"{_MAIN}:"))
    return {name: here[name] for _, _, name in names if name in here}


def _texts(values: object) -> Iterator[str]:
    if isinstance(values, str):
        yield values
    elif isinstance(values, Mapping | list | tuple):
        each: Iterable[Any] = values.values() if isinstance(values, Mapping) else values
        for value in each:
            yield from _texts(value)


def put_in_main(classes: Mapping[str, Any]) -> None:
    """Define the objects that `main_classes` found in this process's ``__main__``."""
    vars(sys.modules[_MAIN]).update(classes)
