"""A Gantt chart of jobs and their coflows, a row per job; it needs the extra ``plot``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.plots.lanes import parts_of, with_others
from netsim.plots.style import (
    COLOURS,
    add_legend,
    drawable,
    dress,
    fill,
    name_axes,
    name_rows,
    new_axes,
    require_matplotlib,
    time_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from netsim.results.result import Result

Floats = NDArray[np.float64]

ROW = 0.84  # height of a row, as a share of the distance between two

_JOBS = 40  # jobs drawn by default
_ROW_IN = 0.125  # distance between two rows, in inches
_LETTERS = 14  # longest label of a job
_SPOTS = 2000  # resolution of the axis: coflows nearer to each other are drawn as one

NARROW = 0.012  # share of the axis below which a bar is drawn without a white edge

#: Of bands of density: coflows up to which there are none; the share of coflows that must be
#: narrower than a pixel, and the pixels of the axis; simultaneous coflows that are too many; and
#: the intervals of the axis.
_FEW, _MOSTLY, _PIXELS, _LANES, _BANDS = 20, 0.5, 400, 6, 150

#: Entries of a legend besides stages.
_PARTS, _DENSE, _WAITS, _UNFINISHED, _NONE = (
    "overhead, tail", "part of the time", "waiting", "did not finish", "no coflow")

_PALEST = 0.2  # strength of a band's colour from which it can be seen

_ANY = "coflow"  # name of the only entry if there are too many stages to tell apart

IDLE, WAITING = "#e4e4e4", "#9c9c9c"

#: Style of the time in which a coflow was active that did not finish.
_OPEN: Any = {"facecolor": IDLE, "edgecolor": WAITING, "hatch": "////", "linewidth": 0}

#: Hatches tell stages apart in greyscale.
HATCHES = ("", "/////", "\\\\\\\\\\", ".....", "xxxxx", "-----")


def gantt(result: Result, ax: Axes | None = None, *, jobs: int = _JOBS, longest: bool = False
          ) -> Axes:
    """Draw jobs and their coflows over time: a row per job, in order of arrival from the top.

    A row is light grey from the arrival of the job to its end, darker while a coflow is valid but
    has not begun to send, and coloured by stage from the coflow's first byte to its finish. The
    colour is lighter during the overhead, and while the last bytes are in transit. The chart
    includes coflows that were withdrawn because their job lost its GPUs, coflows that were sent
    again, and, as a separate stage, the state of jobs that moved. If there are more than six
    stages, they all have the same colour. Simultaneous coflows of a job share the height of the
    row.

    While a coflow is active that does not finish, as it is cancelled or the run ends before, the
    row is hatched. The legend has what can be seen.

    If the coflows of a job are too many or too short to be told apart, its row has a band per stage
    instead: the more of the time has a coflow of that stage, the stronger is its colour.

    Parameters
    ----------
    result : Result
        A result with coflows recorded, as they are by default.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure, one paper column wide.
    jobs : int
        Largest number of jobs to draw: the first to arrive. The label of the axis says how many
        jobs there are in all.
    longest : bool
        Draw the jobs with the longest JCTs instead of the first ones.

    Returns
    -------
    Axes

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    InputError
        If coflows were not recorded, there are no jobs, or `jobs` is not a positive integer.
    """
    require_matplotlib(ax)
    coflows = with_others(result.coflows, result)
    ax, shown, span = job_rows(result, ax, jobs, longest)
    coflows = coflows[coflows["job"].isin(shown["job"])]
    coflows = coflows.assign(start_s=coflows["start_s"].fillna(coflows["finish_s"]))
    coflows["stage"] = coflows["stage"].astype(str)
    done = coflows["finish_s"].notna()
    if "why" in coflows:
        done &= coflows["why"] != "withdrawn"
    stages = list(dict.fromkeys(coflows[done].sort_values(["valid_s", "coflow"])["stage"]))
    if len(stages) > len(COLOURS):
        coflows["stage"], stages = _ANY, [_ANY]
    seen: set[str] = set()
    lives = shown[["arrival_s", "end_s"]].to_numpy(np.float64).tolist()
    for y, (job, (begin, end)) in enumerate(zip(shown["job"], lives, strict=True)):
        own = coflows[(coflows["job"] == job) & done].sort_values(["valid_s", "finish_s"])
        others = coflows[(coflows["job"] == job) & ~done].fillna({"finish_s": end})
        if len(others):
            seen.add(_UNFINISHED)
            ax.broken_barh([*merge_close(others["valid_s"], others["finish_s"], 0)],
                           (y - ROW / 2, ROW), **_OPEN)
        if _is_dense(own, span):
            seen |= _draw_density(ax, y, own, stages, span)
        elif len(own):
            seen |= _draw_coflows(ax, y, own, stages, span)
        lasting = pd.concat([own, others])[["valid_s", "finish_s"]].to_numpy(np.float64)
        if _has_gap(lasting, begin, end, span / _PIXELS):
            seen.add(_NONE)
    _add_key(ax, stages, seen if stages else seen or {_NONE})
    return ax


def _has_gap(spells: Floats, begin: float, end: float, least: float) -> bool:
    """Whether a job's life has a part without a coflow that is long enough to be seen."""
    starts, ends = spells[np.argsort(spells[:, 0], kind="stable")].T
    reached = np.maximum.accumulate([begin, *ends])
    return bool((np.array([*starts, end]) - reached).max() >= least)


