"""Joins the traces of ranks to the operations of a job, and makes many ranks from a few.

Collectives and messages of ranks are matched. Replicas are copies, and groups grow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from math import lcm
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from netsim.base.limits import check_limit
from netsim.base.values import about, as_choice, as_whole
from netsim.errors import InputError, TraceError
from netsim.operations import Operations, Sending
from netsim.traces.training.rank_trace import RankNode, RankTrace, listed

# --- joining ranks -------------------------------------------------------------------------

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
        self._sendings: dict[tuple[str, tuple[int, ...], int, str], int] = {}
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
        sendings = [Sending.of(*each) for each in self._sendings]
        try:
            made = Operations.make(self._rows, self._after, [(each, end) for each in first],
                                   sendings, len(self._traces))
        except InputError as error:
            circle = "\n".join(self._circle())
            raise TraceError(f"ranks wait for each other in a circle:\n{circle}" if circle
                             else str(error), self._traces[0].path) from error
        return replace(made, until=np.array(self._until, np.int64), turns="number")

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
        key = kind, node.members, node.payload, node.label
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


# --- more ranks ----------------------------------------------------------------------------

#: What a rank of a growing group keeps: the size of its larger buffer, or of its input.
KEPT = ("buffer", "input")

_SIZES = ("tp", "cp", "ep", "dp", "pp")


def growth(scale: Mapping[str, int] | None) -> dict[str, int]:
    """Convert the factors by which groups grow; only ``"dp"`` and ``"ep"`` can grow alone."""
    for group in scale if isinstance(scale, Mapping) else ():
        if group in ("tp", "pp"):
            raise InputError(f"scale: {group} cannot grow: layers per stage, the time of kernels "
                             "and the order of micro-batches would change, which is not in the "
                             "trace; generate the job with the format llm", "scale")
    return {} if scale is None else _counts(scale, "scale", ("dp", "ep"))


def check_nodes(nodes: int, ranks: int, path: Path) -> None:
    """Raise an error if the nodes of all ranks would need too much memory."""
    check_limit("operations", nodes, path, where=f"{ranks:,} ranks, which the format llm "
                "describes by class")


def _counts(given: object, what: str, groups: Sequence[str]) -> dict[str, int]:
    """Convert a table of numbers by kind of group."""
    if not isinstance(given, Mapping):
        raise InputError(f"{what} must be a table of numbers of ranks by kind of group, such as "
                         f"{{dp = 2}}, not {given!r}", what)
    with about(what):
        return {as_choice(group, what, groups): as_whole(count, f"{what}: {group}", 1)
                for group, count in given.items()}


def grown_payload(kind: str, payload: int, ranks: int, grown: int, keep: str) -> int:
    """Compute the larger buffer of a collective after its group has grown from `ranks` to `grown`.

    `payload` is the larger buffer before, and `keep` one of `KEPT`.
    """
    if ranks == grown:
        return payload
    if keep == "input":  # in others, the larger buffer is the input, or there is one only
        return -(-payload // ranks) * grown if kind in ("all-gather", "gather") else payload
    if kind in ("all-gather", "reduce-scatter"):  # all ranks have equal parts
        return -(-payload // grown) * grown
    return payload


class Layout(NamedTuple):
    """The division of ranks into groups, with sizes as for `netsim.llm.TrainingSetup`.

    Ranks are numbered as in Megatron: t + tp (j + cp dp P), where t is the place in the tensor
    group, j the replica and P the pipeline stage.
    """

    tp: int = 1
    cp: int = 1
    ep: int = 1
    dp: int = 1
    pp: int = 1

    @classmethod
    def of(cls, sizes: Mapping[str, int]) -> Layout:
        """Make a layout after checking the names and sizes of its groups."""
        with about("layout"):
            return cls(**_counts(sizes, "layout", _SIZES))._checked()

    def _checked(self) -> Layout:
        check_limit("ranks", self.ranks, where=str(self))
        if self.replicas % self.ep:
            raise InputError(f"{self}: ep = {self.ep} does not divide dp x cp = {self.replicas}")
        return self

    def grown(self, factors: Mapping[str, int]) -> Layout:
        """Multiply some sizes; return the new layout.

        A group of one rank cannot grow, because there is no trace of its communication.
        """
        made = self._replace(**{name: getattr(self, name) * factor
                                for name, factor in factors.items()})._checked()
        for kind, size in self._sizes().items():
            if size == 1 < made._sizes()[kind]:
                raise InputError(f"scale: groups of {kind} have one rank in the trace, which thus "
                                 f"does not tell what {made._sizes()[kind]} would send")
        return made

    @property
    def replicas(self) -> int:
        """Number of ranks that differ only in their part of the data and of the experts."""
        return self.dp * self.cp

    @property
    def ranks(self) -> int:
        """Number of all ranks."""
        return self.tp * self.replicas * self.pp

    def __str__(self) -> str:
        return "a layout of " + ", ".join(f"{name} = {size}" for name, size in zip(
            _SIZES, self, strict=True))

    def place(self, rank: int) -> tuple[int, int, int]:
        """Return t, j and P of a rank."""
        rest, t = divmod(rank, self.tp)
        stage, j = divmod(rest, self.replicas)
        return t, j, stage

    def rank(self, t: int, j: int, stage: int) -> int:
        """Return the rank at a position."""
        return t + self.tp * (j + self.replicas * stage)

    def groups_of(self, j: int) -> dict[str, range]:
        """Return the replicas in the groups of replica j, by kind of group."""
        cp, ep, count = self.cp, self.ep, self.replicas
        first, block = j // cp * cp, j // ep * ep
        return {"replica": range(j, j + 1), "cp": range(first, first + cp),
                "dp": range(j % cp, count, cp), "dp-cp": range(count),
                "ep": range(block, block + ep), "edp": range(j % ep, count, ep)}

    def _sizes(self) -> dict[str, int]:
        return {"dp": self.dp, "ep": self.ep, "edp": self.replicas // self.ep}


class _Shape(NamedTuple):
    """The ranks of a group, as they are in a layout of any size."""

    cells: tuple[tuple[int, int], ...]  #: t and P of its ranks in each of its replicas
    kind: str  #: see `Layout.groups_of`


def _renamed(trace: RankTrace, shapes: Mapping[tuple[int, ...], _Shape]) -> RankTrace:
    """Name the groups of a rank by their shapes, because several groups may become one."""
    names: dict[tuple[str, tuple[int, ...]], str] = {}
    count: Counter[_Shape] = Counter()
    nodes = []
    for node in trace.nodes:
        if node.kind == "collective":
            key, shape = (node.group, node.members), shapes[node.members]
            if key not in names:
                names[key] = f"{shape.kind} {count[shape]}"
                count[shape] += 1
            node = replace(node, group=names[key])
        nodes.append(node)
    return replace(trace, nodes=tuple(nodes))


class Scaling:
    """Gives ranks without a trace the operations of ranks that differ from them only in their data.

    `layout` has the group sizes of the traced job, and `scale` the factors by which its data
    parallel (``"dp"``) and expert parallel groups (``"ep"``) grow.
    """

    def __init__(self, layout: Mapping[str, int], scale: Mapping[str, int] | None = None,
                 keep: str = "buffer") -> None:
        self._keep = as_choice(keep, "keep", KEPT)
        self.layout = Layout.of(layout)
        with about("scale"):
            self.grown = self.layout.grown(growth(scale))
        #: Replicas this far apart have the same part of the experts and of a sequence.
        self._period = lcm(self.layout.cp, self.layout.ep)

    @classmethod
    def given(cls, layout: Mapping[str, int] | None, scale: Mapping[str, int] | None,
              keep: str) -> Scaling | None:
        """Make the scaling of a reader's options; None without a layout, which `scale` needs."""
        if layout is not None:
            return cls(layout, scale, keep)
        if growth(scale):
            raise InputError("scale needs layout, which says what the groups of the trace are, as "
                             "in layout = {tp = 2, dp = 4}", "scale")
        as_choice(keep, "keep", KEPT)
        return None

    def label(self, name: str, traced: int) -> str:
        """Label a workload with this number of traced ranks."""
        ranks = self.grown.ranks
        return name if traced == ranks else (f"{name}, {traced} of {ranks} ranks traced, the "
                                             "others copies")

    def complete(self, traces: Sequence[RankTrace]) -> Iterator[RankTrace]:
        """Yield the trace of each rank of the grown job, from the traces of some ranks.

        The traces are in order of ranks. They include at least one replica of all t and stages and,
        with experts, one of each expert rank.
        """
        shapes = self._shapes(traces)
        traces = [_renamed(trace, shapes) for trace in traces]
        by_class: dict[tuple[int, int, int], RankTrace] = {}
        for trace in traces:  # of a class, the smallest rank counts
            t, j, stage = self.layout.place(trace.rank)
            by_class.setdefault((t, j % self._period, stage), trace)
        self._check_there(traces[0], by_class)
        yield from self._all(traces, shapes, by_class)

    def _all(self, traces: Sequence[RankTrace], shapes: Mapping[tuple[int, ...], _Shape],
             by_class: Mapping[tuple[int, int, int], RankTrace]) -> Iterator[RankTrace]:
        own = {self.layout.place(trace.rank): trace for trace in traces}
        period = self._period
        moved = _Moved(self.layout, self.grown, shapes, self._keep)
        nodes = 0
        for rank in range(self.grown.ranks):
            t, j, stage = self.grown.place(rank)
            source = own.get((t, j, stage)) or by_class[t, j % period, stage]
            nodes += len(source.nodes)
            check_nodes(nodes, self.grown.ranks, source.path)
            yield replace(source, rank=rank, nodes=tuple(
                moved.node(node, j) if node.members else node for node in source.nodes))

    def _check_there(self, first: RankTrace,
                     by_class: Mapping[tuple[int, int, int], RankTrace]) -> None:
        period = self._period
        for stage in range(self.layout.pp):
            for j in range(period):
                for t in range(self.layout.tp):
                    if (t, j, stage) in by_class:
                        continue
                    alike = [self.layout.rank(t, other, stage)
                             for other in range(j, self.layout.replicas, period)]
                    raise TraceError(
                        f"in {self.layout}, rank {alike[0]} has no trace"
                        + (f", and none of those that do the same: {listed(alike[1:])}"
                           if alike[1:] else ""), first.path)

    def _shapes(self, traces: Sequence[RankTrace]) -> dict[tuple[int, ...], _Shape]:
        """Find the shape of each group; messages have none."""
        names: dict[tuple[int, ...], str] = {}
        for trace in traces:
            for node in trace.nodes:
                if node.kind == "collective":
                    names.setdefault(node.members, node.group)
                elif node.members:
                    self._check_message(trace, node)
        found = {members: self._shape(members) for members in names}
        wrong = [f"{names[members]!r} of ranks {listed(members)}"
                 for members, shape in found.items() if shape is None]
        if wrong:
            more = f", and {len(wrong) - 10} more" if len(wrong) > 10 else ""
            raise TraceError(f"groups that are not of one kind in {self.layout}, of ranks in "
                             f"ascending order: {'; '.join(wrong[:10])}{more}", traces[0].path)
        return {members: shape for members, shape in found.items() if shape is not None}

    def _check_message(self, trace: RankTrace, node: RankNode) -> None:
        (_, one, _), (_, other, _) = map(self.layout.place, node.members)
        if one != other:
            raise trace.refuse(f"{node} is a message from rank {node.members[0]} to "
                               f"{node.members[1]}, of another replica in {self.layout}: who sends "
                               "to whom among more of them, the trace does not tell")

    def _shape(self, members: tuple[int, ...]) -> _Shape | None:
        """Find the shape of a group; None if it cannot grow, or not in a unique way."""
        places = [self.layout.place(rank) for rank in members]
        cells = sorted({(t, stage) for t, _, stage in places})
        replicas = sorted({j for _, j, _ in places})
        if len(cells) * len(replicas) != len(members) or list(members) != sorted(members):
            return None
        kinds = [kind for kind, group in self.layout.groups_of(replicas[0]).items()
                 if [*group] == replicas]
        ways = self.grown.groups_of(0)
        if not kinds or any(ways[kind] != ways[kinds[0]] for kind in kinds):
            return None
        return _Shape(tuple(cells), kinds[0])


