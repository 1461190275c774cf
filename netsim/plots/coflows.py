"""Plots of coflows by class; they need the extra ``plot`` (matplotlib)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.analysis.coflows import ALL, CLASSES, by_class
from netsim.analysis.comparison import LOWER_BOUND
from netsim.base.units import Quantity, format_count
from netsim.errors import InputError
from netsim.plots.style import (
    INK,
    Look,
    add_legend,
    dress,
    head_beside,
    log_values,
    looks,
    name_axes,
    new_axes,
    require_matplotlib,
    short,
    tag,
    three_figures,
    write_beside,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from netsim.results.result import Result

_BAR_IN, _GAP = 0.14, 0.8  # height of a bar in inches; gap between classes in bars
_BESIDE = 0.03  # room beside bars, as a share of the length of the axis


def ratio_bars(ratios: pd.DataFrame, ax: Axes | None = None, among: Iterable[str] = ()) -> Axes:
    """Draw the mean CCT over that of the baseline, by class, as a bar per policy.

    Bars to the left of the line are better than the baseline, bars to the right worse. A black
    mark shows the ratio if every coflow had the network to itself.

    Parameters
    ----------
    ratios : DataFrame
        Ratios to the baseline as `netsim.Comparison.against` returns them.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure, one paper column wide.
    among : iterable of str
        All labels of the comparison, so that policies have the colours of its other pictures.

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
    from matplotlib.lines import Line2D

    known = ratios[np.isfinite(ratios["cct_mean_ratio"])]
    labels = [label for label in dict.fromkeys(known["label"]) if label != LOWER_BOUND]
    if not labels:
        raise InputError("there is nothing to draw: no ratio to the baseline is known")
    counts = known.drop_duplicates("class").set_index("class")["coflows"].to_dict()
    ax, tops = _class_rows(ax, counts, len(labels))
    means = known.set_index(["class", "label"])["cct_mean_ratio"]
    style = looks(labels, among)
    for name, top in tops.items():
        for index, label in enumerate(labels):
            if (name, label) in means:
                ratio = means[name, label]
                tag(label, *ax.barh(top + index, ratio - 1, left=1, height=0.84, zorder=2,
                                    **style[label].bar()),
                    write_beside(ax, top + index, three_figures(ratio)))
        if (name, LOWER_BOUND) in means:
            ax.plot([means[name, LOWER_BOUND]] * 2, [top - 0.5, top + len(labels) - 0.5],
                    color=INK, linewidth=1.2, solid_capstyle="butt", zorder=1.5)
    _finish(ax, means.to_numpy(), f"mean CCT / that of {known['baseline'].iloc[0]}")
    _add_key(ax, style, Line2D([], [], color=INK, linewidth=1.2, label="every coflow alone"))
    return ax


def slowdown_bars(results: Mapping[str, Result], ax: Axes | None = None, *,
                  short: Quantity = "5MB", narrow: int = 50) -> Axes:
    """Draw the slowdown of coflows, CCT over CCT alone, by class, as a bar per policy.

    A bar ends at the mean slowdown, which is written beside it, the thin line at the 95th
    percentile.

    Parameters
    ----------
    results : mapping of str to Result
        Results by label, all of the same workload, with coflows recorded.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure, one paper column wide.
    short, narrow
        As for `netsim.classify_coflows`.

    Returns
    -------
    Axes

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    InputError
        If coflows were not recorded, there is nothing to draw, or a threshold is invalid.
    """
    require_matplotlib(ax)
    from matplotlib.lines import Line2D

    tables = {label: by_class(result, short=short, narrow=narrow).set_index("class")
              for label, result in results.items()}
    tables = {label: table[np.isfinite(table["slowdown_mean"])] for label, table in tables.items()}
    known = pd.concat(tables.values()) if tables else None
    if known is None or known.empty:
        raise InputError("there is nothing to draw: no coflow with bytes has completed")
    counts = known.groupby(level=0)["coflows"].max().to_dict()
    ax, tops = _class_rows(ax, counts, len(tables))
    style = looks(tables, results)
    for index, (label, table) in enumerate(tables.items()):
        for name, row in table.iterrows():
            y, mean, most = tops[str(name)] + index, row["slowdown_mean"], row["slowdown_p95"]
            tag(label, *ax.barh(y, mean - 1, left=1, height=0.84, zorder=2, **style[label].bar()),
                *ax.plot([mean, most], [y, y], color=INK, linewidth=0.9, zorder=2.5, marker="|",
                         markersize=3.6, markevery=[1]),
                write_beside(ax, y, three_figures(mean)))
    head_beside(ax, "mean")
    _finish(ax, known[["slowdown_mean", "slowdown_p95"]].to_numpy(),
            "slowdown: CCT / CCT alone")
    _add_key(ax, style, Line2D([], [], color=INK, linewidth=0.9, label="to the 95th percentile"))
    return ax


def _class_rows(ax: Axes | None, counts: Mapping[Any, int], bars: int
                ) -> tuple[Axes, dict[str, float]]:
    """Make axes with a row per class that has coflows, and find the y of each row's first bar."""
    height = max(bars + _GAP, 2.2)  # at least that of a label in two lines
    classes = [name for name in (*CLASSES, ALL) if name in counts]
    if ax is None:
        ax = new_axes(height_in=0.75 + _BAR_IN * height * len(classes) + 0.06 * bars)
    tops = {name: place * height for place, name in enumerate(classes)}
    ax.set_yticks([top + (bars - 1) / 2 for top in tops.values()],
                  [f"{name}\n{format_count(counts[name], 'coflow')}"
                   for name in classes])
    ax.set_ylim(max(tops.values()) + bars - 0.1, -0.9)
    return ax, tops


def _finish(ax: Axes, ends: NDArray[np.float64], name: str) -> None:
    """Set a logarithmic x axis that includes 1, with a little room beside bars."""
    low, high = min(ends.min(), 1), max(ends.max(), 1)
    room = max(high / low, 1.5) ** _BESIDE
    ax.axvline(1, color=INK, linewidth=0.8)
    ax.set_xscale("log")
    ax.set_xlim(low / (room if low < 1 else 1.02), high * room)
    log_values(ax.xaxis)
    name_axes(ax, f"{name} (log scale)")  # readers would otherwise compare lengths
    dress(ax, "x")
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)


def _add_key(ax: Axes, style: Mapping[str, Look], line: Line2D) -> None:
    """Add a legend with an entry per policy and one for the line."""
    from matplotlib.patches import Patch

    entries: list[Any] = [Patch(label=short(label), **look.bar()) for label, look in style.items()]
    add_legend(ax, [*entries, line])
