"""The fabric transport, in which uploads and exchanges contend for shared links."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappush
from typing import ClassVar

import numpy as np
import simpy

from netsim.allocators import make_allocator
from netsim.edge import kernels
from netsim.edge.on_fabric.limits import RateCappedAllocator
from netsim.edge.on_fabric.network import PerFlowCapNetwork
from netsim.edge.on_fabric.traffic import LIMITS, Callbacks, EdgeTraffic
from netsim.edge.on_fabric.training import check_mode, make_training
from netsim.edge.on_fabric.workers import Workers
from netsim.edge.queues import Queues
from netsim.edge.schedule import ChunkPlacement, TransportLog
from netsim.edge.setting import CLOUD, EdgeSetting, Floats, Ints, with_room
from netsim.edge.transport import LinkSettings
from netsim.errors import StalledError
from netsim.fabric.allocator import Allocator
from netsim.fabric.clock import Clock
from netsim.fabric.coflow_event import CoflowEvent
from netsim.fabric.fabric_process import FabricProcess
from netsim.plain import plain_numbers
from netsim.workload import Flows

__all__ = ["FabricTraining", "FabricTransport"]

#: SimPy priorities after those of all other events of an instant, including the fabric's decisions:
#: first the run stops so that jobs can arrive, then the chunks to train next are chosen.
_STOP, _CHOOSE = 4, 5


@plain_numbers
@dataclass(frozen=True)
class FabricTransport:
    """Uploads and exchanges are flows over the links of an edge-cloud, under an allocator.

    The upload of a chunk is a flow of its bytes from the site of its job. The upload delay of the
    job limits its rate, and the chunk is ready when its own flow has ended. The uploads of a job
    are one coflow. A worker pushes gradients to the PS of the job and pulls parameters from it,
    each at most at the job's bandwidth. Schedulers still use estimates: the upload delays of the
    jobs, and the remaining mini-batches at the jobs' own speed.

    Parameters
    ----------
    mode : {"fluid", "exact", "sync"}
        ``"exact"``: each mini-batch is computed, pushed, updated and pulled, where push and pull
        are coflows of one flow. ``"sync"``: the chunks of a job that are in training push in one
        coflow, for which the update waits, and pull in one coflow. ``"fluid"``: both flows of a
        chunk exist while it trains, and their rates determine the duration of a mini-batch; this
        takes a few events per chunk rather than per mini-batch.
    preemption : {"finish", "drop", "pause"}, optional
        What a chunk that is displaced does with its mini-batch: finish it first (the default
        except in ``"fluid"``), repeat it later, or resume it later (always so in ``"fluid"``).

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


