"""GPUs in use and jobs that wait for them, over time; it needs the extra ``plot``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.analysis.usage import gpu_usage
from netsim.base.arrays import Floats
from netsim.base.values import as_choice
from netsim.errors import InputError
from netsim.plots.curves import draw_curves, thin_steps
from netsim.plots.spans import WAITING
from netsim.plots.style import (
    COLOURS,
    GREY,
    INK,
    add_legend,
    axes_on,
    count_over_time,
    fill,
    new_figure,
    require_matplotlib,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from netsim.results.result import Result

#: Counts that `usage_curves` can draw: numbers of GPUs, or of jobs that wait for them.
COUNTS = ("held", "running", "waiting")

_HEIGHTS = (1.35, 0.8)  # of the two panels, in inches

_MEANS = 60  # intervals of curves, which would hide each other if they were finer


def usage_areas(result: Result, of: str = "held", ax: Axes | None = None) -> list[Axes]:
    """Draw GPUs held, GPUs whose jobs make progress, and below them jobs that wait, over time.

    If there are too many changes to be seen, means over 200 intervals are drawn.

    Parameters
    ----------
    result : Result
        A result of a run on a `netsim.Cluster`.
    of : {"held", "waiting"}
        With ``"waiting"``, only the jobs that wait are drawn.
    ax : Axes, optional
        Axes to draw on, which get the GPUs or the jobs; by default there is a new figure, with a
        panel for each, without that for jobs if none waits.

    Returns
    -------
    list of Axes
        GPUs, and jobs; or one of them.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    UnknownNameError
        If `of` is something else.
    NotRecordedError
        If the run was not on a cluster.
    InputError
        If there is nothing to draw.
    """
    require_matplotlib(ax)
    as_choice(of, "count of GPUs", ("held", "waiting"), "of")
    usage = _checked(gpu_usage(result))
    panels = _panels(1, of, ax, waits=bool(usage["waiting"].any()))
    if (jobs := panels.get("waiting")) is not None:
        draw_waiting(jobs, usage)
    if (gpus := panels.get("held")) is not None:
        kinds = {"held": "restoring or saving", "running": "running"}
        if (usage["held"] == usage["running"]).all():
            kinds = {"running": "held by jobs"}
        for name, label in kinds.items():
            _draw_area(gpus, usage, name, label=label, **fill(COLOURS[0], light=name == "held"))
    _finish(panels, int(result.run["gpus"]))
    if gpus is not None:
        add_legend(gpus, [*reversed(gpus.collections), *gpus.lines])
    return list(panels.values())


def usage_curves(results: Mapping[str, Result], of: str = "held", ax: Axes | None = None
                 ) -> list[Axes]:
    """Draw GPUs in use, and below them jobs that wait, over time: a curve per policy.

    If there are more changes than can be told apart, curves show means: of GPUs over 60 intervals,
    and of jobs over 200.

    Parameters
    ----------
    results : mapping of str to Result
        Results by label, all of the same workload on the same `netsim.Cluster`.
    of : {"held", "running", "waiting"}
        GPUs that jobs hold, or only those whose jobs make progress. With ``"waiting"``, only the
        jobs that wait are drawn.
    ax : Axes, optional
        As for `usage_areas`.

    Returns
    -------
    list of Axes
        GPUs, and jobs; or one of them.

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
    require_matplotlib(ax)
    as_choice(of, "count of GPUs", COUNTS, "of")
    usages = {label: _checked(gpu_usage(result)) for label, result in results.items()}
    if not usages:
        raise InputError("there is nothing to draw: no runs are given")
    begin, end = (pick(usage["t_s"].iloc[place] for usage in usages.values())
                  for pick, place in ((min, 0), (max, -1)))
    panels = _panels(len(usages), of, ax,
                     waits=any(usage["waiting"].any() for usage in usages.values()))
    for name, panel in panels.items():
        most = () if name == "waiting" else (_MEANS, _MEANS)
        draw_curves(panel, {label: thin_steps(*_steps(usage, name), end - begin, *most)
                            for label, usage in usages.items()})
    _finish(panels, max(int(result.run["gpus"]) for result in results.values()))
    first = next(iter(panels.values()))
    add_legend(first, first.lines)
    return list(panels.values())


def draw_waiting(ax: Axes, usage: pd.DataFrame) -> None:
    """Draw the number of waiting jobs in a table of `gpu_usage` over time, as an area."""
    _draw_area(ax, usage, "waiting", facecolor=WAITING)


def _checked(usage: pd.DataFrame) -> pd.DataFrame:
    """Check that there is something to draw."""
    if not usage[["held", "waiting"]].any(axis=None):
        raise InputError("there is nothing to draw: no job has arrived")
    return usage


def _draw_area(ax: Axes, usage: pd.DataFrame, name: str, **style: Any) -> None:
    """Draw a count over time as an area without an edge."""
    times, values = _steps(usage, name)
    ax.fill_between(*thin_steps(times, values, times[-1] - times[0]), step="post",
                    **style | {"linewidth": 0})


def _steps(usage: pd.DataFrame, name: str) -> tuple[Floats, Floats]:
    """The instants of a table of `gpu_usage`, and a count from each on."""
    return usage["t_s"].to_numpy(np.float64), usage[name].to_numpy(np.float64)


def _panels(curves: int, of: str, ax: Axes | None, *, waits: bool) -> dict[str, Axes]:
    """Make axes by what they count: GPUs above jobs, if any waits, or only what is asked for."""
    legend_in = 0.13 * (curves // 3)
    if ax is not None or of == "waiting" or not waits:
        return {of: axes_on(ax, _HEIGHTS[0] + 0.6 + legend_in)}
    figure = new_figure(sum(_HEIGHTS) + 0.6 + legend_in)
    return dict(zip((of, "waiting"), figure.subplots(2, sharex=True, height_ratios=_HEIGHTS),
                    strict=True))


def _finish(panels: Mapping[str, Axes], total: int) -> None:
    """Draw the number of GPUs of the cluster, and label the axes."""
    for name, ax in panels.items():
        count_over_time(ax, "jobs waiting" if name == "waiting" else f"GPUs {name}")
        if name == "waiting":
            ax.set_ylim(0, max(ax.get_ylim()[1], 1))
        else:
            ax.axhline(total, color=INK, linewidth=0.8, linestyle=(0, (4, 2)),
                       label=f"all {total:,} GPUs")
            ax.set_ylim(0, 1.06 * total)
    upper, lower = (list(panels.values())[place] for place in (0, -1))
    if upper is not lower:
        upper.set_xlabel("")
        upper.spines["bottom"].set_color(GREY)
        upper.figure.canvas.figure.align_ylabels([upper, lower])
