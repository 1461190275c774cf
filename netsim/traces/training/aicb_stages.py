"""The operations of ranks in a workload of AICB with several pipeline stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from netsim.traces.training.aicb_file import AicbFile, AicbRow
from netsim.traces.training.rank_trace import RankNode, RankTrace
from netsim.traces.training.scaling import Layout, check_nodes
from netsim.traces.training.simai_tool import GroupSizes

#: The kinds of groups within a stage by those of a layout.
_REPLICAS = {"dp": "dp-cp", "ep": "ep", "dp-ep": "edp"}


def stage_traces(file: AicbFile, sizes: GroupSizes, *, skip_init: bool) -> Iterator[RankTrace]:
    """Yield the trace of each rank: the rows of its stage, one after the other.

    A message goes to the rank in the same position of the next or the previous stage. Adjacent
    messages begin together, as AICB issues them. Otherwise ranks that receive before they send
    would wait for each other.
    """
    layout = Layout(tp=sizes.tp, ep=sizes.ep, dp=sizes.dp, pp=sizes.pp)
    stages = [file.rows(stage, skip_init=skip_init) for stage in range(layout.pp)]
    check_nodes(sum(map(len, stages)) * (layout.ranks // layout.pp), layout.ranks, file.path)
    for rank in range(layout.ranks):
        yield RankTrace.of(rank, file.path, _nodes(layout, rank, stages[layout.place(rank)[2]]))


def _nodes(layout: Layout, rank: int, rows: Sequence[AicbRow]) -> Iterator[RankNode]:
    done: tuple[int, ...] = ()
    begun: list[int] = []
    messages = False
    for number, row in enumerate(rows):
        if not row.group:
            continue
        if not (messages and row.peer):
            done, begun = tuple(begun), []
        yield _node(layout, rank, number, row, done)
        begun.append(number)
        messages = bool(row.peer)


def _node(layout: Layout, rank: int, number: int, row: AicbRow, after: tuple[int, ...]) -> RankNode:
    t, j, stage = layout.place(rank)
    name = f"{number}.{row.stage}/{row.group} {row.kind}"
    where = f"line {row.line} ({row.kind!r})"
    if not row.peer:
        return RankNode(number, name, "collective", after, collective=row.kind,
                        members=_members(layout, row.group, rank), payload=row.nbytes,
                        group=row.group, label=row.group, where=where)
    other = layout.rank(t, j, (stage + row.peer) % layout.pp)
    ends = (rank, other) if row.kind == "send" else (other, rank)
    return RankNode(number, name, row.kind, after, collective="send", members=ends,
                    payload=row.nbytes, label="pp", where=where)


def _members(layout: Layout, group: str, rank: int) -> tuple[int, ...]:
    """List the ranks of the group of a given kind to which a rank belongs."""
    t, j, stage = layout.place(rank)
    if group == "all":
        return tuple(range(layout.ranks))
    if group == "tp":
        return tuple(layout.rank(other, j, stage) for other in range(layout.tp))
    if group in _REPLICAS:
        return tuple(layout.rank(t, other, stage)
                     for other in layout.groups_of(j)[_REPLICAS[group]])
    stages = range(layout.pp) if group == "pp" else sorted({0, layout.pp - 1})
    return tuple(layout.rank(t, j, other) for other in stages)
