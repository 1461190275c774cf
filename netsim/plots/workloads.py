"""Plots of workloads: when jobs arrive, and how large they are; they need the extra ``plot``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netsim.edge import EdgeWorkload
from netsim.errors import InputError, UnknownNameError
from netsim.jobs.plan import bytes_of
from netsim.plots.curves import distribution
from netsim.plots.style import (
    COLOURS,
    count_over_time,
    dress,
    log_seconds,
    log_sizes,
    name_axes,
    new_figure,
    require_matplotlib,
)
from netsim.workload import Workload, column

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The panels, from top to bottom.
PARTS = ("arrivals", "sizes")

_HEIGHT_IN, _AXIS_IN = 1.15, 0.5  # of a panel, and of the labels below it


def workload_picture(workload: Workload | EdgeWorkload, of: str = "", ax: Axes | None = None
                     ) -> list[Axes]:
    """Draw how many jobs of a workload have arrived over time, and the distribution of their sizes.

    The size of a job is the bytes that it sends in all its iterations; on an edge-cloud, the time
    that its training takes on one worker.

    Parameters
    ----------
    workload : Workload or EdgeWorkload
    of : {"", "arrivals", "sizes"}
        One of the two, or both.
    ax : Axes, optional
        Axes to draw one of the two on, by default the arrivals; without, there is a new figure, one
        paper column wide.

    Returns
    -------
    list of Axes
        Those of the arrivals and of the sizes, or of one of them.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    UnknownNameError
        If `of` is something else.
    InputError
        If sizes are asked for, and no job sends anything.
    """
    require_matplotlib(ax)
    if of not in ("", *PARTS):
        raise UnknownNameError("panel", of, PARTS)
    parts = [of or PARTS[0]] if of or ax is not None else list(PARTS)
    sizes = _sizes(workload) if "sizes" in parts else np.zeros(1)
    if not (sizes > 0).any():
        if of == "sizes":
            raise InputError("there is nothing to draw: no job sends any bytes; of='arrivals' "
                             "draws when jobs arrive")
        parts = ["arrivals"]
    panels = [ax] if ax is not None else list(new_figure(
        (_HEIGHT_IN + _AXIS_IN) * len(parts)).subplots(len(parts), squeeze=False)[:, 0])
    for panel, part in zip(panels, parts, strict=True):
        if part == "arrivals":
            _draw_arrivals(workload, panel)
        else:
            _draw_sizes(sizes, panel, on_edge=isinstance(workload, EdgeWorkload))
    panels[0].figure.canvas.figure.align_ylabels(panels)
    return panels


def _sizes(workload: Workload | EdgeWorkload) -> NDArray[np.float64]:
    """The size of each job; see `workload_picture`."""
    if isinstance(workload, EdgeWorkload):
        return np.array([job.weight_s for job in workload])
    return bytes_of(workload)


def _draw_arrivals(workload: Workload | EdgeWorkload, ax: Axes) -> None:
    """Draw the number of jobs that have arrived over time."""
    times, counts = np.unique(np.asarray(column(workload.jobs, "arrival_s")), return_counts=True)
    ax.step([times[0], *times], [0, *np.cumsum(counts)], where="post", color=COLOURS[0],
            linewidth=1.1)
    count_over_time(ax, "jobs arrived")
    if len(times) == 1:
        ax.set_xticks(times)


def _draw_sizes(sizes: NDArray[np.float64], ax: Axes, *, on_edge: bool) -> None:
    """Draw the distribution of the sizes of jobs: seconds of training, or bytes."""
    ax.set_xscale("log")
    ax.step(*distribution(sizes), where="post", color=COLOURS[0], linewidth=1.1)
    ax.set_ylim(0, 1.02)
    name_axes(ax, "training of a job on one worker" if on_edge else "bytes of a job",
              "share of jobs")
    dress(ax, "both")
    if on_edge:
        log_seconds(ax.xaxis)
    else:
        log_sizes(ax)
