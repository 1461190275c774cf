"""The back end on which the whole jobs of an edge-cloud run: their clock, data and training."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.edge.job_data import JobData
from netsim.edge.schedule import PSAssignments
from netsim.edge.setting import EdgeSetting
from netsim.edge.typed_jobs import TypedJobs
from netsim.engine.executions import TimedExecution
from netsim.engine.preemption import whole
from netsim.errors import StalledError
from netsim.fabric.clock import Clock
from netsim.ties import ROUNDING

if TYPE_CHECKING:
    from netsim.edge.on_fabric.jobs_on_links import JobsOnLinks


class EdgeExecution(TimedExecution):
    """The execution of jobs that train once their data is on all their servers; see `Execution`.

    Training takes the time that jobs declare or, for jobs at the edge, what their exchanges over
    links take, if `on_links` is given. In the cloud, whole jobs exchange nothing.
    """

    def __init__(self, env: Any, typed: TypedJobs, data: JobData, on_links: JobsOnLinks | None
                 ) -> None:
        super().__init__(env, typed.specs)
        self._typed, self._data, self._on_links = typed, data, on_links
        # `begun` is the start, in seconds, of a job's current or last period of training.
        self.begun, self._stopped = np.full((2, len(typed.specs)), np.nan)
        self._workers = np.zeros(len(typed.specs), np.int64)

    def add_job(self, job: int, jobs: Any) -> None:
        super().add_job(job, jobs)
        self.begun, self._stopped = (np.insert(each, job, np.nan)
                                     for each in (self.begun, self._stopped))
        self._workers = np.insert(self._workers, job, 0)

    def seconds(self, job: int, gpus: Ints) -> float:
        """The training time that a job declares for some workers, or for the cloud if none."""
        return self._typed.seconds(job, len(gpus))

    def sizes(self, job: int) -> range:
        return self._typed.sizes(job)

    # --- data -----------------------------------------------------------------------------

    def data_on(self, job: int, gpus: Ints) -> float:
        return self._data.on(self._typed.numbers[job], self._typed.workers[gpus])

    def fetch(self, job: int, gpus: Ints, there: Callable[[], None]) -> bool:
        return self._data.fetch(self._typed.numbers[job], self._typed.workers[gpus], there)

    def stay(self, job: int) -> None:
        self._data.stay(self._typed.numbers[job])

    # --- training -------------------------------------------------------------------------

    def start(self, job: int, gpus: Ints, kept: float, ended: Callable[[int], None]) -> float:
        # A job that was preempted as it began has not trained.
        if not self._stopped[job] - self.begun[job] > self._stopped[job] * ROUNDING:
            self.begun[job] = self._env.now
        self._workers[job] = len(gpus)
        self._report_end = ended
        links, number = self._on_links, self._typed.numbers[job]
        if links is not None and len(gpus):
            # Its progress is that of its flows, and its seconds per iteration are not known.
            self._since[job], self._kept[job], self._alpha[job] = self._env.now, kept, np.nan
            servers = self._typed.setting.system.server_of[self._typed.workers[gpus]]
            links.train(number, servers, kept, partial(self._over, job))
            return 0.0
        super().start(job, gpus, kept, self._over)
        if links is not None:
            links.train_in_cloud(number)
        return 0.0

    def progress(self, jobs: Any) -> Any:
        made, links = super().progress(jobs), self._on_links
        if links is None:
            return made
        fractions = np.array(made).reshape(-1)
        for place, job in enumerate(np.atleast_1d(jobs).tolist()):
            number = self._typed.numbers[job]
            if links.trains(number):
                fractions[place] = links.progress(number)
        return fractions if np.ndim(jobs) else float(fractions[0])

    def finished(self, job: int) -> float:
        """The fraction of a job's training that consists of whole mini-batches."""
        if (ended := super().finished(job)) >= self._jobs[job].iterations:
            return ended
        batches = self._typed.batches(job, self._workers[job])
        return whole(float(self.progress(job)) * batches) / batches

    def stop(self, job: int, kept: float, back: bool) -> float:
        """Stop a job; see `Execution`.

        Over links, the seconds that it loses are the same fraction of its run as the lost training
        is of the training done in this run.
        """
        self._stopped[job] = self._env.now
        links, number = self._on_links, self._typed.numbers[job]
        if links is None or not links.trains(number):
            if links is not None:
                links.stop(number)
            return super().stop(job, kept, back)
        made = float(self.progress(job))
        if self.finished(job) >= self._jobs[job].iterations:
            self._over(job)
            return 0.0
        links.stop(number)
        if kept >= made:
            return 0.0
        links.drop_parts(number)
        since, before = float(self._since[job]), float(self._kept[job])
        return (self._env.now - since) * (made - kept) / (made - before) if made > before else 0.0

    def _over(self, job: int) -> None:
        number = self._typed.numbers[job]
        if self._on_links is not None:
            self._on_links.end(number)
        self._data.free(number)
        self._report_end(job)

    def add_ring_bytes(self, found: Floats) -> None:
        """Store the bytes that jobs with rings declare to send in exchanges in `found`, by job."""
        typed = self._typed
        for job, number in enumerate(typed.numbers):
            if typed.setting.ring[number]:
                found[number] = typed.ring_bytes(job, int(self._workers[job]))


class EdgeBackend:
    """The back end of whole jobs in one run, with the times that jobs declare or over links.

    With `on_links`, uploads and the exchanges of jobs at the edge are flows over its links.
    """

    def __init__(self, setting: EdgeSetting, on_links: JobsOnLinks | None = None) -> None:
        self._setting, self._on_links = setting, on_links
        #: The model of links; None if delays and rates are constant.
        self.links = None if on_links is None else on_links.links
        self.env = Clock(0.0) if self.links is None else self.links.env
        self.data = JobData(self.env, setting, self.links)
        self._executions: list[EdgeExecution] = []
        if on_links is not None:
            on_links.data = self.data

    def execution(self, typed: TypedJobs) -> EdgeExecution:
        """Make the execution of the jobs of one type of workers."""
        made = EdgeExecution(self.env, typed, self.data, self._on_links)
        self._executions.append(made)
        return made

    def step(self) -> None:
        """Process all events of the next instant."""
        step = self.env.step if self.links is None else self.links.step
        now = self.env.peek()
        while self.env.peek() == now:
            step()

    def exchange(self) -> Floats:
        """Seconds in which the chunks of each ended job have exchanged gradients."""
        if self._on_links is not None:
            return self._on_links.exchange
        setting = self._setting
        rate = np.array([job.bandwidth for job in setting.jobs]) * (1 + setting.epsilon)
        return np.where(setting.ring, self.ring_bytes() / rate, setting.chunks * setting.exchange)

    def ring_bytes(self) -> Floats:
        """Bytes that each ended job with a ring has sent in exchanges."""
        if self._on_links is not None:
            return self._on_links.ring_bytes()
        found = np.zeros(len(self._setting.jobs))
        for each in self._executions:
            each.add_ring_bytes(found)
        return found

    def held(self) -> PSAssignments | None:
        """The PSs that jobs have used so far; None if training does not depend on PSs."""
        return None if self._on_links is None else self._on_links.held()

    def make_room(self, place: int) -> None:
        """Make room for a job that has been inserted in the setting; it has not arrived."""
        if self._on_links is not None:
            self._on_links.make_room(place)
        self.data.make_room(place)

    def stalled(self) -> StalledError | None:
        """Make the error for flows that wait although no event is left; None if none waits."""
        if self.links is None or not self.links.fabric.pending():
            return None
        return self.links.stalled()
