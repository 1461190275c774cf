"""Plots of the bandwidth of collectives; they need the extra ``plot``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from netsim.errors import InputError
from netsim.plots.style import (
    add_legend,
    dress,
    looks,
    name_axes,
    new_axes,
    require_matplotlib,
    short,
)
from netsim.units import format_bytes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["busbw_curves"]


def busbw_curves(tables: Mapping[str, pd.DataFrame], ax: Axes | None = None) -> Axes:
    """Draw the bus bandwidth of collectives by size, with a line per table.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        By label, as `netsim.collective_times` returns them; sizes without a bandwidth are left out.
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
        If there is nothing to draw, as barriers and single ranks have no bandwidth.
    """
    require_matplotlib()
    drawn = {label: table[(table["bytes"] > 0) & table["busbw"].notna()]
             for label, table in tables.items()}
    if not drawn or all(table.empty for table in drawn.values()):
        raise InputError("there is nothing to draw: no size has a bus bandwidth")
    if ax is None:
        ax = new_axes(height_in=2.1)
    style = looks(drawn)
    for label, table in drawn.items():
        ax.plot(table["bytes"], table["busbw"] / 1e9, label=short(label), **style[label].line())
    ax.set_xscale("log")
    ax.set_ylim(bottom=0)
    ax.xaxis.set_major_formatter(lambda size, _: format_bytes(size))
    ax.xaxis.set_minor_formatter(lambda *_: "")
    name_axes(ax, "size", "busbw (GB/s)")
    dress(ax, "y")
    if len(drawn) > 1:
        add_legend(ax)
    return ax
