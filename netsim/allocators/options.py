"""Checks of options that several allocators share."""

from __future__ import annotations

from collections.abc import Sequence

from netsim.errors import UnknownNameError

__all__ = ["check_choice"]


def check_choice(option: str, value: object, choices: Sequence[str]) -> None:
    """Check that the value of an option is one of the choices.

    Raises
    ------
    UnknownNameError
        If it is not; the message lists the choices.
    """
    if value not in choices:
        raise UnknownNameError(option, value, choices)
