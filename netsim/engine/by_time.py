"""Execution of placed jobs whose iterations take a fixed time on their GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.engine.execution import Execution
from netsim.engine.preemption import whole
from netsim.workload import JobSpec

Ints = NDArray[np.int64]

#: Seconds assumed for iterations that take no time, so that progress is a number.
_LEAST_S = 1e-300


class TimedExecution(Execution):
    """Base of executions in which n iterations of a job take n times `seconds`; see `Execution`."""

    def __init__(self, env: Any, jobs: Sequence[JobSpec]) -> None:
        super().__init__(env, jobs)
        # Of running jobs: the start, the iterations made before it, and seconds per iteration.
        self._since, self._kept, self._alpha = np.full((3, len(jobs)), np.nan)

    def seconds(self, job: int, gpus: Ints) -> float:
        """The time per iteration of a job on some GPUs, given in order of ranks."""
        raise NotImplementedError

    def add_job(self, job: int, jobs: Sequence[JobSpec]) -> None:
        """Make room for a job that has not arrived; see `Execution`."""
        super().add_job(job, jobs)
        self._since, self._kept, self._alpha = (
            np.insert(each, job, np.nan) for each in (self._since, self._kept, self._alpha))

    def start(self, job: int, gpus: Ints, kept: float, ended: Callable[[int], None]) -> None:
        """Start a job now; see `Execution.start`."""
        alpha, since = self.seconds(job, gpus), self._env.now
        self._since[job], self._kept[job], self._alpha[job] = since, kept, alpha
        self._ended = ended
        self._env.timeout((self._jobs[job].iterations - kept) * alpha).callbacks.append(
            partial(self._end, job, since))

    def _end(self, job: int, since: float, _: Any = None) -> None:
        """End a job, unless it has been stopped since."""
        if self._since[job] == since:
            self._since[job] = np.nan
            self._ended(job)

    def progress(self, jobs: Any) -> Any:
        """The iterations made; see `Execution`."""
        alpha = np.maximum(self._alpha[jobs], _LEAST_S)
        return self._kept[jobs] + (self._env.now - self._since[jobs]) / alpha

    def finished(self, job: int) -> float:
        """The whole iterations made; see `Execution`."""
        return min(whole(float(self.progress(job))), float(self._jobs[job].iterations))

    def stop(self, job: int, kept: float, back: bool) -> float:
        """Stop a job; see `Execution`."""
        since, before = float(self._since[job]), float(self._kept[job])
        if self.finished(job) >= self._jobs[job].iterations:
            self._end(job, since)
            return 0.0
        self._since[job] = np.nan
        return max(self._env.now - since - (kept - before) * float(self._alpha[job]), 0.0)
