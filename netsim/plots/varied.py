"""Settings that a sweep varied, in words, places and roles; lines and bars of means over seeds.

Plots, which need the extra ``plot``, take a *means table*: a row per combination of values of the
varied keys; a column per key, then ``runs``, and for each metric its mean and the ends of its 95 %
confidence interval, such as ``jct_mean_s``, ``jct_mean_s_low`` and ``jct_mean_s_high``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.analysis.intervals import RATIOS, policies_in
from netsim.base.units import format_quantity, parse_bytes, parse_rate, parse_seconds
from netsim.errors import InputError, NetsimError, UnknownNameError
from netsim.plots.style import (
    INK,
    Look,
    drawable,
    dress,
    fitting,
    log_seconds,
    log_values,
    mark_cut_axis,
    not_conserving,
    schemes_of,
    seconds_axis,
    short,
)

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.colorbar import Colorbar

#: Roles that a varied setting can have in a figure.
ROLES = ("x", "y", "hue", "col", "row", "style")

SCALES = ("linear", "log", "categories")

#: Settings in words, where the last part of the key does not say it.
_WORDS = {"network.capacity": "link speed", "network.name": "network", "cluster.name": "cluster",
          "workload.name": "workload", "edge_cloud.name": "edge-cloud", "gpus": "GPUs",
          "nic": "NIC",
          "edge_cloud.edge_links": "links of edge servers",
          "workload.servers_max": "most servers of a job", "lam": "lambda",
          "workload.sample": "jobs", "workload.single_gpu_share": "share of jobs on one GPU",
          "workload.configurations": "plans",
          "workload.poisson_mean": "mean time between arrivals"}

#: Units of settings that are given as plain numbers.
_UNITS = {"observe_interval": "s", "network.capacity": "B/s"}

_QUANTITY = re.compile(r"([-+.\deE]+)\s*([^\W\d_][\w/%]*)")

WIDE = 10.0  # ratio of the largest to the smallest value from which an axis is logarithmic

_LISTED = 8  # most numbers that an axis labels one by one; of more, it labels round ones

_APART = 12  # most numbers that panels or colours are for

_TICKS = 6  # most ticks of a linear axis with round numbers


class Placed(NamedTuple):
    """The positions of a setting's values on an axis."""

    places: dict[Any, float]  #: by value, in the order of the axis
    scale: str  #: one of `SCALES`
    numeric: bool  #: whether values are numbers, so that lines may join them
    labels: dict[float, str]  #: by position: of all values, or of round ones if there are many
    name: str  #: the setting in words, with the unit if all values have the same

    @property
    def matplotlib_scale(self) -> str:
        """The scale as matplotlib calls it; a single value is on a linear one."""
        return "log" if self.scale == "log" and len(self.places) > 1 else "linear"


def words(key: str) -> str:
    """Put a key of an experiment file in words: ``"network.capacity"`` is the ``"link speed"``."""
    if key in _WORDS:
        return _WORDS[key]
    *table, last = key.split(".")
    kept = [*table[-1:], last] if last in ("name", "seed", "kind") else [last]
    return " ".join(_WORDS.get(part, part) for part in kept).replace("_", " ")


def titled(key: str, value: Any) -> str:
    """Write a title for a value of a setting: names alone, numbers with the setting."""
    if isinstance(value, str):
        found = _quantity(value)
        return (f"{words(_setting(key, [value]))} {_rounded(found[1])} {found[2]}" if found
                else value)
    return f"{words(key)} {_number(value)} {_UNITS.get(key, '')}".rstrip()


def _setting(key: str, values: Sequence[Any]) -> str:
    """The setting in which values differ: for networks that are called by speeds, the speed."""
    return "network.capacity" if key == "network" and _numbers(values)[1] == "B/s" else key


def labels_of(table: pd.DataFrame, keys: Sequence[str]) -> pd.Series:
    """Label each row by its values of `keys`, numbers with the name of their key."""
    parts = [table[key].map(lambda value, key=key: value if isinstance(value, str)
                            else f"{key.rpartition('.')[-1]} {value}") for key in keys]
    return pd.Series([", ".join(row) for row in zip(*parts, strict=True)] if parts else "",
                     index=table.index, dtype=object)


