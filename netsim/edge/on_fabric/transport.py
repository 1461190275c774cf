"""The fabric transport, in which uploads and exchanges contend for shared links."""

from __future__ import annotations

import math
from dataclasses import dataclass
from heapq import heapify, heappush
from typing import ClassVar

import numpy as np

from netsim.edge import kernels
from netsim.edge.on_fabric.ground import FabricGround
from netsim.edge.on_fabric.links import EdgeLinks
from netsim.edge.on_fabric.training import check_mode
from netsim.edge.on_fabric.workers import Workers
from netsim.edge.queues import Queues
from netsim.edge.schedule import ChunkPlacement, TransportLog
from netsim.edge.setting import CLOUD, EdgeSetting, Floats, Ints, with_room
from netsim.edge.transport import LinkSettings
from netsim.fabric.clock import LAST
from netsim.late import simpy
from netsim.plain import plain_numbers

#: The SimPy priority at which the run stops so that jobs can arrive: after all other events of an
#: instant, the fabric's decisions included, but before the chunks to train next are chosen.
_STOP = LAST - 1


@plain_numbers
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
        check_mode(self.mode, self.preemption)

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
