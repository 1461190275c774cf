"""Joins the traces of ranks to the operations of a job.

Collectives and messages of ranks are matched. Where all ranks do the same, in one group or each in
its own groups, their operations are made side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.base.limits import check_limit, most
from netsim.errors import InputError, TraceError
from netsim.llm.job import RankGrid
from netsim.operations import Family, Operations, Programs, Row, Sending
from netsim.traces.training.rank_trace import Exchange, RankNode, RankTrace, listed
from netsim.traces.training.scaling import Layout

Ints = NDArray[np.int64]

#: The longest run of waits of one rank that a message lists in full.
_MOST_LINES = 4


def join(traces: Sequence[RankTrace]) -> Operations:
    """Make the operations of a job from the traces of all ranks.

    The k-th collective of a group on one rank is the k-th on all of its ranks; it begins when all
    ranks have reached it. The k-th message of a rank to another with a given tag is the k-th that
    the other receives. A message begins when its sender does. It is complete for the receiver when
    all bytes have arrived and the receiver has reached it.

    A rank with a stream for communication occupies it from reaching a collective until the
    collective is complete, and while it sends.

    Parameters
    ----------
    traces : sequence of RankTrace
        Traces of ranks 0, 1, ...

    Raises
    ------
    TraceError
        If traces of ranks contradict each other, or ranks wait for each other in a circle.
    """
    return _Joining(traces).operations()


class _Met(NamedTuple):
    """A node that matches nodes of other ranks, and the operation for its start, if any."""

    node: RankNode
    begin: int


class _Joining:
    """Gives each node of each rank its operations; operations that ranks share are made last.

    By rank and id, `_begins` has the operation that waits for the node's predecessors, and `_ends`
    the operation that its successors wait for.
    """

    def __init__(self, traces: Sequence[RankTrace]) -> None:
        self._traces = traces
        self._rows: list[tuple[int, float, int, str, str]] = []
        self._until: list[int] = []
        self._after: list[tuple[int, int]] = []
        self._sendings: dict[
            tuple[str, tuple[int, ...], int, str, Exchange | None], int] = {}
        self._tokens = np.zeros(2, np.int64)
        self._begins: list[dict[int, int]] = [{} for _ in traces]
        self._ends: list[dict[int, int]] = [{} for _ in traces]
        self._groups: dict[tuple[str, tuple[int, ...]], dict[int, list[_Met]]] = {}
        self._sends: dict[tuple[int, int, int], list[_Met]] = {}
        self._receives: dict[tuple[int, int, int], list[_Met]] = {}

    def operations(self) -> Operations:
        """Make the operations of all ranks."""
        if not any(trace.nodes for trace in self._traces):
            raise TraceError("there are no nodes", self._traces[0].path)
        for trace in self._traces:
            for node in trace.nodes:
                self._place(trace.rank, node)
        for (group, members), of_rank in self._groups.items():
            self._meet(group, members, of_rank)
        for ends in sorted(self._sends.keys() | self._receives.keys()):
            self._deliver(ends)
        for trace in self._traces:
            begins, ends_of = self._begins[trace.rank], self._ends[trace.rank]
            self._after += [(begins[node.id], ends_of[other]) for node in trace.nodes
                            for other in node.after]
        first, last = self._outside()
        end = self._add(-1, 0.0, -1, "", "end")
        self._after += [(end, each) for each in last]
        sendings = [_sending_of(*each) for each in self._sendings]
        try:
            made = Operations.make(self._rows, self._after, [(each, end) for each in first],
                                   sendings, len(self._traces))
        except InputError as error:
            circle = "\n".join(self._circle())
            raise TraceError(f"ranks wait for each other in a circle:\n{circle}" if circle
                             else str(error), self._traces[0].path) from error
        routed, dropped = self._tokens.tolist()
        return replace(made, until=np.array(self._until, np.int64), turns="number",
                       tokens=(routed, dropped))

    def _add(self, rank: int, seconds: float, sends: int, stream: str, name: str) -> int:
        self._rows.append((rank, seconds, sends, stream, name))
        self._until.append(len(self._until))
        return len(self._rows) - 1

    def _place(self, rank: int, node: RankNode) -> None:
        """Make the operations of a node that belong to its rank alone."""
        begins, ends = self._begins[rank], self._ends[rank]
        takes_turns = rank if node.stream else -1
        if node.kind in ("compute", "point", "recv"):
            begins[node.id] = ends[node.id] = self._add(takes_turns, node.seconds, -1, node.stream,
                                                        node.name)
        elif node.stream:
            begins[node.id] = self._add(rank, 0.0, -1, node.stream, node.name)
        met = _Met(node, begins.get(node.id, -1))
        if node.kind == "collective":
            of_rank = self._groups.setdefault((node.group, node.members), {})
            of_rank.setdefault(rank, []).append(met)
        elif node.kind in ("send", "recv"):
            listing = self._sends if node.kind == "send" else self._receives
            listing.setdefault((*node.members, node.tag), []).append(met)  # type: ignore[arg-type]

    def _sending(self, kind: str, node: RankNode) -> int:
        if kind == "barrier":
            return -1
        if node.exchange is not None:
            self._tokens += node.exchange.tokens
        key = kind, node.members, node.payload, node.label, node.exchange
        return self._sendings.setdefault(key, len(self._sendings))

    def _share(self, rank: int, met: _Met, shared: int) -> None:
        """Make the node of a rank part of an operation that ranks share."""
        self._ends[rank][met.node.id] = shared
        if met.begin < 0:
            self._begins[rank][met.node.id] = shared
        else:
            self._until[met.begin] = shared
            self._after.append((shared, met.begin))

    # --- collectives --------------------------------------------------------------------------

    def _meet(self, group: str, members: tuple[int, ...], of_rank: dict[int, list[_Met]]) -> None:
        """Make the collectives of a group."""
        for k in range(max(map(len, of_rank.values()))):
            there = {rank: met[k] for rank, met in of_rank.items() if len(met) > k}
            missing = [rank for rank in members if rank not in there]
            rank, (node, _) = next(iter(there.items()))
            if missing:
                raise self._traces[rank].refuse(
                    f"{node} is collective {k} of {_group(group, members)}, which "
                    f"{'ranks' if len(missing) > 1 else 'rank'} {listed(missing)} "
                    f"{'do' if len(missing) > 1 else 'does'} not reach"
                    + self._last(missing[0], group, of_rank))
            for other, (own, _) in there.items():
                if (own.collective, own.payload) != (node.collective, node.payload):
                    raise self._traces[other].refuse(
                        f"{own} is collective {k} of {_group(group, members)}: {_what(own)}; on "
                        f"rank {rank} it is {node}: {_what(node)}")
            shared = self._add(-1, 0.0, self._sending(node.collective, node), "", node.name)
            for other, met in there.items():
                self._share(other, met, shared)

    def _last(self, rank: int, group: str, of_rank: dict[int, list[_Met]]) -> str:
        """Describe the last collective that a rank reached in this group."""
        if rank >= len(self._traces):
            return ", of which there is no trace"
        if met := of_rank.get(rank):
            return f"; the last one of rank {rank} is {met[-1].node}"
        others = [members for (name, members), met in self._groups.items()
                  if name == group and rank in met]
        if others:
            return f"; on rank {rank} the group is of ranks {listed(others[0])}"
        return f"; rank {rank} has none of this group"

    # --- messages -----------------------------------------------------------------------------

    def _deliver(self, ends: tuple[int, int, int]) -> None:
        """Make the messages from a rank to another with a given tag."""
        src, dst, tag = ends
        sent, received = self._sends.get(ends, []), self._receives.get(ends, [])
        for k in range(max(len(sent), len(received))):
            where = f"message {k} from rank {src} to {dst} with tag {tag}"
            if k >= len(received):
                raise self._traces[src].refuse(f"{sent[k].node} sends {where}, which rank {dst} "
                                               "does not receive")
            if k >= len(sent):
                raise self._traces[dst].refuse(f"{received[k].node} receives {where}, which rank "
                                               f"{src} does not send")
            node, other = sent[k].node, received[k].node
            if node.payload != other.payload:
                raise self._traces[src].refuse(
                    f"{node} sends {where} of {node.payload} bytes, of which {other} of rank {dst} "
                    f"receives {other.payload}")
            flow = self._add(-1, 0.0, self._sending("send", node), "", node.name)
            self._share(src, sent[k], flow)
            self._after.append((received[k].begin, flow))

    # --- circles ------------------------------------------------------------------------------

    def _outside(self) -> tuple[list[int], list[int]]:
        """Find the operations that wait for none, and those that none waits for."""
        waits = np.zeros(len(self._rows), bool)
        awaited = np.zeros(len(self._rows), bool)
        pairs = np.array(self._after, np.int64).reshape(-1, 2)
        waits[pairs[:, 0]] = True
        awaited[pairs[:, 1]] = True
        return np.flatnonzero(~waits).tolist(), np.flatnonzero(~awaited).tolist()

    def _circle(self) -> list[str]:
        """Describe a circle of nodes that wait for each other, one per line."""
        parents: dict[int, list[int]] = {}
        for operation, other in self._after:
            parents.setdefault(operation, []).append(other)
        left = {k: set(others) for k, others in parents.items()}
        children: dict[int, list[int]] = {}
        for k, others in left.items():
            for other in others:
                children.setdefault(other, []).append(k)
        ready = [k for k in range(len(self._rows)) if k not in left]
        for k in ready:  # the loop appends to the list
            for child in children.get(k, ()):
                left[child].discard(k)
                if not left[child]:
                    del left[child]
                    ready.append(child)
        if not left:
            return []
        at, way = min(left), dict[int, int]()
        while at not in way:
            way[at] = len(way)
            at = min(left[at])
        circle = list(way)[way[at]:]
        return self._lines([*circle, circle[0]])

    def _lines(self, circle: list[int]) -> list[str]:
        nodes: dict[int, dict[int, RankNode]] = {}
        for trace in self._traces:
            for node in trace.nodes:
                for of_rank in (self._begins, self._ends):
                    nodes.setdefault(of_rank[trace.rank][node.id], {})[trace.rank] = node
        said: list[tuple[int, str]] = []
        for at, other in pairwise(circle):
            own, its = nodes[at], nodes[other]
            rank = min(own.keys() & its.keys(), default=min(own))
            whose = rank if rank in its else min(its)
            if (rank, own[rank].id) != (whose, its[whose].id):
                said.append((rank, f"rank {rank}: {own[rank]} waits for {its[whose]}"
                             + (f" of rank {whose}" if whose != rank else "")))
        return list(_shortened(said))


def _sending_of(kind: str, members: tuple[int, ...], payload: int, label: str,
                exchange: Exchange | None) -> Sending:
    if exchange is None:
        return Sending.of(kind, members, payload, label)
    return Family(kind, np.array([members]), payload, label, between=exchange.between).sending(0)


def _shortened(said: Iterable[tuple[int, str]]) -> Iterator[str]:
    """Yield descriptions of waits; of long runs on one rank, only the first and the last."""
    for rank, group in groupby(said, key=itemgetter(0)):
        lines = [line for _, line in group]
        yield lines[0]
        if len(lines) > _MOST_LINES:
            yield f"rank {rank}: and so on, {len(lines) - 2} times"
        yield from lines[1:] if len(lines) <= _MOST_LINES else lines[-1:]


def _group(group: str, members: tuple[int, ...]) -> str:
    return f"group {group!r} of ranks {listed(members)}"


def _what(node: RankNode) -> str:
    return f"{node.collective} of {node.payload} bytes"


# --- copies of one rank --------------------------------------------------------------------
def join_copies(trace: RankTrace, ranks: int) -> Programs | None:
    """Make the programs of ranks that are copies of one; see `join`.

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


