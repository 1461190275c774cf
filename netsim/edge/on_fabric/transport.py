"""The fabric transport, in which uploads and exchanges contend for shared links."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import simpy

from netsim.allocators import make_allocator
from netsim.edge import kernels
from netsim.edge.on_fabric.limits import RateCappedAllocator
from netsim.edge.on_fabric.network import PerFlowCapNetwork
from netsim.edge.on_fabric.traffic import Callbacks, EdgeTraffic
from netsim.edge.on_fabric.training import check_mode, make_training
from netsim.edge.on_fabric.workers import Workers
from netsim.edge.queues import Queues
from netsim.edge.schedule import ChunkPlacement, TransportLog
from netsim.edge.setting import CLOUD, EdgeSetting, Floats, Ints
from netsim.edge.transport import LinkSettings
from netsim.errors import StalledError
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
        self._env = simpy.Environment(0.0)
        network = PerFlowCapNetwork(setting.system.network, 3 * setting.total)
        self._traffic = EdgeTraffic(setting, self._env, network, Callbacks(
            self._ended, self._stopped, self._schedule_choice))
        self._training = make_training(self._traffic, mode, preemption)
        self._workers = Workers(setting, self.queues, self._training)
        self.fabric = self._make_fabric(sharing, network)
        self._ready = np.full(setting.total, np.nan)
        self._uploading = np.zeros(setting.total, np.bool_)
        self._choosing = False
        self.steps = 0

    def _make_fabric(self, sharing: LinkSettings, network: PerFlowCapNetwork) -> FabricProcess:
        inner = make_allocator(sharing.allocator)
        asked = RateCappedAllocator(inner, self._use, network.first, sharing.check)
        fabric = FabricProcess(self._env, network, asked, self._setting.arrival,
                        observe_interval=sharing.observe_interval, check=sharing.check,
                        observer=sharing.observer)
        self._traffic.fabric = fabric
        for at, link, capacity in sharing.events:
            self._traffic.after(at, fabric.set_capacity, link, capacity)
            if sharing.observer is not None:
                self._traffic.after(at, sharing.observer.set_capacity, link, capacity)
        return fabric

    # --- interface to schedulers -------------------------------------------------------

    def advance(self, until: float, workers: Ints) -> None:
        """See `Transport.advance`."""
        self._run(until)
        if self._env.peek() <= (soon := until * (1 + kernels.ROUNDING)):
            # To the last of these events and not further, as chunks are dispatched at its instant.
            self._run(max((at for at, priority, *_ in self._env._queue
                           if at <= soon and priority < _CHOOSE), default=until))
        self._workers.update_estimates(workers)
        self.queues.clock[workers] = until

    def _run(self, until: float) -> None:
        """Process events up to `until`, except for the choice of the chunks to train next."""
        env, stop = self._env, simpy.Event(self._env)
        stop._ok, stop._value = True, None
        env.schedule(stop, _STOP, max(until - env.now, 0.0))  # type: ignore[arg-type]
        while not stop.processed:  # `env.run` would put the event back into the queue
            self._step()

    def _step(self) -> None:
        self.steps += 1
        self._env.step()

    def dispatch(self, job: int, given: ChunkPlacement) -> None:
        """See `Transport.dispatch`."""
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
        traffic.set_uploads(int(chunks[0]), np.divide(
            spec.chunk_bytes, delay, out=np.ones(len(chunks)), where=sent))
        system = self._setting.system
        flows = Flows(np.full(len(chunks), system.site_host(spec.site)),
                      system.host_of(server), np.where(sent, spec.chunk_bytes, 0.0))
        self._uploading[chunks[sent]] = True
        traffic.send(job, 0, traffic.demand(flows, int(chunks[0])), partial(self._uploaded, chunks))

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
        gone[limit[limit < self._setting.total]] = False
        for chunk in np.flatnonzero(gone).tolist():
            self._data_ready(chunk)
        return self._training.use(limit, rates)

    def _data_ready(self, chunk: int) -> None:
        """Record that the data of a chunk has arrived where it will be trained."""
        self._uploading[chunk] = False
        self._ready[chunk] = self._env.now
        self._workers.ready(chunk, self._env.now)
        self._schedule_choice()

    def _ended(self, chunk: int) -> None:
        self._workers.end(chunk, self._env.now)
        self._schedule_choice()

    def _stopped(self, chunk: int) -> None:
        self._workers.stop(chunk, self._env.now)
        self._schedule_choice()

    def _schedule_choice(self) -> None:
        """Schedule the choice of the chunks to train next, after all events of this instant."""
        if not self._choosing:
            self._choosing = True
            self._schedule_choice_at(self._env.now)

    def _schedule_choice_at(self, at: float) -> None:
        event = simpy.Event(self._env)
        event._ok, event._value = True, None
        event.callbacks.append(self._choose)
        self._env.schedule(event, _CHOOSE, at - self._env.now)  # type: ignore[arg-type]

    def _choose(self, _: simpy.Event) -> None:
        now = self._env.now
        # Events that differ by rounding errors only belong to the same instant.
        if (upcoming := self._env.peek()) <= now * (1 + 3 * kernels.ROUNDING):
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

    def finish(self) -> TransportLog:
        """See `Transport.finish`."""
        while self._workers.unfinished:
            try:
                self._step()
            except simpy.core.EmptySchedule:
                raise self._stalled() from None
        return self._workers.log(self._ready, self._traffic.wasted)

    def _stalled(self) -> StalledError:
        pending = sorted({self._setting.jobs[job].id for job, _, _ in self.fabric.pending()})
        return StalledError(
            f"stalled at t = {self.fabric.decided_s:g} s: allocator "
            f"{self.fabric.allocator.title} gives no bandwidth to the flows of jobs "
            f"{', '.join(map(str, pending[:5]))}, and no other event is pending")
