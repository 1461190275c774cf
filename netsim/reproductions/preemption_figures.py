"""Plots of the studies of preemption: what layers explain, and what preemption is worth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from netsim.analysis.intervals import geometric_interval
from netsim.reproductions.claims import Runs, words
from netsim.reproductions.joint_figures import WIDTH_IN, draw_shares, draw_spreads, name_rows
from netsim.reproductions.layer_claims import Conditions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TICKS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5)


class Worth(NamedTuple):
    """The worth of preemption in one place: a scheduler over its twin, which does not preempt."""

    setting: str
    own: str
    twin: str
    placement: str
    restore: str  #: the time that restoring takes
    measure: Callable[[Runs], pd.Series]  #: the ratio of mean JCTs for each seed


def draw_study(conditions: Conditions, worths: Sequence[Worth], runs: Runs) -> Axes:
    """Draw the shares of layers, the cost of their worst choices, and the worth of preemption.

    `worths` are ordered by setting; there is a panel for each setting. The axes of the shares are
    returned.
    """
    from netsim.plots.style import INK, add_note, new_figure

    figure = new_figure(5.6, WIDTH_IN)
    upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=(3, 2.6))[:, 0]
    first, second = upper.subplots(1, 2, sharey=True)
    draw_shares(first, conditions, runs)
    draw_spreads(second, conditions, runs)
    name_rows(first, conditions)
    settings = {name: list(each) for name, each in groupby(worths, lambda each: each.setting)}
    panels = lower.subplots(1, len(settings), sharey=True, squeeze=False)[0]
    for ax, (setting, each) in zip(panels, settings.items(), strict=True):
        _draw_worth(ax, each, runs)
        ax.set_title(setting, fontsize=8, loc="left", color=INK)
    panels[0].set_ylabel("mean JCT / that\nwithout preemption", fontsize=7.5, color=INK)
    lower.legend(handles=panels[0].get_legend_handles_labels()[0], loc="outside upper center",
                 ncols=2, frameon=False, fontsize=7.5, labelcolor=INK)
    add_note(figure, "whiskers: from the least to the largest ratio of all seeds")
    return first


def _draw_worth(ax: Axes, worths: Iterable[Worth], runs: Runs) -> None:
    """Draw a line for each scheduler and placement, with the range of seeds, against the cost."""
    from matplotlib.ticker import NullLocator

    from netsim.plots.style import COLOURS, INK, dress, name_axes

    lines: dict[tuple[str, str, str], list[Worth]] = {}
    for each in worths:
        lines.setdefault((each.own, each.twin, each.placement), []).append(each)
    owns, placements = (list(dict.fromkeys(line[at] for line in lines)) for at in (0, 2))
    for number, ((own, twin, placement), line) in enumerate(lines.items()):
        tone, dashed = COLOURS[owns.index(own)], placements.index(placement)
        found = np.array([_mean_and_range(each.measure(runs)) for each in line])
        x = np.arange(len(line)) + 0.07 * (number - (len(lines) - 1) / 2)
        ax.plot(x, found[:, 0], color=tone, marker="os"[dashed % 2], markersize=4,
                markerfacecolor="white" if dashed else tone, linestyle="-:"[dashed % 2],
                label=f"{own} over {twin}, {placement}")
        ax.vlines(x, found[:, 1], found[:, 2], color=tone, linewidth=0.8)
    ax.axhline(1, color=INK, linewidth=0.8, zorder=1)
    ax.set_yscale("log")
    ax.yaxis.set_minor_locator(NullLocator())
    least, most = ax.get_ylim()
    ticks = [tick for tick in _TICKS if least <= tick <= most]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_xticks(range(len(line)), [words(each.restore) for each in line])
    dress(ax, "y")
    name_axes(ax, "restore time")


def _mean_and_range(ratios: pd.Series) -> tuple[float, float, float]:
    """The geometric mean of ratios over seeds, the least and the largest."""
    return geometric_interval(ratios)[0], ratios.min(), ratios.max()
