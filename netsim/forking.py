"""Objects that copies of a run share, because they do not change any more."""

from __future__ import annotations

from typing import Any, TypeVar

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
