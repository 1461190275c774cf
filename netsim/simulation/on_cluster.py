"""A run on a cluster: a scheduler assigns GPUs to jobs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.allocators import ALLOCATORS
from netsim.base.arrays import Floats
from netsim.base.lazy import pd
from netsim.cluster.cluster import Cluster
from netsim.cluster.context import RunContext
from netsim.cluster.placed import ring_of
from netsim.engine.as_coflows import CoflowExecution
from netsim.engine.engine import Engine
from netsim.engine.executions import ContentionExecution, Execution, IterationTimeExecution
from netsim.engine.interleaved import InterleavedExecution
from netsim.engine.preemption import Preemption
from netsim.engine.registry import Cassini, IterationTime
from netsim.engine.view import check_open, decider_of
from netsim.errors import InputError, StalledError
from netsim.fabric.allocator import Allocator
from netsim.fabric.clock import Clock, CoflowEvent
from netsim.fabric.fabric_process import FabricProcess
from netsim.jobs.fitting import all_settled, fitted_pattern, settled
from netsim.jobs.patterns import Collective
from netsim.jobs.plan import JobPlan, expert_counts, has_operations
from netsim.jobs.process import JobProcess
from netsim.network import Topology
from netsim.placements.registry import PLACEMENTS
from netsim.results.lazy_table import FrameColumns
from netsim.results.recorder import Recorder
from netsim.results.tables import CoflowNumbers
from netsim.schedulers.registry import SCHEDULERS, chooses_gpus
from netsim.simulation.compatibility import (
    NEEDS,
    ClusterRun,
    Policies,
    checked,
    needs_of,
    problem_of_pauses,
)
from netsim.simulation.events import Change, RunEvent
from netsim.simulation.faults import Faults, JobsOnServers, dead_links, listed
from netsim.simulation.run import Run, forecast_of, jobs_table, leftover_of
from netsim.simulation.run_spec import TIMELINE, RunSpec
from netsim.workload import JobSpec, Workload
from netsim.workload.job import column, delays_stages

_NONE = np.array([], np.int64)


class OnCluster(Run):
    """A run of jobs that get GPUs of a cluster.

    The scheduler or the placement chooses GPUs for the ranks; the `hosts` of the jobs are ignored.
    Jobs run on the fabric with an allocator. Without one, they run by a model: jobs are then only
    rings for the contention model, and faults only failures of servers with ``restart``, and
    repairs. `factors` has the factor by which computation is slower on each server. What `spec`
    gives by name has been made and checked.
    """

    starts = False

    def __init__(self, cluster: Cluster, workload: Workload, policies: Policies, faults: Faults,
                 factors: Floats, allocator: Allocator | None, preemption: Preemption,
                 spec: RunSpec) -> None:
        self.cluster, self.network, self.seed = cluster, cluster.network, spec.seed
        if allocator is not None:
            workload = all_settled(workload, self._settled_pattern)
            if any(map(has_operations, workload)):
                workload = replace(workload, jobs=[self._estimated(job, workload.seed)
                                                   for job in workload])
        self.workload = workload
        self.scheduler, self.placement, self.execution, self.model = policies
        self.faults, self.factors, self.preemption = faults, factors, preemption
        self.arrival_s = np.array([job.arrival_s for job in workload])
        self.env = Clock(0.0)
        numbers = CoflowNumbers(workload, emitted=allocator is not None)
        self.recorder = Recorder(spec.record, len(workload), numbers, cluster.network,
                                 TIMELINE if spec.timeline and allocator is not None else (),
                                 delays_stages(workload.jobs))
        self._timed: IterationTimeExecution | None = None
        self._on_fabric: CoflowExecution | None = None
        if allocator is None:
            self._by_model()
        else:
            self._on_network(allocator, float(spec.observe_interval), spec.check)

    def _by_model(self) -> None:
        """Set up an engine in which a model gives the running times of jobs."""
        jobs = self.workload.jobs
        if isinstance(self.model, IterationTime):
            self._timed = IterationTimeExecution(self.env, self.cluster, jobs, self.factors)
            self._begin(self._timed)
        else:
            self._begin(ContentionExecution(self.env, self.cluster, jobs, self.model,
                                            self.factors))

    def _settled_pattern(self, job: JobSpec, pattern: Collective) -> Collective:
        """Return a collective fitted to the cluster, as if the job had its first GPUs.

        The number of coflows must be known before the scheduler places the job.
        """
        cluster = self.cluster
        hosts = cluster.hosts_of(np.arange(min(job.ranks, cluster.total)))
        return fitted_pattern(pattern, cluster.network, hosts,
                              None if cluster.by_gpu else cluster.intra)

    def _estimated(self, job: JobSpec, seed: int) -> JobSpec:
        """Return a job whose ranks compute, with an estimate if it has none.

        The estimate is the least time of the job alone on the first GPUs.
        """
        if not has_operations(job) or job.estimate_s is not None:
            return job
        network, hosts = self.cluster.network, self.cluster.hosts_of(np.arange(job.ranks))
        plan = JobPlan(job, network, hosts, seed, network.usable,
                       taken=np.zeros(network.links, np.bool_))
        return replace(job, estimate_s=plan.lower_bound() or None)

    def _on_network(self, allocator: Allocator, interval: float, check: bool) -> None:
        """Set up an engine in which jobs run as coflows on the network."""
        recorder = self.recorder
        if allocator.plans_ahead:
            raise InputError(f"allocator {allocator.title} plans for all jobs before the run, and "
                             "the scheduler of a cluster chooses their hosts during it; it is for "
                             "jobs on a network")
        if allocator.reserves_gpus and self.cluster.by_gpu:
            raise InputError(
                f"allocator {allocator.title} gives jobs their part of a server's NIC, and hosts "
                f"of network {self.cluster.network.name!r} are GPUs with their own ports; choose "
                "another allocator")
        self.fabric = FabricProcess(
            self.env, self.faults.network, allocator, self.arrival_s.tolist(),
            observe_interval=interval, check=check,
            observer=recorder if recorder.watches_fabric else None,
            completed=recorder.finished_without_process, job_of=self._job_of)
        self.forecast = forecast_of(allocator, self.workload.history)
        self.fabric.table.jobs["gpus"] = column(self.workload.jobs, "ranks")
        make: Callable[..., CoflowExecution] = CoflowExecution
        if isinstance(self.model, Cassini):
            make = partial(InterleavedExecution, candidates=1 if chooses_gpus(self.scheduler) else
                           self.model.candidates)
        self._on_fabric = make(self.env, self.fabric, self.cluster, self.workload.jobs, self.model,
                               recorder, self.faults.most_capacity, self.factors,
                               self.workload.seed, forecast=self.forecast,
                               may_go_back=self.preemption.on_fault == "checkpoint")
        self._begin(self._on_fabric)

    def _begin(self, execution: Execution) -> None:
        jobs = self.workload.jobs
        self.decider = decider_of(self.scheduler, self._context)
        self.engine = Engine(self.env, self.cluster, jobs, self.decider, execution, self.placement,
                             SCHEDULERS.to_dict(self.scheduler)["name"], self.preemption)
        self.faults.begin(self.env, JobsOnServers(self.engine, self.cluster, self._on_fabric),
                          self.fabric, self.recorder, self.tell_capacities, execution.next_start)

    @property
    def _context(self) -> RunContext:
        return RunContext(self.cluster, self.workload.jobs, self.model, self.workload.history,
                          self.seed)

    @property
    def total(self) -> int:
        return len(self.arrival_s)

    @property
    def done(self) -> int:
        return self.engine.ended

    @property
    def ended(self) -> bool:
        return self.engine.ended == len(self.arrival_s)

    def shared(self) -> list[Any]:
        return [*super().shared(), self.cluster, self.cluster.network]

    def policies(self) -> dict[str, Any]:
        return {**super().policies(), "scheduler": self.decider, "placement": self.placement}

    def _process_of(self, job: int) -> JobProcess:
        assert self._on_fabric is not None
        return self._on_fabric.processes[job]

    def _number_and_name(self, transfer: CoflowEvent) -> tuple[int, str]:
        assert self._on_fabric is not None
        if self._on_fabric.is_state(transfer):
            return -1, "state"
        return super()._number_and_name(transfer)

    def _states(self, jobs: pd.DataFrame) -> list[str]:
        return self.engine.states()

    def _fitted(self, job: JobSpec) -> JobSpec:
        """Return a submitted job with the changes that the constructor makes to jobs."""
        job = settled(job, self._settled_pattern)
        return job if self.fabric is None else self._estimated(job, self.workload.seed)

    def submit(self, job: JobSpec) -> None:
        workload, index = self._with(job, self._fitted)
        if (problem := problem_of_pauses(workload, self.preemption.keep)) is not None:
            raise InputError(f"preemption: {problem}")
        policies = Policies(self.scheduler, self.placement, self.execution, self.model)
        workload = checked(self.cluster, workload, policies, self.seed)
        check_open(self.scheduler, self.decider)
        self.workload = workload
        self.arrival_s = np.insert(self.arrival_s, index, job.arrival_s)
        self.recorder.add_job(index, CoflowNumbers(workload, emitted=self.fabric is not None))
        if self.fabric is not None:
            self.fabric.table.insert_job(index, job.arrival_s, workload.jobs[index].ranks)
        if hasattr(self.decider, "add_job"):
            self.decider.add_job(index, self._context)
        self.engine.add_job(index, workload.jobs)

    def _check_change(self, change: Change) -> None:
        run = ClusterRun(self._context, (change,))
        for name in ("no restarts", "no link events"):
            needs = [*needs_of(self.scheduler, "cluster"),
                     *(["no link events"] if self.fabric is None else [])]
            if name in needs and (problem := NEEDS["cluster"][name].problem(run)):
                raise InputError(problem)

    def _route_on(self, network: Topology) -> None:
        super()._route_on(network)
        assert self._on_fabric is not None
        for job in self._on_fabric.processes.values():
            job.route_on(network)

    def listen(self, listener: Callable[[RunEvent], None] | None) -> None:
        self.engine.notify = None if listener is None else self.listeners.notify
        super().listen(listener)

    def finish_s(self) -> Floats:
        return self.engine.end_s

    def stalled(self) -> StalledError:
        if self.fabric is not None and (pending := self.fabric.pending()):
            jobs = dict.fromkeys(self.workload.jobs[job].id for job, *_ in pending)
            said = [f"stalled at t = {self.fabric.policy.asked_s:g} s: allocator "
                    f"{type(self.fabric.allocator).__name__} gives no bandwidth to {len(pending)} "
                    f"pending coflows, of {len(jobs)} jobs: {listed(map(str, jobs))}"]
            return StalledError("; ".join(said + dead_links(self.fabric)))
        return self.engine.stalled()

    # --- records ---------------------------------------------------------------------------

    def identity(self) -> dict[str, Any]:
        fabric = self.fabric
        return {
            "workload": self.workload.name, "network": self.cluster.network.name,
            "cluster": self.cluster.name,
            "allocator": {"name": self.execution} if fabric is None else
            ALLOCATORS.to_dict(fabric.allocator),
            "sharing": {} if fabric is None else leftover_of(fabric),
            "scheduler": SCHEDULERS.to_dict(self.scheduler),
            "placement": None if chooses_gpus(self.scheduler) else
            PLACEMENTS.to_dict(self.placement),
            "execution": {"name": self.execution} | (
                {} if isinstance(self.model, IterationTime) else asdict(self.model)),
            "preemption": asdict(self.preemption), "gpus": self.cluster.total,
            "gpus_per_server": self.cluster.gpus.tolist(),
            "observe_interval": 0.0 if fabric is None else fabric.observe_interval}

    def cost(self) -> dict[str, Any]:
        return {"decisions": 0 if self.fabric is None else self.fabric.decisions,
                "counts": dict(getattr(self.decider, "counts", {})) | self._spread()
                | expert_counts(self.workload)}

    def tables(self) -> dict[str, Any]:
        if self._on_fabric is not None:
            for process in self._on_fabric.processes.values():
                process.tell()
        recorder, tables = self.recorder, dict[str, Any]()
        recorder.pack()
        if self.fabric is not None:
            tables = {**recorder.tables(self.network.link_names),
                      "other_coflows": recorder.other_coflows()}
        return {**tables, "jobs": self._jobs(), "gpus": self._gpus_frame()}

    def _spread(self) -> dict[str, float]:
        """Return the mean ratio of servers that jobs used to the fewest that could hold them."""
        held = list(self.engine.gpus.values())
        if not held:
            return {}
        most = np.cumsum(np.sort(self.cluster.gpus)[::-1])
        sizes = np.array([len(gpus) for gpus in held])
        job = np.repeat(np.arange(len(held)), sizes)
        pairs = np.unique(job * self.cluster.servers + self.cluster.server_of[np.concatenate(held)])
        servers = np.bincount(pairs // self.cluster.servers, minlength=len(held))
        return {"fragmentation": float(np.mean(servers / (np.searchsorted(most, sizes) + 1)))}

    def _jobs(self) -> FrameColumns:
        jobs, engine = self.workload.jobs, self.engine
        gpus, servers, placement = self._held()
        return jobs_table(
            jobs, arrival_s=self.arrival_s, start_s=engine.start_s, finish_s=engine.end_s,
            coflows=self.recorder.coflows_of_job, lower_bound_s=self._lower_bounds(),
            queue_s=engine.start_s - self.arrival_s, gpus=gpus, servers=servers,
            placement=placement, **self._accounts(), **self._lost(), **self._bytes())

    def _accounts(self) -> dict[str, Any]:
        """Return the columns of what jobs held, and how often they lost it."""
        ledger, now = self.engine.ledger, self.env.now
        rows, promoted = ledger.rows, getattr(self.decider, "promotions", {})
        there = np.fmin(rows["end"], now) - self.arrival_s
        return {"preemptions": rows["preemptions"], "restarts": rows["restarts"],
                "promotions": [promoted.get(job, 0) for job in range(len(self.workload))],
                "waited_s": np.maximum(there, 0.0) - ledger.held_s(slice(None), now),
                **ledger.accounts(now)}

    def _lost(self) -> dict[str, Any]:
        """Return the columns of lost work, if jobs may lose some."""
        rows, lost = self.engine.ledger.rows, dict[str, Any]()
        if self.faults.restarts:
            lost["lost_s"] = rows["lost_s"]
        if self._on_fabric is not None and (self.faults.restarts or rows["preemptions"].any()):
            ran = self._on_fabric.processes
            lost["lost_bytes"] = [ran[k].lost_bytes if k in ran else 0.0
                                  for k in range(len(self.workload))]
        return lost

    def _held(self) -> tuple[list[int], list[int], list[str]]:
        """Return the number of GPUs, the number of servers and the placement of each job."""
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

    def _lower_bounds(self) -> Floats:
        """Return a lower bound on the running time of each job, in seconds.

        If jobs on the fabric are not all rings, events raise the capacity of links, these have a
        latency, or hosts are GPUs, the bound is for the servers that each job got; NaN for jobs
        that got none.
        """
        jobs, fabric = self.workload.jobs, self._on_fabric
        rings = [] if self._timed is not None else [ring_of(job) for job in jobs]
        usual = self.cluster.network.usable
        most = self.faults.most_capacity[:len(usual)]
        widened = (np.isfinite(most) & (most > usual)).any()
        if fabric is not None and (None in rings or widened or self.cluster.network.wire.timed
                                   or self.cluster.by_gpu):
            return np.array([fabric.processes[k].lower_bound_s if k in fabric.processes
                             else math.nan for k in range(len(jobs))])
        least = (self.model.of(self.cluster, list(filter(None, rings))).least
                 if self._timed is None else self._timed.least)
        bounds: Floats = np.array([job.iterations for job in jobs]) * least
        return bounds

    def _bytes(self) -> dict[str, Any]:
        """Return the bytes of each job's coflows, with those sent before it was preempted."""
        sent = self.recorder.bytes_of_job.copy()
        on_wire = self.recorder.wire_bytes_of_job.copy()
        if self._on_fabric is not None:
            for job, process in self._on_fabric.processes.items():
                sent[job] += process.kept_bytes
                on_wire[job] += process.kept_on_wire
        plain = self.cluster.network.wire.plain
        return {"nbytes": sent} | ({} if plain else {"wire_bytes": on_wire})

    def _gpus_frame(self) -> pd.DataFrame:
        ledger, cluster, jobs = self.engine.ledger, self.cluster, self.workload.jobs
        segments = sorted([*ledger.segments, *ledger.open.values()],
                          key=lambda segment: (segment.job, segment.got))
        counts = [len(segment.gpus) for segment in segments]
        gpus = np.concatenate([_NONE, *(segment.gpus for segment in segments)])
        servers = cluster.server_of[gpus]

        def each(values: list[Any], dtype: Any = np.float64) -> NDArray[Any]:
            return np.repeat(np.array(values, dtype), counts)

        return pd.DataFrame({
            "job": each([jobs[segment.job].id for segment in segments], np.int64),
            "server": servers, "gpu": gpus - cluster.first[servers],
            "start_s": each([segment.got for segment in segments]),
            "run_s": each([segment.run for segment in segments]),
            "stop_s": each([segment.stop for segment in segments]),
            "end_s": each([segment.free for segment in segments]),
            "reason": each([segment.reason for segment in segments], object)})
