"""Identification of the coflows of jobs that the fabric runs without a process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.recording.coflow_ids import CoflowNumbers
from netsim.workload import Stage


class ChainLog:
    """The stages of chains in the order in which they send, and the operations of graphs.

    A single coflow counts as a chain.
    """

    def __init__(self, numbers: CoflowNumbers) -> None:
        self._numbers = numbers
        self._first = np.cumsum(numbers.stages) - numbers.stages
        count = int(numbers.stages.sum())
        self._place = np.zeros(count, np.int64)
        self._name = np.zeros(count, np.int64)
        self._own = np.full(count, -1)

    def add_job(self, job: int, numbers: CoflowNumbers) -> None:
        """Insert a job, which `numbers` includes; the numbers of later jobs grow by one."""
        self._numbers = numbers
        self._first = np.cumsum(numbers.stages) - numbers.stages
        at = np.full(numbers.stages[job], self._first[job])
        self._place, self._name = np.insert(self._place, at, 0), np.insert(self._name, at, 0)
        self._own = np.insert(self._own, at, -1)

    def begin(self, job: int, stages: Sequence[Stage], places: Sequence[int],
              names: Sequence[int]) -> None:
        """Record the stages of a job in the order in which they send.

        `job` is an index in order of (arrival, id), `places` are the indices of the stages in the
        job's list, and `names` the numbers of their names.
        """
        first = self._first[job]
        for k, (stage, place, name) in enumerate(zip(stages, places, names, strict=True), first):
            self._place[k], self._name[k] = place, name
            if stage.coflow_id is not None:
                self._own[k] = stage.coflow_id

    def begin_graph(self, job: int, names: NDArray[np.int64]) -> None:
        """Record a job of operations; `names` has the number of each operation's name."""
        first = self._first[job]
        self._place[first:first + len(names)] = np.arange(len(names))
        self._name[first:first + len(names)] = names

    def begin_all(self, jobs: NDArray[np.int64], own: NDArray[np.int64],
                  names: NDArray[np.int64]) -> None:
        """Record jobs of one stage each; `own` are the ids that stages give to coflows, or -1."""
        first = self._first[jobs]
        self._name[first], self._own[first] = names, own

    def describe(self, rows: NDArray[Any]) -> dict[str, NDArray[np.int64]]:
        """Make the identifying columns of some COFLOW rows: coflow, job, iteration and stage."""
        job, numbers = rows["job"], self._numbers
        iteration, position = np.divmod(rows["order"], numbers.stages[job])
        stage = self._first[job] + position
        own = self._own[stage]
        free = numbers.free(job, iteration, self._place[stage])
        return {"coflow": np.where(own < 0, free, own), "job": numbers.job_ids[job],
                "iteration": iteration, "stage": self._name[stage]}
