"""Run jobs on a cluster: who gets which GPUs and when, and then how they run."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import simpy
from numpy.typing import NDArray

from netsim._version import __version__
from netsim.allocators import describe, make_allocator
from netsim.checks import check_sequence, check_whole
from netsim.cluster.by_iteration import ByIteration
from netsim.cluster.cluster import Cluster
from netsim.cluster.contention import Contention
from netsim.cluster.engine import Analytic, Engine, Execution
from netsim.cluster.on_fabric import OnFabric
from netsim.cluster.placed import ring_of
from netsim.cluster.placement import PLACEMENTS, Placement
from netsim.cluster.registry import SCHEDULERS, chooses_gpus
from netsim.cluster.scheduling import Setting
from netsim.errors import InputError, StalledError, UnknownNameError
from netsim.experiments.cluster_inputs import inputs_of
from netsim.experiments.events import changes_of, end_at
from netsim.experiments.link_recorder import RECORDS
from netsim.experiments.numbering import CoflowNumbers
from netsim.experiments.progress import show_progress
from netsim.experiments.recorder import Recorder
from netsim.experiments.result import Result
from netsim.fabric.fabric import Fabric
from netsim.model import Workload
from netsim.plugins import described
from netsim.units import Quantity, parse_seconds

__all__ = ["simulate_cluster"]

_REPORT_EVERY = 4096

_NONE = np.array([], np.int64)


def simulate_cluster(cluster: Cluster, workload: Workload, *, scheduler: Any = None,
                     placement: Any = None, execution: Any = None, allocator: Any = "maxmin",
                     observe_interval: Quantity = 0, seed: int = 0,
                     until: Quantity | None = None,
                     record: Sequence[str] = ("jobs", "coflows"), events: Sequence[Any] = (),
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
    scheduler, placement, execution, seed, until, progress
        As for `netsim.simulate`.
    allocator, observe_interval, events, check
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
    run = _ClusterRun(cluster, rings, *policies, seed, record)
    # What is wrong is refused also where nothing depends on it.
    shared, interval = make_allocator(allocator), parse_seconds(observe_interval,
                                                                "observe_interval")
    if run.execution == "fabric":
        run.on_fabric(shared, check, interval, events)
    else:
        run.by_model(events)
    limit = math.inf if until is None else parse_seconds(until, "until", strict=True)
    started = time.perf_counter()
    with show_progress(progress, len(workload), "jobs") as report:
        run.go(limit, report)
    return run.result(time.perf_counter() - started)


class _ClusterRun:
    """One simulation on a cluster: its parts, its clock, its records."""

    def __init__(self, cluster: Cluster, workload: Workload, scheduler: Any, placement: Placement,
                 execution: str, model: Contention, seed: int, record: Sequence[str]) -> None:
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

    def by_model(self, events: Sequence[Any]) -> None:
        """Let jobs run as a model says."""
        if len(events):
            raise InputError("events change links, which jobs use where execution = \"fabric\"; "
                             f"execution {self.execution!r} has none")
        jobs = self.workload.jobs
        if self.execution == "asrpt":
            timed = ByIteration(self.env, self.cluster, jobs)
            self.least_s = timed.least
            self._begin(timed)
        else:
            self._begin(Analytic(self.env, self.cluster, jobs, self.model))

    def on_fabric(self, allocator: Any, check: bool, interval: float, events: Sequence[Any]
                  ) -> None:
        """Let jobs run as coflows on the network."""
        recorder, network = self.recorder, self.cluster.network
        changes = changes_of(events, network)
        most = network.capacity.copy()
        for _, link, capacity in changes:
            most[link] = max(most[link], capacity)
        self.interval = interval
        self.fabric = Fabric(
            self.env, network, allocator, [job.arrival_s for job in self.workload],
            observe_interval=interval, check=check,
            observer=recorder if recorder.watches_fabric else None,
            completed=recorder.of_lines_finished)
        for at, link, capacity in changes:
            self.env.timeout(at).callbacks.append(partial(self._change, link, capacity))
        self._on_fabric = OnFabric(self.env, self.fabric, self.cluster, self.workload.jobs,
                                   self.model, recorder, most, self.workload.seed)
        self._begin(self._on_fabric)

    def _change(self, link: int, capacity: float, _: simpy.Event) -> None:
        assert self.fabric is not None
        self.fabric.set_capacity(link, capacity)
        self.recorder.set_capacity(link, capacity)

    def _begin(self, execution: Execution) -> None:
        jobs = self.workload.jobs
        setting = Setting(self.cluster, jobs, self.model, self.workload.history, self.seed)
        self.decider = setting.decider_of(self.scheduler)
        self.engine = Engine(self.env, self.cluster, jobs, self.decider, execution, self.placement,
                             described(self.scheduler, SCHEDULERS)["name"])

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

    def _stalled(self) -> StalledError:
        if self.fabric is not None and (pending := self.fabric.pending()):
            jobs = dict.fromkeys(self.workload.jobs[job].id for job, *_ in pending)
            listed = ", ".join(str(job) for job in list(jobs)[:5])
            return StalledError(f"stalled at t = {self.env.now:g} s: allocator "
                                f"{type(self.fabric.allocator).__name__} gives no bandwidth to "
                                f"{len(pending)} pending coflows, of {len(jobs)} jobs: {listed}")
        return self.engine.stalled()

    # --- records ---------------------------------------------------------------------------

    def result(self, wall_s: float) -> Result:
        """Return the records."""
        self.recorder.pack()
        fabric = self.fabric
        run = {
            "workload": self.workload.name, "network": self.cluster.network.name,
            "cluster": self.cluster.name,
            "allocator": {"name": self.execution} if fabric is None else
            describe(fabric.allocator),
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
        return pd.DataFrame({
            "job": [job.id for job in jobs], "name": [job.name for job in jobs],
            "arrival_s": arrival_s, "start_s": engine.start_s, "finish_s": engine.end_s,
            "jct_s": engine.end_s - arrival_s, "iterations": iterations,
            "ranks": [job.ranks for job in jobs], "coflows": self.recorder.coflows_of_job,
            "bytes": self.recorder.bytes_of_job,
            "lower_bound_s": self._lower_bounds(),
            "queue_s": engine.start_s - arrival_s,
            "gpus": gpus, "servers": servers, "placement": placement})

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

        If some are no rings, and run on the fabric, that on the servers that they had; NaN if none.
        """
        jobs, fabric = self.workload.jobs, self._on_fabric
        rings = [] if self.least_s is not None else [ring_of(job) for job in jobs]
        if fabric is not None and None in rings:
            return np.array([fabric.processes[k].lower_bound_s if k in fabric.processes
                             else math.nan for k in range(len(jobs))])
        least = (self.model.of(self.cluster, list(filter(None, rings))).least
                 if self.least_s is None else self.least_s)
        bounds: NDArray[np.float64] = np.array([job.iterations for job in jobs]) * least
        return bounds

    def _gpus_frame(self) -> pd.DataFrame:
        engine, cluster = self.engine, self.cluster
        order = sorted(engine.gpus)
        gpus = np.concatenate([_NONE, *(engine.gpus[job] for job in order)])
        counts = [len(engine.gpus[job]) for job in order]
        servers = cluster.server_of[gpus]
        jobs = self.workload.jobs
        return pd.DataFrame({
            "job": np.repeat(np.array([jobs[k].id for k in order], np.int64), counts),
            "server": servers, "gpu": gpus - cluster.first[servers],
            "start_s": np.repeat(engine.start_s[order], counts),
            "end_s": np.repeat(engine.end_s[order], counts)})
