"""Read the Philly trace of Microsoft's GPU clusters, ``cluster_job_log`` (Jeon et al., ATC '19).

It is a long JSON array, which is read entry by entry, in memory for the longest entry only.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, TextIO

import numpy as np

from netsim.base.arrays import Bools
from netsim.base.files import open_text
from netsim.base.reading import Problem, TraceProblemsError, locating, require_file
from netsim.traces.cluster.tables import Chunk

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


# --- its entries as rows -------------------------------------------------------------------

_CHUNK = 1 << 12

_KEYS = ("status", "vc", "attempts", "submitted_time", "user")

_COLUMNS = ("status", "vc", "user", "submit", "start", "end", "attempts", "gpus")


class _Entries(Chunk):
    """Consecutive entries, with the parts that are used as columns; missing times are ``""``."""

    example: ClassVar[str] = "2017-10-07 01:12:09"

    def are(self, name: str, *allowed: str) -> Bools:
        """As for any table, but spaces count."""
        return np.isin(np.array(self.cells[name], dtype=object), allowed)

    def _refuse(self, name: str, good: Bools, allowed: str) -> None:
        raise TraceProblemsError(
            [Problem(self.lines[row],
                     f"the {name} must be {allowed}, not {reprlib.repr(self.cells[name][row])}")
             for row in np.flatnonzero(~good)[:10]], self.path)


def philly_rows(path: str | Path) -> Iterator[Chunk]:
    """Read the entries of a file as rows."""
    entries = ((line, _cells(line, entry, path)) for line, entry in read_entries(path))
    while batch := list(islice(entries, _CHUNK)):
        columns = zip(*(cells for _, cells in batch), strict=True)
        yield _Entries(path, [line for line, _ in batch],
                       dict(zip(_COLUMNS, columns, strict=True)))


def _cells(line: int, entry: Any, path: str | Path) -> tuple[str, ...]:
    """Extract the parts of an entry that are used, or raise an error with its problems."""
    problems = list(_problems(entry))
    if problems:
        raise TraceProblemsError([Problem(line, message) for message in problems], path)
    attempts = entry["attempts"]
    first, last = (attempts[0], attempts[-1]) if attempts else ({}, {})
    return (entry["status"], entry["vc"], entry["user"], entry["submitted_time"] or "",
            first.get("start_time") or "", last.get("end_time") or "", str(len(attempts)),
            str(sum(len(server["gpus"]) for server in first.get("detail", ()))))


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