# --- ranks that do the same, each in its groups --------------------------------------------

#: Ranks are numbered as Megatron does: first within tensor groups, last across stages.
_ORDER = "tp-cp-ep-dp-pp"

_ROUND = ("all-reduce", "all-gather", "reduce-scatter")

_GROUP_KINDS = {"tp": "tp", "dp": "dp", "ep": "ep", "dp-ep": "edp"}


class ProgramsBuilder:
    """Makes the operations of all ranks from those of one rank, step by step.

    A collective of a group with p ranks on each of several servers consists of p rings, each of
    which leaves a server from another rank.
    """

    def __init__(self, layout: Layout, gpus_per_server: int) -> None:
        self._gpus, self._most = gpus_per_server, most("steps")
        self._ranks = np.arange(layout.ranks)
        self._grid = RankGrid.make(*layout, _ORDER)
        self._groups: dict[str, tuple[Ints, Ints]] = {}
        self._rings: dict[str, int] = {}
        self._families: dict[tuple[str, str, int, float], int] = {}
        self._made: list[Family] = []
        self._rows: list[Row] = []
        self._after: list[tuple[int, int]] = []
        self._front: tuple[int, ...] = ()
        self._firsts: list[int] = []
        self._computed = -1
        self._behind: list[int] = []

    def compute(self, name: str, ns: int) -> None:
        """Add a computation of some nanoseconds; nothing for 0."""
        if ns:
            behind = () if self._computed < 0 else (self._computed,)
            self._computed = self._add(name, "compute", self._ranks, ns / 1e9, -1, self._ranks,
                                       (*self._front, *behind))
            self._front = (self._computed,)

    def wait(self, name: str, seconds: float, group: str = "all", *, blocks: bool = True) -> None:
        """Make the ranks of each group meet, and then wait for some time."""
        _, of_rank = self._groups_of(group)
        self._go_on(self._add(name, group, None, seconds, -1, of_rank, self._front), blocks)

    def collective(self, name: str, kind: str, group: str, nbytes: int, *, factor: float = 1.0,
                   late_ns: int = 0, blocks: bool = True) -> None:
        """Add a collective in each group, with `nbytes` in the larger buffer.

        The bytes on the wire are multiplied by `factor`. It ends `late_ns` after its last byte. If
        it `blocks`, ranks wait for its end; otherwise only the end of the iteration does.
        """
        groups, of_rank = self._groups_of(group)
        if groups.shape[1] == 1 or not nbytes:
            self.wait(name, late_ns / 1e9, group, blocks=blocks)
            return
        rings = self._rings_of(group, groups) if kind in _ROUND else 1
        family = self._family(Family(kind, groups, nbytes, group, factor, rings))
        row = self._add(name, group, None, 0.0, family, of_rank, self._front)
        if late_ns:
            row = self._add(f"{name}, update", group, None, late_ns / 1e9, -1, of_rank, (row,))
        self._go_on(row, blocks)

    def send(self, name: str, stages: int, nbytes: int) -> None:
        """Send from each rank to the rank some stages ahead; only the end of an iteration waits."""
        ranks, stages_of = self._ranks, len(self._grid.dense)
        other = (ranks + stages * (len(ranks) // stages_of)) % len(ranks)
        family = self._family(Family("send", np.stack((ranks, other), axis=1), nbytes,
                                     f"pp {stages}"))
        self._go_on(self._add(name, "pp", None, 0.0, family, ranks, self._front), False)

    def programs(self) -> Programs:
        """Return all operations; an iteration of a rank ends when all its operations are done."""
        end = self._add("end", "end", None, 0.0, -1, self._ranks, (*self._front, *self._behind))
        return Programs(tuple(self._rows), tuple(dict.fromkeys(self._after)),
                        tuple((first, end) for first in self._firsts), tuple(self._made),
                        len(self._ranks))

    def _add(self, name: str, stream: str, ranks: Ints | None, seconds: float, family: int,
             of_rank: Ints, after: Iterable[int]) -> int:
        row = len(self._rows)
        if row == self._most:
            check_limit("steps", row + 1, where="an iteration of a rank")
        size = int(of_rank[-1]) + 1 if of_rank is self._ranks else int(of_rank.max()) + 1
        self._rows.append(Row(name, stream, ranks, seconds, family, size, of_rank))
        pairs = [(row, other) for other in after]
        self._after += pairs
        if not pairs:
            self._firsts.append(row)
        return row

    def _go_on(self, row: int, blocks: bool) -> None:
        if blocks:
            self._front = (row,)
        else:
            self._behind.append(row)

    def _groups_of(self, group: str) -> tuple[Ints, Ints]:
        """Return the groups of a kind, and the group of each rank."""
        if group not in self._groups:
            groups = self._of_kind(group)
            of_rank = np.arange(len(self._ranks))
            of_rank[groups] = np.arange(len(groups))[:, None]
            self._groups[group] = groups, of_rank
        return self._groups[group]

    def _of_kind(self, group: str) -> Ints:
        dense = self._grid.dense
        if group == "all":
            return self._ranks[None]
        return np.concatenate([self._grid.of_stage(_GROUP_KINDS[group], stage)
                               for stage in range(len(dense))])

    def _rings_of(self, group: str, groups: Ints) -> int:
        if group not in self._rings:
            self._rings[group] = _rings(groups, self._gpus)
        return self._rings[group]

    def _family(self, family: Family) -> int:
        """Return the index of a family, which equal ones share."""
        key = family.kind, family.group, family.payload, family.factor
        if key not in self._families:
            self._families[key] = len(self._made)
            self._made.append(family)
        return self._families[key]


def _rings(groups: Ints, gpus: int) -> int:
    """Count a group's ranks on each server; 1 if these numbers differ, or for a single server."""
    servers = groups // gpus
    own = int((servers[0] == servers[0, 0]).sum())
    if groups.shape[1] % own:
        return 1
    blocks = servers.reshape(len(groups), -1, own)
    alike = (blocks == blocks[..., :1]).all() and (
        blocks[:, 1:, 0] != blocks[:, :-1, 0]).all() and blocks.shape[1] > 1
    return own if alike else 1
