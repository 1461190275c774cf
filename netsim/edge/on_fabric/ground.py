"""Whole jobs whose uploads and exchanges are flows over the links of an edge-cloud."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from netsim.edge.ground import EdgeExecution
from netsim.edge.job_data import JobData, shares
from netsim.edge.on_fabric.links import EdgeLinks
from netsim.edge.schedule import PSAssignments
from netsim.edge.servers import HeldServers
from netsim.edge.setting import CLOUD, EdgeSetting, Floats, Ints, with_room
from netsim.edge.transport import LinkSettings
from netsim.edge.typed_jobs import TypedJobs
from netsim.errors import StalledError
from netsim.fabric.clock import CoflowEvent

#: Error of the mini-batches that a worker has left.
_ROUNDING = 1e-9


class FabricGround(EdgeLinks):
    """The `Ground` of `FabricTransport` in one run; `mode` is as there.

    Each of the k workers of a job trains its chunks one after the other: worker i trains chunks i,
    i + k, i + 2k and so on. The fabric sees a worker as one chunk with the mini-batches of all its
    chunks. The job holds all its workers until the last one has ended.
    """

    def __init__(self, setting: EdgeSetting, sharing: LinkSettings, mode: str) -> None:
        super().__init__(setting, sharing, mode, "pause")
        self.data: JobData = _SentData(self, setting)
        self._gangs: dict[int, _Gang] = {}
        self._starting: dict[int, _Gang | None] = {}
        self._idle: dict[int, float] = {}
        self._servers = HeldServers(setting)
        self._exchange = np.zeros(len(setting.jobs))

    def execution(self, typed: TypedJobs) -> EdgeExecution:
        """See `Ground.execution`."""
        return _Execution(self, typed)

    # --- data -----------------------------------------------------------------------------

    def upload(self, job: int, chunks: Ints, server: Ints, delay: Floats) -> CoflowEvent:
        """Upload chunks of a job, given by their numbers within the job; see `Uploads.send`."""
        return self._uploads.send(job, self._setting.first[job] + chunks, server, delay)

    def forget(self, job: int, uploads: Iterable[CoflowEvent]) -> None:
        """Withdraw the given uploads of a job, which are in transit."""
        where = self._setting.chunks_of(job)
        self._uploads.forget(np.arange(where.start, where.stop))
        for upload in uploads:
            if not upload.triggered:
                self.fabric.withdraw(upload)

    def _arrived(self, chunk: int, server: int) -> None:
        assert isinstance(self.data, _SentData)
        self.data.arrived(int(self._traffic.job_of[chunk]), server)

    # --- training -------------------------------------------------------------------------

    def train(self, job: int, servers: Ints, kept: float, ended: Callable[[], None]) -> None:
        """Train a job, one worker per given server, from the end of this instant on.

        The job continues where it stopped. If its number of workers has changed, each worker starts
        with the fraction `kept` of its training done.
        """
        gang = self._gangs.get(job)
        if gang is None or len(gang.workers) != len(servers):
            batches = shares(int(self._setting.chunks[job]), len(servers)).astype(np.float64)
            batches *= self._setting.jobs[job].batches
            gang = self._gangs[job] = _Gang(
                self._setting.first[job] + np.arange(len(servers)), float(batches.max()))
            for worker, left in zip(gang.workers.tolist(), batches * (1 - kept), strict=True):
                self._training.restart(worker, left)
        gang.servers, gang.ended = servers, ended
        self._starting[job] = gang
        self._schedule_choice()

    def train_in_cloud(self, job: int) -> None:
        """Record that a job trains entirely in the cloud, with its PS there."""
        self._starting[job] = None
        self._schedule_choice()

    def trains(self, job: int) -> bool:
        """Whether a job trains at the edge."""
        gang = self._gangs.get(job)
        return gang is not None and (bool(gang.training) or self._starting.get(job) is gang)

    def progress(self, job: int) -> float:
        """The fraction of a job's training that its slowest worker has done."""
        gang = self._gangs[job]
        return 1 - max(map(self._training.left, gang.workers.tolist())) / gang.batches

    def stop(self, job: int) -> None:
        """Stop the training of a job; it may continue later."""
        self._idle[job] = self.env.now
        gang = self._gangs.get(job)
        for worker in [] if gang is None else sorted(gang.training):
            self._training.stop(worker)
            self._note(job, worker)
        self._starting.pop(job, None)
        self._schedule_choice()

    def drop_parts(self, job: int) -> None:
        """Discard the unfinished mini-batches of a job's workers."""
        for worker in self._gangs[job].workers.tolist():
            left = float(self._traffic.batches[worker])
            self._training.restart(worker, math.ceil(left * (1 - _ROUNDING) - _ROUNDING))

    def end(self, job: int) -> None:
        """Stop a job for good."""
        self.stop(job)
        self._gangs.pop(job, None)

    def _choose(self, now: float) -> None:
        starting, self._starting = self._starting, {}
        self._servers.change_hands(now, self._idle,
                                   {job: gang is None for job, gang in starting.items()})
        self._idle = {}
        for job, gang in sorted(starting.items()):
            if gang is not None:
                self._begin(job, gang, now)

    def _begin(self, job: int, gang: _Gang, now: float) -> None:
        """Begin to train all chunks of a job that have mini-batches left."""
        host_of = self._setting.system.host_of
        ps = int(host_of(np.array([self._servers.server(job)]))[0])
        gang.since, gang.before = now, self._traffic.batches[gang.workers]
        for worker, host, left in zip(gang.workers.tolist(), host_of(gang.servers).tolist(),
                                      gang.before.tolist(), strict=True):
            if left > 0:
                gang.training.add(worker)
                self._training.begin(worker, host, ps)

    def _note(self, job: int, worker: int) -> None:
        """Record that a worker has stopped, and the time in which it did not compute."""
        gang, traffic = self._gangs[job], self._traffic
        gang.training.discard(worker)
        made = gang.before[worker - gang.workers[0]] - traffic.batches[worker]
        self._exchange[job] += self.env.now - gang.since - made * traffic.fixed[worker]

    def _ended(self, chunk: int) -> None:
        job = int(self._traffic.job_of[chunk])
        self._note(job, chunk)
        gang = self._gangs[job]
        if not gang.training:
            gang.ended()

    # --- results --------------------------------------------------------------------------

    def exchange(self) -> Floats:
        """See `Ground.exchange`."""
        return self._exchange

    def ring_bytes(self) -> Floats:
        """See `Ground.ring_bytes`."""
        return np.add.reduceat(self._traffic.ring_bytes, self._setting.first[:-1])

    def held(self) -> PSAssignments:
        """See `Ground.held`."""
        return self._servers.assigned(self._idle)

    def stalled(self) -> StalledError | None:  # type: ignore[override]
        """See `Ground.stalled`."""
        return super().stalled() if self.fabric.pending() else None

    def make_room(self, place: int) -> None:
        """See `Ground.make_room`."""
        super().make_room(place)
        self.data.make_room(place)
        self._servers.add_type(self._setting.jobs[place].ps_type)
        self._exchange = with_room(self._exchange, slice(place, place + 1), 0.0)