def job_rows(result: Result, ax: Axes | None, jobs: int, longest: bool
             ) -> tuple[Axes, pd.DataFrame, float]:
    """Draw a labelled row per job, as for `gantt`, light grey from its arrival to its end.

    Return the axes, the jobs of the rows from the top with their ``end_s``, which is that of the
    run if it was stopped before, and the seconds that the rows show.
    """
    if isinstance(jobs, bool) or not isinstance(jobs, int | np.integer) or jobs < 1:
        raise InputError(f"jobs must be a whole number of at least 1, not {jobs!r}")
    shown = _chosen(result, jobs, longest)
    if shown.empty:
        raise InputError("there is nothing to draw: no job has arrived")
    if ax is None:
        ax = new_axes(height_in=0.75 + max(_ROW_IN * len(shown), 0.4))
    begins, lasts = shown["arrival_s"].tolist(), (shown["end_s"] - shown["arrival_s"]).tolist()
    span = float(shown["end_s"].max() - shown["arrival_s"].min()) or 1.0
    for y, life in enumerate(zip(begins, lasts, strict=True)):
        # The edge keeps short jobs visible.
        ax.broken_barh([life], (y - ROW / 2, ROW), facecolor=IDLE, edgecolor=IDLE, linewidth=0.4)
    ax.set_xlim(min(begins) - 0.01 * span, min(begins) + 1.01 * span)
    _finish(ax, shown, len(result.jobs), longest)
    return ax, shown, span


def _chosen(result: Result, most: int, longest: bool) -> pd.DataFrame:
    """Select the jobs to draw, by arrival, with ``end_s``: their end, or that of a stopped run."""
    stop = result.run["stopped_at_s"]
    ends = result.jobs["finish_s"]
    # Jobs of a script that were cancelled end with their coflows.
    if stop is None and ends.isna().any() and "other_coflows" in result.recorded:
        cancelled = result.other_coflows.groupby("job")["end_s"].max()
        ends = ends.fillna(result.jobs["job"].map(cancelled))
    jobs = result.jobs.assign(end_s=ends if stop is None else ends.fillna(stop))
    jobs = jobs[jobs["arrival_s"] <= jobs["end_s"]]
    if longest:
        lasted = (jobs["end_s"] - jobs["arrival_s"]).sort_values(ascending=False, kind="stable")
        jobs = jobs.loc[lasted.index[:most]]
    return jobs.sort_values(["arrival_s", "job"], kind="stable").head(most)


