"""The coflow-benchmark format of the Facebook trace used in coflow papers: a coflow per line."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from netsim.base.files import stem_of
from netsim.base.limits import check_limit, most, raised_by
from netsim.base.reading import NumberRange, Problem, TraceProblemsError, read_text, split_lines
from netsim.base.streams import stream
from netsim.base.units import Quantity, parse_bytes, parse_rate
from netsim.base.values import as_whole, known_names, optional
from netsim.errors import NetsimWarning
from netsim.traces.files import as_factor
from netsim.workload import Flows, JobSpec, Stage, Workload

_LAYOUT = "id arrival_ms m mapper_1..mapper_m r reducer_1:MB_1..reducer_r:MB_r"
_NUMBER = re.compile(r"[+-]?(\d+(?:\.\d*)?|\.\d+)(e[+-]?\d{1,4})?", re.IGNORECASE | re.ASCII)


class CoflowRow(NamedTuple):
    """One line: a coflow from every mapper to every reducer."""

    line: int  #: counted from 1
    coflow_id: int  #: unique in the file
    arrival_ms: Decimal  #: since the start of the trace
    mappers: tuple[int, ...]  #: ports, counted from 0
    reducers: tuple[int, ...]
    megabytes: tuple[Decimal, ...]  #: what each reducer receives from all mappers


@known_names
def read_coflow_benchmark(
    path: str | Path,
    *,
    seed: int = 0,
    megabyte: str | float = "1MB",
    first_port: int = 0,
    arrival_scale: float = 1.0,
    limit: int | None = None,
    chain: int | None = None,
    deadline_factor: float | None = None,
    deadline_rate: Quantity = "1Gbps",
) -> Workload:
    """Read the Facebook trace of the coflow papers (a line per coflow).

    The first line is ``ports coflows``. Every other line is a coflow, ``id arrival_ms m mapper_1
    .. mapper_m r reducer_1:MB_1 .. reducer_r:MB_r``. Each reducer receives its megabytes in equal
    parts from all mappers, as one flow per mapper. Flows are ordered by reducer, then by mapper,
    in the order of the line. A port may be both a mapper and a reducer, or be listed twice, which
    makes separate flows.

    Each coflow becomes a job of its own with the coflow's id; rank k runs on host k, which is port
    k. In the published results, a flow from a port to itself uses the port: to reproduce them, set
    ``loopback_uses_ports`` on the network.

    Parameters
    ----------
    path : path-like
        The file.
    seed : int
        The workload's seed, used to draw deadlines. A coflow's deadline depends on the seed and
        its id only.
    megabyte : str or float
        The size of a megabyte in the trace; ``"1MiB"`` for 2**20 bytes.
    first_port : int
        The number of the first port; published files use 0 or 1.
    arrival_scale : float
        Factor by which arrival times are multiplied.
    limit : int, optional
        Read only the first `limit` coflows in order of arrival.
    chain : int, optional
        Combine every `chain` coflows, in order of (arrival, id), into one job; the last job may
        have fewer. A job has the id and the arrival of its first coflow. Each other coflow starts
        when the one before it has finished, and its own arrival is ignored.
    deadline_factor : float, optional
        The factor x of Varys (Section 7), which uses x = 1 by default: the deadline of each
        coflow that has bytes is (1 + U(0, x)) times its completion time alone on the network,
        where U is uniform. Without it, coflows have no deadlines.
    deadline_rate : quantity
        The rate of each port with which that completion time is computed.

    Warns
    -----
    NetsimWarning
        If the coflows are not in order of arrival; they are sorted.

    Raises
    ------
    TraceError
        If the file cannot be read.
    TraceProblemsError
        If the file's contents are invalid, with the line and the field.
    InputError
        If an option is out of range.
    """
    unit = Decimal(parse_bytes(megabyte, "megabyte", strict=True))
    first_port = as_whole(first_port, "first_port", most=most("ports"))
    first = None if limit is None else as_whole(limit, "limit", 1)
    links = 1 if chain is None else as_whole(chain, "chain", 1)
    arrival_scale = as_factor(arrival_scale, "arrival_scale")
    due = _deadlines(as_whole(seed, "seed"),
                     optional(as_factor)(deadline_factor, "deadline_factor"),
                     parse_rate(deadline_rate, "deadline_rate", strict=True))
    ports, rows, problems = parse_coflow_benchmark(read_text(path), first_port)
    if problems:
        raise TraceProblemsError(problems, path)
    rows = _in_order(rows, path)[:first]
    check_limit("flows", sum(len(row.mappers) * len(row.reducers) for row in rows), path)
    hosts = tuple(range(ports))
    jobs = [_job(rows[k:k + links], hosts, unit, arrival_scale, due)
            for k in range(0, len(rows), links)]
    return Workload(jobs, stem_of(path), seed=seed)


def scaled(value: Decimal, factor: Decimal, divisor: int) -> float:
    """Compute value * factor / divisor with one rounding, so that files can express any float."""
    exact = Context(prec=40)
    return float(exact.divide(exact.multiply(value, factor), divisor))


def _in_order(rows: list[CoflowRow], path: str | Path) -> list[CoflowRow]:
    """Sort coflows by arrival, with a warning if the file does not list them in this order."""
    late = [(row, before) for before, row in pairwise(rows)
            if row.arrival_ms < before.arrival_ms]
    if late:
        row, before = late[0]
        message = (f"arrival_ms {row.arrival_ms} comes after {before.arrival_ms}; "
                   "the coflows are sorted by arrival")
        warnings.warn(NetsimWarning(message, path, row.line), stacklevel=3)
    return sorted(rows, key=lambda row: (row.arrival_ms, row.coflow_id))


def _deadlines(
    seed: int, factor: float | None, rate: float
) -> Callable[[int, Flows], float | None]:
    """Make a function that draws a coflow's deadline (s) from its id and its flows."""
    def due(coflow_id: int, flows: Flows) -> float | None:
        if factor is None:
            return None
        busiest = max(np.bincount(port, flows.nbytes).max() for port in (flows.src, flows.dst))
        slack = stream(seed, "deadlines", coflow_id).uniform(0, factor)
        return float(busiest / rate * (1 + slack)) or None

    return due


