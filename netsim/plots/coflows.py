"""Plots of coflows by class; they need the extra ``plot`` (matplotlib)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from netsim.analysis.coflows import ALL, CLASSES, by_class
from netsim.analysis.comparison_table import LOWER_BOUND
from netsim.base.arrays import Floats
from netsim.base.units import Quantity, format_count
from netsim.errors import InputError
from netsim.plots.style import (
    INK,
    add_legend,
    axes_on,
    dress,
    head_beside,
    log_values,
    looks,
    name_axes,
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

    known = ratios[np.isfinite(ratios["cct_mean_ratio"])].rename(
        columns={"cct_mean_ratio": "value"})
    alone = known["label"] == LOWER_BOUND
    if alone.all():
        raise InputError("there is nothing to draw: no ratio to the baseline is known")
    counts = known.drop_duplicates("class").set_index("class")["coflows"].to_dict()
    ax, places = _class_bars(
        ax, known[~alone], counts, among, f"mean CCT / that of {known['baseline'].iloc[0]}",
        known["value"], Line2D([], [], color=INK, linewidth=1.2, label="every coflow alone"))
    for of, ratio in zip(known["class"][alone], known["value"][alone], strict=True):
        rows = [y for (name, _), y in places.items() if name == of]
        ax.plot([ratio] * 2, [min(rows) - 0.5, max(rows) + 0.5], color=INK, linewidth=1.2,
                solid_capstyle="butt", zorder=1.5)
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

    tables = [by_class(result, short=short, narrow=narrow).assign(label=label)
              for label, result in results.items()]
    known = pd.concat(tables) if tables else pd.DataFrame(columns=["slowdown_mean"])
    known = known[np.isfinite(known["slowdown_mean"].astype(float))]
    if known.empty:
        raise InputError("there is nothing to draw: no coflow with bytes has completed")
    known = known.rename(columns={"slowdown_mean": "value"})
    ax, places = _class_bars(
        ax, known, known.groupby("class")["coflows"].max().to_dict(), results,
        "slowdown: CCT / CCT alone", known[["value", "slowdown_p95"]],
        Line2D([], [], color=INK, linewidth=0.9, label="to the 95th percentile"))
    for row in known.to_dict("records"):
        y = places[row["class"], row["label"]]
        tag(row["label"], *ax.plot([row["value"], row["slowdown_p95"]], [y, y], color=INK,
                                   linewidth=0.9, zorder=2.5, marker="|", markersize=3.6,
                                   markevery=[1]))
    head_beside(ax, "mean")
    return ax


def _class_bars(ax: Axes | None, bars: pd.DataFrame, counts: Mapping[Any, int],
                among: Iterable[str], name: str, ends: Any, line: Line2D
                ) -> tuple[Axes, dict[tuple[str, str], float]]:
    """Draw a bar from 1 to each ``value`` of a ``class`` and a ``label``, a row per class.

    `counts` are the coflows of each class, `ends` all values to be on the logarithmic axis of some
    `name`, and `line` is an entry of the legend. Return also the y of each bar.
    """
    from matplotlib.patches import Patch

    labels = list(dict.fromkeys(bars["label"]))
    style, height = looks(labels, among), max(len(labels) + _GAP, 2.2)  # or of two lines of text
    classes = [each for each in (*CLASSES, ALL) if each in counts]
    ax = axes_on(ax, 0.75 + _BAR_IN * height * len(classes) + 0.06 * len(labels))
    places = {(of, label): row * height + index for row, of in enumerate(classes)
              for index, label in enumerate(labels)}
    values = bars.set_index(["class", "label"])["value"].to_dict()
    for (of, label), y in places.items():
        if (of, label) in values:
            value = values[of, label]
            tag(label, write_beside(ax, y, three_figures(value)), *ax.barh(
                y, value - 1, left=1, height=0.84, zorder=2, **style[label].bar()))
    middle = (len(labels) - 1) / 2
    ax.set_yticks([row * height + middle for row in range(len(classes))],
                  [f"{of}\n{format_count(counts[of], 'coflow')}" for of in classes])
    ax.set_ylim(max(places.values()) + 0.9, -0.9)
    _finish(ax, np.asarray(ends, np.float64), name)
    add_legend(ax, [*(Patch(label=short(label), **look.bar()) for label, look in style.items()),
                    line])
    return ax, places


def _finish(ax: Axes, ends: Floats, name: str) -> None:
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
