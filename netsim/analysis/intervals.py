"""Means over seeds with 95 % confidence intervals, ratios of paired runs, and variance explained.

Means of ratios are geometric: the mean of a/b is then the inverse of the mean of b/a, and a few
seeds with extreme ratios do not outweigh all others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from netsim.base.arrays import Floats
from netsim.base.lazy import pd
from netsim.errors import InputError, UnknownNameError

#: Confidence level of intervals.
LEVEL = 0.95

#: Metrics that are ratios; their means are geometric.
RATIOS = frozenset({"over_lower_bound", "over_baseline", "ratio", "ratio_paper", "jct_rate",
                    "communication_rate", "delay_ratio_mean", "rate_ratio_mean"})

#: Tolerance for rounding within which a ratio is taken to be 1.
_EQUAL = 1e-9


def policies_in(columns: Iterable[str]) -> list[str]:
    """Select the varied keys that are policies: allocator, scheduler, placement."""
    known = list(columns)
    return [name for name in ("allocator", "scheduler", "placement") if name in known]


def mean_interval(values: ArrayLike) -> tuple[float, float, float]:
    """Compute the mean of independent values and the ends of its 95 % confidence interval.

    The interval, by Student's t, is exact for normally distributed values and good for means of
    many jobs. It is NaN for fewer than two values. All three numbers are NaN if a value is.
    """
    known = np.asarray(values, dtype=np.float64)
    count = len(known)
    mean = float(known.mean()) if count else float("nan")
    if count < 2:
        return mean, float("nan"), float("nan")
    half = _student_t(count - 1) * float(known.std(ddof=1)) / count ** 0.5
    return mean, mean - half, mean + half


def geometric_interval(values: ArrayLike) -> tuple[float, float, float]:
    """Compute the geometric mean of ratios and the ends of its 95 % confidence interval.

    The interval is that of `mean_interval` for the logarithms, so it never goes below 0. All three
    numbers are NaN if a value is NaN or negative. If a value is 0, the mean is 0 and the interval
    NaN.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = mean_interval(np.log(np.asarray(values, dtype=np.float64)))
        mean, low, high = np.exp(logs).tolist()
    return mean, low, high


def sides_of_one(ratios: ArrayLike) -> tuple[int, int]:
    """Count the ratios below 1 and those above 1; ratios within 1e-9 of 1 are neither."""
    known = np.asarray(ratios, dtype=np.float64)
    return int((known < 1 - _EQUAL).sum()), int((known > 1 + _EQUAL).sum())


def _student_t(freedom: int) -> float:
    """Compute the quantile of Student's distribution for a two-sided interval at `LEVEL`.

    Quadrature is enough: for T = sqrt(n) tan(u), the density of u is proportional to cos(u)^(n-1).
    """
    # Not scipy.stats.t.ppf: all comparisons have intervals, and SciPy is an optional dependency.
    # Tests hold it against published tables.
    angle = np.linspace(0.0, np.pi / 2, 20_001)
    density = np.cos(angle) ** (freedom - 1)
    within = np.concatenate(([0.0], np.cumsum(density[1:] + density[:-1])))
    return float(freedom ** 0.5 * np.tan(np.interp(LEVEL * within[-1], within, angle)))


def means_of(table: pd.DataFrame, by: Sequence[str], metrics: Sequence[str]) -> pd.DataFrame:
    """Average metrics over runs that differ only by their seed.

    The table has a row per combination of values of `by`, in order of the first run, with ``runs``
    and, for each metric, its mean and the ends ``<metric>_low`` and ``<metric>_high`` of its 95 %
    confidence interval. Means of `RATIOS` are geometric. Intervals of a metric without negative
    values are clipped at 0.
    """
    _check(table, (*by, *metrics))
    amounts = {name for name in metrics if not (table[name] < 0).any()}
    rows = []
    for values, group in _groups(table, by):
        row = dict(zip(by, values, strict=True)) | {"runs": len(group)}
        for name in metrics:
            interval = geometric_interval if name in RATIOS else mean_interval
            mean, low, high = interval(group[name])
            row[name], row[f"{name}_high"] = mean, high
            row[f"{name}_low"] = float(np.maximum(low, 0.0)) if name in amounts else low
        rows.append(row)
    columns = [*by, "runs", *(f"{name}{end}" for name in metrics for end in ("", "_low", "_high"))]
    return pd.DataFrame(rows, columns=columns)


