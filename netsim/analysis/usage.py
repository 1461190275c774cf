"""How GPUs, workers and jobs spend their time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.base.lazy import pd
from netsim.base.units import Quantity, parse_seconds
from netsim.base.values import known_names
from netsim.errors import InputError
from netsim.fabric.clock import Grid
from netsim.jobs.fitting import with_algorithms
from netsim.jobs.graph import Dag
from netsim.jobs.plan import has_operations, timed_stages
from netsim.results.lazy_table import columns_of
from netsim.results.result import Result, not_recorded, table_of
from netsim.ties import ROUNDING
from netsim.workload import JobSpec, Stage, Workload

# --- GPUs of a cluster ---------------------------------------------------------------------

#: States of GPUs that a job holds, or workers of an edge-cloud, with the columns in which each
#: begins and ends. On clusters nothing is uploaded.
STATES = {"uploading": ("start_s", "data_s"), "restoring": ("data_s", "run_s"),
          "running": ("run_s", "stop_s"), "saving": ("stop_s", "end_s")}


@known_names
def gpu_usage(result: Result) -> pd.DataFrame:
    """Return the number of GPUs in use, and of jobs that wait for GPUs, over time.

    Parameters
    ----------
    result : Result
        A result of a run on a `netsim.Cluster`.

    Returns
    -------
    DataFrame
        One row per change, with its time, ``t_s``, and the values from then until the next row:
        ``held``, the number of GPUs that jobs hold; ``running``, the number of held GPUs whose jobs
        make progress, rather than restore or save their state; and ``waiting``, the number of jobs
        that have arrived, have not ended and hold no GPUs. The last row is for the end of the run.
        GPUs of lost servers do not count as held.

    Raises
    ------
    NotRecordedError
        If the run was not on a cluster.

    Examples
    --------
    >>> import netsim
    >>> jobs = [netsim.JobSpec(k, pattern="ring-all-reduce", ranks=2, nbytes=0, compute_s=1)
    ...         for k in (0, 1)]
    >>> gpu_usage(netsim.simulate(netsim.Cluster(1, 3), jobs, scheduler="fifo"))
       t_s  held  running  waiting
    0  0.0     2        2        1
    1  1.0     2        2        0
    2  2.0     0        0        0
    """
    rows, end = _with_all_columns(result.gpus), end_of(result)
    segments = segments_of(rows)
    arrival_s, finish_s = result.jobs["arrival_s"], result.jobs["finish_s"]
    changes = {"held": ([rows["start_s"]], [rows["end_s"]]),
               "running": ([rows["run_s"]], [rows["stop_s"]]),
               "waiting": ([arrival_s, segments["end_s"]], [segments["start_s"], finish_s])}
    return steps_of(changes, end)


def steps_of(changes: Mapping[str, tuple[list[Any], list[Any]]], end: float) -> pd.DataFrame:
    """Count what has begun and not ended, with a row whenever a count changes and at `end`.

    `changes` has, for each count, columns of the instants at which it grows by one and of those at
    which it falls by one, in seconds; NaN for what has not happened. ``t_s`` is the instant of a
    row.
    """
    known = {name: [_until(end, columns) for columns in both] for name, both in changes.items()}
    instants = np.unique(np.concatenate([[end], *(each for both in known.values()
                                                  for each in both)]))
    counts = {name: np.searchsorted(gained, instants, "right")
              - np.searchsorted(lost, instants, "right")
              for name, (gained, lost) in known.items()}
    values = np.array(list(counts.values()))
    differs = (np.diff(values, axis=1, prepend=-1) != 0).any(axis=0)
    differs[-1] = True
    return pd.DataFrame({"t_s": instants[differs]}
                        | {name: count[differs] for name, count in counts.items()})


def held_gpus(result: Result) -> pd.DataFrame:
    """The table ``gpus`` with a column ``number``, the number of the GPU in the cluster.

    Unknown times are replaced, so that start_s <= run_s <= stop_s <= end_s.
    """
    return _with_known_times(_with_all_columns(result.gpus).assign(number=_numbers(result)),
                             end_of(result))


def held_workers(result: Result) -> pd.DataFrame | None:
    """The table ``held`` of whole jobs on an edge-cloud; None if there is none, as with chunks.

    Unknown times are replaced, so that start_s <= data_s <= run_s <= stop_s <= end_s.
    """
    if "held" not in result.recorded:
        return None
    return _with_known_times(result.held.copy(), end_of(result))


def suspended(held: pd.DataFrame, ends: pd.Series) -> pd.DataFrame:
    """List the intervals in which preempted jobs held no workers: job, start_s and end_s.

    `held` is as from `held_workers`. `ends` has, by job, the time in seconds at which the job
    ended, or the run if the job did not end.
    """
    spells = segments_of(held).sort_values(["job", "start_s"], kind="stable")
    again = spells.groupby("job")["start_s"].shift(-1).fillna(spells["job"].map(ends))
    rows = spells[["job"]].assign(start_s=spells["end_s"], end_s=again)
    return rows[(spells["reason"] == "preempt") & (rows["end_s"] > rows["start_s"])]


def _with_known_times(rows: pd.DataFrame, end: float) -> pd.DataFrame:
    """Replace unknown times in each row by its next known time, or by the end of the run."""
    rows["end_s"] = rows["end_s"].fillna(end)
    for name in ("run_s", "stop_s"):
        rows[name] = np.fmin(rows[name], rows["end_s"])
    rows["data_s"] = np.fmin(rows["data_s"], rows["run_s"])
    return rows


def gpus_per_server(result: Result) -> Ints:
    """The number of GPUs of each server of the cluster."""
    try:
        return np.array(result.run["gpus_per_server"], np.int64)
    except (LookupError, TypeError, ValueError, ArithmeticError):
        raise InputError("the result does not say how many GPUs each server has; if it "
                         "is from an earlier version of netsim, run it again") from None


def segments_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Select the first row of each segment, in which a job holds the same GPUs."""
    return rows.drop_duplicates(["job", "start_s"])


