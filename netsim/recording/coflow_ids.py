"""Ids of coflows in results: those that stages specify, and free numbers for the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.jobs.patterns import make_pattern, model_stages
from netsim.jobs.plan import drawn_stages
from netsim.jobs.ranked_stages import count_operations, has_operations
from netsim.workload import JobColumns, JobSpec, Stage, Workload, column

Ints = int | NDArray[np.int64]


class CoflowNumbers:
    """Numbers coflows by job, iteration and stage; ids that stages specify are not reused.

    If jobs emit no coflows, they count as jobs without stages.
    """

    def __init__(self, workload: Workload, emitted: bool = True) -> None:
        self._jobs = jobs = workload.jobs
        self.job_ids = np.array(column(jobs, "id"), np.int64)
        #: Stages of each job per iteration.
        self.stages = (np.array(_stage_counts(jobs), np.int64) if emitted else
                       np.zeros(len(jobs), np.int64))
        #: Coflows of each job in all iterations.
        self.coflows = self.stages * np.array(column(jobs, "iterations"), np.int64)
        self._first = np.cumsum(self.coflows) - self.coflows
        self.total = int(self.coflows.sum())  #: including stages without flows
        taken = _own_ids(jobs)
        # Number of free ids below each id that is taken.
        self._free_below = np.array(taken, np.int64) - np.arange(len(taken))

    def last_of(self, jobs: int) -> int:
        """Return the largest assigned id of the first `jobs` jobs; -1 if none is assigned."""
        count = int(self.coflows[:jobs].sum())
        return int(self._numbered(np.int64(count - 1))) if count else -1

    def number(self, job: int, iteration: int, stages: Sequence[Stage], stage: int) -> int:
        """The id of the coflow of a stage, among all stages of an iteration.

        `job` is an index in order of (arrival, id).
        """
        own = stages[stage].coflow_id
        if own is not None:
            return own
        count = len(stages)
        if count != self.stages[job]:  # stages inside servers do not count
            count -= sum(each.intra_server for each in stages)
        self.check_stages(job, iteration, count)
        return int(self.free(job, iteration, stage))

    def check_stages(self, job: int, iteration: int, stages: int) -> None:
        """Check that an iteration has as many stages as the ones before."""
        if stages != (count := int(self.stages[job])):
            raise InputError(f"job {self._jobs[job].id}: its pattern draws {stages} stages in "
                             f"iteration {iteration}, where it drew {count} before; their number "
                             "must depend on the ranks alone")

    def free(self, job: Ints, iteration: Ints, stage: Ints) -> NDArray[np.int64]:
        """The ids of coflows whose stages specify none; see `number`."""
        return self._numbered(np.asarray(
            self._first[job] + iteration * self.stages[job] + stage, np.int64))

    def _numbered(self, free: NDArray[np.int64] | np.int64) -> NDArray[np.int64]:
        return np.asarray(free + np.searchsorted(self._free_below, free, "right"))


def _own_ids(jobs: Sequence[JobSpec]) -> list[int]:
    """Return the ids of coflows that stages specify, in order."""
    if isinstance(jobs, JobColumns):
        ids = jobs.columns.coflow_id
        return np.sort(ids[ids >= 0]).tolist()
    return sorted(stage.coflow_id for job in jobs for stage in job.stages
                  if stage.coflow_id is not None)


def _stage_counts(jobs: Sequence[JobSpec]) -> Sequence[int]:
    """Count the stages of each job, drawing once per pattern and number of ranks."""
    if isinstance(jobs, JobColumns):
        return [1] * len(jobs)
    known: dict[Any, int] = {}
    return [_count(job, known) for job in jobs]


def _count(job: JobSpec, known: dict[Any, int]) -> int:
    if has_operations(job):
        return count_operations(job)
    return len(job.stages) or _drawn_count(job, known)


def _drawn_count(job: JobSpec, known: dict[Any, int]) -> int:
    """Count the stages of a job that has a model or a pattern."""
    if job.model is not None:
        return len(model_stages(job.model))
    pattern: Any = job.pattern
    key = repr(pattern) if isinstance(pattern, str | Mapping) else id(pattern), job.ranks
    if key not in known:
        count = len(drawn_stages(job, np.random.default_rng(0)))
        if not getattr(make_pattern(pattern), "scale_free", True):
            return count  # of these bytes
        known[key] = count
    return known[key]
