"""The flow files of the HPCC simulator (``flow.txt``): a flow per line."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from netsim.checks import check_path
from netsim.errors import NetsimWarning, TraceError
from netsim.limits import check_limit
from netsim.network.hpcc import host_numbers, rest_of
from netsim.network.lines import Line, lines_of
from netsim.reading import open_text
from netsim.traces.files import require_file
from netsim.traces.problems import Problem, TraceProblemsError
from netsim.units import is_digits
from netsim.workload import Workload


def has_count_of_flows(path: str | Path) -> bool:
    """Whether a file begins with a number alone, followed by a flow; False if it cannot be read."""
    try:
        with open_text(path) as file:
            count, flow = file.readline(100), file.readline(1000)
            return is_digits(count.strip()) and len(flow.split()) >= 6 and ":" not in flow
    except (OSError, UnicodeDecodeError):
        return False


def read_hpcc_flows(path: str | Path, *, topology: str | Path | None = None, seed: int = 0
                    ) -> Workload:
    """Read a flow file of the HPCC simulator (ns-3).

    The first line has the number of flows. Each further line is a flow,
    ``src dst pg dport bytes start``, with the start in seconds. Priority groups (``pg``) and ports
    are ignored, and so is everything after the given number of flows. Flow k is job k.

    Parameters
    ----------
    path : path-like
    topology : path-like, optional
        The topology file with the numbers of nodes that flows refer to; a relative path starts at
        the folder of `path`. See `netsim.network.hpcc.hpcc`. Not needed if hosts come before
        switches in that file, because numbers of nodes are then numbers of hosts.
    seed : int
        The workload's seed.

    Raises
    ------
    TraceProblemsError
        If a file cannot be read, its contents are invalid, with the line, or a flow is not between
        hosts.

    Warns
    -----
    NetsimWarning
        If the flows are not in order of their starts, or the file has more flows than announced.
    """
    check_path(path, "path")
    path = require_file(path)
    try:
        hosts = None
        if topology is not None:
            check_path(topology, "topology")
            hosts = host_numbers(path.parent / topology)
        rows = _read_rows(path, hosts)
    except TraceError as error:
        raise TraceProblemsError([Problem(error.line, error.message)], error.path or path
                                 ) from error
    src, dst, nbytes, start = (np.array(column) for column in zip(*rows, strict=True))
    return Workload.from_arrays(src, dst, nbytes.astype(np.float64), start, name=path.stem,
                                seed=seed)


def _read_rows(path: Path, hosts: dict[int, int] | None) -> list[tuple[int, int, int, float]]:
    lines = lines_of(path)
    head = next(lines, None)
    if head is None:
        raise TraceError("is empty; the first line must be the number of flows", path, 1)
    count = head.whole(0, "the number of flows", 1)
    rows = []
    for line in lines:
        rows.append(_flow(line, hosts))
        if len(rows) == count:
            break
    if len(rows) < count:
        raise TraceError(f"{count} flows announced, {len(rows)} found", path, head.number)
    _warn(path, rows, lines)
    return rows


def _flow(line: Line, hosts: dict[int, int] | None) -> tuple[int, int, int, float]:
    ends = []
    for k, what in enumerate(("src", "dst")):
        node = line.whole(k, what)
        check_limit("hosts", node, line.path, line.number, where=what)
        if hosts is not None and node not in hosts:
            line.refuse(f"{what} {node} is not a host of the topology")
        ends.append(node if hosts is None else hosts[node])
    line.whole(2, "pg")
    line.whole(3, "dport")
    return ends[0], ends[1], line.whole(4, "bytes", 1), line.real(5, "start")


def _warn(path: Path, rows: list[tuple[int, int, int, float]], lines: Iterator[Line]) -> None:
    if any(after[3] < before[3] for before, after in pairwise(rows)):
        warnings.warn(NetsimWarning("the flows are not in order of their starts; they are sorted",
                                    path), stacklevel=4)
    if rest := rest_of(lines, 6):
        warnings.warn(NetsimWarning(
            f"{len(rest)} lines like flows follow those that are announced, and are ignored",
            path, rest[0].number), stacklevel=4)
