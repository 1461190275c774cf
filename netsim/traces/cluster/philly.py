"""Read the Philly trace of Microsoft's GPU clusters, ``cluster_job_log`` (Jeon et al., ATC '19)."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from netsim.traces.cluster.columns import (
    FAILED,
    NO_GPU,
    NO_SUBMIT,
    NO_TIME,
    UNFINISHED,
    ClusterJobs,
    Codes,
    Intake,
)
from netsim.traces.cluster.construction import ClusterConstruction, TraceWorkload
from netsim.traces.cluster.entries import read_entries
from netsim.traces.cluster.options import flag
from netsim.traces.cluster.tables import seconds_of
from netsim.traces.problems import Problem, TraceProblemsError

_CHUNK = 1 << 12
_KEYS = ("status", "vc", "attempts", "submitted_time", "user")


class _Row(NamedTuple):
    """The parts of an entry that are used; missing times are ``""``."""

    line: int
    status: str
    vc: str
    user: str
    submit: str
    start: str
    end: str
    attempts: int
    gpus: int


def read_philly(path: str | Path, *, seed: int = 0, failed: bool = False, **construction: Any
                ) -> TraceWorkload:
    """Read a ``cluster_job_log`` (JSON) of Microsoft's Philly clusters as jobs that train models.

    Parameters
    ----------
    path : path-like
        The file.
    seed : int
        Seed of the workload, also used to draw the models of groups.
    failed : bool
        As for `philly_jobs`.
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
    return build.of_file(philly_jobs(path, failed=failed), path, seed)


def philly_jobs(path: str | Path, *, failed: bool = False) -> ClusterJobs:
    """Read the jobs of a ``cluster_job_log``, and clean them.

    The file is one JSON array; an entry has ``status``, ``vc``, ``user``, ``submitted_time`` and
    ``attempts``, a list of ``start_time``, ``end_time`` and ``detail``, which is a list of
    servers with the names of their ``gpus``. Times have the form ``2017-10-07 01:12:09``, in a
    time zone with daylight saving: jobs that run while it ends appear an hour shorter.

    As in the publishers' analysis, a job has the GPUs of its first attempt, and runs from the
    start of its first attempt to the end of its last. The trace does not name recurring jobs, so
    a group is all jobs of a user in a virtual cluster (``vc``) with the same number of GPUs. The
    following jobs are dropped, and counted under the first reason that applies:

    - jobs without a submission time;
    - jobs without attempts;
    - jobs whose first attempt has no start or whose last has no end (as they still ran), or whose
      status is not one of the trace's three;
    - jobs that were ``Killed`` or ``Failed``, unless `failed` is set;
    - jobs without GPUs;
    - jobs with a duration of 0 or less.

    Parameters
    ----------
    path : path-like
        The file.
    failed : bool
        Whether to keep jobs that were ``Killed`` or ``Failed``, which occupied their GPUs while
        they ran.

    Raises
    ------
    TraceError
        If the file cannot be read.
    TraceProblemsError
        If the file's contents are invalid, with the line on which the entry begins, or no job is
        left.
    """
    keep_failed = flag(failed, "failed")
    intake, groups, users = Intake(path), Codes(), Codes()
    entries = (_row(line, entry, path) for line, entry in read_entries(path))
    while rows := list(islice(entries, _CHUNK)):
        submit, start, end = (_seconds(rows, name, path) for name in ("submit", "start", "end"))
        gpus = np.array([row.gpus for row in rows])
        status = np.array([row.status for row in rows], dtype=object)
        intake.add(
            {NO_SUBMIT: np.isnan(submit),
             "no attempt": np.array([row.attempts == 0 for row in rows]),
             UNFINISHED: np.isnan(start + end) | ~np.isin(status, ("Pass", "Killed", "Failed")),
             FAILED: (status != "Pass") & (not keep_failed),
             NO_GPU: gpus == 0,
             NO_TIME: end <= start},
            submit_s=submit, duration_s=end - start, gpus=gpus,
            group=groups.of((row.user, row.vc, row.gpus) for row in rows),
            user=users.of(row.user for row in rows))
    return intake.jobs()


def _seconds(rows: list[_Row], name: str, path: str | Path) -> np.ndarray[Any, Any]:
    """Parse a column of dates into seconds since 1970; NaN where the date is missing."""
    cells = [getattr(row, name) for row in rows]
    values, good = seconds_of(cells)
    if not good.all():
        raise TraceProblemsError(
            [Problem(rows[row].line, f"the {name} must be a time such as '2017-10-07 01:12:09', "
                     f"not {reprlib.repr(cells[row])}") for row in np.flatnonzero(~good)[:10]],
            path)
    return values


def _row(line: int, entry: Any, path: str | Path) -> _Row:
    """Extract the parts of an entry that are used, or raise an error with its problems."""
    problems = list(_problems(entry))
    if problems:
        raise TraceProblemsError([Problem(line, message) for message in problems], path)
    attempts = entry["attempts"]
    first, last = (attempts[0], attempts[-1]) if attempts else ({}, {})
    return _Row(line, entry["status"], entry["vc"], entry["user"], entry["submitted_time"] or "",
                first.get("start_time") or "", last.get("end_time") or "", len(attempts),
                sum(len(server["gpus"]) for server in first.get("detail", ())))


def _problems(entry: Any) -> Iterator[str]:
    """Yield the error messages for an entry."""
    if not isinstance(entry, dict):
        yield f"an entry must be an object with {', '.join(_KEYS)}, not {reprlib.repr(entry)}"
        return
    missing = [key for key in _KEYS if key not in entry]
    for key in missing:
        yield (f"the key {key!r} is missing; the entry has: "
               f"{', '.join(map(repr, entry)) or 'nothing'}")
    if missing:
        return
    for key in ("status", "vc", "user"):
        if not isinstance(entry[key], str):
            yield f"{key} must be a string, not {reprlib.repr(entry[key])}"
    if not isinstance(entry["submitted_time"], str | None):
        yield f"submitted_time must be a string, not {reprlib.repr(entry['submitted_time'])}"
    if not isinstance(entry["attempts"], list):
        yield f"attempts must be a list, not {reprlib.repr(entry['attempts'])}"
        return
    for number, attempt in enumerate(entry["attempts"]):
        yield from _attempt_problems(attempt, f"attempts[{number}]")


def _attempt_problems(attempt: Any, where: str) -> Iterator[str]:
    if not isinstance(attempt, dict) or not {"start_time", "end_time", "detail"} <= set(attempt):
        yield (f"{where} must be an object with start_time, end_time, detail, not "
               f"{reprlib.repr(attempt)}")
        return
    for key in ("start_time", "end_time"):
        if not isinstance(attempt[key], str | None):
            yield f"{where}.{key} must be a string, not {reprlib.repr(attempt[key])}"
    servers = attempt["detail"]
    if not isinstance(servers, list) or not all(
            isinstance(server, dict) and isinstance(server.get("gpus"), list)
            for server in servers):
        yield (f"{where}.detail must be a list of objects with a list of gpus, not "
               f"{reprlib.repr(servers)}")
