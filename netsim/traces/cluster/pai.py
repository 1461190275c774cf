"""Read the tables of Alibaba PAI's GPU cluster of 2020 (Weng et al., NSDI '22)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Floats, Ints
from netsim.base.reading import NumberRange, Problem, TraceProblemsError, read_text
from netsim.base.values import as_flag
from netsim.traces.cluster.construction import ClusterConstruction, TraceWorkload
from netsim.traces.cluster.jobs import (
    ROUNDED,
    ClusterJobs,
    Codes,
    JobCollector,
    gpus_of,
    violations,
)
from netsim.traces.cluster.tables import COUNT, SECONDS, Chunk, read_table

#: The published headers, for tables without a ``.header`` file.
_HEADERS = {
    "pai_job_table": "job_name,inst_id,user,status,start_time,end_time",
    "pai_task_table": "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,"
                      "plan_gpu,gpu_type",
    "pai_instance_table": "job_name,task_name,inst_name,worker_name,inst_id,status,start_time,"
                          "end_time,machine",
    "pai_group_tag_table": "inst_id,user,gpu_type_spec,group,workload",
}

_PERCENT = NumberRange(0, 1e8)


def read_pai(path: str | Path, *, seed: int = 0, failed: bool = False, instances: bool = False,
             **construction: Any) -> TraceWorkload:
    """Read the tables of Alibaba PAI's GPU cluster of 2020 (CSV) as jobs that train models.

    Four tables are read from one folder, under their published names: ``pai_job_table.csv``,
    ``pai_task_table.csv``, ``pai_group_tag_table.csv`` and, with `instances`,
    ``pai_instance_table.csv``. The tables have no header; it is read from a file of the same name
    with the suffix ``.header``, and the published header is assumed if there is none. Times are
    numbers of seconds; 0 and blank cells are missing times. ``plan_gpu`` is in percent of a GPU.

    A job is submitted at its ``start_time``, and runs from the first start of its tasks until the
    last end. Its number of GPUs is the sum of ``inst_num * plan_gpu`` over its tasks, rounded up
    to whole GPUs, which is counted in ``notes``. Its group is the tag of its ``inst_id``. All jobs
    of a user without a tag are one group, as in the publishers' analysis. The following jobs are
    dropped, and counted under the first reason that applies:

    - jobs whose ``job_name`` occurred before;
    - jobs without a submission time;
    - jobs without task, start or end, or that are ``Running`` or ``Waiting``;
    - jobs that ``Failed``, unless `failed` is set: only ``Terminated`` means success;
    - jobs that requested no GPU, which used CPUs only;
    - jobs with a duration of 0 or less.

    Tables are read in chunks and joined by 64-bit digests of the names, so that only numbers are
    kept in memory. Rows of the other tables whose job is not in the job table are ignored.

    Parameters
    ----------
    path : path-like
        ``pai_job_table.csv``; the other tables must be in the same folder.
    seed : int
        Seed of the workload, also used to draw the models of groups.
    failed : bool
        Whether to keep jobs that ``Failed``, which occupied their GPUs while they ran.
    instances : bool
        Whether to take starts and ends from the table of instances, for jobs that it contains: a
        task may start before any of its instances runs.
    **construction
        The fields of `ClusterConstruction`.
    """
    build = ClusterConstruction(**construction)
    return build.of_file(pai_jobs(path, failed=failed, instances=instances), path, seed)


def pai_jobs(path: str | Path, *, failed: bool = False, instances: bool = False) -> ClusterJobs:
    """Read the jobs from the tables of Alibaba PAI's GPU cluster as columns; see `read_pai`."""
    keep_failed = as_flag(failed, "failed")
    with_instances = as_flag(instances, "instances")
    table = _PaiJobs(path)
    found = _Tasks(len(table.name))
    for rows in _read(path, "pai_task_table",
                      ("job_name", "inst_num", "start_time", "end_time", "plan_gpu")):
        found.add(table.places(rows), rows)
    start, end = found.start, found.end
    if with_instances:
        ran = _Tasks(len(table.name))
        for rows in _read(path, "pai_instance_table", ("job_name", "start_time", "end_time")):
            ran.add(table.places(rows), rows)
        known = np.isfinite(ran.start) & np.isfinite(ran.end)
        start, end = np.where(known, ran.start, start), np.where(known, ran.end, end)
    gpus, rounded = gpus_of(found.shares)
    finished = np.isfinite(start) & np.isfinite(end) & table.ended
    duration = np.where(np.isfinite(start), end - start, 0)
    violates = violations(table.submit, duration, gpus, finished,
                          table.failed & (not keep_failed))
    collector = JobCollector(path)
    collector.add({"duplicate job_name": table.again, **violates}, {ROUNDED: rounded},
                  submit_s=table.submit, duration_s=duration, gpus=gpus,
                  group=_groups(path, table), user=table.user)
    return collector.jobs()


