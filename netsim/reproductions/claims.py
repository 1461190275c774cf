"""Claims of papers, how measured values compare with them, and the criteria of verdicts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from netsim.analysis.intervals import (
    geometric_interval,
    mean_interval,
    of_whole_runs,
    sides_of_one,
)
from netsim.base.arrays import Floats
from netsim.errors import InputError, UnknownNameError

# --- rules of verdicts ---------------------------------------------------------------------

HOLDS, PARTLY, DIFFERS = "holds", "partly", "differs"

CANNOT_BE_TOLD, OUT_OF_SCOPE, NOT_MEASURED = "cannot be told", "out of scope", "not measured"

_FROM_WORST = (NOT_MEASURED, DIFFERS, PARTLY, HOLDS)

#: The verdicts that a statement can have.
VERDICTS = (HOLDS, PARTLY, DIFFERS, CANNOT_BE_TOLD, OUT_OF_SCOPE)


class Criterion(NamedTuple):
    """The criterion of a statement: it holds for the values between two bounds."""

    low: float = -math.inf
    high: float = math.inf
    closed: bool = False  #: whether the bounds themselves belong to it

    def holds(self, value: float) -> bool:
        """Whether the statement holds for a value."""
        return (self.low <= value <= self.high) if self.closed else (self.low < value < self.high)

    def verdict(self, value: float, low: float, high: float, sense: Criterion | None = None) -> str:
        """Judge a measured value and its interval, whose ends are NaN if there is none.

        `HOLDS` if the whole interval meets the criterion; `PARTLY` if the value does, but not its
        whole interval, or if the whole interval meets `sense`, a weaker criterion of values that
        agree at least in their direction; `DIFFERS` if neither; `NOT_MEASURED` if the value is NaN.
        """
        if not math.isfinite(value):
            return NOT_MEASURED
        ends = [end for end in (low, high) if not math.isnan(end)] or [value]
        if self.holds(value) and all(map(self.holds, ends)):
            return HOLDS
        in_sense = sense is not None and sense.holds(value) and all(map(sense.holds, ends))
        return PARTLY if in_sense or self.holds(value) else DIFFERS

    def room(self, value: float, low: float, high: float, sense: Criterion | None = None
             ) -> tuple[int, float]:
        """Rank how well a value and its interval meet the criterion; the least is the worst.

        The first number is the place of the verdict, the second the distance of the interval from
        the nearer bound, negative beyond it.
        """
        place = _FROM_WORST.index(self.verdict(value, low, high, sense))
        ends = [end for end in (low, high) if not math.isnan(end)] or [value]
        return place, min(min(ends) - self.low, self.high - max(ends))

    def written(self, percent: bool = False) -> str:
        """Write the criterion in a few signs, as in ``< 1``."""
        low, high = (f"{100 * bound:g}%" if percent else f"{bound:g}"
                     for bound in (self.low, self.high))
        if low == high:
            return f"= {low}"
        signs = ("≥", "≤") if self.closed else (">", "<")
        if math.isinf(self.low):
            return f"{signs[1]} {high}"
        return f"{signs[0]} {low}" if math.isinf(self.high) else f"{low} to {high}"


def below(bound: float) -> Criterion:
    """The criterion: less than a bound."""
    return Criterion(high=bound)


def above(bound: float) -> Criterion:
    """The criterion: more than a bound."""
    return Criterion(low=bound)


def at_most(bound: float) -> Criterion:
    """The criterion: a bound, or less."""
    return Criterion(high=bound, closed=True)


def at_least(bound: float) -> Criterion:
    """The criterion: a bound, or more."""
    return Criterion(low=bound, closed=True)


def near(value: float, within: float) -> Criterion:
    """The criterion: no more than `within` from a value."""
    return Criterion(value - within, value + within, closed=True)


positive, above_one, below_one = above(0), above(1), below(1)


# --- claims --------------------------------------------------------------------------------
class Scale(NamedTuple):
    """The kind of number that a claim measures, which decides how its mean over seeds is taken."""

    #: Conversion of values to ratios and back. Means are geometric means of the ratios or, without
    #: these functions, arithmetic.
    to_ratio: Callable[[Any], Any] | None = None
    from_ratio: Callable[[Any], Any] | None = None
    #: Bounds of values, to which the ends of intervals are clipped.
    least: float = -math.inf
    most: float = math.inf

    def interval(self, values: pd.Series) -> tuple[float, float, float]:
        """Compute the mean of values and the ends of its 95 % confidence interval."""
        if self.to_ratio is None or self.from_ratio is None:
            mean, low, high = mean_interval(values)
            return mean, float(np.maximum(low, self.least)), float(np.minimum(high, self.most))
        mean, *ends = map(self.from_ratio, geometric_interval(self.to_ratio(values)))
        return mean, min(ends), max(ends)

    def even(self, values: pd.Series) -> int:
        """Count the seeds for which two runs are equal up to rounding."""
        if self.to_ratio is None:
            return 0
        return int(values.notna().sum()) - sum(sides_of_one(self.to_ratio(values)))


#: A ratio; a relative reduction; a relative increase; a share of a whole; and any other number.
RATIO = Scale(lambda ratio: ratio, lambda ratio: ratio)

LESS = Scale(lambda less: 1 - less, lambda ratio: 1 - ratio)

MORE = Scale(lambda more: 1 + more, lambda ratio: ratio - 1)

SHARE = Scale(least=0.0, most=1.0)

PLAIN = Scale()


class Runs:
    """Selects metrics of the runs of a sweep, from its `Sweep.table`, for claims."""

    def __init__(self, table: pd.DataFrame) -> None:
        self._table = table
        self._cubes: dict[str, tuple[list[int], Floats]] = {}

    def of(self, metric: str = "jct_total_s", **where: Any) -> pd.Series:
        """The metric of the selected run of each seed; NaN if that run was stopped.

        `where` has columns and their values, which must select one run of each seed. The last part
        of a dotted name is enough, such as ``capacity``.
        """
        if not len(self._table):
            return pd.Series(dtype=float)
        rows = self.rows(**where)
        values = _whole(rows, metric).set_axis(rows["seed"])
        if values.index.has_duplicates:
            raise InputError(f"{where} selects several runs of one seed")
        return values

    def cube(self, metric: str, axes: Mapping[str, Sequence[Any]], **where: Any
             ) -> tuple[list[int], Floats]:
        """The seeds, and a metric of all combinations of values of some columns; see `of`.

        The array has an axis for seeds and one for each column. A value is NaN if there is no such
        run, or if it was stopped.
        """
        key = repr((metric, axes, where))  # many claims use the same cube
        if key not in self._cubes:
            self._cubes[key] = self._cube(metric, axes, where)
        return self._cubes[key]

    def _cube(self, metric: str, axes: Mapping[str, Sequence[Any]], where: Mapping[str, Any]
              ) -> tuple[list[int], Floats]:
        rows = self.rows(**where)
        seeds = rows["seed"].unique().tolist()
        keys = pd.MultiIndex.from_product([seeds, *axes.values()], names=["seed", *axes])
        values = _whole(rows, metric).set_axis(pd.MultiIndex.from_frame(rows[keys.names]))
        if values.index.has_duplicates:
            raise InputError(f"two runs of one seed have the same {', '.join(axes)}, among {where}")
        shape = (len(seeds), *map(len, axes.values()))
        return seeds, values.reindex(keys).to_numpy(float).reshape(shape)

    def rows(self, **where: Any) -> pd.DataFrame:
        """The selected runs; see `of`."""
        rows = self._table
        for name, value in where.items():
            column = column_of(name, rows.columns)
            if column is None:
                raise UnknownNameError("column", name, rows.columns)
            rows = rows[is_value(rows[column], value)]
        return rows

    def any_of(self, places: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
        """The runs that any of some columns and values select, each once."""
        found = [self.rows(**place) for place in places] if len(self._table) else []
        every = pd.concat([self._table.iloc[:0], *found])
        return every[~every.index.duplicated()].sort_index()

    def ratio(self, one: dict[str, Any], other: dict[str, Any], metric: str = "jct_total_s"
              ) -> pd.Series:
        """Divide a metric of one run by that of another, for each seed."""
        return self.of(metric, **one) / self.of(metric, **other)


def column_of(name: str, columns: Iterable[str]) -> str | None:
    """Find the column with a name, which may be only the last part of the column's name."""
    return next((each for each in columns if name in (each, each.rpartition(".")[2])), None)


