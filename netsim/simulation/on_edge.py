"""The target of a simulation on an edge-cloud: a scheduler assigns workers to chunks or jobs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from netsim.allocators import ALLOCATORS, make_allocator
from netsim.checks import check_sequence
from netsim.edge import EdgeWorkload
from netsim.edge.jobs import EdgeJob
from netsim.edge.registry import TRANSPORTS
from netsim.edge.schedule import PSAssignments, Schedule
from netsim.edge.servers import hold_servers
from netsim.edge.setting import CLOUD, EdgeSetting, Floats, Ints
from netsim.edge.storage import peaks
from netsim.edge.transport import LinkSettings, TransportKind
from netsim.errors import InputError, StalledError
from netsim.recording.link_recorder import LinkRecorder
from netsim.schedulers.a_online import dispatch_jobs
from netsim.schedulers.edge_registry import EDGE_SCHEDULERS
from netsim.simulation.interrupt import so_far
from netsim.simulation.leftover import leftover_of
from netsim.simulation.target import jobs_table

__all__ = ["OnEdge", "as_edge_workload"]


class OnEdge:
    """A `Target` for jobs on an edge-cloud.

    A step dispatches one job; for schedulers of whole jobs, it runs all jobs to their ends.

    Parameters
    ----------
    setting : EdgeSetting
        The system, the jobs and the seed, checked against the needs of the policies.
    workload : EdgeWorkload
        The workload that the jobs come from.
    scheduler : object
        See `netsim.schedulers.edge_registry.make_edge_scheduler`.
    kind : TransportKind
    sharing : LinkSettings
        Used by transports with links.
    recorder : LinkRecorder
        Records what links carry, if that is asked for.
    """

    counts = "jobs"

    def __init__(self, setting: EdgeSetting, workload: EdgeWorkload, scheduler: Any,
                 kind: TransportKind, sharing: LinkSettings, recorder: LinkRecorder) -> None:
        self._setting, self._workload, self._scheduler = setting, workload, scheduler
        self._kind, self._sharing, self._recorder = kind, sharing, recorder
        self._system, self.seed = setting.system, setting.seed
        self.done = 0
        self._schedule: Schedule | None = None
        self._tables: _Tables | None = None
        self._moved: Any = None
        self._steps: Iterator[Schedule | None] = iter(())

    @property
    def total(self) -> int:
        """See `Target`."""
        return len(self._workload)

    @property
    def ended(self) -> bool:
        """See `Target`."""
        return self._schedule is not None

    @property
    def workload_seed(self) -> int:
        """See `Target`."""
        return self._workload.seed

    @property
    def now(self) -> float:
        """See `Target`."""
        return float(self._setting.arrival[self.done - 1]) if self.done else 0.0

    def hold_at(self, limit: float) -> None:
        """See `Target.hold_at`."""
        raise InputError("until: for runs on a network or a cluster; on an edge-cloud jobs run to "
                         "their ends")

    def settle(self) -> None:
        """See `Target.settle`."""

    def begin(self) -> None:
        """See `Target.begin`."""
        if hasattr(self._scheduler, "begin"):
            self._moved = self._kind.begin(self._setting, self._sharing)
            self._steps = dispatch_jobs(self._scheduler, self._setting, self._moved)
        else:
            self._steps = (self._scheduler.run(self._setting) for _ in range(1))

    def next_at(self) -> float:
        """See `Target.next_at`."""
        return float(self._setting.arrival[self.done]) if self.done < self.total else -math.inf

    def step(self) -> None:
        """See `Target.step`."""
        self._schedule = next(self._steps)
        self.done = self.total if self._schedule is not None else self.done + 1

    def stalled(self) -> StalledError:
        """See `Target.stalled`; never called, as transports raise the error themselves."""
        return StalledError("stalled: nothing will happen any more")

    def stop(self) -> None:
        """See `Target.stop`."""
        raise NotImplementedError("jobs on an edge-cloud run to their ends")

    def so_far(self) -> str:
        """See `Target.so_far`."""
        arrival = self._setting.arrival
        now = float(arrival[min(self.done, self.total - 1)])
        ends = np.full(self.total, np.nan)
        if self._moved is not None:
            ends[:self.done] = [self._moved.ended(job) for job in range(self.done)]
        return so_far(now, arrival, np.where(ends <= now, ends, np.nan))

    @property
    def allocator(self) -> Any:
        """See `Target`."""
        raise self._refused()

    @allocator.setter
    def allocator(self, _: Any) -> None:
        raise self._refused()

    @property
    def observe_interval(self) -> Any:
        """See `Target`."""
        raise self._refused()

    @observe_interval.setter
    def observe_interval(self, _: Any) -> None:
        raise self._refused()

    def _refused(self, *_: Any, **__: Any) -> Any:
        raise InputError("jobs on an edge-cloud run to their ends at once")

    stopped = active = flows = links = view = jobs_now = submit = _refused
    set_capacity = fail = repair = listen = shared = policies = _refused

    # --- records ---------------------------------------------------------------------------

    def _finished(self) -> _Tables:
        if self._tables is None:
            schedule = self._schedule
            assert schedule is not None
            held = schedule.held or hold_servers(self._setting, schedule)
            self._tables = _Tables(self._setting, schedule, held)
        return self._tables

    def identity(self) -> dict[str, Any]:
        """See `Target.identity`."""
        moves_by, shares = TRANSPORTS.to_dict(self._kind), self._kind.shares_links
        return {
            "workload": self._workload.name, "network": self._system.name,
            "allocator": (ALLOCATORS.to_dict(make_allocator(self._sharing.allocator)) if shares
                          else {"name": moves_by["name"]}),
            "sharing": leftover_of(self._moved.fabric) if shares else {},
            "scheduler": EDGE_SCHEDULERS.to_dict(self._scheduler), "placement": None,
            "execution": {**moves_by, "name": "edge", "transport": moves_by["name"],
                          "epsilon": float(self._setting.epsilon)},
            "observe_interval": self._sharing.observe_interval}

    def cost(self) -> dict[str, Any]:
        """See `Target.cost`."""
        shares = self._kind.shares_links
        return {"decisions": self._moved.fabric.decisions if shares else self.total,
                "simpy_events": self._moved.steps if shares else 0,
                "counts": self._finished().counts()}

    def tables(self) -> dict[str, Any]:
        """See `Target.tables`."""
        self._recorder.pack()
        found = self._finished()
        names = self._system.network.link_names
        return {name: self._recorder.table(name, names) for name in ("links", "decisions")} | {
            "jobs": found.jobs(), "chunks": found.chunks(), "training": found.training(),
            "workers": found.workers(), "servers": found.servers(), "ps": found.ps()}


def as_edge_workload(given: EdgeWorkload | Sequence[EdgeJob]) -> EdgeWorkload:
    """Convert a sequence of jobs to a workload; a workload is returned unchanged.

    Raises
    ------
    InputError
        If it is neither.
    """
    if isinstance(given, EdgeWorkload):
        return given
    return EdgeWorkload(check_sequence(given, EdgeJob, "the workload of an edge-cloud", "EdgeJob"))


class _Tables:
    """Builder of the result tables of a run on an edge-cloud."""

    def __init__(self, setting: EdgeSetting, schedule: Schedule, held: PSAssignments) -> None:
        self._setting, self._schedule, self._held = setting, schedule, held
        self._ids = np.array([job.id for job in setting.jobs], np.int64)
        makespan = schedule.finish.max() - setting.arrival.min()
        training = schedule.training
        edge = training.worker != CLOUD
        self._busy = np.bincount(training.worker[edge], (training.end - training.start)[edge],
                                 setting.system.total)
        self._makespan = float(makespan)

    def counts(self) -> dict[str, float]:
        """Return the entries of the summary that only runs on an edge-cloud have."""
        schedule, total = self._schedule, self._setting.system.total
        return {
            "preemptions": int(schedule.preemptions.sum()),
            "utilisation": float(self._busy.sum() / (total * self._makespan)) if total else 0.0,
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

    def jobs(self) -> pd.DataFrame:
        setting, schedule, specs = self._setting, self._schedule, self._setting.jobs
        at_edge = schedule.cloud_chunks < setting.chunks
        exchanged = np.array([2.0 * job.gradient_bytes * job.batches for job in specs])
        uploaded = np.array([job.chunk_bytes for job in specs])
        return jobs_table(
            specs, arrival_s=setting.arrival, start_s=schedule.start, finish_s=schedule.finish,
            iterations=[job.batches for job in specs], ranks=[job.workers for job in specs],
            coflows=np.zeros(len(specs), np.int64),
            nbytes=setting.chunks * (uploaded + np.where(at_edge, exchanged, 0.0)),
            lower_bound_s=self._lower_bounds(), queue_s=schedule.start - setting.arrival,
            type=[str(job.worker_type) for job in specs], chunks=setting.chunks,
            cloud_chunks=schedule.cloud_chunks, zeta=(~at_edge).astype(np.int64),
            uploaded_s=self._uploaded(), preemptions=schedule.preemptions,
            communication_s=schedule.communication)

    def _uploaded(self) -> Floats:
        """Return the time until the data of each job arrived, in seconds; NaN for whole jobs."""
        setting, chunks = self._setting, self._schedule.chunks
        if chunks is None:
            return np.full(len(setting.jobs), np.nan)
        return np.maximum.reduceat(chunks.ready, setting.first[:-1]) - setting.arrival

    def _lower_bounds(self) -> Floats:
        """Return the shortest time that a chunk of each job can take, on an idle system."""
        setting, system = self._setting, self._setting.system
        found = setting.cloud_delay + setting.p1 if system.cloud else np.full(
            len(setting.jobs), np.inf)
        for job, workers in enumerate(setting.workers_of):
            nearest = setting.delays[job, system.server_of[workers]].min(initial=np.inf)
            found[job] = min(found[job], nearest + setting.p0[job])
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
        job = np.repeat(np.arange(len(setting.jobs)), setting.chunks)
        return pd.DataFrame({
            "job": self._ids[job], "chunk": np.arange(setting.total) - setting.first[job],
            **self._where(chunks.worker), "dispatch_s": setting.arrival[job],
            "ready_s": chunks.ready, "start_s": chunks.start, "finish_s": chunks.finish,
            "preemptions": chunks.preemptions, "alpha_s": chunks.alpha, "t_star_s": chunks.t_star,
            **self._estimates()})

    def _estimates(self) -> dict[str, Floats]:
        """Return the ratios of actual to nominal delays and rates of each chunk."""
        setting, schedule, chunks = self._setting, self._schedule, self._schedule.chunks
        assert chunks is not None
        job = np.repeat(np.arange(len(setting.jobs)), setting.chunks)
        zeta = (schedule.cloud_chunks == setting.chunks)[job]
        said = setting.cloud_delay[job]
        edge = chunks.worker != CLOUD
        said[edge] = setting.delays[job[edge], setting.system.server_of[chunks.worker[edge]]]
        training = schedule.training
        trained = np.bincount(setting.first[training.job] + training.chunk,
                              training.end - training.start, setting.total)
        takes = np.where(zeta, setting.p1[job], setting.p0[job])
        with np.errstate(invalid="ignore", divide="ignore"):
            delay = np.where(said > 0, (chunks.ready - setting.arrival[job]) / said, np.nan)
            # It trained for no time if that is less than instants have digits for.
            rate = np.where(trained > 0, takes / trained, np.nan)
        return {"delay_ratio": delay, "rate_ratio": rate}

    def training(self) -> pd.DataFrame:
        training = self._schedule.training
        return pd.DataFrame({
            "job": self._ids[training.job], "chunk": training.chunk,
            **self._where(training.worker), "start_s": training.start, "end_s": training.end})

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
            "busy_s": self._busy, "utilisation": self._busy / self._makespan,
            "jobs": np.bincount(pairs[0], minlength=system.total), "preemptions": preemptions})

    def servers(self) -> pd.DataFrame:
        system = self._setting.system
        workers = np.diff(system.first)
        busy = np.bincount(system.server_of, self._busy, system.servers)
        with np.errstate(invalid="ignore"):
            utilisation = busy / (workers * self._makespan)
        return pd.DataFrame({
            "server": np.arange(system.servers), "workers": workers,
            "ps": [len(each) for each in system.ps_types], "busy_s": busy,
            "utilisation": utilisation, "storage_bytes": system.capacity,
            "peak_bytes": peaks(self._setting, self._schedule)})

    def ps(self) -> pd.DataFrame:
        held = self._held
        return pd.DataFrame({"job": self._ids[held.job], "server": held.server, "ps": held.ps,
                             "start_s": held.start, "end_s": held.end})
