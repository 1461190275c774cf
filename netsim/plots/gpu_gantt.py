"""A Gantt chart of GPUs, with the jobs that hold them; it needs the extra ``plot``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from netsim.analysis.usage import STATES, gpu_usage, gpus_per_server, held_gpus, segments_of
from netsim.base.arrays import Floats, Ints
from netsim.errors import InputError
from netsim.plots.gpu_usage import draw_waiting
from netsim.plots.spans import draw_spans, time_within
from netsim.plots.style import (
    COLOURS,
    GREY,
    INK,
    add_legend,
    dress,
    fill,
    may_grow,
    name_axes,
    new_axes,
    new_figure,
    require_matplotlib,
    text_on,
    time_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from netsim.results.result import Result


_JOBS = 60  # most jobs with a colour each; beyond, colours stand for sizes
_GPUS = 256  # most GPUs with a row each
_ROWS, _BLOCKS = 128, 3000  # most rows, and blocks, that are drawn one by one
_BINS = 600  # intervals of time if they are not
_MARKS = 250  # most marks of each kind
_SERVERS = 64  # most servers with lines between them

_ROW_IN, _CHART_IN = 0.125, 4.5  # largest heights of a row and of the chart
_LEAST_IN, _STRIP_IN = 0.75, 0.32  # least height of the chart, and that of the strip above it
_AXIS_IN = 2.9  # width of the axes, about
_DIGIT_IN, _TEXT_IN = 0.062, 0.1  # width of a digit and height of a number in a block
_LABEL_IN = 0.12  # least distance of labels of servers

_SEEN = 1e-3  # share of a pixel below which nothing is seen
_PAUSED = "#8c8c8c"  # GPUs that restore or save, in an image

#: How GPUs are drawn in each state: lighter or not, and the hatch.
_LOOKS = {"running": (False, ""), "restoring": (True, "/////"), "saving": (True, "\\\\\\\\\\")}

#: Marks of how a segment has ended, and their meaning.
_ENDS = {"preempt": ("|", "preempted"), "fault": ("x", "lost GPUs")}


class _Rows(NamedTuple):
    """The rows of a chart, each a GPU, a server or several servers."""

    of_server: Ints | None  #: row of each server; None if each GPU has a row
    gpus: Ints  #: number of GPUs of each row
    first: Ints  #: first row of each server, followed by the number of rows
    title: str  #: what a row is


def gpu_gantt(result: Result, ax: Axes | None = None) -> list[Axes]:
    """Draw which job holds which GPUs over time, and above them how many jobs wait, if any does.

    A row is a GPU, in order of server and number. It has the colour of its job while the job makes
    progress; the colour is lighter and hatched while the job's state is restored or saved. Adjacent
    jobs have different colours, as far as six colours suffice. If there are more than 60 jobs,
    colours stand for their numbers of GPUs instead.

    If there are more than 256 GPUs, a row is a server, or several. If there are more than 128 rows
    or 3,000 blocks, the chart shows means over short intervals: the colour of the jobs that run on
    most GPUs, paler if fewer GPUs run, and greyer if more restore or save. Preemptions and losses
    are then counted instead of marked.

    Parameters
    ----------
    result : Result
        A result of a run on a `netsim.Cluster`.
    ax : Axes, optional
        Axes to draw the chart on, without the strip of waiting jobs, which
        `netsim.plots.gpu_usage.usage_areas` draws; by default both are on a new figure.

    Returns
    -------
    list of Axes
        The chart, and the strip above it if there is one.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    NotRecordedError
        If the run was not on a cluster.
    InputError
        If there is nothing to draw.
    """
    require_matplotlib(ax)
    held, usage = held_gpus(result), gpu_usage(result)
    if held.empty:
        raise InputError("there is nothing to draw: no job has got GPUs")
    rows = _rows(gpus_per_server(result))
    held["row"] = (held["number"] if rows.of_server is None
                   else rows.of_server[held["server"]])
    height = (min(max(_ROW_IN * len(rows.gpus), _LEAST_IN), _CHART_IN) if ax is None
              else ax.bbox.height / ax.figure.dpi)
    row_in = height / len(rows.gpus)
    strip, chart = ((None, ax) if ax is not None else
                    _panels(height, waits=bool(usage["waiting"].any())))
    begin, span = float(usage["t_s"].iloc[0]), float(np.ptp(usage["t_s"])) or 1.0
    chart.set_xlim(begin - 0.01 * span, begin + 1.01 * span)
    entries = _draw_held(chart, held, rows, row_in, begin, span)
    _label_servers(chart, rows, row_in)
    name_axes(chart, y=rows.title)
    time_axis(chart, _in_words(held, chart, entries))
    if entries:
        add_legend(chart if strip is None else strip, entries)
    if strip is None:
        return [chart]
    draw_waiting(strip, usage)
    _dress_strip(strip, int(usage["waiting"].max()))
    chart.figure.align_ylabels([strip, chart])
    return [chart, strip]


def _panels(height_in: float, *, waits: bool) -> tuple[Axes | None, Axes]:
    """Make the axes, and above them a strip for waiting jobs, if any waits."""
    if not waits:
        return None, new_axes(0.75 + height_in)
    strip, chart = new_figure(0.85 + _STRIP_IN + height_in).subplots(
        2, sharex=True, height_ratios=(_STRIP_IN, height_in))
    return strip, chart


def _draw_held(ax: Axes, held: pd.DataFrame, rows: _Rows, row_in: float, begin: float, span: float
               ) -> list[Any]:
    """Draw the GPUs that jobs hold, as blocks or as an image; return entries of the legend."""
    colours, entries = _colours(held)
    blocks = _blocks(held) if rows.of_server is None and len(rows.gpus) <= _ROWS else None
    if blocks is None or len(blocks) > _BLOCKS:
        edges = np.linspace(begin, begin + span, _BINS + 1)
        return entries + _draw_image(ax, held, colours, rows, edges)
    if not entries:
        wide_in = (_AXIS_IN if may_grow(ax.figure.canvas.figure)
                   else ax.bbox.width / ax.figure.dpi)
        _name_blocks(ax, blocks, colours, row_in, wide_in / span)
    return (entries + _draw_blocks(ax, blocks, colours, row_in, span)
            + [*_draw_marks(ax, blocks)])


def _rows(gpus: Ints) -> _Rows:
    """Choose what a row is, given the GPUs of each server."""
    servers, total = len(gpus), int(gpus.sum())
    if total <= _GPUS:
        return _Rows(None, np.ones(total, np.int64), np.concatenate(([0], np.cumsum(gpus))),
                     "GPUs, by server")
    each = -(-servers // _GPUS)
    of_server = np.arange(servers) // each
    return _Rows(of_server, np.bincount(of_server, gpus).astype(np.int64),
                 np.append(of_server, of_server[-1] + 1),
                 "server (a row each)" if each == 1 else f"server ({each} per row)")


def _blocks(held: pd.DataFrame) -> pd.DataFrame:
    """Merge adjacent GPUs of a segment and server into blocks, with their first row and number."""
    held = held.sort_values(["start_s", "job", "row"], kind="stable")
    same = ["job", "start_s", "server"]
    before = held[[*same, "row"]].shift()
    begins = ((held[same] != before[same]).any(axis=1)
              | (held["row"] != before["row"] + 1)).to_numpy()
    counts = np.diff(np.append(np.flatnonzero(begins), len(held)))
    return held[begins].assign(count=counts)


# --- colours --------------------------------------------------------------------------------


def _colours(held: pd.DataFrame) -> tuple[pd.Series, list[Any]]:
    """Number the colour of each job; if colours stand for sizes, make entries of a legend."""
    from matplotlib.patches import Patch

    if held["job"].nunique() <= _JOBS:
        return _colours_of_jobs(held), []
    gpus = held.groupby(["job", "start_s"]).size().groupby("job").first()
    gpu_s = (held["end_s"] - held["start_s"]).groupby(held["job"]).sum()
    size = pd.Series(np.searchsorted(_classes(gpus, gpu_s), gpus), gpus.index)
    entries: list[Any] = []
    for each, own in gpus.groupby(size):
        unit = "" if entries else " GPU" + "s" * int(own.max() > 1)
        sizes = "-".join(map(str, sorted({own.min(), own.max()})))
        entries.append(Patch(label=sizes + unit, **fill(COLOURS[each], light=False)))
    return size, entries


def _classes(gpus: pd.Series, gpu_s: pd.Series) -> Ints:
    """Find the largest size of each class of jobs, given the sizes and GPU-seconds of jobs.

    Each size is a class. If there are too many, classes end at powers of two, and those with least
    GPU-seconds are merged.
    """
    if gpus.nunique() > len(COLOURS):
        gpus = 2 ** np.ceil(np.log2(gpus)).astype(np.int64)
    time = gpu_s.groupby(gpus).sum()
    while len(time) > len(COLOURS):
        least = int(np.argmin(time.to_numpy()[1:] + time.to_numpy()[:-1]))
        time.iloc[least + 1] += time.iloc[least]
        time = time.drop(time.index[least])
    return time.index.to_numpy()


def _colours_of_jobs(held: pd.DataFrame) -> pd.Series:
    """Give each job the colour that is rarest among its neighbours, then among all jobs."""
    beside = _neighbours(held)
    chosen: dict[int, int] = {}
    for job, others in beside.items():
        near = Counter(chosen[other] for other in others if other in chosen)
        used = Counter(chosen.values())
        chosen[job] = min(range(len(COLOURS)), key=lambda each: (near[each], used[each], each))
    return pd.Series(chosen)


def _neighbours(held: pd.DataFrame) -> dict[int, dict[int, None]]:
    """Find the jobs that have the same rows right before or after each job, or adjacent rows.

    Jobs are in order of their first start.
    """
    last = np.full(held["row"].max() + 3, -1)  # job that had each row last, and margins
    found: dict[int, dict[int, None]] = {}
    for key, rows in held.groupby(["start_s", "job"])["row"]:
        job: Any = key[1]
        own = found.setdefault(job, {})
        for other in np.unique(last[np.concatenate((rows, rows + 1, rows + 2))]).tolist():
            if other not in (job, -1):
                own[other] = found[other][job] = None
        last[rows + 1] = job
    return found


# --- blocks ---------------------------------------------------------------------------------


def _draw_blocks(ax: Axes, blocks: pd.DataFrame, colours: pd.Series, row_in: float, span: float
                 ) -> list[Any]:
    """Draw each block; return entries of the legend for states, if there are several."""
    from matplotlib.patches import Patch

    gap = min(0.08, 0.005 / row_in)  # between blocks, as a share of a row
    low = blocks["row"] - 0.5 + gap / 2
    blocks = blocks.assign(low=low, high=low + blocks["count"] - gap,
                           colour=blocks["job"].map(colours).astype(str))
    spans, entries = [], []
    looks: dict[str, dict[str, Any]] = {}
    for state, (light, hatch) in _LOOKS.items():
        begin, end = STATES[state]
        part = blocks.assign(kind=state + blocks["colour"], begin=blocks[begin], end=blocks[end])
        spans.append(part[part["end"] > part["begin"]])
        looks |= {f"{state}{k}": _look(colour, light=light, hatch=hatch)
                  for k, colour in enumerate(COLOURS)}
        if len(spans[-1]):
            entries.append(Patch(label=state, **_look(_PAUSED, light=light, hatch=hatch)))
    draw_spans(ax, pd.concat(spans), looks, span)
    return entries if len(entries) > 1 else []


def _look(colour: str, *, light: bool, hatch: str) -> dict[str, Any]:
    """Matplotlib's style of a block."""
    edge = {} if light else {"edgecolor": "white"}
    return fill(colour, light=light) | {"hatch": hatch, "linewidth": 0.3} | edge


