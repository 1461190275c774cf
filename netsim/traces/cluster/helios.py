"""Read the traces of SenseTime's Helios and Shanghai AI Lab's Acme, which have the same form.

Helios' is ``cluster_log.csv`` (Hu et al., SC '21), Acme's ``trace_*.csv`` (Hu et al., NSDI '24).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

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
)
from netsim.traces.cluster.tables import COUNT, SECONDS, read_table

# --- Helios --------------------------------------------------------------------------------

HELIOS_COLUMNS = ("user", "vc", "gpu_num", "cpu_num", "node_num", "state", "submit_time",
                  "start_time", "end_time", "duration")


def read_helios(path: str | Path, *, seed: int = 0, failed: bool = False, **construction: Any
                ) -> TraceWorkload:
    """Read a ``cluster_log.csv`` of SenseTime's Helios clusters as jobs that train models.

    Parameters
    ----------
    path : path-like
        The file.
    seed : int
        Seed of the workload, also used to draw the models of groups.
    failed : bool
        As for `helios_jobs`.
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
    return build.of_file(helios_jobs(path, failed=failed), path, seed)


def helios_jobs(path: str | Path, *, failed: bool = False) -> ClusterJobs:
    """Read the jobs of a ``cluster_log.csv``, and clean them.

    The header has ``user``, ``vc``, ``gpu_num``, ``cpu_num``, ``node_num``, ``state``,
    ``submit_time``, ``start_time``, ``end_time`` and ``duration`` (seconds, without the time in
    the queue), in any order; other columns are ignored. Times have the form
    ``2020-06-09 18:41:01``, without a time zone. The trace does not name jobs, so a group is all
    jobs of a user in a virtual cluster (``vc``) with the same numbers of GPUs, CPUs and nodes.

    The following jobs are dropped, and counted under the first reason that applies:

    - jobs without a submission time;
    - jobs without start, end or duration, or whose state is not one of the trace's five;
    - jobs that failed or were cancelled (all but ``COMPLETED``), unless `failed` is set;
    - jobs that requested no GPU, which used CPUs only;
    - jobs with a duration of 0.

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
    return scheduled_jobs(path, HELIOS_COLUMNS,
                          ("user", "vc", "gpu_num", "cpu_num", "node_num"), failed)


def scheduled_jobs(path: str | Path, columns: Sequence[str], group: Sequence[str], failed: bool
                   ) -> ClusterJobs:
    """Read jobs with times, states and numbers of GPUs from a scheduler's table; see `helios_jobs`.

    The jobs of a group have the columns `group` in common. Without a column ``duration``, a job
    runs from its start to its end.
    """
    keep_failed = as_flag(failed, "failed")
    collector, groups, users = JobCollector(path), Codes(), Codes()
    for rows in read_table(path, columns):
        submit, start, end = (rows.times(f"{what}_time") for what in ("submit", "start", "end"))
        duration = (rows.numbers("duration", SECONDS, blank=True) if rows.has("duration")
                    else end - start)
        gpus = rows.numbers("gpu_num", COUNT._replace(whole=True))
        ended = rows.are("state", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL")
        collector.add(
            {NO_SUBMIT: np.isnan(submit),
             UNFINISHED: ~ended | np.isnan(start + end + duration),
             FAILED: ~rows.are("state", "COMPLETED") & (not keep_failed),
             NO_GPU: gpus == 0,
             NO_TIME: duration <= 0},
            submit_s=submit, duration_s=duration, gpus=gpus, user=users.of(rows.cells["user"]),
            group=groups.of(rows.texts(*group)))
    return collector.jobs()


# --- Acme ----------------------------------------------------------------------------------

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
