"""The state of workers and PSs during a run: which chunk each trains, and for which job."""

from __future__ import annotations

import numpy as np

from netsim.edge.on_fabric.training import Training
from netsim.edge.queues import Queues
from netsim.edge.schedule import TransportLog
from netsim.edge.servers import HeldServers
from netsim.edge.setting import CLOUD, EdgeSetting, Floats, Ints, with_room
from netsim.forking import Rows

_IDLE = -1


class Workers:
    """Chooses the chunk that each worker trains, by HAPRF, and the PS of each job, by A_ps."""

    def __init__(self, setting: EdgeSetting, queues: Queues, training: Training) -> None:
        jobs, chunks = len(setting.jobs), setting.total
        self._setting, self._queues, self._training = setting, queues, training
        self._held = HeldServers(setting)
        self._tabulate()
        self._worker = np.full(chunks, CLOUD)
        self._ready = np.zeros(chunks, np.bool_)
        self._current = np.full(setting.system.total, _IDLE)
        self._leaving: set[int] = set()
        self._to_check: set[int] = set()
        self._to_begin: list[int] = []
        self._zeta = np.zeros(jobs, np.bool_)
        self._train = np.zeros(jobs, np.int64)
        self._unfinished = setting.chunks.copy()
        self.unfinished = chunks
        self._first, self._last = np.full(jobs, np.nan), np.full(jobs, np.inf)
        self._since = np.full(chunks, np.nan)
        self._finish = np.full(chunks, np.nan)
        self._preemptions = np.zeros(chunks, np.int64)
        self._log: list[tuple[int, float, float]] = Rows()

    def _tabulate(self) -> None:
        """Make the arrays that follow from the setting."""
        setting = self._setting
        self._job_of = np.repeat(np.arange(len(setting.jobs)), setting.chunks).tolist()
        self._batch_s = np.array([job.p0_s / job.batches for job in setting.jobs]) / (
            1 + setting.epsilon)

    def make_room(self, place: int) -> None:
        """Make room for a job that has been inserted in the setting; it has not arrived."""
        setting = self._setting
        where = setting.chunks_of(place)
        self._tabulate()
        self._held.add_type(setting.jobs[place].ps_type)
        self._worker = with_room(self._worker, where, CLOUD)
        self._ready = with_room(self._ready, where, False)
        self._zeta = np.insert(self._zeta, place, False)
        self._train = np.insert(self._train, place, 0)
        self._unfinished = np.insert(self._unfinished, place, setting.chunks[place])
        self.unfinished += int(setting.chunks[place])
        self._first = np.insert(self._first, place, np.nan)
        self._last = np.insert(self._last, place, np.inf)
        self._since = with_room(self._since, where, np.nan)
        self._finish = with_room(self._finish, where, np.nan)
        self._preemptions = with_room(self._preemptions, where, 0)

    def dispatch(self, job: int, chunks: Ints, worker: Ints) -> None:
        """Record the workers to which the chunks of a job go."""
        self._worker[chunks] = worker
        self._zeta[job] = (worker == CLOUD).all()

    def ready(self, chunk: int, now: float) -> None:
        """Record that the data of a chunk has arrived."""
        self._ready[chunk] = True
        self._queues.ready[chunk] = now
        if self._worker[chunk] == CLOUD:
            self._to_begin.append(chunk)
        else:
            self._to_check.add(int(self._worker[chunk]))

    def update_estimates(self, workers: Ints) -> None:
        """Update the estimated remaining training time of the chunks on some workers."""
        for chunk in self._current[workers].tolist():
            if chunk != _IDLE:
                self._estimate(chunk)

    def _estimate(self, chunk: int) -> None:
        # Not 0, as a chunk that has not ended stays in the queue.
        batches = max(self._training.left(chunk), 1e-12)
        self._queues.left[chunk] = batches * self._batch_s[self._job_of[chunk]]

    def _end_interval(self, chunk: int, now: float) -> None:
        self._log.append((chunk, float(self._since[chunk]), now))
        self._since[chunk] = np.nan
        self._train[self._job_of[chunk]] -= 1
        self._last[self._job_of[chunk]] = now
        worker = int(self._worker[chunk])
        if worker != CLOUD:
            self._current[worker] = _IDLE
            self._to_check.add(worker)

    def end(self, chunk: int, now: float) -> None:
        """Record that a chunk has finished its training."""
        self._end_interval(chunk, now)
        self._leaving.discard(chunk)
        self._finish[chunk] = now
        self._unfinished[self._job_of[chunk]] -= 1
        self.unfinished -= 1
        self._queues.left[chunk] = 0.0
        if self._worker[chunk] != CLOUD:
            self._queues.remove(chunk, int(self._worker[chunk]))

    def stop(self, chunk: int, now: float) -> None:
        """Record that a chunk that was displaced has stopped training."""
        self._end_interval(chunk, now)
        self._leaving.discard(chunk)
        self._preemptions[chunk] += 1
        self._estimate(chunk)

    def choose(self, now: float) -> list[tuple[int, int, int | None]]:
        """Choose the chunks that train from now on; return each with its host and that of its PS.

        The host of the PS is None if all chunks of the job are in the cloud, so that it exchanges
        no gradients.
        """
        begin, self._to_begin = self._to_begin, []
        for worker in sorted(self._to_check):
            first = self._first_ready(worker)
            if first != _IDLE and self._vacate(worker, first, now):
                self._current[worker] = first
                begin.append(first)
        self._to_check.clear()
        starting = {self._job_of[chunk] for chunk in begin}
        self._held.change_hands(now, self._stopped(),
                                {job: bool(self._zeta[job]) for job in starting})
        return [self._begin(chunk, now) for chunk in sorted(begin)]

    def _stopped(self) -> dict[int, float]:
        """Find the jobs that hold PSs and do not train, and when they stopped."""
        return {job: float(self._last[job]) for job in self._held.jobs if not self._train[job]}

    def _first_ready(self, worker: int) -> int:
        """The chunk that HAPRF trains on a worker: the first one that is ready."""
        row = self._queues.queue[worker, :self._queues.count[worker]]
        there = row[self._ready[row]]
        return int(there[0]) if len(there) else _IDLE

    def _vacate(self, worker: int, chunk: int, now: float) -> bool:
        """Displace the current chunk of a worker if needed; return whether `chunk` can start."""
        current = int(self._current[worker])
        if current in (chunk, _IDLE):
            return current == _IDLE
        if current not in self._leaving:
            if self._training.stop(current):
                self.stop(current, now)
                return True
            self._leaving.add(current)
        return False

    def _begin(self, chunk: int, now: float) -> tuple[int, int, int | None]:
        job, system = self._job_of[chunk], self._setting.system
        self._since[chunk] = now
        self._first[job] = np.fmin(self._first[job], now)
        self._train[job] += 1
        worker = self._worker[chunk]
        server = CLOUD if worker == CLOUD else system.server_of[worker]
        host, ps = system.host_of(np.array([server, self._held.server(job)])).tolist()
        return chunk, host, None if self._zeta[job] else ps

    def ended(self, job: int) -> float:
        """The instant at which a job ended, in seconds; inf if it has not."""
        return float("inf") if self._unfinished[job] else float(self._last[job])

    def times(self) -> tuple[Floats, Floats]:
        """When each job first trained, and when it ended, in seconds; NaN if it has not."""
        return self._first, np.where(self._unfinished > 0, np.nan, self._last)

    def log(self, ready: Floats, wasted: Floats, ring_bytes: Floats) -> TransportLog:
        """Make the log of the run so far; intervals that have not ended end at infinity.

        By chunk: `ready` is when its data arrived, `wasted` the seconds that it computed on
        mini-batches that were dropped, and `ring_bytes` the bytes that it sent in rings.
        """
        going = np.flatnonzero(~np.isnan(self._since))
        rows = [*self._log, *((chunk, since, np.inf) for chunk, since in zip(
            going.tolist(), self._since[going].tolist(), strict=True))]
        chunk = np.array([row[0] for row in rows], np.int64)
        start, end = (np.array([row[k] for row in rows], np.float64) for k in (1, 2))
        computed = np.repeat(self._setting.p1, self._setting.chunks) + wasted
        exchange = np.bincount(chunk, end - start, len(computed)) - computed
        return TransportLog(chunk, start, end, ready, self._finish, self._preemptions,
                            self._held.assigned(self._stopped()), exchange, ring_bytes)