def _read(path: str | Path, table: str, columns: Sequence[str]) -> Iterator[Chunk]:
    """Read one of the tables: the file at `path` for jobs, one beside it for the others."""
    file = Path(path) if table == "pai_job_table" else Path(path).parent / f"{table}.csv"
    beside = file.with_suffix(".header")
    header = _HEADERS[table] if not os.path.exists(beside) else read_text(beside)
    names = [name.strip() for name in header.strip().split(",")]
    missing = [Problem(1, f"missing column {name!r}; the header has: "
                       f"{', '.join(map(repr, names))}") for name in columns if name not in names]
    if missing:
        raise TraceProblemsError(missing, beside)
    return read_table(file, columns, header=names)


def _digests(names: Sequence[str]) -> NDArray[np.uint64]:
    """Compute reproducible 64-bit digests; of a million names, two collide once in 4e7 times."""
    from pandas.util import hash_array  # imported here because it takes a second to load

    digests: NDArray[np.uint64] = hash_array(np.array(names, dtype=object), categorize=False)
    return digests


class _PaiJobs:
    """The table of jobs, as columns with digests for names.

    `ended` jobs include those that `failed`; `again` marks jobs whose name is that of an earlier
    job.
    """

    def __init__(self, path: str | Path) -> None:
        users = Codes()
        parts = [
            (_digests(rows.cells["job_name"]), _digests(rows.cells["inst_id"]),
             _times(rows, "start_time"), users.of(rows.cells["user"]),
             rows.are("status", "Terminated", "Failed"), rows.are("status", "Failed"))
            for rows in _read(path, "pai_job_table",
                              ("job_name", "inst_id", "user", "status", "start_time"))]
        if not parts:
            raise TraceProblemsError([Problem(None, "holds no jobs")], path)
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        self.name, self.inst, self.submit, self.user, self.ended, self.failed = columns
        self._order = np.argsort(self.name, kind="stable")
        self._sorted = self.name[self._order]
        self.again = np.zeros(len(self.name), dtype=bool)
        self.again[self._order[1:]] = self._sorted[1:] == self._sorted[:-1]

    def places(self, rows: Chunk) -> Ints:
        """Find the index of the job to which each row belongs, by name; -1 if there is none."""
        digests = _digests(rows.cells["job_name"])
        at = np.minimum(np.searchsorted(self._sorted, digests), len(self._sorted) - 1)
        return np.where(self._sorted[at] == digests, self._order[at], -1)


def _times(rows: Chunk, name: str) -> Floats:
    """Parse a column of instants; NaN where the cell is blank or 0."""
    values = rows.numbers(name, SECONDS, blank=True)
    return np.where(values == 0, np.nan, values)


class _Tasks:
    """GPUs, first start and last end over the tasks, or the instances, of each job.

    Start and end are infinite if there is none.
    """

    def __init__(self, jobs: int) -> None:
        self.shares = np.zeros(jobs)
        self.start = np.full(jobs, np.inf)
        self.end = np.full(jobs, -np.inf)

    def add(self, places: Ints, rows: Chunk) -> None:
        """Add rows; `places` has the index of each row's job, or -1."""
        ours = places >= 0
        np.fmin.at(self.start, places[ours], _times(rows, "start_time")[ours])
        np.fmax.at(self.end, places[ours], _times(rows, "end_time")[ours])
        if rows.has("plan_gpu"):
            shares = (rows.numbers("inst_num", COUNT, blank=True)
                      * rows.numbers("plan_gpu", _PERCENT, blank=True) / 100)
            np.add.at(self.shares, places[ours], np.nan_to_num(shares[ours]))


def _groups(path: str | Path, table: _PaiJobs) -> Ints:
    """Number the group of each job: its tag or, without a tag, its user, after all tags."""
    tags = Codes()
    names, which = np.unique(table.inst, return_inverse=True)
    tag = np.full(len(names), -1, dtype=np.int64)
    for rows in _read(path, "pai_group_tag_table", ("inst_id", "group")):
        digests = _digests(rows.cells["inst_id"])
        at = np.minimum(np.searchsorted(names, digests), len(names) - 1)
        ours = (names[at] == digests) & ~rows.are("group", "")
        tag[at[ours]] = tags.of(name for name, mine in
                                zip(rows.cells["group"], ours.tolist(), strict=True) if mine)
    found = tag[which]
    return np.where(found >= 0, found, len(tags) + table.user)
