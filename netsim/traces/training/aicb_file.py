"""Workload files of AICB (``.csv``): what each rank communicates, a row after the other."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from netsim.brief import brief
from netsim.errors import TraceError
from netsim.traces.files import read_text, split_lines
from netsim.traces.problems import Problem, TraceProblemsError

__all__ = ["AicbFile", "AicbRow", "read_aicb_file"]

_COLUMNS = ("comm_type", "comm_group", "comm_group_size", "msg_size", "stage", "dst", "src",
            "additional", "_elapsed_time", "algbw", "busbw", "count")

#: What rows are called, and what they are.
_KINDS = {"all_reduce": "all-reduce", "all_gather": "all-gather",
          "all_gather_into_tensor": "all-gather", "reduce_scatter": "reduce-scatter",
          "reduce_scatter_tensor": "reduce-scatter", "all_to_all": "all-to-all",
          "broadcast": "broadcast", "reduce": "reduce", "barrier": "barrier",
          "computation": "computation", "epoch_end": "epoch-end"}
_GROUPS = {"tp_group": "tp", "dp_group": "dp", "ep_group": "ep", "ep_dp_group": "dp-ep",
           "all": "all", "all_nodes": "all"}
#: Groups and messages that are not the same for all ranks.
_OTHERS = ("pp_group", "ep_tp_group", "embedding_group", "isend", "irecv")

_MOST_RANKS = 10 ** 6
_MOST_ROWS = 10 ** 6
_MOST = 10 ** 18


class AicbRow(NamedTuple):
    """A collective, or another row.

    Attributes
    ----------
    kind : str
        A collective of `netsim.operations.COMMUNICATIONS`, ``"barrier"``, ``"computation"`` or
        ``"epoch-end"``.
    group : {"", "tp", "dp", "ep", "dp-ep", "all"}
    nbytes : int
        The larger one of a rank's two buffers.
    stage : str
        What it belongs to, such as ``"init"``.
    """

    kind: str
    group: str
    nbytes: int
    stage: str


@dataclass(frozen=True, slots=True)
class AicbFile:
    """What a workload file of AICB says.

    Attributes
    ----------
    path : Path
    ranks : int
        Number of ranks, all of which do the same.
    rows : tuple of AicbRow
    sizes : dict of str to int
        Ranks of the groups that occur.
    """

    path: Path
    ranks: int
    rows: tuple[AicbRow, ...]
    sizes: dict[str, int]
    __repr__ = brief

    @property
    def iteration(self) -> tuple[AicbRow, ...]:
        """The rows of an iteration: what comes after the first end of an epoch that ends an
        initialization, or all if there is none.
        """
        ends = [at for at, row in enumerate(self.rows) if row.kind == "epoch-end"]
        if ends and any(row.stage.startswith("init") for row in self.rows[:ends[0]]):
            return self.rows[ends[0] + 1:]
        return self.rows


def read_aicb_file(path: str | Path) -> AicbFile:
    """Read a workload file of AICB.

    Raises
    ------
    TraceProblemsError
        If it cannot be read, or has what only some ranks do, with the line.
    """
    return _Reader(Path(path)).file()


class _Reader:
    """Reads a file line by line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sizes: dict[str, tuple[int, int]] = {}

    def file(self) -> AicbFile:
        """Return what the file says."""
        lines = split_lines(read_text(self._path))
        title = re.fullmatch(r"\[rank0 ~ rank([0-9]{1,7})\]", lines[0].strip())
        ranks = int(title[1]) + 1 if title else 0
        if not 0 < ranks <= _MOST_RANKS:
            raise self._refuse(1, "must be a title such as '[rank0 ~ rank7]', of up to "
                               f"{_MOST_RANKS} ranks, not {lines[0]!r}")
        if len(lines) < 2 or tuple(lines[1].strip().split(",")) != _COLUMNS:
            raise self._refuse(2, f"must be the columns {','.join(_COLUMNS)}")
        rows: list[AicbRow] = []
        for number, line in enumerate(lines[2:], 3):
            if line.strip():
                row, count = self._row(number, line, ranks)
                if len(rows) + count > _MOST_ROWS:
                    raise self._refuse(number, f"more than {_MOST_ROWS} rows, with their count")
                rows += [row] * count
        if not rows:
            raise self._refuse(len(lines), "there are no rows")
        return AicbFile(self._path, ranks, tuple(rows),
                        {group: size for group, (size, _) in self._sizes.items()})

    def _refuse(self, line: int, problem: str) -> TraceError:
        return TraceProblemsError([Problem(line, problem)], self._path)

    def _row(self, number: int, line: str, ranks: int) -> tuple[AicbRow, int]:
        """Return what a line says, and how many times."""
        try:
            cells = next(csv.reader([line], strict=True))
        except csv.Error as error:
            raise self._refuse(number, str(error)) from error
        if len(cells) != len(_COLUMNS):
            raise self._refuse(number, f"{len(cells)} values for {len(_COLUMNS)} columns")
        kind, group = self._named(number, cells[0], cells[1])
        count = self._whole(number, "count", cells[-1], 1)
        if kind in ("computation", "epoch-end"):
            return AicbRow(kind, "", 0, cells[4]), count
        size = self._whole(number, "comm_group_size", cells[2], 1)
        if group == "all" and size != ranks:
            raise self._refuse(number, f"comm_group_size: there are {ranks} ranks, not {size}")
        known = self._sizes.setdefault(group, (size, number))
        if known[0] != size:
            raise self._refuse(number, f"comm_group_size: {cells[1]} has {size} ranks here and "
                               f"{known[0]} in line {known[1]}")
        nbytes = 0 if kind == "barrier" else self._whole(number, "msg_size", cells[3], 0)
        return AicbRow(kind, group, nbytes, cells[4]), count

    def _named(self, number: int, kind: str, group: str) -> tuple[str, str]:
        kind, group = kind.removeprefix("CommType."), group.removeprefix("CommGroup.")
        for word in (kind, group):
            if word in _OTHERS:
                raise self._refuse(number, f"{word!r} is not the same for all ranks, and the file "
                                   "does not say what the others do: take the .txt file of SimAI, "
                                   "or the format llm")
        if kind not in _KINDS:
            raise self._refuse(number, f"comm_type: {kind!r} is none of {', '.join(_KINDS)}")
        if kind in ("computation", "epoch_end"):
            return _KINDS[kind], ""
        if group not in _GROUPS:
            raise self._refuse(number, f"comm_group: {group!r} is none of {', '.join(_GROUPS)}")
        return _KINDS[kind], _GROUPS[group]

    def _whole(self, number: int, column: str, cell: str, least: int) -> int:
        if not (cell.isascii() and cell.isdecimal() and len(cell) < 20
                ) or not least <= int(cell) <= _MOST:
            raise self._refuse(number, f"{column} must be a whole number from {least} to 1e18, not "
                                       f"{cell!r}")
        return int(cell)
