"""Lines, bars and axes of plots of means over repetitions; they need the extra ``plot``.

They take a *means table*: a row per combination of values of the varied keys; a column per key,
then ``runs``, and for each metric its mean and the ends of its 95 % confidence interval, such as
``jct_mean_s``, ``jct_mean_s_low`` and ``jct_mean_s_high``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.analysis.intervals import RATIOS
from netsim.errors import InputError, UnknownNameError
from netsim.plots.style import (
    INK,
    Look,
    dress,
    fitting,
    log_seconds,
    log_values,
    mark_cut_axis,
    name_axes,
    not_conserving,
    schemes_of,
    seconds_axis,
)
from netsim.plots.varied import WIDE, Placed, labels_of, words

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar

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

#: Distance of lines whose whiskers meet, in points, and of the first from the last.
_STEP_PT, _SPREAD_PT = 1.5, 4.5
_BESIDE = 0.4  # width over which lines are spread, as a share of the distance of categories
_BARS = 12  # most points of a line for error bars; with more points, a band is drawn


def draw_series(ax: Axes, axis: Placed, x: str, y: str,
                series: Sequence[tuple[str, Look, pd.DataFrame]]) -> list[list[Artist]]:
    """Draw lines with intervals, each with its label, look and rows of the means table.

    Return the artists of each line. Points of numbers are where the axis says; only where whiskers
    of two lines would cover each other, lines are shifted, by little more than two points. Points
    of categories are side by side.
    """
    from matplotlib.transforms import ScaledTranslation

    ax.set_xscale(axis.matplotlib_scale)
    step = (min(_STEP_PT, _SPREAD_PT / len(series))
            if _whiskers_meet([rows for _, _, rows in series], x, y) else 0.0)
    drawn = []
    for index, (label, look, own) in enumerate(series):
        places = own[x].map(axis.places).to_numpy(float)
        middle = index - (len(series) - 1) / 2
        beside = 0.0 if axis.numeric else _BESIDE * middle / len(series)
        drawn.append(_draw_line(ax, own, places + beside, y, look, label, joined=axis.numeric))
        if axis.numeric:  # by points rather than in x: lines stay true to the axis
            aside = ScaledTranslation(step * middle / 72, 0, ax.figure.dpi_scale_trans)
            for artist in drawn[-1]:
                artist.set_transform(ax.transData + aside)
    return drawn


def _whiskers_meet(lines: Sequence[pd.DataFrame], x: str, y: str) -> bool:
    """Whether whiskers of two lines at the same x have a part in common."""
    ends = [x, f"{y}_low", f"{y}_high"]
    shown = [rows[ends] for rows in lines if {*ends} <= {*rows} and len(rows) <= _BARS]
    for one, other in combinations(shown, 2):
        both = one[one[ends[1]] < one[ends[2]]].merge(other[other[ends[1]] < other[ends[2]]], on=x)
        low, high = (both[[f"{end}_x", f"{end}_y"]] for end in ends[1:])
        if (low.max(axis=1) <= high.min(axis=1)).any():
            return True
    return False


def as_bars(known: pd.DataFrame, bars: Sequence[str]) -> pd.DataFrame:
    """Add the columns of `metric_bars` to a means table: a scheme is a value of the keys `bars`."""
    labels = labels_of(known, bars)
    return known.assign(label=labels, scheme=labels.map(schemes_of(labels)),
                        work_conservation=np.where(labels.map(not_conserving), "none", ""))


def interval_note(known: pd.DataFrame, y: str, most_points: int = 0) -> str:
    """Explain whiskers or bands, and say how many runs there are, or that all seeds give the same.

    `known` is a means table, `y` the metric, and `most_points` the number of points of a line.
    """
    least, most = int(known["runs"].min()), int(known["runs"].max())
    seeds = f"{least} seeds" if least == most else f"{least} to {most} seeds"
    mean = "geometric mean" if y in RATIOS else "mean"
    if most < 2:
        return "one run each"
    if f"{y}_low" not in known:
        return f"{mean}s over {seeds}"
    low, high = (known[f"{y}_{end}"].to_numpy(float) for end in ("low", "high"))
    if np.allclose(low, high, rtol=1e-9, atol=0):
        return f"all {seeds} give the same"  # nothing depends on them: there is no interval to see
    shape = "bands" if most_points > _BARS else "whiskers"
    return f"{shape}: 95 % confidence intervals of the {mean} over {seeds}"


def keys_of(means: pd.DataFrame) -> list[str]:
    """List the varied keys: the columns before ``runs``."""
    columns = list(means.columns)
    if "runs" not in columns:
        raise InputError("not a table of means: it has no column 'runs', but "
                         + ", ".join(map(repr, columns)))
    return columns[:columns.index("runs")]


def known_rows(means: pd.DataFrame, y: str) -> pd.DataFrame:
    """Select the rows with a finite value of the metric."""
    columns = list(means.columns)
    metrics = [name for name in columns[columns.index("runs") + 1:]
               if not name.endswith(("_low", "_high"))]
    if y not in metrics:
        raise UnknownNameError("metric", y, metrics)
    known = means[np.isfinite(means[y].astype(float))]
    if known.empty:
        raise InputError(f"there is nothing to draw: no row has {y}")
    return known


def _draw_line(ax: Axes, own: pd.DataFrame, places: NDArray[np.float64], y: str, look: Look,
               label: str, *, joined: bool) -> list[Artist]:
    """Draw a line through the means, with error bars or a band if there are intervals."""
    order = np.argsort(places, kind="stable")
    place, middle = places[order], own[y].to_numpy(float)[order]
    drawn: list[Artist] = list(ax.plot(place, middle, label=label, **look.line()
                                       | ({} if joined else {"linestyle": ""})))
    if f"{y}_low" not in own or f"{y}_high" not in own:
        return drawn
    low, high = (own[f"{y}_{end}"].to_numpy(float)[order] for end in ("low", "high"))
    if joined and len(places) > _BARS:
        return [*drawn, ax.fill_between(place, low, high, color=look.colour, alpha=0.2,
                                        linewidth=0, zorder=1)]
    bars = ax.errorbar(place, middle, [middle - low, high - middle], fmt="none",
                       ecolor=look.colour, elinewidth=0.8, capsize=2, capthick=0.8, zorder=1.8)
    return [*drawn, *bars.lines[1], *bars.lines[2]]


def set_x(ax: Axes, axis: Placed, *, upright: bool = False) -> None:
    """Label the x axis with as many numbers as fit, or with all categories, slanted if needed.

    If `upright`, it is the y axis, on which all labels fit. Call it after all axes that share
    theirs were drawn.
    """
    from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

    named = ax.yaxis if upright else ax.xaxis
    named.set_minor_locator(NullLocator())
    ax.margins(y=0.06) if upright else ax.margins(x=0.06)
    kept = axis.labels if upright else fitting(named, axis.labels)
    if upright:
        named.set_ticks(list(kept), list(kept.values()))
    elif axis.scale != "categories" or len(kept) == len(axis.labels):
        ax.set_xticks(list(kept), list(kept.values()))
    else:
        ax.set_xticks(list(axis.labels), list(axis.labels.values()), rotation=30, ha="right",
                      rotation_mode="anchor")
    if named.get_scale() == "log":
        named.set_minor_locator(FixedLocator(_between_decades(axis.labels)))
        named.set_minor_formatter(NullFormatter())


def _between_decades(labels: Mapping[float, str]) -> list[float]:
    """List 1, 2, ..., 9 times each power of ten, in the unit of the labels."""
    place, label = next(iter(labels.items()))
    unit = place / float(label.split()[0].replace(",", ""))  # prefixes of units are powers of ten
    lowest, highest = (math.floor(math.log10(end / unit)) for end in (min(labels), max(labels)))
    return [digit * 10.0**power * unit for power in range(lowest - 1, highest + 1)
            for digit in range(1, 10)]


def set_y(ax: Axes, known: pd.DataFrame, y: str) -> None:
    """Choose a scale for a metric on which small and large values are both legible.

    `known` are the rows of all axes that share their scale. Call it after all of these were drawn.
    """
    ends = [known[name] for name in (y, f"{y}_low", f"{y}_high") if name in known]
    least, most = min(each.min() for each in ends), max(each.max() for each in ends)
    name, seconds = METRICS.get(y, words(y.removesuffix("_s"))), y.endswith("_s")
    if least > 0 and known[y].max() >= WIDE * known[y].min():
        ax.set_yscale("log")
        (log_seconds if seconds else log_values)(ax.yaxis)
        dress(ax, "both")
        name_axes(ax, y=name)
        return
    natural = 1 if y in ("over_lower_bound", "ratio_paper") else 0  # what no run is below
    cut = False
    if least > 0 and most > 1.5 * least:
        if least >= natural:  # else an interval would be cut
            ax.set_ylim(natural, None)
    elif least > 0:  # from zero, differences could not be seen
        cut = ax.get_ylim()[0] > natural
    dress(ax, "both")
    name_axes(ax, y=name)
    if seconds:
        seconds_axis(ax.yaxis, name)
    if cut:
        mark_cut_axis(ax)


def shades_of(values: pd.Series) -> dict[str, Any]:
    """Matplotlib's style of dots with colours for values."""
    from matplotlib.colors import LogNorm, Normalize

    low, high = float(values.min()), float(values.max())
    is_log = low > 0 and high >= WIDE * low
    return {"cmap": "viridis", "norm": (LogNorm if is_log else Normalize)(low, high),
            "edgecolors": INK, "linewidths": 0.3}


def name_shades(bar: Colorbar, metric: str) -> None:
    """Label a bar of colours with a metric and its values."""
    from matplotlib.colors import LogNorm

    name, seconds = METRICS.get(metric, words(metric.removesuffix("_s"))), metric.endswith("_s")
    if isinstance(bar.norm, LogNorm):
        (log_seconds if seconds else log_values)(bar.ax.yaxis)
    bar.ax.tick_params(labelsize=7, labelcolor=INK)
    name_axes(bar.ax, y=name)
    if seconds and not isinstance(bar.norm, LogNorm):
        seconds_axis(bar.ax.yaxis, name)
