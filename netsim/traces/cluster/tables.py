"""Read tables of comma-separated values of any length in chunks, so that memory is bounded."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, TextIO

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Bools, Floats
from netsim.base.files import open_text
from netsim.base.reading import (
    NumberRange,
    Problem,
    TraceProblemsError,
    locating,
    nul_problem,
    require_file,
    split_lines,
)
from netsim.base.units import decimal
from netsim.traces.files import delimiter_of

#: Instants and durations: up to 30,000 years, so that sums are exact to 0.1 ms.
SECONDS = NumberRange(0, 1e12)

#: Numbers of GPUs, instances, ...
COUNT = NumberRange(0, 1e6)

#: Cells that stand for a missing value.
_BLANKS = frozenset(("", "nan", "NaN", "NaT", "None", "null", "NULL", "\\N", "Unknown"))

_CHUNK = 1 << 14

_SHOWN = 10

_LONGEST = 120

#: The characters allowed at each place of a date such as 2020-06-09 18:41:01, and its ends.
_DIGIT = "0123456789"

_DATE = (*[_DIGIT] * 4, "-", *[_DIGIT] * 2, "-", *[_DIGIT] * 2, " T",
         *[_DIGIT] * 2, ":", *[_DIGIT] * 2, ":", *[_DIGIT] * 2)

_OFFSET = re.compile(r"Z?|([+-])([01][0-9]):([0-5][0-9])")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive rows of a table."""

    example: ClassVar[str] = "2020-06-09 18:41:01"  #: of a time, for error messages

    path: str | Path  #: for error messages
    lines: list[int]  #: the line in the file on which each row ends, counted from 1
    cells: dict[str, Sequence[str]]  #: the selected columns, by name

    def __len__(self) -> int:
        return len(self.lines)

    def has(self, name: str) -> bool:
        """Whether the table has an optional column."""
        return name in self.cells

    def numbers(self, name: str, allowed: NumberRange, *, blank: bool = False) -> Floats:
        """Parse a column of numbers in a range; with `blank`, blank cells become NaN."""
        cells = self.cells[name]
        if blank:
            cells = ["nan" if cell in _BLANKS else cell for cell in cells]
        values = _floats(cells)
        good = (values >= allowed.least) & (values <= allowed.most)
        if allowed.whole:
            good &= values == np.floor(values)
        if blank:
            good |= np.fromiter((cell == "nan" for cell in cells), bool, len(cells))
        if not good.all():
            self._refuse(name, good, str(allowed))
        return values

    def times(self, name: str) -> Floats:
        """Parse a column of dates such as ``2020-06-09 18:41:01`` into seconds since 1970.

        Dates may end in an offset from UTC; without one, they are taken for UTC. Blank cells become
        NaN.
        """
        cells = self.cells[name]
        values, good = seconds_of(cells)
        if not good.all():
            self._refuse(name, good, f"a time such as '{self.example}'")
        return values

    def texts(self, *names: str) -> Iterable[tuple[str, ...]]:
        """Iterate over the rows of some columns, as tuples of cells."""
        return zip(*(self.cells[name] for name in names), strict=True)

    def are(self, name: str, *allowed: str) -> Bools:
        """Return the mask of the rows whose cell is one of the words `allowed`."""
        words = frozenset(allowed)
        return np.fromiter((cell.strip() in words for cell in self.cells[name]), bool, len(self))

    def _refuse(self, name: str, good: Bools, allowed: str) -> None:
        cells = self.cells[name]
        raise TraceProblemsError(
            [Problem(self.lines[row], f"{name} must be {allowed}, not {_quoted(cells[row])}")
             for row in np.flatnonzero(~good)[:_SHOWN]], self.path)


def _floats(cells: Sequence[str]) -> Floats:
    """Parse cells as floats; NaN where a cell is not a number."""
    text = "".join(cells)
    if text.isascii() and "_" not in text:
        try:
            return np.array(cells, dtype=object).astype(np.float64)
        except ValueError:
            pass
    return np.array(list(map(decimal, cells)), dtype=np.float64)


def seconds_of(cells: Sequence[str]) -> tuple[Floats, Bools]:
    """Parse dates into seconds since 1970; return these, and whether each cell is valid.

    Dates such as ``2020-06-09 18:41:01`` or ``2020-06-09T18:41:01``, perhaps between spaces and
    with an offset from UTC such as ``+08:00``, are valid, and so are blank cells, which become NaN.
    """
    given = ["NaT" if cell in _BLANKS else cell for cell in map(str.strip, cells)]
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
    width = len(_DATE)
    known = [cell[:width] for cell in cells if cell != "NaT"]
    text = "".join(known)
    if not text.isascii() or any(len(cell) != width for cell in known):
        raise ValueError("not dates")
    # NumPy would accept words such as "now", and other forms of dates.
    letters = np.frombuffer(text.encode(), np.uint8).reshape(-1, width)
    if not all(np.isin(letters[:, place], list(allowed.encode())).all()
               for place, allowed in enumerate(_DATE)):
        raise ValueError("not dates")
    dates = np.array([cell[:width] for cell in cells], dtype="datetime64[s]")
    ends = [cell[width:] for cell in cells]
    ahead = {end: _ahead_s(end) for end in set(ends)}
    if any(ahead.values()):
        dates -= np.array([ahead[end] for end in ends], dtype="timedelta64[s]")
    return dates


