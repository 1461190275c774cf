"""Workload files of AICB (``.csv``), which list communication by rows, and their operations."""

from __future__ import annotations

import csv
import re
import reprlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from netsim.base.brief import brief
from netsim.base.limits import check_limit
from netsim.base.reading import Line, read_text, split_lines
from netsim.base.values import as_whole
from netsim.errors import NetsimWarning, TraceError, not_one_of
from netsim.traces.training.rank_trace import RankNode, RankTrace, join
from netsim.traces.training.scaling import (
    Layout,
    check_nodes,
    grown_layout,
    join_alike,
    kept_bytes,
)
from netsim.workload import Operations
from netsim.workload.operations import Programs

# --- rows of the file ----------------------------------------------------------------------

_COLUMNS = ("comm_type", "comm_group", "comm_group_size", "msg_size", "stage", "dst", "src",
            "additional", "_elapsed_time", "algbw", "busbw", "count")

#: Kinds of rows, by their names in the file.
_KINDS = {"all_reduce": "all-reduce", "all_gather": "all-gather",
          "all_gather_into_tensor": "all-gather", "reduce_scatter": "reduce-scatter",
          "reduce_scatter_tensor": "reduce-scatter", "all_to_all": "all-to-all",
          "broadcast": "broadcast", "reduce": "reduce", "barrier": "barrier",
          "computation": "computation", "epoch_end": "epoch-end"}

_MESSAGES = {"isend": "send", "irecv": "recv"}

_GROUPS = {"tp_group": "tp", "dp_group": "dp", "ep_group": "ep", "ep_dp_group": "dp-ep",
           "all": "all", "all_nodes": "all"}

#: Groups across stages of the pipeline, in files with a part for each.
_ACROSS = {"pp_group": "pp", "embedding_group": "embedding"}

#: Groups and messages that are not the same for all ranks.
_OTHERS = (*_ACROSS, *_MESSAGES, "ep_tp_group")

#: The stage, relative to the own one, that a message goes to or comes from.
_PEERS = {"send": {"send_next": 1, "send_prev": -1}, "recv": {"recv_next": 1, "recv_prev": -1}}

_RANKS = re.compile(r"\[rank0 ~ rank([0-9]{1,7})\]")

_STAGE = re.compile(r"\[ ?pp_stage([0-9]{1,7}): ?\[((?:rank[0-9]{1,7}(?:, ?)?)+)\] ?\]")


class AicbRow(NamedTuple):
    """A collective, or another row."""

    #: A collective of `netsim.operations.COMMUNICATIONS`, ``"send"``, ``"recv"``,
    #: ``"barrier"``, ``"computation"`` or ``"epoch-end"``.
    kind: str
    group: str  #: a value of `_GROUPS` or `_ACROSS`; ``""`` without communication
    nbytes: int  #: the larger one of a rank's two buffers
    stage: str  #: the phase of training, such as ``"init"``
    peer: int = 0  #: of a message: by how many pipeline stages the other end is ahead
    line: int = 0


@dataclass(frozen=True, slots=True)
class AicbFile:
    """The contents of a workload file of AICB."""

    path: Path
    ranks: int
    #: Of each pipeline stage: the rows of a rank; of all ranks, if there is one stage.
    stages: tuple[tuple[AicbRow, ...], ...]
    sizes: dict[str, int]  #: number of ranks of each group that occurs
    __repr__ = brief

    def rows(self, stage: int = 0, *, skip_init: bool = False) -> tuple[AicbRow, ...]:
        """Return the rows of a stage, optionally without those of an initialization.

        The initialization extends to the first end of an epoch, if it contains an ``init``.
        """
        rows = self.stages[stage]
        ends = [at for at, row in enumerate(rows) if row.kind == "epoch-end"]
        if skip_init and ends and any(row.stage.startswith("init") for row in rows[:ends[0]]):
            return rows[ends[0] + 1:]
        return rows


def read_aicb_file(path: str | Path) -> AicbFile:
    """Read a workload file of AICB; rows for some ranks only are errors."""
    return _Reader(Path(path)).file()


