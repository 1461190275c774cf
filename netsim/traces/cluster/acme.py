"""Read the trace of Shanghai AI Lab's Acme clusters, ``trace_*.csv`` (Hu et al., NSDI '24)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from netsim.traces.cluster.columns import ClusterJobs
from netsim.traces.cluster.construction import ClusterConstruction, TraceWorkload
from netsim.traces.cluster.helios import scheduled_jobs

ACME_COLUMNS = ("user", "node_num", "gpu_num", "cpu_num", "type", "state", "submit_time",
                "start_time", "end_time")


def read_acme(path: str | Path, *, seed: int = 0, failed: bool = False, **construction: Any
              ) -> TraceWorkload:
    """Read a ``trace_seren.csv`` or ``trace_kalos.csv`` of Acme as jobs that train models.

    Parameters
    ----------
    path : path-like
        The file.
    seed : int
        Seed of the workload, also used to draw the models of groups.
    failed : bool
        As for `acme_jobs`.
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
    return build.of_file(acme_jobs(path, failed=failed), path, seed)


def acme_jobs(path: str | Path, *, failed: bool = False) -> ClusterJobs:
    """Read the jobs of a ``trace_seren.csv`` or ``trace_kalos.csv``, and clean them.

    The header has ``user``, ``node_num``, ``gpu_num``, ``cpu_num``, ``type``, ``state``,
    ``submit_time``, ``start_time`` and ``end_time``, in any order; other columns are ignored. Times
    have the form ``2023-03-01 00:18:22+08:00``. A job runs from its start to its end: in the
    published rows of Kalos, ``duration`` has the time in the queue in it, in those of Seren it has
    not. The trace does not name jobs, so a group is all jobs of a user of the same ``type`` with
    the same numbers of GPUs, CPUs and nodes.

    Jobs are dropped as by `helios_jobs`.

    Parameters
    ----------
    path : path-like
        The file.
    failed : bool
        Whether to keep jobs that were ``CANCELLED``, ``FAILED``, ``TIMEOUT`` or ``NODE_FAIL``,
        which occupied their GPUs while they ran.

    Raises
    ------
    TraceError
        If the file cannot be read.
    TraceProblemsError
        If the file's contents are invalid, with the line, or no job is left.
    """
    return scheduled_jobs(path, ACME_COLUMNS,
                          ("user", "type", "gpu_num", "cpu_num", "node_num"), failed)
