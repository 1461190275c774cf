"""Ranges of settings, and how a sweep draws points from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

from netsim.base.streams import stream
from netsim.base.units import (
    Quantity,
    WithUnit,
    parse_bytes,
    parse_rate,
    parse_seconds,
    question_units,
)
from netsim.base.values import (
    as_choice,
    as_flag,
    as_whole,
    check_options,
    convert,
    is_number,
    is_whole,
    known_names,
    plain,
)
from netsim.errors import InputError, MissingExtraError

#: Ways to draw points.
_METHODS = ("latin-hypercube", "random")

#: The most points of a sweep.
_MOST = 1_000_000

#: Digits of drawn values that are not whole: enough to tell points apart, and short in tables.
_DIGITS = 6


@known_names
@dataclass(frozen=True)
class Range:
    """A range of values of a setting, from which a sweep draws some; see `Points`.

    Parameters
    ----------
    low, high : quantity
        The ends: two numbers, or two quantities with units, as in ``"1ms"`` and ``"1s"``; 0 needs
        no unit. If both ends are whole numbers, such as ``4`` and ``64``, whole numbers are drawn.
        Otherwise floats with six digits are drawn. If the ends have units, these floats are in
        seconds, bytes or bytes per second.
    log : bool
        Whether values are uniform on a logarithmic scale instead of a linear one.

    Raises
    ------
    InputError
        If the ends are of different kinds, or only one has a unit; if `low` is not below `high`; or
        if `low` is not above 0 in a logarithmic range.

    Examples
    --------
    >>> Range("1ms", "1s", log=True).at(0.5)
    0.0316228
    >>> [Range(1, 4).at(place) for place in (0.0, 0.3, 0.99)]
    [1, 2, 4]
    """

    low: Quantity
    high: Quantity
    log: bool = False

    def __post_init__(self) -> None:
        convert(self, low=_plain, high=_plain)
        low, high, _ = self._parsed
        if not low < high:
            raise InputError(f"low must be below high in {self}")
        convert(self, log=as_flag)
        if self.log and low <= 0:
            raise InputError(f"low must be above 0 in {self}, where factors are drawn")

    def __str__(self) -> str:
        return f"{self.low}..{self.high}{':log' if self.log else ''}"

    @property
    def _whole(self) -> bool:
        return is_whole(self.low) and is_whole(self.high)

    @property
    def unit(self) -> str:
        """Unit of drawn values: ``"s"``, ``"B"`` or ``"B/s"``; empty if the ends are numbers."""
        return self._parsed[2]

    @property
    def _parsed(self) -> tuple[float, float, str]:
        """The ends as numbers, and their unit."""
        ends = self.low, self.high
        bare = [float(end) if not is_whole(end) else end for end in ends if is_number(end)]
        if len(bare) == 2 and all(map(math.isfinite, bare)):
            return bare[0], bare[1], ""
        if len(bare) == 1 and bare != [0] and any(isinstance(end, str) for end in ends):
            raise InputError(f"a range needs a unit at both of its ends or at neither, not "
                             f"{self.low!r} and {self.high!r}")
        for parse, unit in ((parse_seconds, "s"), (parse_bytes, "B"), (parse_rate, "B/s")):
            try:
                with question_units(False):
                    return parse(self.low), parse(self.high), unit
            except (InputError, TypeError):
                continue
        raise InputError(f"a range needs two numbers, or two times, sizes or rates, not "
                         f"{self.low!r} and {self.high!r}")

    def at(self, place: float) -> float | int:
        """Return the value at a place between 0, the low end, and 1, the high end."""
        low, high, unit = self._parsed
        end = high + 1 if self._whole else high  # as likely as the others
        value = low * (end / low) ** place if self.log else low + place * (end - low)
        if self._whole:
            return int(min(value, high))
        drawn = float(min(max(float(f"{value:.{_DIGITS}g}"), low), high))
        return WithUnit(drawn) if unit else drawn


@known_names
@dataclass(frozen=True)
class Points:
    """How many points a sweep draws from its ranges, and by which method.

    Parameters
    ----------
    count : int
        The number of points to draw. If draws are equal, which can happen with whole numbers, only
        one of them is kept.
    method : {"latin-hypercube", "random"}
        ``"latin-hypercube"``: if each range is divided into `count` equal parts, each part contains
        one point; needs the extra ``sample`` (SciPy). ``"random"``: points are drawn independently.
        If `count` is increased, earlier points remain, and only the added points cost time.
    seed : int
        Seed of the draws; independent of the seeds of runs.

    Raises
    ------
    InputError
        If a number is not allowed.
    UnknownNameError
        If there is no such method.
    """

    count: int
    method: str = "latin-hypercube"
    seed: int = 0

    def __post_init__(self) -> None:
        convert(self, "points", count=partial(as_whole, least=1, most=_MOST), seed=as_whole)
        as_choice(self.method, "method of points", _METHODS, "method")

    @classmethod
    def of(cls, given: Any) -> Points:
        """Make points from their number, or from a mapping of all their fields."""
        if isinstance(given, Points):
            return given
        options = given if isinstance(given, Mapping) else {"count": plain(given)}
        check_options(cls, options, "points")
        return cls(**options)

    def drawn_from(self, ranges: Mapping[str, Range]) -> list[dict[str, Any]]:
        """Draw points from some ranges; each point is a mapping with the same keys."""
        places = self._places(len(ranges))
        points = [tuple(each.at(place) for each, place in zip(ranges.values(), row, strict=True))
                  for row in places]
        return [dict(zip(ranges, point, strict=True)) for point in dict.fromkeys(points)]

    def _places(self, dimensions: int) -> list[list[float]]:
        """Draw places from 0 to 1 for each point, in each range."""
        rng = stream(self.seed, "points")
        if self.method == "random":
            return rng.random((self.count, dimensions)).tolist()
        try:
            from scipy.stats.qmc import LatinHypercube
        except ImportError:
            raise MissingExtraError("scipy", "sample") from None
        rows: list[list[float]] = LatinHypercube(dimensions, rng=rng).random(self.count).tolist()
        return rows


def _plain(value: Any, _: str) -> Any:
    return plain(value)


def range_of(given: Mapping[str, Any]) -> Range:
    """Make a range from a table with ``low``, ``high`` and perhaps ``log``."""
    check_options(Range, given, "a range")
    return Range(**given)


def is_range(given: Any) -> bool:
    """Whether a table is a range, rather than a table of keys with lists of values."""
    return (isinstance(given, Mapping) and not given.keys().isdisjoint(("low", "high"))
            and not any(isinstance(each, list | tuple | Mapping) for each in given.values()))


def combinations(vary: Mapping[str, Sequence[Any] | Range], points: Points | None
                 ) -> Iterator[dict[str, Any]]:
    """Yield all combinations of listed values, each with every point drawn from the ranges.

    Combinations have the keys of `vary`, in this order. Points are needed if there are ranges.
    """
    lists = {key: each for key, each in vary.items() if not isinstance(each, Range)}
    ranges = {key: each for key, each in vary.items() if isinstance(each, Range)}
    drawn = points.drawn_from(ranges) if ranges and points is not None else [{}]
    for chosen in product(*lists.values()):
        for point in drawn:
            found = dict(zip(lists, chosen, strict=True)) | point
            yield {key: found[key] for key in vary}


def check_points(vary: Mapping[str, Any], points: Points | None) -> None:
    """Check that there are points if and only if there are ranges."""
    ranges = [key for key, each in vary.items() if isinstance(each, Range)]
    if ranges and points is None:
        raise InputError(f"points must say how many are drawn from the range of {ranges[0]!r}, "
                         f"{vary[ranges[0]]}")
    if points is not None and not ranges:
        raise InputError("points are drawn from ranges, and nothing is varied over one")
