"""Run jobs on a cluster: who gets which GPUs and when, and then how they run."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import simpy

from netsim._version import __version__
from netsim.allocators import describe, make_allocator
from netsim.checks import check_sequence, check_whole
from netsim.cluster.cluster import Cluster
from netsim.cluster.engine import Analytic, Engine, Execution
from netsim.cluster.on_fabric import OnFabric
from netsim.cluster.registry import described, make_execution, make_scheduler
from netsim.cluster.scheduling import PlanFollower
from netsim.errors import InputError, StalledError, UnknownNameError
from netsim.experiments.numbering import CoflowNumbers
from netsim.experiments.progress import show_progress
from netsim.experiments.recorder import RECORDS, Recorder
from netsim.experiments.result import Result
from netsim.fabric.fabric import Fabric
from netsim.model import Workload
from netsim.units import Quantity, parse_seconds

__all__ = ["simulate_cluster"]

_REPORT_EVERY = 4096


def simulate_cluster(cluster: Cluster, workload: Workload, *, scheduler: Any = "fifo",
                     execution: Any = "rar-contention", allocator: Any = "maxmin",
                     observe_interval: Quantity = 0, seed: int = 0,
                     record: Sequence[str] = ("jobs", "coflows"), check: bool = True,
                     progress: bool | Callable[[int, int], None] = False) -> Result:
    """Simulate ring-all-reduce jobs on a cluster; what `netsim.simulate` does with one.

    Parameters
    ----------
    cluster : Cluster
    workload : Workload
        Rings: ``JobSpec(pattern="ring-all-reduce", ranks=GPUs, nbytes=gradients, compute_s=...,
        iterations=...)``.
    scheduler : str, mapping or object
        See `netsim.cluster.registry.make_scheduler`.
    execution : str or mapping
        See `netsim.cluster.registry.make_execution`.
    allocator, observe_interval, check
        As for `netsim.simulate`, where jobs run on the fabric.
    seed : int
        Of random placement.
    record : sequence of str
        As for `netsim.simulate`; by the contention model there are no coflows.
    progress : bool or callable
        Show a progress bar on a terminal; or call with the jobs that have ended, and all.

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
    _check_rings(workload)
    for name in check_sequence(record, str, "record", "names"):
        if name not in RECORDS:
            raise UnknownNameError("record", name, RECORDS)
    run = _ClusterRun(cluster, workload, scheduler, execution, allocator,
                      parse_seconds(observe_interval, "observe_interval"), seed, record, check)
    started = time.perf_counter()
    with show_progress(progress, len(workload), "jobs") as report:
        run.go(report)
    return run.result(time.perf_counter() - started)


def _check_rings(workload: Workload) -> None:
    for job in workload:
        pattern = job.pattern.get("name") if isinstance(job.pattern, dict) else job.pattern
        if pattern != "ring-all-reduce":
            raise InputError(f"job {job.id} is no ring: on a cluster jobs have the pattern "
                             f"'ring-all-reduce', not {pattern!r}")


