"""The fabric transport, in which uploads and exchanges contend for links, and its workers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappush
from typing import ClassVar

import numpy as np

from netsim.base.lazy import simpy
from netsim.base.values import Rows, as_choice, convert, known_names, optional
from netsim.edge import kernels
from netsim.edge.on_fabric.ground import FabricGround
from netsim.edge.on_fabric.links import EdgeLinks
from netsim.edge.on_fabric.training import MODES, PREEMPTIONS, Training
from netsim.edge.schedule import ChunkPlacement, Queues, TransportLog
from netsim.edge.servers import HeldServers
from netsim.edge.setting import CLOUD, EdgeSetting, Floats, Ints, with_room
from netsim.edge.transport import LinkSettings
from netsim.errors import InputError
from netsim.fabric.clock import LAST

# --- workers -------------------------------------------------------------------------------

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


# --- the transport -------------------------------------------------------------------------

#: The SimPy priority at which the run stops so that jobs can arrive: after all other events of an
#: instant, the fabric's decisions included, but before the chunks to train next are chosen.
_STOP = LAST - 1


@known_names
@dataclass(frozen=True)
class FabricTransport:
    """Uploads and exchanges are flows over the links of an edge-cloud, under an allocator.

    The upload of a chunk is a flow of its bytes from the site of its job. Its rate is limited so
    that it takes at least the upload delay of the job. A chunk is ready when its own flow has
    ended, although all uploads of a job are one coflow. A worker pushes gradients to the parameter
    server (PS) of the job and pulls parameters from it, each at most at the job's bandwidth.
    Schedulers still use estimates: the upload delays that jobs declare, and the time that the
    remaining mini-batches take at the declared bandwidth.

    With rings instead of PSs, those chunks of a job that are in training form the ring. It goes
    from server to server and enters each once. Each worker sends to the next the bytes of an
    all-reduce among these workers, at most at the job's bandwidth. Chunks join and leave between
    two mini-batches, in ``"fluid"`` at any time. A chunk that trains alone exchanges nothing.

    Parameters
    ----------
    mode : {"fluid", "exact", "sync"}
        ``"exact"``: each mini-batch is computed, pushed, updated and pulled, where push and pull
        are coflows of one flow. ``"sync"``: the chunks of a job that are in training push in one
        coflow, the update begins when it has arrived, and they pull in one coflow. With rings,
        ``"exact"`` and ``"sync"`` are the same: all chunks compute, the all-reduce is one coflow,
        and then all make the update. ``"fluid"``: a chunk pushes and pulls continuously while it
        trains, and the rates of these two flows determine the duration of a mini-batch; this takes
        a few events per chunk rather than per mini-batch.
    preemption : {"finish", "drop", "pause"}, optional
        What a displaced chunk does with its current mini-batch. ``"finish"``: finish it first (the
        default in the modes ``"exact"`` and ``"sync"``). ``"drop"``: stop at once, and repeat it
        later. ``"pause"``: stop at once, and resume it later (the only choice in ``"fluid"``).
        Outside of ``"fluid"``, jobs with rings support only ``"finish"``.

    Raises
    ------
    InputError
        If the mode or `preemption` is invalid.
    """

    shares_links: ClassVar[bool] = True

    mode: str = "fluid"
    preemption: str | None = None

    def __post_init__(self) -> None:
        convert(self, mode=partial(as_choice, choices=MODES),
                preemption=optional(partial(as_choice, choices=PREEMPTIONS)))
        if self.mode == "fluid" and self.preemption not in (None, "pause"):
            raise InputError(f"preemption {self.preemption!r} is for mode 'exact'; in mode "
                             "'fluid', a chunk that has to stop always pauses", "preemption")
        if self.mode == "sync" and self.preemption not in (None, "finish"):
            raise InputError(f"preemption {self.preemption!r} is for mode 'exact'; in mode 'sync', "
                             "a chunk always finishes its mini-batch before it stops",
                             "preemption")

    def begin(self, setting: EdgeSetting, sharing: LinkSettings) -> FabricTraining:
        """Make the transport of one run; see `FabricTraining`."""
        return FabricTraining(setting, sharing, self.mode, self.preemption)

    def ground(self, setting: EdgeSetting, sharing: LinkSettings) -> FabricGround:
        """Make the `Ground` of whole jobs for one run; see `FabricGround`."""
        return FabricGround(setting, sharing, self.mode)

    @property
    def needs(self) -> frozenset[str]:
        """What these options need of a run; see `netsim.simulation.compatibility.NEEDS`."""
        alone = self.mode == "exact" and self.preemption in ("drop", "pause")
        return frozenset({"exchanges with a PS"} if alone else ())

    @property
    def why_not_whole(self) -> str | None:
        """Why schedulers of whole jobs do not support these options; None if they do."""
        if self.preemption in (None, "pause"):
            return None
        return (f"preemption {self.preemption!r} is for schedulers of chunks; a whole job always "
                "pauses")


class FabricTraining(EdgeLinks):
    """The transport of `FabricTransport` in one run; see `Transport` and `EdgeLinks`."""

    def __init__(self, setting: EdgeSetting, sharing: LinkSettings, mode: str,
                 preemption: str | None) -> None:
        super().__init__(setting, sharing, mode, preemption)
        self.queues = Queues(setting)
        self._workers = Workers(setting, self.queues, self._training)
        self._ready = np.full(setting.total, np.nan)
        self._arrival, self._since = math.inf, 0.0
        self._stop: simpy.Event | None = None
        self._among = False

    # --- interface to schedulers -------------------------------------------------------

    @property
    def settled(self) -> bool:
        """See `Transport`."""
        return not self._workers.unfinished

    def expect(self, arrival: float) -> None:
        """See `Transport.expect`."""
        if self._stop is not None:
            if arrival == self._arrival:
                return
            self._forget(self._stop)
            self._stop, self._among = None, False
        self._arrival = arrival
        if arrival < math.inf:
            self._stop_at(arrival, self._since)

    def _stop_at(self, until: float, since: float) -> None:
        """Stop at an instant after all its events except the choice of the next chunks.

        The instant is computed as `since` plus a delay, as SimPy does, so that rounding is the
        same.
        """
        self._stop = simpy.Event(self.env)
        self._stop._ok, self._stop._value = True, None
        at = max(since + max(until - since, 0.0), self.env.now)
        heappush(self.env._queue, (at, _STOP, next(self.env._eid), self._stop))  # type: ignore[misc]

    def _forget(self, event: simpy.Event) -> None:
        """Remove an event from the queue, because `_choose` looks for the next event."""
        queue = self.env._queue
        queue[:] = [entry for entry in queue if entry[3] is not event]
        heapify(queue)

    def next_at(self) -> float:
        """See `Transport.next_at`."""
        return math.inf if self._stop is None and self.settled else self.env.peek()

    def step(self) -> bool:
        """See `Transport.step`."""
        self.steps += 1
        self.env.step()
        if self._stop is None or not self._stop.processed:
            return False
        soon = self._arrival * (1 + kernels.ROUNDING)
        if not self._among and self.env.peek() <= soon:
            # To the last of these events and not further, as chunks are dispatched at its instant.
            self._among = True
            self._stop_at(max((at for at, priority, *_ in self.env._queue
                               if at <= soon and priority < LAST), default=self._arrival),
                          self.env.now)
            return False
        self._stop, self._among = None, False
        return True

    def advance(self, now: float, workers: Ints) -> None:
        """See `Transport.advance`."""
        self._workers.update_estimates(workers)
        self.queues.clock[workers] = now

    def dispatch(self, job: int, given: ChunkPlacement) -> None:
        """See `Transport.dispatch`."""
        self._since = self.env.now
        setting, system = self._setting, self._setting.system
        chunks = np.arange(setting.first[job], setting.first[job + 1])
        edge = given.worker != CLOUD
        self._workers.dispatch(job, chunks, given.worker)
        server = np.where(edge, system.server_of[given.worker] if system.total else CLOUD, CLOUD)
        delay = np.where(edge, setting.delays[job, server] if system.servers else 0.0,
                         setting.cloud_delay[job])
        self.queues.insert(chunks[edge], given.worker[edge], setting.arrival[job] + delay[edge],
                           setting.p0[job])
        self._upload(job, chunks, server, delay)

    def _upload(self, job: int, chunks: Ints, server: Ints, delay: Floats) -> None:
        sent = (delay > 0) & (self._setting.jobs[job].chunk_bytes > 0)
        for chunk, wait in zip(chunks[~sent].tolist(), delay[~sent].tolist(), strict=True):
            self._traffic.after(wait, self._data_ready, chunk)
        if sent.any():
            self._uploads.send(job, chunks, server, delay)

    def ended(self, job: int) -> float:
        """See `Transport.ended`."""
        return self._workers.ended(job)

    # --- events ------------------------------------------------------------------------

    def _arrived(self, chunk: int, server: int) -> None:
        self._data_ready(chunk)

    def _data_ready(self, chunk: int) -> None:
        """Record that the data of a chunk has arrived where it will be trained."""
        self._ready[chunk] = self.env.now
        self._workers.ready(chunk, self.env.now)
        self._schedule_choice()

    def _ended(self, chunk: int) -> None:
        self._workers.end(chunk, self.env.now)
        self._schedule_choice()

    def _stopped(self, chunk: int) -> None:
        self._workers.stop(chunk, self.env.now)
        self._schedule_choice()

    def _choose(self, now: float) -> None:
        for chunk, host, ps in self._workers.choose(now):
            if ps is None:
                seconds = float(self._setting.p1[self._traffic.job_of[chunk]])
                self._traffic.after(seconds, self._ended, chunk)
            else:
                self._training.begin(chunk, host, ps)

    # --- what has happened ---------------------------------------------------------------

    def times(self) -> tuple[Floats, Floats]:
        """See `Transport.times`."""
        return self._workers.times()

    def log(self) -> TransportLog:
        """See `Transport.log`."""
        return self._workers.log(self._ready, self._traffic.wasted, self._traffic.ring_bytes)

    def make_room(self, place: int) -> None:
        """See `Transport.make_room`."""
        where = self._setting.chunks_of(place)
        self.queues.make_room(self._setting, place)
        super().make_room(place)
        self._workers.make_room(place)
        self._ready = with_room(self._ready, where, np.nan)
