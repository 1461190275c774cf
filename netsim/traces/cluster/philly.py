"""Read the Philly trace of Microsoft's GPU clusters, ``cluster_job_log`` (Jeon et al., ATC '19).

It is a long JSON array, which is read entry by entry, in memory for the longest entry only.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

from netsim.base.files import open_text
from netsim.base.reading import Problem, TraceProblemsError, locating, require_file
from netsim.base.values import as_flag
from netsim.traces.cluster.construction import ClusterConstruction, TraceWorkload
from netsim.traces.cluster.jobs import NO_SUBMIT, ClusterJobs, Codes, JobCollector, violations
from netsim.traces.cluster.tables import seconds_of

# --- a long JSON array ---------------------------------------------------------------------

_BLOCK = 1 << 18

_LONGEST = 1 << 24

#: A token other than a string is at most this long, so that one cut off at a block's end is near.
_TOKEN = 64

_SPACE = " \t\n\r"


def read_entries(path: str | Path, block: int = _BLOCK) -> Iterator[tuple[int, Any]]:
    """Yield the entries of a file that is one JSON array, each with the line on which it begins.

    `block` is the number of characters to read at once.
    """
    with locating(path), open_text(require_file(path)) as file:
        text = _Buffer(file, path, block)
        first = text.peek()
        if not first:
            raise text.problem("the file is empty" if text.line == 1 else "the file is blank")
        if first != "[":
            raise text.problem(f"the file must hold a JSON array, which begins with '[', "
                               f"not with {first!r}")
        text.skip()
        if text.peek() != "]":
            yield text.entry()
            while text.peek() == ",":
                text.skip()
                yield text.entry()
            if text.peek() != "]":
                raise text.problem(f"not JSON: ',' or ']' must follow an entry, not {text.found}")
        text.skip()
        if text.peek():
            raise text.problem(f"not JSON: {text.found} follows the end of the array")


class _Buffer:
    """A buffer of the unused text of a file; `line` is the line of its first character."""

    def __init__(self, file: TextIO, path: str | Path, block: int) -> None:
        self._file, self._path, self._block = file, path, block
        self._text, self._at = "", 0
        self._decode = json.JSONDecoder().raw_decode
        self.line = 1

    def problem(self, message: str, line: int | None = None) -> TraceProblemsError:
        return TraceProblemsError([Problem(line or self.line, message)], self._path)

    @property
    def found(self) -> str:
        rest = self._text[self._at:self._at + 20]
        return repr(rest) if rest else "the end of the file"

    def peek(self) -> str:
        """Skip white space and return the next character; ``""`` at the end of the file."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self.skip()
            if self._at < len(self._text) or not self._read_more():
                return self._text[self._at:self._at + 1]

    def skip(self) -> None:
        self.line += self._text[self._at] == "\n"
        self._at += 1

    def _read_more(self) -> bool:
        """Read more text, at least doubling the buffer; return False at the end of the file."""
        rest = self._text[self._at:]
        read = self._file.read(max(self._block, len(rest)))
        self._text, self._at = rest + read, 0
        return bool(read)

    def entry(self) -> tuple[int, Any]:
        """Parse the next value; return the line on which it begins, and the value."""
        self.peek()
        begin = self.line
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                line = begin + self._text.count("\n", self._at, error.pos)
                if (self._may_be_incomplete(error) and len(self._text) - self._at < _LONGEST
                        and self._read_more()):
                    continue
                raise self.problem(f"not JSON: {error.msg}", line) from error
            except (ValueError, RecursionError) as error:  # numbers of 5,000 digits, brackets
                raise self.problem(f"not read as JSON: {error}", begin) from error
            self.line += self._text.count("\n", self._at, end)
            self._at = end
            return begin, value

    def _may_be_incomplete(self, error: json.JSONDecodeError) -> bool:
        """Whether the error may be due to a value that is cut off at the end of the buffer."""
        return (error.pos > len(self._text) - _TOKEN
                or error.msg.startswith("Unterminated string"))


# --- jobs ----------------------------------------------------------------------------------

_CHUNK = 1 << 12

_KEYS = ("status", "vc", "attempts", "submitted_time", "user")


class _Submission(NamedTuple):
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

    The file is one JSON array; an entry has ``status``, ``vc``, ``user``, ``submitted_time`` and
    ``attempts``, a list of ``start_time``, ``end_time`` and ``detail``, which is a list of
    servers with the names of their ``gpus``. Times have the form ``2017-10-07 01:12:09``, perhaps
    with an offset from UTC such as ``+08:00``, or are null if missing. Those of the trace are in a
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
    seed : int
        Seed of the workload, also used to draw the models of groups.
    failed : bool
        Whether to keep jobs that were ``Killed`` or ``Failed``, which occupied their GPUs while
        they ran.
    **construction
        The fields of `ClusterConstruction`.
    """
    return ClusterConstruction(**construction).of_file(philly_jobs(path, failed=failed), path, seed)


def philly_jobs(path: str | Path, *, failed: bool = False) -> ClusterJobs:
    """Read the jobs of a ``cluster_job_log`` as columns; see `read_philly`."""
    keep_failed = as_flag(failed, "failed")
    collector, groups, users = JobCollector(path), Codes(), Codes()
    entries = (_row(line, entry, path) for line, entry in read_entries(path))
    while rows := list(islice(entries, _CHUNK)):
        submit, start, end = (_seconds(rows, name, path) for name in ("submit", "start", "end"))
        gpus = np.array([row.gpus for row in rows])
        status = np.array([row.status for row in rows], dtype=object)
        finished = ~np.isnan(start + end) & np.isin(status, ("Pass", "Killed", "Failed"))
        violates = violations(submit, end - start, gpus, finished,
                              (status != "Pass") & (not keep_failed))
        collector.add(
            {NO_SUBMIT: violates[NO_SUBMIT],
             "no attempt": np.array([row.attempts == 0 for row in rows]), **violates},
            submit_s=submit, duration_s=end - start, gpus=gpus,
            group=groups.of((row.user, row.vc, row.gpus) for row in rows),
            user=users.of(row.user for row in rows))
    return collector.jobs()


def _seconds(rows: list[_Submission], name: str, path: str | Path) -> np.ndarray[Any, Any]:
    """Parse a column of dates into seconds since 1970; NaN where the date is missing."""
    cells = [getattr(row, name) for row in rows]
    values, good = seconds_of(cells)
    if not good.all():
        raise TraceProblemsError(
            [Problem(rows[row].line, f"the {name} must be a time such as '2017-10-07 01:12:09', "
                     f"not {reprlib.repr(cells[row])}") for row in np.flatnonzero(~good)[:10]],
            path)
    return values


def _row(line: int, entry: Any, path: str | Path) -> _Submission:
    """Extract the parts of an entry that are used, or raise an error with its problems."""
    problems = list(_problems(entry))
    if problems:
        raise TraceProblemsError([Problem(line, message) for message in problems], path)
    attempts = entry["attempts"]
    first, last = (attempts[0], attempts[-1]) if attempts else ({}, {})
    return _Submission(line, entry["status"], entry["vc"], entry["user"],
                       entry["submitted_time"] or "", first.get("start_time") or "",
                       last.get("end_time") or "", len(attempts),
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
