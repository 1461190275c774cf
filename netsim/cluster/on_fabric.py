"""Placed jobs run as coflows on the network: SJF-BCO's specification, Section 8."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.cluster.cluster import Cluster
from netsim.cluster.contention import Contention
from netsim.cluster.ring import RingLayout, ring_stages
from netsim.fabric.fabric import Fabric
from netsim.fabric.transfer import Transfer
from netsim.jobs.plan import JobPlan
from netsim.jobs.process import JobProcess, JobRecorder
from netsim.model import JobSpec, Stage

__all__ = ["OnFabric"]


class OnFabric:
    """Jobs compute, and exchange gradients over a ring of their servers; see `Execution`.

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

    Attributes
    ----------
    processes : dict of int to JobProcess
        Of jobs that have started, by place.
    """

    def __init__(self, env: Any, fabric: Fabric, cluster: Cluster, jobs: Sequence[JobSpec],
                 model: Contention, recorder: JobRecorder, capacity: NDArray[np.float64]
                 ) -> None:
        self._env, self._fabric, self._cluster, self._jobs = env, fabric, cluster, jobs
        self._model, self._recorder, self._capacity = model, recorder, capacity
        self._ended: dict[int, Callable[[int], None]] = {}
        self.processes: dict[int, JobProcess] = {}

    def start(self, job: int, gpus: NDArray[np.int64], ended: Callable[[int], None]) -> None:
        """Let a job run from now on; see `Execution.start`."""
        self._ended[job] = ended
        network = self._cluster.network
        spec = self._placed(self._jobs[job], gpus)
        self.processes[job] = JobProcess(
            self._env, self._fabric, job, self._env.now,
            lambda _: JobPlan(spec, network, spec.hosts or (), 0, self._capacity), self,
            waited_for=True)

    def _placed(self, job: JobSpec, gpus: NDArray[np.int64]) -> JobSpec:
        cluster, model = self._cluster, self._model
        servers = cluster.server_of[gpus]
        ring = RingLayout(zip(servers.tolist(), (gpus - cluster.first[servers]).tolist(),
                              strict=True))
        stages = ring_stages(ring, job.nbytes, compute_s=job.compute_s, server_s=model.xi2,
                             reduction=model.reduce, intra=cluster.intra)
        return JobSpec(job.id, arrival_s=self._env.now, iterations=job.iterations, stages=stages,
                       hosts=ring.servers, ranks=len(ring.servers), name=job.name)

    # --- what job processes tell ----------------------------------------------------------

    def coflow_finished(self, job: JobProcess, stage: int, transfer: Transfer, finish: float
                        ) -> None:
        """Pass on that a coflow has completed."""
        self._recorder.coflow_finished(job, stage, transfer, finish)

    def job_finished(self, job: JobProcess) -> None:
        """Pass on that a job has completed, and give its GPUs back."""
        self._recorder.job_finished(job)
        self._ended.pop(job.index)(job.index)

    def line_begun(self, job: int, stages: Sequence[Stage], places: Sequence[int]) -> None:
        """Pass on that a job is left to the fabric; no job is that somebody waits for."""
        self._recorder.line_begun(job, stages, places)
