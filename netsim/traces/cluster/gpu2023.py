"""Read the trace of Alibaba's GPU cluster of 2023, ``openb_*.csv`` (Weng et al., ATC '23)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.brief import brief
from netsim.base.values import as_flag
from netsim.traces.cluster.construction import (
    FAILED,
    NO_GPU,
    NO_SUBMIT,
    NO_TIME,
    UNFINISHED,
    ClusterConstruction,
    ClusterJobs,
    Codes,
    JobCollector,
    TraceWorkload,
    gpus_of,
)
from netsim.traces.cluster.pai import ROUNDED
from netsim.traces.cluster.tables import COUNT, SECONDS, read_table
from netsim.traces.files import NumberRange, Problem, TraceProblemsError

_ASKED = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos")
COLUMNS = (*_ASKED, "pod_phase", "creation_time", "deletion_time", "scheduled_time")


def read_gpu_v2023(path: str | Path, *, seed: int = 0, failed: bool = False, **construction: Any
                   ) -> TraceWorkload:
    """Read an ``openb_pod_list_*.csv`` of Alibaba's GPU cluster of 2023 as jobs that train models.

    Parameters
    ----------
    path : path-like
        The file.
    seed : int
        Seed of the workload, also used to draw the models of groups.
    failed : bool
        As for `gpu_v2023_jobs`.
    **construction
        The fields of `ClusterConstruction`.

    Raises
    ------
    TraceError
        If the file cannot be read.
    TraceProblemsError
        If the file's contents are invalid, with the line, or no job is left.
    InputError
        If an option is out of range.
    """
    build = ClusterConstruction(**construction)
    return build.of_file(gpu_v2023_jobs(path, failed=failed), path, seed)


def gpu_v2023_jobs(path: str | Path, *, failed: bool = False) -> ClusterJobs:
    """Read the pods of an ``openb_pod_list_*.csv`` as jobs, and clean them.

    The header has ``cpu_milli``, ``memory_mib``, ``num_gpu``, ``gpu_milli``, ``gpu_spec``,
    ``qos``, ``pod_phase`` and ``creation_time``, ``deletion_time`` and ``scheduled_time``
    (seconds), in any order; other columns are ignored. A job is submitted when its pod is
    created, and runs from the time at which the pod is scheduled until it is deleted. The trace
    does not name users, so all jobs belong to one user. A group is all pods with the same
    requests.

    A pod has ``num_gpu`` GPUs. A pod that requests a part of a GPU (``gpu_milli`` below 1000)
    gets a whole GPU, which is counted in ``notes``. The following pods are dropped, and counted
    under the first reason that applies:

    - pods without a creation time;
    - pods that were never scheduled or never deleted, or were ``Pending``;
    - pods that ``Failed``, unless `failed` is set;
    - pods that requested no GPU;
    - pods that did not run: deleted when they were scheduled, or before.

    Parameters
    ----------
    path : path-like
        The file.
    failed : bool
        Whether to keep pods that ``Failed``, which occupied their GPUs while they ran.

    Raises
    ------
    TraceError
        If the file cannot be read.
    TraceProblemsError
        If the file's contents are invalid, with the line, or no job is left.
    """
    keep_failed = as_flag(failed, "failed")
    collector, groups = JobCollector(path), Codes()
    for rows in read_table(path, COLUMNS):
        created, deleted, scheduled = (rows.numbers(f"{what}_time", SECONDS, blank=True)
                                       for what in ("creation", "deletion", "scheduled"))
        gpus, _ = gpus_of(rows.numbers("num_gpu", COUNT._replace(whole=True)))
        milli = rows.numbers("gpu_milli", NumberRange(0, 1e9), blank=True)
        ended = rows.are("pod_phase", "Running", "Succeeded", "Failed")
        collector.add(
            {NO_SUBMIT: np.isnan(created),
             UNFINISHED: ~ended | np.isnan(deleted) | np.isnan(scheduled),
             FAILED: rows.are("pod_phase", "Failed") & (not keep_failed),
             NO_GPU: gpus == 0,
             NO_TIME: deleted <= scheduled},
            {ROUNDED: (gpus == 1) & (milli < 1000)},
            submit_s=created, duration_s=deleted - scheduled, gpus=gpus,
            group=groups.of(rows.texts(*_ASKED)), user=np.zeros(len(rows), dtype=np.int64))
    return collector.jobs()


@dataclass(frozen=True, slots=True, eq=False)
class GpuNodes:
    """The servers of a cluster."""

    name: tuple[str, ...]
    model: tuple[str, ...]  #: of the GPUs; ``""`` for servers without GPUs
    gpus: NDArray[np.int64]  #: number on each server

    __repr__ = brief

    def __len__(self) -> int:
        return len(self.name)

    def sizes(self) -> dict[int, int]:
        """Count the servers by number of GPUs."""
        return dict(sorted(Counter(self.gpus.tolist()).items()))


def gpu_v2023_nodes(path: str | Path) -> GpuNodes:
    """Read the servers of an ``openb_node_list_*.csv``, with and without GPUs.

    The header has ``sn``, ``gpu`` and ``model``, in any order; other columns are ignored.
    """
    names: list[str] = []
    models: list[str] = []
    gpus: list[float] = []
    for rows in read_table(path, ("sn", "gpu", "model")):
        names += rows.cells["sn"]
        models += rows.cells["model"]
        gpus += rows.numbers("gpu", COUNT._replace(whole=True)).tolist()
    if not names:
        raise TraceProblemsError([Problem(None, "holds no servers")], path)
    return GpuNodes(tuple(names), tuple(models), np.array(gpus, dtype=np.int64))
