"""Rules of verdicts: for which values a statement holds, and what an interval says of it."""

from __future__ import annotations

import math
from typing import NamedTuple

__all__ = ["CANNOT_BE_TOLD", "DIFFERS", "HOLDS", "NOT_MEASURED", "OUT_OF_SCOPE", "PARTLY",
           "VERDICTS", "Rule", "above", "above_one", "at_least", "at_most", "below", "below_one",
           "near", "positive"]

HOLDS, PARTLY, DIFFERS = "holds", "partly", "differs"
CANNOT_BE_TOLD, OUT_OF_SCOPE, NOT_MEASURED = "cannot be told", "out of scope", "not measured"

_FROM_WORST = (NOT_MEASURED, DIFFERS, PARTLY, HOLDS)

#: The verdicts that a statement can have.
VERDICTS = (HOLDS, PARTLY, DIFFERS, CANNOT_BE_TOLD, OUT_OF_SCOPE)


class Rule(NamedTuple):
    """The values for which a statement holds: those between two bounds.

    Attributes
    ----------
    low, high : float
        The bounds.
    closed : bool
        Whether the bounds themselves belong to it.
    """

    low: float = -math.inf
    high: float = math.inf
    closed: bool = False

    def holds(self, value: float) -> bool:
        """Whether the statement holds for a value."""
        return (self.low <= value <= self.high) if self.closed else (self.low < value < self.high)

    def verdict(self, value: float, low: float, high: float, sense: Rule | None = None) -> str:
        """Return the verdict on a measured value and its interval.

        Parameters
        ----------
        value : float
            NaN if it is not known.
        low, high : float
            The ends of its confidence interval; NaN if there is none.
        sense : Rule, optional
            A weaker rule, of values that agree at least in their direction.

        Returns
        -------
        str
            `HOLDS` if the whole interval fulfils the rule; `PARTLY` if the value does so, but not
            its whole interval, or if the whole interval fulfils `sense`; `DIFFERS` if neither;
            `NOT_MEASURED` if there is no value.

        Examples
        --------
        >>> below(1).verdict(0.8, 0.7, 0.9), below(1).verdict(0.9, 0.7, 1.1)
        ('holds', 'partly')
        >>> near(0.58, 0.05).verdict(0.2, 0.1, 0.3)
        'differs'
        >>> near(0.58, 0.05).verdict(0.2, 0.1, 0.3, sense=above(0))
        'partly'
        """
        if not math.isfinite(value):
            return NOT_MEASURED
        ends = [end for end in (low, high) if not math.isnan(end)] or [value]
        if self.holds(value) and all(map(self.holds, ends)):
            return HOLDS
        in_sense = sense is not None and sense.holds(value) and all(map(sense.holds, ends))
        return PARTLY if in_sense or self.holds(value) else DIFFERS

    def room(self, value: float, low: float, high: float, sense: Rule | None = None
             ) -> tuple[int, float]:
        """Return how well a value and its interval fulfil the rule; the least is the worst.

        The first number is the place of the verdict, the second the distance of the interval from
        the nearer bound, negative beyond it.
        """
        place = _FROM_WORST.index(self.verdict(value, low, high, sense))
        ends = [end for end in (low, high) if not math.isnan(end)] or [value]
        return place, min(min(ends) - self.low, self.high - max(ends))

    def __str__(self) -> str:
        """Say the rule in a few signs, as in ``< 1``."""
        if self.low == self.high:
            return f"= {self.low:g}"
        signs = ("≥", "≤") if self.closed else (">", "<")
        if math.isinf(self.low) or math.isinf(self.high):
            return (f"{signs[1]} {self.high:g}" if math.isinf(self.low)
                    else f"{signs[0]} {self.low:g}")
        return f"{self.low:g} to {self.high:g}"


def below(bound: float) -> Rule:
    """Return a rule: less than a bound."""
    return Rule(high=bound)


def above(bound: float) -> Rule:
    """Return a rule: more than a bound."""
    return Rule(low=bound)


def at_most(bound: float) -> Rule:
    """Return a rule: a bound, or less."""
    return Rule(high=bound, closed=True)


def at_least(bound: float) -> Rule:
    """Return a rule: a bound, or more."""
    return Rule(low=bound, closed=True)


def near(value: float, within: float) -> Rule:
    """Return a rule: no more than `within` from a value."""
    return Rule(value - within, value + within, closed=True)


positive, above_one, below_one = above(0), above(1), below(1)