# --- axes ----------------------------------------------------------------------------------
def placed(values: list[Any], key: str, scale: str | None) -> Placed:
    """Choose the scale of an axis, and the position and the label of each value of a setting.

    Values are distinct and in order. Without a `scale`, it is one that suits the values.
    """
    if scale is not None and scale not in SCALES:
        raise UnknownNameError("scale", scale, SCALES)
    key = _setting(key, values)
    texts, unit = _texts(values, key)
    name = f"{words(key)} ({unit})" if unit else words(key)
    numbers, kind = _numbers(values)
    if numbers is None:
        if scale in ("linear", "log"):
            raise InputError(f"{key} has no {scale} scale: not all of its values are numbers, or "
                             f"quantities of one kind: {', '.join(map(repr, values))}")
        places = {value: float(place) for place, value in enumerate(values)}
        return Placed(places, "categories", False, _by_place(places, texts), name)
    ordered = sorted(values, key=dict(zip(values, numbers, strict=True)).__getitem__)
    chosen = scale or _natural(sorted(numbers))
    if chosen == "log" and min(numbers) <= 0:
        raise InputError(f"{key} has no log scale: it has the value {ordered[0]!r}")
    spots = range(len(ordered)) if chosen == "categories" else sorted(numbers)
    places = {value: float(spot) for value, spot in zip(ordered, spots, strict=True)}
    if chosen == "categories" or len(values) <= _LISTED:
        return Placed(places, chosen, True, _by_place(places, texts), name)
    rounded, unit = _round_labels(numbers, kind or _UNITS.get(key, ""), chosen)
    return Placed(places, chosen, True, rounded, f"{words(key)} ({unit})" if unit else words(key))


def _round_labels(numbers: Sequence[float], kind: str, scale: str
                  ) -> tuple[dict[float, str], str]:
    """Label round numbers in the range of others; return also the unit that all have, if any."""
    from matplotlib.ticker import MaxNLocator

    low, high = min(numbers), max(numbers)
    unit = 0.125 if kind == "B/s" else 1.0  # rates are round in bits
    if scale == "log":
        powers = range(math.floor(math.log10(low / unit)), math.ceil(math.log10(high / unit)) + 1)
        decades = [10.0**power * unit for power in powers]
        few = sum(low <= decade <= high for decade in decades) < 3
        ticks = [digit * decade for decade in decades for digit in ((1, 2, 5) if few else (1,))]
    else:
        whole = all(number == int(number) for number in numbers)
        locator = MaxNLocator(_TICKS, steps=[1, 2, 5, 10], integer=whole)
        ticks = [tick * unit for tick in locator.tick_values(low / unit, high / unit)]
    within = [tick for tick in ticks if low <= tick <= high]
    if not kind:
        return {tick: f"{tick:,g}" for tick in within}, ""
    texts = {tick: format_quantity(tick, kind).split() for tick in within}
    units = {name for _, name in texts.values()}
    if len(units) == 1:
        return {tick: number for tick, (number, _) in texts.items()}, units.pop()
    return {tick: f"{number} {name}" for tick, (number, name) in texts.items()}, ""


def _by_place(places: Mapping[Any, float], texts: Mapping[Any, str]) -> dict[float, str]:
    """The labels of values, by position."""
    return {place: texts[value] for value, place in places.items()}


def _texts(values: Sequence[Any], key: str) -> tuple[dict[Any, str], str]:
    """The label of each value, and the unit that all have in common, or an empty text."""
    found = {value: _quantity(value) for value in values}
    units = {match[2] for match in found.values() if match}
    bare = [value for value in values if not found[value]]
    if len(units) == 1 and not any(map(_is_amount, bare)):
        return {value: _rounded(match[1]) if match else "0"
                for value, match in found.items()}, min(units)
    if not units and all(isinstance(value, int | float) for value in values):
        return {value: _number(value) for value in values}, _UNITS.get(key, "")
    return {value: f"{_rounded(match[1])} {match[2]}" if match else _number(value)
            for value, match in found.items()}, ""


def _quantity(value: Any) -> re.Match[str] | None:
    """Match the number and the unit of a quantity, such as ``"10Gbps"``."""
    return (_QUANTITY.fullmatch(value) if isinstance(value, str) and _numbers([value])[0]
            else None)


def _rounded(number: str) -> str:
    """Shorten the digits after the decimal point, of which drawn values have many."""
    return (f"{int(number):,}" if number.isdecimal() else
            f"{float(number):.4g}" if "." in number else number)


def _is_amount(value: Any) -> bool:
    """Whether a value needs a unit but has none; zero needs none."""
    return str(value).strip("0.") != ""


