"""Claims of papers, and how measured values compare with them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.analysis.intervals import (
    geometric_interval,
    mean_interval,
    of_whole_runs,
    sides_of_one,
)
from netsim.errors import InputError

__all__ = ["DOES_NOT_HOLD", "HOLDS", "HOLDS_PARTLY", "LESS", "MORE", "NOT_MEASURED", "PLAIN",
           "RATIO", "SHARE", "Claim", "Runs", "Scale", "above_one", "below", "below_one", "near",
           "positive", "table_of_claims", "words"]

HOLDS, HOLDS_PARTLY, DOES_NOT_HOLD = "holds", "holds partly", "does not hold"
NOT_MEASURED = "not measured"


class Scale(NamedTuple):
    """The kind of number that a claim measures, which decides how its mean over seeds is taken.

    Attributes
    ----------
    to_ratio, from_ratio : callable, optional
        Conversion from values to ratios and back. Means are geometric means of the ratios; without
        these functions, they are arithmetic.
    least, most : float
        Bounds of values, to which the ends of intervals are clipped.
    """

    to_ratio: Callable[[Any], Any] | None = None
    from_ratio: Callable[[Any], Any] | None = None
    least: float = -math.inf
    most: float = math.inf

    def interval(self, values: pd.Series) -> tuple[float, float, float]:
        """Return the mean of values and the ends of its 95 % confidence interval."""
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
    """Selects metrics of the runs of a sweep, for claims.

    Parameters
    ----------
    table : DataFrame
        `Sweep.table`.
    """

    def __init__(self, table: pd.DataFrame) -> None:
        self._table = table
        self._cubes: dict[str, tuple[list[int], NDArray[np.float64]]] = {}

    def of(self, metric: str = "jct_total_s", **where: Any) -> pd.Series:
        """Return a metric of the selected run of each seed; NaN if that run was stopped.

        Parameters
        ----------
        metric : str
            Column of the metric.
        **where
            Columns and their values, which select the runs. The last part of a dotted name is
            enough, such as ``capacity``.

        Raises
        ------
        InputError
            If several runs of the same seed are selected.
        """
        if not len(self._table):
            return pd.Series(dtype=float)
        rows = self.rows(**where)
        values = of_whole_runs(rows, metric).set_axis(rows["seed"])
        if values.index.has_duplicates:
            raise InputError(f"{where} selects several runs of one seed")
        return values

    def cube(self, metric: str, axes: Mapping[str, Sequence[Any]], **where: Any
             ) -> tuple[list[int], NDArray[np.float64]]:
        """Return a metric of all combinations of values of some columns.

        A value is NaN if there is no such run, or if it was stopped.

        Parameters
        ----------
        metric : str
            Column of the metric.
        axes : mapping of str to sequence
            Columns, and the values of each.
        **where
            As for `of`.

        Returns
        -------
        seeds : list of int
        values : ndarray of float, shape (seeds, values of the first column, ...)

        Raises
        ------
        InputError
            If two runs have the same seed and combination.
        """
        key = repr((metric, axes, where))  # many claims use the same cube
        if key not in self._cubes:
            self._cubes[key] = self._cube(metric, axes, where)
        return self._cubes[key]

    def _cube(self, metric: str, axes: Mapping[str, Sequence[Any]], where: Mapping[str, Any]
              ) -> tuple[list[int], NDArray[np.float64]]:
        rows = self.rows(**where)
        seeds = rows["seed"].unique().tolist()
        keys = pd.MultiIndex.from_product([seeds, *axes.values()], names=["seed", *axes])
        values = of_whole_runs(rows, metric).set_axis(pd.MultiIndex.from_frame(rows[keys.names]))
        if values.index.has_duplicates:
            raise InputError(f"two runs of one seed have the same {', '.join(axes)}, among {where}")
        shape = (len(seeds), *map(len, axes.values()))
        return seeds, values.reindex(keys).to_numpy(float).reshape(shape)

    def rows(self, **where: Any) -> pd.DataFrame:
        """Return the selected runs; see `of`."""
        rows = self._table
        for name, value in where.items():
            column = next(each for each in rows.columns
                          if name in (each, each.rpartition(".")[2]))
            rows = rows[rows[column] == value]
        return rows

    def ratio(self, one: dict[str, Any], other: dict[str, Any], metric: str = "jct_total_s"
              ) -> pd.Series:
        """Return a metric of one run over that of another, for each seed."""
        return self.of(metric, **one) / self.of(metric, **other)


@dataclass(frozen=True)
class Claim:
    """A claim of a paper.

    Attributes
    ----------
    text : str
        The claim; it begins with the measured quantity.
    paper : str
        The paper's value, or ``"-"`` if it gives none.
    measure : callable
        Computes the quantity for each seed from `Runs`.
    holds : callable
        Whether the claim holds for a value.
    partly : callable, optional
        Whether a value agrees at least in sense, such as the direction of an effect.
    percent : bool
        Whether values are shown as percentages.
    scale : Scale
        `RATIO`, `LESS`, `MORE`, `SHARE`, or `PLAIN` for any other number.
    """

    text: str
    paper: str
    measure: Callable[[Runs], pd.Series]
    holds: Callable[[float], bool]
    partly: Callable[[float], bool] | None = None
    percent: bool = False
    scale: Scale = RATIO

    def verdict(self, values: Iterable[float]) -> str:
        """Return whether the claim holds, given the value of each seed.

        It holds if it does so for every seed. It holds partly if it does so for the mean over
        seeds (geometric for ratios), or if every value agrees in sense.
        """
        known = pd.Series(list(values), dtype=float)
        if not len(known) or not np.isfinite(known).all():
            return NOT_MEASURED
        if all(map(self.holds, known)):
            return HOLDS
        in_sense = self.partly is not None and all(map(self.partly, known))
        partly = in_sense or self.holds(self.scale.interval(known)[0])
        return HOLDS_PARTLY if partly else DOES_NOT_HOLD

    def row(self, runs: Runs) -> dict[str, Any]:
        """Return the claim's row of the table."""
        values = self.measure(runs)
        mean, low, high = self.scale.interval(values)
        known = len(values) > 0 and bool(np.isfinite(values).all())
        measured, holds_on, held, even = "-", "-", values.map(self.holds).astype(bool), 0
        if known:
            show = "{:.1%}".format if self.percent else "{:.3g}".format
            measured = show(mean) + (f" [{show(low)}, {show(high)}]" if np.isfinite(low) else "")
            even = self.scale.even(values[~held])
            holds_on = f"{held.sum()} of {len(values)}" + (f" ({even} equal)" if even else "")
        return {"claim": self.text, "paper": self.paper, "measured": measured,
                "holds_on": holds_on, "verdict": self.verdict(values), "mean": mean, "low": low,
                "high": high, "least": float(values.min()), "most": float(values.max()),
                "held": int(held.sum()), "equal": even, "seeds": len(values)}


