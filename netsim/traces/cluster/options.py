"""Validate options that several trace readers share."""

from __future__ import annotations

from netsim.errors import InputError

__all__ = ["flag"]


def flag(value: object, what: str) -> bool:
    """Check that an option is a bool, and return it.

    Raises
    ------
    InputError
        If the value is not a bool.
    """
    if not isinstance(value, bool):
        raise InputError(f"{what} must be true or false, not {value!r}")
    return value
