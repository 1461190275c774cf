"""GPUs in use and jobs that wait for them, over time; it needs the extra ``plot``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.analysis.gpus import gpu_usage
from netsim.errors import InputError, UnknownNameError
from netsim.plots.curves import thin_steps
from netsim.plots.style import (
    COLOURS,
    GREY,
    INK,
    add_legend,
    dress,
    fill,
    looks,
    name_axes,
    new_figure,
    require_matplotlib,
    short,
    tag,
    time_axis,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from netsim.results.result import Result

__all__ = ["COUNTS", "draw_waiting", "usage_areas", "usage_curves"]

#: Numbers of GPUs that `usage_curves` can draw.
COUNTS = ("held", "running")

_HEIGHTS = (1.35, 0.8)  # of the two panels, in inches

_MEANS = 60  # intervals of curves, which would hide each other if they were finer

_WAITING = "#9c9c9c"


def usage_areas(result: Result) -> list[Axes]:
    """Draw GPUs held, GPUs whose jobs make progress, and below them jobs that wait, over time.

    If there are too many changes to be seen, means over 200 intervals are drawn.

    Parameters
    ----------
    result : Result
        A result of a run on a `netsim.Cluster`.

    Returns
    -------
    list of Axes
        GPUs, and jobs.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    NotRecordedError
        If the run was not on a cluster.
    InputError
        If there is nothing to draw.
    """
    require_matplotlib()
    usage = _checked(gpu_usage(result))
    gpus, jobs = _panels(1)
    kinds = {"held": "restoring or saving", "running": "running"}
    if (usage["held"] == usage["running"]).all():
        kinds = {"running": "held by jobs"}
    for name, label in kinds.items():
        _draw_area(gpus, usage, name, label=label, **fill(COLOURS[0], light=name == "held"))
    draw_waiting(jobs, usage)
    _finish(gpus, jobs, int(result.run["gpus"]))
    add_legend(gpus, [*reversed(gpus.collections), *gpus.lines])
    return [gpus, jobs]


def usage_curves(results: Mapping[str, Result], of: str = "held") -> list[Axes]:
    """Draw GPUs in use, and below them jobs that wait, over time: a curve per policy.

    If there are more changes than can be told apart, curves show means: of GPUs over 60 intervals,
    and of jobs over 200.

    Parameters
    ----------
    results : mapping of str to Result
        Results by label, all of the same workload on the same `netsim.Cluster`.
    of : {"held", "running"}
        GPUs that jobs hold, or only those whose jobs make progress.

    Returns
    -------
    list of Axes
        GPUs, and jobs.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    UnknownNameError
        If `of` is something else.
    NotRecordedError
        If a run was not on a cluster.
    InputError
        If there is nothing to draw.
    """
    require_matplotlib()
    if of not in COUNTS:
        raise UnknownNameError("count of GPUs", of, COUNTS)
    usages = {label: _checked(gpu_usage(result)) for label, result in results.items()}
    if not usages:
        raise InputError("there is nothing to draw: no runs are given")
    begin, end = (pick(usage["t_s"].iloc[place] for usage in usages.values())
                  for pick, place in ((min, 0), (max, -1)))
    gpus, jobs = _panels(len(usages))
    style = looks(usages)
    for index, (label, usage) in enumerate(usages.items()):
        marks = {"markevery": (0.03 + 0.25 * index / len(usages), 0.25)}
        for ax, name, most in ((gpus, of, (_MEANS, _MEANS)), (jobs, "waiting", ())):
            times, values = usage["t_s"].to_numpy(), usage[name].to_numpy(np.float64)
            tag(label, *ax.step(*thin_steps(times, values, end - begin, *most), where="post",
                                label=short(label), **style[label].line() | marks))
    _finish(gpus, jobs, max(int(result.run["gpus"]) for result in results.values()))
    if of == "running":
        gpus.set_ylabel("GPUs running")
    add_legend(gpus, gpus.lines)
    return [gpus, jobs]


def draw_waiting(ax: Axes, usage: pd.DataFrame) -> None:
    """Draw the number of waiting jobs over time as an area.

    Parameters
    ----------
    ax : Axes
    usage : DataFrame
        The result of `netsim.gpu_usage`.
    """
    _draw_area(ax, usage, "waiting", facecolor=_WAITING)


def _checked(usage: pd.DataFrame) -> pd.DataFrame:
    """Check that there is something to draw."""
    if not usage[["held", "waiting"]].any(axis=None):
        raise InputError("there is nothing to draw: no job has arrived")
    return usage


def _draw_area(ax: Axes, usage: pd.DataFrame, name: str, **style: Any) -> None:
    """Draw a count over time as an area without an edge."""
    times, values = usage["t_s"].to_numpy(), usage[name].to_numpy(np.float64)
    ax.fill_between(*thin_steps(times, values, times[-1] - times[0]), step="post",
                    **style | {"linewidth": 0})


def _panels(curves: int) -> tuple[Axes, Axes]:
    """Return axes for GPUs above axes for jobs."""
    figure = new_figure(sum(_HEIGHTS) + 0.6 + 0.13 * (curves // 3))
    gpus, jobs = figure.subplots(2, sharex=True, height_ratios=_HEIGHTS)
    return gpus, jobs


def _finish(gpus: Axes, jobs: Axes, total: int) -> None:
    """Draw the number of GPUs of the cluster, and label the axes."""
    from matplotlib.ticker import MaxNLocator

    gpus.axhline(total, color=INK, linewidth=0.8, linestyle=(0, (4, 2)),
                 label=f"all {total:,} GPUs")
    gpus.set_ylim(0, 1.06 * total)
    jobs.set_ylim(0, None)
    name_axes(gpus, "", "GPUs held")
    name_axes(jobs, "", "jobs waiting")
    for ax in (gpus, jobs):
        dress(ax, "both")
        ax.margins(x=0.01)
        ax.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    time_axis(jobs)
    gpus.spines["bottom"].set_color(GREY)
    gpus.figure.canvas.figure.align_ylabels([gpus, jobs])
