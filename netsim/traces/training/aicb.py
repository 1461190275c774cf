"""Workload files of AICB (``.csv``): the communication of ranks by rows, and their operations."""

from __future__ import annotations

import csv
import re
import reprlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from netsim.base.brief import brief
from netsim.base.limits import check_limit
from netsim.base.reading import Line, read_text, split_lines
from netsim.errors import TraceError, not_one_of
from netsim.traces.training.rank_trace import RankNode, RankTrace
from netsim.traces.training.scaling import Layout, check_nodes

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

def stage_traces(file: AicbFile, layout: Layout, *, skip_init: bool) -> Iterator[RankTrace]:
    """Yield the trace of each rank: the rows of its stage, one after the other.

    A message goes to the rank in the same position of the next or the previous stage. Adjacent
    messages begin together, as AICB issues them. Otherwise ranks that receive before they send
    would wait for each other.
    """
    stages = [file.rows(stage, skip_init=skip_init) for stage in range(layout.pp)]
    check_nodes(sum(map(len, stages)) * (layout.ranks // layout.pp), layout.ranks, file.path)
    for rank in range(layout.ranks):
        yield RankTrace.of(rank, file.path, _nodes(layout, rank, stages[layout.place(rank)[2]]))


def alike_trace(file: AicbFile, layout: Layout, *, skip_init: bool) -> RankTrace:
    """Make the trace of rank 0, as which all others do; where nothing is sent, they only meet."""
    rows = file.rows(skip_init=skip_init)
    nodes = [node if node.payload and len(node.members) > 1 else replace(node, collective="barrier")
             for node in _nodes(layout, 0, rows)]
    end = RankNode(len(rows), "end", "point", tuple(node.id for node in nodes[-1:]), stream="end")
    return RankTrace.of(0, file.path, (*nodes, end))


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
