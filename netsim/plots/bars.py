"""Bar plots of results, and writing plots to files; they need the extra ``plot`` (matplotlib)."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.analysis.comparison import LOWER_BOUND
from netsim.base.files import atomic_write
from netsim.errors import InputError, OutputError
from netsim.plots.style import (
    INK,
    WIDTH_IN,
    add_legend,
    axes_on,
    colour,
    drawable,
    dress,
    fill,
    log_values,
    looks,
    name_axes,
    require_matplotlib,
    seconds_axis,
    short,
    tag,
    three_figures,
    unit_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".pdf", ".png", ".svg")

#: What a file of each format would have of the time of day, or of the version of matplotlib.
_DATES = {"pdf": ["CreationDate"], "png": ["Software"], "svg": ["Date"]}

#: Height of a bar in inches; gap between two schemes in bars.
_BAR_IN, _GAP = 0.15, 0.7

#: Width of a letter of a name; width of names from which on there is little left for the bars;
#: width that bars need at least, with their label.
_LETTER_IN, _LONG_IN, _LEAST_IN = 0.058, 0.9, 2.0

_ANY = "#555555"  # stands for all colours in a legend

#: Embed TrueType fonts, as publishers ask, instead of outlines, and make ids reproducible.
_SAVE_STYLE: Any = {"pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "netsim"}


class _Metric(NamedTuple):
    """The metric that bars show: a ratio on a logarithmic axis from 1, or an amount from 0."""

    key: str
    name: str

    @property
    def base(self) -> int:
        """Value at which bars begin."""
        return 1 if self.key == "over_lower_bound" else 0

    @property
    def is_time(self) -> bool:
        """Whether values are seconds, which the axis shows in seconds, hours or days."""
        return self.key.endswith("_s")


def total_jct_bars(table: pd.DataFrame | Mapping[str, pd.DataFrame], ax: Axes | None = None
                   ) -> Axes:
    """Draw total JCT over the lower bound as a bar per allocator, on a logarithmic scale.

    The variants of a scheme with and without work conservation are drawn side by side; the bar of
    the variant without is lighter. If a table has the columns ``over_lower_bound_low`` and
    ``over_lower_bound_high``, the interval is drawn as an error bar.

    Parameters
    ----------
    table : DataFrame, or mapping of str to DataFrame
        A `netsim.Comparison.table`, or several by name, such as ``{"10 Gbps": ...}``, each
        drawn in its own colour.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure, one paper column wide.

    Returns
    -------
    Axes

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    InputError
        If there is nothing to draw.
    """
    tables = dict(table) if isinstance(table, Mapping) else {"": table}
    return metric_bars(tables, "over_lower_bound", "total JCT / lower bound", ax)


def metric_bars(tables: Mapping[str, pd.DataFrame], metric: str, name: str,
                ax: Axes | None = None, among: Iterable[str] = (),
                beside: Iterable[pd.DataFrame] = ()) -> Axes:
    """Draw a metric as a bar per scheme, in the style of `total_jct_bars`.

    Ratios to the lower bound are drawn on a logarithmic scale from 1, other metrics on a linear
    scale from 0. If there is one table, each scheme has a colour; if there are several, each table
    has a colour. Tables have the columns ``scheme``, ``work_conservation`` and that of the metric,
    and perhaps those of its interval, such as ``jct_mean_s_low``. `among` is as for `looks`;
    `beside` are the tables of all panels, which share the axis.
    """
    require_matplotlib(ax)
    if all((table["scheme"] == LOWER_BOUND).all() for table in tables.values()):
        raise InputError("there is nothing to draw: no table has a row for an allocator")
    shown, bars = _Metric(metric, name), _tidy(tables.values(), metric)
    last, names = float(bars["y"].max()), [short(scheme) for scheme in bars["scheme"].unique()]
    ax = axes_on(ax, 1.0 + _BAR_IN * (last + 1), max(WIDTH_IN, _LEAST_IN + _room(names)))
    panels = [*beside]
    ends = (_tidy(panels, metric) if panels else bars)[["value", "low", "high"]].to_numpy()
    _set_scale(ax, last, shown, ends[np.isfinite(ends)], 1.25 if panels else 1.16)
    style, rows = looks(bars["scheme"], among), cast("Iterable[Any]", bars.itertuples())
    for bar in rows:
        _draw(ax, bar, shown, fill(colour(bar.table), light=bar.hollow) if len(tables) > 1
              else style[bar.scheme]._replace(hollow=bar.hollow).bar())
    ax.set_yticks(bars.groupby("scheme", sort=False)["y"].mean(), names)
    if _room(names) > _LONG_IN:  # under the bars alone, the label would be cut off
        ax.xaxis.label.set(x=1, horizontalalignment="right")
    _add_legend(ax, list(tables), tones=bool(bars["hollow"].any()))
    return ax


def _tidy(tables: Iterable[pd.DataFrame], metric: str) -> pd.DataFrame:
    """Make a table with a row per bar from the top, those of a scheme side by side."""
    rows = [pd.DataFrame({
        "scheme": each["scheme"], "label": each.get("label", each["scheme"]), "table": index,
        "hollow": each["work_conservation"] == "none", "value": each[metric],
        "low": each.get(f"{metric}_low", math.nan), "high": each.get(f"{metric}_high", math.nan)})
        for index, each in enumerate(tables)]
    bars = pd.concat(rows).astype({"value": float, "low": float, "high": float})
    bars = bars[bars["scheme"] != LOWER_BOUND]
    group = pd.factorize(bars["scheme"])[0]
    order = np.argsort(group, kind="stable")
    return bars.iloc[order].assign(y=np.arange(len(bars)) + _GAP * group[order])


def _room(names: Iterable[str]) -> float:
    """The width in inches that names of bars need."""
    return _LETTER_IN * max(len(line) for name in names for line in name.split("\n"))


def _draw(ax: Axes, bar: Any, metric: _Metric, style: Mapping[str, Any]) -> None:
    """Draw a row of `_tidy`: the bar, with its error bar, and its value at the end."""
    known = math.isfinite(bar.value)
    end = bar.value if known else metric.base
    if known:
        tag(bar.label, *ax.barh(bar.y, bar.value - metric.base, left=metric.base, height=0.86,
                                **style))
    if known and math.isfinite(bar.low) and math.isfinite(bar.high):
        whisker = ax.errorbar(
            bar.value, bar.y, xerr=[[bar.value - bar.low], [bar.high - bar.value]], fmt="none",
            ecolor=INK, elinewidth=0.9, capsize=2, capthick=0.9)
        tag(bar.label, *whisker.lines[1], *whisker.lines[2])
        end = bar.high
    unit = unit_of(ax.get_xlim()[1])[1] if metric.is_time else 1
    tag(bar.label, ax.annotate(
        three_figures(bar.value / unit) if known else "no job finished", (end, bar.y), (3, 0),
        textcoords="offset points", va="center", fontsize=6.5, color=INK))


def _set_scale(ax: Axes, last: float, metric: _Metric, ends: NDArray[np.float64], room: float
               ) -> None:
    """Set the scale of both axes, the ticks and the frame, with room for texts beside bars."""
    largest = ends.max(initial=metric.base)
    if metric.base:
        ax.set_xscale("log")
        _ratios_from_1(ax, min(ends, default=1), largest, room)
    else:
        ax.set_xlim(0, room * largest if largest > 0 else 1)
    ax.set_ylim(last + 0.8, -0.8)
    # The name tells of the scale, as readers would otherwise compare lengths.
    name_axes(ax, f"{metric.name} (log scale, 1 = alone)" if metric.base else metric.name)
    dress(ax, "x")
    if metric.is_time:
        seconds_axis(ax.xaxis, metric.name)
    ax.tick_params(axis="y", length=0)


def _ratios_from_1(ax: Axes, least: float, most: float, room: float) -> None:
    """Start a logarithmic x axis at 1 or, with a line at 1, at the least ratio below 1."""
    if least < 1:
        ax.axvline(1, color=INK, linewidth=0.8)
    ax.set_xlim(1 if least >= 1 else 0.98 * least, max(most, 1.5) ** room)
    log_values(ax.xaxis)


def _add_legend(ax: Axes, names: list[str], *, tones: bool) -> None:
    """Add a legend of colours if there are several tables, and of tones if both are drawn."""
    from matplotlib.patches import Patch

    entries = []
    if len(names) > 1:
        entries += [Patch(label=drawable(name), **fill(colour(index), light=False))
                    for index, name in enumerate(names)]
    if tones:
        entries += [Patch(label="with work conservation", **fill(_ANY, light=False)),
                    Patch(label="without", **fill(_ANY, light=True))]
    if entries:
        add_legend(ax, entries)


def check_plottable(path: str | Path) -> None:
    """Check before a long run that a plot can be drawn, and written to a file of that name."""
    require_matplotlib()
    if Path(path).suffix.lower() not in SUFFIXES:
        raise OutputError(f"{path}: the suffix of a plot must be one of {', '.join(SUFFIXES)}")
    if Path(path).is_dir():
        raise OutputError(f"{path}: is a folder, not a file")
    existing = next(parent for parent in Path(path).absolute().parents if parent.exists())
    if not (existing.is_dir() and os.access(existing, os.W_OK)):
        raise OutputError(f"{path}: cannot be written: {existing} is not a writable folder")


def save_plot(ax: Axes, path: str | Path) -> Path:
    """Write the figure of `ax` to a file atomically.

    Text stays text in ``.pdf`` and ``.svg``, and the same figure always gives the same bytes.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    check_plottable(path)
    target = Path(path)
    with atomic_write(path, folders=True) as temporary:
        # Drawn in memory first: matplotlib turns a full disk into errors of other types.
        temporary.write_bytes(picture_of(ax.figure.canvas.figure, target.suffix[1:].lower()))
    return target


def picture_of(figure: Figure, form: str) -> bytes:
    """Draw a figure as ``"pdf"``, ``"png"`` or ``"svg"``, as `save_plot` writes it."""
    from matplotlib import rc_context

    picture = io.BytesIO()
    with rc_context(_SAVE_STYLE):
        figure.savefig(picture, format=form, metadata=dict.fromkeys(_DATES[form]))
    return picture.getvalue()