class FabricTraining:
    """The transport of `FabricTransport` in one run.

    Parameters
    ----------
    setting : EdgeSetting
    sharing : LinkSettings
        The allocator, and changes of capacities.
    mode, preemption : str, str or None
        As for `FabricTransport`.

    Attributes
    ----------
    queues : Queues
    env : Clock
    fabric : FabricProcess
    steps : int
        Number of SimPy events processed so far.

    Raises
    ------
    InputError
        If the site of a job does not exist, or the allocator cannot be used here.
    """

    def __init__(self, setting: EdgeSetting, sharing: LinkSettings, mode: str,
                 preemption: str | None) -> None:
        setting.check_sites()
        self._setting, self.queues = setting, Queues(setting)
        self.env = Clock(0.0)
        network = PerFlowCapNetwork(setting.system.network, LIMITS * setting.total)
        self._network, self._sharing = network, sharing
        self._traffic = EdgeTraffic(setting, self.env, network, Callbacks(
            self._ended, self._stopped, self._schedule_choice))
        self._training = make_training(self._traffic, mode, preemption)
        self._workers = Workers(setting, self.queues, self._training)
        self.fabric = self._make_fabric(sharing, network)
        self._ready = np.full(setting.total, np.nan)
        self._uploading = np.zeros(setting.total, np.bool_)
        self._choosing = False
        self._arrival, self._since = math.inf, 0.0
        self._stop: simpy.Event | None = None
        self._among = False
        self.steps = 0

    def _capped(self, allocator: Allocator) -> RateCappedAllocator:
        return RateCappedAllocator(allocator, self._use, self._network.first, self._sharing.check)

    def _make_fabric(self, sharing: LinkSettings, network: PerFlowCapNetwork) -> FabricProcess:
        asked = self._capped(make_allocator(sharing.allocator))
        fabric = FabricProcess(self.env, network, asked, self._setting.arrival,
                        observe_interval=sharing.observe_interval, check=sharing.check,
                        observer=sharing.observer)
        self._traffic.fabric = fabric
        for at, link, capacity in sharing.events:
            self._traffic.after(at, fabric.set_capacity, link, capacity)
            if sharing.observer is not None:
                self._traffic.after(at, sharing.observer.set_capacity, link, capacity)
        return fabric

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
        """Stop at an instant, after all its events but the choice of the chunks to train next.

        The instant is `since` and some seconds, as SimPy has it for what is scheduled then.
        """
        self._stop = simpy.Event(self.env)
        self._stop._ok, self._stop._value = True, None
        at = max(since + max(until - since, 0.0), self.env.now)
        heappush(self.env._queue, (at, _STOP, next(self.env._eid), self._stop))  # type: ignore[misc]

    def _forget(self, event: simpy.Event) -> None:
        """Take an event from the queue, as `_choose` looks for what comes next."""
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
                               if at <= soon and priority < _CHOOSE), default=self._arrival),
                          self.env.now)
            return False
        self._stop, self._among = None, False
        return True

    def advance(self, now: float, workers: Ints) -> None:
        """See `Transport.advance`."""
        self._workers.update_estimates(workers)
        self.queues.clock[workers] = now

    def hold(self, now: float) -> None:
        """Set the clock to `now`, in seconds; no earlier event is left."""
        self.env._now = max(now, self.env.now)

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
        spec, traffic = self._setting.jobs[job], self._traffic
        sent = (delay > 0) & (spec.chunk_bytes > 0)
        for chunk in chunks[~sent].tolist():
            traffic.after(float(delay[chunk - chunks[0]]), self._data_ready, chunk)
        if not sent.any():
            return
        traffic.set_uploads(chunks, np.divide(
            spec.chunk_bytes, delay, out=np.ones(len(chunks)), where=sent))
        system = self._setting.system
        flows = Flows(np.full(len(chunks), system.site_host(spec.site)),
                      system.host_of(server), np.where(sent, spec.chunk_bytes, 0.0))
        self._uploading[chunks[sent]] = True
        demand = traffic.demand(flows, LIMITS * chunks)
        traffic.send(job, 0, demand, partial(self._uploaded, chunks))

    def _uploaded(self, chunks: Ints, _: CoflowEvent) -> None:
        for chunk in chunks[self._uploading[chunks]].tolist():
            self._data_ready(chunk)

    def ended(self, job: int) -> float:
        """See `Transport.ended`."""
        return self._workers.ended(job)

    # --- events ------------------------------------------------------------------------

    def _use(self, limit: Ints, rates: Floats) -> Floats:
        """Mark chunks ready whose upload has ended; return the rates that flows use."""
        gone = self._uploading.copy()
        chunks, which = np.divmod(limit, LIMITS)
        gone[chunks[which == 0]] = False
        for chunk in np.flatnonzero(gone).tolist():
            self._data_ready(chunk)
        return self._training.use(limit, rates)

    def _data_ready(self, chunk: int) -> None:
        """Record that the data of a chunk has arrived where it will be trained."""
        self._uploading[chunk] = False
        self._ready[chunk] = self.env.now
        self._workers.ready(chunk, self.env.now)
        self._schedule_choice()

    def _ended(self, chunk: int) -> None:
        self._workers.end(chunk, self.env.now)
        self._schedule_choice()

    def _stopped(self, chunk: int) -> None:
        self._workers.stop(chunk, self.env.now)
        self._schedule_choice()

    def _schedule_choice(self) -> None:
        """Schedule the choice of the chunks to train next, after all events of this instant."""
        if not self._choosing:
            self._choosing = True
            self._schedule_choice_at(self.env.now)

    def _schedule_choice_at(self, at: float) -> None:
        event = simpy.Event(self.env)
        event._ok, event._value = True, None
        event.callbacks.append(self._choose)
        self.env.schedule(event, _CHOOSE, at - self.env.now)  # type: ignore[arg-type]

    def _choose(self, _: simpy.Event) -> None:
        now = self.env.now
        # Events that differ by rounding errors only belong to the same instant.
        if (upcoming := self.env.peek()) <= now * (1 + 3 * kernels.ROUNDING):
            self._schedule_choice_at(upcoming)
            return
        self._choosing = False
        for chunk, host, ps in self._workers.choose(now):
            if ps is None:
                seconds = float(self._setting.p1[self._traffic.job_of[chunk]])
                self._traffic.after(seconds, self._ended, chunk)
            else:
                self._training.begin(chunk, host, ps)
        self._training.go()

    # --- changes -------------------------------------------------------------------------

    def set_capacity(self, link: int, capacity: float) -> None:
        """Change the capacity of a link of the network now, in bytes per second."""
        self.fabric.set_capacity(link, capacity)
        if self._sharing.observer is not None:
            self._sharing.observer.set_capacity(link, capacity)

    def set_allocator(self, allocator: Allocator) -> None:
        """Replace the allocator from now on."""
        self.fabric.set_allocator(self._capped(allocator))

    # --- what has happened ---------------------------------------------------------------

    def times(self) -> tuple[Floats, Floats]:
        """See `Transport.times`."""
        return self._workers.times()

    def log(self) -> TransportLog:
        """See `Transport.log`."""
        return self._workers.log(self._ready, self._traffic.wasted)

    def make_room(self, place: int) -> None:
        """See `Transport.make_room`."""
        setting = self._setting
        where = setting.chunks_of(place)
        self.queues.make_room(setting, place)
        self.fabric.table.insert_job(place, float(setting.arrival[place]))
        self._traffic.make_room(place)
        self._workers.make_room(place)
        self._ready = with_room(self._ready, where, np.nan)
        self._uploading = with_room(self._uploading, where, False)

    def stalled(self) -> StalledError:
        """See `Transport.stalled`."""
        pending = sorted({self._setting.jobs[job].id for job, _, _ in self.fabric.pending()})
        return StalledError(
            f"stalled at t = {self.fabric.decided_s:g} s: allocator "
            f"{self.fabric.allocator.title} gives no bandwidth to the flows of jobs "
            f"{', '.join(map(str, pending[:5]))}, and no other event is pending")
