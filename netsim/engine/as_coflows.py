"""Execution of placed jobs as coflows on the network.

Rings are those of `netsim.cluster.ring`; for models see `netsim.jobs.patterns.mixed`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.cluster.cluster import Cluster
from netsim.cluster.contention import Contention
from netsim.cluster.placed import placed_model, placed_stages, ring_of, servers_of_model
from netsim.cluster.ring import RingLayout, ring_stages
from netsim.engine.executions import Execution
from netsim.engine.ledger import expected_iterations
from netsim.fabric.clock import CoflowEvent
from netsim.fabric.fabric_process import FabricProcess
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.jobs.plan import JobPlan, delayed, ecmp_key
from netsim.jobs.process import JobProcess, JobRecorder, StageProcess, process_of
from netsim.jobs.stragglers import slowed_job
from netsim.predictors import Forecast
from netsim.workload import Flows, JobSpec, Stage

#: Largest part of an iteration that counts as made before it ends, however wrong its estimate is.
_ALMOST = 1 - 1e-6


class CoflowExecution(Execution):
    """Execution of jobs as computation, and coflows between servers on the network.

    In rings, only the traffic from each server to the next is simulated. In other jobs, rank i is
    on the i-th GPU of the job, except that the GPUs of each stage of a model are taken server by
    server. If the hosts of the network are GPUs, the ranks of rings are on GPUs as well, and
    traffic inside servers also uses links. Of the contention model, only `xi2` and `reduce` are
    used, as the fabric simulates contention. See `Execution`.
    """

    sends_state = True

    def __init__(self, env: Any, fabric: FabricProcess, cluster: Cluster, jobs: Sequence[JobSpec],
                 model: Contention, recorder: JobRecorder, capacity: Floats,
                 factors: Floats, seed: int = 0, may_go_back: bool = False,
                 forecast: Forecast | None = None) -> None:
        super().__init__(env, jobs)
        self._fabric, self._cluster, self._model = fabric, cluster, model
        # `_capacity` is the largest of each link during the run, in bytes per second.
        self._recorder, self._capacity = recorder, capacity
        # `_factors` are by server: how many times as long computation takes.
        self._factors, self._seed = factors, seed
        self._may_go_back, self._forecast = may_go_back, forecast
        self._moving: dict[int, tuple[CoflowEvent, Flows]] = {}
        self._expected: dict[int, float] = {}
        self.processes: dict[int, JobProcess] = {}  #: of jobs that have started

    def add_job(self, job: int, jobs: Sequence[JobSpec]) -> None:
        super().add_job(job, jobs)
        self._expected = {}

    def start(self, job: int, gpus: Ints, kept: float, ended: Callable[[int], None]) -> float:
        plan = self._plan(self._jobs[job], gpus)
        if job in self.processes:
            self.processes[job].ended = ended
            return self.processes[job].resume(plan)
        spec, forecast = self._jobs[job], self._forecast
        process = self.processes[job] = process_of(
            spec, self._env, self._fabric, job, self._env.now, self._recorder, waited_for=True,
            may_go_back=self._may_go_back,
            predicted=0.0 if forecast is None else forecast.predict_job(spec))
        process.ended = ended
        self._env.timeout(0).callbacks.append(partial(process.arrive, plan))
        return 0.0

    def progress(self, jobs: Any) -> Any:
        """The iterations made; see `Execution`.

        The fraction of the current iteration is the time spent in it, divided by the mean duration
        of the job's previous iterations, or by the expected duration in the first iteration. The
        fraction stays below 1.
        """
        if np.ndim(jobs) == 0:
            return self._progress(int(jobs))
        return np.array([self._progress(job) for job in jobs.tolist()])

    def _progress(self, job: int) -> float:
        process = self.processes[job]
        if process.done:
            return float(process.iteration)
        usual = process.mean_iteration_s
        if math.isnan(usual):
            usual = self._expected_s(job)
        return process.iteration + min(process.in_iteration_s / usual, _ALMOST)

    def _expected_s(self, job: int) -> float:
        """The seconds that an iteration of a job is expected to take."""
        if job not in self._expected:
            self._expected[job] = float(expected_iterations([self._jobs[job]], self._cluster)[0])
        return self._expected[job]

    def finished(self, job: int) -> float:
        return float(self.processes[job].iteration)

    def stop(self, job: int, kept: float, back: bool) -> float:
        """Stop a job; see `Execution`. It may keep, and later continue, part of an iteration."""
        process = self.processes[job]
        if kept > process.iteration and not back:
            assert isinstance(process, StageProcess)  # what cannot be paused keeps whole iterations
            process.pause()
            return 0.0
        return process.stop(back)

    def go_back(self, job: int) -> None:
        """Discard what a job made since its last start, after it was stopped."""
        self.processes[job].go_back()

    def send_state(self, job: int, nbytes: Floats, source: int,
                   targets: Ints, there: Callable[[], None]) -> None:
        """Send the state of a job to servers, as one coflow; see `Execution`."""
        ends = self._cluster.hosts_of(self._cluster.first[np.append(targets, source)])
        flows = Flows(np.full(len(targets), ends[-1]), ends[:-1], nbytes)
        transfer = self._fabric.submit(job, self._state_demand(job, flows),
                                       self.processes[job].next_order, partial(self._sent, there))
        self._moving[job] = transfer, flows

    def _state_demand(self, job: int, flows: Flows) -> RoutedCoflow:
        """Route the flows by which the state of a job moves."""
        return RoutedCoflow.of(flows, self._fabric.network,
                               key=ecmp_key(self._jobs[job].id, "state"))

    def is_state(self, transfer: CoflowEvent) -> bool:
        """Whether a coflow moves the state of its job."""
        return transfer.job in self._moving and self._moving[transfer.job][0] is transfer

    def _sent(self, there: Callable[[], None], transfer: CoflowEvent) -> None:
        if self.is_state(transfer):
            del self._moving[transfer.job]
            self._record_state(transfer, transfer.demand.payload)
            there()

    def rerouted(self) -> dict[CoflowEvent, RoutedCoflow]:
        """Recompute routes; return the active coflows with changed routes, and these routes."""
        changed: dict[CoflowEvent, RoutedCoflow] = {}
        for process in self.processes.values():
            changed |= process.rerouted()
        for job, (transfer, flows) in self._moving.items():
            demand = self._state_demand(job, flows)
            if not np.array_equal(demand.hops["link"], transfer.demand.hops["link"]):
                changed[transfer] = demand
        return changed

    def stay(self, job: int) -> None:
        """Withdraw the state of a job that is being moved; see `Execution`."""
        if job in self._moving:
            self.withdraw_state(job)

    def withdraw_state(self, job: int) -> Floats:
        """Withdraw the state of a job, and return the bytes left; see `Execution`."""
        transfer, flows = self._moving.pop(job)
        demand = transfer.demand
        if not len(demand.flows):
            return flows.nbytes
        part = demand.payload / demand.nbytes  # without headers
        left = self._fabric.withdraw(transfer) * part
        self._record_state(transfer, max(demand.payload - float(left.sum()), 0.0))
        return left

    def _record_state(self, transfer: CoflowEvent, nbytes: float) -> None:
        """Record the bytes sent of a job's state, once it has arrived or is withdrawn."""
        self._recorder.coflow_dropped(transfer.job, self.processes[transfer.job].iteration, "state",
                                      transfer, nbytes, "state")

    def _plan(self, job: JobSpec, gpus: Ints) -> JobPlan:
        """Make the plan of a job on its GPUs, from now on."""
        servers = self._cluster.server_of[gpus]
        factors = self._factors[servers]
        if job.model is None and ring_of(job) is not None and not self._cluster.by_gpu:
            layout = RingLayout(zip(servers.tolist(),
                                    (gpus - self._cluster.first[servers]).tolist(), strict=True))
            slowed = replace(job, compute_s=job.compute_s * float(factors.max()))
            return self._plan_of(job, layout.servers, stages=self._ring_stages(slowed, layout),
                                 pattern=None, ranks=len(layout.servers), compute_s=0.0,
                                 redraw=False)
        job, slow = slowed_job(job, factors)
        if self._cluster.by_gpu:
            hosts = gpus if job.model is None else servers_of_model(job.model, gpus)
            return self._plan_of(job, hosts.tolist(), slow)
        model, intra, shared = job.model, self._cluster.intra, self._shared
        if model is None:
            return self._plan_of(job, servers.tolist(), partial(
                _slowed_and_placed, slow, servers, intra, shared))
        servers = servers_of_model(model, servers)
        # The kinds of the stages are known, by which the analytic model charges them.
        stages = delayed(placed_model(model, servers, intra, shared), job.compute_s)
        return self._plan_of(job, servers.tolist(), partial(_given, stages))

    def _plan_of(self, job: JobSpec, hosts: Sequence[int],
                 placed: Callable[[tuple[Stage, ...]], tuple[Stage, ...]] = tuple, **changed: Any
                 ) -> JobPlan:
        """Make the plan of a job that is placed on hosts and arrives now."""
        if self._shared is not None:  # the weight of a coflow is the share of its GPUs, alone
            changed["weight"] = 1.0
        spec = replace(job, arrival_s=self._env.now, hosts=hosts, **changed)
        return JobPlan(spec, self._fabric.network, hosts, self._seed, self._capacity, placed)

    def _ring_stages(self, job: JobSpec, ring: RingLayout) -> tuple[Stage, ...]:
        """Make the stages of a ring, weighted by the share of GPUs if the allocator needs it."""
        cluster, model = self._cluster, self._model
        stepwise = isinstance(job.pattern, Mapping) and bool(job.pattern.get("stepwise"))
        stages = ring_stages(ring, job.nbytes, compute_s=job.compute_s, server_s=model.xi2,
                             reduction=model.reduce, intra=cluster.intra, stepwise=stepwise)
        if self._shared is None:
            return stages
        used, workers = np.unique([server for server, _ in ring.workers], return_counts=True)
        share = float((workers / cluster.gpus[used]).min())
        return tuple(replace(stage, weight=share) for stage in stages)

    @property
    def _shared(self) -> Ints | None:
        """GPUs of each server, if the allocator gives coflows bandwidth in proportion to GPUs."""
        return self._cluster.gpus if self._fabric.allocator.reserves_gpus else None


def _slowed_and_placed(slow: Callable[[tuple[Stage, ...]], tuple[Stage, ...]],
                       servers: Ints, intra: float, shared: Ints | None,
                       stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    return placed_stages(slow(stages), servers, intra, shared)


def _given(stages: tuple[Stage, ...], _: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Ignore drawn stages in favour of those known beforehand."""
    return stages
