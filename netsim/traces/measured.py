"""Readers of measured times: outputs of nccl-tests, tables of vidur, and plain CSV files.

`read_measured` returns measurements, each of one collective among the same ranks at several sizes,
or of flows that ran at the same time.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.base.lazy import pd
from netsim.base.reading import Line, read_text, require_file, split_lines
from netsim.base.units import parse_bytes, parse_seconds
from netsim.base.values import as_choice, as_path, as_whole
from netsim.collectives import COLLECTIVES, bandwidths
from netsim.errors import InputError, TraceError

#: Collectives that nccl-tests measure, by the names of its programs.
_PROGRAMS = {"all_reduce": "all-reduce", "all_gather": "all-gather",
             "reduce_scatter": "reduce-scatter", "broadcast": "broadcast", "reduce": "reduce",
             "alltoall": "all-to-all", "sendrecv": "send-recv"}

_RANK = re.compile(r"#\s+Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?Pid\s+\d+\s+on\s+(\S+)\s+"
                   r"device\s+(\d+)")

#: Where a row begins, whatever a launcher has put before it: size, count and type.
_ROW = re.compile(r"(?:^|\s)\d+\s+\d+\s+(?:u?int\d+|u?char|half|float|double|bf\w*|f\d\w*)\s")

_COLOUR = re.compile(r"\x1b\[[\d;]*m")

#: Where the name of a program stands: in the output of new versions, or in a command or a file.
_NAMED = re.compile(rf"(?<![a-z])({'|'.join(sorted(_PROGRAMS, key=len, reverse=True))})"
                    r"(?:_perf)?(?![a-z])")


@dataclass(frozen=True)
class Measurement:
    """The times of a collective among some ranks; or of flows, which have a begin and an end.

    Attributes
    ----------
    source : str
        The name of the file.
    collective : str
        One of `netsim.collectives.COLLECTIVES`; ``"flows"`` for flows.
    servers : ndarray of int, shape (ranks,)
        The server of each rank, numbered in the order of ranks. For flows, one per node.
    nbytes : ndarray of float, shape (points,)
        Sizes, as nccl-tests count them; see `netsim.collectives.schedule`.
    seconds : ndarray of float, shape (points,)
        Positive.
    pairs : tuple of (int, int), optional
        The positions that send and receive in a send-recv, or, for flows, of each point.
    begin_s : ndarray of float, shape (points,), optional
        When each flow begins.
    """

    source: str
    collective: str
    servers: Ints
    nbytes: Floats
    seconds: Floats
    pairs: tuple[tuple[int, int], ...] | None = None
    begin_s: Floats | None = None

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.servers)

    @property
    def per_server(self) -> int:
        """The largest number of ranks on a server."""
        return int(np.bincount(self.servers).max())


def read_measured(path: str | Path, *, collective: str | None = None, ranks: int | None = None,
                  per_server: int | None = None) -> list[Measurement]:
    """Read measured times of collectives or flows from a file.

    Parameters
    ----------
    path : path-like
        The output of programs of nccl-tests, as it is printed, with the lines ``# Rank``; times are
        those out of place. Or a CSV file with a header: ``collective``, ``ranks``, ``bytes``,
        ``seconds`` and optionally ``per_server``, the ranks of a server, by default all of them;
        or, of flows, ``src``, ``dst``, ``bytes``, ``begin_s`` and ``end_s``, with nodes by number.
        Bytes and seconds may have units. Or a table of collectives that vidur has profiled.
    collective : str, optional
        What an output of nccl-tests is about, if neither it nor the name of the file says so.
    ranks, per_server : int, optional
        The number of ranks, and of those on each server, if an output lacks the lines ``# Rank``.

    Raises
    ------
    TraceError
        If the file cannot be read, or does not say what was measured among which ranks.
    """
    path = require_file(Path(as_path(path, "path")))
    if collective is not None:
        as_choice(collective, "collective", COLLECTIVES)
    text = read_text(path)
    head = next((line for line in split_lines(text) if line.strip() and line[0] != "#"), "")
    names = [name.strip().lower() for name in head.split(",")]
    if "time_stats." in head:
        return _of_vidur(path)
    for needed, read in ((_COLLECTIVES, _collectives), (_FLOWS, _flows)):
        if len(names) > 1 and set(needed) & set(names) - {"bytes"}:
            return read(path, text, names)
    servers = None if ranks is None else np.arange(as_whole(ranks, "ranks", 2)) // as_whole(
        ranks if per_server is None else per_server, "per_server", 1)
    found = [_measurement(path, run, collective, servers) for run in _outputs(path, text)]
    if not found:
        raise TraceError("has neither a table of nccl-tests nor the header of a CSV file with "
                         f"{', '.join(_COLLECTIVES)} or {', '.join(_FLOWS)}", path)
    return found


# --- nccl-tests ----------------------------------------------------------------------------
@dataclass
class _Output:
    """What the output of one run of nccl-tests has said so far."""

    line: int = 0  #: of the header
    columns: list[str] = field(default_factory=list)
    named: str = ""
    hosts: dict[int, tuple[str, int, str]] = field(default_factory=dict)  #: by rank
    rows: list[tuple[float, float, float, float]] = field(default_factory=list)
    cells: dict[str, str] = field(default_factory=dict)  #: of the last row, the last of a name


def _outputs(path: Path, text: str) -> Iterator[_Output]:
    """Split the output of one run after the other; lines of other programs are skipped."""
    run = _Output()
    for number, raw in enumerate(split_lines(text), 1):
        line = _COLOUR.sub("", raw)
        line = line[line.find("#"):] if "#" in line else line  # launchers put tags before it
        words = line.split()
        if run.rows and (line.startswith(("# nThread", "# Using devices", "# nccl-tests"))
                         or "Collective test starting" in line):
            yield run
            run = _Output()
        if found := _RANK.match(line):
            if found[2] not in (None, "0"):
                raise TraceError("ranks are in several groups; measure one group at a time", path,
                                 number)
            # Names that were left out are all the same: a device then tells servers apart.
            again = sum(other[0::2] == (found[3], found[4]) for other in run.hosts.values())
            run.hosts[int(found[1])] = found[3], again, found[4]
        elif words[:3] == ["#", "size", "count"]:
            run.columns, run.line = words[1:], number
        elif run.columns and (row := _ROW.search(line)):
            _take(run, Line(path, number, line[row.start():].split()))
        elif (named := _NAMED.search(line)) and "perf" in line:
            run.named = _PROGRAMS[named[1]]
    if run.rows:
        yield run


def _take(run: _Output, line: Line) -> None:
    """Take a row: size, time in microseconds, algbw and busbw, out of place."""
    if len(line.words) < len(run.columns):
        line.refuse(f"the row has {len(line.words)} values, not {len(run.columns)}")
    at = run.columns.index("time" if "time" in run.columns else "cputime")
    row = tuple(line.real(place, name) for place, name in
                ((0, "size"), (at, "time"), (at + 1, "algbw"), (at + 2, "busbw")))
    if row[0] > 0 and row[1] > 0:
        run.rows.append((row[0], row[1] * 1e-6, row[2], row[3]))
    run.cells = dict(zip(run.columns, line.words, strict=False))


def _measurement(path: Path, run: _Output, collective: str | None, servers: Ints | None
                 ) -> Measurement:
    on = [run.hosts[k][:2] for k in range(len(run.hosts)) if k in run.hosts]
    if servers is None:
        if not on or len(on) < len(run.hosts):
            raise TraceError("has no lines '# Rank 0 ... on <host> device 0 ...' of all ranks "
                             "before the table; give ranks, and per_server, the ranks of each "
                             "server", path, run.line, key="ranks")
        order = {host: k for k, host in enumerate(dict.fromkeys(on))}
        servers = np.array([order[host] for host in on])
    count = len(servers)
    nbytes, seconds, algbw, busbw = np.array(run.rows).T
    possible = _possible(run.cells, count, algbw, busbw)
    in_name = _NAMED.search(path.stem)
    said = collective or run.named or (_PROGRAMS[in_name[1]] if in_name else "")
    if not said and len(possible) == 1:
        said = possible[0]
    if said not in possible:
        reason = (f"does not say which collective it is about: {' or '.join(possible)}"
                  if not said else f"is about {said}, but its table looks like "
                  f"{' or '.join(possible) or 'no collective that netsim has'}")
        raise TraceError(f"{reason}; give collective", path, run.line, key="collective")
    if said == "send-recv":
        return Measurement(path.name, said, servers, nbytes, seconds,
                           tuple((k, (k + 1) % count) for k in range(count)))
    return Measurement(path.name, said, servers, nbytes, seconds)


def _possible(cells: dict[str, str], ranks: int, algbw: Floats, busbw: Floats) -> list[str]:
    """List the collectives that have such a reduction and root, and this ratio of bandwidths."""
    reduces, rooted = cells.get("redop", "none") != "none", cells.get("root", "-1") != "-1"
    most = int(np.argmax(busbw))
    found = [name for name in _PROGRAMS.values()
             if (name in ("all-reduce", "reduce-scatter", "reduce")) == reduces
             and (name in ("broadcast", "reduce")) == rooted
             # Bandwidths have two decimals.
             and abs(busbw[most] - algbw[most] * _ratio(name, ranks)) < 0.02 + 0.02 * busbw[most]]
    # Only an all-to-all is never checked in place.
    in_place = next((cells[name] for name in ("#wrong", "error") if name in cells), "N/A") != "N/A"
    return [name for name in found if not (in_place and name == "all-to-all")]


def _ratio(collective: str, ranks: int) -> float:
    found = bandwidths(collective, ranks, 1.0, 1.0)
    return found.busbw / found.algbw


# --- tables --------------------------------------------------------------------------------
_COLLECTIVES = ("collective", "ranks", "bytes", "seconds")

_FLOWS = ("src", "dst", "bytes", "begin_s", "end_s")


def _rows(path: Path, text: str, names: Sequence[str], needed: Sequence[str],
          optional: Sequence[str] = ()) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line and the cells of each row of a CSV file."""
    for name in names:
        if name not in (*needed, *optional):
            raise TraceError(f"has an unknown column {name!r}; choose from: "
                             f"{', '.join((*needed, *optional))}", path, 1)
    for name in needed:
        if name not in names:
            raise TraceError(f"has no column {name!r}; it needs {', '.join(needed)}", path, 1)
    lines = (line for line in io.StringIO(text) if line.strip() and not line.startswith("#"))
    table = csv.reader(lines)
    next(table)
    for row in table:
        if len(row) != len(names):
            raise TraceError(f"has {len(row)} values, not {len(names)}", path, table.line_num)
        yield table.line_num, dict(zip(names, (cell.strip() for cell in row), strict=True))


