"""Execution of placed jobs by the contention model: SJF-BCO, Eq. 6-9."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.cluster.cluster import Cluster
from netsim.cluster.contention import Contention, RunningJobs
from netsim.engine.execution import Execution
from netsim.engine.preemption import whole
from netsim.late import simpy
from netsim.workload import JobSpec

Ints = NDArray[np.int64]


class ContentionExecution(Execution):
    """Execution in which jobs run at the pace of the contention model."""

    def __init__(self, env: simpy.Environment, cluster: Cluster, jobs: Sequence[JobSpec],
                 model: Contention, factors: NDArray[np.float64] | None = None) -> None:
        super().__init__(env, jobs)
        self._cluster, self._model = cluster, model
        # By server: how many times as long computation takes.
        self._factors = np.ones(cluster.servers) if factors is None else factors
        self._running = RunningJobs(model.of(cluster, jobs), cluster, jobs)
        self._ended: Callable[[int], None] | None = None
        self._alarm = 0

    def add_job(self, job: int, jobs: Sequence[JobSpec]) -> None:
        """Make room for a job that has not arrived; see `Execution`."""
        super().add_job(job, jobs)
        self._running.set_jobs(self._model.of(self._cluster, jobs), jobs)

    def next_start(self, now: float) -> float:
        """The next instant at which jobs may start: the beginning of a slot, or now."""
        return self._running.next_start(now)

    def start(self, job: int, gpus: Ints, kept: float, ended: Callable[[int], None]) -> None:
        """Start a job; in slotted time at the beginning of a slot. See `Execution.start`."""
        self._ended = ended
        self._catch_up()
        servers = np.unique(self._cluster.server_of[gpus])
        slower = float(self._factors[servers].max()) - 1
        self._running.start(job, servers.tolist(), kept, slower * self._jobs[job].compute_s)
        self._reset_alarm_soon()

    def progress(self, jobs: Any) -> Any:
        """The iterations made; see `Execution`."""
        now = self._env.now
        if np.ndim(jobs) == 0:
            return self._running.made(int(jobs), now)
        return np.array([self._running.made(job, now) for job in jobs.tolist()])

    def finished(self, job: int) -> float:
        """The whole iterations made; see `Execution`."""
        return whole(self.progress(job))

    def stop(self, job: int, kept: float, back: bool) -> float:
        """Stop a job; in slotted time at the beginning of a slot. See `Execution`."""
        self._catch_up()
        lost_s = self._running.stop(job, kept) if job in self._running else 0.0
        self._reset_alarm_soon()
        return lost_s

    def _catch_up(self) -> None:
        """Advance the model to the current instant."""
        if self._running.now < self._env.now and len(self._running):
            self._leave(self._running.advance(self._env.now))
        elif not len(self._running):
            self._running.advance(self._env.now)

    def _reset_alarm_soon(self) -> None:
        """Set the alarm again after all starts and stops of this instant."""
        self._alarm += 1
        self._env.timeout(0).callbacks.append(partial(self._set_alarm, self._alarm))

    def _set_alarm(self, alarm: int, _: simpy.Event) -> None:
        """Set an alarm for the next exit, unless jobs have started or stopped since."""
        if alarm == self._alarm and len(self._running):
            wait = max(self._running.next_exit() - self._env.now, 0.0)
            self._env.timeout(wait).callbacks.append(partial(self._exit, alarm))

    def _exit(self, alarm: int, event: simpy.Event) -> None:
        """End the jobs of an exit, unless the alarm is outdated."""
        if alarm == self._alarm:
            self._alarm += 1
            self._leave(self._running.to_next_exit())
            self._set_alarm(self._alarm, event)

    def _leave(self, done: Sequence[int]) -> None:
        """Report jobs that have ended."""
        assert self._ended is not None or not done
        for job in done:
            self._ended(job)  # type: ignore[misc]
