"""Means of a metric with their intervals: in long form, as lines, and on axes.

A *means table* has a row per combination of values of the varied keys; a column per key, then
``runs``, and for each metric its mean and the ends of its 95 % confidence interval, such as
``jct_mean_s``, ``jct_mean_s_low`` and ``jct_mean_s_high``. Lines, bars and dots are drawn from its
*long form*, in which the mean of the one metric is ``value``, and the ends ``low`` and ``high``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from netsim.analysis.intervals import RATIOS
from netsim.base.arrays import Floats
from netsim.errors import InputError, UnknownNameError
from netsim.plots.style import (
    INK,
    Look,
    drawable,
    dress,
    log_seconds,
    log_values,
    mark_cut_axis,
    seconds_axis,
)
from netsim.plots.varied import WIDE, Placed, words

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

#: Names of metrics for labels. Metrics that end in ``_s`` are in seconds.
METRICS = {
    "over_lower_bound": "total JCT / lower bound", "jct_total_s": "total JCT",
    "jct_mean_s": "mean JCT", "jct_p50_s": "median JCT", "jct_p95_s": "95th percentile of JCT",
    "jct_p99_s": "99th percentile of JCT", "cct_total_s": "total CCT", "cct_mean_s": "mean CCT",
    "cct_p50_s": "median CCT", "cct_p95_s": "95th percentile of CCT",
    "cct_p99_s": "99th percentile of CCT", "queue_mean_s": "mean queueing time",
    "queue_p50_s": "median queueing time", "queue_p95_s": "95th percentile of queueing time",
    "queue_p99_s": "99th percentile of queueing time",
    "makespan_s": "makespan", "deadlines_met": "share of deadlines met",
    "jct_rate": "total JCT / that of SRTF", "ratio_paper": "total JCT / LP bound",
    "preemptions_per_job": "preemptions per job",
    "communication_rate": "communication time / that of SRTF",
}

#: Ratios that no run is below 1 of, and that axes therefore begin at.
_FROM_1 = ("over_lower_bound", "ratio_paper")

#: Distance of lines whose whiskers meet, in points, and of the first from the last.
_STEP_PT, _SPREAD_PT = 1.5, 4.5

_BESIDE = 0.4  # width over which lines are spread, as a share of the distance of categories

_BARS = 12  # most points of a line for error bars; with more points, a band is drawn


# --- the table -----------------------------------------------------------------------------
def known_means(means: pd.DataFrame, metric: str) -> tuple[list[str], pd.DataFrame]:
    """List the varied keys of a means table, and select the rows with a finite mean of a metric."""
    columns = list(means.columns)
    if "runs" not in columns:
        raise InputError("not a table of means: it has no column 'runs', but "
                         + ", ".join(map(repr, columns)))
    runs = columns.index("runs")
    metrics = [name for name in columns[runs + 1:] if not name.endswith(("_low", "_high"))]
    if metric not in metrics:
        raise UnknownNameError("metric", metric, metrics)
    known = means[np.isfinite(means[metric].astype(float))]
    if known.empty:
        raise InputError(f"there is nothing to draw: no row has {metric}")
    return columns[:runs], known


def long_form(table: pd.DataFrame, metric: str, **columns: Any) -> pd.DataFrame:
    """Build a table of some columns, and the metric: its ``value``, and ``low`` and ``high``.

    The ends of the interval are NaN where the table has none.
    """
    ends = {"value": metric, "low": f"{metric}_low", "high": f"{metric}_high"}
    return pd.DataFrame(columns | {end: table.get(name, math.nan) for end, name in ends.items()},
                        index=table.index).astype(dict.fromkeys(ends, float))


def interval_note(known: pd.DataFrame, metric: str, most_points: int = 0) -> str:
    """Explain whiskers or bands, and say how many runs there are, or that all seeds give the same.

    `known` is a table in long form with ``runs``, and `most_points` the number of points of a line.
    """
    least, most = int(known["runs"].min()), int(known["runs"].max())
    seeds = f"{least} seeds" if least == most else f"{least} to {most} seeds"
    mean = "geometric mean" if metric in RATIOS else "mean"
    if most < 2:
        return "one run each"
    if known["low"].isna().all():
        return f"{mean}s over {seeds}"
    if np.allclose(known["low"], known["high"], rtol=1e-9, atol=0):
        return f"all {seeds} give the same"  # nothing depends on them: there is no interval to see
    shape = "bands" if most_points > _BARS else "whiskers"
    return f"{shape}: 95 % confidence intervals of the {mean} over {seeds}"


# --- lines ---------------------------------------------------------------------------------
def draw_series(ax: Axes, axis: Placed, series: Sequence[tuple[str, Look, pd.DataFrame]]
                ) -> list[list[Artist]]:
    """Draw lines with intervals, each with its label, look and rows in long form, which have ``x``.

    Return the artists of each line. Points of numbers are where the axis says; only where whiskers
    of two lines would cover each other, lines are shifted, by little more than two points. Points
    of categories are side by side.
    """
    from matplotlib.transforms import ScaledTranslation

    ax.set_xscale(axis.matplotlib_scale)
    step = (min(_STEP_PT, _SPREAD_PT / len(series))
            if _whiskers_meet([rows for _, _, rows in series]) else 0.0)
    drawn = []
    for index, (label, look, own) in enumerate(series):
        places = own["x"].map(axis.places).to_numpy(float)
        middle = index - (len(series) - 1) / 2
        beside = 0.0 if axis.numeric else _BESIDE * middle / len(series)
        drawn.append(_draw_line(ax, own, places + beside, look, label, joined=axis.numeric))
        if axis.numeric:  # by points rather than in x: lines stay true to the axis
            aside = ScaledTranslation(step * middle / 72, 0, ax.figure.dpi_scale_trans)
            for artist in drawn[-1]:
                artist.set_transform(ax.transData + aside)
    return drawn


def _whiskers_meet(lines: Sequence[pd.DataFrame]) -> bool:
    """Whether whiskers of two lines at the same x have a part in common."""
    shown = [rows[rows["low"] < rows["high"]][["x", "low", "high"]] for rows in lines
             if len(rows) <= _BARS]
    for one, other in combinations(shown, 2):
        both = one.merge(other, on="x")
        low, high = both[["low_x", "low_y"]].max(axis=1), both[["high_x", "high_y"]].min(axis=1)
        if (low <= high).any():
            return True
    return False


def _draw_line(ax: Axes, own: pd.DataFrame, places: Floats, look: Look, label: str,
               *, joined: bool) -> list[Artist]:
    """Draw a line through the means, with error bars or a band if there are intervals."""
    order = np.argsort(places, kind="stable")
    place, (middle, low, high) = places[order], own[["value", "low", "high"]].to_numpy()[order].T
    drawn: list[Artist] = list(ax.plot(place, middle, label=label, **look.line()
                                       | ({} if joined else {"linestyle": ""})))
    if np.isnan(low).all():
        return drawn
    if joined and len(places) > _BARS:
        return [*drawn, ax.fill_between(place, low, high, color=look.colour, alpha=0.2,
                                        linewidth=0, zorder=1)]
    bars = ax.errorbar(place, middle, [middle - low, high - middle], fmt="none",
                       ecolor=look.colour, elinewidth=0.8, capsize=2, capthick=0.8, zorder=1.8)
    return [*drawn, *bars.lines[1], *bars.lines[2]]


# --- axes ----------------------------------------------------------------------------------
def name_of(metric: str) -> str:
    """Name a metric for a label, without its unit."""
    return METRICS.get(metric, words(metric.removesuffix("_s")))


def set_y(ax: Axes, known: pd.DataFrame, metric: str) -> None:
    """Choose a scale for a metric on which small and large values are both legible.

    `known` are the rows, in long form, of all axes that share their scale. Call it after all of
    these were drawn.
    """
    values, ends = known["value"], known[["value", "low", "high"]]
    least, most = ends.min().min(), ends.max().max()
    natural = int(metric in _FROM_1)
    cut = False
    if least > 0 and values.max() >= WIDE * values.min():
        ax.set_yscale("log")
    elif least > 0 and most > 1.5 * least:
        if least >= natural:  # else an interval would be cut
            ax.set_ylim(natural, None)
    elif least > 0:  # from zero, differences could not be seen
        cut = ax.get_ylim()[0] > natural
    dress(ax, "both")
    name_values(ax.yaxis, metric)
    if cut:
        mark_cut_axis(ax)


def name_values(axis: Axis, metric: str) -> None:
    """Name an axis of a metric, and label its values as they suit the scale."""
    name, seconds = name_of(metric), metric.endswith("_s")
    axis.set_label_text(drawable(name), fontsize=7.5, color=INK)
    if axis.get_scale() == "log":
        (log_seconds if seconds else log_values)(axis)
    elif seconds:
        seconds_axis(axis, name)
