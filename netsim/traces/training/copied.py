"""Jobs in which all ranks do together what the trace of one rank says."""

from __future__ import annotations

import numpy as np

from netsim.programs import Family, Programs, Row
from netsim.traces.training.rank_trace import RankNode, RankTrace


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