def _read(path: Path, line: int, cells: dict[str, str], readers: dict[str, Callable[..., Any]]
          ) -> list[Any]:
    try:
        return [read(_number(cells[name]), name) for name, read in readers.items()]
    except InputError as error:
        raise TraceError(str(error), path, line) from error


def _number(cell: str) -> Any:
    try:
        return int(cell) if cell.isdigit() else float(cell)
    except ValueError:
        return cell


def _collectives(path: Path, text: str, names: Sequence[str]) -> list[Measurement]:
    points: dict[tuple[str, int, int], list[tuple[float, float]]] = {}
    for line, cells in _rows(path, text, names, _COLLECTIVES, ("per_server",)):
        said = cells["collective"]
        cells.setdefault("per_server", cells["ranks"])
        name, ranks, each, nbytes, seconds = _read(path, line, cells, {
            "collective": lambda _, what, said=said: as_choice(
                _PROGRAMS.get(said.removesuffix("_perf"), said), what, COLLECTIVES),
            "ranks": partial(as_whole, least=2), "per_server": partial(as_whole, least=1),
            "bytes": partial(parse_bytes, strict=True),
            "seconds": partial(parse_seconds, strict=True)})
        points.setdefault((name, ranks, each), []).append((nbytes, seconds))
    return [Measurement(path.name, name, np.arange(ranks) // each, *np.array(found).T)
            for (name, ranks, each), found in points.items()]


def _flows(path: Path, text: str, names: Sequence[str]) -> list[Measurement]:
    found = []
    for line, cells in _rows(path, text, names, _FLOWS):
        src, dst, nbytes, begin, end = _read(path, line, cells, {
            "src": as_whole, "dst": as_whole, "bytes": partial(parse_bytes, strict=True),
            "begin_s": parse_seconds, "end_s": parse_seconds})
        if not end > begin:
            raise TraceError(f"end_s must be after begin_s, not {cells['end_s']}", path, line)
        found.append((src, dst, nbytes, begin, end - begin))
    if not found:
        raise TraceError("has no rows", path)
    src, dst, nbytes, begin, seconds = np.array(found).T
    nodes = int(max(src.max(), dst.max())) + 1
    return [Measurement(path.name, "flows", np.arange(nodes), nbytes, seconds,
                        tuple(zip(src.astype(int).tolist(), dst.astype(int).tolist(),
                                  strict=True)), begin - begin.min())]


# --- vidur ---------------------------------------------------------------------------------
def _of_vidur(path: Path) -> list[Measurement]:
    """Split a table by GPUs; of two GPUs, the first one sends."""
    known = read_vidur(path)
    name = "send-recv" if "send_recv" in path.stem else "all-reduce"
    pairs = ((0, 1),) if name == "send-recv" else None
    shapes = known[["gpus", "per_server"]].drop_duplicates().to_numpy(np.int64).tolist()
    found = []
    for gpus, each in shapes:
        own = known[(known["gpus"] == gpus) & (known["per_server"] == each)]
        found.append(Measurement(path.name, name, np.arange(gpus) // each,
                                 own["bytes"].to_numpy(np.float64),
                                 own["measured_s"].to_numpy(np.float64), pairs))
    return found


def read_vidur(path: str | Path) -> pd.DataFrame:
    """Read a table of a collective that vidur has profiled, such as ``all_reduce.csv``.

    The result has a row for each number of GPUs, GPUs per server and size, with ``gpus``,
    ``per_server``, ``bytes`` and ``measured_s``. This is the least time of rank 0 over the
    repetitions that a row of the file summarises; if several rows of the file agree in the rest,
    their median.
    """
    path = require_file(path)
    rows = pd.DataFrame(_rows_of_vidur(path), columns=["gpus", "per_server", "bytes", "measured_s"])
    if rows.empty:
        raise TraceError("has no rows of rank 0", path)
    return rows.groupby(["gpus", "per_server", "bytes"])["measured_s"].median().reset_index()


def _rows_of_vidur(path: Path) -> Iterator[tuple[float, ...]]:
    table = csv.reader(io.StringIO(read_text(path)))
    head = next(table)
    least = next((name for name in head if re.fullmatch(r"time_stats\.\w+\.min", name)),
                 "time_stats.<collective>.min")
    names = ("rank", "num_workers", "devices_per_node", "size", least)
    for name in names:
        if name not in head:
            raise TraceError(f"has no column {name}", path, 1)
    places = [head.index(name) for name in names]
    for row in table:
        if len(row) != len(head):
            raise TraceError(f"has {len(row)} values, not {len(head)}", path, table.line_num)
        line = Line(path, table.line_num, [row[place] for place in places])
        if line.whole(0, "rank") == 0:
            yield (line.whole(1, "num_workers", 1), line.whole(2, "devices_per_node", 1),
                   line.whole(3, "size", 1), line.real(4, least, strict=True) * 1e-3)
