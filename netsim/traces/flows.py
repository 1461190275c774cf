"""A user's flows in a table (CSV or Parquet), one row per flow."""

from __future__ import annotations

import csv
import io
import math
import re
import reprlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base.arrays import Ints
from netsim.base.files import stem_of
from netsim.base.reading import Problem, TraceProblemsError, read_text, require_file
from netsim.base.units import SMALL_SIZE, decimal, is_digits, parse_bytes, parse_seconds
from netsim.base.values import as_name, plain
from netsim.errors import InputError, MissingExtraError, TraceError
from netsim.traces.files import UnknownTableError, delimiter_of, header_of, listed_names
from netsim.workload import Workload
from netsim.workload.columns import RowError, column_names, likely_columns, with_index

if TYPE_CHECKING:
    import pandas as pd

#: The options that name columns, with their defaults; None is found by its usual name.
_COLUMNS = {"src": "src", "dst": "dst", "nbytes": None, "start": "start_s", "coflow": None,
            "job": None, "weight": None}

#: Largest number of errors that are listed, and a row in the message of one.
_MOST_PROBLEMS, _ROW = 20, re.compile(r" (of|in) row (\d+)\b")

_MOST_DIGITS = 18

#: Placeholder for a column that only the user knows.
COLUMN = "COLUMN"

_NO_TABLE = "is not a table of comma-separated values"


def read_flows(path: str | Path, *, src: str = "src", dst: str = "dst",
               nbytes: str | None = None, start: str | None = "start_s",
               coflow: str | None = None, job: str | None = None, weight: str | None = None,
               endpoints: str = "hosts", seed: int = 0) -> Workload:
    """Read a table of flows (CSV, Parquet): hosts, bytes and, if present, starts and coflows.

    The first line of a CSV file has the names of the columns; commas, semicolons or tabs separate
    them. Columns that are not named are ignored.

    Parameters
    ----------
    path : path-like
        ``.parquet`` is read as Parquet, which needs the extra ``parquet``; anything else as CSV.
    src, dst : str
        The columns of sources and destinations.
    nbytes : str, optional
        The column of sizes, in bytes or with a unit, as in ``10MB``; by default ``"nbytes"`` if
        there is such a column, else ``"bytes"``.
    start : str or None
        The column of starts, in seconds or with a unit. Without ``"start_s"``, or if None, all
        flows start at 0.
    coflow, job : str, optional
        The columns of coflows and of jobs; by default ``"coflow"`` and ``"job"``, if the table has
        these columns. See `netsim.Workload.from_frame`.
    weight : str, optional
        The column of the weights of jobs; without it, all weights are 1.
    endpoints : {"hosts", "names", "ranks"}
        What sources and destinations are: hosts, by number or by name on the network; names of
        hosts, even if they are numbers; or ranks of jobs, whose hosts are chosen when the workload
        runs.
    seed : int
        The workload's seed.

    Raises
    ------
    TraceError
        If the file cannot be read, a column is missing, or values are invalid, with their lines.
        If columns look like those that are missing, with the call that reads them.
    MissingExtraError
        If a Parquet file is given, and pyarrow is not installed.
    """
    columns: dict[str, Any] = {"src": src, "dst": dst, "nbytes": nbytes, "start": start,
                               "coflow": coflow, "job": job, "weight": weight}
    for option, name in columns.items():
        if name is not None or option in ("src", "dst"):
            as_name(name, option)
    path = require_file(path)
    text = None if path.suffix.lower() == ".parquet" else read_text(path)
    table = _parquet(path) if text is None else _csv(text, path)
    if unknown := _of_other_names(path, table, columns):
        raise unknown
    name = stem_of(path)
    owner = f"workload {name!r}"
    try:
        names = column_names(table, columns, owner)
        made = _workload(table, names, endpoints, name, seed)
    except RowError as error:
        read = partial(_workload, names=names, endpoints=endpoints, name=name, seed=seed)
        raise TraceProblemsError(_problems(error, table, read, owner, text), path) from error
    except InputError as error:
        raise TraceProblemsError([Problem(None, str(error).removeprefix(f"{owner}: "))], path,
                                 error.key) from error
    _question_sizes(table, str(names["nbytes"]))
    return made


