"""The back ends on which the whole jobs of an edge-cloud run: their clock, data and training."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.edge.job_data import JobData, shares
from netsim.edge.on_fabric.links import EdgeLinks, LinkSettings
from netsim.edge.on_fabric.traffic import BATCHES_ERROR
from netsim.edge.parameter_servers import HeldParameterServers
from netsim.edge.schedule import PSAssignments
from netsim.edge.setting import EdgeSetting
from netsim.edge.typed_jobs import TypedJobs
from netsim.engine.executions import TimedExecution
from netsim.engine.preemption import whole
from netsim.errors import StalledError
from netsim.fabric.clock import Clock
from netsim.ties import ROUNDING


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
    """The back end of whole jobs in one run, in which delays and rates are those that jobs declare.

    A subclass sets `links`, over which data is then uploaded.
    """

    links: EdgeLinks | None = None

    def __init__(self, setting: EdgeSetting) -> None:
        self._setting = setting
        self.env = Clock(0.0) if self.links is None else self.links.env
        self.data = JobData(self.env, setting, self.links)
        self._executions: list[EdgeExecution] = []

    def execution(self, typed: TypedJobs) -> EdgeExecution:
        """Make the execution of the jobs of one type of workers."""
        made = EdgeExecution(self.env, typed, self.data, None)
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
        setting = self._setting
        rate = np.array([job.bandwidth for job in setting.jobs]) * (1 + setting.epsilon)
        return np.where(setting.ring, self.ring_bytes() / rate, setting.chunks * setting.exchange)

    def ring_bytes(self) -> Floats:
        """Bytes that each ended job with a ring has sent in exchanges."""
        found = np.zeros(len(self._setting.jobs))
        for each in self._executions:
            each.add_ring_bytes(found)
        return found

    def held(self) -> PSAssignments | None:
        """The PSs that jobs have used so far; None if training does not depend on PSs."""
        return None

    def make_room(self, place: int) -> None:
        """Make room for a job that has been inserted in the setting; it has not arrived."""
        self.data.make_room(place)

    def stalled(self) -> StalledError | None:
        """Make the error for flows that wait although no event is left; None if none waits."""
        return None


# --- over links ----------------------------------------------------------------------------

@dataclass(slots=True, eq=False)
class _JobWorkers:
    """The workers of a job that trains at the edge."""

    workers: Ints  #: the number of each as a chunk
    batches: float  #: the most mini-batches that a worker has to train in all
    servers: Ints  #: of each worker
    ended: Callable[[], None]  #: called when all workers have ended
    training: set[int] = field(default_factory=set)
    since: float = 0.0
    #: Mini-batches that each worker had left at `since`, when the training began.
    before: Floats = field(default_factory=lambda: np.empty(0))


class JobsOnLinks(EdgeBackend):
    """The back end over links in one run; `mode` is that of `FabricTransport`.

    Each of the k workers of a job trains its chunks one after the other: worker i trains chunks i,
    i + k, i + 2k and so on. The fabric sees a worker as one chunk with the mini-batches of all its
    chunks. The job holds all its workers until the last one has ended.
    """

    links: EdgeLinks

    def __init__(self, setting: EdgeSetting, sharing: LinkSettings, mode: str) -> None:
        self.links = EdgeLinks(
            setting, sharing, mode, "pause", arrived=self._arrived, ended=self._ended,
            stopped=self._stopped, choose=self._choose)
        super().__init__(setting)
        self._workers: dict[int, _JobWorkers] = {}
        self._starting: dict[int, _JobWorkers | None] = {}
        self._idle: dict[int, float] = {}
        self._ps = HeldParameterServers(setting)
        # Seconds in which the workers of each job have trained, but not computed.
        self._exchange: Floats = np.zeros(len(setting.jobs))

    def execution(self, typed: TypedJobs) -> EdgeExecution:
        return EdgeExecution(self.env, typed, self.data, self)

    # --- training -------------------------------------------------------------------------

    def train(self, job: int, servers: Ints, kept: float, ended: Callable[[], None]) -> None:
        """Train a job, one worker per given server, from the end of this instant on.

        The job continues where it stopped. If its number of workers has changed, each worker starts
        with the fraction `kept` of its training done.
        """
        own = self._workers.get(job)
        if own is None or len(own.workers) != len(servers):
            batches = shares(int(self._setting.chunks[job]), len(servers)).astype(np.float64)
            batches *= self._setting.jobs[job].batches
            own = self._workers[job] = _JobWorkers(
                self._setting.first[job] + np.arange(len(servers)), float(batches.max()), servers,
                ended)
            for worker, left in zip(own.workers.tolist(), batches * (1 - kept), strict=True):
                self.links.training.restart(worker, left)
        own.servers, own.ended = servers, ended
        self._starting[job] = own
        self.links.schedule_choice()

    def train_in_cloud(self, job: int) -> None:
        """Record that a job trains entirely in the cloud, with its PS there."""
        self._starting[job] = None
        self.links.schedule_choice()

    def trains(self, job: int) -> bool:
        """Whether a job trains at the edge."""
        own = self._workers.get(job)
        return own is not None and (bool(own.training) or self._starting.get(job) is own)

    def progress(self, job: int) -> float:
        """The fraction of a job's training that its slowest worker has done."""
        own = self._workers[job]
        return 1 - max(map(self.links.training.left, own.workers.tolist())) / own.batches

    def stop(self, job: int) -> None:
        """Stop the training of a job; it may continue later."""
        self._idle[job] = self.links.env.now
        own = self._workers.get(job)
        for worker in [] if own is None else sorted(own.training):
            self.links.training.stop(worker)
            self._note(job, worker)
        self._starting.pop(job, None)
        self.links.schedule_choice()

    def drop_parts(self, job: int) -> None:
        """Discard the unfinished mini-batches of a job's workers."""
        for worker in self._workers[job].workers.tolist():
            left = float(self.links.traffic.batches[worker])
            whole = math.ceil(left * (1 - BATCHES_ERROR) - BATCHES_ERROR)
            self.links.training.restart(worker, whole)

    def end(self, job: int) -> None:
        """Stop a job for good."""
        self.stop(job)
        self._workers.pop(job, None)

    # --- events ---------------------------------------------------------------------------

    def _arrived(self, chunk: int, server: int) -> None:
        self.data.arrived(int(self._setting.job_of[chunk]), server)

    def _choose(self, now: float) -> None:
        starting, self._starting = self._starting, {}
        self._ps.change_hands(now, self._idle,
                              {job: own is None for job, own in starting.items()})
        self._idle = {}
        for job, own in sorted(starting.items()):
            if own is not None:
                self._begin(job, own, now)

    def _begin(self, job: int, own: _JobWorkers, now: float) -> None:
        """Begin to train all chunks of a job that have mini-batches left."""
        host_of = self._setting.system.host_of
        ps = int(host_of(np.array([self._ps.server(job)]))[0])
        own.since, own.before = now, self.links.traffic.batches[own.workers]
        for worker, host, left in zip(own.workers.tolist(), host_of(own.servers).tolist(),
                                      own.before.tolist(), strict=True):
            if left > 0:
                own.training.add(worker)
                self.links.training.begin(worker, host, ps)

    def _note(self, job: int, worker: int) -> None:
        """Record that a worker has stopped, and the time in which it did not compute."""
        own, traffic = self._workers[job], self.links.traffic
        own.training.discard(worker)
        made = own.before[worker - own.workers[0]] - traffic.batches[worker]
        self._exchange[job] += self.links.env.now - own.since - made * traffic.fixed[worker]

    def _ended(self, chunk: int) -> None:
        job = int(self._setting.job_of[chunk])
        self._note(job, chunk)
        own = self._workers[job]
        if not own.training:
            own.ended()

    def _stopped(self, chunk: int) -> None:
        raise AssertionError("workers of whole jobs stop at once")

    # --- results --------------------------------------------------------------------------

    def exchange(self) -> Floats:
        return self._exchange

    def ring_bytes(self) -> Floats:
        return np.add.reduceat(self.links.traffic.ring_bytes, self._setting.first[:-1])

    def held(self) -> PSAssignments:
        return self._ps.assigned(self._idle)

    def make_room(self, place: int) -> None:
        super().make_room(place)
        self.links.make_room(place)
        self._exchange = np.insert(self._exchange, place, 0.0)

    def stalled(self) -> StalledError | None:
        return self.links.stalled() if self.links.fabric.pending() else None
