"""Placed jobs run as coflows on the network.

Rings as `netsim.cluster.ring` has them; models as `netsim.jobs.patterns.mixed` says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.cluster.cluster import Cluster
from netsim.cluster.contention import Contention
from netsim.cluster.placed import placed_model, placed_stages, ring_of, servers_of_model
from netsim.cluster.ring import RingLayout, ring_stages
from netsim.fabric.coflow_event import CoflowEvent
from netsim.fabric.fabric import Fabric
from netsim.jobs.plan import JobPlan, delayed
from netsim.jobs.process import JobProcess, JobRecorder
from netsim.jobs.stragglers import slowed_job
from netsim.workload import JobSpec, Stage

__all__ = ["CoflowExecution"]


class CoflowExecution:
    """Jobs compute, and send what crosses servers over the network; see `Execution`.

    Rings are laid from server to server. Of other jobs, rank i is on the i-th GPU that the job has,
    but that the GPUs of each stage of a model are taken server by server.

    Parameters
    ----------
    env : simpy.Environment
    fabric : Fabric
        Of the cluster's network.
    cluster : Cluster
    jobs : sequence of JobSpec
    model : Contention
        Of which `xi2` and `reduce` count; what jobs wait for each other is the fabric's to say.
    recorder : JobRecorder
    capacity : ndarray of float, shape (links,)
        The most that each link ever has, in bytes per second.
    factors : ndarray of float, shape (servers,)
        How many times as long each server takes to compute.
    seed : int
        The workload's, for the sizes that patterns draw.

    Attributes
    ----------
    processes : dict of int to JobProcess
        Of jobs that have started, by place.
    """

    def __init__(self, env: Any, fabric: Fabric, cluster: Cluster, jobs: Sequence[JobSpec],
                 model: Contention, recorder: JobRecorder, capacity: NDArray[np.float64],
                 factors: NDArray[np.float64], seed: int = 0) -> None:
        self._env, self._fabric, self._cluster, self._jobs = env, fabric, cluster, jobs
        self._model, self._recorder, self._capacity = model, recorder, capacity
        self._factors, self._seed = factors, seed
        self._ended: dict[int, Callable[[int], None]] = {}
        self.processes: dict[int, JobProcess] = {}

    def start(self, job: int, gpus: NDArray[np.int64], ended: Callable[[int], None]) -> None:
        """Let a job run from now on; see `Execution.start`."""
        self._ended[job] = ended
        plan = self._plan(self._jobs[job], gpus)
        if job in self.processes:
            self.processes[job].resume(plan)
            return
        self.processes[job] = JobProcess(self._env, self._fabric, job, self._env.now,
                                         lambda _: plan, self, waited_for=True)

    def stop(self, job: int) -> float:
        """Stop a job; see `Execution`."""
        process = self.processes[job]
        before = process.lost_s
        process.stop()
        return process.lost_s - before

    def _plan(self, job: JobSpec, gpus: NDArray[np.int64]) -> JobPlan:
        """Return what a job does on its GPUs, from now on."""
        servers = self._cluster.server_of[gpus]
        factors = self._factors[servers]
        if job.model is None and ring_of(job) is not None:
            layout = RingLayout(zip(servers.tolist(),
                                    (gpus - self._cluster.first[servers]).tolist(), strict=True))
            slowed = replace(job, compute_s=job.compute_s * float(factors.max()))
            return self._plan_of(job, layout.servers, stages=self._ring_stages(slowed, layout),
                                 pattern=None, ranks=len(layout.servers), compute_s=0.0,
                                 redraw=False)
        job, slow = slowed_job(job, factors)
        model, intra, shared = job.model, self._cluster.intra, self._shared
        if model is None:
            return self._plan_of(job, servers.tolist(), lambda stages: placed_stages(
                slow(stages), servers, intra, shared))
        servers = servers_of_model(model, servers)
        # Of its stages it is known what they are, by which the analytic model charges them.
        stages = delayed(placed_model(model, servers, intra, shared), job.compute_s)
        return self._plan_of(job, servers.tolist(), lambda _: stages)

    def _plan_of(self, job: JobSpec, hosts: Sequence[int],
                 placed: Callable[[tuple[Stage, ...]], tuple[Stage, ...]] = tuple, **changed: Any
                 ) -> JobPlan:
        spec = replace(job, arrival_s=self._env.now, hosts=hosts, **changed)
        return JobPlan(spec, self._fabric.network, hosts, self._seed, self._capacity, placed)

    def _ring_stages(self, job: JobSpec, ring: RingLayout) -> tuple[Stage, ...]:
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
    def _shared(self) -> NDArray[np.int64] | None:
        """The GPUs of each server, if the allocator gives coflows the part that GPUs have."""
        return self._cluster.gpus if self._fabric.allocator.reserves_gpus else None

    # --- what job processes tell ----------------------------------------------------------

    def coflow_finished(self, job: JobProcess, stage: int, transfer: CoflowEvent, finish: float
                        ) -> None:
        """Pass on that a coflow has completed."""
        self._recorder.coflow_finished(job, stage, transfer, finish)

    def job_finished(self, job: JobProcess) -> None:
        """Pass on that a job has completed, and give its GPUs back."""
        self._recorder.job_finished(job)
        self._ended.pop(job.index)(job.index)

    def chain_begun(self, job: int, stages: Sequence[Stage], places: Sequence[int]) -> None:
        """Pass on that a job is left to the fabric; no job is that somebody waits for."""
        self._recorder.chain_begun(job, stages, places)
