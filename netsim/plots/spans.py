"""Tables of spans, which charts and timelines show, and the one drawing of them as bars.

A table of spans has a row per span, with the times ``begin`` and ``end`` in seconds. For a timeline
it is made here from the tables of a result: ``owner`` is the index of a job, a GPU, a server or a
rank, ``kind`` and ``label`` say what it does, and all columns of no other meaning are details that
a viewer shows. For a chart, each picture makes its own from these, with ``low`` and ``high``, the y
of the edges of a bar.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from netsim.analysis.usage import (
    STATES,
    coflows_for_timeline,
    computations,
    end_of,
    gpus_per_server,
    held_gpus,
    held_workers,
    segments_of,
    suspended,
)
from netsim.base.arrays import Floats, Ints
from netsim.plots.style import (
    COLOURS,
    add_legend,
    axes_on,
    drawable,
    dress,
    name_axes,
    name_rows,
    time_axis,
)
from netsim.results.lazy_table import columns_of
from netsim.results.result import on_edge, table_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from netsim.results.result import Result
    from netsim.workload import Workload

#: GPUs that have a track each; if there are more, servers have.
MOST_GPUS = 128

_COLUMNS = ("coflow", "job", "iteration", "stage", "valid_s", "start_s", "finish_s", "cct_s",
            "bytes", "width", "gamma_s", "deadline_s")

#: Columns of coflows where something passes before or after they send.
_WITH_PARTS = ("begin_s", "sent_s")

#: Details of a coflow, or of a state of a job on an edge-cloud.
_DETAILS = ("coflow", "iteration", "stage", "bytes", "width", "gamma_s", "cct_s", "start_s",
            "begin_s", "sent_s", "deadline_s", "ps")

#: Kinds of other coflows that follow the name of their stage; state that moves is a stage itself.
_WHY = ("withdrawn", "repeated")

#: Columns of a table of spans on lanes that are no details. ``start`` and ``stop`` are in whole
#: nanoseconds; ``lane`` is among those of the owner, and ``opens`` whether the span is the first on
#: it; ``thing`` is the number of a coflow or of a time that GPUs were held, or -1.
_NO_DETAILS = ("owner", "begin", "end", "start", "stop", "lane", "opens", "thing", "kind", "label")

#: Overlap of spans, in nanoseconds, that is taken for rounding: the later span is then shortened.
_SLACK = 4


@dataclass(frozen=True, slots=True)
class Spans:
    """The first spans of a kind of owners, on lanes on which they do not overlap."""

    table: pd.DataFrame = field(default_factory=lambda: on_lanes(_table([], [], []), 0))
    owners: Sequence[str] = ()  #: their names
    things: str = ""  #: what is counted as ``thing``, if anything
    total: int = 0  #: number of things, of which the table may have only the first

    def details(self) -> list[dict[str, Any]]:
        """The details of each span, without unknown ones."""
        names = [name for name in self.table if name not in _NO_DETAILS]
        return [known(row) for row in self.table[names].astype(object).to_dict("records")]

    def shown(self) -> int:
        """The number of things in the table."""
        thing = self.table["thing"]
        return int(thing[thing >= 0].nunique())


def known(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Drop NaN and infinite values, which JSON cannot represent."""
    return {str(key): value for key, value in row.items()
            if not isinstance(value, float) or np.isfinite(value)}


def nanoseconds(seconds: ArrayLike) -> Ints:
    """Convert times from seconds to whole nanoseconds."""
    return np.rint(np.asarray(seconds, np.float64) * 1e9).astype(np.int64)


# --- tables of a result --------------------------------------------------------------------


