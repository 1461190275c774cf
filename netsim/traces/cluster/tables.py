"""Tables of comma-separated values, read in chunks: as much memory as a chunk, however long."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import TraceError
from netsim.reading import open_bytes, open_text
from netsim.traces.files import require_file, split_lines
from netsim.traces.problems import Problem, Rule, TraceProblemsError

__all__ = ["COUNT", "SECONDS", "Chunk", "locating", "read_table", "seconds_of"]

#: Instants and durations: up to thirty thousand years, of which sums are exact to 0.1 ms.
SECONDS = Rule(0, 1e12)
#: GPUs, instances, ...
COUNT = Rule(0, 1e6)

#: What writers put where nothing is known.
_BLANKS = frozenset(("", "nan", "NaN", "NaT", "None", "null", "NULL", "\\N", "Unknown"))
_CHUNK = 1 << 14
_SHOWN = 10
_LONGEST = 120
_DATE = set("0123456789-: T")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a table, one after the other.

    Attributes
    ----------
    path : path-like
    lines : list of int
        The line in the file on which each row ends, counted from 1.
    cells : dict of str to sequence of str
        The columns that were asked for, by name.
    """

    path: str | Path
    lines: list[int]
    cells: dict[str, Sequence[str]]

    def __len__(self) -> int:
        return len(self.lines)

    def has(self, name: str) -> bool:
        """Say whether an optional column is there."""
        return name in self.cells

    def numbers(self, name: str, rule: Rule, *, blank: bool = False) -> NDArray[np.float64]:
        """Return a column of numbers.

        Parameters
        ----------
        name : str
        rule : Rule
            What is allowed.
        blank : bool
            Allow cells in which nothing is; they are NaN.

        Raises
        ------
        TraceProblemsError
            If a cell holds something else, with its line; of many the first few.
        """
        cells = self.cells[name]
        if blank:
            cells = ["nan" if cell in _BLANKS else cell for cell in cells]
        values = _floats(cells)
        good = (values >= rule.least) & (values <= rule.most)
        if rule.whole:
            good &= values == np.floor(values)
        if blank:
            good |= np.fromiter((cell == "nan" for cell in cells), bool, len(cells))
        if not good.all():
            self._refuse(name, good, str(rule))
        return values

    def times(self, name: str) -> NDArray[np.float64]:
        """Return a column of dates such as ``2020-06-09 18:41:01``, in seconds since 1970.

        There are no time zones. Cells in which nothing is are NaN.

        Raises
        ------
        TraceProblemsError
            If a cell holds something else, with its line.
        """
        cells = self.cells[name]
        values, good = seconds_of(cells)
        if not good.all():
            self._refuse(name, good, "a time such as '2020-06-09 18:41:01'")
        return values

    def texts(self, *names: str) -> Iterable[tuple[str, ...]]:
        """Return the cells of some columns, row by row."""
        return zip(*(self.cells[name] for name in names), strict=True)

    def are(self, name: str, *allowed: str) -> NDArray[np.bool_]:
        """Say which cells hold one of some words."""
        words = frozenset(allowed)
        return np.fromiter((cell in words for cell in self.cells[name]), bool, len(self))

    def _refuse(self, name: str, good: NDArray[np.bool_], allowed: str) -> None:
        cells = self.cells[name]
        raise TraceProblemsError(
            [Problem(self.lines[row], f"{name} must be {allowed}, not {_shown(cells[row])}")
             for row in np.flatnonzero(~good)[:_SHOWN]], self.path)


def _floats(cells: Sequence[str]) -> NDArray[np.float64]:
    """Return cells as floats; NaN where they are none."""
    if "_" not in "".join(cells):  # which Python allows between digits
        try:
            return np.array(cells, dtype=object).astype(np.float64)
        except ValueError:
            pass
    return np.array([_float(cell) for cell in cells], dtype=np.float64)


def _float(cell: str) -> float:
    try:
        return float("nan" if "_" in cell else cell)
    except ValueError:
        return float("nan")


