"""The computations of jobs, reconstructed from the times of their coflows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netsim.errors import InputError
from netsim.fabric.grid import Grid
from netsim.jobs.fitting import with_algorithms
from netsim.jobs.graph import Dag
from netsim.jobs.plan import timed_stages
from netsim.jobs.ranked_stages import has_operations
from netsim.results.lazy_table import columns_of
from netsim.results.not_recorded import not_recorded
from netsim.results.result import table_of
from netsim.workload import JobSpec, Stage, Workload

if TYPE_CHECKING:
    from netsim.results.result import Result


class Computation(NamedTuple):
    """An interval in which a job computed before a coflow, or without a coflow to send."""

    job: int  #: index of the job in the workload
    iteration: int
    stage: str
    start_s: float
    end_s: float


class _Sent(NamedTuple):
    """Recorded times and width of a coflow."""

    valid_s: float
    finish_s: float
    width: int


class _Ended(NamedTuple):
    """The end of a stage, and the instant at which the job noticed it; inf if not recorded."""

    finish_s: float
    seen_s: float


_COLUMNS = ["iteration", "stage", "valid_s", "finish_s", "width"]

_NEVER = _Sent(math.inf, math.inf, 0)


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


class _Coflows:
    """Recorded coflows, sorted so that those of a job are found quickly."""

    def __init__(self, result: Result) -> None:
        table = columns_of(table_of(result, "coflows"), ["job", *_COLUMNS])
        if table is None and "execution" in result.run:
            raise not_recorded(result.run, "coflows")  # such runs have no keyword timeline
        if table is None:
            raise InputError("coflows were not recorded; simulate with timeline=True")
        order = np.argsort(table["job"].to_numpy(), kind="stable")
        self._jobs = table["job"].to_numpy()[order]
        self._table = table[_COLUMNS].iloc[order]

    def of(self, job: int) -> dict[tuple[int, str], _Sent]:
        """The coflows of a job, by iteration and stage."""
        rows = self._table.iloc[slice(*np.searchsorted(self._jobs, [job, job + 1]))]
        columns: list[list[Any]] = [rows[name].tolist() for name in _COLUMNS]
        return {(iteration, stage): _Sent(*times)
                for iteration, stage, *times in zip(*columns, strict=True)}


def _of_job(place: int, job: JobSpec, seed: int, fixed: Sequence[Stage] | None,
            sent: Mapping[tuple[int, str], _Sent], grid: Grid) -> Iterator[Computation]:
    """Yield the computations of one job."""
    begin = job.arrival_s
    for iteration in range(job.iterations):
        stages = timed_stages(job, seed, iteration) if fixed is None else fixed
        dag, ended = Dag.of(stages), [_Ended(begin, begin)] * len(stages)
        for k in dag.sequence:
            stage = stages[k]
            start = max([begin, job.arrival_s + stage.release_s,
                         *(ended[parent].seen_s for parent in dag.after[k])])
            own = _Sent(start + stage.compute_s, start + stage.compute_s, 0)
            if stage.flows is not None:
                own = sent.get((iteration, stage.name), _NEVER)
                start = own.valid_s - stage.compute_s
            if stage.compute_s and own.valid_s < math.inf:
                yield Computation(place, iteration, stage.name, start, own.valid_s)
            ended[k] = _end(own, [ended[other] for other in dag.finishes_before[k]], grid)
        begin = max(each.seen_s for each in ended)
        if begin == math.inf:
            return


def _end(own: _Sent, holders: Sequence[_Ended], grid: Grid) -> _Ended:
    """Find the end of a stage, which may have to wait for others to finish."""
    if own.finish_s == math.inf:
        return _Ended(math.inf, math.inf)
    held = max((each.finish_s for each in holders), default=-math.inf)
    seen = max([own.valid_s, *(each.seen_s for each in holders)])
    # A job notices the end of a computation at once, that of a coflow at the next observation.
    if own.finish_s > held:
        seen = max(seen, grid.observed(own.finish_s) if own.width else own.finish_s)
    return _Ended(max(own.finish_s, held), seen)