def table_of_claims(claims: Iterable[Claim], table: pd.DataFrame) -> pd.DataFrame:
    """Check claims against the runs of a sweep.

    Returns
    -------
    DataFrame
        A row per claim, with the columns

        claim, paper
            Text of the claim, and the paper's value.
        measured
            Mean over seeds with its 95 % confidence interval. Both are taken of logarithms if
            values are ratios of runs, or differences relative to a run.
        holds_on
            Number of seeds on which the claim holds and, if any, the number of others on which
            the two runs are equal.
        verdict
            See `Claim.verdict`.
        mean, low, high, least, most, held, equal, seeds
            The numbers behind `measured` and `holds_on`, and the smallest and largest value over
            seeds.
    """
    runs = Runs(table)
    return pd.DataFrame([claim.row(runs) for claim in claims])


# --- conditions that many claims use -------------------------------------------------------


def near(value: float, within: float) -> Callable[[float], bool]:
    """Return a condition: a value differs from another by at most `within`."""
    return lambda measured: abs(measured - value) <= within


def below(most: float) -> Callable[[float], bool]:
    """Return a condition: a value is less than `most`."""
    return lambda measured: measured < most


def positive(measured: float) -> bool:
    """Whether a value is greater than 0."""
    return measured > 0


def above_one(measured: float) -> bool:
    """Whether a value is greater than 1."""
    return measured > 1


def below_one(measured: float) -> bool:
    """Whether a value is less than 1."""
    return measured < 1


def words(quantity: str) -> str:
    """Insert a space before the unit of a quantity."""
    return re.sub(r"(?<=\d)(?=[A-Za-z])", " ", quantity)
