"""A Gantt chart of the jobs of an edge-cloud, a row per job; it needs the extra ``plot``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.analysis.usage import STATES, held_workers, segments_of, suspended
from netsim.plots.gantt import HATCHES, IDLE, ROW, WAITING, job_rows
from netsim.plots.style import COLOURS, INK, add_legend, require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from netsim.results.result import Result

Floats = NDArray[np.float64]

_JOBS = 40  # jobs drawn by default

_STYLES: dict[str, dict[str, Any]] = {
    "at the edge": {"facecolor": COLOURS[0], "hatch": HATCHES[0]},
    "in the cloud": {"facecolor": COLOURS[1], "edgecolor": "white", "hatch": HATCHES[1]}}

_DATA = "no data yet"
_STATES: dict[str, dict[str, Any]] = {
    _DATA: {"facecolor": WAITING, "linewidth": 0},
    "restoring": {"facecolor": "white", "edgecolor": INK, "hatch": "/////", "linewidth": 0.3},
    "saving": {"facecolor": "white", "edgecolor": INK, "hatch": "\\\\\\\\\\", "linewidth": 0.3},
    "suspended": {"facecolor": IDLE, "edgecolor": WAITING, "hatch": "....", "linewidth": 0}}


def edge_gantt(result: Result, ax: Axes | None = None, *, jobs: int = _JOBS, longest: bool = False
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
    ax, shown, _ = job_rows(result, ax, jobs, longest)
    ready = (result.chunks.groupby("job")["ready_s"].min() if "chunks" in result.recorded
             else None)
    states = _states(result, shown)
    lives = shown.set_index("job")[["arrival_s", "end_s"]]
    of_job = dict(list(training[training["job"].isin(shown["job"])].groupby("job")))
    for y, (job, (arrival, end)) in enumerate(zip(lives.index, lives.to_numpy(), strict=True)):
        if ready is not None:
            there = np.fmin(ready.get(job, np.nan), end)
            ax.broken_barh([(arrival, there - arrival)], (y - ROW / 2, ROW), facecolor=WAITING,
                           linewidth=0)
        for state, own in states.items():
            spells = own[own["job"] == job]
            ax.broken_barh(list(zip(spells["start_s"], spells["end_s"] - spells["start_s"],
                                    strict=True)), (y - ROW / 2, ROW), **_STATES[state])
        if job in of_job:
            _draw_training(ax, y, of_job[job], end)
    _add_key(ax, training[training["job"].isin(shown["job"])],
             ([_DATA] if ready is not None else []) + [*states])
    return ax


def _states(result: Result, shown: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The intervals in which whole jobs did not train: job, start_s and end_s, by state."""
    held = held_workers(result)
    if held is None:
        return {}
    held = held[held["job"].isin(shown["job"])]
    spells = segments_of(held)
    found = {name: spells[["job"]].assign(start_s=spells[begin], end_s=spells[stop])
             for name, (begin, stop) in ((_DATA, STATES["uploading"]),
                                         ("restoring", STATES["restoring"]),
                                         ("saving", STATES["saving"]))}
    found["suspended"] = suspended(held, shown.set_index("job")["end_s"])
    found = {name: rows[rows["end_s"] > rows["start_s"]] for name, rows in found.items()}
    return {name: rows for name, rows in found.items() if len(rows)}


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
    """The times of changes, and the number of active intervals of each group from then on."""
    times = np.unique(np.concatenate((starts, ends)))
    return times, np.array([
        np.searchsorted(np.sort(starts[group]), times, "right")
        - np.searchsorted(np.sort(ends[group]), times, "right") for group in groups], np.float64)


def _add_key(ax: Axes, training: pd.DataFrame, states: list[str]) -> None:
    """Add a legend of places of training, other states of jobs, and time without training."""
    from matplotlib.patches import Patch

    cloud = training["server"] < 0
    there = {"at the edge": (~cloud).any(), "in the cloud": cloud.any()}
    entries = [Patch(label=where, linewidth=0, **style) for where, style in _STYLES.items()
               if there[where]]
    entries += [Patch(label=state, **_STATES[state]) for state in states]
    add_legend(ax, [*entries, Patch(label="no training", facecolor=IDLE)])
