"""What is wrong in a file: problems are collected, then raised together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from netsim.errors import InputError, TraceError

__all__ = ["POSITIVE", "Problem", "Rule", "TraceProblemsError", "whole_option"]


class Problem(NamedTuple):
    """One thing that is wrong in a file.

    Attributes
    ----------
    line : int or None
        The line, counted from 1; None where the message says the place in another way.
    message : str
        What is wrong, with the offending value and what was allowed.
    """

    line: int | None
    message: str


class TraceProblemsError(TraceError):
    """The contents of a file are wrong: the first problem, holding all of them.

    Parameters
    ----------
    problems : iterable of Problem
        At least one; the first is the message.
    path : path-like
        The file.
    """

    def __init__(self, problems: Iterable[Problem], path: str | Path) -> None:
        self.problems = tuple(problems)
        line, message = self.problems[0]
        more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
        super().__init__(message + more, path, line)

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        # The default would hand the message to __init__, so that a worker could not raise it.
        return type(self), (self.problems, self.path)


class Rule(NamedTuple):
    """The numbers that a field may hold; prints as what is allowed.

    The bounds are far beyond any use, and near enough that no sum of allowed values overflows.

    Attributes
    ----------
    least, most : float
        The bounds, both allowed.
    whole : bool
        Whether only whole numbers are allowed.
    """

    least: float = 0.0
    most: float = 1e18
    whole: bool = False

    def __str__(self) -> str:
        return f"a {'whole ' * self.whole}number from {self.least:g} to {self.most:g}"

    def number(self, value: object) -> float | None:
        """Return `value` as an int or a float, or None where it is not allowed."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if not self.least <= value <= self.most:  # NaN compares false
            return None
        if self.whole:
            return int(value) if value == int(value) else None
        return float(value)


#: Weights, deadlines.
POSITIVE = Rule(least=1e-18)


def whole_option(value: object, what: str, least: int, most: float = 1e15) -> int:
    """Return an option that is a whole number.

    Raises
    ------
    InputError
        If it is not one, such as 1.0, or is below `least` or above `most`.
    """
    rule = Rule(least, most, whole=True)
    number = None if isinstance(value, float) else rule.number(value)
    if number is None:
        raise InputError(f"{what} must be {rule}, not {value!r}")
    return int(number)