def job_spans(result: Result, workload: Workload | None, most: int) -> Spans:
    """Lay out the coflows and computations of a run, of which the first `most`, as spans.

    Computations are known only with the simulated workload. Runs on a cluster or an edge-cloud need
    no recorded coflows.
    """
    labels = [*job_names(result).values()]
    if on_edge(result.run):
        return Spans(on_lanes(_edge_states(result), most), labels)
    if table_of(result, "coflows") is None and table_of(result, "gpus") is not None:
        coflows, things = pd.DataFrame(columns=[*_COLUMNS]), ""  # the GPUs are shown
    else:
        coflows, things = coflows_for_timeline(result, (*_COLUMNS, *_WITH_PARTS)), "coflows"
    coflows = with_others(coflows, result)
    sent = _table(_places(result, coflows["job"]), coflows["valid_s"], coflows["finish_s"],
                  kind="coflow", thing=np.arange(len(coflows)), row=np.arange(len(coflows)))
    # Computations that begin after the last coflow that may be shown are not needed.
    latest = np.partition(sent["begin"], most)[most] if len(sent) > most else np.inf
    computed = pd.DataFrame([] if workload is None else [
        each for each in computations(result, workload) if each.start_s <= latest],
        columns=["job", "iteration", "stage", "start_s", "end_s"])
    spans = on_lanes(pd.concat([sent, _table(
        computed["job"], computed["start_s"], computed["end_s"], kind="compute",
        label="compute", row=np.arange(len(computed)))], ignore_index=True), most)
    is_sent = (spans["kind"] == "coflow").to_numpy()
    own = coflows.iloc[spans["row"][is_sent]].set_index(spans.index[is_sent])
    rest = computed.iloc[spans["row"][~is_sent]].set_index(spans.index[~is_sent])
    details = pd.concat([own[[name for name in _DETAILS if name in own]].astype(object),
                         rest[["iteration", "stage"]].astype(object)])
    spans = spans.drop(columns="row").join(details)
    spans.loc[is_sent, "label"] = own["stage"].astype(str) + (
        [f" ({why})" if why in _WHY else "" for why in own["why"]] if "why" in own else "")
    # Parts are last: viewers nest an event in an earlier one with the same start.
    return Spans(pd.concat([spans, *_parts(spans[is_sent], own)]), labels, things, len(coflows))


def job_names(result: Result) -> dict[int, str]:
    """Name each job by its number and its name."""
    ids, names = (result.jobs[name].tolist() for name in ("job", "name"))
    return {job: f"job {job}" + (f" {name}" if name else "")
            for job, name in zip(ids, names, strict=True)}


def with_others(coflows: pd.DataFrame, result: Result) -> pd.DataFrame:
    """Join coflows with those of `Result.other_coflows`.

    These have their ends in the columns of the others, and their kind in ``why``.
    """
    if "other_coflows" not in result.recorded or result.other_coflows.empty:
        return coflows
    others = result.other_coflows.rename(columns={"end_s": "finish_s"})
    if "coflow" in others:  # cancelled ones of a script, which have a row in both
        coflows = coflows[~coflows["coflow"].isin(others["coflow"])]
    whole = dict.fromkeys(("stage", "coflow", "width"), object)  # whole numbers stay whole
    return pd.concat([coflows.astype(whole), others], ignore_index=True)


def parts_of(coflows: pd.DataFrame) -> dict[str, tuple[pd.Series, pd.Series]]:
    """Split coflows into parts, by name: the times at which each begins and ends, in seconds.

    They are the overhead before the first byte, the sending of bytes, and the tail, in which the
    last bytes are in transit. Empty if no coflow has an overhead or a tail.
    """
    if not {*_WITH_PARTS} <= {*coflows.columns}:
        return {}
    valid, finish = coflows["valid_s"], coflows["finish_s"]
    begin, sent = coflows["begin_s"].fillna(valid), coflows["sent_s"].fillna(finish)
    return {"overhead": (valid, begin), "sending": (begin, sent), "tail": (sent, finish)}


