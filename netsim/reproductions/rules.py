"""Rules of verdicts: the values for which a statement holds, and the verdict for an interval."""

from __future__ import annotations

import math
from typing import NamedTuple

HOLDS, PARTLY, DIFFERS = "holds", "partly", "differs"
CANNOT_BE_TOLD, OUT_OF_SCOPE, NOT_MEASURED = "cannot be told", "out of scope", "not measured"

_FROM_WORST = (NOT_MEASURED, DIFFERS, PARTLY, HOLDS)

#: The verdicts that a statement can have.
VERDICTS = (HOLDS, PARTLY, DIFFERS, CANNOT_BE_TOLD, OUT_OF_SCOPE)


class Rule(NamedTuple):
    """The values for which a statement holds: those between two bounds."""

    low: float = -math.inf
    high: float = math.inf
    closed: bool = False  #: whether the bounds themselves belong to it

    def holds(self, value: float) -> bool:
        """Whether the statement holds for a value."""
        return (self.low <= value <= self.high) if self.closed else (self.low < value < self.high)

    def verdict(self, value: float, low: float, high: float, sense: Rule | None = None) -> str:
        """Judge a measured value and its interval, whose ends are NaN if there is none.

        `HOLDS` if the whole interval fulfils the rule; `PARTLY` if the value does so, but not its
        whole interval, or if the whole interval fulfils `sense`, a weaker rule of values that agree
        at least in their direction; `DIFFERS` if neither; `NOT_MEASURED` if the value is NaN.
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
        """Rank how well a value and its interval fulfil the rule; the least is the worst.

        The first number is the place of the verdict, the second the distance of the interval from
        the nearer bound, negative beyond it.
        """
        place = _FROM_WORST.index(self.verdict(value, low, high, sense))
        ends = [end for end in (low, high) if not math.isnan(end)] or [value]
        return place, min(min(ends) - self.low, self.high - max(ends))

    def __str__(self) -> str:
        """Write the rule in a few signs, as in ``< 1``."""
        if self.low == self.high:
            return f"= {self.low:g}"
        signs = ("≥", "≤") if self.closed else (">", "<")
        if math.isinf(self.low) or math.isinf(self.high):
            return (f"{signs[1]} {self.high:g}" if math.isinf(self.low)
                    else f"{signs[0]} {self.low:g}")
        return f"{self.low:g} to {self.high:g}"


def below(bound: float) -> Rule:
    """Make the rule: less than a bound."""
    return Rule(high=bound)


def above(bound: float) -> Rule:
    """Make the rule: more than a bound."""
    return Rule(low=bound)


def at_most(bound: float) -> Rule:
    """Make the rule: a bound, or less."""
    return Rule(high=bound, closed=True)


def at_least(bound: float) -> Rule:
    """Make the rule: a bound, or more."""
    return Rule(low=bound, closed=True)


def near(value: float, within: float) -> Rule:
    """Make the rule: no more than `within` from a value."""
    return Rule(value - within, value + within, closed=True)


positive, above_one, below_one = above(0), above(1), below(1)