def without_intervals(means: pd.DataFrame) -> str:
    """Explain why a table of `means_of` has no intervals to see; empty if it has some."""
    least, most = int(means["runs"].min()), int(means["runs"].max())
    if most < 2:
        return "one run each"
    low, high = (means[means["runs"] > 1].filter(regex=f"_{end}$").to_numpy(float)
                 for end in ("low", "high"))
    unknown = np.isnan(low).all(axis=1).any()  # of runs that were stopped
    if unknown or not np.allclose(low, high, rtol=_EQUAL, atol=0, equal_nan=True):
        return ""
    seeds = f"{least} to {most}" if least < most else str(most)
    return f"all {seeds} seeds give the same: nothing in this experiment is drawn"


def ratios_of(table: pd.DataFrame, of: str, baseline: object, by: Sequence[str], metric: str
              ) -> pd.DataFrame:
    """Average the ratios of a metric to that of a baseline, over pairs of runs with the same seed.

    `of` is the column of the policies, or other values, that are compared, and `baseline` one of
    its values; `by` are the other varied keys. The influence of the seed cancels out in pairs, so
    that intervals are narrower than those of means. `Sweep.ratios` explains the columns.
    """
    _check(table, (*by, of, metric))
    if baseline not in set(table[of]):
        raise UnknownNameError("baseline", baseline, map(str, table[of].unique()))
    keys = [*by, "seed"]
    known = table[[*keys, of]].assign(value=of_whole_runs(table, metric))
    base = known[known[of] == baseline].drop(columns=of).rename(columns={"value": "base"})
    others = known[known[of] != baseline]
    if others.empty:
        raise InputError(f"all runs have the {of} {baseline!r}: there is nothing to compare")
    pairs = others.merge(base, on=keys, how="inner", sort=False)
    pairs["ratio"] = pairs["value"] / pairs["base"]
    ratios = means_of(pairs, [*by, of], ["ratio"]).rename(columns={"runs": "pairs"})
    sides = [sides_of_one(group["ratio"]) for _, group in _groups(pairs, [*by, of])]
    for side, name in enumerate(("below", "above")):
        counts = pd.Series([each[side] for each in sides], ratios.index, "Int64")
        ratios[name] = counts.where(ratios["ratio"].notna())
    return ratios


def of_whole_runs(table: pd.DataFrame, metric: str) -> pd.Series:
    """A metric, with NaN for runs that were stopped before all jobs had finished.

    Only times and ``over_lower_bound`` become NaN, because these cover only the jobs that finished.
    """
    if not (metric.endswith("_s") or metric == "over_lower_bound"):
        return table[metric]
    return table[metric].where(table["jobs_finished"] == table["jobs"])


def _groups(table: pd.DataFrame, by: Sequence[str]) -> list[tuple[tuple[object, ...],
                                                                  pd.DataFrame]]:
    """Group the rows of a table by the values of some columns."""
    if not by:
        return [((), table)] if len(table) else []
    return list(table.groupby(list(by), sort=False, dropna=False, observed=True))


def _check(table: pd.DataFrame, columns: Sequence[str]) -> None:
    """Check that a table has rows and some columns."""
    for name in columns:
        if name not in table:
            raise UnknownNameError("column", name, map(str, table.columns))
    if not len(table):
        raise InputError("there are no runs to take means of")


def explained_variance(values: ArrayLike, factors: Sequence[str]) -> dict[tuple[str, ...], float]:
    """Split the variance of a full factorial experiment by factors and their interactions.

    Shares are the sums of squares of an analysis of variance over their total: main effects of
    single factors, effects of two factors beyond their main effects, and so on. They sum to 1, or
    to 0 if all values are equal; they are NaN if a value is. `values` has an axis for each factor.
    If values are logarithms, factors with multiplicative effects do not interact.
    """
    cube = np.asarray(values, dtype=np.float64)
    if cube.ndim != len(factors) or not cube.size:
        raise InputError("values must have an axis for each of the factors "
                         f"{', '.join(factors)}, and at least one value, not shape {cube.shape}")
    groups = [which for count in range(1, cube.ndim + 1)
              for which in combinations(range(cube.ndim), count)]
    squares = {which: _mean_square(cube, which) for which in groups}
    # With equal values, the squares are rounding errors, which must not be split.
    total = sum(squares.values()) if np.ptp(cube) else math.inf
    return {tuple(factors[axis] for axis in which): square / total
            for which, square in squares.items()}


def _mean_square(cube: Floats, which: Sequence[int]) -> float:
    """The mean square of the joint effect of some axes, beyond the effects of fewer of them."""
    effects = cube
    for axis in range(cube.ndim):
        mean = effects.mean(axis=axis, keepdims=True)
        effects = effects - mean if axis in which else mean
    return float((effects ** 2).mean())
