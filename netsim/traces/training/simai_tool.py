"""The arithmetic of SimAI's analytical tool: bandwidths, efficiencies and times of collectives.

The tool's gigabytes per second are 2^30 bytes; here all rates are in bytes per second.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from netsim.base.reading import read_text, split_lines
from netsim.base.units import Quantity, decimal, parse_rate
from netsim.base.values import about, as_choice, as_number, as_path, as_whole
from netsim.errors import InputError, TraceError, unknown_name
from netsim.traces.training.scaling import Layout
from netsim.traces.training.simai_file import SimaiFile, SimaiStep

# --- bandwidths in busbw.yaml --------------------------------------------------------------

_GROUPS = {"TP": "tp", "DP": "dp", "EP": "ep", "PP": "pp"}

_COLLECTIVES = {"allreduce": "all-reduce", "allgather": "all-gather",
                "reducescatter": "reduce-scatter", "alltoall": "all-to-all"}

#: The line of a block of pipelines, which the tool does not use.
_PIPELINE = "busbw"

_GIB = 2 ** 30

_MOST = 1e9


def read_busbw(path: Path) -> dict[tuple[str, str], float]:
    """Read bandwidths in bytes per second, by the group and the kind of a collective.

    After an optional line with a name, the file has blocks, such as ``TP:``, of lines such as
    ``allreduce,: 300``, in 2^30 bytes per second, or ``null`` for an unknown value.
    """
    found: dict[tuple[str, str], float] = {}
    group = ""
    for number, line in enumerate(split_lines(read_text(path)), 1):
        words = line.partition("#")[0].split()
        if not words or (number == 1 and not words[0].endswith((":", ","))):  # a name
            continue
        key, value = words[0].rstrip(":,"), words[1:]
        if not value and words[0].endswith(":"):
            if key not in _GROUPS:
                raise TraceError(unknown_name("group", key, _GROUPS), path, number)
            group = _GROUPS[key]
        elif not group:
            raise TraceError(f"must be a group such as TP:, not {line!r}", path, number)
        elif key not in (*_COLLECTIVES, _PIPELINE) or len(value) != 1:
            raise TraceError("must be a collective and its GiB/s, such as 'allreduce,: 300', of "
                             f"{', '.join(_COLLECTIVES)}, not {line!r}", path, number)
        elif value[0] != "null":
            rate = _rate(path, number, key, value[0])
            if key not in _COLLECTIVES:
                continue
            if (group, _COLLECTIVES[key]) in found:
                raise TraceError(f"{key} of {group.upper()} is there already", path, number)
            found[group, _COLLECTIVES[key]] = rate
    return found


def _rate(path: Path, number: int, key: str, text: str) -> float:
    rate = decimal(text)
    if not 0 < rate <= _MOST:
        raise TraceError(f"{key} must be a number of GiB/s above 0, or null, not {text!r}", path,
                         number)
    return rate * _GIB


# --- efficiencies and times ----------------------------------------------------------------

#: Collectives of fewer bytes take a fixed time, by the number of ranks; of others none.
SMALL = 1 << 20

_FIXED_NS = {2: 10_000, 4: 12_000, 8: 15_000, 16: 66_000, 32: 135_000, 64: 200_000, 128: 320_000}

#: The columns of tables by numbers of servers: 1, 2, 4, ... are the first ones.
_BY_SERVERS = {1 << k: k for k in range(8)}

_MANY, _EXPERTS = 4, 8

_COLUMNS = 12

_OVERLAPS = ("tp", "dp", "ep", "pp")


#: The size in bytes, and a value per column.
_TableRow = tuple[float, tuple[float, ...]]


@dataclass(frozen=True)
class Efficiencies:
    """The fraction of its bandwidth that a collective reaches, by size and number of servers."""

    nic: tuple[_TableRow, ...]
    nvlink: tuple[_TableRow, ...]
    alltoall: tuple[_TableRow, ...]

    @classmethod
    def read(cls, folder: Path) -> Efficiencies:
        """Read ``nic_ratio.csv``, ``nvlink_ratio.csv`` and ``ata_ratio.csv`` in a folder."""
        return cls(*(_table(folder / f"{name}_ratio.csv") for name in ("nic", "nvlink", "ata")))


def _table(path: Path) -> tuple[_TableRow, ...]:
    rows: list[_TableRow] = []
    for number, line in enumerate(split_lines(read_text(path))[1:], 2):
        if not line.strip():
            continue
        cells = line.split(",")
        size, *values = (decimal(cell) if cell.strip() else 1.0 for cell in cells)
        if len(values) != _COLUMNS or not 0 <= size < math.inf or not all(
                0 < value <= 1 for value in values):
            raise TraceError(f"must be a size and {_COLUMNS} parts of 1, or nothing for 1, not "
                             f"{line!r}", path, number)
        if rows and size <= rows[-1][0]:
            raise TraceError(f"sizes must rise, not {size:g} after {rows[-1][0]:g}", path, number)
        rows.append((size, tuple(values)))
    if not rows:
        raise TraceError("there are no rows", path, 2)
    return tuple(rows)


@dataclass(frozen=True)
class Machines:
    """The servers as SimAI's tool sees them, with rates in bytes per second."""

    gpus: int  #: per server
    nics: int  #: per server
    nvlink: float  #: of a GPU
    nic: float
    efficiencies: Efficiencies | None = None  #: all 1 if None
    #: Hidden fraction of the communication of each of `_OVERLAPS`.
    overlap: Mapping[str, float] = field(default_factory=dict)
    #: Given bandwidths, by group and kind of collective.
    known: Mapping[tuple[str, str], float] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, gpus: int, nics: int | None, nvlink: Quantity | None,
           nic: Quantity | None, efficiency: str | Path | None, busbw: str | Path | None,
           overlap: Mapping[str, float] | None) -> Machines:
        """Make the servers that options of `read_simai` describe, with files in `folder`."""
        efficiencies = None if efficiency is None else Efficiencies.read(
            folder / as_path(efficiency, "efficiency"))
        known = {} if busbw is None else read_busbw(folder / as_path(busbw, "busbw"))
        nics = gpus if nics is None else as_whole(nics, "nics_per_server", 1)
        if nvlink is None or nic is None:
            raise InputError("SimAI's arithmetic needs the rates nvlink and nic; its GB/s are "
                             '2^30 bytes per second, as in nvlink = "360GiB/s"')
        if not isinstance(overlap, Mapping | None):
            raise InputError(f"overlap must be a table of parts by group, such as {{tp = 0.5}}, "
                             f"not {overlap!r}", "overlap")
        with about("overlap"):
            parts = {as_choice(name, "overlap", _OVERLAPS): as_number(
                         part, f"overlap: {name}", least=0, most=1)
                     for name, part in (overlap or {}).items()}
        return cls(gpus, nics, parse_rate(nvlink, "nvlink", strict=True),
                   parse_rate(nic, "nic", strict=True), efficiencies, parts, known)

    def rate(self, step: SimaiStep, layout: Layout) -> tuple[float, float]:
        """Compute the bandwidth of a collective (bytes/s), and the fraction that it reaches."""
        if (step.group, step.kind) in self.known:
            return self.known[step.group, step.kind], 1.0
        servers, gpus, nics = self._spread(step.group, layout)
        if not nics:
            raise InputError(f"SimAI's arithmetic finds no NIC for a rank of {step.group} groups: "
                             f"{self.nics} NICs of {self.gpus} GPUs, tp = {layout.tp}, ep = "
                             f"{layout.ep}")
        beside = False  # whether NVLink is the slower one of several servers
        port = nics * self.nic
        if servers == 1:
            rate = self.nvlink
        elif step.kind == "all-to-all":
            rate = port / gpus * (servers * gpus - 1) / ((servers - 1) * gpus)
        elif gpus == 1:
            rate = port
        else:
            inside = self.nvlink * gpus / (gpus - 1) if port > self.nvlink else self.nvlink
            rate, beside = min(inside, port), inside < port
        return rate, self._part(step, layout, beside)

    def _spread(self, group: str, layout: Layout) -> tuple[int, int, int]:
        """Count the servers of a group, and its GPUs and NICs on each."""
        tp, ep = layout.tp, layout.ep
        inside, both = tp <= self.gpus, tp * ep <= self.gpus
        if group == "tp":
            return (1, tp, self.nics) if inside else (tp // self.gpus, self.gpus, self.nics)
        if group == "ep":
            if both:
                return 1, self.gpus // tp, self.nics
            return (tp * ep // self.gpus, max(self.gpus // tp, 1),
                    self.nics // (tp if inside else self.gpus))
        block = tp if group == "dp" else tp * ep
        if block <= self.gpus:
            return layout.size(group), self.gpus // block, self.nics // block
        return layout.size(group), 1, self.nics // self.gpus

    def _part(self, step: SimaiStep, layout: Layout, beside: bool) -> float:
        """Look up the fraction of its bandwidth that a collective reaches."""
        tables, every = self.efficiencies, step.kind == "all-to-all"
        rings = step.group == "tp" and step.kind in ("all-gather", "reduce-scatter")
        if tables is None or not step.nbytes or not (
                rings or (every and step.group in ("tp", "ep"))):
            return 1.0
        experts = every and step.group == "ep"
        servers = layout.tp * layout.ep // self.gpus if experts else layout.tp // self.gpus
        column = _BY_SERVERS.get(max(servers, 1), _MANY)
        if experts and layout.tp >= self.gpus:
            column = _EXPERTS
        rows = tables.alltoall if every else tables.nvlink if beside else tables.nic
        return _interpolated(rows, column, step.nbytes)


def _interpolated(rows: tuple[_TableRow, ...], column: int, nbytes: int) -> float:
    """Interpolate a column at a size, relative to its last value, in single precision."""
    last = rows[-1][1][column]
    above = bisect_right([row[0] for row in rows], nbytes)
    if above == 0:
        return float(np.float32(rows[0][1][column] / last))
    size, values = rows[above - 1]
    low = values[column] / last
    if size == nbytes:
        return float(np.float32(low))
    if above == len(rows):
        raise InputError(f"efficiencies are known up to {rows[-1][0]:g} bytes, not for a "
                         f"collective of {nbytes}")
    over, others = rows[above]
    part = (nbytes - size) / (over - size)
    return float(np.float32(low + (others[column] / last - low) * part))


def fixed_ns(step: SimaiStep, ranks: int) -> int | None:
    """Return the nanoseconds of a collective that is small enough to take a fixed time, or None."""
    return _FIXED_NS.get(ranks, 0) if 1 < step.nbytes < SMALL else None


def time_ns(step: SimaiStep, layout: Layout, machines: Machines) -> int:
    """Compute the nanoseconds of a collective as the tool does; 0 if there is none."""
    if not step.kind:
        return 0
    ranks = layout.size(step.group)
    fixed = fixed_ns(step, ranks)
    if fixed is not None:
        return fixed
    if ranks == 1 or not step.nbytes:
        return 0
    rate, part = machines.rate(step, layout)
    times = 2 if step.kind == "all-reduce" else 1
    return int(step.nbytes / (part * rate) * 1e9 * times * (ranks - 1) / ranks)


class SimaiTimes(NamedTuple):
    """The times of an iteration by SimAI's analytical tool, in seconds.

    Attributes
    ----------
    compute_s, ep_s, tp_s, dp_ep_s, dp_s, bubble_s, pp_s : float
    """

    compute_s: float
    ep_s: float
    tp_s: float
    dp_ep_s: float
    dp_s: float
    bubble_s: float
    pp_s: float

    @property
    def total_s(self) -> float:
        """Seconds of the iteration; only the given overlap hides communication."""
        return math.fsum(self)

    @property
    def exposed_s(self) -> float:
        """Seconds of exposed communication, without that between pipeline stages."""
        return math.fsum((self.ep_s, self.tp_s, self.dp_ep_s, self.dp_s))


def analytical_times(file: SimaiFile, layout: Layout, machines: Machines) -> SimaiTimes:
    """Compute the times of an iteration of a file as SimAI's analytical tool does.

    The arithmetic has no answer for some files, such as for a collective beyond the range of its
    tables; then it raises `InputError`.
    """
    spent = dict.fromkeys(("ep", "tp", "dp-ep", "dp"), 0)
    compute = base = 0
    for layer in file.layers:
        times = [time_ns(step, layout, machines) for step in layer.steps]
        computed = sum(step.compute_ns for step in layer.steps)
        compute += computed
        # Gradients of inputs count in the sum of the forward pass, whichever groups they have.
        first = "ep" if layer.steps[0].group == "ep" else "tp"
        last = "dp-ep" if layer.steps[2].group == "dp-ep" else "dp"
        for kind, ns in zip((first, first, last), times, strict=True):
            spent[kind] += _exposed(ns, kind, machines)
        if layer.name != "embedding_layer":
            base += times[0] + times[1] + computed
    batches = file.header.get("ga", 1) * file.header.get("vpp", 1)
    hidden = machines.overlap.get("pp", 1.0)
    sent = 2 * batches * file.header.get("pp_bytes", 0) / 2 ** 30
    pp = sent / hidden * (1 - hidden) if hidden else 0.0
    return SimaiTimes(compute / 1e9, spent["ep"] / 1e9, spent["tp"] / 1e9, spent["dp-ep"] / 1e9,
                      spent["dp"] / 1e9, (layout.pp - 1) / batches * base / 1e9, pp)


def _exposed(ns: int, group: str, machines: Machines) -> int:
    """Compute the exposed nanoseconds of a collective, in single precision as in the tool."""
    hidden = machines.overlap.get("dp" if group == "dp-ep" else group, 0.0)
    return int(np.float32(ns) * np.float32(1 - hidden))
