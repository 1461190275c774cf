"""A Gantt chart of what ranks compute, a row per rank; it needs the extra ``plot``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from netsim.base.values import as_collection
from netsim.errors import InputError
from netsim.plots.gantt import HATCHES, IDLE, NARROW, ROW, draw_spells, merge_close
from netsim.plots.style import (
    COLOURS,
    add_legend,
    drawable,
    dress,
    name_axes,
    name_rows,
    new_axes,
    require_matplotlib,
    time_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from netsim.results.result import Result

_ROWS = 16  # ranks drawn by default
_ROW_IN = 0.16  # distance between two rows, in inches
_SPOTS = 300  # resolution of the axis: of shorter bars, the white edges would hide the colour

#: Names of the passes of a language model's training.
_PASSES = {"F": "forward", "B": "backward"}

_ANY = "computation"  # name of the only entry if there are too many kinds to tell apart


def rank_gantt(result: Result, ax: Axes | None = None, *, ranks: Sequence[int] | None = None
               ) -> Axes:
    """Draw what ranks compute over time: a row per rank, grey where it is idle.

    The axis begins at the first arrival of the jobs that are drawn, and ends when the last of them
    ends, or at the end of a stopped run.

    Stages are coloured by kind: their name up to a digit, a dot or a slash. So the forward passes
    of all micro-batches have one colour.

    Parameters
    ----------
    result : Result
        A result with computations recorded.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure, one paper column wide.
    ranks : sequence of int, optional
        The ranks to draw; by default 16 at equal distances, such as one or two of each stage of a
        pipeline. The label of the axis says how many there are in all.

    Returns
    -------
    Axes

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    InputError
        If computations were not recorded, or there is nothing to draw.
    """
    require_matplotlib(ax)
    table = result.computations
    table = table[table["finish_s"] > table["start_s"]]
    rows = list(dict.fromkeys(zip(table["job"], table["rank"], strict=True)))
    shown = _chosen(sorted(rows), ranks)
    if not shown:
        raise InputError("there is nothing to draw: no rank that is asked for has computed")
    if ax is None:
        ax = new_axes(height_in=0.75 + max(_ROW_IN * len(shown), 0.4))
    kinds = table["stage"].astype(str).map(_kind)
    # Passes have fixed colours, whichever are drawn and come first.
    passes = _PASSES.values() if kinds.isin([*_PASSES.values()]).any() else ()
    listed = list(dict.fromkeys([*passes, *kinds]))
    if len(listed) > len(COLOURS):
        kinds, listed = pd.Series(_ANY, table.index), [_ANY]
    begin, end = _lives(result, {job for job, _ in shown})
    for y, (job, rank) in enumerate(shown):
        ax.broken_barh([(begin, end - begin)], (y - ROW / 2, ROW), facecolor=IDLE)
        own = table[(table["job"] == job) & (table["rank"] == rank)]
        own = _joined(own.assign(kind=kinds[own.index]).sort_values("start_s"))
        for k, kind in enumerate(listed):
            bars = own[own["kind"] == kind]
            draw_spells(ax, list(merge_close(bars["start_s"], bars["finish_s"],
                                             (end - begin) / _SPOTS, (end - begin) * NARROW)),
                        (y - ROW / 2, ROW), end - begin, facecolor=COLOURS[k], edgecolor="white",
                        linewidth=0.2, hatch=HATCHES[k])
    _finish(ax, shown, len(rows), _names(result.jobs, {job for job, _ in shown}))
    _add_key(ax, {kind: k for k, kind in enumerate(listed) if kind in set(kinds)})
    ax.set_xlim(begin - 0.01 * (end - begin), end + 0.01 * (end - begin))
    return ax


def _lives(result: Result, jobs: set[int]) -> tuple[float, float]:
    """The time at which the first of some jobs arrives, and that at which the last one ends."""
    rows = result.jobs[result.jobs["job"].isin(jobs)]
    ends = rows["finish_s"].fillna(result.run["stopped_at_s"] or np.inf)
    if not np.isfinite(ends).all():
        ends = result.computations["finish_s"]
    return float(rows["arrival_s"].min()), float(ends.max())


def _joined(computed: pd.DataFrame) -> pd.DataFrame:
    """Join consecutive computations of a rank that belong to one pass."""
    part = computed["stage"].astype(str).str.partition("/")[0]
    # Sums of times may differ in their last bits.
    gap = (computed["start_s"] - computed["finish_s"].shift()).abs()
    follows = (part == part.shift()) & (gap <= 1e-9 * computed["finish_s"])
    return computed.groupby((~follows).cumsum(), sort=False).agg(
        {"start_s": "first", "finish_s": "last", "kind": "first"})


def _kind(stage: str) -> str:
    """The kind of a stage; see `rank_gantt`."""
    kind = re.split(r"[\d./]", stage, maxsplit=1)[0].rstrip("-_ ") or stage
    return _PASSES.get(kind, kind)


def _chosen(rows: list[tuple[int, int]], ranks: Sequence[int] | None) -> list[tuple[int, int]]:
    """Select the rows to draw, each a job and a rank."""
    if ranks is not None:
        wanted = set(as_collection(ranks, "ranks", int | np.integer, "whole numbers"))
        return [row for row in rows if row[1] in wanted]
    if len(rows) <= _ROWS:
        return rows
    return [rows[k * len(rows) // _ROWS] for k in range(_ROWS)]


def _names(jobs: pd.DataFrame, shown: set[int]) -> dict[int, str]:
    """Name jobs by their names, with the number if several have the same."""
    own = jobs[jobs["job"].isin(shown)]
    names = dict(zip(own["job"].tolist(), own["name"].astype(str).tolist(), strict=True))
    once = {name for name, count in Counter(names.values()).items() if count == 1} - {""}
    return {job: drawable(name if name in once else f"{job} {name}".strip())
            for job, name in names.items()}


def _finish(ax: Axes, shown: list[tuple[int, int]], count: int, names: dict[int, str]) -> None:
    """Label the rows, and say on the axis how many there are."""
    one = len(names) == 1
    name_rows(ax, [str(rank) if one else f"{names[job]}: {rank}" for job, rank in shown])
    name_axes(ax, y="rank" if one else "job: rank")
    time_axis(ax, f"; {len(shown):,} of {count:,} ranks" if len(shown) < count else "")
    dress(ax, "both")
    ax.tick_params(axis="y", length=0, labelsize=6.5)
    ax.spines["left"].set_visible(False)


def _add_key(ax: Axes, kinds: dict[str, int]) -> None:
    """Add a legend of kinds of stages, given the number of the colour of each."""
    from matplotlib.patches import Patch

    entries = [Patch(label=drawable(kind), facecolor=COLOURS[k], hatch=HATCHES[k],
                     edgecolor="white", linewidth=0.2) for kind, k in kinds.items()]
    add_legend(ax, [*entries, Patch(label="idle", facecolor=IDLE)])
