"""Coflows, computations and training of jobs, and jobs on GPUs or workers, as spans on lanes.

Spans on a lane do not overlap. Trace viewers take times in whole nanoseconds, written as
microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from netsim.analysis.usage import (
    STATES,
    Computation,
    computations,
    end_of,
    gpus_per_server,
    held_gpus,
    held_workers,
    segments_of,
    suspended,
)
from netsim.errors import InputError
from netsim.results.lazy_table import columns_of
from netsim.results.result import not_recorded, on_edge, table_of

if TYPE_CHECKING:
    from netsim.results.result import Result
    from netsim.workload import Workload


def nanoseconds(seconds: ArrayLike) -> NDArray[np.int64]:
    """Convert times from seconds to whole nanoseconds."""
    return np.rint(np.asarray(seconds, np.float64) * 1e9).astype(np.int64)


def microseconds(times: NDArray[np.int64]) -> list[Any]:
    """Convert whole nanoseconds to microseconds that a viewer converts back without loss.

    Perfetto multiplies by 1000 and truncates. The nearest float would sometimes give a nanosecond
    less, so that adjacent spans would overlap and be dropped; such values are rounded up.
    """
    near = times / 1000
    less = (near * 1000).astype(np.int64) < times
    found: list[Any] = np.where(less, np.nextafter(near, np.inf), near).tolist()
    return found


# --- spans ---------------------------------------------------------------------------------

#: A span: the index of its owner (a job, a GPU or a server); its start and end in nanoseconds; its
#: lane among those of the owner and whether it is the first on that lane; and ``which``. For jobs,
#: this is the row of a coflow if at least 0, or else of computation ``-1 - which``.
SPAN = np.dtype([("owner", "i8"), ("start", "i8"), ("end", "i8"), ("lane", "i8"), ("opens", "?"),
                 ("which", "i8")])

#: GPUs that have a track each; if there are more, servers have.
MOST_GPUS = 128

_COLUMNS = ("coflow", "job", "iteration", "stage", "valid_s", "start_s", "finish_s", "cct_s",
            "bytes", "width", "gamma_s", "deadline_s")

#: Columns of coflows where something passes before or after they send.
_WITH_PARTS = ("begin_s", "sent_s")

#: Overlap of spans, in nanoseconds, that is taken for rounding: the later span is then shortened.
_SLACK = 4


@dataclass(frozen=True, slots=True)
class JobSpans:
    """Coflows and computations of jobs over time."""

    spans: NDArray[np.void]  #: the first spans, in order of their start
    #: All completed coflows, and those of `Result.other_coflows`; on an edge-cloud, the states of
    #: jobs with their times.
    coflows: pd.DataFrame
    computations: list[Computation]  #: those that spans refer to, and possibly more


@dataclass(frozen=True, slots=True)
class GpuSpans:
    """GPUs that jobs hold over time, or workers of an edge-cloud on which they train."""

    #: As for jobs; ``which`` is the row of `held`, times the number of `STATES`, plus the number of
    #: the state.
    spans: NDArray[np.void]
    #: A row per segment of a job and GPU, or per server, with ``gpus``, the number of GPUs there;
    #: or per worker that a job held, or chunk trained on, with the ``chunk``.
    held: pd.DataFrame
    names: list[str]  #: of the GPUs or workers, or of the servers if there are too many of them
    noun: str = "GPUs"  #: or ``"workers"``
    shown: str = "gpus"  #: the column of `held` that is shown beside the job


@dataclass(frozen=True, slots=True)
class RankSpans:
    """Computations of ranks over time."""

    spans: NDArray[np.void]  #: as for jobs; ``which`` is the row of `computed`
    computed: pd.DataFrame
    names: list[str]


def job_spans(result: Result, workload: Workload | None, most: int) -> JobSpans:
    """Lay out the coflows and computations of a run, of which the first `most`, as spans.

    Computations are known only with the simulated workload. Runs on a cluster or an edge-cloud need
    no recorded coflows.
    """
    if on_edge(result.run):
        return _edge_job_spans(result, most)
    coflows = columns_of(table_of(result, "coflows"), (*_COLUMNS, *_WITH_PARTS))
    if coflows is None and table_of(result, "gpus") is not None:
        coflows = pd.DataFrame(columns=[*_COLUMNS])  # the GPUs are shown
    if coflows is None and "execution" in result.run:
        raise not_recorded(result.run, "coflows")  # such runs have no keyword timeline
    if coflows is None:
        raise InputError("coflows were not recorded; simulate with timeline=True")
    coflows = with_others(coflows, result)
    # Computations that begin after the last coflow that may be shown are not needed.
    valid = coflows["valid_s"].to_numpy()
    latest = np.partition(valid, most)[most] if len(valid) > most else np.inf
    computed = [] if workload is None else [
        each for each in computations(result, workload) if each.start_s <= latest]
    spans = np.zeros(len(coflows) + len(computed), SPAN)
    sent, rest = spans[:len(coflows)], spans[len(coflows):]
    sent["owner"] = _places(result, coflows["job"])
    sent["start"], sent["end"] = (nanoseconds(coflows[name]) for name in ("valid_s", "finish_s"))
    sent["which"] = np.arange(len(sent))
    if computed:
        rest["owner"] = [each.job for each in computed]
        rest["start"] = nanoseconds([each.start_s for each in computed])
        rest["end"] = nanoseconds([each.end_s for each in computed])
    rest["which"] = -1 - np.arange(len(rest))
    return JobSpans(_packed(spans, most), coflows, computed)


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


def _places(result: Result, jobs: pd.Series) -> NDArray[np.int64]:
    """The indices of jobs in the table of jobs."""
    ids = result.jobs["job"].to_numpy()
    order = np.argsort(ids)
    found: NDArray[np.int64] = order[np.searchsorted(ids, jobs.to_numpy(), sorter=order)]
    return found


def _edge_job_spans(result: Result, most: int) -> JobSpans:
    """Lay out the states of the jobs of an edge-cloud over time.

    Jobs wait for their first data, and train. Whole jobs also restore and save progress, and are
    suspended.
    """
    ps, end = result.ps, end_of(result)
    where = np.where(ps["server"] < 0, "in the cloud",
                     "server " + ps["server"].astype(str) + ", PS " + ps["ps"].astype(str))
    does = ps.assign(stage="training", ps=where, end_s=ps["end_s"].fillna(end))
    if "chunks" in result.recorded:
        first = result.chunks.groupby("job", as_index=False)[["dispatch_s", "ready_s"]].min()
        uploads = first.rename(columns={"dispatch_s": "start_s", "ready_s": "end_s"})
        uploads["end_s"] = uploads["end_s"].fillna(end)
        does = pd.concat([uploads.assign(stage="upload"), does])
    if (held := held_workers(result)) is not None:
        does = pd.concat([*_besides_training(held, result), does])
    does = does[["job", "stage", "ps", "start_s", "end_s"]].reset_index(drop=True)
    spans = np.zeros(len(does), SPAN)
    spans["owner"], spans["which"] = _places(result, does["job"]), np.arange(len(does))
    spans["start"], spans["end"] = nanoseconds(does["start_s"]), nanoseconds(does["end_s"])
    return JobSpans(_packed(spans[spans["end"] > spans["start"]], most), does, [])


def _besides_training(held: pd.DataFrame, result: Result) -> Iterator[pd.DataFrame]:
    """Yield the states of whole jobs other than training."""
    end, spells = end_of(result), segments_of(held)
    for stage, state in (("upload", "uploading"), ("restore", "restoring"), ("save", "saving")):
        begin, stop = STATES[state]
        yield pd.DataFrame({"job": spells["job"], "stage": stage, "start_s": spells[begin],
                            "end_s": spells[stop]})
    yield suspended(held, result.jobs.set_index("job")["finish_s"].fillna(end)).assign(
        stage="suspended")


def rank_spans(result: Result, most: int) -> RankSpans:
    """Lay out the first `most` computations of ranks as spans; none if they were not recorded."""
    table = columns_of(table_of(result, "computations"),
                       ["job", "rank", "iteration", "stage", "start_s", "finish_s"])
    if table is None:
        return RankSpans(np.zeros(0, SPAN), pd.DataFrame(columns=["stage", "iteration"]), [])
    table = table[table["finish_s"] > table["start_s"]].reset_index(drop=True)
    known, owner = np.unique(np.stack((table["job"], table["rank"])), axis=1, return_inverse=True)
    spans = np.zeros(len(table), SPAN)
    spans["owner"], spans["which"] = owner.ravel(), np.arange(len(table))
    spans["start"], spans["end"] = nanoseconds(table["start_s"]), nanoseconds(table["finish_s"])
    return RankSpans(_packed(spans, most) if len(spans) else spans, table,
                     [f"job {job}, rank {rank}" for job, rank in known.T.tolist()])


def _edge_spans(result: Result, most: int) -> GpuSpans:
    """Lay out the training on the workers of an edge-cloud, or the jobs that hold them."""
    held = held_workers(result)
    if held is None:
        training = result.training
        ends = training["end_s"].fillna(end_of(result))
        held = training.assign(end_s=ends, data_s=training["start_s"], run_s=training["start_s"],
                               stop_s=ends, reason=None)
    else:
        held = held.assign(chunk=-1)
    held = held[(held["server"] >= 0) & (held["end_s"] > held["start_s"])]
    workers = held["server"].to_numpy(), held["worker"].to_numpy()
    known, owner = np.unique(np.stack(workers), axis=1, return_inverse=True)
    names = [f"server {server}, worker {worker}" for server, worker in known.T.tolist()]
    if len(names) > MOST_GPUS:
        known, owner = np.unique(workers[0], return_inverse=True)
        names = [f"server {server}" for server in known.tolist()]
    spans = np.zeros(len(held), SPAN)
    spans["owner"], spans["which"] = owner.ravel(), np.arange(len(held))
    spans["start"], spans["end"] = nanoseconds(held["start_s"]), nanoseconds(held["end_s"])
    return GpuSpans(_by_state(_packed(spans, most), held)[:most], held, names, "workers", "chunk")


def gpu_spans(result: Result, most: int) -> GpuSpans:
    """Lay out the jobs on GPUs or edge workers as spans, at most `most`; none on a network."""
    if on_edge(result.run):
        return _edge_spans(result, most)
    if table_of(result, "gpus") is None:
        return GpuSpans(np.zeros(0, SPAN), pd.DataFrame(columns=["job", "gpus", "reason"]), [])
    held, per_server = held_gpus(result), gpus_per_server(result)
    held = held[held["end_s"] > held["start_s"]]
    if per_server.sum() > MOST_GPUS:
        names = [f"server {server}" for server in range(len(per_server))]
        of_server = ["job", "start_s", "server"]
        counts = held.groupby(of_server, sort=False).size()
        held = held.drop_duplicates(of_server).assign(gpus=counts.to_numpy())
        owner = held["server"]
    else:
        names = [f"server {server}, GPU {gpu}" for server, count in enumerate(per_server.tolist())
                 for gpu in range(count)]
        held, owner = held.assign(gpus=1), held["number"]
    whole = np.zeros(len(held), SPAN)
    whole["owner"], whole["which"] = owner, np.arange(len(held))
    whole["start"], whole["end"] = nanoseconds(held["start_s"]), nanoseconds(held["end_s"])
    return GpuSpans(_by_state(_packed(whole, most), held)[:most], held, names)


def _by_state(whole: NDArray[np.void], held: pd.DataFrame) -> NDArray[np.void]:
    """Divide the spans of segments into those of states, on the same lanes."""
    parts = []
    for state, columns in enumerate(STATES.values()):
        spans = whole.copy()
        for name, column in zip(("start", "end"), columns, strict=True):
            at = nanoseconds(held[column].to_numpy()[whole["which"]])
            spans[name] = np.clip(at, whole["start"], whole["end"])
        spans["opens"] &= spans["start"] == whole["start"]
        spans["which"] = len(STATES) * whole["which"] + state
        parts.append(spans[spans["end"] > spans["start"]])
    found = np.concatenate(parts)
    return found[np.lexsort((found["which"], found["start"]))]


def _packed(spans: NDArray[np.void], most: int) -> NDArray[np.void]:
    """Put the first spans, in order of their start, on lanes without overlaps."""
    first = spans[np.lexsort((spans["which"], spans["end"], spans["start"]))[:most]]
    _pack(first)
    return first


def _pack(spans: NDArray[np.void]) -> None:
    """Assign each span to the first free lane of its owner."""
    free: dict[int, list[int]] = {}
    packed = []
    columns = (spans[name].tolist() for name in ("owner", "start", "end"))
    for owner, start, end in zip(*columns, strict=True):
        lanes = free.setdefault(owner, [])
        lane = next((lane for lane, until in enumerate(lanes) if until <= start + _SLACK),
                    len(lanes))
        opens = lane == len(lanes)
        start = start if opens else max(start, lanes[lane])
        end = max(start, end)
        lanes[lane:lane + 1] = [end]
        packed.append((start, end, lane, opens))
    names = ["start", "end", "lane", "opens"]
    filled = np.array(packed, [(name, SPAN[name]) for name in names])
    for name in names:
        spans[name] = filled[name]
