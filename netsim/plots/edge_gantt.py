"""A Gantt chart of the jobs of an edge-cloud, a row per job; it needs the extra ``plot``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.plots.gantt import HATCHES, IDLE, ROW, WAITING, job_rows
from netsim.plots.style import COLOURS, add_legend, require_matplotlib

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from netsim.results.result import Result

__all__ = ["edge_gantt"]

Floats = NDArray[np.float64]

_JOBS = 40  # jobs drawn by default

_STYLES: dict[str, dict[str, Any]] = {
    "at the edge": {"facecolor": COLOURS[0], "hatch": HATCHES[0]},
    "in the cloud": {"facecolor": COLOURS[1], "edgecolor": "white", "hatch": HATCHES[1]}}


def edge_gantt(result: Result, ax: Axes | None = None, *, jobs: int = _JOBS, longest: bool = False
               ) -> Axes:
    """Draw the jobs of an edge-cloud over time: a row per job, in order of arrival from the top.

    A row is light grey from the arrival of the job to its end, and darker until the first of its
    data has arrived, if chunks are recorded. It is coloured while chunks train, or workers of a
    whole job, by where they do; the height of the colour is their number, relative to the largest
    number of the job at once.

    Parameters
    ----------
    result : Result
        A result of a run on a `netsim.EdgeCloud`, with training recorded.
    ax, jobs, longest
        As for `netsim.plots.gantt.gantt`.

    Returns
    -------
    Axes

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    InputError
        If training was not recorded, there are no jobs, or `jobs` is not a positive integer.
    """
    require_matplotlib()
    training = result.training
    ax, shown, _ = job_rows(result, ax, jobs, longest)
    ready = (result.chunks.groupby("job")["ready_s"].min() if "chunks" in result.recorded
             else None)
    lives = shown.set_index("job")[["arrival_s", "end_s"]]
    of_job = dict(list(training[training["job"].isin(shown["job"])].groupby("job")))
    for y, (job, (arrival, end)) in enumerate(zip(lives.index, lives.to_numpy(), strict=True)):
        if ready is not None:
            there = np.fmin(ready.get(job, np.nan), end)
            ax.broken_barh([(arrival, there - arrival)], (y - ROW / 2, ROW), facecolor=WAITING,
                           linewidth=0)
        if job in of_job:
            _draw_training(ax, y, of_job[job], end)
    _add_key(ax, training[training["job"].isin(shown["job"])], data=ready is not None)
    return ax


def _draw_training(ax: Axes, y: int, training: pd.DataFrame, end: float) -> None:
    """Draw the numbers of chunks of a job that train, those in the cloud above the others."""
    cloud = training["server"].to_numpy() < 0
    starts, ends = training["start_s"].to_numpy(), training["end_s"].fillna(end).to_numpy()
    times, (at_edge, in_cloud) = _numbers(starts, ends, [~cloud, cloud])
    base, per_chunk = y + ROW / 2, -ROW / max((at_edge + in_cloud).max(), 1)
    levels = base + per_chunk * np.array([0 * at_edge, at_edge, at_edge + in_cloud])
    for style, low, high in zip(_STYLES.values(), levels[:-1], levels[1:], strict=True):
        if (low != high).any():
            ax.fill_between(times, low, high, step="post", linewidth=0, **style)


def _numbers(starts: Floats, ends: Floats, groups: list[NDArray[np.bool_]]
             ) -> tuple[Floats, Floats]:
    """Return the instants of changes, and the number of intervals of each group from each on."""
    times = np.unique(np.concatenate((starts, ends)))
    return times, np.array([
        np.searchsorted(np.sort(starts[group]), times, "right")
        - np.searchsorted(np.sort(ends[group]), times, "right") for group in groups], np.float64)


def _add_key(ax: Axes, training: pd.DataFrame, *, data: bool) -> None:
    """Add a legend of where chunks train, of waiting for data, and of time without training."""
    from matplotlib.patches import Patch

    cloud = training["server"] < 0
    there = {"at the edge": (~cloud).any(), "in the cloud": cloud.any()}
    entries = [Patch(label=where, linewidth=0, **style) for where, style in _STYLES.items()
               if there[where]]
    if data:
        entries.append(Patch(label="no data yet", facecolor=WAITING))
    add_legend(ax, [*entries, Patch(label="no training", facecolor=IDLE)])
