"""Philly: jobs of Microsoft's GPU clusters, ``cluster_job_log`` (Jeon et al., ATC '19)."""

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

__all__ = ["philly_jobs", "read_philly"]

_CHUNK = 1 << 12
_KEYS = ("status", "vc", "attempts", "submitted_time", "user")


class _Row(NamedTuple):
    """What is of interest of an entry; times are empty where nothing is."""

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
        As `ClusterConstruction.workload`.
    failed : bool
        As `philly_jobs`.
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
    return build.of_file(philly_jobs(path, failed=failed), path, seed)


def philly_jobs(path: str | Path, *, failed: bool = False) -> ClusterJobs:
    """Return the jobs of a ``cluster_job_log`` that are left after cleaning.

    The file is one JSON array; an entry has ``status``, ``vc``, ``user``, ``submitted_time`` and
    ``attempts``, a list of ``start_time``, ``end_time`` and ``detail``, which is a list of
    servers with the names of their ``gpus``. Times are as ``2017-10-07 01:12:09``, of one zone
    with summer time: a job that runs when that ends is taken to run an hour less.

    As its publishers do, a job has the GPUs of its first attempt, and runs from the first one's
    start to the last one's end. The trace has no names of jobs that recur, and so a group is all
    jobs of a user in a virtual cluster (``vc``) on as many GPUs. Dropped, and counted under the
    first that holds, are jobs

    - without a time of submission;
    - without attempts;
    - whose first attempt has no start or whose last has no end (they still ran), or whose status
      is none of the three of the trace;
    - that were ``Killed`` or ``Failed``, unless `failed`;
    - without GPUs;
    - that ran no time, or less.

    Parameters
    ----------
    path : path-like
        The file.
    failed : bool
        Keep jobs that were ``Killed`` or ``Failed`` too: they had their GPUs for as long as they
        ran.

    Raises
    ------
    TraceError
        If the file cannot be read.
    TraceProblemsError
        If its contents are wrong, with the line on which the entry begins, or no job is left.
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
             "no attempt to run": np.array([row.attempts == 0 for row in rows]),
             UNFINISHED: np.isnan(start + end) | ~np.isin(status, ("Pass", "Killed", "Failed")),
             FAILED: (status != "Pass") & (not keep_failed),
             NO_GPU: gpus == 0,
             NO_TIME: end <= start},
            submit_s=submit, duration_s=end - start, gpus=gpus,
            group=groups.of((row.user, row.vc, row.gpus) for row in rows),
            user=users.of(row.user for row in rows))
    return intake.jobs()


def _seconds(rows: list[_Row], name: str, path: str | Path) -> np.ndarray[Any, Any]:
    cells = [getattr(row, name) for row in rows]
    values, good = seconds_of(cells)
    if not good.all():
        raise TraceProblemsError(
            [Problem(rows[row].line, f"the {name} must be a time such as '2017-10-07 01:12:09', "
                     f"not {reprlib.repr(cells[row])}") for row in np.flatnonzero(~good)[:10]],
            path)
    return values


def _row(line: int, entry: Any, path: str | Path) -> _Row:
    """Return what is of interest of an entry.

    Raises
    ------
    TraceProblemsError
        If it is not as it must be.
    """
    problems = list(_problems(entry))
    if problems:
        raise TraceProblemsError([Problem(line, message) for message in problems], path)
    attempts = entry["attempts"]
    first, last = (attempts[0], attempts[-1]) if attempts else ({}, {})
    return _Row(line, entry["status"], entry["vc"], entry["user"], entry["submitted_time"] or "",
                first.get("start_time") or "", last.get("end_time") or "", len(attempts),
                sum(len(server["gpus"]) for server in first.get("detail", ())))


def _problems(entry: Any) -> Iterator[str]:
    """Yield what is wrong with an entry."""
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