def seconds_of(cells: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return dates as seconds since 1970, and which of them could be read.

    Parameters
    ----------
    cells : sequence of str
        Such as ``2020-06-09 18:41:01``; where nothing is, the result is NaN.
    """
    given = ["NaT" if cell in _BLANKS else cell for cell in cells]
    good = np.ones(len(cells), dtype=bool)
    try:
        dates = _dates(given)
    except ValueError:
        for row, cell in enumerate(given):
            try:
                _dates([cell])
            except ValueError:
                good[row], given[row] = False, "NaT"
        dates = _dates(given)
    values = dates.astype(np.int64).astype(np.float64)
    values[np.isnat(dates)] = np.nan
    return values, good


def _dates(cells: Sequence[str]) -> NDArray[np.datetime64]:
    known = [cell for cell in cells if cell != "NaT"]
    if any(len(cell) != 19 for cell in known) or not _DATE.issuperset("".join(known)):
        raise ValueError("not dates")  # numpy reads words such as "now", and zones with a warning
    return np.array(cells, dtype="datetime64[s]")


def read_table(
    path: str | Path,
    required: Sequence[str],
    optional: Sequence[str] = (),
    header: Sequence[str] | None = None,
    chunk: int = _CHUNK,
) -> Iterator[Chunk]:
    """Read a table chunk by chunk.

    Parameters
    ----------
    path : path-like
        The file: UTF-8.
    required : sequence of str
        Columns that must be there, in any order.
    optional : sequence of str
        Columns that are read if they are there.
    header : sequence of str, optional
        The names of the columns, for a file that does not begin with them. One that does
        nevertheless is read too.
    chunk : int
        Rows of a chunk.

    Raises
    ------
    TraceError
        If the file cannot be read.
    TraceProblemsError
        If it is empty, a column is missing, or a row is broken, with the line.
    """
    with locating(path), open_text(require_file(path), newline="") as file:
        batches = _batches(csv.reader(file, strict=True), path, chunk)
        lines, rows = next(batches, ([], []))
        if not rows:
            raise TraceProblemsError([Problem(1, "the file is empty")], path)
        names = [name.strip() for name in (rows[0] if header is None else header)]
        picks = _picks(names, required, optional, path, lines[0] if header is None else None)
        if header is None or rows[0] == names:
            del lines[0], rows[0]
            lines, rows = (lines, rows) if rows else next(batches, ([], []))
        while rows:
            part = _chunk(lines, rows, picks, len(names), path)
            del lines, rows  # so that no two batches are in memory
            yield part
            del part
            lines, rows = next(batches, ([], []))


@contextmanager
def locating(path: str | Path) -> Iterator[None]:
    """Turn what goes wrong in reading a UTF-8 file into errors with a place.

    Raises
    ------
    TraceError
        Instead of `OSError`.
    TraceProblemsError
        Instead of `UnicodeDecodeError`, with the line.
    """
    try:
        yield
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror}", path) from error
    except UnicodeDecodeError as error:
        raise TraceProblemsError([_undecodable(path)], path) from error


def _undecodable(path: str | Path) -> Problem:
    """Return the first line that is not UTF-8: the decoder tells only its place in a block."""
    with open_bytes(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return Problem(number, f"byte 0x{line[error.start]:02x} is not UTF-8")
    return Problem(None, "not UTF-8")


def _batches(reader: Any, path: str | Path, size: int
             ) -> Iterator[tuple[list[int], list[list[str]]]]:
    """Yield rows in which anything is, some at a time, and the line on which each ends."""
    while True:
        before = reader.line_num
        try:
            rows = list(islice(reader, size))
        except csv.Error as error:
            message = f"not a line of comma-separated values: {error}"
            raise TraceProblemsError([Problem(reader.line_num, message)], path) from error
        if not rows:
            return
        lines = list(range(before + 1, before + 1 + len(rows)))
        if reader.line_num != lines[-1]:  # a cell goes on in the next line
            lines = (before + np.cumsum([
                1 + sum(len(split_lines(cell)) - 1 for cell in row) for row in rows])).tolist()
        if min(map(len, rows)) < 2:
            some = [place for place, row in enumerate(rows)
                    if len(row) > 1 or (row and row[0].strip())]
            lines, rows = [lines[place] for place in some], [rows[place] for place in some]
        if rows:
            yield lines, rows
        del lines, rows


def _picks(names: list[str], required: Sequence[str], optional: Sequence[str],
           path: str | Path, line: int | None) -> dict[str, int]:
    """Return the places of the columns that are wanted."""
    wanted = (*required, *optional)
    found = f"the header has: {', '.join(map(repr, names))}"
    problems = [Problem(line, f"missing column {name!r}; {found}")
                for name in required if name not in names]
    problems += [Problem(line, f"column {name!r} is there twice; {found}")
                 for name in wanted if names.count(name) > 1]
    if problems:
        raise TraceProblemsError(problems, path)
    return {name: names.index(name) for name in wanted if name in names}


def _chunk(lines: list[int], rows: list[list[str]], picks: dict[str, int], width: int,
           path: str | Path) -> Chunk:
    if {*map(len, rows)} != {width}:
        broken = [(line, row) for line, row in zip(lines, rows, strict=True) if len(row) != width]
        raise TraceProblemsError(
            [Problem(line, f"{len(row)} fields, where the header has {width}: "
                     f"{_shown(','.join(row))}") for line, row in broken[:_SHOWN]], path)
    columns = tuple(zip(*rows, strict=True))
    return Chunk(path, lines, {name: columns[place] for name, place in picks.items()})


def _shown(text: str) -> str:
    """Return a text in quotes, as much of it as fits a line."""
    return repr(text if len(text) <= _LONGEST else text[:_LONGEST - 3] + "...")
