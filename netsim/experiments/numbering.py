"""The ids of coflows in the results: their own, or numbers past those."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import numpy as np

from netsim.errors import InputError
from netsim.jobs.patterns import make_pattern
from netsim.model import JobSpec, Stage, Workload

__all__ = ["CoflowNumbers"]


class CoflowNumbers:
    """Numbers coflows by job, iteration and stage; a stage's own id goes to no other.

    Parameters
    ----------
    workload : Workload

    Attributes
    ----------
    total : int
        How many coflows there will be, stages without flows included.
    """

    def __init__(self, workload: Workload) -> None:
        self._jobs = workload.jobs
        self._stages = _stage_counts(workload)
        counts = [stages * job.iterations
                  for stages, job in zip(self._stages, self._jobs, strict=True)]
        *self._first, self.total = accumulate(counts, initial=0)
        taken = sorted(stage.coflow_id for job in workload for stage in job.stages
                       if stage.coflow_id is not None)
        # How many free numbers lie below each that is taken.
        self._free_below = [number - k for k, number in enumerate(taken)]

    def number(self, job: int, iteration: int, stages: tuple[Stage, ...], stage: int) -> int:
        """Return the id of a coflow.

        Parameters
        ----------
        job : int
            The job, numbered by (arrival, id).
        iteration : int
            Counted from 0.
        stages : tuple of Stage
            All of the iteration.
        stage : int
            Which of them.

        Raises
        ------
        InputError
            If the iteration has not as many stages as were counted.
        """
        own = stages[stage].coflow_id
        if own is not None:
            return own
        count = self._stages[job]
        if len(stages) != count:
            raise InputError(f"job {self._jobs[job].id}: its pattern draws {len(stages)} stages in "
                             f"iteration {iteration}, where it drew {count} before; their number "
                             "must depend on the ranks alone")
        free = self._first[job] + iteration * count + stage
        return free + bisect_right(self._free_below, free)


def _stage_counts(workload: Workload) -> list[int]:
    """Return the number of stages of each job; drawn once for all of one pattern and ranks."""
    known: dict[Any, int] = {}
    return [len(job.stages) or _drawn(job, known) for job in workload]


def _drawn(job: JobSpec, known: dict[Any, int]) -> int:
    pattern: Any = job.pattern
    key = repr(pattern) if isinstance(pattern, str | Mapping) else id(pattern), job.ranks
    if key not in known:
        rng = np.random.default_rng(0)
        known[key] = len(make_pattern(pattern).stages(job.ranks, job.nbytes, rng))
    return known[key]