def _name_blocks(ax: Axes, blocks: pd.DataFrame, colours: pd.Series, row_in: float,
                 second_in: float) -> None:
    """Write the number of its job on each block that has room for it."""
    middle = (blocks["run_s"] + blocks["stop_s"]) / 2
    width = (blocks["stop_s"] - blocks["run_s"]) * second_in
    for job, row, count, at, wide in zip(blocks["job"], blocks["row"], blocks["count"], middle,
                                         width, strict=True):
        if wide >= _DIGIT_IN * (len(str(job)) + 0.5) and count * row_in >= _TEXT_IN:
            ax.text(at, row + (count - 1) / 2, str(job), ha="center", va="center_baseline",
                    fontsize=6.5, color=text_on(COLOURS[colours[job]]), clip_on=True)


def _draw_marks(ax: Axes, blocks: pd.DataFrame) -> Iterator[Any]:
    """Mark the ends of segments, unless they are too many; yield entries of the legend."""
    from matplotlib.lines import Line2D

    for reason, (marker, label) in _ENDS.items():
        own = blocks[blocks["reason"] == reason]
        if not 0 < len(own) <= _MARKS:
            continue
        top, at = own["row"] - 0.5, own["end_s"]
        if marker == "|":
            ax.vlines(at, top, top + own["count"], color=INK, linewidth=0.7)
        else:
            ax.plot(at, top + own["count"] / 2, marker, color=INK, markersize=3.5,
                    markeredgewidth=1.1)
        yield Line2D([], [], color=INK, linestyle="", marker=marker, markersize=5,
                     markeredgewidth=1.1, label=label)


