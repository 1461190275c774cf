"""Options that readers of traces have in common."""

from __future__ import annotations

from netsim.errors import InputError

__all__ = ["flag"]


def flag(value: object, what: str) -> bool:
    """Return an option that is true or false.

    Raises
    ------
    InputError
        If it is something else.
    """
    if not isinstance(value, bool):
        raise InputError(f"{what} must be true or false, not {value!r}")
    return value