def end_of(result: Result) -> float:
    """The time at which a run was stopped or, if it was not, its last job ended; in seconds."""
    stopped = result.run["stopped_at_s"]
    return float(result.jobs["finish_s"].max() if stopped is None else stopped)


def _with_all_columns(gpus: pd.DataFrame) -> pd.DataFrame:
    """Copy the table and add its missing columns: without saving or restoring, jobs always run."""
    given = {"data_s": gpus["start_s"], "run_s": gpus["start_s"], "stop_s": gpus["end_s"],
             "reason": None}
    return gpus.assign(**{name: column for name, column in given.items() if name not in gpus})


def _numbers(result: Result) -> Ints:
    """The number in the cluster of the GPU of each row of the table ``gpus``."""
    server, gpu = (result.gpus[name].to_numpy(np.int64) for name in ("server", "gpu"))
    first = np.concatenate(([0], np.cumsum(gpus_per_server(result))))
    known = (server >= 0) & (server < len(first) - 1) & (gpu >= 0)
    numbers: Ints = first[np.where(known, server, 0)] + gpu
    if not (known & (numbers < first[np.where(known, server, 0) + 1])).all():
        raise InputError("the table gpus has a GPU that is not in the cluster, which has "
                         f"{first[-1]:,} GPUs on {len(first) - 1:,} servers")
    return numbers


def _until(end: float, columns: list[Any]) -> Floats:
    """Sort the instants of some columns, and drop those after the end of a run."""
    times: Floats = np.sort(np.concatenate([np.asarray(each, np.float64) for each in columns]))
    return times[:np.searchsorted(times, end, "right")]  # NaN, for what has not been, come last


# --- workers of an edge-cloud --------------------------------------------------------------


