"""Run jobs on a cluster: who gets which GPUs and when, and then how they run."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import simpy
from numpy.typing import NDArray

from netsim._version import __version__
from netsim.allocators import describe, make_allocator
from netsim.checks import check_sequence, check_whole
from netsim.cluster.cluster import Cluster
from netsim.cluster.contention import Contention
from netsim.cluster.context import RunContext
from netsim.cluster.placed import ring_of
from netsim.engine.as_coflows import OnFabric
from netsim.engine.by_iteration_time import ByIteration
from netsim.engine.engine import Analytic, Engine, Execution
from netsim.engine.view import decider_of
from netsim.errors import InputError, StalledError, UnknownNameError
from netsim.fabric.fabric import Fabric
from netsim.jobs.stragglers import factors_of
from netsim.placements.placement import Placement
from netsim.placements.registry import PLACEMENTS
from netsim.plugins import described
from netsim.recording.coflow_ids import CoflowNumbers
from netsim.recording.link_recorder import RECORDS
from netsim.recording.recorder import Recorder
from netsim.results.result import Result
from netsim.schedulers.registry import SCHEDULERS, chooses_gpus
from netsim.simulation.compatibility import NOTHING_TO_SHARE, inputs_of
from netsim.simulation.events import end_at
from netsim.simulation.faults import Faults, JobsOnServers, dead_links, listed
from netsim.simulation.interrupt import so_far, telling
from netsim.simulation.leftover import leftover_of
from netsim.simulation.progress import show_progress
from netsim.units import Quantity, parse_seconds
from netsim.workload import Workload

__all__ = ["simulate_cluster"]

_REPORT_EVERY = 4096

_NONE = np.array([], np.int64)


def simulate_cluster(cluster: Cluster, workload: Workload, *, scheduler: Any = None,
                     placement: Any = None, execution: Any = None, allocator: Any = "maxmin",
                     observe_interval: Quantity = 0, seed: int = 0,
                     until: Quantity | None = None,
                     record: Sequence[str] = ("jobs", "coflows"), events: Sequence[Any] = (),
                     stragglers: Mapping[int, float] | None = None,
                     check: bool = True,
                     progress: bool | Callable[[int, int], None] = False) -> Result:
    """Simulate jobs on a cluster; what `netsim.simulate` does with one.

    Parameters
    ----------
    cluster : Cluster
    workload : Workload
        On the fabric any; by the contention model rings: ``JobSpec(pattern="ring-all-reduce",
        ranks=GPUs, nbytes=gradients, compute_s=..., iterations=...)``, or with a model of one
        stage. A job's ranks are placed by the scheduler, whatever hosts it says.
    scheduler, placement, execution, seed, until, events, stragglers, progress
        As for `netsim.simulate`; by a model, servers fail with ``restart`` and links do not.
    allocator, observe_interval, check
        Likewise, where jobs run on the fabric.
    record : sequence of str
        As for `netsim.simulate`; by the contention model there are no coflows.

    Returns
    -------
    Result

    Raises
    ------
    InputError
        If the cluster, the workload or an argument cannot be simulated.
    StalledError
        If jobs wait, and nothing will happen any more.
    """
    check_whole(seed, "seed")
    for name in check_sequence(record, str, "record", "names"):
        if name not in RECORDS:
            raise UnknownNameError("record", name, RECORDS)
    rings, policies = inputs_of(cluster, workload, scheduler, placement, execution, seed)
    faults = Faults(events, cluster.network)
    faults.check_on_cluster(policies.scheduler, policies.execution)
    run = _ClusterRun(cluster, rings, *policies, seed, record, faults,
                      factors_of(stragglers, cluster.servers))
    interval = parse_seconds(observe_interval, "observe_interval")
    if run.execution == "fabric":
        run.on_fabric(make_allocator(allocator), check, interval)
    else:
        for name, given in (("allocator", allocator != "maxmin"), ("observe_interval", interval)):
            if given:
                raise InputError(f"{name}: {NOTHING_TO_SHARE}")
        run.by_model()
    limit = math.inf if until is None else parse_seconds(until, "until", strict=True)
    started = time.perf_counter()
    with telling(run.so_far), show_progress(progress, len(workload), "jobs") as report:
        run.go(limit, report)
    return run.result(time.perf_counter() - started)


class _ClusterRun:
    """One simulation on a cluster: its parts, its clock, its records."""

    def __init__(self, cluster: Cluster, workload: Workload, scheduler: Any, placement: Placement,
                 execution: str, model: Contention, seed: int, record: Sequence[str],
                 faults: Faults, factors: NDArray[np.float64]) -> None:
        self.faults, self.factors = faults, factors
        self.cluster, self.workload, self.seed = cluster, workload, seed
        self.scheduler, self.placement = scheduler, placement
        self.execution, self.model = execution, model
        self.env = simpy.Environment(0.0)
        numbers = CoflowNumbers(workload, emitted=execution == "fabric")
        self.recorder = Recorder(record, len(workload), numbers, cluster.network.capacity)
        self.steps = 0
        self.interval = 0.0
        self.stopped_at_s: float | None = None
        self.fabric: Fabric | None = None
        self._on_fabric: OnFabric | None = None
        self.engine: Engine
        self.least_s: NDArray[np.float64] | None = None

    def by_model(self) -> None:
        """Let jobs run as a model says."""
        jobs = self.workload.jobs
        if self.execution == "asrpt":
            timed = ByIteration(self.env, self.cluster, jobs, self.factors)
            self.least_s = timed.least
            self._begin(timed)
        else:
            analytic = Analytic(self.env, self.cluster, jobs, self.model, self.factors)
            self._begin(analytic, analytic.next_start)

    def on_fabric(self, allocator: Any, check: bool, interval: float) -> None:
        """Let jobs run as coflows on the network."""
        recorder = self.recorder
        self.interval = interval
        self.fabric = Fabric(
            self.env, self.faults.network, allocator, [job.arrival_s for job in self.workload],
            observe_interval=interval, check=check,
            observer=recorder if recorder.watches_fabric else None,
            completed=recorder.of_lines_finished)
        self._on_fabric = OnFabric(self.env, self.fabric, self.cluster, self.workload.jobs,
                                   self.model, recorder, self.faults.most_capacity, self.factors,
                                   self.workload.seed)
        self._begin(self._on_fabric)

    def _begin(self, execution: Execution,
               seen: Callable[[float], float] = lambda at: at) -> None:
        jobs = self.workload.jobs
        context = RunContext(self.cluster, jobs, self.model, self.workload.history, self.seed)
        self.decider = decider_of(self.scheduler, context)
        self.engine = Engine(self.env, self.cluster, jobs, self.decider, execution, self.placement,
                             described(self.scheduler, SCHEDULERS)["name"])
        self.faults.begin(self.env, JobsOnServers(self.engine, self._on_fabric), self.fabric,
                          self.recorder, seen)

    def go(self, limit: float, report: Callable[[int, int], None]) -> None:
        """Step until every job has ended, or until `limit`."""
        env, total = self.env, len(self.workload)
        if limit < math.inf:
            end_at(env, limit)
        while self.engine.ended < total and env.peek() <= limit:
            try:
                env.step()
            except simpy.core.EmptySchedule:
                raise self._stalled() from None
            self.steps += 1
            if self.steps % _REPORT_EVERY == 0:
                report(self.engine.ended, total)
        if self.engine.ended < total:
            if self.fabric is not None:
                self.fabric.catch_up()
            self.stopped_at_s = limit
        report(self.engine.ended, total)

    def so_far(self) -> str:
        """Return in words how far the run is."""
        return so_far(self.env.now, np.array([job.arrival_s for job in self.workload]),
                      self.engine.end_s)

    def _stalled(self) -> StalledError:
        if self.fabric is not None and (pending := self.fabric.pending()):
            jobs = dict.fromkeys(self.workload.jobs[job].id for job, *_ in pending)
            said = [f"stalled at t = {self.fabric.decided_s:g} s: allocator "
                    f"{type(self.fabric.allocator).__name__} gives no bandwidth to {len(pending)} "
                    f"pending coflows, of {len(jobs)} jobs: {listed(map(str, jobs))}"]
            return StalledError("; ".join(said + dead_links(self.fabric)))
        return self.engine.stalled()

    # --- records ---------------------------------------------------------------------------

    def result(self, wall_s: float) -> Result:
        """Return the records."""
        if self._on_fabric is not None:
            for process in self._on_fabric.processes.values():
                process.tell()
        self.recorder.pack()
        fabric = self.fabric
        run = {
            "workload": self.workload.name, "network": self.cluster.network.name,
            "cluster": self.cluster.name,
            "allocator": {"name": self.execution} if fabric is None else
            describe(fabric.allocator),
            "sharing": {} if fabric is None else leftover_of(fabric),
            "scheduler": described(self.scheduler, SCHEDULERS),
            "placement": None if chooses_gpus(self.scheduler) else
            described(self.placement, PLACEMENTS),
            "execution": {"name": self.execution} | (
                {} if self.execution == "asrpt" else asdict(self.model)),
            "gpus": self.cluster.total, "observe_interval": self.interval,
            "seed": int(self.seed), "workload_seed": self.workload.seed, "version": __version__,
            "platform": platform.platform(), "python": platform.python_version(),
            "stopped_at_s": self.stopped_at_s, "decisions": 0 if fabric is None else
            fabric.decisions, "simpy_events": self.steps, "wall_s": wall_s, "overdue": 0,
            "counts": dict(getattr(self.decider, "counts", {})) | self._spread(),
        }
        tables: dict[str, Any] = {
            name: None if fabric is None else
            self.recorder.table(name, self.cluster.network.link_names)
            for name in ("coflows", "flows", "links", "decisions")}
        return Result(jobs=self._jobs_frame(), run=run, gpus=self._gpus_frame(), **tables)

    def _spread(self) -> dict[str, float]:
        """Return the mean of servers that jobs were on, over as few as could have held each."""
        most = np.cumsum(np.sort(self.cluster.gpus)[::-1])
        held = self.engine.gpus
        ratios = [len(np.unique(self.cluster.server_of[gpus]))
                  / (np.searchsorted(most, len(gpus)) + 1) for gpus in held.values()]
        return {"fragmentation": float(np.mean(ratios))} if ratios else {}

    def _jobs_frame(self) -> pd.DataFrame:
        jobs, engine = self.workload.jobs, self.engine
        arrival_s = np.array([job.arrival_s for job in jobs])
        iterations = np.array([job.iterations for job in jobs])
        gpus, servers, placement = self._held()
        frame = pd.DataFrame({
            "job": [job.id for job in jobs], "name": [job.name for job in jobs],
            "arrival_s": arrival_s, "start_s": engine.start_s, "finish_s": engine.end_s,
            "jct_s": engine.end_s - arrival_s, "iterations": iterations,
            "ranks": [job.ranks for job in jobs], "coflows": self.recorder.coflows_of_job,
            "bytes": self.recorder.bytes_of_job,
            "lower_bound_s": self._lower_bounds(),
            "queue_s": engine.start_s - arrival_s,
            "gpus": gpus, "servers": servers, "placement": placement})
        if self.faults.restarts:
            cut = np.array([job for job, *_ in engine.cut], np.int64)
            frame["restarts"] = np.bincount(cut, minlength=len(jobs))
            frame["lost_s"] = engine.lost_s
            if self._on_fabric is not None:
                ran = self._on_fabric.processes
                frame["lost_bytes"] = [ran[k].lost_bytes if k in ran else 0.0
                                       for k in range(len(jobs))]
        return frame

    def _held(self) -> tuple[list[int], list[int], list[str]]:
        """Return of each job how many GPUs and servers it has had, and how many GPUs of each."""
        engine, total = self.engine, self.cluster.servers
        jobs = len(self.workload)
        counts = [len(engine.gpus.get(k, _NONE)) for k in range(jobs)]
        held = np.concatenate([_NONE, *(engine.gpus[k] for k in range(jobs) if counts[k])])
        where, number = np.unique(np.repeat(np.arange(jobs), counts) * total
                                  + self.cluster.server_of[held], return_counts=True)
        servers = np.bincount(where // total, minlength=jobs).tolist()
        said = iter([f"{server}:{count}" for server, count
                     in zip((where % total).tolist(), number.tolist(), strict=True)])
        return counts, servers, [" ".join(islice(said, count)) for count in servers]

    def _lower_bounds(self) -> NDArray[np.float64]:
        """Return the least possible time of each job.

        If some are no rings, and run on the fabric, or links are given more than they had, that on
        the servers that they had; NaN if none.
        """
        jobs, fabric = self.workload.jobs, self._on_fabric
        rings = [] if self.least_s is not None else [ring_of(job) for job in jobs]
        most, usual = self.faults.most_capacity, self.cluster.network.capacity
        widened = (np.isfinite(most) & (most > usual)).any()
        if fabric is not None and (None in rings or widened):
            return np.array([fabric.processes[k].lower_bound_s if k in fabric.processes
                             else math.nan for k in range(len(jobs))])
        least = (self.model.of(self.cluster, list(filter(None, rings))).least
                 if self.least_s is None else self.least_s)
        bounds: NDArray[np.float64] = np.array([job.iterations for job in jobs]) * least
        return bounds

    def _gpus_frame(self) -> pd.DataFrame:
        engine, cluster = self.engine, self.cluster
        stays = [(job, held, float(engine.since_s[job]), float(engine.end_s[job]))
                 for job, held in engine.gpus.items() if engine.since_s[job] >= 0]
        stays = sorted(stays + engine.cut, key=lambda stay: (stay[0], stay[2]))
        order, held, start_s, end_s = zip(*stays, strict=True) if stays else ((), (), (), ())
        gpus, counts = np.concatenate([_NONE, *held]), [len(each) for each in held]
        servers = cluster.server_of[gpus]
        jobs = self.workload.jobs
        return pd.DataFrame({
            "job": np.repeat(np.array([jobs[k].id for k in order], np.int64), counts),
            "server": servers, "gpu": gpus - cluster.first[servers],
            "start_s": np.repeat(np.array(start_s, np.float64), counts),
            "end_s": np.repeat(np.array(end_s, np.float64), counts)})
