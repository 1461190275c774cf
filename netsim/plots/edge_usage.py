"""The utilisation of the workers of an edge-cloud over time; it needs the extra ``plot``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from netsim.analysis.usage import edge_utilisation, end_of
from netsim.errors import InputError
from netsim.plots.curves import draw_curves
from netsim.plots.style import (
    add_legend,
    axes_on,
    dress,
    name_axes,
    require_matplotlib,
    time_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from netsim.results.result import Result

_BINS = 100  # intervals over which utilisation is averaged


def worker_curves(results: Mapping[str, Result], ax: Axes | None = None) -> Axes:
    """Draw the utilisation of the workers of the edge over time as a curve per policy.

    Curves show means over 100 intervals, from time 0 to the end of the longest run.

    Parameters
    ----------
    results : mapping of str to Result
        Results of runs on a `netsim.EdgeCloud` by label, all of the same workload, with training
        recorded.
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
        If training was not recorded, the edge has no workers, or there is nothing to draw.
    """
    require_matplotlib(ax)
    from matplotlib.ticker import PercentFormatter

    ends = [end for result in results.values() if (end := end_of(result)) > 0]
    if not ends:
        raise InputError("there is nothing to draw: no time has passed")
    ax = axes_on(ax, 1.9 + 0.13 * (len(results) // 3))
    slot, curves = max(ends) / _BINS, {}
    for label, result in results.items():
        share = edge_utilisation(result, slot)
        curves[label] = (np.append(share["slot_s"], share["slot_s"].iloc[-1] + slot),
                         np.append(share["utilisation"], 0.0))
    draw_curves(ax, curves)
    ax.set_ylim(0, 1.02)
    ax.margins(x=0.02)
    name_axes(ax, y="workers in training")
    time_axis(ax)
    dress(ax, "both")
    ax.yaxis.set_major_formatter(PercentFormatter(1, 0))
    if len(results) > 1:
        add_legend(ax)
    return ax
