"""Bar plots of results, and writing plots to files; they need the extra ``plot`` (matplotlib)."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from netsim.analysis.comparison_table import LOWER_BOUND
from netsim.base.arrays import Floats
from netsim.base.files import atomic_write
from netsim.errors import InputError, OutputError
from netsim.plots.means import long_form, name_of, name_values
from netsim.plots.style import (
    INK,
    WIDTH_IN,
    add_legend,
    axes_on,
    colour,
    drawable,
    dress,
    fill,
    looks,
    name_axes,
    not_conserving,
    require_matplotlib,
    schemes_of,
    short,
    tag,
    three_figures,
    unit_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".pdf", ".png", ".svg")

#: Metadata that are left out of files: the time of day, and the version of matplotlib.
_LEFT_OUT = {"pdf": ["CreationDate"], "png": ["Software"], "svg": ["Date"]}

#: Height of a bar in inches; gap between two schemes in bars.
_BAR_IN, _GAP = 0.15, 0.7

#: Width of a letter of a name; width of names from which on there is little left for the bars;
#: width that bars need at least, with their label.
_LETTER_IN, _LONG_IN, _LEAST_IN = 0.058, 0.9, 2.0

_ANY = "#555555"  # stands for all colours in a legend

#: Embed TrueType fonts, as publishers ask, instead of outlines, and make ids reproducible.
_SAVE_STYLE: Any = {"pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "netsim"}


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
    require_matplotlib(ax)
    tables = table if isinstance(table, Mapping) else {"": table}
    metric = "over_lower_bound"
    return draw_bars({name: _of_policies(each, metric) for name, each in tables.items()}, metric,
                     ax)


def _of_policies(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Make a table of bars of a comparison, for `draw_bars`."""
    table = table[table["scheme"] != LOWER_BOUND]
    return long_form(table, metric, label=table.get("label", table["scheme"]),
                     scheme=table["scheme"], hollow=table["work_conservation"] == "none")


def bars_of(means: pd.DataFrame) -> pd.DataFrame:
    """Make a table of bars of means in long form, whose ``label`` names their policies."""
    schemes = schemes_of(means["label"])
    return means.assign(scheme=means["label"].map(schemes),
                        hollow=means["label"].map(not_conserving))


def draw_bars(tables: Mapping[str, pd.DataFrame], metric: str, ax: Axes | None = None,
              among: Iterable[str] = (), beside: Sequence[pd.DataFrame] = ()) -> Axes:
    """Draw a metric as a bar per scheme, in the style of `total_jct_bars`.

    A row of a table in long form is a bar: its ``label``, its ``scheme``, whose bars stand side by
    side, and whether it is ``hollow``. If there is one table, each scheme has a colour; if there
    are several, each table has a colour. Ratios to the lower bound are drawn on a logarithmic scale
    from 1, other metrics on a linear scale from 0. `among` is as for `looks`; `beside` are the
    tables of all panels, which share the axis.
    """
    if all(table.empty for table in tables.values()):
        raise InputError("there is nothing to draw: no table has a row for an allocator")
    bars = _from_the_top(tables.values())
    last, names = float(bars["y"].max()), [short(scheme) for scheme in bars["scheme"].unique()]
    ax = axes_on(ax, 1.0 + _BAR_IN * (last + 1), max(WIDTH_IN, _LEAST_IN + _room(names)))
    base = 1 if metric == "over_lower_bound" else 0  # where bars begin
    ends = pd.concat([*beside] or [bars])[["value", "low", "high"]].to_numpy()
    _set_scale(ax, last, metric, base, ends[np.isfinite(ends)], 1.25 if beside else 1.16)
    unit = unit_of(ax.get_xlim()[1])[1] if metric.endswith("_s") else 1
    style, rows = looks(bars["scheme"], among), cast("Iterable[Any]", bars.itertuples())
    for bar in rows:
        _draw(ax, bar, base, unit, fill(colour(bar.table), light=bar.hollow) if len(tables) > 1
              else style[bar.scheme]._replace(hollow=bar.hollow).bar())
    ax.set_yticks(bars.groupby("scheme", sort=False)["y"].mean(), names)
    if _room(names) > _LONG_IN:  # under the bars alone, the label would be cut off
        ax.xaxis.label.set(x=1, horizontalalignment="right")
    _add_legend(ax, list(tables), tones=bool(bars["hollow"].any()))
    return ax


def _from_the_top(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Join tables of bars, each with its number, and place those of a scheme side by side."""
    bars = pd.concat([each.assign(table=index) for index, each in enumerate(tables)])
    group = pd.factorize(bars["scheme"])[0]
    order = np.argsort(group, kind="stable")
    return bars.iloc[order].assign(y=np.arange(len(bars)) + _GAP * group[order])


def _room(names: Iterable[str]) -> float:
    """The width in inches that names of bars need."""
    return _LETTER_IN * max(len(line) for name in names for line in name.split("\n"))


def _draw(ax: Axes, bar: Any, base: int, unit: float, style: Mapping[str, Any]) -> None:
    """Draw a bar, with its error bar, and its value in some unit at the end."""
    known = math.isfinite(bar.value)
    end = bar.value if known else base
    if known:
        tag(bar.label, *ax.barh(bar.y, bar.value - base, left=base, height=0.86, **style))
    if known and math.isfinite(bar.low) and math.isfinite(bar.high):
        whisker = ax.errorbar(
            bar.value, bar.y, xerr=[[bar.value - bar.low], [bar.high - bar.value]], fmt="none",
            ecolor=INK, elinewidth=0.9, capsize=2, capthick=0.9)
        tag(bar.label, *whisker.lines[1], *whisker.lines[2])
        end = bar.high
    tag(bar.label, ax.annotate(
        three_figures(bar.value / unit) if known else "no job finished", (end, bar.y), (3, 0),
        textcoords="offset points", va="center", fontsize=6.5, color=INK))


def _set_scale(ax: Axes, last: float, metric: str, base: int, ends: Floats, room: float) -> None:
    """Set the scale of both axes, the ticks and the frame, with room for texts beside bars.

    A logarithmic axis begins at 1 or, with a line at 1, at the least ratio below 1.
    """
    least, largest = ends.min(initial=math.inf), ends.max(initial=base)
    if base:
        if least < 1:
            ax.axvline(1, color=INK, linewidth=0.8)
        ax.set(xscale="log",
               xlim=(1 if least >= 1 else 0.98 * least, max(largest, 1.5) ** room))
    else:
        ax.set_xlim(0, room * largest if largest > 0 else 1)
    ax.set_ylim(last + 0.8, -0.8)
    dress(ax, "x")
    name_values(ax.xaxis, metric)
    if base:  # the name tells of the scale, as readers would otherwise compare lengths
        name_axes(ax, f"{name_of(metric)} (log scale, 1 = alone)")
    ax.tick_params(axis="y", length=0)


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
        figure.savefig(picture, format=form, metadata=dict.fromkeys(_LEFT_OUT[form]))
    return picture.getvalue()