class _Reader:
    """Reads a file line by line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sizes: dict[str, tuple[int, int]] = {}
        self._rows = 0

    def file(self) -> AicbFile:
        """Read the whole file."""
        lines = split_lines(read_text(self._path))
        begins = [at for at, line in enumerate(lines) if line.startswith("[")]
        if begins[:1] != [0]:
            begins = [0, *begins]
        titles = [_STAGE.fullmatch(lines[at].strip()) for at in begins]
        if titles[0]:
            ranks = self._stages(begins, titles)
        else:
            ranks, begins = self._alike(lines[0]), [0]
        parts = pairwise([*begins, len(lines)])
        stages = tuple(self._part(lines[begin:end], begin, ranks, staged=len(begins) > 1)
                       for begin, end in parts)
        return AicbFile(self._path, ranks, stages,
                        {group: size for group, (size, _) in self._sizes.items()})

    def _alike(self, line: str) -> int:
        """Read the number of ranks from the title of a file in which all ranks do the same."""
        title = _RANKS.fullmatch(line.strip())
        ranks = int(title[1]) + 1 if title else 0
        if not ranks:
            raise TraceError("must be a title such as '[rank0 ~ rank7]' or '[ pp_stage0: [rank0, "
                             f"rank1] ]', not {reprlib.repr(line)}", self._path, 1)
        check_limit("ranks", ranks, self._path, 1)
        return ranks

    def _stages(self, begins: Sequence[int], titles: Sequence[re.Match[str] | None]) -> int:
        """Count the ranks of all pipeline stages, and check their titles."""
        ranks = each = 0
        for stage, (at, title) in enumerate(zip(begins, titles, strict=True)):
            found = [int(text) for text in re.findall("rank([0-9]+)", title[2])] if title else []
            each = each or len(found)
            if title is None or int(title[1]) != stage or found != [*range(ranks, ranks + each)]:
                raise TraceError(f"must be the title of stage {stage} of the pipeline, with the "
                                 f"next {each} ranks, from rank {ranks} on", self._path, at + 1)
            ranks += each
        return ranks

    def _part(self, lines: Sequence[str], begin: int, ranks: int, *, staged: bool
              ) -> tuple[AicbRow, ...]:
        """Read the rows below a title."""
        if len(lines) < 2 or tuple(lines[1].strip().split(",")) != _COLUMNS:
            raise TraceError(f"must be the columns {','.join(_COLUMNS)}", self._path, begin + 2)
        rows: list[AicbRow] = []
        for number, line in enumerate(lines[2:], begin + 3):
            if line.strip():
                row, count = self._row(number, line, ranks, staged)
                self._rows += count
                check_limit("steps", self._rows, self._path, number, where="rows times count")
                rows += [row._replace(line=number)] * count
        if not rows:
            raise TraceError("there are no rows", self._path, begin + len(lines))
        return tuple(rows)

    def _row(self, number: int, text: str, ranks: int, staged: bool) -> tuple[AicbRow, int]:
        """Read the row of a line, and its number of repetitions."""
        try:
            line = Line(self._path, number, next(csv.reader([text], strict=True)))
        except csv.Error as error:
            raise TraceError(str(error), self._path, number) from error
        cells = line.words
        if len(cells) != len(_COLUMNS):
            line.refuse(f"{len(cells)} values for {len(_COLUMNS)} columns")
        kind, group = _named(line, staged)
        count = line.whole(len(_COLUMNS) - 1, "count", 1)
        if kind in ("computation", "epoch-end"):
            return AicbRow(kind, "", 0, cells[4]), count
        if kind in _PEERS:
            return _message(line, kind), count
        size = line.whole(2, "comm_group_size", 1)
        if group == "all" and size != ranks:
            line.refuse(f"comm_group_size: there are {ranks} ranks, not {size}")
        known = self._sizes.setdefault(group, (size, number))
        if known[0] != size:
            line.refuse(f"comm_group_size: {cells[1]} has {size} ranks here and {known[0]} in "
                        f"line {known[1]}")
        nbytes = 0 if kind == "barrier" else line.whole(3, "msg_size")
        return AicbRow(kind, group, nbytes, cells[4]), count


def _message(line: Line, kind: str) -> AicbRow:
    """Read a message to or from the same position in another stage."""
    peers, additional = _PEERS[kind], line.words[7]
    if additional not in peers:
        line.refuse(not_one_of("additional: a message", additional, peers))
    return AicbRow(kind, "pp", line.whole(3, "msg_size"), line.words[4], peers[additional])


def _named(line: Line, staged: bool) -> tuple[str, str]:
    """Read the kind and the group of a row."""
    kind = line.words[0].removeprefix("CommType.")
    group = line.words[1].removeprefix("CommGroup.")
    kinds, groups = _KINDS, _GROUPS
    if staged:
        kinds, groups = kinds | _MESSAGES, groups | _ACROSS
    for word in (kind, group):
        if word in _OTHERS and word not in kinds and word not in groups:
            line.refuse(f"{word!r} is not the same for all ranks, and the file does not say what "
                        "the others do: take the .txt file of SimAI, or the format llm")
    if kind not in kinds:
        line.refuse(not_one_of("comm_type", kind, kinds))
    if kind in ("computation", "epoch_end"):
        return kinds[kind], ""
    if group not in groups:
        line.refuse(not_one_of("comm_group", group, groups))
    return kinds[kind], groups[group]


# --- operations ----------------------------------------------------------------------------

def aicb_operations(file: AicbFile, gpus: int | None, scale: Mapping[str, int] | None,
                    keep: str, gpus_per_server: int, skip_init: bool, strict: bool
                    ) -> Programs | Operations:
    """Make the operations of ranks in a file of AICB."""
    for row in (row for rows in file.stages if strict for row in rows):
        if row.group and row.kind != "barrier" and not row.nbytes:
            raise TraceError(f"msg_size of {row.kind} of {row.group} must be at least 1, not 0",
                             file.path, row.line)
    traced = _layout(file)
    if gpus is not None:
        gpus = as_whole(gpus, "gpus", 1)
        traced = Layout.dividing(gpus, traced.tp, traced.ep, traced.pp, file.path)
    layout = grown_layout(traced, scale, file.path)
    file = replace(file, stages=tuple(tuple(
        row._replace(nbytes=kept_bytes(row.kind, row.group, row.nbytes, traced, layout, keep))
        for row in rows) for rows in file.stages))
    if any(row.kind == "computation" for rows in file.stages for row in rows):
        warnings.warn(NetsimWarning("computations have no times, and take none", file.path),
                      stacklevel=4)
    if layout.pp > 1 and len(file.stages) > 1:
        return join(list(_stage_traces(file, layout, skip_init=skip_init)))
    return join_alike(_alike_trace(file, layout, skip_init=skip_init), layout, gpus_per_server)


def _layout(file: AicbFile) -> Layout:
    """Divide the ranks of a file of AICB into groups."""
    tp, ep = (file.sizes.get(group, 1) for group in ("tp", "ep"))
    pp = len(file.stages)
    if pp == 1 and "dp" in file.sizes:  # one stage, like the others
        pp = max(file.ranks // (tp * file.sizes["dp"]), 1)
    if file.ranks % (tp * pp * ep):
        raise TraceError(f"{file.ranks} ranks are not in groups of tp = {tp}, ep = {ep}, in {pp} "
                         "stages", file.path)
    layout = Layout.dividing(file.ranks, tp, ep, pp, file.path)
    for group, size in file.sizes.items():
        if layout.size(group) != size:
            raise TraceError(f"{group} groups have {size} ranks, not {layout.size(group)}: there "
                             f"are {file.ranks} ranks in {pp} stages, of tp = {tp} and ep = {ep}",
                             file.path)
    return layout


def _stage_traces(file: AicbFile, layout: Layout, *, skip_init: bool) -> Iterator[RankTrace]:
    """Yield the trace of each rank: the rows of its stage, one after the other.

    A message goes to the rank in the same position of the next or the previous stage. Adjacent
    messages begin together, as AICB issues them. Otherwise ranks that receive before they send
    would wait for each other.
    """
    stages = [file.rows(stage, skip_init=skip_init) for stage in range(layout.pp)]
    check_nodes(sum(map(len, stages)) * (layout.ranks // layout.pp), layout.ranks, file.path)
    for rank in range(layout.ranks):
        yield RankTrace.of(rank, file.path, _nodes(layout, rank, stages[layout.place(rank)[2]]))


def _alike_trace(file: AicbFile, layout: Layout, *, skip_init: bool) -> RankTrace:
    """Make the trace of rank 0, which all others repeat; where nothing is sent, ranks only meet."""
    rows = file.rows(skip_init=skip_init)
    nodes = [node if node.payload and len(node.members) > 1 else replace(node, collective="barrier")
             for node in _nodes(layout, 0, rows)]
    end = RankNode(len(rows), "end", "point", tuple(node.id for node in nodes[-1:]), stream="end")
    return RankTrace(0, file.path, (*nodes, end))


def _nodes(layout: Layout, rank: int, rows: Sequence[AicbRow]) -> Iterator[RankNode]:
    t, j, stage = layout.place(rank)
    members_of = cache(partial(layout.members, rank=rank))
    done: tuple[int, ...] = ()
    begun: list[int] = []
    messages = False
    for number, row in enumerate(rows):
        if not row.group:
            continue
        if not (messages and row.peer):
            done, begun = tuple(begun), []
        kind, collective, members = "collective", row.kind, members_of(row.group)
        if row.peer:
            other = layout.rank(t, j, (stage + row.peer) % layout.pp)
            kind, collective = row.kind, "send"
            members = (rank, other) if kind == "send" else (other, rank)
        yield RankNode(number, f"{number}.{row.stage}/{row.group} {row.kind}", kind, done,
                       collective=collective, members=members, payload=row.nbytes,
                       group=row.group, label=row.group, where=f"line {row.line} ({row.kind!r})")
        begun.append(number)
        messages = bool(row.peer)
