"""The samples of Alibaba PAI's jobs that its simulator runs, ``pai_job_*_100K.csv``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from netsim.traces.cluster.columns import (
    NO_GPU,
    NO_SUBMIT,
    NO_TIME,
    UNFINISHED,
    ClusterJobs,
    Codes,
    Intake,
    gpus_of,
)
from netsim.traces.cluster.construction import ClusterConstruction, TraceWorkload
from netsim.traces.cluster.tables import COUNT, SECONDS, read_table

__all__ = ["ROUNDED", "pai_sample_jobs", "read_pai_sample"]

#: What is noted of jobs with a part of a GPU.
ROUNDED = "a part of a GPU, rounded up to whole ones"

_COLUMNS = ("num_inst", "submit_time", "num_gpu", "gpu_type", "duration", "user")


def read_pai_sample(path: str | Path, *, seed: int = 0, **construction: Any) -> TraceWorkload:
    """Read samples of Alibaba PAI's jobs, as for its simulator (CSV), as jobs that train models.

    Parameters
    ----------
    path : path-like
        The file, such as ``pai_job_no_estimate_100K.csv``.
    seed : int
        As `ClusterConstruction.workload`.
    **construction
        The fields of `ClusterConstruction`.

    Raises
    ------
    TraceError
        If the file cannot be read.
    TraceProblemsError
        If its contents are wrong, with the line, or no job is left.
    InputError
        If an option is out of range.
    """
    build = ClusterConstruction(**construction)
    return build.of_file(pai_sample_jobs(path), path, seed)


def pai_sample_jobs(path: str | Path) -> ClusterJobs:
    """Return the jobs of a sample of Alibaba PAI's jobs that are left after cleaning.

    The header has ``num_inst``, ``submit_time`` and ``duration`` (seconds), ``num_gpu`` (of each
    instance, perhaps a part of one), ``gpu_type`` and ``user``, in any order; other columns are
    not read, but for ``group``, which ``pai_job_duration_estimate_100K.csv`` has. Where there is
    no such column, or nothing in it, a group is all jobs of a user with the same numbers of
    instances and GPUs and the same type.

    A job has ``num_inst * num_gpu`` GPUs, rounded up to whole ones, which is noted. Dropped, and
    counted under the first that holds, are jobs

    - without a time of submission;
    - without a duration;
    - that asked for no GPU: jobs of CPUs alone;
    - that ran no time: a duration of 0.

    Parameters
    ----------
    path : path-like
        The file.

    Raises
    ------
    TraceError
        If the file cannot be read.
    TraceProblemsError
        If its contents are wrong, with the line, or no job is left.
    """
    intake, groups, users = Intake(path), Codes(), Codes()
    for rows in read_table(path, _COLUMNS, ("group",)):
        submit = rows.numbers("submit_time", SECONDS, blank=True)
        duration = rows.numbers("duration", SECONDS, blank=True)
        instances = rows.numbers("num_inst", COUNT, blank=True)
        shares = rows.numbers("num_gpu", COUNT, blank=True)
        # As their simulator does: where nothing is said of instances, there is one.
        gpus, rounded = gpus_of(np.where(np.isnan(instances), 1.0, instances) * shares)
        like = rows.texts("user", "num_inst", "num_gpu", "gpu_type")
        names = like if not rows.has("group") else (
            tag or other for tag, other in zip(rows.cells["group"], like, strict=True))
        intake.add(
            {NO_SUBMIT: np.isnan(submit), UNFINISHED: np.isnan(duration), NO_GPU: gpus == 0,
             NO_TIME: duration == 0},
            {ROUNDED: rounded},
            submit_s=submit, duration_s=duration, gpus=gpus, group=groups.of(names),
            user=users.of(rows.cells["user"]))
    return intake.jobs()
