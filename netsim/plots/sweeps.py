"""Plots of means over repetitions, by what was varied; they need the extra ``plot``.

They take a *means table*: a row per combination of values of the varied keys; a column per key,
then ``runs``, and for each metric its mean and the ends of its 95 % confidence interval, such as
``jct_mean_s``, ``jct_mean_s_low`` and ``jct_mean_s_high``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.analysis.intervals import policies_in
from netsim.errors import InputError, NetsimError, UnknownNameError
from netsim.plots.bars import metric_bars
from netsim.plots.style import (
    INK,
    Look,
    add_legend,
    drawable,
    dress,
    log_seconds,
    log_values,
    looks,
    name_axes,
    new_axes,
    require_matplotlib,
    schemes_of,
    short,
)
from netsim.units import parse_bytes, parse_rate, parse_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["METRICS", "mean_bars", "sweep_lines"]

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

SCALES = ("linear", "log", "categories")

_BESIDE = 0.4  # width over which lines are spread, as a share of the distance of categories
_BARS = 12  # most points of a line for error bars; with more points, a band is drawn
_WIDE = 10.0  # ratio of the largest to the smallest value from which an axis is logarithmic
_LETTER = 0.021  # width of a letter, as a share of an axis one column wide


class _Axis(NamedTuple):
    """The positions of a key's values on an axis.

    Attributes
    ----------
    places : dict
        Position of each value, in the order of the axis.
    scale : str
        One of `SCALES`.
    numeric : bool
        Whether values are numbers, so that lines may join them.
    """

    places: dict[Any, float]
    scale: str
    numeric: bool = True


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
    keys = _keys(means)
    x = _default_x(means, keys) if x is None else x
    # The policy comes first in labels, as readers look for its name.
    others = sorted((key for key in keys if key != x), key=lambda key: key not in policies_in(keys))
    lines = others if by is None else [by] if isinstance(by, str) else list(by)
    for key in (x, *lines):
        if key not in keys:
            raise UnknownNameError("varied key", key, keys)
    known = _known(means, y)
    axis = _placed(list(dict.fromkeys(known[x])), x, scale)
    labels = _labels(known, lines)
    _check_single(known.assign(label=labels), x, keys, lines)
    if ax is None:
        ax = new_axes(height_in=2.1 + 0.14 * (labels.nunique() // 2))
    if len(axis.places) > 1 and axis.scale == "log":
        ax.set_xscale("log")
    style = looks(labels)
    for index, (label, look) in enumerate(style.items()):
        own = known[labels == label]
        places = own[x].map(axis.places).to_numpy(float)
        if not axis.numeric:  # offset, so that intervals do not overlap
            places = places + _BESIDE * ((index + 0.5) / len(style) - 0.5)
        _draw_line(ax, own, places, y, look, label, joined=axis.numeric)
    _set_x(ax, axis)
    _set_y(ax, known, y)
    ax.set_xlabel(drawable(x), fontsize=7.5, color=INK)
    if lines:
        add_legend(ax)
    return ax


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
    keys, known = _keys(means), _known(means, y)
    bars = policies_in(keys)[:1] or keys[:1]
    rest = [key for key in keys if key not in bars]
    labels = _labels(known, bars)
    schemes = labels.map(schemes_of(labels))
    table = known.assign(scheme=schemes, group=_labels(known, rest),
                         work_conservation=np.where(schemes == labels, "", "none"))
    tables = {str(group): own for group, own in table.groupby("group", sort=False)}
    return metric_bars(tables, y, METRICS.get(y, y), ax)


def _keys(means: pd.DataFrame) -> list[str]:
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


def _known(means: pd.DataFrame, y: str) -> pd.DataFrame:
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


def _labels(means: pd.DataFrame, keys: Sequence[str]) -> pd.Series:
    """Return the label of each row: its values of `keys`, numbers with the name of their key."""
    words = [means[key].map(lambda value, key=key: value if isinstance(value, str)
                            else f"{key.rpartition('.')[-1]} {value}") for key in keys]
    return pd.Series([", ".join(row) for row in zip(*words, strict=True)] if words else "",
                     index=means.index, dtype=object)


def _check_single(known: pd.DataFrame, x: str, keys: list[str], lines: list[str]) -> None:
    """Check that no line has two rows for the same value of x."""
    twice = known[known.duplicated([x, "label"])]
    if len(twice):
        others = [key for key in keys if key != x and key not in lines]
        where = f"{x} {twice[x].iloc[0]}" + (
            f" and {twice['label'].iloc[0]!r}" if lines else "")
        also = f": {', '.join(others)} varied too; name it in by, or choose rows" if others else ""
        raise InputError(f"several rows of the table are for {where}{also}")


def _placed(values: list[Any], x: str, scale: str | None) -> _Axis:
    """Choose the scale of the x axis and the position of each value."""
    if scale is not None and scale not in SCALES:
        raise UnknownNameError("scale", scale, SCALES)
    numbers = _numbers(values)
    if numbers is None:
        if scale in ("linear", "log"):
            raise InputError(f"{x} has no {scale} scale: not all of its values are numbers, or "
                             f"quantities of one kind: {', '.join(map(repr, values))}")
        return _Axis({value: float(place) for place, value in enumerate(values)}, "categories",
                     numeric=False)
    ordered = sorted(values, key=dict(zip(values, numbers, strict=True)).__getitem__)
    chosen = scale or _natural(sorted(numbers))
    if chosen == "categories":
        return _Axis({value: float(place) for place, value in enumerate(ordered)}, chosen)
    if chosen == "log" and min(numbers) <= 0:
        raise InputError(f"{x} has no log scale: it has the value {ordered[0]!r}")
    return _Axis(dict(zip(ordered, sorted(numbers), strict=True)), chosen)


def _natural(numbers: list[float]) -> str:
    """Return the default scale for sorted numbers."""
    positive = [number for number in numbers if number > 0]
    if numbers[0] < 0 or not positive or positive[-1] < _WIDE * positive[0]:
        return "linear"
    return "log" if numbers[0] > 0 else "categories"


def _numbers(values: list[Any]) -> list[float] | None:
    """Parse values as numbers or as quantities of one kind; return None if they are neither."""
    if any(isinstance(value, bool) for value in values):
        return None
    readers: tuple[Callable[[Any], float], ...] = (float, parse_rate, parse_seconds, parse_bytes)
    for read in readers:
        try:
            numbers = [read(value) for value in values]
        except (NetsimError, ValueError, TypeError):
            continue
        return numbers if all(map(math.isfinite, numbers)) else None
    return None


def _draw_line(ax: Axes, own: pd.DataFrame, places: NDArray[np.float64], y: str, look: Look,
               label: str, *, joined: bool) -> None:
    """Draw a line through the means, with error bars or a band if there are intervals."""
    order = np.argsort(places, kind="stable")
    place, middle = places[order], own[y].to_numpy(float)[order]
    ax.plot(place, middle, label=short(label),
            **look.line() | ({} if joined else {"linestyle": ""}))
    if f"{y}_low" not in own or f"{y}_high" not in own:
        return
    low, high = (own[f"{y}_{end}"].to_numpy(float)[order] for end in ("low", "high"))
    if joined and len(places) > _BARS:
        ax.fill_between(place, low, high, color=look.colour, alpha=0.2, linewidth=0, zorder=1)
        return
    ax.errorbar(place, middle, [middle - low, high - middle], fmt="none", ecolor=look.colour,
                elinewidth=0.8, capsize=2, capthick=0.8, zorder=1.8)


def _set_x(ax: Axes, axis: _Axis) -> None:
    """Label the x axis with as many numbers as fit, or with all categories, slanted if needed."""
    from matplotlib.ticker import NullLocator

    ax.xaxis.set_minor_locator(NullLocator())
    ax.margins(x=0.06)
    labels = {place: short(value) if isinstance(value, str) else f"{value:g}"
              for value, place in axis.places.items()}
    kept = _fitting(ax, labels)
    if axis.numeric or len(kept) == len(labels):
        ax.set_xticks(list(kept), list(kept.values()))
    else:
        ax.set_xticks(list(labels), list(labels.values()), rotation=30, ha="right",
                      rotation_mode="anchor")


def _fitting(ax: Axes, labels: Mapping[float, str]) -> dict[float, str]:
    """Select labels of an x axis, in order, that do not overlap the previous one."""
    scaled = math.log if ax.get_xscale() == "log" else float
    low, high = map(scaled, ax.get_xlim())
    kept: dict[float, str] = {}
    free = -math.inf
    for place, label in labels.items():
        half = _LETTER * (max(map(len, label.split("\n"))) + 1) / 2
        spot = (scaled(place) - low) / (high - low)
        if spot - half >= free:
            kept[place], free = label, spot + half
    return kept


def _set_y(ax: Axes, known: pd.DataFrame, y: str) -> None:
    """Choose a scale on which small and large values are both legible."""
    ends = [known[name] for name in (y, f"{y}_low", f"{y}_high") if name in known]
    least, most = min(each.min() for each in ends), max(each.max() for each in ends)
    name, seconds = METRICS.get(y, y), y.endswith("_s")
    if least > 0 and known[y].max() >= _WIDE * known[y].min():
        ax.set_yscale("log")
        (log_seconds if seconds else log_values)(ax.yaxis)
        dress(ax, "both")
        name_axes(ax, y=name)
        return
    if least > 0 and most > 1.5 * least:  # otherwise differences could not be seen
        ax.set_ylim(1 if y == "over_lower_bound" else 0, None)
    dress(ax, "both")
    name_axes(ax, y=f"{name} (s)" if seconds and y in METRICS else name)
