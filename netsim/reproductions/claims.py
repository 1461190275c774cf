"""What a paper claims, and what comes out of it."""

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
    """What kind of number a claim measures, and so how its mean over seeds is taken.

    Attributes
    ----------
    to_ratio, from_ratio : callable, optional
        From figures to ratios, of which the mean is geometric, and back; None where figures are
        no ratios, and their mean is arithmetic.
    least, most : float
        Figures cannot be beyond these, nor are the ends of intervals.
    """

    to_ratio: Callable[[Any], Any] | None = None
    from_ratio: Callable[[Any], Any] | None = None
    least: float = -math.inf
    most: float = math.inf

    def interval(self, values: pd.Series) -> tuple[float, float, float]:
        """Return the mean of figures, and its 95 % confidence interval."""
        if self.to_ratio is None or self.from_ratio is None:
            mean, low, high = mean_interval(values)
            return mean, float(np.maximum(low, self.least)), float(np.minimum(high, self.most))
        mean, *ends = map(self.from_ratio, geometric_interval(self.to_ratio(values)))
        return mean, min(ends), max(ends)

    def even(self, values: pd.Series) -> int:
        """Return how many figures say that two runs are equal, but for rounding."""
        if self.to_ratio is None:
            return 0
        return int(values.notna().sum()) - sum(sides_of_one(self.to_ratio(values)))


#: One over another; by which share one is less than another, or more; a part of a whole; and
#: anything else.
RATIO = Scale(lambda ratio: ratio, lambda ratio: ratio)
LESS = Scale(lambda less: 1 - less, lambda ratio: 1 - ratio)
MORE = Scale(lambda more: 1 + more, lambda ratio: ratio - 1)
SHARE = Scale(least=0.0, most=1.0)
PLAIN = Scale()


class Runs:
    """The runs of a sweep, as claims look at them.

    Parameters
    ----------
    table : DataFrame
        `Sweep.table`.
    """

    def __init__(self, table: pd.DataFrame) -> None:
        self._table = table
        self._cubes: dict[str, tuple[list[int], NDArray[np.float64]]] = {}

    def of(self, metric: str = "jct_total_s", **where: Any) -> pd.Series:
        """Return a metric of the runs with some values: one for each seed, NaN if it was stopped.

        Parameters
        ----------
        metric : str
            A column.
        **where
            Columns and values; of a column with dots its last part, such as ``capacity``.

        Raises
        ------
        InputError
            If these are several runs of one seed.
        """
        if not len(self._table):
            return pd.Series(dtype=float)
        rows = self._where(where)
        values = of_whole_runs(rows, metric).set_axis(rows["seed"])
        if values.index.has_duplicates:
            raise InputError(f"{where} are several runs of one seed")
        return values

    def cube(self, metric: str, axes: Mapping[str, Sequence[Any]], **where: Any
             ) -> tuple[list[int], NDArray[np.float64]]:
        """Return a metric of all combinations of some values, NaN where there is no whole run.

        Parameters
        ----------
        metric : str
            A column.
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
            If two runs are of one combination and seed.
        """
        asked = repr((metric, axes, where))  # many claims are of one cube
        if asked not in self._cubes:
            self._cubes[asked] = self._cube(metric, axes, where)
        return self._cubes[asked]

    def _cube(self, metric: str, axes: Mapping[str, Sequence[Any]], where: Mapping[str, Any]
              ) -> tuple[list[int], NDArray[np.float64]]:
        rows = self._where(where)
        seeds = rows["seed"].unique().tolist()
        keys = pd.MultiIndex.from_product([seeds, *axes.values()], names=["seed", *axes])
        values = of_whole_runs(rows, metric).set_axis(pd.MultiIndex.from_frame(rows[keys.names]))
        if values.index.has_duplicates:
            raise InputError(f"two runs of one seed have the same {', '.join(axes)}, of {where}")
        shape = (len(seeds), *map(len, axes.values()))
        return seeds, values.reindex(keys).to_numpy(float).reshape(shape)

    def _where(self, where: Mapping[str, Any]) -> pd.DataFrame:
        rows = self._table
        for name, value in where.items():
            column = next(each for each in rows.columns
                          if name in (each, each.rpartition(".")[2]))
            rows = rows[rows[column] == value]
        return rows

    def ratio(self, one: dict[str, Any], other: dict[str, Any], metric: str = "jct_total_s"
              ) -> pd.Series:
        """Return, for each seed, a metric of one run over that of another."""
        return self.of(metric, **one) / self.of(metric, **other)


@dataclass(frozen=True)
class Claim:
    """Something that a paper says.

    Attributes
    ----------
    text : str
        What it says; the figure that is measured comes first.
    paper : str
        Its value there, or ``"-"`` if it gives none.
    measure : callable
        From `Runs` to the figure, one for each seed.
    holds : callable
        Whether it is so, of one figure.
    partly : callable, optional
        Whether at least its sense is so, such as the direction of an effect.
    percent : bool
        Whether the figure is shown as percent.
    scale : Scale
        `RATIO`, `LESS`, `MORE`, `SHARE`, or `PLAIN` for a figure that is none of these.
    """

    text: str
    paper: str
    measure: Callable[[Runs], pd.Series]
    holds: Callable[[float], bool]
    partly: Callable[[float], bool] | None = None
    percent: bool = False
    scale: Scale = RATIO

    def verdict(self, values: Iterable[float]) -> str:
        """Return what to say of it.

        It holds if it does for every seed. It holds partly if it does for the mean, that of ratios
        being geometric, or if its sense does for every seed.
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
        """Return its row of the table."""
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
    """Return a row per claim.

    Returns
    -------
    DataFrame
        With the columns

        claim, paper
            What is claimed, and its value there.
        measured
            The mean over seeds, and its 95 % confidence interval; both of logarithms where the
            figures are ratios of one run to another, or differences relative to one.
        holds_on
            On how many seeds it is so; and on how many others two runs are equal, if on any.
        verdict
            See `Claim.verdict`.
        mean, low, high, least, most, held, equal, seeds
            The figures behind `measured` and `holds_on`, and the least and most over seeds.
    """
    runs = Runs(table)
    return pd.DataFrame([claim.row(runs) for claim in claims])


# --- what many claims say ------------------------------------------------------------------


def near(value: float, within: float) -> Callable[[float], bool]:
    """Return whether a figure is near to a value."""
    return lambda measured: abs(measured - value) <= within


def below(most: float) -> Callable[[float], bool]:
    """Return whether a figure is less than a value."""
    return lambda measured: measured < most


def positive(measured: float) -> bool:
    """Return whether a figure is more than 0."""
    return measured > 0


def above_one(measured: float) -> bool:
    """Return whether a figure is more than 1."""
    return measured > 1


def below_one(measured: float) -> bool:
    """Return whether a figure is less than 1."""
    return measured < 1


def words(quantity: str) -> str:
    """Return a quantity with a space before its unit."""
    return re.sub(r"(?<=\d)(?=[A-Za-z])", " ", quantity)