def _nothing() -> None:
    """Do nothing."""


@dataclass(slots=True, eq=False)
class _Gang:
    """The workers of a job that trains at the edge."""

    workers: Ints  #: the number of each as a chunk
    batches: float  #: the most mini-batches that a worker has to train in all
    servers: Ints = field(default_factory=lambda: np.empty(0, np.int64))  #: of each worker
    ended: Callable[[], None] = _nothing  #: called when all workers have ended
    training: set[int] = field(default_factory=set)
    since: float = 0.0
    #: Mini-batches that each worker had left at `since`, when the training began.
    before: Floats = field(default_factory=lambda: np.empty(0))


class _SentData(JobData):
    """Data of jobs that is sent over links; predictions use the delays that jobs declare."""

    def __init__(self, ground: FabricGround, setting: EdgeSetting) -> None:
        super().__init__(ground.env, setting)
        self._ground = ground
        self._coming: dict[int, dict[int, _Coming]] = {}  # by job, by server
        self._waiting: dict[int, tuple[set[int], Callable[[], None]]] = {}

    def _send(self, number: int, workers: Ints, chunks: Mapping[int, int]) -> None:
        setting, now = self._setting, self._env.now
        delays = dict(zip(chunks, self._delays(number, list(chunks)).tolist(), strict=True))
        slow = {server: count for server, count in chunks.items()
                if delays[server] > 0 and setting.jobs[number].chunk_bytes > 0}
        super()._send(number, workers, {server: count for server, count in chunks.items()
                                        if server not in slow})
        if not slow:
            return
        every = np.arange(setting.chunks[number])
        server = (setting.system.server_of[workers][every % len(workers)] if len(workers)
                  else np.full(len(every), CLOUD))
        sent = np.isin(server, list(slow))
        delay = np.array([delays[each] for each in server[sent].tolist()])
        upload = self._ground.upload(number, every[sent], server[sent], delay)
        coming = self._coming.setdefault(number, {})
        coming |= {each: _Coming(now, count, upload) for each, count in slow.items()}

    def _wait(self, number: int, servers: Iterable[int], there: Callable[[], None]) -> bool:
        missing = set(servers).intersection(self._coming.get(number, ()))
        if missing:
            self._waiting[number] = missing, there
        return bool(missing)

    def stay(self, number: int) -> None:
        """See `JobData.stay`."""
        self._waiting.pop(number, None)

    def arrived(self, number: int, server: int) -> None:
        """Record that a chunk of a job has arrived at a server."""
        now, coming = self._env.now, self._coming[number]
        self.uploads[number] += now - coming[server].since
        coming[server].chunks -= 1
        if coming[server].chunks:
            return
        del coming[server]
        self._there[number][server] = now
        missing, there = self._waiting.get(number, (set(), _nothing))
        if server in missing:
            missing.remove(server)
            if not missing:
                del self._waiting[number]
                there()

    def free(self, number: int) -> None:
        """Forget the data of a job that has ended, and stop sending it."""
        super().free(number)
        coming = self._coming.pop(number, {})
        if coming:
            self._ground.forget(number, {id(each.upload): each.upload for each in coming.values()
                                         }.values())