def columns_of_flows(path: str | Path, **options: Any) -> tuple[dict[str, str], list[str]]:
    """List the columns that `read_flows` reads, by option, and those that it does not use."""
    import pandas as pd

    path = Path(path)
    table = _parquet(path) if path.suffix.lower() == ".parquet" else pd.DataFrame(
        columns=header_of(path))
    names = column_names(table, {option: options.get(option, usual) for option, usual
                                 in _COLUMNS.items()}, f"workload {stem_of(path)!r}")
    used = {option: name for option, name in names.items() if name is not None}
    return used, [str(name) for name in table.columns if name not in used.values()]


def _of_other_names(path: Path, table: pd.DataFrame, columns: Mapping[str, Any]
                    ) -> UnknownTableError | None:
    """Make the error for a table whose columns have other names; None if it is not one.

    If the caller has named all columns that are missing, another error names them.
    """
    given = {option: name for option, name in columns.items()
             if option in ("src", "dst") or name != _COLUMNS[option]}
    header = [name for name in table if isinstance(name, str)]
    missing = [option for option, name in given.items() if name is not None and name not in header]
    if missing and all(given[option] != _COLUMNS[option] for option in missing):
        return None
    return like_flows(path, header, given)


def like_flows(path: str | Path, header: Sequence[str], given: Mapping[str, str | None]
               ) -> UnknownTableError | None:
    """Make the error for a table of flows whose columns have other names; None if it is not one.

    `given` has the columns that options of the format ``flows`` name, as far as they are given;
    None stands for a start that is not wanted.
    """
    likely = likely_columns(header, {"src": "src", "dst": "dst", **given})
    found = {"src": "src", "dst": "dst"} | {option: name for option, name in given.items()
                                            if name is not None and name in header} | likely
    if not likely or not {found["src"], found["dst"]} <= {*header}:
        return None
    options = {option: name for option, name in found.items()
               if option not in ("src", "dst") or name != option}
    hint = ""
    if "nbytes" not in options and not {"nbytes", "bytes"} & {*header}:
        options["nbytes"] = COLUMN
        rest = [name for name in header if name not in options.values()]
        hint = (f", where {COLUMN} is the column of sizes, in bytes or with a unit; columns "
                f"without a use yet: {listed_names(rest) or 'none'}")
    return UnknownTableError("looks like a table of flows whose columns have other names",
                             path, "flows", options, hint)


def _workload(table: pd.DataFrame, names: Mapping[str, Any], endpoints: str, name: str, seed: int
              ) -> Workload:
    """Make a workload of a table whose sizes and starts may be texts with units."""
    table = _parsed(table, names, endpoints == "names")
    return Workload.from_frame(table, endpoints=endpoints, name=name, seed=seed, **names)


def _question_sizes(table: pd.DataFrame, name: str) -> None:
    """Question the unit of a column of numbers that all look too small for bytes."""
    if table[name].dtype.kind in "iuf":
        parse_bytes(float(table[name].max()), f"the largest {name}", usual=SMALL_SIZE)


def _problems(error: RowError, table: pd.DataFrame, read: Callable[[pd.DataFrame], Workload],
              owner: str, text: str | None) -> list[Problem]:
    """Collect what is wrong in the rows of a table, by leaving out one wrong row after another."""
    lines = None if text is None else [line for line, _ in islice(_rows(text), 1, None)]
    rows = np.arange(len(table))  # the rows that are left, by their place in the file
    found: list[Problem] = []
    with suppress(InputError):  # about the rows that are left, such as that there are none
        while len(found) < _MOST_PROBLEMS:
            found.append(_told(error, rows, lines, owner))
            rows = np.delete(rows, error.row)
            try:
                read(table.iloc[rows].reset_index(drop=True))
                break
            except RowError as another:
                error = another
        else:
            found.append(Problem(None, f"not all errors are listed, but {_MOST_PROBLEMS}"))
    return sorted(found, key=lambda problem: math.inf if problem.line is None else problem.line)


def _place_of(called: str, places: Sequence[int] | Ints, row: re.Match[str]) -> str:
    """Replace a row in a message by its place in the file; a number too large is from a cell."""
    number = int(row[2])
    return f" {row[1]} {called} {places[number]}" if number < len(places) else row[0]


def _told(error: RowError, rows: Ints, lines: Sequence[int] | None, owner: str) -> Problem:
    """Locate an error in the file: by its line, or by its row in a file without lines."""
    told = str(error).removeprefix(f"{owner}: ")
    if lines is None:
        return Problem(None, _ROW.sub(partial(_place_of, "row", rows), told))
    told = told.replace(f" of row {error.row}", "", 1)
    return Problem(lines[rows[error.row]],
                   _ROW.sub(partial(_place_of, "line", [lines[row] for row in rows]), told))