def _parts(spans: pd.DataFrame, coflows: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the parts of coflows, on their lanes."""
    for name, ends in parts_of(coflows).items():
        start, stop = (np.clip(nanoseconds(each), spans["start"], spans["stop"]) for each in ends)
        part = spans[["owner", "lane"]].assign(start=start, stop=stop, opens=False, thing=-1,
                                               kind=name, label=name)
        yield part[stop > start]


def _places(result: Result, jobs: pd.Series) -> Ints:
    """The indices of jobs in the table of jobs."""
    ids = result.jobs["job"].to_numpy()
    order = np.argsort(ids)
    found: Ints = order[np.searchsorted(ids, jobs.to_numpy(), sorter=order)]
    return found


def _edge_states(result: Result) -> pd.DataFrame:
    """List the states of the jobs of an edge-cloud over time.

    Jobs wait for their first data, and train. Whole jobs also restore and save progress, and are
    suspended.
    """
    ps, end = result.ps, end_of(result)
    where = np.where(ps["server"] < 0, "in the cloud",
                     "server " + ps["server"].astype(str) + ", PS " + ps["ps"].astype(str))
    training = ps.assign(stage="training", ps=where, end_s=ps["end_s"].fillna(end))
    does = pd.concat([*besides_training(result), training])
    does = does[does["end_s"] > does["start_s"]]
    return _table(_places(result, does["job"]), does["start_s"], does["end_s"],
                  kind=does["stage"], label=does["stage"],
                  **{name: does[name] for name in ("stage", "start_s", "ps")})


def besides_training(result: Result) -> Iterator[pd.DataFrame]:
    """Yield the states of jobs on an edge-cloud other than training: job, stage, start_s, end_s.

    Nothing is known of chunks, or of whole jobs, if the tables ``chunks`` and ``held`` are not
    recorded.
    """
    end = end_of(result)
    if "chunks" in result.recorded:
        first = result.chunks.groupby("job", as_index=False)[["dispatch_s", "ready_s"]].min()
        uploads = first.rename(columns={"dispatch_s": "start_s", "ready_s": "end_s"})
        yield uploads.assign(stage="upload", end_s=uploads["end_s"].fillna(end))
    if (held := held_workers(result)) is None:
        return
    ends = result.jobs.set_index("job")["finish_s"].fillna(end)
    spells = segments_of(held)
    for stage, state in (("upload", "uploading"), ("restore", "restoring"), ("save", "saving")):
        begin, stop = STATES[state]
        yield pd.DataFrame({"job": spells["job"], "stage": stage, "start_s": spells[begin],
                            "end_s": spells[stop]})
    yield suspended(held, ends).assign(stage="suspended")


def rank_spans(result: Result, most: int) -> Spans:
    """Lay out the first `most` computations of ranks as spans; none if they were not recorded."""
    table = columns_of(table_of(result, "computations"),
                       ["job", "rank", "iteration", "stage", "start_s", "finish_s"])
    if table is None:
        return Spans()
    table = table[table["finish_s"] > table["start_s"]]
    owner, names = _owners("job {}, rank {}", table["job"], table["rank"])
    return Spans(on_lanes(_table(owner, table["start_s"], table["finish_s"], kind="compute",
                                  label=table["stage"].astype(str),
                                  iteration=table["iteration"]), most), names)


def gpu_spans(result: Result, most: int) -> Spans:
    """Lay out the jobs on GPUs or edge workers as spans, at most `most`; none on a network."""
    if on_edge(result.run):
        held, owner, names = _on_workers(result)
        shown, noun = "chunk", "workers"
    elif table_of(result, "gpus") is not None:
        held, owner, names = _on_gpus(result)
        shown, noun = "gpus", "GPUs"
    else:
        return Spans()
    ended = [reason if isinstance(reason, str) else np.nan for reason in held["reason"]]
    whole = on_lanes(_table(
        owner, held["start_s"], held["end_s"], thing=np.arange(len(held)), job=held["job"],
        **{shown: held[shown], "ended": ended}), most)
    total, held = len(held), held.iloc[whole["thing"]]
    label = whole["job"].map(job_names(result))
    parts = []
    for state, columns in STATES.items():  # on the same lanes
        start, stop = (np.clip(nanoseconds(held[name]), whole["start"], whole["stop"])
                       for name in columns)
        part = whole.assign(start=start, stop=stop, kind=state,
                            opens=whole["opens"] & (start == whole["start"]),
                            label=label + ("" if state == "running" else f": {state}"))
        parts.append(part[stop > start])
    table = pd.concat(parts).sort_values(["start", "thing"], kind="stable")
    return Spans(table.head(most), names, f"times that jobs held {noun}", total)


def _on_workers(result: Result) -> tuple[pd.DataFrame, Ints, list[str]]:
    """The training on the workers of an edge-cloud, or the jobs that hold them, with the owners."""
    held = held_workers(result)
    if held is None:
        training = result.training
        ends = training["end_s"].fillna(end_of(result))
        held = training.assign(end_s=ends, data_s=training["start_s"], run_s=training["start_s"],
                               stop_s=ends, reason=None)
    else:
        held = held.assign(chunk=-1)
    held = held[(held["server"] >= 0) & (held["end_s"] > held["start_s"])]
    owner, names = _owners("server {}, worker {}", held["server"], held["worker"])
    if len(names) > MOST_GPUS:
        owner, names = _owners("server {}", held["server"])
    return held, owner, names


def _on_gpus(result: Result) -> tuple[pd.DataFrame, Ints, list[str]]:
    """The jobs on GPUs, or on servers with ``gpus`` if GPUs are too many, with the owners."""
    held, per_server = held_gpus(result), gpus_per_server(result)
    held = held[held["end_s"] > held["start_s"]]
    if per_server.sum() > MOST_GPUS:
        of_server = ["job", "start_s", "server"]
        counts = held.groupby(of_server, sort=False).size()
        held = held.drop_duplicates(of_server).assign(gpus=counts.to_numpy())
        return held, held["server"].to_numpy(), [
            f"server {server}" for server in range(len(per_server))]
    return held.assign(gpus=1), held["number"].to_numpy(), [
        f"server {server}, GPU {gpu}" for server, count in enumerate(per_server.tolist())
        for gpu in range(count)]


def _owners(name: str, *numbers: pd.Series) -> tuple[Ints, list[str]]:
    """The index of each row's owner, given the numbers that make it up, and the owners' names."""
    found, owner = np.unique(np.stack(numbers), axis=1, return_inverse=True)
    return owner.ravel(), [name.format(*each) for each in found.T.tolist()]


def _table(owner: ArrayLike, begin: Any, end: Any, **columns: Any) -> pd.DataFrame:
    """Build a table of spans from columns, whose indices do not matter."""
    return pd.DataFrame({
        "owner": np.asarray(owner, np.int64), "begin": np.asarray(begin, np.float64),
        "end": np.asarray(end, np.float64), "thing": -1, "kind": "", "label": "", **{
            name: column.to_numpy() if isinstance(column, pd.Series) else column
            for name, column in columns.items()}})


def on_lanes(spans: pd.DataFrame, most: int | None = None) -> pd.DataFrame:
    """Put the first spans, in order of their start, on the first free lane of their owners."""
    spans = spans.assign(start=nanoseconds(spans["begin"]), stop=nanoseconds(spans["end"]))
    first = spans.iloc[np.lexsort((spans["stop"], spans["start"]))[:most]].reset_index(drop=True)
    free: dict[int, list[int]] = {}
    placed = []
    for owner, start, stop in zip(*(first[name].tolist() for name in ("owner", "start", "stop")),
                                  strict=True):
        lanes = free.setdefault(owner, [])
        lane = next((lane for lane, until in enumerate(lanes) if until <= start + _SLACK),
                    len(lanes))
        opens = lane == len(lanes)
        start = start if opens else max(start, lanes[lane])
        stop = max(start, stop)
        lanes[lane:lane + 1] = [stop]
        placed.append((start, stop, lane, opens))
    names = ["start", "stop", "lane", "opens"]
    return first.assign(**pd.DataFrame(placed, columns=names).astype(
        dict.fromkeys(names[:3], np.int64) | {"opens": bool}))


def lanes_of(begin: pd.Series, end: pd.Series) -> Ints:
    """The lane of each span of one row; simultaneous ones have lanes of their own."""
    spans = _table(np.zeros(len(begin)), begin, end, thing=np.arange(len(begin)))
    found: Ints = on_lanes(spans).sort_values("thing")["lane"].to_numpy()
    return found


def time_within(begin: ArrayLike, end: ArrayLike, edges: Floats, rows: Any = 0,
                count: int = 1, weight: Any = 1.0) -> Floats:
    """Sum the seconds of spans in each interval between edges, by row, times their weight.

    The result has shape (count, intervals).
    """
    width = np.diff(edges)
    found = np.zeros((count, len(width)))
    for instants, sign in ((begin, 1.0), (end, -1.0)):
        at = np.clip(np.asarray(instants, np.float64), edges[0], edges[-1])
        bins = np.clip(np.searchsorted(edges, at, "right") - 1, 0, len(width) - 1)
        since = np.zeros((count, len(width) + 1))  # weight that changed before each interval
        np.add.at(since, (rows, bins + 1), sign * weight)
        found += np.cumsum(since, axis=1)[:, :-1] * width
        np.add.at(found, (rows, bins), sign * weight * (edges[bins + 1] - at))
    return found


# --- charts --------------------------------------------------------------------------------

ROW = 0.84  # height of a row, as a share of the distance between two
ROW_IN = 0.125  # distance between two rows, in inches

IDLE, WAITING = "#e4e4e4", "#9c9c9c"

#: Hatches tell kinds apart in greyscale.
HATCHES = ("", "/////", "\\\\\\\\\\", ".....", "xxxxx", "-----")

#: Shares of the axis: below which a bar has no white edge, which would hide its colour, and from
#: which it can be seen.
NARROW, SEEN = 0.012, 1 / 400

_SPOTS = 2000  # resolution of the axis: bars nearer to each other are drawn as one


def look_of(index: int) -> dict[str, Any]:
    """Matplotlib's style of the bars of a kind, by its number."""
    return {"facecolor": COLOURS[index % len(COLOURS)], "edgecolor": "white", "linewidth": 0.3,
            "hatch": HATCHES[index % len(HATCHES)]}


def draw_rows(ax: Axes | None, lives: pd.DataFrame, names: Sequence[str], noun: str, note: str = "",
              row_in: float = ROW_IN) -> tuple[Axes, float]:
    """Draw a named row per life, from ``begin`` to ``end``, light grey; from the top.

    Return the axes, by default of a new figure, and the seconds that they show.
    """
    ax = axes_on(ax, 0.75 + max(row_in * len(lives), 0.4))
    begin = float(lives["begin"].min())
    span = float(lives["end"].max()) - begin or 1.0
    # The edge keeps short lives visible.
    draw_spans(ax, in_rows(lives.assign(kind="life"), range(len(lives))), {
        "life": {"facecolor": IDLE, "edgecolor": IDLE, "linewidth": 0.4}}, span)
    ax.set_xlim(begin - 0.01 * span, begin + 1.01 * span)
    name_rows(ax, names)
    name_axes(ax, y=noun)
    time_axis(ax, note)
    dress(ax, "both")
    ax.grid(axis="y", color=IDLE, linewidth=0.3)  # leads the eye from a name to its bar
    ax.tick_params(axis="y", length=0, labelsize=6.5)
    ax.spines["left"].set_visible(False)
    return ax, span


def in_rows(spans: pd.DataFrame, rows: Any, lane: Any = 0, lanes: int = 1) -> pd.DataFrame:
    """Place spans in their rows, or in one of several lanes of the rows."""
    low = np.asarray(rows) - ROW / 2 + ROW * lane / lanes
    return spans.assign(low=low, high=low + ROW / lanes)


def draw_spans(ax: Axes, spans: pd.DataFrame, looks: Mapping[str, Mapping[str, Any]],
               span: float, spots: int = _SPOTS, whole: float = 0.0) -> set[str]:
    """Draw spans in the looks of their kinds, later kinds over earlier ones.

    `span` is the length of the axis in seconds. Bars less than one of `spots` apart are drawn as
    one, but not those longer than the share `whole` of the axis, so that the edge between them is
    drawn. Return the kinds that can be seen.
    """
    from matplotlib.collections import PolyCollection

    found = set()
    for kind, look in looks.items():
        bars = _merged(spans[spans["kind"] == kind], span / spots, max(whole, 1 / spots) * span)
        begin, end, low, high = bars.T
        corners = np.stack([np.stack([begin, end, end, begin], 1),
                            np.stack([low, low, high, high], 1)], 2)
        narrow = end - begin < NARROW * span
        slim = {"edgecolor": look["facecolor"], "linewidth": 0.2, "hatch": ""}
        for own, style in ((narrow, slim if look.get("edgecolor") == "white" else {}),
                           (~narrow, {})):
            if own.any():
                ax.add_collection(PolyCollection(corners[own], **{**look, **style}), autolim=False)
        if (end - begin >= SEEN * span).any():
            found.add(kind)
    return found


def _merged(spans: pd.DataFrame, least: float, seen: float) -> Floats:
    """Merge bars of a kind that are too close in their row: begin, end, low and high of each."""
    found: list[list[float]] = []
    for bar in spans.sort_values(["low", "begin"], kind="stable")[
            ["begin", "end", "low", "high"]].to_numpy(np.float64).tolist():
        last = found[-1] if found and found[-1][2:] == bar[2:] else None
        if last and (bar[1] - last[0] < least or (
                bar[0] - last[1] < least and last[1] - last[0] < seen)):
            last[1] = max(last[1], bar[1])
        else:
            found.append(bar)
    return np.array(found).reshape(-1, 4)


def add_key(ax: Axes, kinds: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Add a legend of kinds and their looks."""
    from matplotlib.patches import Patch

    add_legend(ax, [Patch(label=drawable(kind), **look) for kind, look in kinds])
