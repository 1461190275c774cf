"""Plots of mappings of models to servers; they need the extra ``plot`` (matplotlib)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.plots.style import (
    COLOURS,
    GREY,
    INK,
    add_legend,
    drawable,
    dress,
    name_axes,
    new_figure,
    require_matplotlib,
    text_on,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The number of GPUs of each server (row) that work on each stage (column), and the seconds per
#: server of each part of the servers' bars, by name.
Panel = tuple[Ints, Mapping[str, Floats]]

_ROW_IN, _WIDTH_IN = 0.19, 7.0

#: Most servers of a panel for which the numbers of stages are written on the GPUs.
_LABELLED = 40


def mapping_picture(panels: Mapping[str, Panel], gpus: int) -> Axes:
    """Draw the stages on which the GPUs of each server work, and the times of each server.

    Panels are by title; `gpus` is the number of GPUs per server. The first axes are returned.
    """
    require_matplotlib()
    rows = [len(placement) for placement, _ in panels.values()]
    longest = max(_longest(times) for _, times in panels.values())
    figure = new_figure(sum(0.75 + max(_ROW_IN * row, 0.3) for row in rows), _WIDTH_IN)
    axes = figure.subplots(len(panels), 2, squeeze=False, sharey="row",
                           width_ratios=(1, 1), height_ratios=[row + 2 for row in rows])
    for (left, right), (title, (placement, times)) in zip(axes, panels.items(), strict=True):
        _draw_gpus(left, placement, gpus)
        left.set_title(drawable(title), fontsize=8, color=INK, loc="left")
        _draw_times(right, times, longest)
    add_legend(axes[0][1])
    first: Axes = axes[0][0]
    return first


def _longest(times: Mapping[str, Floats]) -> float:
    """The length of the longest bar in seconds; positive, to be the limit of an axis."""
    return max(1e-9, float(sum(times.values()).max()))  # type: ignore[union-attr]


def _draw_gpus(ax: Axes, placement: Ints, gpus: int) -> None:
    """Draw a row of squares per server; GPUs of the job are coloured by stage."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    servers, stages = placement.shape
    colours = _colours(stages)
    squares, filled = [], []
    for server, row in enumerate(placement.tolist()):
        busy = [stage for stage, count in enumerate(row) for _ in range(count)]
        for place in range(gpus):
            squares.append(Rectangle((place + 0.06, server - 0.44), 0.88, 0.88))
            filled.append(colours[busy[place]] if place < len(busy) else "none")
            if place < len(busy) and servers <= _LABELLED and gpus <= 16:
                ax.annotate(str(busy[place]), (place + 0.5, server), ha="center", va="center",
                            fontsize=5.5, color=text_on(filled[-1]))
    ax.add_collection(PatchCollection(squares, facecolors=filled, edgecolors=GREY,
                                      linewidths=0.4, match_original=False))
    ax.set_xlim(0, gpus)
    ax.set_ylim(servers - 0.4, -0.6)
    dress(ax, "x")
    ax.grid(visible=False)
    ax.spines["left"].set_visible(False)
    ax.set_xticks([])
    ax.set_yticks(range(0, servers, max(1, servers // 20)))
    ax.tick_params(axis="y", length=0)
    name_axes(ax, "GPUs, by stage", "server")


def _colours(stages: int) -> list[Any]:
    """Choose a colour per stage: distinct ones if there are few stages, else from a colour map."""
    if stages <= len(COLOURS):
        return list(COLOURS[:stages])
    from matplotlib import colormaps

    return [tuple(colormaps["viridis"](stage / (stages - 1))) for stage in range(stages)]


def _draw_times(ax: Axes, times: Mapping[str, Floats], longest: float) -> None:
    """Draw a stacked bar of times per server."""
    left: Any = 0.0
    for (name, seconds), tone in zip(times.items(), ("#555555", "#aaaaaa", "#D55E00"),
                                     strict=False):
        ax.barh(np.arange(len(seconds)), seconds, 0.62, left=left, color=tone,
                label=drawable(name), linewidth=0)
        left = left + seconds
    ax.set_xlim(0, 1.04 * longest)
    dress(ax, "x")
    name_axes(ax, "slowest stage of each server (s)")
    ax.tick_params(axis="y", length=0)
