"""Plots of means over repetitions, by what was varied; they need the extra ``plot``.

They take a *means table*: a row per combination of values of the varied keys; a column per key,
then ``runs``, and for each metric its mean and the ends of its 95 % confidence interval, such as
``jct_mean_s``, ``jct_mean_s_low`` and ``jct_mean_s_high``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.analysis.intervals import RATIOS, policies_in
from netsim.errors import InputError, UnknownNameError
from netsim.plots.bars import metric_bars
from netsim.plots.style import (
    Look,
    add_legend,
    add_note,
    dress,
    log_seconds,
    log_values,
    looks,
    mark_cut_axis,
    name_axes,
    new_axes,
    require_matplotlib,
    schemes_of,
    seconds_axis,
    short,
    uncover,
)
from netsim.plots.varied import Placed, labels_of, placed, words

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

__all__ = ["METRICS", "as_bars", "draw_series", "interval_note", "keys_of", "known_rows",
           "mean_bars", "set_x", "set_y", "sweep_lines"]

#: Names of metrics for labels. Metrics that end in ``_s`` are in seconds.
METRICS = {
    "over_lower_bound": "total JCT / lower bound", "jct_total_s": "total JCT",
    "jct_mean_s": "mean JCT", "jct_p50_s": "median JCT", "jct_p95_s": "95th percentile of JCT",
    "jct_p99_s": "99th percentile of JCT", "cct_mean_s": "mean CCT", "cct_p50_s": "median CCT",
    "cct_p95_s": "95th percentile of CCT", "cct_p99_s": "99th percentile of CCT",
    "makespan_s": "makespan", "deadlines_met": "share of deadlines met",
    "jct_rate": "total JCT / that of SRTF", "ratio_paper": "total JCT / LP bound",
    "preemptions_per_job": "preemptions of workers per job",
    "decisions_per_job": "preemptions per job, a gang's counted once",
    "communication_rate": "communication time / that of SRTF",
}

#: Distance of lines beside each other, in points, and of the first from the last.
_STEP_PT, _SPREAD_PT = 2.4, 12.0
_BESIDE = 0.4  # width over which lines are spread, as a share of the distance of categories
_BARS = 12  # most points of a line for error bars; with more points, a band is drawn
_WIDE = 10.0  # ratio of the largest to the smallest value from which an axis is logarithmic
_LETTER_IN = 0.057  # width of a letter of a tick's label


def sweep_lines(means: pd.DataFrame, x: str | None = None, y: str = "over_lower_bound",
                by: str | Sequence[str] | None = None, ax: Axes | None = None, *,
                scale: str | None = None) -> Axes:
    """Draw a metric against a parameter as a line per policy, with 95 % confidence intervals.

    Parameters
    ----------
    means : DataFrame
        A means table, see above. Intervals are drawn if it has them.
    x : str, optional
        The varied key on the x axis. By default the key with the most values, policies excepted.
    y : str
        The metric.
    by : str or sequence of str, optional
        Varied keys whose combinations get a line each. By default all keys other than `x`.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure, one paper column wide.
    scale : {"linear", "log", "categories"}, optional
        Scale of the x axis. By default, numbers and quantities such as ``"10Gbps"`` are on a
        linear axis if they differ by less than a factor of 10, and on a logarithmic one if by
        more. Anything else, and numbers of a wide range that include 0, are categories.

    Returns
    -------
    Axes

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    UnknownNameError
        If there is no such key, metric or scale.
    InputError
        If there is nothing to draw, two rows are for the same point, or `x` has values that do
        not fit the scale.
    """
    require_matplotlib()
    keys = keys_of(means)
    x = _default_x(means, keys) if x is None else x
    # The policy comes first in labels, as readers look for its name.
    others = sorted((key for key in keys if key != x), key=lambda key: key not in policies_in(keys))
    lines = others if by is None else [by] if isinstance(by, str) else list(by)
    for key in (x, *lines):
        if key not in keys:
            raise UnknownNameError("varied key", key, keys)
    known = known_rows(means, y)
    axis = placed(list(dict.fromkeys(known[x])), x, scale)
    labels = labels_of(known, lines)
    _check_single(known.assign(label=labels), x, keys, lines)
    own = ax is None
    if ax is None:
        ax = new_axes(height_in=2.1 + 0.14 * (labels.nunique() // 2))
    draw_series(ax, axis, x, y, [(short(label), look, known[labels == label])
                                 for label, look in looks(labels).items()])
    set_x(ax, axis)
    set_y(ax, known, y)
    uncover(ax)
    name_axes(ax, axis.name)
    if lines:
        add_legend(ax)
    if own:
        add_note(ax.figure.canvas.figure, interval_note(known, y, most_points=len(axis.places)))
    return ax


def draw_series(ax: Axes, axis: Placed, x: str, y: str,
                series: Sequence[tuple[str, Look, pd.DataFrame]]) -> list[list[Artist]]:
    """Draw lines with intervals side by side; return what was drawn of each.

    Parameters
    ----------
    ax : Axes
    axis : Placed
        The positions of the values of `x`.
    x, y : str
        The varied key, and the metric.
    series : sequence of (str, Look, DataFrame)
        Label, look and rows of the means table of each line.
    """
    from matplotlib.transforms import ScaledTranslation

    if len(axis.places) > 1 and axis.scale == "log":
        ax.set_xscale("log")
    step = min(_STEP_PT, _SPREAD_PT / len(series)) if len(series) > 1 else 0.0
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


def mean_bars(means: pd.DataFrame, y: str = "over_lower_bound", ax: Axes | None = None) -> Axes:
    """Draw a metric as a bar per policy, with 95 % confidence intervals.

    If other keys than the policy were varied, each combination of their values has a bar in its
    own colour.

    Parameters
    ----------
    means : DataFrame
        A means table, see above. Intervals are drawn if it has them.
    y : str
        The metric.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure, one paper column wide.

    Returns
    -------
    Axes

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    UnknownNameError
        If there is no such metric.
    InputError
        If there is nothing to draw.
    """
    require_matplotlib()
    keys, known = keys_of(means), known_rows(means, y)
    bars = policies_in(keys)[:1] or keys[:1]
    rest = [key for key in keys if key not in bars]
    table = as_bars(known, bars).assign(group=labels_of(known, rest))
    tables = {str(group): own for group, own in table.groupby("group", sort=False)}
    drawn = metric_bars(tables, y, METRICS.get(y, y), ax)
    if ax is None:
        add_note(drawn.figure.canvas.figure, interval_note(known, y))
    return drawn


def as_bars(known: pd.DataFrame, bars: Sequence[str]) -> pd.DataFrame:
    """Add the columns of `metric_bars` to a means table: a scheme is a value of the keys `bars`."""
    labels = labels_of(known, bars)
    schemes = labels.map(schemes_of(labels))
    return known.assign(label=labels, scheme=schemes,
                        work_conservation=np.where(schemes == labels, "", "none"))


def interval_note(known: pd.DataFrame, y: str, most_points: int = 0) -> str:
    """Say what whiskers or bands are, and how many runs there are; of one run each, that alone.

    Parameters
    ----------
    known : DataFrame
        A means table.
    y : str
        The metric.
    most_points : int
        Points of a line.
    """
    least, most = int(known["runs"].min()), int(known["runs"].max())
    seeds = f"{least} seeds" if least == most else f"{least} to {most} seeds"
    mean = "geometric mean" if y in RATIOS else "mean"
    if most < 2:
        return "one run each"
    if f"{y}_low" not in known:
        return f"{mean}s over {seeds}"
    shape = "bands" if most_points > _BARS else "whiskers"
    return f"{shape}: 95 % confidence intervals of the {mean} over {seeds}"


def keys_of(means: pd.DataFrame) -> list[str]:
    """Return the varied keys: the columns before ``runs``."""
    columns = list(means.columns)
    if "runs" not in columns:
        raise InputError("not a table of means: it has no column 'runs', but "
                         + ", ".join(map(repr, columns)))
    return columns[:columns.index("runs")]


def _default_x(means: pd.DataFrame, keys: list[str]) -> str:
    """Return the key with the most values, policies excepted; the first of several."""
    policies = policies_in(keys)
    others = [key for key in keys if key not in policies]
    if not others:
        raise InputError(f"nothing but the {' and the '.join(policies) or 'seed'} was varied: "
                         "draw bars")
    return max(others, key=lambda key: means[key].nunique())


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


def _check_single(known: pd.DataFrame, x: str, keys: list[str], lines: list[str]) -> None:
    """Check that no line has two rows for the same value of x."""
    twice = known[known.duplicated([x, "label"])]
    if len(twice):
        others = [key for key in keys if key != x and key not in lines]
        where = f"{x} {twice[x].iloc[0]}" + (
            f" and {twice['label'].iloc[0]!r}" if lines else "")
        also = f": {', '.join(others)} varied too; name it in by, or choose rows" if others else ""
        raise InputError(f"several rows of the table are for {where}{also}")


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


def set_x(ax: Axes, axis: Placed) -> None:
    """Label the x axis with as many numbers as fit, or with all categories, slanted if needed.

    Parameters
    ----------
    ax : Axes
        Axes on which lines were drawn; of several that share their x, after all were drawn.
    axis : Placed
        The positions and labels of the values on it.
    """
    from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

    ax.xaxis.set_minor_locator(NullLocator())
    ax.margins(x=0.06)
    kept = _fitting(ax, axis.labels)
    if axis.numeric or len(kept) == len(axis.labels):
        ax.set_xticks(list(kept), list(kept.values()))
    else:
        ax.set_xticks(list(axis.labels), list(axis.labels.values()), rotation=30, ha="right",
                      rotation_mode="anchor")
    if ax.get_xscale() == "log":
        ax.xaxis.set_minor_locator(FixedLocator(_between_decades(axis.labels)))
        ax.xaxis.set_minor_formatter(NullFormatter())


def _between_decades(labels: Mapping[float, str]) -> list[float]:
    """Return 1, 2, ..., 9 times each power of ten, in the unit of the labels."""
    place, label = next(iter(labels.items()))
    try:
        unit = place / float(label)
    except ValueError:  # with units of their own: decades of the base unit
        unit = 1.0
    lowest, highest = (math.floor(math.log10(end / unit)) for end in (min(labels), max(labels)))
    return [digit * 10.0**power * unit for power in range(lowest - 1, highest + 1)
            for digit in range(1, 10)]


def _fitting(ax: Axes, labels: Mapping[float, str]) -> dict[float, str]:
    """Select labels of an x axis, in order, that do not overlap the previous one."""
    scaled = math.log if ax.get_xscale() == "log" else float
    low, high = map(scaled, ax.get_xlim())
    letter = _LETTER_IN * ax.figure.dpi / ax.bbox.width
    kept: dict[float, str] = {}
    free = -math.inf
    for place, label in labels.items():
        half = letter * (max(map(len, label.split("\n"))) + 1) / 2
        spot = (scaled(place) - low) / (high - low)
        if spot - half >= free:
            kept[place], free = label, spot + half
    return kept


def set_y(ax: Axes, known: pd.DataFrame, y: str) -> None:
    """Choose a scale on which small and large values are both legible.

    Parameters
    ----------
    ax : Axes
        Axes on which lines were drawn; of several that share their y, after all were drawn.
    known : DataFrame
        Rows of the means table of all axes that are to have the same scale.
    y : str
        The metric.
    """
    ends = [known[name] for name in (y, f"{y}_low", f"{y}_high") if name in known]
    least, most = min(each.min() for each in ends), max(each.max() for each in ends)
    name, seconds = METRICS.get(y, words(y.removesuffix("_s"))), y.endswith("_s")
    if least > 0 and known[y].max() >= _WIDE * known[y].min():
        ax.set_yscale("log")
        (log_seconds if seconds else log_values)(ax.yaxis)
        dress(ax, "both")
        name_axes(ax, y=name)
        return
    natural = 1 if y == "over_lower_bound" else 0
    cut = False
    if least > 0 and most > 1.5 * least:
        ax.set_ylim(natural, None)
    elif least > 0:  # from zero, differences could not be seen
        cut = ax.get_ylim()[0] > natural
    dress(ax, "both")
    name_axes(ax, y=name)
    if seconds:
        seconds_axis(ax.yaxis, name)
    if cut:
        mark_cut_axis(ax)
