"""A user's flows in a table (CSV or Parquet), one row per flow."""

from __future__ import annotations

import csv
import io
import reprlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.checks import check_name, check_path
from netsim.columns import RowError, with_index
from netsim.errors import InputError, MissingExtraError, TraceError
from netsim.plain import plain
from netsim.traces.files import delimiter_of, read_text, require_file
from netsim.traces.problems import Problem, TraceProblemsError
from netsim.traces.unknown import like_flows
from netsim.units import decimal, is_digits, parse_bytes, parse_seconds
from netsim.workload import Workload

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_flows"]

#: Columns that are used if the table has them, after the options that may name others. Those of
#: coflows and jobs are found by `netsim.Workload.from_frame`.
_USUAL = (("nbytes", "nbytes"), ("nbytes", "bytes"), ("start", "start_s"))

_MOST_DIGITS = 18
_NO_TABLE = "is not a table of comma-separated values"


def read_flows(path: str | Path, *, src: str = "src", dst: str = "dst",
               nbytes: str | None = None, start: str | None = None, coflow: str | None = None,
               job: str | None = None, weight: str | None = None, endpoints: str = "hosts",
               seed: int = 0) -> Workload:
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
    start : str, optional
        The column of starts, in seconds or with a unit; by default ``"start_s"`` if there is such a
        column, else all flows start at 0.
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
        If the file cannot be read, a column is missing, or a value is invalid, with its line. If
        columns look like those that are missing, with the call that reads them.
    MissingExtraError
        If a Parquet file is given, and pyarrow is not installed.
    """
    check_path(path, "path")
    columns: dict[str, Any] = {"src": src, "dst": dst, "nbytes": nbytes, "start": start,
                               "coflow": coflow, "job": job, "weight": weight}
    for option, name in columns.items():
        if name is not None or option in ("src", "dst"):
            check_name(name, option)
    path = require_file(path)
    text = None if path.suffix.lower() == ".parquet" else read_text(path)
    table = _parquet(path) if text is None else _csv(text, path)
    given = {option: name for option, name in columns.items() if name is not None}
    if unknown := like_flows(path, [name for name in table if isinstance(name, str)], given):
        raise unknown
    for option, usual in _USUAL:
        if columns[option] is None and usual in table.columns:
            columns[option] = usual
    try:
        table = _parsed(table, columns, endpoints == "names")
        return Workload.from_frame(table, endpoints=endpoints, name=path.stem, seed=seed,
                                   **columns)
    except InputError as error:
        told = str(error).removeprefix(f"workload {path.stem!r}: ")
        raise TraceProblemsError([Problem(_line(error, text), told)], path) from error


def _parsed(table: pd.DataFrame, columns: Mapping[str, Any], names: bool) -> pd.DataFrame:
    """Convert columns of text, which may have one unit or typo, to numbers; hosts not if `names`.

    Raises
    ------
    RowError
        If a text cannot be read.
    """
    from pandas.api.types import is_numeric_dtype

    if not table.columns.is_unique:
        twice = table.columns[table.columns.duplicated()][0]
        raise InputError(f"two columns are named {twice!r}")
    for option in ("src", "dst"):
        name = columns[option]
        if name in table.columns and not is_numeric_dtype(table[name]):
            table = table.assign(**{name: [_host(host, names, f"{name} of row {row}", row)
                                           for row, host in enumerate(table[name])]})
    for option, parse in (("nbytes", parse_bytes), ("start", parse_seconds)):
        name = columns[option]
        if name in table.columns and not is_numeric_dtype(table[name]):
            table = table.assign(**{name: [_number(value, f"{name} of row {row}", row, parse)
                                           for row, value in enumerate(table[name])]})
    return table


def _number(value: Any, what: str, row: int, parse: Callable[[Any, str], float]) -> float:
    """Read a number, or a quantity with a unit."""
    number = decimal(value) if isinstance(value, str) else plain(value)
    if isinstance(number, float) and (number == number or not isinstance(value, str)):
        return number
    try:
        return parse(value if isinstance(value, str) else number, what)
    except InputError as error:
        raise RowError(str(error), row) from error


def _host(value: Any, named: bool, what: str, row: int) -> Any:
    """Return a host from a column of texts: its name, or its number unless all are `named`."""
    text = value.strip() if isinstance(value, str) else value
    if named or not isinstance(text, str) or not text.isdecimal():
        return text
    if not is_digits(text, _MOST_DIGITS):
        raise RowError(f"{what} must be a name, or a number of at most {_MOST_DIGITS} digits from "
                       f"0 to 9, not {text!r}", row)
    return int(text)


def _line(error: InputError, text: str | None) -> int | None:
    """Return the line on which the row of an error ends."""
    if text is None or not isinstance(error, RowError):
        return None
    return next((line for line, _ in islice(_rows(text), error.row + 1, None)), None)


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
    rows = _rows(text)
    try:
        line, header = next(rows)
        for name, count in Counter(name.strip() for name in header).items():
            if name and count > 1:
                raise TraceProblemsError([Problem(line, f"{count} columns are named {name!r}")],
                                         path)
        for line, row in rows:
            if len(row) > len(header):
                raise TraceProblemsError([Problem(
                    line, f"{len(row)} values, where the header has {len(header)}: "
                    f"{reprlib.repr(','.join(row))}")], path)
    except csv.Error as error:
        raise TraceProblemsError([Problem(None, f"{_NO_TABLE}: {error}")], path) from error


def _csv(text: str, path: Path) -> pd.DataFrame:
    """Read the text of a CSV file.

    Raises
    ------
    TraceProblemsError
        If it is not a table, for example if a line has more values than the header.
    """
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
    """Read a Parquet file.

    Raises
    ------
    MissingExtraError
        If pyarrow is not installed.
    TraceError
        If it is not a Parquet file.
    """
    from netsim.results.parquet import read_parquet

    try:
        return with_index(read_parquet(path, limit=True))
    except (MissingExtraError, TraceError):
        raise
    except (OSError, ValueError) as error:
        raise TraceError(str(error), path) from error
