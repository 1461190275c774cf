"""Plots of distributions and of counts over time, of runs and workloads; they need ``plot``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from netsim.base.arrays import Floats
from netsim.base.values import as_choice
from netsim.edge import EdgeWorkload
from netsim.errors import InputError, UnknownNameError
from netsim.jobs.plan import bytes_of
from netsim.plots.style import (
    COLOURS,
    GREY,
    INK,
    add_legend,
    add_note,
    add_note_to,
    axes_on,
    count_over_time,
    dress,
    log_seconds,
    log_sizes,
    looks,
    name_axes,
    new_figure,
    require_matplotlib,
    short,
    tag,
    time_axis,
    uncover,
)
from netsim.results.result import Result
from netsim.workload import Workload
from netsim.workload.job import column

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


#: Distributions that `cdf_curves` draws: the table, its column, the column with the time alone on
#: the network, and the things counted.
DISTRIBUTIONS = {"jct": ("jobs", "jct_s", "lower_bound_s", "jobs"),
                 "cct": ("coflows", "cct_s", "gamma_s", "coflows")}

#: Tables that `active_curves` can draw, with the columns of beginning and end, and a label.
_ACTIVE = {"jobs": ("arrival_s", "finish_s", "active jobs"),
           "coflows": ("valid_s", "finish_s", "active coflows"),
           "training": ("start_s", "end_s", "workers in training")}

_MARKED = 100  # most values of a distribution with markers; those of more overlap
_EVERY = 0.2  # distance of markers along a curve, as a share of the axes
_POINTS = 1000  # most points of a distribution; more could not be seen
_CHANGES, _BINS = 400, 200  # most changes of an exact curve over time; intervals of one of means
_MARKS = 2000  # most lines of decisions


def cdf_curves(results: Mapping[str, Result | ArrayLike], of: str = "jct",
               ax: Axes | None = None, among: Iterable[str] = ()) -> Axes:
    """Draw the distribution of JCTs or CCTs as a curve per policy, on a logarithmic axis.

    If results are given, a wide grey curve shows the times of jobs or coflows that have the
    network to themselves. Curves of up to 100 values have markers. The curve of a run that was
    stopped ends at the share of jobs that finished.

    Parameters
    ----------
    results : mapping of str to Result or array-like
        Results of the same workload, or arrays of times in seconds, such as those of several
        runs, by label. NaN stands for a job or coflow that did not complete.
    of : {"jct", "cct"}
        Completion times of jobs, or of coflows.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure, one paper column wide.
    among : iterable of str
        All labels of the sweep, so that each keeps its colour if only some are drawn.

    Returns
    -------
    Axes

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    UnknownNameError
        If `of` is something else.
    InputError
        If the table was not recorded, or there is nothing to draw.
    """
    require_matplotlib(ax)
    table, column, alone, counted = DISTRIBUTIONS[
        as_choice(of, "distribution", DISTRIBUTIONS, "of")]
    _check_recorded(results, table)
    known = {label: times for label, result in results.items()
             if (times := _times(result, of, column)) is not None and (times > 0).any()}
    if not known:
        raise InputError(f"there is nothing to draw: no {counted} have completed after a "
                         "positive time")
    ax = axes_on(ax, 2.3 + 0.13 * (len(known) // 3))
    bound = next((times for label in known
                  if (times := _times(results[label], of, alone)) is not None), np.zeros(0))
    if (bound > 0).any() and isinstance(results[next(iter(known))], Result):
        ax.step(*distribution(bound), where="post", label="alone", color="#a6a6a6", linewidth=2.4,
                zorder=1)
    draw_curves(ax, {label: distribution(times) for label, times in known.items()},
                (*among, *results), most_marked=_MARKED + 1)
    _share_over_values(ax, of.upper(), counted)
    log_seconds(ax.xaxis)
    uncover(ax)
    add_legend(ax)
    return ax


def _check_recorded(results: Mapping[str, Any], table: str) -> None:
    """Raise the error of a table that was not recorded if none of the results has it."""
    runs = [result for result in results.values() if isinstance(result, Result)]
    if runs and len(runs) == len(results) and all(table not in run.recorded for run in runs):
        getattr(runs[0], table)  # raises an error that says how to record it


def _times(result: Result | ArrayLike, of: str, column: str) -> Floats | None:
    """A column of a result (None if it was not recorded), or the given array itself."""
    if not isinstance(result, Result):
        return np.asarray(result, np.float64).ravel()
    table = DISTRIBUTIONS[of][0]
    return (getattr(result, table)[column].to_numpy(np.float64) if table in result.recorded
            else None)


def distribution(values: Floats) -> tuple[Floats, Floats]:
    """Compute the steps of an empirical distribution: values, and the shares up to each.

    Values of 0 count but are not among the steps, which are for a logarithmic axis. NaN counts as a
    value that is not reached.
    """
    values, count = np.sort(values[~np.isnan(values)]), len(values)
    zeros = int(np.sum(values <= 0))
    if zeros == len(values):
        return np.zeros(0), np.zeros(0)
    counts = np.unique(np.linspace(zeros + 1, len(values), _POINTS).astype(np.int64))
    return np.append(values[zeros], values[counts - 1]), np.append(zeros, counts) / count


def _share_over_values(ax: Axes, name: str, counted: str) -> None:
    """Label the axes of a distribution over the logarithm of values."""
    ax.set_xscale("log")
    ax.set_ylim(0, 1.02)
    name_axes(ax, name, f"share of {counted}")
    dress(ax, "both")


def draw_curves(ax: Axes, curves: Mapping[str, tuple[Floats, Floats]], among: Iterable[str] = (),
                most_marked: float = math.inf) -> None:
    """Draw steps as a curve per label: instants or values, and what holds from each on.

    Of several curves, those of up to `most_marked` steps have markers. `among` is as for `looks`.
    """
    style = looks(curves, among)
    for index, (label, steps) in enumerate(curves.items()):
        # Offset along the curves, so that markers do not hide each other where curves meet.
        marks: dict[str, Any] = (
            {"markevery": (0.03 + _EVERY * index / len(curves), _EVERY)}
            if len(curves) > 1 and len(steps[0]) <= most_marked else {"marker": ""})
        tag(label, *ax.step(*steps, where="post", label=short(label),
                            **style[label].line() | marks))


def active_curves(results: Mapping[str, Result], of: str = "jobs", ax: Axes | None = None) -> Axes:
    """Draw the number of active jobs, coflows or edge workers over time as a curve per policy.

    A job is active from its arrival to its end, a coflow from the time it becomes valid to its
    finish, a worker of an edge-cloud while it trains. Coflows that had not completed when a run was
    stopped are not recorded and do not count. If there are too many changes to be seen, the curves
    show means over 200 intervals, and a note says so.

    Parameters
    ----------
    results : mapping of str to Result
        Results by label, all of the same workload.
    of : {"jobs", "coflows", "training"}
        Table whose rows are counted. Of ``"training"``, only rows of edge workers count.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure, one paper column wide.

    Returns
    -------
    Axes

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    UnknownNameError
        If `of` is something else.
    InputError
        If the table was not recorded, or there is nothing to draw.
    """
    require_matplotlib(ax)
    count = _check_active(results, as_choice(of, "curve", _ACTIVE, "of"))
    axes = axes_on(ax, 1.9 + 0.13 * (count // 3))
    if note := _draw_active(results, of, axes):
        add_note(axes.figure.canvas.figure, note) if ax is None else add_note_to(axes, note)
    return axes


def _check_active(results: Mapping[str, Result], of: str) -> int:
    """Count the results that have anything to count; raise an error if none has."""
    _check_recorded(results, of)
    count = sum(_has_rows(result, of) for result in results.values())
    if not count:
        raise InputError("there is nothing to draw: " + (
            "nothing has trained at the edge" if of == "training" else f"no {of} have completed"))
    return count


def _draw_active(results: Mapping[str, Result], of: str, ax: Axes) -> str:
    """Draw the curves of `active_curves` on axes, and return the note that belongs under them."""
    name, curves, note = active_counts(results, of, _CHANGES, _BINS)
    draw_curves(ax, curves, results)
    count_over_time(ax, name)
    uncover(ax)
    if len(curves) > 1:
        add_legend(ax)
    return note


def active_counts(results: Mapping[str, Result], of: str, most: int, intervals: int
                  ) -> tuple[str, dict[str, tuple[Floats, Floats]], str]:
    """Compute the name, the curves by label, and the note of `active_curves`.

    A curve has instants, and the number active from each on. The note says which curves show means;
    it is empty if all are exact. `most` and `intervals` are as for `thin_steps`.
    """
    spells = {label: _active_times(result, of) for label, result in results.items()
              if _has_rows(result, of)}
    span = (max(ends.max() for _, ends in spells.values())
            - min(starts.min() for starts, _ in spells.values())) if spells else 0.0
    steps = {label: _counts(starts, ends) for label, (starts, ends) in spells.items()}
    curves = {label: thin_steps(*each, span, most, intervals) for label, each in steps.items()}
    note = f"curves of more than {most:,} changes: means over {intervals:,} intervals"
    thinned = any(len(times) > most for times, _ in steps.values())
    return _ACTIVE[of][2], curves, note if thinned else ""


def _active_rows(result: Result, of: str) -> pd.DataFrame:
    """The rows of a table that are counted."""
    table: pd.DataFrame = getattr(result, of)
    return table[table["server"] >= 0] if of == "training" else table


def _has_rows(result: Result, of: str) -> bool:
    """Whether a result has anything to count."""
    return of in result.recorded and len(_active_rows(result, of)) > 0


def _active_times(result: Result, of: str) -> tuple[Floats, Floats]:
    """The instants from which and until which rows are active, at most until the end of the run."""
    rows = _active_rows(result, of)
    starts, ends = (rows[name].to_numpy(np.float64) for name in _ACTIVE[of][:2])
    stop = result.run["stopped_at_s"]
    counted = ~np.isnan(ends) if stop is None else starts <= stop
    return starts[counted], np.where(np.isnan(ends), stop or 0.0, ends)[counted]


def _counts(starts: Floats, ends: Floats) -> tuple[Floats, Floats]:
    """The instants of changes, and the number active from each on."""
    changes = np.concatenate((starts, ends))
    times, inverse = np.unique(changes, return_inverse=True)
    steps = np.bincount(inverse, np.repeat((1.0, -1.0), len(starts)), len(times))
    return times, np.rint(np.cumsum(steps))


def thin_steps(times: Floats, values: Floats, span: float, most: int = _CHANGES,
               intervals: int = _BINS) -> tuple[Floats, Floats]:
    """Replace the steps of a curve by means over intervals if there are more than `most`.

    A value holds from its instant to the next one. `intervals` is the number of intervals into
    which `span`, the time that the picture shows, is divided.
    """
    if len(times) <= most or not times[-1] > times[0]:
        return times, values
    # Intervals have the same length for every policy, so that curves are equally smooth.
    edges = np.append(np.arange(times[0], times[-1], span / intervals), times[-1])
    reached = np.concatenate(([0.0], np.cumsum(values[:-1] * np.diff(times))))
    means = np.diff(np.interp(edges, times, reached)) / np.diff(edges)
    return edges, np.append(means, values[-1])


def decision_marks(result: Result, ax: Axes | None = None) -> Axes:
    """Draw a vertical line at the instant of each decision of the policy.

    Parameters
    ----------
    result : Result
        A result with decisions recorded.
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
        If decisions were not recorded.
    """
    require_matplotlib(ax)
    times = result.decisions["time_s"].to_numpy(np.float64)
    ax = axes_on(ax, 0.6)
    if len(times) > _MARKS:  # keep one of those that would be drawn on the same spot
        spots = np.linspace(times.min(), times.max(), _MARKS)
        times = times[np.unique(np.searchsorted(times, spots))]
    ax.vlines(times, 0, 1, color=INK, linewidth=0.5, alpha=0.5)
    ax.set_ylim(0, 1)
    ax.set_yticks([])
    time_axis(ax)
    ax.set_ylabel("decisions", fontsize=7.5, color=INK, rotation=0, ha="right", va="center")
    ax.tick_params(labelsize=7.5, labelcolor=INK, color=GREY)
    ax.spines[:].set_visible(False)
    return ax


def timeline(results: Mapping[str, Result]) -> list[Axes]:
    """Draw the numbers of active jobs and, if they are recorded, active coflows over time.

    On an edge-cloud, workers in training take the place of coflows. For a single run with decisions
    recorded, the instants of decisions are drawn too. The panels are returned from top to bottom.
    """
    require_matplotlib()
    first = next(iter(results.values()), None)
    below = [of for of in ("coflows", "training")
             if any(_has_rows(result, of) for result in results.values())]
    decided = len(results) == 1 and first is not None and "decisions" in first.recorded
    heights = [1.25] + [1.25] * len(below) + [0.22] * decided
    figure = new_figure(sum(heights) + 0.4 + 0.15 * (len(results) // 2))
    panels = list(figure.subplots(len(heights), sharex=True, squeeze=False,
                                  height_ratios=heights)[:, 0])
    _check_active(results, "jobs")
    notes = {_draw_active(results, of, panel)
             for of, panel in zip(("jobs", *below), panels, strict=False)}
    for panel in panels[1:]:
        if (legend := panel.get_legend()) is not None:
            legend.remove()
    if decided and first is not None:
        decision_marks(first, panels[-1])
    time_axis(panels[-1])
    for panel in panels[:-1]:
        panel.set_xlabel("")
    figure.align_ylabels(panels[:1 + len(below)])
    if note := max(notes):  # panels have the same note or none
        add_note(figure, note)
    return panels


# --- workloads -----------------------------------------------------------------------------

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


def _sizes(workload: Workload | EdgeWorkload) -> Floats:
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


def _draw_sizes(sizes: Floats, ax: Axes, *, on_edge: bool) -> None:
    """Draw the distribution of the sizes of jobs: seconds of training, or bytes."""
    ax.step(*distribution(sizes), where="post", color=COLOURS[0], linewidth=1.1)
    _share_over_values(ax, "training of a job on one worker" if on_edge else "bytes of a job",
                       "jobs")
    if on_edge:
        log_seconds(ax.xaxis)
    else:
        log_sizes(ax)
