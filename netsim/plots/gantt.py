"""A Gantt chart of jobs and their coflows, a row per job; it needs the extra ``plot``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from netsim.base.arrays import Floats, Ints
from netsim.base.values import as_whole
from netsim.errors import InputError
from netsim.plots.spans import (
    IDLE,
    ROW,
    SEEN,
    WAITING,
    add_key,
    draw_rows,
    draw_spans,
    in_rows,
    lanes_of,
    look_of,
    parts_of,
    time_within,
    with_others,
)
from netsim.plots.style import COLOURS, drawable, fill, require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from netsim.results.result import Result


JOBS = 40  # jobs drawn by default
_LETTERS = 14  # longest label of a job

#: Of bands of density: coflows up to which there are none; the share of coflows that must be too
#: narrow to be seen; simultaneous coflows that are too many; and the intervals of the axis.
_FEW, _MOSTLY, _LANES, _BANDS = 20, 0.5, 6, 150

_PALEST = 0.2  # strength of a band's colour from which it can be seen

_ANY = "coflow"  # name of the only entry if there are too many stages to tell apart

#: Entries of a legend besides stages.
_PARTS, _DENSE, _WAITS, _UNFINISHED, _NONE = (
    "overhead, tail", "part of the time", "waiting", "did not finish", "no coflow")

_LOOKS: dict[str, dict[str, Any]] = {
    _WAITS: {"facecolor": WAITING, "linewidth": 0},
    _UNFINISHED: {"facecolor": IDLE, "edgecolor": WAITING, "hatch": "////", "linewidth": 0}}


def gantt(result: Result, ax: Axes | None = None, *, jobs: int = JOBS, longest: bool = False
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
    coflows = coflows.assign(start_s=coflows["start_s"].fillna(coflows["finish_s"]),
                             stage=coflows["stage"].astype(str))
    done = coflows["finish_s"].notna()
    if "why" in coflows:
        done &= coflows["why"] != "withdrawn"
    stages = list(dict.fromkeys(coflows[done].sort_values(["valid_s", "coflow"])["stage"]))
    if len(stages) > len(COLOURS):
        coflows["stage"], stages = _ANY, [_ANY]
    spans, seen = [], set()
    lives = shown[["job", "arrival_s", "end_s"]].itertuples(index=False)
    for y, (job, begin, end) in enumerate(lives):
        own = coflows[(coflows["job"] == job) & done].sort_values(["valid_s", "finish_s"])
        others = coflows[(coflows["job"] == job) & ~done].fillna({"finish_s": end})
        spans.append(_pieces(y, (_UNFINISHED, others["valid_s"], others["finish_s"])))
        lanes = lanes_of(own["valid_s"], own["finish_s"])
        if _is_dense(own, lanes, span):
            seen |= _draw_density(ax, y, own, stages, span)
        elif len(own):
            spans.append(_coflows(y, own, lanes, stages))
        lasting = pd.concat([own, others])[["valid_s", "finish_s"]].to_numpy(np.float64)
        if _has_gap(lasting, begin, end, SEEN * span):
            seen.add(_NONE)
    light = {f"light {k}": fill(COLOURS[k], light=True) | {"linewidth": 0}
             for k in range(len(stages))}
    of_stages = {f"stage {k}": look_of(k) for k in range(len(stages))}
    seen |= draw_spans(ax, pd.concat(spans), light | _LOOKS | of_stages, span)
    if seen & light.keys():
        seen.add(_PARTS)
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
    shown = _chosen(result, as_whole(jobs, "jobs", 1), longest)
    if shown.empty:
        raise InputError("there is nothing to draw: no job has arrived")
    names = [drawable(f"{job} {name}".strip()[:_LETTERS])
             for job, name in zip(shown["job"], shown["name"], strict=True)]
    which, every = "longest" if longest else "first", len(result.jobs)
    note = f"; the {which} {len(shown):,} of {every:,} jobs" if len(shown) < every else ""
    lives = shown[["arrival_s", "end_s"]].set_axis(["begin", "end"], axis=1)
    ax, span = draw_rows(ax, lives, names, "job", note)
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


def _coflows(y: int, coflows: pd.DataFrame, lanes: Ints, stages: list[str]) -> pd.DataFrame:
    """The spans of the coflows of a job, simultaneous ones in lanes of its row."""
    stage = coflows["stage"].map(stages.index).astype(str)
    begun, sent = coflows["valid_s"], coflows["finish_s"]
    parts = parts_of(coflows)
    if parts:
        begun, sent = parts["sending"]
    return _pieces(y, (_WAITS, begun, coflows["start_s"]),
                   ("stage " + stage, coflows["start_s"], sent),
                   *(("light " + stage, *parts[name]) for name in ("overhead", "tail")
                     if name in parts), lane=lanes)


def _pieces(y: int, *pieces: tuple[Any, pd.Series, pd.Series], lane: Any = 0) -> pd.DataFrame:
    """Make a table of spans in a row, given their kinds, begins and ends."""
    lanes = int(np.max(lane)) + 1
    spans = pd.concat([
        in_rows(pd.DataFrame({"begin": begin, "end": end, "kind": kind}), y, lane, lanes)
        for kind, begin, end in pieces])
    return spans[spans["end"] > spans["begin"]]


def _is_dense(coflows: pd.DataFrame, lanes: Ints, span: float) -> bool:
    """Whether the coflows of a job are too many to be told apart."""
    if len(coflows) <= _FEW:
        return False
    narrow = coflows["finish_s"] - coflows["valid_s"] < SEEN * span
    return bool(narrow.mean() > _MOSTLY) or int(lanes.max()) >= _LANES


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
    found: Floats = time_within(since, ends, edges)[0] / np.diff(edges)
    return found


def _add_key(ax: Axes, stages: list[str], seen: set[str]) -> None:
    """Add a legend of stages, and of the other entries that can be seen."""
    from matplotlib.colors import to_rgb

    half = (np.array(to_rgb(COLOURS[0])) + to_rgb(IDLE)) / 2
    others = {_PARTS: fill(COLOURS[0], light=True), _DENSE: {"linewidth": 0, "facecolor": half},
              **_LOOKS, _NONE: {"facecolor": IDLE}}
    add_key(ax, [*((stage, look_of(k)) for k, stage in enumerate(stages)),
                 *((name, look) for name, look in others.items() if name in seen)])
