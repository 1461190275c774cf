"""Plots of the time and the bandwidth of collectives; they need the extra ``plot``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError
from netsim.plots.style import (
    add_legend,
    axes_on,
    dress,
    log_seconds,
    log_sizes,
    looks,
    name_axes,
    new_figure,
    require_matplotlib,
    short,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def collective_curves(tables: Mapping[str, pd.DataFrame], ax: Axes | None = None) -> Axes:
    """Draw the time of collectives by size, and below it the bus bandwidth, if there is one.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Tables by label, as `netsim.collective_times` returns them.
    ax : Axes, optional
        Axes to draw the time on, without the bandwidth, which `busbw_curves` draws; by default
        both are on a new figure, one paper column wide.

    Returns
    -------
    Axes
        Those of the time.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    InputError
        If there is nothing to draw, as for barriers, which have no size.
    """
    require_matplotlib(ax)
    drawn = _known(tables, "time_s", "no size takes any time, or, as of a barrier, there are none")
    with_busbw = ax is None and any(table["busbw"].notna().any() for table in drawn.values())
    upper, *lower = [ax] if ax is not None else new_figure(3.6 if with_busbw else 2.1).subplots(
        1 + with_busbw, sharex=True, squeeze=False)[:, 0].tolist()
    _draw(upper, drawn, "time_s")
    upper.set_yscale("log")
    log_seconds(upper.yaxis)
    name_axes(upper, "" if with_busbw else "size", "time")
    if not with_busbw:
        log_sizes(upper)
    elif (legend := busbw_curves(tables, *lower).get_legend()) is not None:
        legend.remove()  # the legend of the upper axes is for both
    return upper


def busbw_curves(tables: Mapping[str, pd.DataFrame], ax: Axes | None = None) -> Axes:
    """Draw the bus bandwidth of collectives by size, with a line per table.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Tables by label, as `netsim.collective_times` returns them. Sizes without a bandwidth are
        left out.
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
        If there is nothing to draw, as for barriers and single ranks, which have no bandwidth.
    """
    require_matplotlib(ax)
    drawn = _known(tables, "busbw", "no size has a bus bandwidth")
    ax = axes_on(ax, 2.1)
    _draw(ax, {label: table.assign(busbw=table["busbw"] / 1e9) for label, table in drawn.items()},
          "busbw")
    ax.set_ylim(bottom=0)
    log_sizes(ax)
    name_axes(ax, "size", "busbw (GB/s)")
    return ax


def calibration_curves(rows: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw predicted times of a calibration as lines, and measured ones as dots, by size.

    Dots of points that were held out are filled.

    Parameters
    ----------
    rows : DataFrame
        Of a `netsim.Calibration`.
    ax : Axes, optional
        Axes to draw on, without the ratios; by default those of a new figure, one paper column
        wide, with predicted over measured times below.

    Returns
    -------
    Axes
        Those of the times.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    require_matplotlib(ax)
    upper, *lower = [ax] if ax is not None else new_figure(3.6).subplots(
        2, sharex=True, squeeze=False, height_ratios=(2, 1))[:, 0].tolist()
    series = {(f"{collective}, {ranks} ranks" if collective != "flows" else "flows"): own
              for (collective, ranks), own in rows.groupby(["collective", "ranks"], sort=False)}
    for (label, own), look in zip(series.items(), looks(series).values(), strict=True):
        own = own.sort_values("bytes")
        upper.plot(own["bytes"], own["predicted_s"], color=look.colour, label=short(label),
                   linewidth=1.1, zorder=3)
        for out, fill in ((False, "white"), (True, look.colour)):
            part = own[own["held_out"] == out]
            dots: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 2.5,
                                    "color": look.colour, "markerfacecolor": fill,
                                    "markeredgewidth": 0.6, "rasterized": len(own) > 500}
            upper.plot(part["bytes"], part["measured_s"], **dots)
            for below in lower:
                below.plot(part["bytes"], part["ratio"], **dots)
    upper.set_yscale("log")
    log_seconds(upper.yaxis)
    for each in (upper, *lower):
        dress(each, "both")
    name_axes(upper, "" if lower else "size",
              "time: lines predicted,\ndots measured (filled: held out)")
    for below in lower:
        below.axhline(1.0, color="0.4", linewidth=0.8)
        name_axes(below, "size", "ratio")
    log_sizes((lower or [upper])[-1])
    add_legend(upper)
    return upper


def _known(tables: Mapping[str, pd.DataFrame], column: str, otherwise: str
           ) -> dict[str, pd.DataFrame]:
    """Select the sizes with a value in a column; one table must have some."""
    known = {label: table[(table["bytes"] > 0) & (table[column] > 0)]
             for label, table in tables.items()}
    if all(table.empty for table in known.values()):
        raise InputError(f"there is nothing to draw: {otherwise}")
    return known


def _draw(ax: Axes, tables: Mapping[str, pd.DataFrame], column: str) -> None:
    """Draw a line per table, and a legend of several."""
    for (label, table), look in zip(tables.items(), looks(tables).values(), strict=True):
        ax.plot(table["bytes"], table[column], label=short(label), **look.line())
    dress(ax, "y")
    if len(tables) > 1:
        add_legend(ax)