def _job(
    rows: Sequence[CoflowRow],
    hosts: tuple[int, ...],
    unit: Decimal,
    scale: float,
    due: Callable[[int, Flows], float | None],
) -> JobSpec:
    stages: list[Stage] = []
    for row in rows:
        flows = _flows(row, unit)
        stages.append(Stage(str(row.coflow_id), flows, after=[stage.name for stage in stages[-1:]],
                            coflow_id=row.coflow_id, deadline_s=due(row.coflow_id, flows)))
    arrival_s = scaled(rows[0].arrival_ms, Decimal(1), 1000) * scale
    return JobSpec(rows[0].coflow_id, arrival_s, stages=stages, hosts=hosts)


def _flows(row: CoflowRow, unit: Decimal) -> Flows:
    mappers = len(row.mappers)
    sizes = [scaled(megabytes, unit, mappers) for megabytes in row.megabytes]
    return Flows(np.tile(row.mappers, len(sizes)), np.repeat(row.reducers, mappers),
                 np.repeat(sizes, mappers))


def parse_coflow_benchmark(
    text: str, first_port: int = 0
) -> tuple[int, list[CoflowRow], list[Problem]]:
    """Parse a trace that is not blank without raising: return its ports, coflows and problems.

    `first_port` is the number of the first port in the file. The coflows are in the order of the
    file, and are complete only if there are no problems.
    """
    problems: list[Problem] = []
    lines = [(n, line.split()) for n, line in enumerate(split_lines(text), 1) if line.strip()]
    (top, header), *others = lines
    if len(header) != 2:
        message = f"the header must be 'ports coflows', not {len(header)} fields"
        return 0, [], [Problem(top, message)]
    check = _Line(top, problems)
    ports = check.whole(header[0], "ports", 1, most("ports"), raised_by("ports")) or most("ports")
    coflows = check.whole(header[1], "coflows", 1)
    if coflows is not None and coflows != len(others):
        check.refuse(f"the header says {coflows} coflows, but {len(others)} follow")
    rows: list[CoflowRow] = []
    first_line: dict[int, int] = {}
    for number, fields in others:
        row = _row(_Line(number, problems), fields, first_port, ports)
        if row is None:
            continue
        before = first_line.setdefault(row.coflow_id, number)
        if before != number:
            message = f"id {row.coflow_id} was given already, on line {before}"
            problems.append(Problem(number, message))
        rows.append(row)
    return ports, rows, problems


