"""Validate options that several trace readers share."""

from __future__ import annotations

from netsim.checks import check_flag


def flag(value: object, what: str) -> bool:
    """Check that an option is a bool, and return it."""
    check_flag(value, what)
    return bool(value)