@known_names
def edge_utilisation(result: Result, slot: Quantity = "1h") -> pd.DataFrame:
    """Return the utilisation of edge workers in each slot of time.

    Parameters
    ----------
    result : Result
        A result of a run on a `netsim.EdgeCloud`.
    slot : quantity
        Length of a slot. The first slot begins at time 0.

    Returns
    -------
    DataFrame
        One row per slot up to the last completion, or to the instant at which the run was stopped.
        ``slot_s`` is the beginning of the slot in seconds, and ``utilisation`` the share of the
        workers' time in the slot in which they trained, from 0 to 1.

    Raises
    ------
    InputError
        If the run was not on an edge-cloud, training was not recorded, or the edge has no workers.
    """
    training, workers = result.training, result.run["workers"]
    if not workers:
        raise InputError("edge_utilisation needs a run on a netsim.EdgeCloud with workers")
    length, last = parse_seconds(slot, "slot", strict=True), end_of(result)
    edges = np.arange(int(np.ceil(last / length)) + 1) * length
    edge = training[training["server"] >= 0]
    # Busy time up to each instant: time since all starts, minus time since all ends.
    start = np.sort(edge["start_s"].to_numpy())
    end = np.sort(edge["end_s"].fillna(last).to_numpy())
    busy = _elapsed(start, edges) - _elapsed(end, edges)
    share = np.diff(busy) / (length * workers)
    return pd.DataFrame({"slot_s": edges[:-1], "utilisation": np.clip(share, 0.0, 1.0)})


def worker_usage(result: Result) -> pd.DataFrame:
    """Count the edge workers that train and the jobs that wait, with a row per change.

    A row has its time ``t_s`` and the counts from then until the next row: ``training`` and
    ``waiting``, the number of jobs that have arrived, have not ended and do not train anywhere. The
    last row is for the end of the run.
    """
    at_edge, trained, jobs = result.training, result.ps, result.jobs
    at_edge = at_edge[at_edge["server"] >= 0]
    return steps_of({
        "training": ([at_edge["start_s"]], [at_edge["end_s"]]),
        "waiting": ([jobs["arrival_s"], trained["end_s"]],
                    [trained["start_s"], jobs["finish_s"]])}, end_of(result))


def suspended_jobs(result: Result) -> int:
    """Count how often jobs were suspended, that is, did not train any more after a preemption.

    With a scheduler of whole jobs, each preemption is a suspension. With a scheduler of chunks, a
    job is suspended when a chunk is displaced and no other chunk of the job trains, neither at the
    edge nor in the cloud.
    """
    if "training" not in result.recorded or "preemptions" not in result.jobs:
        raise InputError("suspended_jobs needs a run on a netsim.EdgeCloud with training recorded")
    if (result.training["chunk"] < 0).all():  # whole jobs
        return int(result.jobs["preemptions"].sum())
    finish = result.chunks.set_index(["job", "chunk"])["finish_s"]
    rows = result.training.join(finish, on=["job", "chunk"])
    ends_later = rows["finish_s"].fillna(np.inf) * (1 - ROUNDING)
    displaced = rows[rows["end_s"] < ends_later]
    spans = dict(list(rows.groupby("job")[["start_s", "end_s"]]))
    suspended = 0
    for job, ends in displaced.groupby("job")["end_s"]:
        instants = np.unique(ends)
        start, end = np.sort(spans[job].to_numpy(), axis=0).T
        # As many chunks have begun as have ended if none of them goes on training.
        begun = np.searchsorted(start, instants * (1 + ROUNDING), "right")
        gone = np.searchsorted(end, instants * (1 + ROUNDING), "right")
        suspended += int((begun == gone).sum())
    return suspended


def _elapsed(since: np.ndarray, instants: np.ndarray) -> np.ndarray:
    """Sum, for each instant, the time elapsed since each earlier one of `since`, a sorted array."""
    total = np.concatenate(([0.0], np.cumsum(since)))
    count = np.searchsorted(since, instants, "right")
    passed: np.ndarray = count * instants - total[count]
    return passed


# --- computations of jobs ------------------------------------------------------------------
class Computation(NamedTuple):
    """An interval in which a job computed before a coflow, or without a coflow to send."""

    job: int  #: index of the job in the workload
    iteration: int
    stage: str
    start_s: float
    end_s: float


class _CoflowTimes(NamedTuple):
    """Recorded times and width of a coflow."""

    valid_s: float
    finish_s: float
    width: int


class _Ended(NamedTuple):
    """The end of a stage, and the instant at which the job noticed it; inf if not recorded."""

    finish_s: float
    seen_s: float


_COLUMNS = ["iteration", "stage", "valid_s", "finish_s", "width"]

_NEVER = _CoflowTimes(math.inf, math.inf, 0)