def _ahead_s(offset: str) -> int:
    """The seconds by which a time with an offset such as ``+08:00`` is ahead of UTC."""
    match = _OFFSET.fullmatch(offset)
    if match is None:
        raise ValueError("not an offset")
    sign, hours, minutes = match.groups(default="0")
    return (-1 if sign == "-" else 1) * (3600 * int(hours) + 60 * int(minutes))


def read_table(
    path: str | Path,
    required: Sequence[str],
    optional: Sequence[str] = (),
    header: Sequence[str] | None = None,
    chunk: int = _CHUNK,
) -> Iterator[Chunk]:
    """Read a UTF-8 table chunk by chunk; commas, semicolons or tabs separate its columns.

    It must have the `required` columns, in any order. If `header` is given, the file has no header
    line, or one that equals it and is skipped.
    """
    with locating(path), open_text(require_file(path), newline="") as file:
        separated = delimiter_of(file.read(10_000))
        file.seek(0)
        reader = csv.reader(_lines(file, path), delimiter=separated, skipinitialspace=True,
                            strict=True)
        batches = _batches(reader, path, chunk)
        lines, rows = next(batches, ([], []))
        if not rows:
            raise TraceProblemsError([Problem(1, "the file is empty")], path)
        names = [name.strip() for name in (rows[0] if header is None else header)]
        picks = _column_positions(names, required, optional, path,
                                  lines[0] if header is None else None)
        if header is None or rows[0] == names:
            del lines[0], rows[0]
            lines, rows = (lines, rows) if rows else next(batches, ([], []))
        while rows:
            part = _chunk(lines, rows, picks, len(names), path)
            del lines, rows  # so that no two batches are in memory
            yield part
            del part
            lines, rows = next(batches, ([], []))


def read_words(path: str | Path, names: Sequence[str], comment: str, blank: str) -> Iterator[Chunk]:
    """Read a table without a header, whose columns have these names and are separated by spaces.

    Lines that begin with `comment` are skipped; a word `blank` is a missing value.
    """
    with locating(path), open_text(require_file(path)) as file:
        rows = ((number, line.split()) for number, line in enumerate(_lines(file, path), 1)
                if not line.lstrip().startswith(comment))
        rows = ((number, words) for number, words in rows if words)
        while batch := list(islice(rows, _CHUNK)):
            lines = [number for number, _ in batch]
            words = [["" if word == blank else word for word in words] for _, words in batch]
            yield _chunk(lines, words, {name: place for place, name in enumerate(names)},
                         len(names), path, whose="a line of the format")


def _lines(file: TextIO, path: str | Path) -> Iterator[str]:
    for number, line in enumerate(file, 1):
        if "\0" in line:
            raise nul_problem(number, path)
        yield line


def _batches(reader: Any, path: str | Path, size: int
             ) -> Iterator[tuple[list[int], list[list[str]]]]:
    """Yield batches of rows that are not blank, with the line on which each row ends."""
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
        if reader.line_num != lines[-1]:  # some cell contains line breaks
            lines = (before + np.cumsum([
                1 + sum(len(split_lines(cell)) - 1 for cell in row) for row in rows])).tolist()
        if min(map(len, rows)) < 2:
            some = [place for place, row in enumerate(rows)
                    if len(row) > 1 or (row and row[0].strip())]
            lines, rows = [lines[place] for place in some], [rows[place] for place in some]
        if rows:
            yield lines, rows
        del lines, rows


def _column_positions(names: list[str], required: Sequence[str], optional: Sequence[str],
                      path: str | Path, line: int | None) -> dict[str, int]:
    """Find the positions of the selected columns, by name."""
    wanted = (*required, *optional)
    found = f"the header has: {', '.join(map(repr, names))}"
    problems = [Problem(line, f"missing column {name!r}; {found}")
                for name in required if name not in names]
    problems += [Problem(line, f"duplicate column {name!r}; {found}")
                 for name in wanted if names.count(name) > 1]
    if problems:
        raise TraceProblemsError(problems, path)
    return {name: names.index(name) for name in wanted if name in names}


def _chunk(lines: list[int], rows: list[list[str]], picks: dict[str, int], width: int,
           path: str | Path, whose: str = "the header") -> Chunk:
    """Select the columns `picks` of rows, after checking that each row has `width` cells."""
    if {*map(len, rows)} != {width}:
        broken = [(line, row) for line, row in zip(lines, rows, strict=True) if len(row) != width]
        raise TraceProblemsError(
            [Problem(line, f"{len(row)} fields, where {whose} has {width}: "
                     f"{_quoted(','.join(row))}") for line, row in broken[:_SHOWN]], path)
    columns = tuple(zip(*rows, strict=True))
    return Chunk(path, lines, {name: columns[place] for name, place in picks.items()})


def _quoted(text: str) -> str:
    """Quote a text, shortened to the length of a line."""
    return repr(text if len(text) <= _LONGEST else text[:_LONGEST - 3] + "...")