@dataclass(slots=True, eq=False)
class _Coming:
    """Data in transit to a server: since when, how many chunks are missing, and in which coflow."""

    since: float
    chunks: int
    upload: CoflowEvent


class _Execution(EdgeExecution):
    """Whole jobs that train over links; in the cloud they exchange nothing. See `Execution`."""

    def __init__(self, ground: FabricGround, typed: TypedJobs) -> None:
        super().__init__(ground.env, typed, ground.data)
        self._ground = ground
        self._since_s: dict[int, float] = {}
        self._had: dict[int, float] = {}

    def add_job(self, job: int, jobs: Any) -> None:
        """Make room for a job that has not arrived; see `Execution`."""
        super().add_job(job, jobs)
        self._since_s, self._had = ({each + (each >= job): value for each, value in known.items()}
                                    for known in (self._since_s, self._had))

    def _train(self, job: int, gpus: Ints, kept: float) -> None:
        number, system = self._typed.numbers[job], self._typed.setting.system
        if not len(gpus):
            super()._train(job, gpus, kept)
            self._ground.train_in_cloud(number)
            return
        self._since_s[job], self._had[job] = self._env.now, kept
        servers = system.server_of[self._typed.workers[gpus]]
        self._ground.train(number, servers, kept, partial(self._over, job))

    def _over(self, job: int) -> None:
        self._ground.end(self._typed.numbers[job])
        super()._over(job)

    def progress(self, jobs: Any) -> Any:
        """The fraction of their training that jobs have done; see `Execution`."""
        numbers = [self._typed.numbers[job] for job in np.atleast_1d(jobs).tolist()]
        made = np.array(super().progress(jobs)).reshape(-1)
        for place, number in enumerate(numbers):
            if self._ground.trains(number):
                made[place] = self._ground.progress(number)
        return made if np.ndim(jobs) else float(made[0])

    def stop(self, job: int, kept: float, back: bool) -> float:
        """Stop a job; see `Execution`.

        The seconds that it loses are the same fraction of its run as the lost training is of the
        training done in this run.
        """
        number = self._typed.numbers[job]
        if not self._ground.trains(number):
            self._ground.stop(number)
            return super().stop(job, kept, back)
        self._stopped[job] = self._env.now
        made = float(self.progress(job))
        if self.finished(job) >= self._jobs[job].iterations:
            self._over(job)
            return 0.0
        self._ground.stop(number)
        if kept >= made:
            return 0.0
        self._ground.drop_parts(number)
        ran_s, before = self._env.now - self._since_s[job], self._had[job]
        return ran_s * (made - kept) / (made - before) if made > before else 0.0
