"""Execution of placed jobs as coflows on the network.

Rings are those of `netsim.cluster.ring`; for models see `netsim.jobs.patterns.mixed`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.cluster.cluster import Cluster
from netsim.cluster.contention import Contention
from netsim.cluster.placed import placed_model, placed_stages, ring_of, servers_of_model
from netsim.cluster.ring import RingLayout, ring_stages
from netsim.fabric.coflow_event import CoflowEvent
from netsim.fabric.fabric_process import FabricProcess
from netsim.jobs.plan import JobPlan, delayed
from netsim.jobs.process import JobProcess, JobRecorder
from netsim.jobs.stragglers import slowed_job
from netsim.workload import JobSpec, Stage

__all__ = ["CoflowExecution"]


class CoflowExecution:
    """Jobs compute, and send traffic between servers over the network; see `Execution`.

    Rings connect one server to the next. In other jobs, rank i is on the i-th GPU of the job,
    except that the GPUs of each stage of a model are taken server by server.

    Parameters
    ----------
    env : simpy.Environment
    fabric : FabricProcess
        Fabric of the cluster's network.
    cluster : Cluster
    jobs : sequence of JobSpec
    model : Contention
        Only `xi2` and `reduce` matter, as the fabric simulates contention.
    recorder : JobRecorder
    capacity : ndarray of float, shape (links,)
        Largest capacity of each link during the run, in bytes per second.
    factors : ndarray of float, shape (servers,)
        Factor by which computation takes longer on each server.
    seed : int
        Seed of the workload, for the sizes that patterns draw.

    Attributes
    ----------
    processes : dict of int to JobProcess
        Processes of jobs that have started, by index.
    """

    def __init__(self, env: Any, fabric: FabricProcess, cluster: Cluster, jobs: Sequence[JobSpec],
                 model: Contention, recorder: JobRecorder, capacity: NDArray[np.float64],
                 factors: NDArray[np.float64], seed: int = 0) -> None:
        self._env, self._fabric, self._cluster, self._jobs = env, fabric, cluster, jobs
        self._model, self._recorder, self._capacity = model, recorder, capacity
        self._factors, self._seed = factors, seed
        self._ended: dict[int, Callable[[int], None]] = {}
        self.processes: dict[int, JobProcess] = {}

    def add_job(self, job: int, jobs: Sequence[JobSpec]) -> None:
        """Make place for a job that has not arrived; see `Execution`."""
        self._jobs = jobs

    def start(self, job: int, gpus: NDArray[np.int64], ended: Callable[[int], None]) -> None:
        """Start a job now; see `Execution.start`."""
        self._ended[job] = ended
        plan = self._plan(self._jobs[job], gpus)
        if job in self.processes:
            self.processes[job].resume(plan)
            return
        process = JobProcess(self._env, self._fabric, job, self._env.now, self, waited_for=True)
        self.processes[job] = process
        self._env.timeout(0).callbacks.append(partial(process.arrive, plan))

    def stop(self, job: int) -> float:
        """Stop a job; see `Execution`."""
        process = self.processes[job]
        before = process.lost_s
        process.stop()
        return process.lost_s - before

    def _plan(self, job: JobSpec, gpus: NDArray[np.int64]) -> JobPlan:
        """Return the plan of a job on its GPUs, from now on."""
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
            return self._plan_of(job, servers.tolist(), partial(
                _slowed_and_placed, slow, servers, intra, shared))
        servers = servers_of_model(model, servers)
        # The kinds of the stages are known, by which the analytic model charges them.
        stages = delayed(placed_model(model, servers, intra, shared), job.compute_s)
        return self._plan_of(job, servers.tolist(), partial(_given, stages))

    def _plan_of(self, job: JobSpec, hosts: Sequence[int],
                 placed: Callable[[tuple[Stage, ...]], tuple[Stage, ...]] = tuple, **changed: Any
                 ) -> JobPlan:
        """Return the plan of a job that is placed on hosts and arrives now."""
        spec = replace(job, arrival_s=self._env.now, hosts=hosts, **changed)
        return JobPlan(spec, self._fabric.network, hosts, self._seed, self._capacity, placed)

    def _ring_stages(self, job: JobSpec, ring: RingLayout) -> tuple[Stage, ...]:
        """Return the stages of a ring, weighted by the share of GPUs if the allocator needs it."""
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
        """GPUs of each server, if the allocator gives coflows bandwidth in proportion to GPUs."""
        return self._cluster.gpus if self._fabric.allocator.reserves_gpus else None

    # --- events of job processes ----------------------------------------------------------

    def coflow_finished(self, job: JobProcess, stage: int, transfer: CoflowEvent, finish: float
                        ) -> None:
        """Pass a completed coflow on to the recorder."""
        self._recorder.coflow_finished(job, stage, transfer, finish)

    def coflow_begun(self, job: JobProcess, stage: int) -> None:
        """Pass a coflow that is submitted on to the recorder."""
        self._recorder.coflow_begun(job, stage)

    def coflow_ended(self, job: JobProcess, stage: int, transfer: CoflowEvent | None) -> None:
        """Pass a coflow that has ended on to the recorder."""
        self._recorder.coflow_ended(job, stage, transfer)

    def job_finished(self, job: JobProcess) -> None:
        """Pass a completed job on to the recorder, and return its GPUs."""
        self._recorder.job_finished(job)
        self._ended.pop(job.index)(job.index)

    def chain_begun(self, job: int, stages: Sequence[Stage], places: Sequence[int]) -> None:
        """Pass a chain on to the recorder; never called, as these jobs have processes."""
        self._recorder.chain_begun(job, stages, places)


def _slowed_and_placed(slow: Callable[[tuple[Stage, ...]], tuple[Stage, ...]],
                       servers: NDArray[np.int64], intra: float, shared: NDArray[np.int64] | None,
                       stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    return placed_stages(slow(stages), servers, intra, shared)


def _given(stages: tuple[Stage, ...], _: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Return stages that are known already."""
    return stages
