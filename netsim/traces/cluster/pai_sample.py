"""Read samples of Alibaba PAI's jobs made for its simulator, ``pai_job_*_100K.csv``."""

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

#: The key of `ClusterJobs.notes` for jobs that request a fraction of a GPU.
ROUNDED = "a fraction of a GPU, rounded up"

COLUMNS = ("num_inst", "submit_time", "num_gpu", "gpu_type", "duration", "user")


def read_pai_sample(path: str | Path, *, seed: int = 0, **construction: Any) -> TraceWorkload:
    """Read a sample of Alibaba PAI's jobs, as its simulator uses (CSV), as jobs that train models.

    Parameters
    ----------
    path : path-like
        The file, such as ``pai_job_no_estimate_100K.csv``.
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
    return build.of_file(pai_sample_jobs(path), path, seed)


def pai_sample_jobs(path: str | Path) -> ClusterJobs:
    """Read a sample of Alibaba PAI's jobs, and clean them.

    The header has ``num_inst``, ``submit_time`` and ``duration`` (seconds), ``num_gpu`` (GPUs or
    a fraction of one, per instance), ``gpu_type`` and ``user``, in any order. The column
    ``group``, which ``pai_job_duration_estimate_100K.csv`` has, is optional; other columns are
    ignored. Without this column, or where it is blank, a group is all jobs of a user with the
    same numbers of instances and GPUs and the same type of GPU.

    A job has ``num_inst * num_gpu`` GPUs, rounded up to whole ones, which is counted in
    ``notes``. The following jobs are dropped, and counted under the first reason that applies:

    - jobs without a submission time;
    - jobs without a duration;
    - jobs that requested no GPU, which used CPUs only;
    - jobs with a duration of 0.

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
    intake, groups, users = Intake(path), Codes(), Codes()
    for rows in read_table(path, COLUMNS, ("group",)):
        submit = rows.numbers("submit_time", SECONDS, blank=True)
        duration = rows.numbers("duration", SECONDS, blank=True)
        instances = rows.numbers("num_inst", COUNT, blank=True)
        shares = rows.numbers("num_gpu", COUNT, blank=True)
        # As in Alibaba's simulator, a blank number of instances means one.
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
