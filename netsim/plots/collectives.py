"""Plots of the time and the bandwidth of collectives; they need the extra ``plot``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

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
    drawn = {label: table[(table["bytes"] > 0) & (table["time_s"] > 0)]
             for label, table in tables.items()}
    if not drawn or all(table.empty for table in drawn.values()):
        raise InputError("there is nothing to draw: no size takes any time, or, as of a barrier, "
                         "there are none")
    with_busbw = ax is None and any(table["busbw"].notna().any() for table in drawn.values())
    axes = [ax] if ax is not None else new_figure(3.6 if with_busbw else 2.1).subplots(
        1 + with_busbw, sharex=True, squeeze=False)[:, 0].tolist()
    style = looks(drawn)
    for label, table in drawn.items():
        axes[0].plot(table["bytes"], table["time_s"], label=short(label), **style[label].line())
    axes[0].set_yscale("log")
    log_seconds(axes[0].yaxis)
    name_axes(axes[0], "" if with_busbw else "size", "time")
    if with_busbw:
        busbw_curves(tables, axes[1])
        if (legend := axes[1].get_legend()) is not None:
            legend.remove()  # the legend of the upper axes is for both
    else:
        log_sizes(axes[0])
    dress(axes[0], "y")
    if len(drawn) > 1:
        add_legend(axes[0])
    upper: Axes = axes[0]
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
    drawn = {label: table[(table["bytes"] > 0) & table["busbw"].notna()]
             for label, table in tables.items()}
    if not drawn or all(table.empty for table in drawn.values()):
        raise InputError("there is nothing to draw: no size has a bus bandwidth")
    ax = axes_on(ax, 2.1)
    style = looks(drawn)
    for label, table in drawn.items():
        ax.plot(table["bytes"], table["busbw"] / 1e9, label=short(label), **style[label].line())
    ax.set_ylim(bottom=0)
    log_sizes(ax)
    name_axes(ax, "size", "busbw (GB/s)")
    dress(ax, "y")
    if len(drawn) > 1:
        add_legend(ax)
    return ax