def computations(result: Result, workload: Workload) -> Iterator[Computation]:
    """Yield the computations of jobs, job by job and iteration by iteration.

    Jobs whose ranks compute are left out, because the result has a table of their computations. A
    computation ends when the coflow after it becomes valid; if this coflow has not completed, the
    computation is not known and is left out. A computation without a coflow begins when all stages
    that it waits for have ended.
    """
    if [job.id for job in workload] != result.jobs["job"].tolist():
        raise InputError(f"the jobs of the workload {workload.name!r} are not those of the "
                         f"result, which is of {result.run['workload']!r}")
    grid = Grid(float(result.run["observe_interval"]), SimpleNamespace(now=0.0))
    stopped_at_s = result.run["stopped_at_s"]
    known_until = math.inf if stopped_at_s is None else stopped_at_s
    coflows: _Coflows | None = None
    for place, job in enumerate(with_algorithms(workload, result.jobs)):
        if has_operations(job):  # whose computations are a table of the result
            continue
        fixed = None if job.redraw else timed_stages(job, workload.seed)
        if fixed is not None and not any(stage.compute_s for stage in fixed):
            continue
        coflows = coflows or _Coflows(result)
        for each in _of_job(place, job, workload.seed, fixed, coflows.of(job.id), grid):
            if each.end_s <= known_until:
                yield each


def coflows_for_timeline(result: Result, columns: Sequence[str]) -> pd.DataFrame:
    """The given columns of the coflows that a timeline shows, and computations follow from."""
    table = columns_of(table_of(result, "coflows"), columns)
    if table is None and "execution" in result.run:
        raise not_recorded(result.run, "coflows")  # such runs have no keyword timeline
    if table is None:
        raise InputError("coflows were not recorded; simulate with timeline=True")
    return table


class _Coflows:
    """Recorded coflows, sorted so that those of a job are found quickly."""

    def __init__(self, result: Result) -> None:
        table = coflows_for_timeline(result, ["job", *_COLUMNS])
        order = np.argsort(table["job"].to_numpy(), kind="stable")
        self._jobs = table["job"].to_numpy()[order]
        self._table = table[_COLUMNS].iloc[order]

    def of(self, job: int) -> dict[tuple[int, str], _CoflowTimes]:
        """The coflows of a job, by iteration and stage."""
        rows = self._table.iloc[slice(*np.searchsorted(self._jobs, [job, job + 1]))]
        columns: list[list[Any]] = [rows[name].tolist() for name in _COLUMNS]
        return {(iteration, stage): _CoflowTimes(*times)
                for iteration, stage, *times in zip(*columns, strict=True)}


def _of_job(place: int, job: JobSpec, seed: int, fixed: Sequence[Stage] | None,
            sent: Mapping[tuple[int, str], _CoflowTimes], grid: Grid) -> Iterator[Computation]:
    """Yield the computations of one job."""
    begin = job.arrival_s
    for iteration in range(job.iterations):
        stages = timed_stages(job, seed, iteration) if fixed is None else fixed
        dag, ended = Dag.of(stages), [_Ended(begin, begin)] * len(stages)
        for k in dag.sequence:
            stage = stages[k]
            start = max([begin, job.arrival_s + stage.release_s,
                         *(ended[parent].seen_s for parent in dag.after[k])])
            own = _CoflowTimes(start + stage.compute_s, start + stage.compute_s, 0)
            if stage.flows is not None:
                own = sent.get((iteration, stage.name), _NEVER)
                start = own.valid_s - stage.compute_s
            if stage.compute_s and own.valid_s < math.inf:
                yield Computation(place, iteration, stage.name, start, own.valid_s)
            ended[k] = _end(own, [ended[other] for other in dag.finishes_before[k]], grid)
        begin = max(each.seen_s for each in ended)
        if begin == math.inf:
            return


def _end(own: _CoflowTimes, holders: Sequence[_Ended], grid: Grid) -> _Ended:
    """Find the end of a stage, which may have to wait for others to finish."""
    if own.finish_s == math.inf:
        return _Ended(math.inf, math.inf)
    held = max((each.finish_s for each in holders), default=-math.inf)
    seen = max([own.valid_s, *(each.seen_s for each in holders)])
    # A job notices the end of a computation at once, that of a coflow at the next observation.
    if own.finish_s > held:
        seen = max(seen, grid.observed(own.finish_s) if own.width else own.finish_s)
    return _Ended(max(own.finish_s, held), seen)
