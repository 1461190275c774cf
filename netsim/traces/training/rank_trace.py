"""The operations of one rank, from its trace; jobs in which all ranks do together what one does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from netsim.base.brief import brief
from netsim.errors import TraceError
from netsim.operations import Family, Programs, Row

#: The longest time of an operation. A longer one is from a damaged stamp.
WEEK_S = 7 * 86400

#: Largest number of nodes or ranks that a message names.
_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class RankNode:
    """An operation of a rank.

    Attributes
    ----------
    id : int
        Unique on its rank. Nodes of a stream that could begin run in order of ids, and
        communications are matched across ranks in that order.
    name : str
    kind : {"compute", "point", "collective", "send", "recv"}
        A point takes no time.
    after : tuple of int
        Ids of nodes of the same rank that must be complete before this one begins.
    seconds : float
        Duration of a computation.
    stream : str
        The stream on which it takes turns with other nodes of its rank; ``""`` for none.
    collective : str
        One of `netsim.operations.COMMUNICATIONS`, or ``"barrier"``.
    members : tuple of int
        The ranks of a collective; the sender and the receiver of a message.
    payload : int
        Bytes of the larger buffer of a rank, or of the message.
    group, label : str
        The unique name of a collective's group, and its label.
    tag : int
        Tag of a message.
    where : str
        The name in errors; by default the id.
    """

    id: int
    name: str
    kind: str
    after: tuple[int, ...] = ()
    seconds: float = 0.0
    stream: str = ""
    collective: str = ""
    members: tuple[int, ...] = ()
    payload: int = 0
    group: str = ""
    label: str = ""
    tag: int = 0
    where: str = ""
    __repr__ = brief

    def __str__(self) -> str:
        return self.where or f"node {self.id} ({self.name!r})"


@dataclass(frozen=True, slots=True, eq=False)
class RankTrace:
    """The operations of one rank.

    Attributes
    ----------
    rank : int
    path : Path
        The file, for messages.
    nodes : tuple of RankNode
        In order of their ids.
    """

    rank: int
    path: Path
    nodes: tuple[RankNode, ...]
    __repr__ = brief

    @classmethod
    def of(cls, rank: int, path: Path, nodes: Iterable[RankNode]) -> RankTrace:
        """Make the trace of a rank from nodes in any order; check their ids and dependencies."""
        made = cls(rank, path, tuple(sorted(nodes, key=lambda node: node.id)))
        made._check()
        return made

    def refuse(self, problem: str) -> TraceError:
        """Make an error that names the file and the rank."""
        return TraceError(f"rank {self.rank}: {problem}", self.path)

    def _check(self) -> None:
        known: dict[int, RankNode] = {}
        for node in self.nodes:
            if node.id in known:
                raise self.refuse(f"the id {node.id} occurs twice: {known[node.id].name!r} and "
                                  f"{node.name!r}")
            known[node.id] = node
        for node in self.nodes:
            for other in node.after:
                if other not in known:
                    raise self.refuse(f"{node} depends on node {other}, which is not there")
        if circle := _circle(known):
            raise self.refuse(f"nodes depend on each other in a circle: {listed(circle)}")


def _circle(nodes: dict[int, RankNode]) -> list[int]:
    """Find a circle of nodes that depend on each other, by ids; empty if there is none."""
    left = {node.id: len(set(node.after)) for node in nodes.values()}
    children: dict[int, list[int]] = {}
    for node in nodes.values():
        for parent in set(node.after):
            children.setdefault(parent, []).append(node.id)
    ready = [each for each, count in left.items() if not count]
    for each in ready:  # the loop appends to the list
        for child in children.get(each, ()):
            left[child] -= 1
            if not left[child]:
                ready.append(child)
    if len(ready) == len(nodes):
        return []
    at = next(each for each, count in left.items() if count)
    way: dict[int, int] = {}
    while at not in way:
        way[at] = len(way)
        at = next(parent for parent in nodes[at].after if left[parent])
    return list(way)[way[at]:][::-1]


def too_long(what: object, seconds: float, way_out: str) -> str:
    """Format the message about an operation that takes longer than a week."""
    return (f"{what}: takes {seconds / 86400:,.0f} days, which is more than a week, as by a "
            f"damaged stamp; {way_out}")


def listed(numbers: Iterable[int]) -> str:
    """Format numbers as text; of many, only the first ones."""
    given = list(numbers)
    more = f" and {len(given) - _MOST_NAMED} more" if len(given) > _MOST_NAMED else ""
    return ", ".join(map(str, given[:_MOST_NAMED])) + more


# --- ranks that do the same together -------------------------------------------------------
def join_copies(trace: RankTrace, ranks: int) -> Programs | None:
    """Make the programs of ranks that are copies of one; see `netsim.traces.training.join`.

    Their operations are those that `join` makes, with equal ones of all ranks side by side. None if
    there are no nodes, or if a communication is not one of all ranks, so that copies are not alike.
    """
    everyone = frozenset(range(ranks))
    for node in trace.nodes:
        if node.kind not in ("compute", "point", "collective") or (
                node.kind == "collective" and everyone.symmetric_difference(node.members)):
            return None
    return _Copies(trace, ranks).programs() if trace.nodes else None


class _Copies:
    """Gives each node its rows; those of collectives come last, group by group."""

    def __init__(self, trace: RankTrace, ranks: int) -> None:
        self._nodes = trace.nodes
        self._each, self._shared = np.arange(ranks), np.zeros(ranks, np.int64)
        self._rows: list[Row] = []
        self._until: list[int] = []
        self._after: list[tuple[int, int]] = []
        self._families: dict[tuple[str, tuple[int, ...], int, str], int] = {}
        self._begins: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    def programs(self) -> Programs:
        """Make all operations; an iteration ends when those of all ranks are done."""
        groups: dict[tuple[str, tuple[int, ...]], list[RankNode]] = {}
        for node in self._nodes:
            if node.kind == "collective":
                groups.setdefault((node.group, node.members), []).append(node)
            if node.kind != "collective" or node.stream:
                self._begins[node.id] = self._ends[node.id] = self._on_each(node)
        for met in groups.values():
            for node in met:
                self._meet(node)
        self._after += [(self._begins[node.id], self._ends[other]) for node in self._nodes
                        for other in node.after]
        waits, awaited = (set(side) for side in zip(*self._after, strict=True)
                          ) if self._after else (set(), set())
        others = range(len(self._rows))
        end = self._add(Row("end", "", None, 0.0, -1, 1, self._shared))
        self._after += [(end, row) for row in others if row not in awaited]
        return Programs(
            tuple(self._rows), tuple(self._after),
            tuple((row, end) for row in others if row not in waits),
            tuple(Family(kind, np.array([members]), payload, label)
                  for kind, members, payload, label in self._families),
            len(self._each), tuple(self._until), "number")

    def _add(self, row: Row) -> int:
        self._rows.append(row)
        self._until.append(len(self._until))
        return len(self._rows) - 1

    def _on_each(self, node: RankNode) -> int:
        """Add what each rank does alone: a computation, or the way to a collective."""
        return self._add(Row(node.name, node.stream, self._each if node.stream else None,
                             node.seconds, -1, len(self._each), self._each))

    def _meet(self, node: RankNode) -> None:
        """Add a collective of all ranks, until whose end a stream of each is busy."""
        family = -1
        if node.collective != "barrier":
            key = node.collective, node.members, node.payload, node.label
            family = self._families.setdefault(key, len(self._families))
        shared = self._add(Row(node.name, "", None, 0.0, family, 1, self._shared))
        self._ends[node.id] = shared
        if node.id in self._begins:
            self._until[self._begins[node.id]] = shared
            self._after.append((shared, self._begins[node.id]))
        else:
            self._begins[node.id] = shared
