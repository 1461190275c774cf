"""The back ends on which whole jobs of an edge-cloud run: their clock, data and training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from netsim.edge.job_data import JobData
from netsim.edge.schedule import PSAssignments
from netsim.edge.setting import EdgeSetting, Floats, Ints
from netsim.edge.typed_jobs import TypedJobs
from netsim.engine.executions import TimedExecution
from netsim.engine.preemption import whole
from netsim.errors import StalledError
from netsim.fabric.clock import Clock
from netsim.ties import ROUNDING


class EdgeExecution(TimedExecution):
    """The execution of jobs that train once their data is on all their servers; see `Execution`."""

    def __init__(self, env: Any, typed: TypedJobs, data: JobData) -> None:
        super().__init__(env, typed.specs)
        self._typed, self._data = typed, data
        # `begun` is the start, in seconds, of a job's current or last period of training.
        self.begun, self._stopped = np.full((2, len(typed.specs)), np.nan)
        self._workers = np.zeros(len(typed.specs), np.int64)

    def add_job(self, job: int, jobs: Any) -> None:
        """Make room for a job that has not arrived; see `Execution`."""
        super().add_job(job, jobs)
        self.begun, self._stopped = (np.insert(each, job, np.nan)
                                     for each in (self.begun, self._stopped))
        self._workers = np.insert(self._workers, job, 0)

    def seconds(self, job: int, gpus: Ints) -> float:
        """Training time of a job on the given workers, or in the cloud if there are none."""
        return self._typed.seconds(job, len(gpus))

    def sizes(self, job: int) -> range:
        """The numbers of workers with which a job can train; see `Execution`."""
        return self._typed.sizes(job)

    def data_on(self, job: int, gpus: Ints) -> float:
        """When a job's data should arrive on the servers of its workers; see `Execution`."""
        return self._data.on(self._typed.numbers[job], self._typed.workers[gpus])

    def fetch(self, job: int, gpus: Ints, there: Callable[[], None]) -> bool:
        """Begin to send a job's data to the servers of its workers; see `Execution`."""
        return self._data.fetch(self._typed.numbers[job], self._typed.workers[gpus], there)

    def stay(self, job: int) -> None:
        """Stop waiting for the data of a job; see `Execution`."""
        self._data.stay(self._typed.numbers[job])

    def start(self, job: int, gpus: Ints, kept: float, ended: Callable[[int], None]) -> float:
        """Start a job now; see `Execution`."""
        # A job that was preempted as it began has not trained.
        if not self._stopped[job] - self.begun[job] > self._stopped[job] * ROUNDING:
            self.begun[job] = self._env.now
        self._workers[job] = len(gpus)
        self._tell_end = ended
        self._train(job, gpus, kept)
        return 0.0

    def finished(self, job: int) -> float:
        """The fraction of a job's training that consists of whole mini-batches."""
        if (ended := super().finished(job)) >= self._jobs[job].iterations:
            return ended
        batches = self._typed.batches(job, self._workers[job])
        return whole(float(self.progress(job)) * batches) / batches

    def add_ring_bytes(self, found: Floats) -> None:
        """Store the bytes that jobs with rings send in exchanges in `found`, by job."""
        typed = self._typed
        for job, number in enumerate(typed.numbers):
            if typed.setting.ring[number]:
                found[number] = typed.ring_bytes(job, int(self._workers[job]))

    def _train(self, job: int, gpus: Ints, kept: float) -> None:
        """Train a job from now on, until it is stopped or `_over`."""
        super().start(job, gpus, kept, self._over)

    def stop(self, job: int, kept: float, back: bool) -> float:
        """Stop a job; see `Execution`."""
        self._stopped[job] = self._env.now
        return super().stop(job, kept, back)

    def _over(self, job: int) -> None:
        self._data.free(self._typed.numbers[job])
        self._tell_end(job)


class Ground(Protocol):
    """The back end on which whole jobs run."""

    env: Clock
    data: JobData
    steps: int  #: number of SimPy events processed so far

    def execution(self, typed: TypedJobs) -> EdgeExecution:
        """Make the execution of the jobs of one type of workers."""

    def exchange(self) -> Floats:
        """Seconds in which the chunks of each ended job have exchanged gradients."""

    def ring_bytes(self) -> Floats:
        """Bytes that each ended job with a ring has sent in exchanges."""

    def held(self) -> PSAssignments | None:
        """The PSs that jobs have used so far; None if training does not depend on PSs."""

    def make_room(self, place: int) -> None:
        """Make room for a job that has been inserted in the setting; it has not arrived."""

    def stalled(self) -> StalledError | None:
        """Make the error for jobs that wait although no event is left."""


class ConstantGround:
    """The `Ground` on which uploads and exchanges take the times that jobs declare."""

    def __init__(self, setting: EdgeSetting) -> None:
        self._setting = setting
        self.env, self.steps = Clock(0.0), 0
        self.data = JobData(self.env, setting)
        self._executions: list[EdgeExecution] = []

    def execution(self, typed: TypedJobs) -> EdgeExecution:
        """See `Ground.execution`."""
        made = EdgeExecution(self.env, typed, self.data)
        self._executions.append(made)
        return made

    def exchange(self) -> Floats:
        """See `Ground.exchange`."""
        setting = self._setting
        rate = np.array([job.bandwidth for job in setting.jobs]) * (1 + setting.epsilon)
        return np.where(setting.ring, self.ring_bytes() / rate, setting.chunks * setting.exchange)

    def ring_bytes(self) -> Floats:
        """See `Ground.ring_bytes`."""
        found = np.zeros(len(self._setting.jobs))
        for each in self._executions:
            each.add_ring_bytes(found)
        return found

    def held(self) -> PSAssignments | None:
        """See `Ground.held`."""
        return None

    def make_room(self, place: int) -> None:
        """See `Ground.make_room`."""
        self.data.make_room(place)

    def stalled(self) -> StalledError | None:
        """See `Ground.stalled`; here, only a scheduler can leave jobs waiting."""
        return None
