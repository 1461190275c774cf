"""Read the Tiresias CSV as jobs of a cluster, with its GPUs and durations but new iterations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from netsim.traces.cluster.construction import (
    NO_GPU,
    NO_TIME,
    ClusterConstruction,
    ClusterJobs,
    Codes,
    JobCollector,
    TraceWorkload,
)
from netsim.traces.cluster.tables import COUNT, SECONDS, read_table

COLUMNS = ("num_gpu", "submit_time", "model_name", "duration")


def read_tiresias_cluster(path: str | Path, *, seed: int = 0, **construction: Any
                          ) -> TraceWorkload:
    """Read the Tiresias trace (CSV) as jobs that train models.

    Parameters
    ----------
    path : path-like
        The file.
    seed : int
        Seed of the workload, also used to draw the models of groups.
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
    return build.of_file(tiresias_jobs(path), path, seed)


def tiresias_jobs(path: str | Path) -> ClusterJobs:
    """Read the jobs of a trace in the format of Tiresias' ``60_job.csv``, and clean them.

    The header has ``num_gpu``, ``submit_time`` and ``duration`` (seconds) and ``model_name``, in
    any order; other columns are ignored, including the trace's own iterations. The trace does not
    name users, so all jobs belong to one user. A group is all jobs with the same model and number
    of GPUs. Jobs that requested no GPU and jobs with a duration of 0 are dropped, and counted
    under the first reason that applies.

    Parameters
    ----------
    path : path-like
        The file.

    Raises
    ------
    TraceError
        If the file cannot be read.
    TraceProblemsError
        If the file's contents are invalid, with the line, or no job is left.
    """
    collector, groups = JobCollector(path), Codes()
    for rows in read_table(path, COLUMNS):
        gpus = rows.numbers("num_gpu", COUNT._replace(whole=True))
        duration = rows.numbers("duration", SECONDS)
        collector.add(
            {NO_GPU: gpus == 0, NO_TIME: duration == 0},
            submit_s=rows.numbers("submit_time", SECONDS), duration_s=duration, gpus=gpus,
            group=groups.of(zip(rows.cells["model_name"], gpus.tolist(), strict=True)),
            user=np.zeros(len(rows), dtype=np.int64))
    return collector.jobs()
