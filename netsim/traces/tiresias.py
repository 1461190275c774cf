"""Read the 60-job Tiresias trace of the Parrot paper, and make jobs of it (Section 6.1)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from netsim.base.files import stem_of, write_text
from netsim.base.plugins import parse_policy, refuse_code
from netsim.base.reading import NumberRange, Problem, TraceProblemsError, read_text, split_lines
from netsim.base.streams import stream
from netsim.base.units import SMALL_SIZE, Quantity, decimal, parse_bytes
from netsim.base.values import (
    MOST_ID,
    about,
    as_flag,
    as_whole,
    convert,
    known_names,
    optional,
    plain,
)
from netsim.errors import InputError
from netsim.traces.files import as_factor, delimiter_of
from netsim.workload import JobSpec, Workload


class TiresiasRow(NamedTuple):
    """One line of the trace: a training job."""

    job_id: int  #: unique in the trace
    num_gpu: int  #: asked for
    submit_time: float  #: seconds since the start of the trace
    iterations: int
    model_name: str
    duration: float  #: seconds of training on these GPUs
    interval: float  #: seconds until the next job was submitted


_WHOLE = NumberRange(1, 1e15, whole=True)
_ALLOWED = {
    "job_id": _WHOLE._replace(least=0),
    "num_gpu": _WHOLE,
    "submit_time": NumberRange(),
    "iterations": _WHOLE,
    "duration": NumberRange(least=1e-9),  # a divisor
    "interval": NumberRange(),
}


@known_names
@dataclass(frozen=True, slots=True, kw_only=True)
class Construction:
    """How rows of the trace become parameter-server jobs (Section 6.1).

    A job on ``num_gpu`` GPUs has ``W = ranks_per_gpu * num_gpu`` workers and ``P`` parameter
    servers, and pushes and pulls once per iteration. Flow sizes of job j are uniform in (0, L_j],
    where L_j = `length` * (duration/iterations)_j / max_k (duration/iterations)_k. The maximum is
    over all jobs k; durations and numbers of iterations are those of the trace.
    """

    iterations: int | None = None  #: of every job; the trace's own if None
    arrival_scale: float = 1.0  #: factor by which arrival times are multiplied
    #: Bytes of the largest possible flow of the job with the longest iterations.
    length: Quantity = "1000MB"
    servers: int | None = None  #: P of every job; W if None
    servers_max: int | None = None  #: instead of `servers`: P is uniform from 1 to this number
    redraw: bool = False  #: whether each iteration draws new flow sizes
    ranks_per_gpu: int = 2  #: workers per GPU
    #: Pattern of an iteration instead of pushes and pulls, as for `JobSpec`; it gets L_j bytes.
    pattern: str | Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        count = partial(as_whole, least=1, most=MOST_ID)
        convert(self, iterations=optional(count), servers=optional(count),
                servers_max=optional(count), ranks_per_gpu=count, arrival_scale=as_factor,
                redraw=as_flag, length=partial(parse_bytes, strict=True, usual=SMALL_SIZE),
                pattern=lambda pattern, _: plain(pattern))
        given = [name for name in ("servers", "servers_max") if getattr(self, name) is not None]
        if len(given) == 2:
            raise InputError("give either servers or servers_max, not both", given[1])
        if self.pattern is not None:
            if given:
                raise InputError("servers and servers_max are for parameter servers; give them as "
                                 "options of the pattern, if it has them", given[0])
            with about("pattern"):  # refused here, as jobs make their patterns only when they run
                refuse_code("pattern", parse_policy(self.pattern, "pattern")[0])

    def workload(self, rows: Sequence[TiresiasRow], name: str, seed: int = 0) -> Workload:
        """Make the workload of a trace; `seed` is for numbers of servers and sizes of flows."""
        seed = as_whole(seed, "seed")
        longest = max(row.duration / row.iterations for row in rows)
        return Workload(tuple(self._job(row, longest, seed) for row in rows), name, seed=seed)

    def _job(self, row: TiresiasRow, longest: float, seed: int) -> JobSpec:
        workers = self.ranks_per_gpu * row.num_gpu
        servers = 0 if self.pattern is not None else self._servers(row, workers, seed)
        share = row.duration / row.iterations / longest
        return JobSpec(
            id=row.job_id,
            arrival_s=row.submit_time * self.arrival_scale,
            iterations=row.iterations if self.iterations is None else self.iterations,
            pattern=self.pattern or {"name": "parameter-server", "servers": servers,
                                     "sizes": "uniform"},
            ranks=workers + servers,
            nbytes=parse_bytes(self.length) * share,
            redraw=self.redraw,
            name=row.model_name,
        )

    def _servers(self, row: TiresiasRow, workers: int, seed: int) -> int:
        if self.servers_max is not None:
            return int(stream(seed, "servers", row.job_id).integers(1, self.servers_max + 1))
        return workers if self.servers is None else self.servers


@known_names
def read_tiresias(path: str | Path, *, seed: int = 0, **construction: Any) -> Workload:
    """Read the 60-job Tiresias trace of the Parrot paper (CSV), Section 6.1.

    The header names the columns of `TiresiasRow`, in any order; others are ignored. Commas,
    semicolons or tabs separate them.

    Parameters
    ----------
    path : path-like
        The file: UTF-8, one job per line.
    seed : int
        Seed of the numbers of servers, and of the sizes that the pattern draws.
    **construction
        The fields of `Construction`.

    Raises
    ------
    TraceError
        If the file cannot be read.
    TraceProblemsError
        If the file's contents are invalid, with the line.
    InputError
        If an option is out of range.
    """
    build = Construction(**construction)
    rows, problems = parse_tiresias(read_text(path))
    if problems:
        raise TraceProblemsError(problems, path)
    return build.workload(rows, stem_of(path), seed)


def parse_tiresias(text: str) -> tuple[list[TiresiasRow], list[Problem]]:
    """Parse a trace without raising: return its valid rows, and the problems of all lines."""
    rows: list[TiresiasRow] = []
    problems: list[Problem] = []
    lines = [(n, line) for n, line in enumerate(split_lines(text), 1) if line.strip()]
    separated = delimiter_of(text)
    header = [name.strip() for name in _cells(*lines[0], separated, problems)] if lines else []
    if not problems:
        problems += _header_problems(header, lines[0][0] if lines else 1)
    if problems:
        return rows, problems
    first_line: dict[int, int] = {}
    for number, line in lines[1:]:
        row = _row(header, number, line, separated, problems)
        if row is None:
            continue
        if row.job_id in first_line:
            message = f"job_id {row.job_id} was given already, on line {first_line[row.job_id]}"
            problems.append(Problem(number, message))
        first_line.setdefault(row.job_id, number)
        rows.append(row)
    if len(lines) == 1:
        problems.append(Problem(lines[0][0], "no jobs follow the header"))
    return rows, problems


def _cells(number: int, line: str, separated: str, problems: list[Problem]) -> list[str]:
    """Split one line; parsed alone, so that a stray quote does not affect the other lines."""
    try:
        return next(csv.reader([line], delimiter=separated, strict=True))
    except csv.Error as error:
        problems.append(Problem(number, f"not a line of comma-separated values: {error}"))
        return []


def _header_problems(header: list[str], number: int) -> list[Problem]:
    missing = [name for name in TiresiasRow._fields if name not in header]
    twice = sorted({name for name in TiresiasRow._fields if header.count(name) > 1})
    found = f"the header has: {', '.join(map(repr, header))}"
    return [Problem(number, f"missing column {name!r}; {found}") for name in missing] + [
        Problem(number, f"duplicate column {name!r}; {found}") for name in twice
    ]


def _row(
    header: list[str], number: int, line: str, separated: str, problems: list[Problem]
) -> TiresiasRow | None:
    known = len(problems)
    cells = _cells(number, line, separated, problems)
    if cells and len(cells) != len(header):
        message = f"{len(cells)} fields, where the header has {len(header)}: {line!r}"
        problems.append(Problem(number, message))
    if len(problems) > known:
        return None
    row: dict[str, Any] = dict(zip(header, cells, strict=True))
    for name, allowed in _ALLOWED.items():
        value = allowed.number(decimal(row[name]))
        if value is None:
            problems.append(Problem(number, f"{name} must be {allowed}, not {row[name]!r}"))
        row[name] = value
    if len(problems) > known:
        return None
    return TiresiasRow(**{name: row[name] for name in TiresiasRow._fields})


def write_tiresias(rows: Iterable[TiresiasRow], path: str | Path) -> None:
    """Write a trace that `read_tiresias` reads back. The file is written atomically."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(TiresiasRow._fields)
    for row in rows:
        if len(split_lines(row.model_name)) > 1 or "\0" in row.model_name:
            raise InputError(f"job {row.job_id}: model_name must be one line without NUL, "
                             f"not {row.model_name!r}")
        writer.writerow(row)
    write_text(text.getvalue(), path)