# --- image ----------------------------------------------------------------------------------


def _draw_image(ax: Axes, held: pd.DataFrame, colours: pd.Series, rows: _Rows, edges: Floats
                ) -> list[Any]:
    """Draw means over intervals; return an entry of the legend if GPUs restore or save."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    def share(held: pd.DataFrame, state: str) -> Floats:
        begin, end = (held[name] for name in STATES[state])
        whole = np.diff(edges) * rows.gpus[:, None]  # GPU-seconds of a pixel
        return time_within(begin, end, edges, held["row"], len(rows.gpus)) / whole

    colour = colours[held["job"]].to_numpy()
    running = np.stack([share(held[colour == k], "running") for k in range(len(COLOURS))])
    paused = (share(held, "restoring") + share(held, "saving"))[..., None]
    hues = np.array([to_rgb(each) for each in COLOURS])[running.argmax(axis=0)]
    runs = running.sum(axis=0)[..., None]
    picture = runs * hues + paused * np.array(to_rgb(_PAUSED)) + np.clip(1 - runs - paused, 0, 1)
    ax.imshow(np.clip(picture, 0, 1), aspect="auto", interpolation="nearest", zorder=1,
              extent=(edges[0], edges[-1], len(rows.gpus) - 0.5, -0.5))
    return ([Patch(label="restoring or saving", facecolor=_PAUSED)]
            if paused.max() > _SEEN else [])


# --- axes -----------------------------------------------------------------------------------


def _label_servers(ax: Axes, rows: _Rows, row_in: float) -> None:
    """Label servers, as many as there is room for, and draw lines between them if they are few."""
    first, servers = rows.first, len(rows.first) - 1
    dress(ax, "x")
    steps = (factor * 10 ** power for power in range(8) for factor in (1, 2, 5))
    step = next(each for each in steps
                if each * len(rows.gpus) / servers * row_in >= _LABEL_IN or each >= servers)
    shown = np.arange(0, servers, step)
    middle = (first[shown] + np.maximum(first[shown + 1], first[shown] + 1) - 1) / 2
    kept: list[int] = []
    for k, at in enumerate(middle):  # servers may differ in size
        if not kept or (at - middle[kept[-1]]) * row_in >= 0.99 * _LABEL_IN:
            kept.append(k)
    ax.set_yticks(middle[kept], [f"{server:,}" for server in shown[kept]])
    ax.set_ylim(len(rows.gpus) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0, labelsize=6.5)
    if servers <= min(_SERVERS, len(rows.gpus) - 1):
        for row in first[1:-1]:
            ax.axhline(row - 0.5, color=INK, linewidth=0.3, zorder=2.5)
    ax.spines[:].set_visible(True)
    for spine in ax.spines.values():
        spine.set_color(GREY)


def _dress_strip(ax: Axes, most: int) -> None:
    """Label the strip of waiting jobs with their largest number."""
    dress(ax, "x")
    ax.set_ylim(0, most)
    ax.set_yticks([0, most], ["0", f"{most:,}"])
    ax.tick_params(axis="y", labelsize=6.5)
    ax.tick_params(axis="x", length=0)
    ax.set_ylabel("jobs\nwaiting", fontsize=6.5, color=INK)


def _in_words(held: pd.DataFrame, ax: Axes, entries: list[Any]) -> str:
    """Describe the jobs for the label of the time axis, and count the ends that are not marked."""
    segments, marked = segments_of(held), {entry.get_label() for entry in entries}
    said, jobs = "", segments["job"].nunique()
    if jobs > _JOBS:
        said += f"; {jobs:,} jobs, coloured by size"
    elif ax.texts:
        said += "; numbers are jobs"
    counts = {label: int((segments["reason"] == reason).sum())
              for reason, (_, label) in _ENDS.items() if label not in marked}
    left_out = "; ".join(f"{count:,} times {label}" for label, count in counts.items() if count)
    return f"{said}\n{left_out}" if left_out else said
