"""Check a trace: list the facts about its workload, or every problem in the file."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from netsim.base.brief import brief
from netsim.base.units import question_units
from netsim.errors import NetsimWarning
from netsim.operations import Programs
from netsim.traces.files import Problem, TraceProblemsError
from netsim.traces.formats import format_of, resolve
from netsim.workload import JobSpec, Workload


@dataclass(frozen=True, slots=True)
class TraceReport:
    """Report of `check_trace` on one file: facts about its workload, or its problems."""

    path: str | Path  #: the file that was read, or the one that has the problems
    format: str  #: ``"toml"`` for an invalid workload file, ``"unknown"`` for an unknown table
    #: Labels, with the unit if there is one, and values; empty if there are problems.
    facts: tuple[tuple[str, float], ...]
    problems: tuple[Problem, ...]
    #: Contents that the reader changed, such as their order, and numbers of a doubtful unit.
    notices: tuple[Problem, ...] = ()
    #: Of a table of flows: the column that is read for each option.
    columns: Mapping[str, str] = field(default_factory=dict)
    unused: tuple[str, ...] = ()  #: its other columns

    __repr__ = brief


def check_trace(path: str | Path, format: str | None = None, **options: Any) -> TraceReport:
    """Read a trace as `read_workload` does, and report errors in it instead of raising them.

    Parameters
    ----------
    path, format, **options
        As for `read_workload`.

    Raises
    ------
    TraceError
        If the file does not exist, or is a folder.
    InputError
        If an argument is invalid.
    """
    name = format or ("toml" if str(path).endswith(".toml") else "unknown")
    seed = options.pop("seed", None)
    try:
        request = resolve(path, format, seed, options)
        name = request.format
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NetsimWarning)
            with question_units(again=True):
                workload = request.workload()
    except TraceProblemsError as error:
        return TraceReport(error.path or path, name, (), error.problems)
    used, unused = request.columns()
    facts = format_of(name).facts or _facts
    return TraceReport(request.path or path, name, tuple(facts(workload)), (), _notices(caught),
                       used, tuple(unused))


def _notices(caught: Iterable[warnings.WarningMessage]) -> tuple[Problem, ...]:
    """Select netsim's own warnings among those of a reader, and issue the others again."""
    notices = []
    for warning in caught:
        if isinstance(warning.message, NetsimWarning):
            notices.append(Problem(warning.message.line, warning.message.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename,
                                   warning.lineno)
    return tuple(notices)


def _facts(workload: Workload) -> list[tuple[str, float]]:
    """List the facts that are reported for formats without facts of their own."""
    jobs = workload.jobs
    facts: list[tuple[str, float]] = [("jobs", len(jobs))]
    if all(map(_is_known, jobs)):
        total = [sum(column) for column in zip(*map(_sent, jobs), strict=True)]
        facts += zip(("coflows", "flows", "bytes in total"), total, strict=True)
        facts += _spread("workers" if jobs[0].pattern else "hosts", [_width(job) for job in jobs])
    else:
        facts += _spread("ranks", [job.ranks for job in jobs])
    return [
        *facts,
        *_spread("iterations", [job.iterations for job in jobs]),
        ("first arrival (s)", jobs[0].arrival_s),
        ("last arrival (s)", jobs[-1].arrival_s),
    ]


def _spread(label: str, values: Sequence[int]) -> list[tuple[str, float]]:
    """List the minimum, the median and the maximum of `values` as facts."""
    return [
        (f"{label} per job, least", min(values)),
        (f"{label} per job, median", median(values)),
        (f"{label} per job, most", max(values)),
    ]


def _is_known(job: JobSpec) -> bool:
    """Whether a job's flows can be counted before it runs, unlike those of rings and models."""
    return bool(job.stages) or job.operations is not None or (isinstance(job.pattern, Mapping)
                                 and job.pattern.get("name") == "parameter-server"
                                 and "servers" in job.pattern)


def _sent(job: JobSpec) -> tuple[int, int, float]:
    """Count the coflows, flows and bytes of a job over all its iterations."""
    if job.operations is not None:
        made = job.operations.whole if isinstance(job.operations, Programs) else job.operations
        sends = made.sends[made.sends >= 0]
        sent = np.array([(len(each.flows), each.flows.nbytes.sum()) for each in made.sendings])
        flows_made, bytes_made = (sent.reshape(-1, 2)[sends].sum(axis=0) * job.iterations).tolist()
        return len(sends) * job.iterations, int(flows_made), bytes_made
    if job.pattern is None:
        coflows = [stage.flows for stage in job.stages if stage.flows is not None]
        flows = sum(len(coflow) for coflow in coflows)
        nbytes = sum(float(coflow.nbytes.sum()) for coflow in coflows)
        return len(coflows) * job.iterations, flows * job.iterations, nbytes * job.iterations
    # All workers push to all servers, then pull; sizes are uniform in (0, nbytes].
    coflows_sent = 2 * job.iterations
    flows_sent = coflows_sent * _width(job) * _servers(job)
    return coflows_sent, flows_sent, flows_sent * job.nbytes / 2


def _width(job: JobSpec) -> int:
    """Count a job's workers, or the hosts that its flows use."""
    if job.operations is not None:
        return job.ranks
    if job.pattern is not None:
        return job.ranks - _servers(job)
    used = [np.concatenate((stage.flows.src, stage.flows.dst))
            for stage in job.stages if stage.flows is not None]
    return len(np.unique(np.concatenate(used))) if used else 0


def _servers(job: JobSpec) -> int:
    pattern: Any = job.pattern
    return int(pattern["servers"])
