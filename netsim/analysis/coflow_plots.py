"""Pictures of coflows and links under several policies; they need the extra ``plot``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.analysis.coflows import ALL, CLASSES
from netsim.analysis.comparison import LOWER_BOUND
from netsim.analysis.links import makespan, utilised
from netsim.analysis.style import (
    COLOURS,
    GREY,
    INK,
    WIDTH_IN,
    colour,
    dress,
    fill,
    new_axes,
    new_figure,
    require_matplotlib,
    short,
)
from netsim.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from netsim.experiments.result import Result

__all__ = ["cct_curves", "improvement_bars", "link_strips"]

_POINTS = 1000  # of a curve; more would not be seen
_BINS = 700  # of a strip, over time
_LINKS = 48  # on a strip
_SHADES = ("#ffffff", "#bcd9ea", COLOURS[4], COLOURS[0], "#00263f")  # from idle to full
_BAR_IN, _GAP = 0.14, 0.8


def cct_curves(results: Mapping[str, Result], ax: Axes | None = None) -> Axes:
    """Draw the distribution of CCTs: a curve per policy, and a grey one of every coflow alone.

    Parameters
    ----------
    results : mapping of str to Result
        By label, all of one workload, with coflows recorded.
    ax : Axes, optional
        Where to draw; on a new figure of a column's width if not given.

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
    require_matplotlib()
    from matplotlib.ticker import StrMethodFormatter

    known = {label: result.coflows for label, result in results.items()
             if result.coflows is not None and (result.coflows["cct_s"] > 0).any()}
    if not known:
        raise InputError("there is nothing to draw: no run has recorded a coflow that took time")
    if ax is None:
        ax = new_axes(height_in=2.4 + 0.12 * (len(known) // 3))
    _draw_curve(ax, next(iter(known.values()))["gamma_s"], label="alone", color="#999999",
                linewidth=2.4, zorder=1)
    for index, (label, coflows) in enumerate(known.items()):
        _draw_curve(ax, coflows["cct_s"], label=short(label), color=colour(index), linewidth=1.2,
                    linestyle=("-", (0, (4, 1.5)), (0, (1, 1)))[index // len(COLOURS) % 3])
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.set_ylim(0, 1.01)
    ax.set_xlabel("CCT (s)", fontsize=7.5, color=INK)
    ax.set_ylabel("share of coflows", fontsize=7.5, color=INK)
    dress(ax, "both")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False, fontsize=7,
              labelcolor=INK, handlelength=1.6, borderpad=0.1, columnspacing=1.5,
              handletextpad=0.5)
    return ax


def _draw_curve(ax: Axes, seconds: pd.Series, **style: Any) -> None:
    """Draw the share of coflows that took at most so long; no logarithm shows what took no time."""
    values = np.sort(seconds.to_numpy())
    none = int(np.sum(values <= 0))
    if none == len(values):
        return
    counts = np.unique(np.linspace(none + 1, len(values), _POINTS).astype(np.int64))
    ax.step(np.append(values[none], values[counts - 1]), np.append(none, counts) / len(values),
            where="post", **style)


def improvement_bars(factors: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw how many times shorter the mean CCT is than the baseline's: by class, a bar per policy.

    Right of the line is better than the baseline, left is worse. A black mark is where the
    bar would end if every coflow had the network to itself.

    Parameters
    ----------
    factors : DataFrame
        As `netsim.Comparison.against` returns it.
    ax : Axes, optional
        Where to draw; on a new figure of a column's width if not given.

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
    require_matplotlib()
    known = factors[np.isfinite(factors["cct_mean"])]
    labels = [label for label in dict.fromkeys(known["label"]) if label != LOWER_BOUND]
    if not labels:
        raise InputError("there is nothing to draw: no factor of improvement on the baseline")
    classes = [name for name in (*CLASSES, ALL) if name in set(known["class"])]
    height = max(len(labels) + _GAP, 2.2)  # of a label in two lines
    if ax is None:
        ax = new_axes(height_in=0.75 + _BAR_IN * height * len(classes))
    ratios = known.set_index(["class", "label"])["cct_mean"]
    for place, name in enumerate(classes):
        top = place * height
        for index, label in enumerate(labels):
            if (name, label) in ratios:
                _draw_bar(ax, top + index, ratios[name, label], index)
        if (name, LOWER_BOUND) in ratios:
            ax.plot([ratios[name, LOWER_BOUND]] * 2, [top - 0.5, top + len(labels) - 0.5],
                    color=INK, linewidth=1.2, solid_capstyle="butt", zorder=1.5)
    ax.axvline(1, color=INK, linewidth=0.8)
    counts = known.drop_duplicates("class").set_index("class")["coflows"]
    ax.set_yticks([place * height + (len(labels) - 1) / 2 for place in range(len(classes))],
                  [f"{name}\n{counts[name]:,} coflows" for name in classes])
    _set_scale(ax, ratios.to_numpy())
    ax.set_ylim((len(classes) - 1) * height + len(labels) - 0.1, -0.9)
    dress(ax, "x")
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    _add_key(ax, labels)
    return ax


def _draw_bar(ax: Axes, y: float, ratio: float, index: int) -> None:
    from matplotlib.patheffects import withStroke

    ax.barh(y, ratio - 1, left=1, height=0.84,
            zorder=2, **fill(colour(index), light=index >= len(COLOURS)))
    halo = [withStroke(linewidth=1.8, foreground="white")]  # over the mark
    ax.annotate(f"{ratio:.3g}", (ratio, y), (2 if ratio >= 1 else -2, 0),
                textcoords="offset points", va="center", ha="left" if ratio >= 1 else "right",
                fontsize=6, color=INK, path_effects=halo)


def _set_scale(ax: Axes, ratios: NDArray[np.float64]) -> None:
    """Set a logarithmic scale with 1 on it, and room for what is written beside the bars."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    low, high = min(ratios.min(), 1), max(ratios.max(), 1)
    room = max(high / low, 1.5) ** 0.16
    ax.set_xscale("log")
    ax.set_xlim(low / (room if low < 1 else 1.02), high * room)
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 50 * low else (1,)))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("mean CCT, times shorter than the baseline's", fontsize=7.5, color=INK)


def _add_key(ax: Axes, labels: list[str]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries: list[Any] = [
        Patch(label=short(label), **fill(colour(index), light=index >= len(COLOURS)))
        for index, label in enumerate(labels)]
    entries.append(Line2D([], [], color=INK, linewidth=1.2, label="every coflow alone"))
    ax.legend(handles=entries, loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False,
              fontsize=7, labelcolor=INK, handlelength=1.2, borderpad=0.1, columnspacing=1.5,
              handletextpad=0.5)


def link_strips(results: Mapping[str, Result], links: int = _LINKS) -> list[Axes]:
    """Draw the utilisation of links over time: a strip per policy, a line in it per link.

    The links that carried most stand on top, in the same order on every strip.

    Parameters
    ----------
    results : mapping of str to Result
        By label, all of one workload, with links recorded.
    links : int
        How many to draw at most.

    Returns
    -------
    list of Axes
        One per policy, on one figure.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    InputError
        If links were not recorded, or there is nothing to draw.
    """
    require_matplotlib()
    loads = {label: utilised(result) for label, result in results.items()}
    if not any(len(rows) for rows in loads.values()):
        raise InputError("there is nothing to draw: no link has carried anything")
    carried = pd.concat(loads.values()).groupby("link", observed=False)["bytes"].sum()
    busiest = carried[carried > 0].sort_values(ascending=False, kind="stable").index[:links]
    begin = min(result.jobs["arrival_s"].min() for result in results.values())
    length = np.nanmax([makespan(result) for result in results.values()])
    edges = np.linspace(begin, begin + length, _BINS + 1)
    figure = new_figure(0.5 + 0.95 * len(loads), 2 * WIDTH_IN)
    strips = list(figure.subplots(len(loads), sharex=True, squeeze=False)[:, 0])
    for ax, (label, rows) in zip(strips, loads.items(), strict=True):
        _draw_strip(ax, label, _over_time(rows, list(busiest), edges), edges)
    strips[-1].set_xlabel(f"time (s); the {len(busiest)} links that carried most, of "
                          f"{len(carried)}", fontsize=7.5, color=INK)
    bar = figure.colorbar(strips[0].images[0], ax=strips, fraction=0.02, pad=0.01, aspect=45)
    bar.set_label("utilisation", fontsize=7.5, color=INK)
    bar.ax.tick_params(labelsize=7, labelcolor=INK, color=GREY)
    bar.outline.set_edgecolor(GREY)
    return strips


def _draw_strip(ax: Axes, label: str, strip: NDArray[np.float64], edges: NDArray[np.float64]
                ) -> None:
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
    """Return the mean utilisation of each link between each two edges. Shape (links, bins)."""
    strips = np.zeros((len(links), len(edges) - 1))
    of_link = rows.groupby("link", observed=True).indices
    for place, link in enumerate(links):
        if link not in of_link:
            continue
        mine = rows.iloc[of_link[link]]
        # What it has carried, in seconds of its capacity, grows in a row and stays in between.
        done = (mine["load"] * mine["seconds"]).cumsum().to_numpy()
        knots = np.column_stack((mine["start_s"], mine["end_s"])).ravel()
        reached = np.column_stack((np.concatenate(([0.0], done[:-1])), done)).ravel()
        strips[place] = np.diff(np.interp(edges, knots, reached)) / np.diff(edges)
    return strips