def _draw_coflows(ax: Axes, y: int, coflows: pd.DataFrame, stages: list[str], span: float
                  ) -> set[str]:
    """Draw the coflows of a job, in order of validity, simultaneous ones in lanes of its row.

    Return the entries of the legend, besides stages, that can be seen.
    """
    seen = set()
    lanes = _lanes(coflows)
    height = ROW / (lanes.max() + 1)
    for key, own in coflows.groupby([lanes, coflows["stage"]]):
        lane, stage = key
        place = (y - ROW / 2 + lane * height, height)
        style = _stage_style(stages.index(str(stage)))
        begun, sent = own["valid_s"], own["finish_s"]
        if parts := parts_of(own):
            begun, sent = parts["sending"]
            for name in ("overhead", "tail"):
                spells = [(start, end - start) for start, end in zip(*parts[name], strict=True)
                          if end > start]
                ax.broken_barh(spells, place, **fill(style["facecolor"], light=True) | {
                    "linewidth": 0})
                if _can_be_seen(spells, span):
                    seen.add(_PARTS)
        waits = own["start_s"] > begun
        waiting = [*merge_close(begun[waits], own["start_s"][waits], span / _SPOTS)]
        ax.broken_barh(waiting, place, facecolor=WAITING, linewidth=0)
        if _can_be_seen(waiting, span):
            seen.add(_WAITS)
        draw_spells(ax, [*merge_close(own["start_s"], sent, span / _SPOTS)], place, span, **style)
    return seen


def _can_be_seen(spells: list[tuple[float, float]], span: float) -> bool:
    """Whether one of the bars, each a start and a length, is wide enough to be seen."""
    return any(length >= span / _PIXELS for _, length in spells)


def _is_dense(coflows: pd.DataFrame, span: float) -> bool:
    """Whether the coflows of a job, in order of validity, are too many to be told apart."""
    if len(coflows) <= _FEW:
        return False
    narrow = coflows["finish_s"] - coflows["valid_s"] < span / _PIXELS
    return bool(narrow.mean() > _MOSTLY) or int(_lanes(coflows).max()) >= _LANES


def _draw_density(ax: Axes, y: int, coflows: pd.DataFrame, stages: list[str], span: float
                  ) -> set[str]:
    """Draw a band per stage of a job, the stronger the more of the time it has a coflow.

    Return the entries of the legend, besides stages, that can be seen.
    """
    from matplotlib.colors import to_rgb

    seen = {_DENSE}
    begin, end = coflows["valid_s"].min(), coflows["finish_s"].max()
    edges = np.linspace(begin, end, max(2, 1 + math.ceil((end - begin) * _BANDS / span)))
    own = [stage for stage in stages if (coflows["stage"] == stage).any()]
    for lane, stage in enumerate(own):
        rows = coflows[coflows["stage"] == stage]
        band = np.full((1, len(edges) - 1, 3), to_rgb(IDLE))
        for start, stop, colour in (("valid_s", "start_s", WAITING), (
                "start_s", "finish_s", COLOURS[stages.index(stage) % len(COLOURS)])):
            share = _share_of_time(rows[start].to_numpy(), rows[stop].to_numpy(), edges)
            strength = np.sqrt(share.clip(0, 1))[:, None]  # a few per cent can be seen, too
            band = (1 - strength) * band + strength * np.array(to_rgb(colour))
            if colour == WAITING and strength.max() > _PALEST:
                seen.add(_WAITS)
        top, height = y - ROW / 2 + lane * ROW / len(own), ROW / len(own)
        ax.imshow(band, aspect="auto", interpolation="nearest", zorder=1.5,
                  extent=(begin, end, top + height, top))
    return seen


