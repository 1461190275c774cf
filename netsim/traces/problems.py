"""Problems found in a file, which are collected and then raised together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from netsim.errors import InputError, TraceError


class Problem(NamedTuple):
    """One error in a file."""

    line: int | None  #: counted from 1; None if the message gives the place in another way
    message: str  #: with the invalid value and the allowed ones


class TraceProblemsError(TraceError):
    """The contents of a file are invalid.

    The message is that of the first problem; the attribute ``problems`` holds all of them.
    """

    def __init__(self, problems: Iterable[Problem], path: str | Path) -> None:
        self.problems = tuple(problems)
        line, message = self.problems[0]
        more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
        super().__init__(message + more, path, line)

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        # By default, pickle would pass the message to __init__, and workers could not raise it.
        return type(self), (self.problems, self.path)


class Rule(NamedTuple):
    """The range of numbers that a field accepts; `str` describes it for messages.

    Both bounds are included. The default ones exceed any realistic value, but sums of allowed
    values cannot overflow.
    """

    least: float = 0.0
    most: float = 1e18
    whole: bool = False

    def __str__(self) -> str:
        return f"a {'whole ' * self.whole}number from {self.least:g} to {self.most:g}"

    def number(self, value: object) -> float | None:
        """Return `value` as an int or a float, or None if it is not allowed."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if not self.least <= value <= self.most:  # NaN compares false
            return None
        if self.whole:
            return int(value) if value == int(value) else None
        return float(value)


#: The rule for weights and deadlines.
POSITIVE = Rule(least=1e-18)


def whole_option(value: object, what: str, least: int, most: float = 1e15) -> int:
    """Check that an option is a whole number, and return it as an int; 1.0 is refused."""
    rule = Rule(least, most, whole=True)
    number = None if isinstance(value, float) else rule.number(value)
    if number is None:
        raise InputError(f"{what} must be {rule}, not {value!r}")
    return int(number)
