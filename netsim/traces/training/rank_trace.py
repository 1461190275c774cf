"""The operations of one rank, as readers of all formats make them from its trace, and their join.

`join` matches collectives and messages of the traces of all ranks, which makes the operations of a
job. Where all ranks are copies of one in one group, `join_copies` makes their operations side by
side; where they are in groups of a layout, `join_alike` in `scaling` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.base.brief import brief
from netsim.errors import InputError, TraceError
from netsim.workload import JobSpec, Operations, Workload
from netsim.workload.operations import Family, Programs, Row

#: The longest time of an operation. A longer one is from a damaged stamp.
WEEK_S = 7 * 86400

#: Largest number of nodes or ranks that a message names.
_MOST_NAMED = 10

#: The longest run of waits of one rank that a message lists in full.
_MOST_LINES = 4


@dataclass(frozen=True, slots=True, eq=False)
class Exchange:
    """What ranks of a group send to each other in an all-to-all of unequal parts."""

    between: Ints  #: bytes from each rank of the group to each
    work: Floats  #: of each rank, as multiples of that with equal parts
    tokens: tuple[int, int] = (0, 0)  #: those routed to experts, and those of them dropped


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
        Duration of a computation; of a collective, how long its ranks wait after they have met.
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
    exchange : Exchange, optional
        The parts of an all-to-all, if they are not equal; of a computation of experts in
        `join_alike`, those of the all-to-all that brings its tokens.
    factor : float
        By which all bytes that are sent are multiplied.
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
    exchange: Exchange | None = None
    factor: float = 1.0
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
        if circle := _circle({node.id: node.after for node in self.nodes}):
            raise self.refuse(f"nodes depend on each other in a circle: {listed(circle[::-1])}")


def _circle(after: Mapping[int, Sequence[int]]) -> list[int]:
    """Find a circle of nodes, each before one that it waits for; empty if there is none.

    `after` has the nodes that each waits for. Of several circles, its order decides.
    """
    left = {each: len(set(others)) for each, others in after.items()}
    children: dict[int, list[int]] = {}
    for each, others in after.items():
        for other in set(others):
            children.setdefault(other, []).append(each)
    ready = [each for each, count in left.items() if not count]
    for each in ready:  # the loop appends to the list
        for child in children.get(each, ()):
            left[child] -= 1
            if not left[child]:
                ready.append(child)
    if len(ready) == len(after):
        return []
    at, way = next(each for each, count in left.items() if count), dict[int, int]()
    while at not in way:
        way[at] = len(way)
        at = next(other for other in after[at] if left[other])
    return list(way)[way[at]:]


def too_long(what: object, seconds: float, way_out: str) -> str:
    """Format the message about an operation that takes longer than a week."""
    return (f"{what}: takes {seconds / 86400:,.0f} days, which is more than a week, as by a "
            f"damaged stamp; {way_out}")


def listed(numbers: Iterable[int]) -> str:
    """Format numbers as text; of many, only the first ones."""
    given = list(numbers)
    more = f" and {len(given) - _MOST_NAMED} more" if len(given) > _MOST_NAMED else ""
    return ", ".join(map(str, given[:_MOST_NAMED])) + more


# --- all ranks ------------------------------------------------------------------------------
def one_job(operations: Operations | Programs, name: str, label: str, iterations: int,
            hosts: Sequence[int | str] | None, seed: int) -> Workload:
    """Make the workload `label` of one job; without `hosts`, rank r runs on host r."""
    job = JobSpec(0, iterations=iterations, name=name, operations=operations,
                  hosts=range(operations.ranks) if hosts is None else hosts)
    return Workload([job], label, seed=seed)


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
    return _Joining([replace(trace, rank=0)]).programs(ranks) if trace.nodes else None


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
            tuple[str, tuple[int, ...], int, str, float, Exchange | None], int] = {}
        self._tokens = np.zeros(2, np.int64)
        self._begins: list[dict[int, int]] = [{} for _ in traces]
        self._ends: list[dict[int, int]] = [{} for _ in traces]
        self._groups: dict[tuple[str, tuple[int, ...]], dict[int, list[_Met]]] = {}
        self._sends: dict[tuple[int, int, int], list[_Met]] = {}
        self._receives: dict[tuple[int, int, int], list[_Met]] = {}

    def operations(self) -> Operations:
        """Make the operations of all ranks."""
        if not any(trace.nodes for trace in self._traces):
            raise TraceError("there are no nodes", self._traces[0].path if self._traces else None)
        self._place_all()
        for (group, members), of_rank in self._groups.items():
            self._check_group(group, members, of_rank)
        previous = self._connect()
        sendings = [family.sending(0) for family in self._families()]
        try:
            made = Operations.make(self._rows, self._after, previous, sendings, len(self._traces))
        except InputError as error:
            circle = "\n".join(self._circle())
            raise TraceError(f"ranks wait for each other in a circle:\n{circle}" if circle
                             else str(error), self._traces[0].path) from error
        routed, dropped = self._tokens.tolist()
        return replace(made, until=np.array(self._until, np.int64), turns="number",
                       tokens=(routed, dropped))

    def programs(self, ranks: int) -> Programs:
        """Make the operations of ranks that do what the only traced one does, side by side."""
        self._place_all()
        own, each, shared = len(self._rows), np.arange(ranks), np.zeros(ranks, np.int64)
        previous = self._connect()
        rows = (Row(name, stream, None if rank < 0 else each, seconds, sends,
                    *((ranks, each) if row < own else (1, shared)))
                for row, (rank, seconds, sends, stream, name) in enumerate(self._rows))
        return Programs(tuple(rows), tuple(self._after), tuple(previous), self._families(), ranks,
                        tuple(self._until), "number")

    def _families(self) -> tuple[Family, ...]:
        """Make what is sent, in groups of their own."""
        return tuple(Family(kind, np.array([members]), payload, label, factor,
                            between=None if exchange is None else exchange.between)
                     for kind, members, payload, label, factor, exchange in self._sendings)

    def _place_all(self) -> None:
        for trace in self._traces:
            for node in trace.nodes:
                self._place(trace.rank, node)

    def _connect(self) -> list[tuple[int, int]]:
        """Make what ranks share, the end and all waits; return those for the last iteration."""
        for of_rank in self._groups.values():
            self._meet(of_rank)
        for ends in sorted(self._sends.keys() | self._receives.keys()):
            self._deliver(ends)
        for trace in self._traces:
            begins, ends_of = self._begins[trace.rank], self._ends[trace.rank]
            self._after += [(begins[node.id], ends_of[other]) for node in trace.nodes
                            for other in node.after]
        first, last = self._outside()
        end = self._add(-1, 0.0, -1, "", "end")
        self._after += [(end, each) for each in last]
        return [(each, end) for each in first]

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
        key = kind, node.members, node.payload, node.label, node.factor, node.exchange
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

    def _check_group(self, group: str, members: tuple[int, ...], of_rank: dict[int, list[_Met]]
                     ) -> None:
        """Check that all ranks of a group reach its collectives, and mean the same by each."""
        for k, there in enumerate(_turns(of_rank)):
            missing = [rank for rank in members if rank not in there]
            rank, (node, _) = next(iter(there.items()))
            if missing:
                raise self._traces[rank].refuse(
                    f"{node} is collective {k} of {_group(group, members)}, which "
                    f"{'ranks' if len(missing) > 1 else 'rank'} {listed(missing)} "
                    f"{'do' if len(missing) > 1 else 'does'} not reach"
                    + self._last(missing[0], group, of_rank))
            for other, (own, _) in there.items():
                if _meant(own) != _meant(node):
                    raise self._traces[other].refuse(
                        f"{own} is collective {k} of {_group(group, members)}: {_what(own)}; on "
                        f"rank {rank} it is {node}: {_what(node)}")

    def _meet(self, of_rank: dict[int, list[_Met]]) -> None:
        """Make the collectives of a group."""
        for there in _turns(of_rank):
            node = next(iter(there.values())).node
            shared = self._add(-1, node.seconds, self._sending(node.collective, node), "",
                               node.name)
            for rank, met in there.items():
                self._share(rank, met, shared)

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
            if node.payload * node.factor != other.payload * other.factor:
                raise self._traces[src].refuse(
                    f"{node} sends {where} of {_bytes(node)}, of which {other} of rank {dst} "
                    f"receives {_bytes(other).removesuffix(' bytes')}")
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
        parents: dict[int, list[int]] = {k: [] for k in range(len(self._rows))}
        for operation, other in sorted(self._after):
            parents[operation].append(other)
        circle = _circle(parents)
        return self._lines([*circle, *circle[:1]])

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


def _turns(of_rank: dict[int, list[_Met]]) -> Iterator[dict[int, _Met]]:
    """Yield the first collectives of a group by rank, then the second ones, and so on."""
    for k in range(max(map(len, of_rank.values()))):
        yield {rank: met[k] for rank, met in of_rank.items() if len(met) > k}


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


def _meant(node: RankNode) -> tuple[str, int, float, float]:
    """What all ranks of a collective must mean by it."""
    return node.collective, node.payload, node.factor, node.seconds


def _what(node: RankNode) -> str:
    late = f", {node.seconds:g} s after they have met" if node.seconds else ""
    return f"{node.collective} of {_bytes(node)}{late}"


def _bytes(node: RankNode) -> str:
    return f"{node.payload}{'' if node.factor == 1 else f' x {node.factor:g}'} bytes"
