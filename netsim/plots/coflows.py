"""Plots of coflows by class, and of links over time; they need the extra ``plot``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.analysis.coflows import ALL, CLASSES, by_class
from netsim.analysis.comparison import LOWER_BOUND
from netsim.analysis.links import makespan, utilised
from netsim.errors import InputError
from netsim.plots.style import (
    COLOURS,
    GREY,
    INK,
    Look,
    add_legend,
    colour_bar,
    drawable,
    dress,
    log_values,
    looks,
    name_axes,
    new_axes,
    new_figure,
    require_matplotlib,
    short,
    tag,
    three_figures,
    time_axis,
    write_beside,
)
from netsim.units import Quantity, format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.text import Annotation

    from netsim.results.result import Result

__all__ = ["link_strips", "ratio_bars", "slowdown_bars"]

_BINS = 700  # intervals of time on a strip
_LINKS, _NAMED = 48, 9  # links on a strip by default; links up to which they are named
_SHADES = ("#ffffff", "#bcd9ea", COLOURS[4], COLOURS[0], "#00263f")  # from idle to full
_BAR_IN, _GAP = 0.14, 0.8  # height of a bar in inches; gap between classes in bars


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
    _finish(ax, means.to_numpy(), f"mean CCT / that of {known['baseline'].iloc[0]}", 0.03)
    _add_key(ax, style, Line2D([], [], color=INK, linewidth=1.2, label="every coflow alone"))
    return ax


def slowdown_bars(results: Mapping[str, Result], ax: Axes | None = None, *,
                  short: Quantity = "5MB", narrow: int = 50) -> Axes:
    """Draw the slowdown of coflows, CCT over CCT alone, by class, as a bar per policy.

    A bar ends at the mean slowdown, the thin line at the 95th percentile.

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
                _annotate(ax, y, max(mean, most), three_figures(mean)))
    _finish(ax, known[["slowdown_mean", "slowdown_p95"]].to_numpy(),
            "slowdown: CCT / CCT alone (figures: mean)", 0.22)
    _add_key(ax, style, Line2D([], [], color=INK, linewidth=0.9, label="to the 95th percentile"))
    return ax


def _class_rows(ax: Axes | None, counts: Mapping[Any, int], bars: int
                ) -> tuple[Axes, dict[str, float]]:
    """Return axes with a row per class that has coflows, and the y of each row's first bar."""
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


def _annotate(ax: Axes, y: float, end: float, text: str) -> Annotation:
    """Write a text at the end of a bar."""
    return ax.annotate(text, (end, y), (3, 0), textcoords="offset points", va="center",
                       fontsize=6.5, color=INK, zorder=3)


def _finish(ax: Axes, ends: NDArray[np.float64], name: str, beside: float) -> None:
    """Set a logarithmic x axis that includes 1, with room beside bars as a share of its length."""
    low, high = min(ends.min(), 1), max(ends.max(), 1)
    room = max(high / low, 1.5) ** beside
    ax.axvline(1, color=INK, linewidth=0.8)
    ax.set_xscale("log")
    ax.set_xlim(low / (room if low < 1 else 1.02), high * room)
    log_values(ax.xaxis)
    name_axes(ax, name)
    dress(ax, "x")
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)


def _add_key(ax: Axes, style: Mapping[str, Look], line: Line2D) -> None:
    """Add a legend with an entry per policy and one for the line."""
    from matplotlib.patches import Patch

    entries: list[Any] = [Patch(label=short(label), **look.bar()) for label, look in style.items()]
    add_legend(ax, [*entries, line])