class _ClusterRun:
    """One simulation on a cluster: its parts, its clock, its records."""

    def __init__(self, cluster: Cluster, workload: Workload, scheduler: Any, execution: Any,
                 allocator: Any, interval: float, seed: int, record: Sequence[str], check: bool
                 ) -> None:
        self.cluster, self.workload, self.seed = cluster, workload, seed
        self.interval = interval
        self.env = simpy.Environment(0.0)
        self.execution, self.model = make_execution(execution)
        self.scheduler = make_scheduler(scheduler)
        self.recorder = Recorder(record, len(workload), CoflowNumbers(workload),
                                 cluster.network.capacity)
        self.steps = 0
        jobs = workload.jobs
        decider = self.scheduler
        if hasattr(decider, "plan"):
            decider = PlanFollower(decider.plan(cluster, jobs, self.model, seed))
        self.fabric: Fabric | None = None
        how: Execution = (self._on_fabric(make_allocator(allocator), check)
                          if self.execution == "fabric"
                          else Analytic(self.env, cluster, jobs, self.model))
        self.engine = Engine(self.env, cluster, jobs, decider, how)

    def _on_fabric(self, allocator: Any, check: bool) -> OnFabric:
        recorder = self.recorder
        self.fabric = Fabric(
            self.env, self.cluster.network, allocator,
            [job.arrival_s for job in self.workload], observe_interval=self.interval,
            check=check, observer=recorder if recorder.watches_fabric else None,
            completed=recorder.of_lines_finished)
        return OnFabric(self.env, self.fabric, self.cluster, self.workload.jobs, self.model,
                        recorder)

    def go(self, report: Callable[[int, int], None]) -> None:
        """Step until every job has ended."""
        total = len(self.workload)
        while self.engine.ended < total:
            try:
                self.env.step()
            except simpy.core.EmptySchedule:
                raise self._stalled() from None
            self.steps += 1
            if self.steps % _REPORT_EVERY == 0:
                report(self.engine.ended, total)
        report(total, total)

    def _stalled(self) -> StalledError:
        if self.fabric is not None and (pending := self.fabric.pending()):
            job = self.workload.jobs[pending[0][0]]
            return StalledError(f"stalled at t = {self.env.now:g} s: allocator "
                                f"{type(self.fabric.allocator).__name__} gives no bandwidth to "
                                f"{len(pending)} pending coflows, of job {job.id} and others")
        return self.engine.stalled()

    def result(self, wall_s: float) -> Result:
        """Return the records."""
        self.recorder.pack()
        fabric = self.fabric
        run = {
            "workload": self.workload.name, "network": self.cluster.name,
            "allocator": {"name": self.execution} if fabric is None else
            describe(fabric.allocator),
            "scheduler": described(self.scheduler), "execution": self.execution,
            "gpus": self.cluster.total, "observe_interval": self.interval,
            "seed": int(self.seed), "workload_seed": self.workload.seed, "version": __version__,
            "platform": platform.platform(), "python": platform.python_version(),
            "stopped_at_s": None, "decisions": 0 if fabric is None else fabric.decisions,
            "simpy_events": self.steps, "wall_s": wall_s, "overdue": 0, "counts": {},
        }
        tables: dict[str, Any] = {
            name: None if fabric is None else
            self.recorder.table(name, self.cluster.network.link_names)
            for name in ("coflows", "flows", "links", "decisions")}
        return Result(jobs=self._jobs_frame(), run=run, gpus=self._gpus_frame(), **tables)

    def _jobs_frame(self) -> pd.DataFrame:
        jobs, engine = self.workload.jobs, self.engine
        arrival_s = np.array([job.arrival_s for job in jobs])
        iterations = np.array([job.iterations for job in jobs])
        servers = [self.cluster.server_of[engine.gpus[k]] for k in range(len(jobs))]
        return pd.DataFrame({
            "job": [job.id for job in jobs], "name": [job.name for job in jobs],
            "arrival_s": arrival_s, "start_s": engine.start_s, "finish_s": engine.end_s,
            "jct_s": engine.end_s - arrival_s, "iterations": iterations,
            "ranks": [job.ranks for job in jobs], "coflows": self.recorder.coflows_of_job,
            "bytes": self.recorder.bytes_of_job,
            "lower_bound_s": iterations * self.model.of(self.cluster, jobs).least,
            "queue_s": engine.start_s - arrival_s,
            "gpus": [len(gpus) for gpus in servers],
            "servers": [len(np.unique(each)) for each in servers],
            "placement": [" ".join(f"{server}:{count}" for server, count
                                   in zip(*np.unique(each, return_counts=True), strict=True))
                          for each in servers]})

    def _gpus_frame(self) -> pd.DataFrame:
        engine, cluster = self.engine, self.cluster
        order = range(len(self.workload))
        gpus = np.concatenate([engine.gpus[job] for job in order])
        counts = [len(engine.gpus[job]) for job in order]
        servers = cluster.server_of[gpus]
        return pd.DataFrame({
            "job": np.repeat([job.id for job in self.workload], counts), "server": servers,
            "gpu": gpus - cluster.first[servers],
            "start_s": np.repeat(engine.start_s, counts),
            "end_s": np.repeat(engine.end_s, counts)})