class _Moved:
    """Moves communications of a traced rank to a rank of the grown job."""

    def __init__(self, layout: Layout, grown: Layout, shapes: Mapping[tuple[int, ...], _Shape],
                 keep: str) -> None:
        self._layout, self._grown, self._shapes, self._keep = layout, grown, shapes, keep
        self._known: dict[tuple[tuple[int, ...], bool, int], tuple[int, ...]] = {}
        self._one_of_each: dict[tuple[int, ...], tuple[int, ...]] = {}

    def node(self, node: RankNode, j: int) -> RankNode:
        """Convert a collective or a message to that of a rank of replica j."""
        meets = node.kind == "collective"
        key = node.members, meets, j
        if key not in self._known:
            members = self._group(node.members, j) if meets else self._ends(node.members, j)
            self._known[key] = self._one_of_each.setdefault(members, members)
        members = self._known[key]
        payload = grown_payload(node.collective, node.payload, len(node.members), len(members),
                                self._keep)
        return replace(node, members=members, payload=payload)

    def _group(self, members: tuple[int, ...], j: int) -> tuple[int, ...]:
        cells, kind = self._shapes[members]
        replicas = self._grown.groups_of(j)[kind]
        return tuple(sorted(self._grown.rank(t, other, stage) for t, stage in cells
                            for other in replicas))

    def _ends(self, members: tuple[int, ...], j: int) -> tuple[int, ...]:
        places = map(self._layout.place, members)
        return tuple(self._grown.rank(t, j, stage) for t, _, stage in places)
