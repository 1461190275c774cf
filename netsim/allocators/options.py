"""What options of several allocators share."""

from __future__ import annotations

from collections.abc import Sequence

from netsim.errors import UnknownNameError

__all__ = ["check_choice"]


def check_choice(option: str, value: object, choices: Sequence[str]) -> None:
    """Refuse a value that is not one of the choices.

    Raises
    ------
    UnknownNameError
        With the choices.
    """
    if value not in choices:
        raise UnknownNameError(option, value, choices)