def _parsed(table: pd.DataFrame, columns: Mapping[str, Any], names: bool) -> pd.DataFrame:
    """Convert columns of texts to numbers; with `names`, not those of hosts.

    A single unit or typo makes all cells of a column texts.
    """
    from pandas.api.types import is_numeric_dtype

    if not table.columns.is_unique:
        twice = table.columns[table.columns.duplicated()][0]
        raise InputError(f"two columns are named {twice!r}")
    host = partial(_host, named=names)
    for option, convert in (("src", host), ("dst", host),
                            ("nbytes", partial(_number, parse=parse_bytes)),
                            ("start", partial(_number, parse=parse_seconds))):
        name = columns[option]
        if name in table.columns and not is_numeric_dtype(table[name]):
            table = table.assign(**{name: [convert(value, f"{name} of row {row}", row)
                                           for row, value in enumerate(table[name])]})
    return table


def _number(value: Any, what: str, row: int, *, parse: Callable[[Any, str], float]) -> float:
    """Read a number, or a quantity with a unit."""
    number = decimal(value) if isinstance(value, str) else plain(value)
    if isinstance(number, float) and (number == number or not isinstance(value, str)):
        return number
    try:
        return parse(value if isinstance(value, str) else number, what)
    except InputError as error:
        raise RowError(str(error), row) from error


def _host(value: Any, what: str, row: int, *, named: bool) -> Any:
    """Return a host from a column of texts: its name, or its number unless all are `named`."""
    text = value.strip() if isinstance(value, str) else value
    if named or not isinstance(text, str) or not text.isdecimal():
        return text
    if not is_digits(text, _MOST_DIGITS):
        raise RowError(f"{what} must be a name, or a number of at most {_MOST_DIGITS} digits from "
                       f"0 to 9, not {text!r}", row)
    return int(text)


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a CSV file that pandas reads, each with the line on which it ends.

    Those are all but blank lines: a line of two quotes is a row.
    """
    last = ""

    def seen(line: str) -> str:
        nonlocal last
        last = line
        return line

    delimiter = delimiter_of(text)
    blank = " \t\r\n".replace(delimiter, "")
    reader = csv.reader(map(seen, io.StringIO(text)), delimiter=delimiter, skipinitialspace=True)
    for row in reader:
        if last.strip(blank):
            yield reader.line_num, row


def _check_rows(text: str, path: Path) -> None:
    """Refuse columns of one name, and rows with more values than the header.

    pandas would rename the former, and take the first column of the latter for an index.
    """
    rows, long = _rows(text), []
    try:
        line, header = next(rows)
        for name, count in Counter(name.strip() for name in header).items():
            if name and count > 1:
                raise TraceProblemsError([Problem(line, f"{count} columns are named {name!r}")],
                                         path)
        for line, row in rows:
            if len(row) > len(header):
                long.append(Problem(line, f"{len(row)} values, where the header has "
                                          f"{len(header)}: {reprlib.repr(','.join(row))}"))
            if len(long) == _MOST_PROBLEMS:
                break
    except csv.Error as error:
        raise TraceProblemsError([Problem(None, f"{_NO_TABLE}: {error}")], path) from error
    if long:
        raise TraceProblemsError(long, path)


def _csv(text: str, path: Path) -> pd.DataFrame:
    """Read the text of a CSV file, or raise `TraceProblemsError` if it is not a table."""
    import pandas as pd

    _check_rows(text, path)
    file = io.StringIO(text)
    try:
        table = pd.read_csv(file, sep=delimiter_of(text), skipinitialspace=True, index_col=False)
        return table.rename(columns=str.strip)
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise TraceProblemsError([Problem(None, f"{_NO_TABLE}: {str(error).strip()}")], path
                                 ) from error


def _parquet(path: Path) -> pd.DataFrame:
    """Read a Parquet file, or raise `TraceError` if it is not one."""
    from netsim.base.tables import read_parquet

    try:
        return with_index(read_parquet(path, limit=True))
    except (MissingExtraError, TraceError):
        raise
    except (OSError, ValueError) as error:
        raise TraceError(str(error), path) from error
