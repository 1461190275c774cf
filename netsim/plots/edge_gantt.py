"""A Gantt chart of the jobs of an edge-cloud, a row per job; it needs the extra ``plot``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from netsim.analysis.usage import steps_of
from netsim.plots.gantt import JOBS, job_rows
from netsim.plots.spans import (
    HATCHES,
    IDLE,
    ROW,
    WAITING,
    add_key,
    besides_training,
    draw_spans,
    in_rows,
)
from netsim.plots.style import COLOURS, INK, require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from netsim.results.result import Result

_PLACES: dict[str, dict[str, Any]] = {
    "at the edge": {"facecolor": COLOURS[0], "hatch": HATCHES[0]},
    "in the cloud": {"facecolor": COLOURS[1], "edgecolor": "white", "hatch": HATCHES[1]}}

_DATA = "no data yet"
_KINDS = {"upload": _DATA, "restore": "restoring", "save": "saving", "suspended": "suspended"}
_STATES: dict[str, dict[str, Any]] = {
    _DATA: {"facecolor": WAITING, "linewidth": 0},
    "restoring": {"facecolor": "white", "edgecolor": INK, "hatch": "/////", "linewidth": 0.3},
    "saving": {"facecolor": "white", "edgecolor": INK, "hatch": "\\\\\\\\\\", "linewidth": 0.3},
    "suspended": {"facecolor": IDLE, "edgecolor": WAITING, "hatch": "....", "linewidth": 0}}


def edge_gantt(result: Result, ax: Axes | None = None, *, jobs: int = JOBS, longest: bool = False
               ) -> Axes:
    """Draw the jobs of an edge-cloud over time: a row per job, in order of arrival from the top.

    A row is light grey from the arrival of the job to its end, and darker until the first of its
    data has arrived, if chunks are recorded. If the table ``held`` is recorded, whole jobs are
    darker while they hold workers and wait for their data, hatched while they restore or save, and
    dotted while they are suspended. A row is coloured while chunks, or workers of a whole job,
    train; the colour shows where they train. The height of the coloured part is the number of
    chunks or workers that train, relative to the job's largest such number.

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
    require_matplotlib(ax)
    training = result.training
    ax, shown, span = job_rows(result, ax, jobs, longest)
    states = _states(result, shown["job"])
    draw_spans(ax, in_rows(states, states["row"]), _STATES, span)
    training = training[training["job"].isin(shown["job"])]
    of_job = dict(list(training.groupby("job")))
    for y, (job, end) in enumerate(zip(shown["job"], shown["end_s"], strict=True)):
        if job in of_job:
            _draw_training(ax, y, of_job[job], end)
    cloud = training["server"] < 0
    drawn = {"at the edge": (~cloud).any(), "in the cloud": cloud.any(),
             _DATA: "chunks" in result.recorded} | dict.fromkeys(states["kind"], True)
    add_key(ax, [*((kind, {"linewidth": 0} | look) for kind, look in (_PLACES | _STATES).items()
                   if drawn.get(kind)), ("no training", {"facecolor": IDLE})])
    return ax


def _states(result: Result, jobs: pd.Series) -> pd.DataFrame:
    """List the spans in which jobs did not train, although they were active, by row and kind."""
    none = pd.DataFrame(columns=["job", "start_s", "end_s", "stage"], dtype=float)
    states = pd.concat([*besides_training(result)] or [none])
    states = states[states["job"].isin(jobs) & (states["end_s"] > states["start_s"])]
    rows = pd.Series(range(len(jobs)), jobs)
    return pd.DataFrame({"begin": states["start_s"], "end": states["end_s"],
                         "kind": states["stage"].map(_KINDS), "row": states["job"].map(rows)})


def _draw_training(ax: Axes, y: int, training: pd.DataFrame, end: float) -> None:
    """Draw the numbers of chunks of a job that train, those in the cloud above the others."""
    cloud = training["server"] < 0
    counts = steps_of({place: ([rows["start_s"]], [rows["end_s"].fillna(end)]) for place, rows in (
        ("at the edge", training[~cloud]), ("in the cloud", training[cloud]))}, end)
    most = counts[[*_PLACES]].sum(axis=1).max()
    low = np.full(len(counts), y + ROW / 2)
    for place, look in _PLACES.items():
        high = low - ROW * counts[place].to_numpy() / max(most, 1)
        if (low != high).any():
            ax.fill_between(counts["t_s"], low, high, step="post", linewidth=0, **look)
        low = high
