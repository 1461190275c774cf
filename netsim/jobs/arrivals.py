"""The arrivals of jobs, one instant after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.fabric.clock import call_at


class Arrivals:
    """Calls `arrive` with the number of each job that arrives; one event is pending for all jobs.

    `arrival_s` is in ascending order; `which` has the jobs that have not arrived yet, in order.
    """

    def __init__(self, env: Any, arrival_s: ArrayLike, arrive: Callable[[int], None],
                 which: Sequence[int] | NDArray[np.int64] | None = None) -> None:
        self._env, self._arrive = env, arrive
        self._at = np.array(arrival_s, np.float64)
        self._jobs = np.arange(len(self._at)) if which is None else np.array(which, np.int64)
        self._next = 0
        self._await()

    def _await(self) -> None:
        if self._next < len(self._jobs):
            at = float(self._at[self._jobs[self._next]])
            call_at(self._env, at, partial(self._ring, at))

    def _ring(self, at: float, _: Any) -> None:
        """Start all jobs that arrive now, unless they have arrived already."""
        before = self._next
        while self._next < len(self._jobs) and self._at[self._jobs[self._next]] <= at:
            self._next += 1
            self._arrive(int(self._jobs[self._next - 1]))
        if self._next > before:
            self._await()

    def add(self, job: int, arrival_s: float, *, arrives: bool = True) -> None:
        """Insert a job that has not arrived; later jobs are renumbered.

        With ``arrives=False``, the job gets a number, but `arrive` is not called for it.
        """
        self._at = np.insert(self._at, job, arrival_s)
        self._jobs += self._jobs >= job
        if arrives:
            place = int(np.searchsorted(self._jobs, job))
            self._jobs = np.insert(self._jobs, place, job)
            if place == self._next:
                self._await()