class _Line:
    """Parses the fields of one line; an invalid field is recorded as a problem and gives None."""

    def __init__(self, number: int, problems: list[Problem]) -> None:
        self.line, self._problems = number, problems

    def refuse(self, message: str) -> None:
        self._problems.append(Problem(self.line, message))

    def number(self, text: str, field: str, allowed: NumberRange | None = None, hint: str = ""
               ) -> Decimal | None:
        allowed = allowed or NumberRange()
        value = float(text) if _NUMBER.fullmatch(text) else math.nan
        if allowed.number(value) is not None:
            return Decimal(text)
        self.refuse(f"{field} must be {allowed}, not {text!r}{hint * (value > allowed.most)}")
        return None

    def whole(self, text: str, field: str, least: int, most: float = 1e15, hint: str = ""
              ) -> int | None:
        value = self.number(text, field, NumberRange(least, most, whole=True), hint)
        return None if value is None else int(float(value))


def _row(line: _Line, fields: list[str], first_port: int, ports: int) -> CoflowRow | None:
    """Parse the fields of a coflow; None if any of them is invalid."""
    if len(fields) < 3:
        line.refuse(f"{len(fields)} fields, where a coflow has: {_LAYOUT}")
        return None
    coflow_id = line.whole(fields[0], "id", 0)
    arrival_ms = line.number(fields[1], "arrival_ms")
    split = _split(line, fields)
    if split is None:
        return None
    allowed = first_port, first_port + ports - 1
    mappers = [line.whole(text, f"mapper_{k}", *allowed) for k, text in enumerate(split[0], 1)]
    reducers: list[int | None] = []
    megabytes: list[Decimal | None] = []
    for k, text in enumerate(split[1], 1):
        port, colon, size = text.partition(":")
        if not colon:
            line.refuse(f"reducer_{k} must be port:MB, not {text!r}")
        reducers.append(line.whole(port, f"reducer_{k}", *allowed) if colon else None)
        megabytes.append(line.number(size, f"MB_{k}") if colon else None)
    if coflow_id is None or arrival_ms is None or None in (*mappers, *reducers, *megabytes):
        return None
    return CoflowRow(line.line, coflow_id, arrival_ms,
                     tuple(port - first_port for port in mappers if port is not None),
                     tuple(port - first_port for port in reducers if port is not None),
                     tuple(size for size in megabytes if size is not None))


def _split(line: _Line, fields: list[str]) -> tuple[list[str], list[str]] | None:
    """Split a line into fields of mappers and of reducers; None if m or r do not fit its length."""
    m = line.whole(fields[2], "m, the number of mappers,", 1)
    if m is None:
        return None
    if 3 + m >= len(fields):
        line.refuse(f"m is {m}, but only {len(fields) - 3} fields follow, including r")
        return None
    r = line.whole(fields[3 + m], f"r, the number of reducers after {m} mappers,", 1)
    if r is None:
        return None
    if 4 + m + r != len(fields):
        line.refuse(f"{len(fields)} fields, where {m} mappers and {r} reducers make {4 + m + r}")
        return None
    return fields[3:3 + m], fields[4 + m:]


def coflow_benchmark_facts(workload: Workload) -> list[tuple[str, float]]:
    """List the facts that `check_trace` reports for this format, as (label, value)."""
    coflows = [stage.flows for job in workload for stage in job.stages if stage.flows is not None]
    widths = [len(flows) for flows in coflows]
    return [
        ("ports", max(len(job.hosts or ()) for job in workload)),
        ("jobs", len(workload)),
        ("coflows", len(coflows)),
        ("flows", sum(widths)),
        ("flows from a port to itself", sum(int((each.src == each.dst).sum())
                                            for each in coflows)),
        ("MB in total", sum(float(flows.nbytes.sum()) for flows in coflows) / 1e6),
        ("flows per coflow, median", median(widths)),
        ("flows per coflow, most", max(widths)),
        ("first arrival (s)", workload.jobs[0].arrival_s),
        ("last arrival (s)", workload.jobs[-1].arrival_s),
    ]