def _number(value: Any) -> str:
    """Write a value as text; numbers without superfluous digits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return short(str(value))
    return f"{value:,.10g}" if value == int(value) else f"{value:,.4g}"


def _natural(numbers: list[float]) -> str:
    """The default scale for sorted numbers."""
    positive = [number for number in numbers if number > 0]
    if numbers[0] < 0 or not positive or positive[-1] < WIDE * positive[0]:
        return "linear"
    return "log" if numbers[0] > 0 else "categories"


def _numbers(values: Sequence[Any]) -> tuple[list[float] | None, str]:
    """Parse values as numbers, or as quantities of one kind; return them with their unit.

    None if they are neither.
    """
    if any(isinstance(value, bool) for value in values):
        return None, ""
    readers: tuple[tuple[Callable[[Any], float], str], ...] = (
        (float, ""), (parse_rate, "B/s"), (parse_seconds, "s"), (parse_bytes, "B"))
    for read, unit in readers:
        try:
            numbers = [read(value) for value in values]
        except (NetsimError, ValueError, TypeError):
            continue
        return (numbers, unit) if all(map(math.isfinite, numbers)) else (None, "")
    return None, ""


def numbers_among(table: pd.DataFrame, keys: Sequence[str]) -> list[str]:
    """Select the settings whose values are several numbers or quantities, most values first."""
    counts = {key: table[key].nunique() for key in keys
              if table[key].nunique() > 1 and _numbers(list(table[key].unique()))[0] is not None}
    return sorted(counts, key=counts.__getitem__, reverse=True)


def is_range_of(values: pd.Series) -> bool:
    """Whether a setting has more numeric values than panels or colours can distinguish."""
    return values.nunique() > _APART and _numbers(list(values.unique()))[0] is not None


def drawn_together(table: pd.DataFrame, keys: Sequence[str]) -> list[str]:
    """Select the settings that were drawn together as points from ranges.

    If two settings are combined, each value of one occurs with each value of the other. In drawn
    points, each value occurs with few.
    """
    counts = {key: table[key].nunique() for key in keys if table[key].nunique() > 2
              and _numbers(list(table[key].unique()))[0] is not None}
    found = {key for pair in combinations(counts, 2) for key in pair
             if len(table[list(pair)].drop_duplicates()) == max(map(counts.__getitem__, pair))}
    return [key for key in keys if key in found]


# --- roles ---------------------------------------------------------------------------------
def roles_of(varied: Mapping[str, int], roles: Sequence[str], given: Mapping[str, str | None]
             ) -> dict[str, str]:
    """Give each varied setting a role in a figure, after the settings that the caller chose.

    `varied` has the number of values of each setting. `roles` are filled in their order: the policy
    is the hue; x and y are the other settings with the most values. Settings other than policies
    that have one value get no role unless they are given one.
    """
    chosen = {role: key for role, key in given.items() if key is not None}
    for role, key in chosen.items():
        if role not in roles:
            raise InputError(f"this plot has no {role} to choose; choose from: {', '.join(roles)}")
        if key not in varied:
            raise UnknownNameError("varied key", key, varied)
        if list(chosen.values()).count(key) > 1:
            twice = " and ".join(other for other, its in chosen.items() if its == key)
            raise InputError(f"{key} is given as {twice}; a setting has one role in a plot")
    policies = policies_in(varied)
    left = [key for key in (*policies, *(key for key in varied if key not in policies))
            if key not in chosen.values() and (key in policies or varied[key] > 1)]
    for role in roles:
        if role in chosen or not (left or role in ("x", "y")):
            continue
        others = [key for key in left if key not in policies]
        if role in ("x", "y"):
            if not others:
                others = [key for key in varied if key not in policies
                          and key not in chosen.values()]
            if not others:
                known = [*policies, *(key for key in chosen.values() if key not in policies)]
                raise InputError(
                    f"nothing but the {' and the '.join(known) or 'seed'} was varied"
                    + (": draw bars" if role == "x" else
                       ", and this plot needs a setting along x and one along y"))
            chosen[role] = max(others, key=varied.__getitem__)
        else:
            chosen[role] = left[0]
        left = [key for key in left if key != chosen[role]]
    left = [key for key in left if varied[key] > 1]
    if left:
        raise InputError(f"{', '.join(left)} varied too, for which the plot has no place: choose "
                         "runs with Sweep.where")
    return chosen


# --- lines and bars of means ---------------------------------------------------------------

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
    if least > 0 and known[y].max() >= WIDE * known[y].min():
        ax.set_yscale("log")
        dress(ax, "both")
        _name_values(ax.yaxis, y)
        return
    natural = 1 if y in ("over_lower_bound", "ratio_paper") else 0  # what no run is below
    cut = False
    if least > 0 and most > 1.5 * least:
        if least >= natural:  # else an interval would be cut
            ax.set_ylim(natural, None)
    elif least > 0:  # from zero, differences could not be seen
        cut = ax.get_ylim()[0] > natural
    dress(ax, "both")
    _name_values(ax.yaxis, y)
    if cut:
        mark_cut_axis(ax)


def _name_values(axis: Axis, metric: str) -> None:
    """Name an axis of a metric, and label its values as they suit the scale."""
    name, seconds = METRICS.get(metric, words(metric.removesuffix("_s"))), metric.endswith("_s")
    axis.set_label_text(drawable(name), fontsize=7.5, color=INK)
    if axis.get_scale() == "log":
        (log_seconds if seconds else log_values)(axis)
    elif seconds:
        seconds_axis(axis, name)


def shades_of(values: pd.Series) -> dict[str, Any]:
    """Matplotlib's style of dots with colours for values."""
    from matplotlib.colors import LogNorm, Normalize

    low, high = float(values.min()), float(values.max())
    is_log = low > 0 and high >= WIDE * low
    return {"cmap": "viridis", "norm": (LogNorm if is_log else Normalize)(low, high),
            "edgecolors": INK, "linewidths": 0.3}


def name_shades(bar: Colorbar, metric: str) -> None:
    """Label a bar of colours with a metric and its values."""
    bar.ax.tick_params(labelsize=7, labelcolor=INK)
    _name_values(bar.ax.yaxis, metric)
