"""Chunks of an edge-cloud that are uploaded and train over its links."""

from __future__ import annotations

import math
from heapq import heapify, heappush

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.base.lazy import simpy
from netsim.base.values import Rows
from netsim.edge.on_fabric.links import EdgeLinks, LinkSettings
from netsim.edge.parameter_servers import HeldParameterServers
from netsim.edge.schedule import ChunkPlacement, TransportLog
from netsim.edge.setting import CLOUD, EdgeSetting, with_room
from netsim.edge.transport import Transport
from netsim.fabric.clock import LAST
from netsim.ties import ROUNDING

_IDLE = -1

#: The SimPy priority at which the run stops so that jobs can arrive: after all other events of an
#: instant, the fabric's decisions included, but before the chunks to train next are chosen.
_STOP = LAST - 1


class ChunksOnLinks(Transport):
    """The transport of `FabricTransport` in one run.

    HAPRF chooses the chunk that each worker trains, and A_ps the PS of each job.
    """

    links: EdgeLinks

    def __init__(self, setting: EdgeSetting, sharing: LinkSettings, mode: str,
                 preemption: str | None) -> None:
        super().__init__(setting)
        self.links = EdgeLinks(setting, sharing, mode, preemption, arrived=self._arrived,
                               ended=self._ended, stopped=self._stopped, choose=self._choose)
        self._ps = HeldParameterServers(setting)
        jobs, chunks = len(setting.jobs), setting.total
        self._arrival, self._dispatched = math.inf, 0.0
        self._stop: simpy.Event | None = None
        self._among = False
        # By chunk: the worker to which it was sent, and since when it trains.
        self._worker, self._since = np.full(chunks, CLOUD), np.full(chunks, np.nan)
        self._log: list[tuple[int, float, float]] = Rows()  # intervals of training
        # Current chunks that stop soon, workers to check, and chunks in the cloud to begin.
        self._leaving: set[int] = set()
        self._to_check: set[int] = set()
        self._to_begin: list[int] = []
        # By job: whether all chunks are in the cloud, how many train, and when the first began.
        self._zeta = np.zeros(jobs, np.bool_)
        self._train = np.zeros(jobs, np.int64)
        self._first = np.full(jobs, np.nan)
        self._left = chunks  # that have not ended

    def make_room(self, place: int) -> None:
        super().make_room(place)
        self.links.make_room(place)
        where = self._setting.chunks_of(place)
        self._worker = with_room(self._worker, where, CLOUD)
        self._since = with_room(self._since, where, np.nan)
        self._zeta = np.insert(self._zeta, place, False)
        self._train = np.insert(self._train, place, 0)
        self._first = np.insert(self._first, place, np.nan)
        self._left += int(self._setting.chunks[place])

    # --- the clock ------------------------------------------------------------------------

    @property
    def settled(self) -> bool:
        return not self._left

    def expect(self, arrival: float) -> None:
        if self._stop is not None:
            if arrival == self._arrival:
                return
            self._forget(self._stop)
            self._stop, self._among = None, False
        self._arrival = arrival
        if arrival < math.inf:
            self._stop_at(arrival, self._dispatched)

    def _stop_at(self, until: float, since: float) -> None:
        """Stop at an instant after all its events except the choice of the next chunks.

        The instant is computed as `since` plus a delay, as SimPy does, so that rounding is the
        same.
        """
        env = self.links.env
        self._stop = simpy.Event(env)
        self._stop._ok, self._stop._value = True, None
        at = max(since + max(until - since, 0.0), env.now)
        heappush(env._queue, (at, _STOP, next(env._eid), self._stop))  # type: ignore[misc]

    def _forget(self, event: simpy.Event) -> None:
        """Remove an event from the queue, because `EdgeLinks` looks for the next event."""
        queue = self.links.env._queue
        queue[:] = [entry for entry in queue if entry[3] is not event]
        heapify(queue)

    def next_at(self) -> float:
        return math.inf if self._stop is None and self.settled else self.links.env.peek()

    def step(self) -> bool:
        env = self.links.env
        self.links.step()
        if self._stop is None or not self._stop.processed:
            return False
        soon = self._arrival * (1 + ROUNDING)
        if not self._among and env.peek() <= soon:
            # To the last of these events and not further, as chunks are dispatched at its instant.
            self._among = True
            self._stop_at(max((at for at, priority, *_ in env._queue
                               if at <= soon and priority < LAST), default=self._arrival), env.now)
            return False
        self._stop, self._among = None, False
        return True

    # --- estimates for schedulers ---------------------------------------------------------

    def advance(self, now: float, workers: Ints) -> None:
        for chunk in self._current[workers].tolist():
            if chunk != _IDLE:
                self._estimate(chunk)
        self.queues.clock[workers] = now

    def _estimate(self, chunk: int) -> None:
        """Estimate the remaining training time of a chunk."""
        # Not 0, as a chunk that has not ended stays in the queue.
        batches = max(self.links.training.left(chunk), 1e-12)
        job = self._setting.jobs[self._setting.job_of[chunk]]
        self.queues.left[chunk] = batches * (job.p0_s / job.batches / (1 + self._setting.epsilon))

    # --- data -----------------------------------------------------------------------------

    def dispatch(self, job: int, given: ChunkPlacement) -> None:
        self._dispatched = self.links.env.now
        super().dispatch(job, given)

    def _send(self, job: int, chunks: Ints, worker: Ints, server: Ints, delay: Floats) -> None:
        self._worker[chunks] = worker
        self._zeta[job] = (worker == CLOUD).all()
        sent = (delay > 0) & (self._setting.jobs[job].chunk_bytes > 0)
        for chunk, wait in zip(chunks[~sent].tolist(), delay[~sent].tolist(), strict=True):
            self.links.traffic.after(wait, self._arrived, chunk)
        if sent.any():
            self.links.uploads.send(job, chunks, server, delay)

    def _arrived(self, chunk: int, server: int = CLOUD) -> None:
        """Record that the data of a chunk has arrived where it will be trained."""
        self._ready[chunk] = self.queues.ready[chunk] = self.links.env.now
        if self._worker[chunk] == CLOUD:
            self._to_begin.append(chunk)
        else:
            self._to_check.add(int(self._worker[chunk]))
        self.links.schedule_choice()

    # --- training -------------------------------------------------------------------------

    def _choose(self, now: float) -> None:
        """Begin to train the chunks that train from now on."""
        begin, self._to_begin = self._to_begin, []
        for worker in sorted(self._to_check):
            first = self._first_ready(worker)
            if first != _IDLE and self._vacate(worker, first):
                self._current[worker] = first
                begin.append(first)
        self._to_check.clear()
        starting = {int(self._setting.job_of[chunk]) for chunk in begin}
        self._ps.change_hands(now, self._idle(),
                              {job: bool(self._zeta[job]) for job in starting})
        for chunk in sorted(begin):
            self._begin(chunk, now)

    def _idle(self) -> dict[int, float]:
        """Find the jobs that hold PSs and do not train, and when they stopped."""
        return {job: float(self._last[job]) for job in self._ps.jobs if not self._train[job]}

    def _first_ready(self, worker: int) -> int:
        """The chunk that HAPRF trains on a worker: the first one that is ready."""
        row = self.queues.queue[worker, :self.queues.count[worker]]
        there = row[~np.isnan(self._ready[row])]
        return int(there[0]) if len(there) else _IDLE

    def _vacate(self, worker: int, chunk: int) -> bool:
        """Displace the current chunk of a worker if needed; return whether `chunk` can start."""
        current = int(self._current[worker])
        if current in (chunk, _IDLE):
            return current == _IDLE
        if current not in self._leaving:
            if self.links.training.stop(current):
                self._displaced(current)
                return True
            self._leaving.add(current)
        return False

    def _begin(self, chunk: int, now: float) -> None:
        """Begin to train a chunk, which exchanges no gradients if its whole job is in the cloud."""
        job, system = int(self._setting.job_of[chunk]), self._setting.system
        self._since[chunk] = now
        self._first[job] = np.fmin(self._first[job], now)
        self._train[job] += 1
        if self._zeta[job]:
            self.links.traffic.after(float(self._setting.p1[job]), self._ended, chunk)
            return
        worker = self._worker[chunk]
        server = CLOUD if worker == CLOUD else system.server_of[worker]
        host, ps = system.host_of(np.array([server, self._ps.server(job)])).tolist()
        self.links.training.begin(chunk, host, ps)

    def _end_interval(self, chunk: int) -> None:
        now, job, worker = self.links.env.now, self._setting.job_of[chunk], int(self._worker[chunk])
        self._log.append((chunk, float(self._since[chunk]), now))
        self._since[chunk] = np.nan
        self._train[job] -= 1
        self._last[job] = now
        self._leaving.discard(chunk)
        if worker != CLOUD:
            self._current[worker] = _IDLE
            self._to_check.add(worker)

    def _displaced(self, chunk: int) -> None:
        """Record that a chunk has stopped training before its end."""
        self._end_interval(chunk)
        self._preemptions[chunk] += 1
        self._estimate(chunk)

    def _stopped(self, chunk: int) -> None:
        self._displaced(chunk)
        self.links.schedule_choice()

    def _ended(self, chunk: int) -> None:
        """Record that a chunk has finished its training."""
        self._end_interval(chunk)
        self._finish[chunk] = self.links.env.now
        self._unfinished[self._setting.job_of[chunk]] -= 1
        self._left -= 1
        self.queues.left[chunk] = 0.0
        if self._worker[chunk] != CLOUD:
            self.queues.remove(chunk, int(self._worker[chunk]))
        self.links.schedule_choice()

    # --- what has happened ---------------------------------------------------------------

    def times(self) -> tuple[Floats, Floats]:
        return self._first, np.where(self._unfinished > 0, np.nan, self._last)

    def log(self) -> TransportLog:
        going, traffic = np.flatnonzero(~np.isnan(self._since)), self.links.traffic
        rows = [*self._log, *((chunk, since, np.inf) for chunk, since in zip(
            going.tolist(), self._since[going].tolist(), strict=True))]
        chunk = np.array([row[0] for row in rows], np.int64)
        start, end = (np.array([row[k] for row in rows], np.float64) for k in (1, 2))
        computed = np.repeat(self._setting.p1, self._setting.chunks) + traffic.wasted
        exchange = np.bincount(chunk, end - start, len(computed)) - computed
        return TransportLog(chunk, start, end, self._ready, self._finish, self._preemptions,
                            self._ps.assigned(self._idle()), exchange, traffic.ring_bytes)
