"""Transports, which simulate how chunks get to workers and train there.

Schedulers of chunks know the delays and rates that jobs declare. A transport determines the real
ones: it moves the data, trains chunks on workers by HAPRF, and maintains the `Queues` that the
scheduler sees. It also owns the clock.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.edge import kernels
from netsim.edge.schedule import ChunkPlacement, Queues, TransportLog
from netsim.edge.setting import CLOUD, EdgeSetting, with_room
from netsim.errors import StalledError

if TYPE_CHECKING:
    from netsim.edge.on_fabric.links import EdgeLinks

#: After this many looks at chunks, a kernel returns for Python to handle signals: some 10 ms.
_WORK = 10_000_000


class Transport(ABC):
    """Base class of the back ends on which dispatched chunks run, event by event.

    Attributes
    ----------
    queues : Queues
        The queues that a scheduler sees. `advance` brings them up to date for the given workers.
    links : EdgeLinks or None
        The model of links; None if delays and rates are constant.
    """

    links: EdgeLinks | None = None

    def __init__(self, setting: EdgeSetting) -> None:
        self._setting, self.queues = setting, Queues(setting)
        jobs, chunks = len(setting.jobs), setting.total
        # By chunk: when its data was there, when it ended, and how often it was displaced.
        self._ready, self._finish = np.full((2, chunks), np.nan)
        self._preemptions = np.zeros(chunks, np.int64)
        # By job: how many chunks have not ended, and when the last of the others stopped.
        self._unfinished, self._last = setting.chunks.copy(), np.zeros(jobs)
        self._current = np.full(setting.system.total, -1)  # the chunk on each worker, or -1

    @property
    @abstractmethod
    def settled(self) -> bool:
        """Whether the times of all chunks dispatched so far are known."""

    @abstractmethod
    def expect(self, arrival: float) -> None:
        """Set the arrival time of the next job, in seconds; inf if there is none.

        Called at the beginning, after each `dispatch`, and when a job is submitted.
        """

    @abstractmethod
    def next_at(self) -> float:
        """Return the instant of the next event, which may be the arrival; inf if there is none."""

    @abstractmethod
    def step(self) -> bool:
        """Process the next event; return whether it is time to dispatch the job that arrives.

        Chunks that end at this instant have ended afterwards. The chunks to train next are not
        chosen yet, as more chunks may be dispatched at this instant.
        """

    @abstractmethod
    def advance(self, now: float, workers: Ints) -> None:
        """Update the queues of some workers, before a job is dispatched."""

    def dispatch(self, job: int, given: ChunkPlacement) -> None:
        """Dispatch the chunks of a job, after its workers were advanced to its arrival."""
        setting, system = self._setting, self._setting.system
        chunks = np.arange(setting.first[job], setting.first[job + 1])
        edge, arrival = given.worker != CLOUD, setting.arrival[job]
        server = np.full(len(chunks), CLOUD)
        delay = np.full(len(chunks), setting.cloud_delay[job])
        server[edge] = system.server_of[given.worker[edge]]
        delay[edge] = setting.delays[job, server[edge]]
        self.queues.insert(chunks[edge], given.worker[edge], arrival + delay[edge],
                           setting.p0[job])
        self._send(job, chunks, given.worker, server, delay)

    @abstractmethod
    def _send(self, job: int, chunks: Ints, worker: Ints, server: Ints, delay: Floats) -> None:
        """Send chunks to workers on servers, which should take the given delays in seconds."""

    def ended(self, job: int) -> float:
        """Return the instant at which a dispatched job ends, in seconds; inf if not known yet.

        The end may be in the future.
        """
        return math.inf if self._unfinished[job] else float(self._last[job])

    @abstractmethod
    def times(self) -> tuple[Floats, Floats]:
        """Return when each job first trains, and when it ends, as far as known; otherwise NaN.

        Future times hold if no other job arrives before. Both have shape (jobs,).
        """

    @abstractmethod
    def log(self) -> TransportLog:
        """Return the log of the run; future events are as for `times`."""

    def make_room(self, place: int) -> None:
        """Make room for a job that has been inserted in the setting; it has not arrived."""
        setting, where = self._setting, self._setting.chunks_of(place)
        self.queues.make_room(setting, place)
        self._ready = with_room(self._ready, where, np.nan)
        self._finish = with_room(self._finish, where, np.nan)
        self._preemptions = with_room(self._preemptions, where, 0)
        self._unfinished = np.insert(self._unfinished, place, setting.chunks[place])
        self._last = np.insert(self._last, place, 0.0)

    def stalled(self) -> StalledError:
        """Make the error for chunks that are not settled although no event is left."""
        if self.links is not None:
            return self.links.stalled()
        return StalledError("stalled: nothing will happen any more")


class Constant(Transport):
    """The transport of `ConstantTransport` in one run.

    Workers are independent of each other, so each is simulated only when `advance` asks for it.
    """

    def __init__(self, setting: EdgeSetting) -> None:
        super().__init__(setting)
        chunks = setting.total
        self._arrival = math.inf
        self._since = np.zeros(setting.system.total)
        # Each chunk displaces at most one other when it becomes ready, and finishes once, so that
        # there are at most two intervals per chunk.
        self._chunk = np.zeros(2 * chunks, np.int64)
        self._start, self._end = np.zeros(2 * chunks), np.zeros(2 * chunks)
        self._logged = 0
        self._outlook: tuple[TransportLog, Floats, Floats] | None = None

    @property
    def settled(self) -> bool:
        return True

    def expect(self, arrival: float) -> None:
        self._arrival = arrival

    def next_at(self) -> float:
        return self._arrival  # arrivals are the only events

    def step(self) -> bool:
        return True

    def advance(self, now: float, workers: Ints) -> None:
        queues, done = self.queues, False
        while not done:  # between two calls, Python handles signals
            self._logged, done = kernels.advance(
                workers, now, queues.queue, queues.count, queues.clock, self._current, self._since,
                queues.left, queues.ready, self._finish, self._preemptions, self._setting.job_of,
                self._unfinished, self._last, self._chunk, self._start, self._end, self._logged,
                _WORK)

    def _send(self, job: int, chunks: Ints, worker: Ints, server: Ints, delay: Floats) -> None:
        self._outlook = None
        setting, edge = self._setting, worker != CLOUD
        ready = setting.arrival[job] + delay
        self._ready[chunks] = ready
        self._unfinished[job] = edge.sum()
        self._in_cloud(job, chunks[~edge], ready[~edge],
                       setting.p0[job] if edge.any() else setting.p1[job])

    def _in_cloud(self, job: int, chunks: Ints, ready: Floats, needed: float) -> None:
        """Log the training of chunks in the cloud, where each starts as soon as it is ready."""
        if not len(chunks):
            return
        log = slice(self._logged, self._logged + len(chunks))
        self._logged = log.stop
        self._chunk[log], self._start[log], self._end[log] = chunks, ready, ready + needed
        self._finish[chunks] = ready + needed
        self._last[job] = ready[0] + needed

    def times(self) -> tuple[Floats, Floats]:
        return self._ahead()[1:]

    def log(self) -> TransportLog:
        return self._ahead()[0]

    def _ahead(self) -> tuple[TransportLog, Floats, Floats]:
        """The log and the times of jobs if no more chunks are dispatched."""
        if self._outlook is None:
            ahead, jobs = copy.deepcopy(self), len(self._setting.jobs)
            ahead.advance(math.inf, np.arange(len(self._current)))
            logged = slice(ahead._logged)
            log = TransportLog(
                ahead._chunk[logged], ahead._start[logged], ahead._end[logged], ahead._ready,
                ahead._finish, ahead._preemptions)
            start, finish = np.full(jobs, np.nan), np.full(jobs, np.nan)
            np.fmin.at(start, self._setting.job_of[log.chunk], log.start)
            np.fmax.at(finish, self._setting.job_of, log.finish)
            self._outlook = log, start, finish
        return self._outlook

    def make_room(self, place: int) -> None:
        super().make_room(place)
        self._outlook = None
        more = np.zeros(2 * int(self._setting.chunks[place]))
        self._chunk = np.concatenate((self._chunk, more.astype(np.int64)))
        self._start = np.concatenate((self._start, more))
        self._end = np.concatenate((self._end, more))