def link_strips(results: Mapping[str, Result], links: int = _LINKS, ax: Axes | None = None
                ) -> list[Axes]:
    """Draw the utilisation of links over time: a strip per policy with a row per link.

    The links that carried most are on top, in the same order on every strip.

    Parameters
    ----------
    results : mapping of str to Result
        Results by label, all of the same workload, with links recorded.
    links : int
        Largest number of links to draw.
    ax : Axes, optional
        Axes to draw the strip of a single policy on; by default there is a new figure.

    Returns
    -------
    list of Axes
        One per policy, on one figure.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    InputError
        If links were not recorded, there is nothing to draw, or axes are given for several
        policies.
    """
    require_matplotlib(ax)
    if ax is not None and len(results) > 1:
        raise InputError(f"the utilisation of links has a panel for each of {len(results)} "
                         "policies, and ax is one panel: draw one of the results, such as "
                         f"comparison.results[{next(iter(results))!r}]")
    loads = {label: utilised(result) for label, result in results.items()}
    if not any(len(rows) for rows in loads.values()):
        raise InputError("there is nothing to draw: no link has carried any bytes")
    carried = pd.concat(loads.values()).groupby("link", observed=False)["bytes"].sum()
    busiest = carried[carried > 0].sort_values(ascending=False, kind="stable").index[:links]
    begin = min(result.jobs["arrival_s"].min() for result in results.values())
    length = np.nanmax([makespan(result) for result in results.values()])
    edges = np.linspace(begin, begin + length, _BINS + 1)
    strips = [ax] if ax is not None else list(new_figure(
        0.5 + (1.5 if len(loads) == 1 else 0.95 * len(loads))).subplots(
            len(loads), sharex=True, squeeze=False)[:, 0])
    for strip, (label, rows) in zip(strips, loads.items(), strict=True):
        _draw_strip(strip, label, _over_time(rows, list(busiest), edges), edges)
        if len(busiest) <= _NAMED:
            strip.set_yticks(np.arange(len(busiest)) + 0.5, [*map(drawable, busiest)],
                             fontsize=6.5)
    which = f"all {len(busiest)} links" if len(busiest) == len(carried) else (
        f"the {len(busiest)} links that carried most, of {len(carried)}")
    time_axis(strips[-1], f"; {which}")
    bar = colour_bar(strips[0].images[0], strips, fraction=0.03, pad=0.02,
                     aspect=12 * len(strips))
    bar.set_label("utilisation", fontsize=7.5, color=INK)
    bar.ax.tick_params(labelsize=7, labelcolor=INK, color=GREY)
    bar.outline.set_edgecolor(GREY)
    return strips


def _draw_strip(ax: Axes, label: str, strip: NDArray[np.float64], edges: NDArray[np.float64]
                ) -> None:
    """Draw the utilisations of links over time as an image."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("utilisation", _SHADES)
    ax.imshow(strip, aspect="auto", cmap=colours, vmin=0, vmax=1, interpolation="nearest",
              extent=(edges[0], edges[-1], len(strip), 0))
    ax.set_ylabel(short(label), fontsize=7.5, color=INK)
    ax.set_yticks([])
    ax.tick_params(labelsize=7.5, labelcolor=INK, color=GREY)
    for spine in ax.spines.values():
        spine.set_color(GREY)


def _over_time(rows: pd.DataFrame, links: list[str], edges: NDArray[np.float64]
               ) -> NDArray[np.float64]:
    """Return the mean utilisation of each link in each interval. Shape (links, intervals)."""
    strips = np.zeros((len(links), len(edges) - 1))
    of_link = rows.groupby("link", observed=True).indices
    for place, link in enumerate(links):
        if link not in of_link:
            continue
        mine = rows.iloc[of_link[link]]
        # What the link has carried, in seconds at full capacity, grows within rows of the table
        # and is constant between them.
        done = (mine["load"] * mine["seconds"]).cumsum().to_numpy()
        knots = np.column_stack((mine["start_s"], mine["end_s"])).ravel()
        reached = np.column_stack((np.concatenate(([0.0], done[:-1])), done)).ravel()
        strips[place] = np.diff(np.interp(edges, knots, reached)) / np.diff(edges)
    return strips
