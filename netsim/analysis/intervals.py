"""Means over seeds with 95 % confidence intervals, and ratios pair by pair.

Means of ratios are geometric: the ratio of a to b is then the inverse of that of b to a, and a
few seeds on which one is far ahead do not outweigh all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from netsim.errors import InputError, UnknownNameError

__all__ = ["LEVEL", "RATIOS", "geometric_interval", "mean_interval", "means_of", "of_whole_runs",
           "policies_in", "ratios_of", "sides_of_one"]

#: How often an interval holds the true mean.
LEVEL = 0.95

#: The metrics that are ratios, of which means are geometric.
RATIOS = frozenset({"over_lower_bound", "over_baseline", "ratio", "ratio_paper", "jct_rate",
                    "communication_rate", "delay_ratio_mean", "rate_ratio_mean"})

#: Relative: a ratio that is as near to 1 is 1, but for rounding.
_EQUAL = 1e-9


def policies_in(columns: Iterable[str]) -> list[str]:
    """Return the policies among what was varied: what one compares, and draws lines for."""
    known = list(columns)
    return [name for name in ("allocator", "scheduler", "placement") if name in known]


def mean_interval(values: ArrayLike) -> tuple[float, float, float]:
    """Return the mean of some values, and its 95 % confidence interval.

    By Student's t: exact for values that are normally distributed, good for means of many jobs.

    Parameters
    ----------
    values : array_like of float
        Independent ones, such as of one seed each.

    Returns
    -------
    mean, low, high : float
        The interval of fewer than two values is NaN, and so is all where a value is.

    Examples
    --------
    >>> [round(x, 3) for x in mean_interval([1.0, 2.0, 3.0])]
    [2.0, -0.484, 4.484]
    """
    known = np.asarray(values, dtype=np.float64)
    count = len(known)
    mean = float(known.mean()) if count else float("nan")
    if count < 2:
        return mean, float("nan"), float("nan")
    half = _student_t(count - 1) * float(known.std(ddof=1)) / count ** 0.5
    return mean, mean - half, mean + half


def geometric_interval(values: ArrayLike) -> tuple[float, float, float]:
    """Return the geometric mean of some ratios, and its 95 % confidence interval.

    `mean_interval` of the logarithms, so that neither end is below 0.

    Parameters
    ----------
    values : array_like of float
        Independent ones, such as of one seed each.

    Returns
    -------
    mean, low, high : float
        The interval of fewer than two values is NaN, and so is all where a value is, or is
        negative. The mean is 0, without an interval, where a value is 0.

    Examples
    --------
    >>> [round(x, 3) for x in geometric_interval([0.5, 2.0, 1.0])]
    [1.0, 0.179, 5.595]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = mean_interval(np.log(np.asarray(values, dtype=np.float64)))
        mean, low, high = np.exp(logs).tolist()
    return mean, low, high


def sides_of_one(ratios: ArrayLike) -> tuple[int, int]:
    """Return how many ratios are below 1, and how many above; those within 1e-9 are neither.

    Parameters
    ----------
    ratios : array_like of float

    Examples
    --------
    >>> sides_of_one([0.5, 0.9, 1.0, 1 + 1e-12, 3.0])
    (2, 1)
    """
    known = np.asarray(ratios, dtype=np.float64)
    return int((known < 1 - _EQUAL).sum()), int((known > 1 + _EQUAL).sum())


def _student_t(freedom: int) -> float:
    """Return the t that a variable of Student's distribution stays within at `LEVEL`.

    With T = sqrt(n) tan(u), u has the density cos(u)^(n-1), but for a factor.
    """
    angle = np.linspace(0.0, np.pi / 2, 20_001)
    density = np.cos(angle) ** (freedom - 1)
    within = np.concatenate(([0.0], np.cumsum(density[1:] + density[:-1])))
    return float(freedom ** 0.5 * np.tan(np.interp(LEVEL * within[-1], within, angle)))


def means_of(table: pd.DataFrame, by: Sequence[str], metrics: Sequence[str]) -> pd.DataFrame:
    """Return the means of runs that differ by their seed alone.

    Parameters
    ----------
    table : DataFrame
        A row per run.
    by : sequence of str
        The columns of what was varied.
    metrics : sequence of str
        The columns to take means of; geometric ones of `RATIOS`.

    Returns
    -------
    DataFrame
        A row per combination, in order of its first run: the columns `by`; ``runs``; for each
        metric its mean, and ``<metric>_low`` and ``<metric>_high``, the 95 % interval. That of a
        metric that is nowhere negative ends at 0.
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


def ratios_of(table: pd.DataFrame, of: str, baseline: object, by: Sequence[str], metric: str
              ) -> pd.DataFrame:
    """Return geometric means of ratios to a baseline, of runs that share all but the policy.

    What seeds have in common cancels out: intervals are narrower than those of the means.

    Parameters
    ----------
    table : DataFrame
        A row per run, with the columns ``seed`` and ``jobs_finished`` and ``jobs``.
    of : str
        The column of policies, or whatever is to be compared.
    baseline : object
        The value in that column that the others are held against.
    by : sequence of str
        The columns of what else was varied.
    metric : str
        The column to take ratios of.

    Returns
    -------
    DataFrame
        A row per combination: the columns `by` and `of`; ``pairs``; ``ratio``, ``ratio_low`` and
        ``ratio_high``: the geometric mean of metric over the baseline's metric, and its 95 %
        interval; ``below`` and ``above``: in how many pairs the ratio is below 1, and above.
        Missing where a run of a pair did not finish all its jobs.

    Raises
    ------
    UnknownNameError
        If the baseline is none of the values.
    """
    _check(table, (*by, of, metric))
    if baseline not in set(table[of]):
        raise UnknownNameError("baseline", baseline, map(str, table[of].unique()))
    keys = [*by, "seed"]
    known = table[[*keys, of]].assign(value=of_whole_runs(table, metric))
    base = known[known[of] == baseline].drop(columns=of).rename(columns={"value": "base"})
    pairs = known.merge(base, on=keys, how="inner", sort=False)
    pairs["ratio"] = pairs["value"] / pairs["base"]
    ratios = means_of(pairs, [*by, of], ["ratio"]).rename(columns={"runs": "pairs"})
    sides = [sides_of_one(group["ratio"]) for _, group in _groups(pairs, [*by, of])]
    for side, name in enumerate(("below", "above")):
        counts = pd.Series([each[side] for each in sides], ratios.index, "Int64")
        ratios[name] = counts.where(ratios["ratio"].notna())
    return ratios


def of_whole_runs(table: pd.DataFrame, metric: str) -> pd.Series:
    """Return a metric, NaN where it sums up a run that was stopped before all jobs had finished.

    Parameters
    ----------
    table : DataFrame
        A row per run, with the columns ``jobs`` and ``jobs_finished``.
    metric : str
        A column; times, and ``over_lower_bound``, are of what has finished.
    """
    if not (metric.endswith("_s") or metric == "over_lower_bound"):
        return table[metric]
    return table[metric].where(table["jobs_finished"] == table["jobs"])


def _groups(table: pd.DataFrame, by: Sequence[str]) -> list[tuple[tuple[object, ...],
                                                                  pd.DataFrame]]:
    if not by:
        return [((), table)] if len(table) else []
    return list(table.groupby(list(by), sort=False, dropna=False, observed=True))


def _check(table: pd.DataFrame, columns: Sequence[str]) -> None:
    for name in columns:
        if name not in table:
            raise UnknownNameError("column", name, map(str, table.columns))
    if not len(table):
        raise InputError("there are no runs to take means of")