def _share_of_time(starts: Floats, ends: Floats, edges: Floats) -> Floats:
    """Compute the part of each interval between edges that lies in at least one spell."""
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    since = np.maximum(starts, np.concatenate(([-np.inf], ends[:-1])))  # not yet covered
    covered = np.cumsum(ends - since)
    knots = np.column_stack((since, ends)).ravel()
    reached = np.column_stack((np.concatenate(([0.0], covered[:-1])), covered)).ravel()
    found: Floats = np.diff(np.interp(edges, knots, reached)) / np.diff(edges)
    return found


def draw_spells(ax: Axes, spells: list[tuple[float, float]], place: tuple[float, float],
                span: float, **style: Any) -> None:
    """Draw bars, each a start and a length, in a row.

    Narrow bars have no white edge, which would hide them. `place` is the y of the row and its
    height, `span` the length of the axis, and `style` that of wide bars.
    """
    ax.broken_barh([spell for spell in spells if spell[1] >= span * NARROW], place, **style)
    ax.broken_barh([spell for spell in spells if spell[1] < span * NARROW], place,
                   facecolor=style["facecolor"], edgecolor=style["facecolor"], linewidth=0.2)


def _stage_style(stage: int) -> dict[str, Any]:
    """Matplotlib's style of the bars of a stage."""
    return {"facecolor": COLOURS[stage % len(COLOURS)], "edgecolor": "white", "linewidth": 0.3,
            "hatch": HATCHES[stage % len(HATCHES)]}


def _lanes(coflows: pd.DataFrame) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Assign each coflow, in order of validity, the first lane that is free."""
    free: list[float] = []
    lanes = np.empty(len(coflows), np.int64)
    for row, (valid, finish) in enumerate(zip(coflows["valid_s"], coflows["finish_s"],
                                              strict=True)):
        lane = next((lane for lane, since in enumerate(free) if since <= valid), len(free))
        free[lane:lane + 1] = [finish]
        lanes[row] = lane
    return lanes


def merge_close(starts: pd.Series, ends: pd.Series, least: float, seen: float | None = None
                ) -> Iterator[tuple[float, float]]:
    """Yield (start, length) of bars, merging those so close that the gap could not be seen.

    Bars longer than `seen`, by default `least`, are not merged even if they touch, so that the edge
    between them is drawn.
    """
    seen = least if seen is None else seen
    begun = reached = np.nan
    for start, end in zip(starts, ends, strict=True):
        if end - begun < least or (start - reached < least and reached - begun < seen):
            reached = end
            continue
        if reached > begun:
            yield begun, reached - begun
        begun, reached = start, end
    if reached > begun:
        yield begun, reached - begun


def _finish(ax: Axes, shown: pd.DataFrame, jobs: int, longest: bool) -> None:
    """Label the rows, and say on the axis which jobs they show."""
    names = [drawable(f"{job} {name}".strip()[:_LETTERS])
             for job, name in zip(shown["job"], shown["name"], strict=True)]
    name_rows(ax, names)
    which = "longest" if longest else "first"
    some = f"; the {which} {len(shown):,} of {jobs:,} jobs" if len(shown) < jobs else ""
    name_axes(ax, y="job")
    time_axis(ax, some)
    dress(ax, "both")
    ax.grid(axis="y", color=IDLE, linewidth=0.3)  # leads the eye from a name to its bar
    ax.tick_params(axis="y", length=0, labelsize=6.5)
    ax.spines["left"].set_visible(False)


def _add_key(ax: Axes, stages: list[str], seen: set[str]) -> None:
    """Add a legend of stages, and of the other entries that can be seen."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    half = (np.array(to_rgb(COLOURS[0])) + to_rgb(IDLE)) / 2
    others = {_PARTS: fill(COLOURS[0], light=True), _DENSE: {"linewidth": 0, "facecolor": half},
              _WAITS: {"facecolor": WAITING}, _UNFINISHED: _OPEN, _NONE: {"facecolor": IDLE}}
    add_legend(ax, [*(Patch(label=drawable(stage), **_stage_style(index))
                      for index, stage in enumerate(stages)),
                    *(Patch(label=name, **look) for name, look in others.items()
                      if name in seen)])
