"""Whole jobs of an edge-cloud that train over its links."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.edge.job_data import JobData, shares
from netsim.edge.on_fabric.links import EdgeLinks, LinkSettings
from netsim.edge.on_fabric.traffic import BATCHES_ERROR
from netsim.edge.parameter_servers import HeldParameterServers
from netsim.edge.schedule import PSAssignments
from netsim.edge.setting import EdgeSetting, with_room


def _nothing() -> None:
    """Do nothing."""


@dataclass(slots=True, eq=False)
class _JobWorkers:
    """The workers of a job that trains at the edge."""

    workers: Ints  #: the number of each as a chunk
    batches: float  #: the most mini-batches that a worker has to train in all
    servers: Ints = field(default_factory=lambda: np.empty(0, np.int64))  #: of each worker
    ended: Callable[[], None] = _nothing  #: called when all workers have ended
    training: set[int] = field(default_factory=set)
    since: float = 0.0
    #: Mini-batches that each worker had left at `since`, when the training began.
    before: Floats = field(default_factory=lambda: np.empty(0))


class JobsOnLinks:
    """Trains whole jobs over links in one run; `mode` is that of `FabricTransport`.

    Each of the k workers of a job trains its chunks one after the other: worker i trains chunks i,
    i + k, i + 2k and so on. The fabric sees a worker as one chunk with the mini-batches of all its
    chunks. The job holds all its workers until the last one has ended.
    """

    data: JobData  #: must be set before anything is sent

    def __init__(self, setting: EdgeSetting, sharing: LinkSettings, mode: str) -> None:
        self._setting = setting
        self.links = EdgeLinks(setting, sharing, mode, "pause", arrived=self._arrived,
                               ended=self._ended, stopped=self._stopped, choose=self._choose)
        self._workers: dict[int, _JobWorkers] = {}
        self._starting: dict[int, _JobWorkers | None] = {}
        self._idle: dict[int, float] = {}
        self._ps = HeldParameterServers(setting)
        #: Seconds in which the workers of each job have trained, but not computed.
        self.exchange: Floats = np.zeros(len(setting.jobs))

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
                self._setting.first[job] + np.arange(len(servers)), float(batches.max()))
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
        self.data.arrived(int(self.links.traffic.job_of[chunk]), server)

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
        self.exchange[job] += self.links.env.now - own.since - made * traffic.fixed[worker]

    def _ended(self, chunk: int) -> None:
        job = int(self.links.traffic.job_of[chunk])
        self._note(job, chunk)
        own = self._workers[job]
        if not own.training:
            own.ended()

    def _stopped(self, chunk: int) -> None:
        raise AssertionError("workers of whole jobs stop at once")

    # --- results --------------------------------------------------------------------------

    def ring_bytes(self) -> Floats:
        """Bytes that each job has sent in rings."""
        return np.add.reduceat(self.links.traffic.ring_bytes, self._setting.first[:-1])

    def held(self) -> PSAssignments:
        """The PSs that jobs have used so far."""
        return self._ps.assigned(self._idle)

    def make_room(self, place: int) -> None:
        """Make room for a job that has been inserted in the setting; it has not arrived."""
        self.links.make_room(place)
        self.exchange = with_room(self.exchange, slice(place, place + 1), 0.0)
