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
from netsim.plots.spans import IDLE, NARROW, add_key, draw_rows, draw_spans, in_rows, look_of
from netsim.plots.style import COLOURS, drawable, require_matplotlib

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
    kinds = table["stage"].astype(str).map(_kind)
    # Passes have fixed colours, whichever are drawn and come first.
    passes = _PASSES.values() if kinds.isin([*_PASSES.values()]).any() else ()
    listed = list(dict.fromkeys([*passes, *kinds]))
    if len(listed) > len(COLOURS):
        kinds, listed = pd.Series(_ANY, table.index), [_ANY]
    begin, end = _life(result, {job for job, _ in shown})
    names = _names(result.jobs, {job for job, _ in shown})
    one = len(names) == 1
    ax, span = draw_rows(
        ax, pd.DataFrame({"begin": begin, "end": end}, index=range(len(shown))),
        [str(rank) if one else f"{names[job]}: {rank}" for job, rank in shown],
        "rank" if one else "job: rank",
        f"; {len(shown):,} of {len(rows):,} ranks" if len(shown) < len(rows) else "", _ROW_IN)
    table = table.assign(kind=kinds).sort_values("start_s", kind="stable")
    of_rank = dict(list(table.groupby(["job", "rank"])))
    spans = [in_rows(_joined(of_rank[row]), y) for y, row in enumerate(shown)]
    looks = {kind: look_of(k) | {"linewidth": 0.2} for k, kind in enumerate(listed)}
    draw_spans(ax, pd.concat(spans), looks, span, _SPOTS, NARROW)
    add_key(ax, [*((kind, looks[kind]) for kind in listed if kind in set(kinds)),
                 ("idle", {"facecolor": IDLE})])
    return ax


def _life(result: Result, jobs: set[int]) -> tuple[float, float]:
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
        begin=("start_s", "first"), end=("finish_s", "last"), kind=("kind", "first"))


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
