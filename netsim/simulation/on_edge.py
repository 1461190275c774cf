"""A run on an edge-cloud: a scheduler assigns workers to chunks or jobs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from netsim.allocators import ALLOCATORS, make_allocator
from netsim.base.arrays import Floats, Ints
from netsim.base.lazy import pd, simpy
from netsim.base.values import as_list
from netsim.edge import EdgeWorkload
from netsim.edge.edge_cloud import EdgeJob
from netsim.edge.on_fabric.links import EdgeLinks, LinkSettings
from netsim.edge.parameter_servers import assign_ps
from netsim.edge.registry import TRANSPORTS, TransportKind
from netsim.edge.schedule import PSAssignments, Schedule, peaks
from netsim.edge.setting import CLOUD, EdgeSetting
from netsim.edge.stepped_run import AtOnce, ChunkRun, SteppedRun
from netsim.edge.whole_jobs import WholeJobs
from netsim.engine.preemption import Preemption
from netsim.errors import InputError, StalledError
from netsim.fabric.allocator import Allocator
from netsim.fabric.clock import Clock
from netsim.fabric.fabric_process import FabricProcess
from netsim.fabric.flow_table import FlowTable
from netsim.results.lazy_table import FrameColumns
from netsim.results.link_recorder import LinkRecorder
from netsim.schedulers.registry import SCHEDULERS, schedules
from netsim.simulation.compatibility import problems_of_edge
from netsim.simulation.events import FaultEvent, RunEvent, capacities_of
from netsim.simulation.listeners import EdgeListeners
from netsim.simulation.run import ARRIVED_ALREADY, Run, jobs_table, leftover_of


class OnEdge(Run):
    """A run of jobs on an edge-cloud.

    A step is an event of the scheduler or of the transport, such as an arrival. The setting has
    been checked against the needs of the policies, and its jobs are those of the workload.
    `sharing` is used by transports with links.
    """

    def __init__(self, setting: EdgeSetting, workload: EdgeWorkload, scheduler: Any,
                 kind: TransportKind, sharing: LinkSettings, recorder: LinkRecorder,
                 preemption: Preemption | None = None) -> None:
        self._preemption = preemption
        self._setting, self.workload, self._scheduler = setting, workload, scheduler
        self._kind, self._sharing, self.recorder = kind, sharing, recorder
        self._system, self.seed = setting.system, setting.seed
        self.network = setting.system.network
        self._now, self._held_at = 0.0, math.inf
        self._ended = self._stepped = False
        self._links: EdgeLinks | None = None  # of a run over links that has begun
        self._begun: SteppedRun | None = None
        self._listeners: EdgeListeners | None = None

    @property
    def total(self) -> int:
        return len(self._setting.jobs)

    @property
    def done(self) -> int:
        return self.total if self._ended else self._run.arrived

    @property
    def ended(self) -> bool:
        return self._ended

    @property
    def now(self) -> float:
        return self._now

    @property
    def _run(self) -> SteppedRun:
        """The run, which begins when it is first needed."""
        self.begin()
        assert self._begun is not None
        return self._begun

    def _make_run(self) -> SteppedRun:
        what = schedules(self._scheduler)
        if what == "chunks":
            transport = self._kind.begin(self._setting, self._sharing)
            self._links = transport.links if self._kind.shares_links else None
            return ChunkRun(self._setting, self._scheduler.dispatcher(self._setting), transport)
        name = SCHEDULERS.to_dict(self._scheduler)["name"]
        if what == "jobs":
            backend = self._kind.backend(  # type: ignore[attr-defined]
                self._setting, self._sharing)
            self._links = backend.links if self._kind.shares_links else None
            return WholeJobs(self._setting, self._scheduler, name, backend, self._preemption)
        found = self._scheduler.run(self._setting)
        if isinstance(found, Schedule):
            return AtOnce(found, name)
        run: SteppedRun = found
        return run

    # --- the clock -------------------------------------------------------------------------

    def begin(self) -> None:
        if self._begun is None:
            self._begun = self._make_run()

    def hold_at(self, limit: float) -> None:
        self._held_at = limit

    def next_at(self) -> float:
        """Return when the next event, notification of listeners, or hold is, in seconds."""
        if self._ended:
            return math.inf
        at = min(self._run.next_at(), self._held_at)
        if self._run.over:
            at = min(at, self._end())
        if self._listeners is not None:
            at = min(at, self._listeners.next_at(self._run.times()))
        return at

    def _end(self) -> float:
        """Return when the last job ends."""
        return float(self._run.times()[1].max())

    def step(self) -> None:
        at, self._stepped = self.next_at(), True
        if at < math.inf:  # else the run raises
            self._now = max(self._now, at)
        if self._run.next_at() <= at:
            self._run.step()
        else:
            self._ended = self._run.over and self._end() <= at
            if self._held_at <= at:
                self._held_at = math.inf
        self._notify()

    def _notify(self) -> None:
        """Notify listeners of what has happened."""
        if self._listeners is not None:
            self._listeners.notify(self._now, self._run.times())

    def stalled(self) -> StalledError:
        return self._run.stalled()

    def stopped(self) -> OnEdge:
        if not self.recorder.watches_fabric:
            return self  # as reading the other tables changes nothing
        made = super().stopped()
        made._fabric.advance_to_now()
        return made

    @property
    def arrival_s(self) -> Floats:  # type: ignore[override]
        return self._setting.arrival

    def finish_s(self) -> Floats:
        return self._run.schedule(self._now).finish

    # --- the instant -----------------------------------------------------------------------

    def jobs_now(self) -> pd.DataFrame:
        """Tabulate all jobs, also with the chunks that have ended and the seconds of training."""
        return self._tables().jobs_now(self._now)

    def _look(self) -> tuple[FlowTable, Ints, list[str]]:
        """Return the coflows: the uploads of a job, or an exchange of gradients."""
        table, coflows = self._fabric.look()
        names = ["exchange" if coflow is not None and coflow.order else "upload"
                 for coflow in coflows]
        return table, table.coflows["key"].astype(np.int64), names

    @property
    def job_ids(self) -> Ints:
        return np.array([job.id for job in self._setting.jobs], np.int64)

    @property
    def env(self) -> Clock:  # type: ignore[override]
        """The SimPy environment of a transport with links, at the time of the run."""
        if not self._kind.shares_links:
            raise InputError(
                f"a run with transport {self._transport!r} has no SimPy environment, as it goes "
                "from arrival to arrival; with 'fabric' it has one")
        return self._links_now().env

    @property
    def _transport(self) -> str:
        """The name of the transport."""
        name: str = TRANSPORTS.to_dict(self._kind)["name"]
        return name

    @property
    def _fabric(self) -> FabricProcess:
        """The fabric of the transport, with its clock up to date; its flows cross further links."""
        return self._links_now().fabric

    def _links_now(self) -> EdgeLinks:
        """The links of the transport, with their clock at the time of the run."""
        if not self._kind.shares_links:
            raise InputError(
                f"there are no links and no allocator with transport {self._transport!r}, where "
                "delays and rates are constant; with 'fabric' there are some")
        self.begin()
        assert self._links is not None
        self._links.hold(self._now)
        return self._links

    # --- changes ---------------------------------------------------------------------------

    def submit(self, job: EdgeJob) -> None:
        if not isinstance(job, EdgeJob):
            raise InputError(f"job must be an EdgeJob, not {job!r}")
        self._refuse_late(job)
        setting = self._setting
        EdgeWorkload((*setting.jobs, job), self.workload.name).check_on(self._system)
        alone = EdgeSetting(self._system, [job], self.seed, setting.epsilon)
        for key, problem in problems_of_edge(alone, self._scheduler, self._kind,
                                           self._sharing.allocator):
            raise InputError(problem, key)
        if self._begun is not None:
            if setting.place_of(job) < self._begun.arrived:
                raise InputError(f"job {job.id} {ARRIVED_ALREADY}")
            self._begun.check_open()
        place = setting.insert(job)
        if self._begun is not None:
            self._begun.submit(place)
        if self._listeners is not None:
            self._listeners.make_room(place)
        self._ended = False

    def change(self, event: FaultEvent) -> None:
        if event.restart:
            raise InputError("restart is for hosts of a network and servers of a cluster")
        links = self._links_now()
        for _, link, capacity in capacities_of([event], self.network):
            links.set_capacity(link, capacity)
        self._notify()

    @property
    def allocator(self) -> Allocator:
        found: Allocator = self._fabric.allocator.inner  # type: ignore[attr-defined]
        return found

    def _take_over(self, fabric: FabricProcess, allocator: Allocator) -> None:
        for key, problem in problems_of_edge(self._setting, self._scheduler, self._kind, allocator):
            raise InputError(problem, key)
        self._links_now().set_allocator(allocator)
        self._sharing = self._sharing._replace(allocator=allocator)

    # --- to listen -------------------------------------------------------------------------

    def listen(self, listener: Callable[[RunEvent], None] | None) -> None:
        if listener is None:
            self._listeners = None
            return
        if self._listeners is not None:
            self._listeners.listener = listener
            return
        fabric = self._fabric if self._kind.shares_links else None
        self._listeners = EdgeListeners(
            listener, self._setting, self._now if self._stepped else -math.inf, self._run.arrived,
            self._run.times(), fabric, self.network.links)

    # --- records ---------------------------------------------------------------------------

    def _tables(self) -> _Tables:
        schedule = self._run.schedule(math.inf if self._ended else self._now)
        held = schedule.held or assign_ps(self._setting, schedule)
        return _Tables(self._setting, schedule, held, self._now)

    def identity(self) -> dict[str, Any]:
        transport, links = TRANSPORTS.to_dict(self._kind), self._links
        return {
            "workload": self.workload.name, "network": self._system.name,
            "allocator": ({"name": transport["name"]} if links is None
                          else ALLOCATORS.to_dict(make_allocator(self._sharing.allocator))),
            "sharing": {} if links is None else leftover_of(links.fabric),
            "scheduler": SCHEDULERS.to_dict(self._scheduler), "placement": None,
            "execution": {**transport, "name": "edge", "transport": transport["name"],
                          "epsilon": float(self._setting.epsilon)},
            **({} if self._preemption is None else {"preemption": asdict(self._preemption)}),
            "workers": self._system.total,
            "observe_interval": (self._sharing if links is None
                                 else links.fabric).observe_interval}

    def cost(self) -> dict[str, Any]:
        links = self._links
        return {"decisions": 0 if links is None else links.fabric.decisions,
                "simpy_events": 0 if links is None else links.steps,
                "counts": self._tables().counts()}

    def tables(self) -> dict[str, Any]:
        recorder, found, links = self.recorder, self._tables(), self.network.link_names
        recorder.pack()
        return {name: recorder.table(name, links) for name in ("links", "decisions")} | {
            "jobs": found.jobs(), "chunks": found.chunks(), "training": found.training(),
            "held": found.held(), "workers": found.workers(), "servers": found.servers(),
            "ps": found.ps()}

    # --- forks -----------------------------------------------------------------------------

    def shared(self) -> list[Any]:
        # SimPy recognizes pending events by the identity of PENDING.
        begun = [] if self._begun is None else self._begun.shared()
        return [self._system, self._system.network, self.workload, self._setting.jobs,
                simpy.events.PENDING, *begun]

    def policies(self) -> dict[str, Any]:
        return {"scheduler": self._scheduler} | (
            {"allocator": self.allocator} if self._kind.shares_links else {})


def as_edge_workload(given: EdgeWorkload | Sequence[EdgeJob]) -> EdgeWorkload:
    """Convert a sequence of jobs to a workload; a workload is returned unchanged."""
    if isinstance(given, EdgeWorkload):
        return given
    return EdgeWorkload(as_list(given, "the workload of an edge-cloud", EdgeJob, "EdgeJob"))


class _Tables:
    """Builder of the result tables of a run on an edge-cloud."""

    def __init__(self, setting: EdgeSetting, schedule: Schedule, held: PSAssignments, now: float
                 ) -> None:
        self._setting, self._schedule, self._held = setting, schedule, held
        self._ids = np.array([job.id for job in setting.jobs], np.int64)
        last = float(schedule.finish.max())
        self._time = (now if math.isnan(last) else last) - float(setting.arrival.min())
        training = schedule.training
        self._trained = np.minimum(training.end, now) - training.start
        edge = training.worker != CLOUD
        self._busy = np.bincount(training.worker[edge], self._trained[edge],
                                 setting.system.total).astype(np.float64)

    def _utilisation(self, busy: Any, workers: Any) -> Any:
        """Return shares of the time from the first arrival to the last end, or until now."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return busy / (workers * self._time) if self._time > 0 else busy * np.nan

    def counts(self) -> dict[str, float]:
        """Return the entries of the summary that only runs on an edge-cloud have."""
        schedule, total = self._schedule, self._setting.system.total
        return {
            "preemptions": int(schedule.preemptions.sum()),
            "utilisation": float(self._utilisation(self._busy.sum(), total)) if total else 0.0,
            "communication_s": float(schedule.communication.sum()),
            "chunks": self._setting.total, "cloud_chunks": int(schedule.cloud_chunks.sum()),
            "ps_shortages": self._held.shortages, **self._errors(), **schedule.counts}

    def _errors(self) -> dict[str, float]:
        """Return geometric means, over chunks, of the ratios of `_estimates`."""
        if self._schedule.chunks is None:
            return {}
        known = {name: values[values > 0] for name, values in self._estimates().items()}
        return {f"{name}_mean": float(np.exp(np.log(values).mean())) if len(values) else 1.0
                for name, values in known.items()}

    def jobs(self) -> FrameColumns:
        setting, schedule, specs = self._setting, self._schedule, self._setting.jobs
        at_edge = schedule.cloud_chunks < setting.chunks
        exchanged = np.array([job.exchange_bytes(job.chunks) * job.batches for job in specs])
        uploaded = np.array([job.chunk_bytes for job in specs])
        return jobs_table(
            specs, arrival_s=setting.arrival, start_s=schedule.start, finish_s=schedule.finish,
            iterations=[job.batches for job in specs], ranks=[job.workers for job in specs],
            coflows=np.zeros(len(specs), np.int64),
            nbytes=self._bytes(uploaded, np.where(at_edge, exchanged, 0.0)),
            lower_bound_s=self._lower_bounds(), queue_s=schedule.start - setting.arrival,
            type=[str(job.worker_type) for job in specs], chunks=setting.chunks,
            cloud_chunks=schedule.cloud_chunks, zeta=(~at_edge).astype(np.int64),
            uploaded_s=self._uploaded(), preemptions=schedule.preemptions,
            communication_s=schedule.communication, **schedule.accounts)

    def jobs_now(self, now: float) -> pd.DataFrame:
        """Return the table of jobs with their states."""
        schedule, training = self._schedule, self._schedule.training
        jobs, count = self.jobs().frame(), len(self._setting.jobs)
        state = np.select([jobs["finish_s"].notna(), jobs["start_s"].notna(),
                           jobs["arrival_s"] <= now], ["done", "running", "waiting"], "to come")
        jobs.insert(2, "state", state)
        ended = (np.where(jobs["finish_s"].notna(), self._setting.chunks, 0)
                 if schedule.chunks is None else np.bincount(
                     self._job_of_chunks()[~np.isnan(schedule.chunks.finish)], minlength=count))
        return jobs.assign(chunks_done=ended, trained_s=np.bincount(
            training.job, self._trained, count).astype(np.float64))

    def _bytes(self, uploaded: Floats, exchanged: Floats) -> Floats:
        """Return the bytes that each job has sent: chunks count when uploaded, and when they end.

        `uploaded` and `exchanged` are the bytes of a chunk of each job, if its ring has all chunks.
        """
        setting, chunks, sent = self._setting, self._schedule.chunks, self._schedule.ring_bytes
        whole = setting.chunks * (uploaded + exchanged)
        if chunks is None:
            there = ended = np.where(np.isnan(self._schedule.finish), 0, setting.chunks)
        else:
            job = self._job_of_chunks()
            there, ended = (np.bincount(job[~np.isnan(each)], minlength=len(whole))
                            for each in (chunks.ready, chunks.finish))
        found = np.where(ended == setting.chunks, whole, there * uploaded + ended * exchanged)
        if sent is None:
            return found
        return np.where(setting.ring, there * uploaded + np.where(ended > 0, sent, 0.0), found)

    def _job_of_chunks(self) -> Ints:
        """Return the job of each chunk that was dispatched."""
        chunks = self._schedule.chunks
        assert chunks is not None
        return self._setting.job_of[:len(chunks.worker)]

    def _uploaded(self) -> Floats:
        """Return the time until the data of each job arrived, in seconds; NaN for whole jobs."""
        setting, chunks = self._setting, self._schedule.chunks
        found = np.full(len(setting.jobs), np.nan)
        if chunks is not None:
            bounds = setting.first[:-1][setting.first[1:] <= len(chunks.ready)]
            found[:len(bounds)] = np.maximum.reduceat(chunks.ready, bounds)
        return found - setting.arrival

    def _lower_bounds(self) -> Floats:
        """Return the shortest time that a chunk of each job can take, on an idle system.

        A chunk that is alone in its ring exchanges nothing.
        """
        setting, system = self._setting, self._setting.system
        found = setting.cloud_delay + setting.p1 if system.cloud else np.full(
            len(setting.jobs), np.inf)
        for job, workers in enumerate(setting.workers_of):
            nearest = setting.delays[job, system.server_of[workers]].min(initial=np.inf)
            found[job] = min(found[job], nearest + (setting.p1 if setting.ring[job]
                                                    else setting.p0)[job])
        return found

    def _where(self, workers: Ints) -> dict[str, Ints]:
        """Return the servers of workers, and their numbers there."""
        system, edge = self._setting.system, workers != CLOUD
        server, number = np.full(len(workers), CLOUD), np.full(len(workers), CLOUD)
        server[edge] = system.server_of[workers[edge]]
        number[edge] = workers[edge] - system.first[server[edge]]
        return {"server": server, "worker": number}

    def chunks(self) -> pd.DataFrame | None:
        setting, chunks = self._setting, self._schedule.chunks
        if chunks is None:
            return None
        job = self._job_of_chunks()
        return pd.DataFrame({
            "job": self._ids[job], "chunk": np.arange(len(job)) - setting.first[job],
            **self._where(chunks.worker), "dispatch_s": setting.arrival[job],
            "ready_s": chunks.ready, "start_s": chunks.start, "finish_s": chunks.finish,
            "preemptions": chunks.preemptions, "alpha_s": chunks.alpha, "t_star_s": chunks.t_star,
            **self._estimates()})

    def _estimates(self) -> dict[str, Floats]:
        """Return the ratios of actual to nominal delays and rates of each chunk, where known."""
        setting, schedule, chunks = self._setting, self._schedule, self._schedule.chunks
        assert chunks is not None
        job = self._job_of_chunks()
        zeta = (schedule.cloud_chunks == setting.chunks)[job]
        said = setting.cloud_delay[job]
        edge = chunks.worker != CLOUD
        said[edge] = setting.delays[job[edge], setting.system.server_of[chunks.worker[edge]]]
        training = schedule.training
        trained = np.where(np.isnan(chunks.finish), np.nan, np.bincount(
            setting.first[training.job] + training.chunk, self._trained, len(job)))
        takes = np.where(zeta, setting.p1[job], setting.p0[job])
        with np.errstate(invalid="ignore", divide="ignore"):
            delay = np.where(said > 0, (chunks.ready - setting.arrival[job]) / said, np.nan)
            # Rounding of instants may leave no time for a short training.
            rate = np.where(trained > 0, takes / trained, np.nan)
        return {"delay_ratio": delay, "rate_ratio": rate}

    def training(self) -> pd.DataFrame:
        training = self._schedule.training
        return pd.DataFrame({
            "job": self._ids[training.job], "chunk": training.chunk,
            **self._where(training.worker), "start_s": training.start,
            "end_s": _ends(training.end)})

    def held(self) -> pd.DataFrame | None:
        held = self._schedule.holdings
        if held is None:
            return None
        return pd.DataFrame({
            "job": self._ids[held.job], **self._where(held.worker), "start_s": held.got,
            "data_s": held.there, "run_s": held.run, "stop_s": held.stop, "end_s": held.free,
            "reason": held.reason})

    def workers(self) -> pd.DataFrame:
        system, schedule = self._setting.system, self._schedule
        training, chunks = schedule.training, schedule.chunks
        edge = training.worker != CLOUD
        pairs = np.unique(np.stack([training.worker[edge], training.job[edge]]), axis=1)
        preemptions = np.full(system.total, np.nan)
        if chunks is not None:
            placed = chunks.worker != CLOUD
            preemptions = np.bincount(chunks.worker[placed], chunks.preemptions[placed],
                                      system.total)
        return pd.DataFrame({
            **self._where(np.arange(system.total)),
            "type": [str(system.types[kind]) for kind in system.type_of],
            "busy_s": self._busy, "utilisation": self._utilisation(self._busy, 1),
            "jobs": np.bincount(pairs[0], minlength=system.total), "preemptions": preemptions})

    def servers(self) -> pd.DataFrame:
        system = self._setting.system
        workers = np.diff(system.first)
        busy = np.bincount(system.server_of, self._busy, system.servers)
        return pd.DataFrame({
            "server": np.arange(system.servers), "workers": workers,
            "ps": [len(each) for each in system.ps_types], "busy_s": busy,
            "utilisation": self._utilisation(busy, workers), "storage_bytes": system.capacity,
            "peak_bytes": peaks(self._setting, self._schedule)})

    def ps(self) -> pd.DataFrame:
        held = self._held
        return pd.DataFrame({"job": self._ids[held.job], "server": held.server, "ps": held.ps,
                             "start_s": held.start, "end_s": _ends(held.end)})


def _ends(end: Floats) -> Floats:
    """Return ends of intervals, with NaN for those that have not ended."""
    return np.where(np.isinf(end), np.nan, end)
