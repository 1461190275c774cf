"""Plots of ratios: dots with their intervals on a logarithmic axis with a line at 1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Share of a row's height that its series have together.
_SHARE = 0.8


def ratio_dots(means: pd.DataFrame, rows: str, series: str, ax: Axes, name: str,
               among: Iterable[str] = ()) -> None:
    """Draw a dot with its 95 % confidence interval and its value for each ratio.

    `rows` and `series` are columns of the means table: that whose values are the rows, and that
    whose values have colours. `name` is the label of the axis, and `among` are all series of the
    figure, if other axes have more of them.
    """
    from netsim.plots.style import (
        INK,
        add_legend,
        add_note_to,
        dress,
        log_values,
        looks,
        name_axes,
        write_beside,
    )
    from netsim.plots.sweeps import interval_note

    order = {row: place for place, row in enumerate(dict.fromkeys(means[rows]))}
    style = looks(means[series], among)
    apart = _SHARE / len(style)
    for index, (label, look) in enumerate(style.items()):
        own = means[means[series] == label]
        middle = own["ratio"].to_numpy(float)
        places = own[rows].map(order).to_numpy(float) + apart * (index - (len(style) - 1) / 2)
        ends = own[["ratio_low", "ratio_high"]].to_numpy(float).T
        ax.errorbar(middle, places, xerr=[middle - ends[0], ends[1] - middle], color=look.colour,
                    linestyle="", marker=look.marker, markersize=4, elinewidth=0.9, capsize=2,
                    capthick=0.9, label=label)
        for place, value in zip(places, middle, strict=True):
            write_beside(ax, place, f"{value:.2f}")
    ax.axvline(1, color=INK, linewidth=0.8, zorder=1)
    ax.set_xscale("log")
    log_values(ax.xaxis)
    dress(ax, "x")
    ax.set_yticks(list(order.values()), list(order))
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    name_axes(ax, name)
    if len(style) > 1:
        add_legend(ax)
    add_note_to(ax, interval_note(means, "ratio"))


def same_ratios(axes: Sequence[Axes]) -> None:
    """Give axes of `ratio_dots` that are compared the range that all of them need."""
    from netsim.plots.style import log_values

    lows, highs = zip(*(ax.get_xlim() for ax in axes), strict=True)
    for ax in axes:
        ax.set_xlim(min(lows), max(highs))
        log_values(ax.xaxis)
