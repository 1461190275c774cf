"""Plots of the errors of predictors; they need the extra ``plot``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from netsim.errors import InputError
from netsim.plots.style import (
    add_legend,
    axes_on,
    dress,
    looks,
    name_axes,
    require_matplotlib,
    short,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_FILLED = 0.84  # share of the width of a bin that bars fill


def error_histogram(tables: Mapping[str, pd.DataFrame], ax: Axes | None = None) -> Axes:
    """Draw the share of jobs per bin of relative error, with a bar per predictor (A-SRPT, Fig. 4).

    All bins are drawn with the same width, with their bounds beneath. As their true widths differ,
    only bars of the same bin can be compared.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Histograms by predictor, as `netsim.predictors.Evaluation.histogram` returns them: columns
        ``from`` and ``to``, the bounds of relative errors, which all tables share, and ``share``,
        from 0 to 1.
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
        If there is nothing to draw, or the bins differ.
    """
    require_matplotlib(ax)
    bins = _bins(tables)
    ax = axes_on(ax, 2.1)
    width = _FILLED / len(tables)
    style = looks(tables)
    for index, (label, table) in enumerate(tables.items()):
        left = [place + (1 - _FILLED) / 2 + index * width for place in range(len(table))]
        ax.bar(left, 100 * table["share"], width, align="edge", label=short(label),
               **style[label].bar() | {"linewidth": 0.3})  # keeps adjacent bars apart
    ax.set_xlim(0, len(bins) - 1)
    ax.set_ylim(bottom=0)
    name_axes(ax, "error of prediction (% of true iterations)", "share of jobs (%)")
    dress(ax, "y")
    ax.set_xticks(range(len(bins)), [_percent(bound) for bound in bins])
    ax.tick_params(axis="x", labelsize=6.5, length=2)
    ax.spines["bottom"].set_visible(True)
    if len(tables) > 1:
        add_legend(ax)
    return ax


def _bins(tables: Mapping[str, pd.DataFrame]) -> list[float]:
    """The bounds of the bins, which must be the same for all tables."""
    bounds = [[*table["from"], *table["to"].iloc[-1:]] for table in tables.values()]
    if not bounds or len(bounds[0]) < 2:
        raise InputError("there is nothing to draw: give the histogram of a predictor")
    if any(each != bounds[0] for each in bounds):
        raise InputError("histograms in one plot must have the same bins, not "
                         + " and ".join(map(str, bounds)))
    return bounds[0]


def _percent(bound: float) -> str:
    return "∞" if math.isinf(bound) else f"{100 * bound:.4g}".replace("-", "−")