def is_value(column: pd.Series, value: Any) -> pd.Series:
    """Mask the places at which a column has a value, which a file may have turned into its text.

    A policy may be given as to a sweep, as in ``ff:order=by_size``.
    """
    if pd.api.types.is_numeric_dtype(column) and not isinstance(value, str):
        return column == value
    name, *options = str(value).split(":")
    label = f"{name} ({', '.join(options)})" if options else name
    return column.astype(str).isin([label, str(value)])


def _whole(rows: pd.DataFrame, metric: str) -> pd.Series:
    # Kept metrics of runs that were stopped are NaN already.
    return of_whole_runs(rows, metric) if "jobs_finished" in rows else rows[metric]


@dataclass(frozen=True)
class Claim:
    """A claim of a paper."""

    text: str  #: begins with the measured quantity
    paper: str  #: the paper's value, or ``"-"`` if it gives none
    measure: Callable[[Runs], pd.Series]  #: the quantity for each seed
    criterion: Criterion
    sense: Criterion | None = None  #: values that agree at least in their direction
    percent: bool = False
    scale: Scale = RATIO

    def row(self, runs: Runs) -> dict[str, Any]:
        """Check the claim, for its row of the table."""
        values = self.measure(runs)
        mean, low, high = self.scale.interval(values)
        known = len(values) > 0 and bool(np.isfinite(values).all())
        measured, holds_on, held, even = "-", "-", values.map(self.criterion.holds).astype(bool), 0
        if known:
            show = "{:.1%}".format if self.percent else "{:.3g}".format
            measured = show(mean) + (f" [{show(low)}, {show(high)}]" if np.isfinite(low) else "")
            even = self.scale.even(values[~held])
            holds_on = f"{held.sum()} of {len(values)}" + (f" ({even} equal)" if even else "")
        return {"claim": self.text, "paper": self.paper, "measured": measured,
                "holds_on": holds_on,
                "verdict": self.criterion.verdict(mean, low, high, self.sense), "mean": mean,
                "low": low, "high": high, "least": float(values.min()),
                "most": float(values.max()), "held": int(held.sum()), "equal": even,
                "seeds": len(values)}


def table_of_claims(claims: Iterable[Claim], table: pd.DataFrame) -> pd.DataFrame:
    """Check claims against the runs of a sweep, in a row each.

    ``measured`` is the mean over seeds with its 95 % confidence interval, both of logarithms if
    values are ratios of runs, or differences relative to a run. ``holds_on`` is the number of seeds
    on which the claim holds and, if any, the number of others on which the two runs are equal. For
    ``verdict``, see `Criterion.verdict`. The other columns have the numbers behind these.
    """
    runs = Runs(table)
    return pd.DataFrame([claim.row(runs) for claim in claims])


def words(quantity: str) -> str:
    """Insert a space before the unit of a quantity."""
    return re.sub(r"(?<=\d)(?=[A-Za-z])", " ", quantity)
