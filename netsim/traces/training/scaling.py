"""Makes many ranks of a few: their layout in groups, copies of traces, and groups that grow.

`Scaling` gives ranks without a trace that of another one. `join_alike` makes the operations of
ranks that all do the same, each in its groups, side by side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import lcm
from pathlib import Path
from typing import NamedTuple

import numpy as np

from netsim.base.arrays import Ints
from netsim.base.limits import check_limit
from netsim.base.values import about, as_choice, as_whole
from netsim.errors import InputError, TraceError
from netsim.llm.job import RankGrid
from netsim.traces.training.experts import load_of
from netsim.traces.training.rank_trace import Exchange, RankNode, RankTrace, listed
from netsim.workload.operations import RINGS, Family, Programs, Row

#: What a rank of a growing group keeps: the size of its larger buffer, or of its input.
KEPT = ("buffer", "input")

_SIZES = ("tp", "cp", "ep", "dp", "pp")

#: The kinds of groups of replicas in SimAI and AICB, and their names in `Layout.groups_of`.
_REPLICAS = {"dp": "dp-cp", "ep": "ep", "dp-ep": "edp"}


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

    @classmethod
    def dividing(cls, ranks: int, tp: int, ep: int, pp: int, path: Path) -> Layout:
        """Divide the ranks of a file of SimAI or AICB, whose dp follows from the other sizes."""
        check_limit("ranks", ranks, path, where="all_gpus")
        dp, rest = divmod(ranks, tp * pp)
        if rest or not dp:
            raise TraceError(f"all_gpus: {ranks} is not {tp} x {pp} x dp, of tp = {tp} and pp = "
                             f"{pp}; give gpus, a multiple of {tp * pp}", path)
        if dp % ep:
            raise TraceError(f"ep = {ep} does not divide dp = {dp}, which is {ranks} GPUs / (tp = "
                             f"{tp} x pp = {pp})", path)
        return cls(tp=tp, ep=ep, dp=dp, pp=pp)

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

    def size(self, group: str) -> int:
        """Number of ranks of a group; its kinds are those of SimAI and AICB."""
        return {"tp": self.tp, "ep": self.ep, "dp": self.replicas,
                "dp-ep": self.replicas // self.ep, "pp": self.pp, "embedding": min(self.pp, 2),
                "all": self.ranks}[group]

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

    def members(self, group: str, rank: int) -> tuple[int, ...]:
        """List the ranks of the group of a kind (see `size`) to which a rank belongs."""
        t, j, stage = self.place(rank)
        if group == "all":
            return tuple(range(self.ranks))
        if group == "tp":
            return tuple(self.rank(other, j, stage) for other in range(self.tp))
        if group in _REPLICAS:
            return tuple(self.rank(t, other, stage)
                         for other in self.groups_of(j)[_REPLICAS[group]])
        stages = range(self.pp) if group == "pp" else sorted({0, self.pp - 1})
        return tuple(self.rank(t, j, other) for other in stages)

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
    parallel (``"dp"``) and expert parallel groups (``"ep"``) grow. `expert_load` is a
    `TraceExpertLoad`, or its parameters, with `seed` unless it has its own.
    """

    def __init__(self, layout: Mapping[str, int], scale: Mapping[str, int] | None = None,
                 keep: str = "buffer", expert_load: object = None, seed: int = 0) -> None:
        self._keep = as_choice(keep, "keep", KEPT)
        self._load = load_of(expert_load, seed)
        self.layout = Layout.of(layout)
        if self._load is not None and self.layout.ep == 1:
            raise InputError("expert_load needs the groups of experts, ep in layout; "
                             f"{self.layout} has none", "expert_load")
        with about("scale"):
            self.grown = self.layout.grown(growth(scale))
        #: Replicas this far apart have the same part of the experts and of a sequence.
        self._period = lcm(self.layout.cp, self.layout.ep)

    @classmethod
    def given(cls, layout: Mapping[str, int] | None, scale: Mapping[str, int] | None,
              keep: str, expert_load: object = None, seed: int = 0) -> Scaling | None:
        """Make the scaling of a reader's options; None without a layout, which others need."""
        if layout is not None:
            return cls(layout, scale, keep, expert_load, seed)
        if expert_load is not None:
            raise InputError("expert_load needs layout, which says what the groups of experts are, "
                             "as in layout = {dp = 8, ep = 4}", "expert_load")
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
        nodes, loaded = 0, self._load is None
        for rank in range(self.grown.ranks):
            t, j, stage = self.grown.place(rank)
            source = own.get((t, j, stage)) or by_class[t, j % period, stage]
            nodes += len(source.nodes)
            check_nodes(nodes, self.grown.ranks, source.path)
            made = replace(source, rank=rank, nodes=tuple(
                moved.node(node, j) if node.members else node for node in source.nodes))
            if self._load is not None:
                even, made = made, self._load.on_rank(made, tuple(
                    self.grown.rank(t, other, stage) for other in self.grown.groups_of(j)["ep"]))
                loaded |= made is not even
            yield made
        if not loaded:
            raise TraceError("expert_load: no rank has an all-to-all of the group of its experts, "
                             f"in {self.grown}", traces[0].path)

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


# --- ranks that do the same, each in its groups --------------------------------------------

#: Ranks are numbered as Megatron does: first within tensor groups, last across stages.
_ORDER = "tp-cp-ep-dp-pp"

class _Groups(NamedTuple):
    """The groups of a kind."""

    members: Ints  #: shape (groups, ranks of a group)
    of_rank: Ints  #: the group of each rank
    rings: int  #: of a collective that goes round


def grown_layout(layout: Layout, scale: Mapping[str, int] | None, path: Path) -> Layout:
    """Multiply the sizes of some groups of a file of SimAI or AICB."""
    for group, factor in growth(scale).items():
        layout = layout._replace(**{group: getattr(layout, group) * factor})
    return Layout.dividing(layout.ranks, layout.tp, layout.ep, layout.pp, path)


def kept_bytes(kind: str, group: str, nbytes: int, traced: Layout, layout: Layout, keep: str
               ) -> int:
    """Compute the larger buffer of a row of SimAI or AICB after its group has grown."""
    if keep == "buffer" or not group:
        return nbytes
    return grown_payload(kind, nbytes, traced.size(group), layout.size(group), keep)


def join_alike(trace: RankTrace, layout: Layout, gpus_per_server: int) -> Programs:
    """Make the programs of ranks that all do what rank 0 does, each in its groups.

    The label of a collective is the kind of its groups (`Layout.size`), which says of which ranks
    each is; its `members`, those of rank 0, are not read. A collective of a group with p ranks on
    each of several servers consists of p rings, each of which leaves a server from another rank.
    For messages, only their senders wait. The last node must end the iteration of a rank.
    """
    return _Alike(layout, gpus_per_server).programs(trace)


class _Alike:
    """Makes a row of operations of each node, in the order of nodes."""

    def __init__(self, layout: Layout, gpus_per_server: int) -> None:
        self._gpus = gpus_per_server
        self._ranks = np.arange(layout.ranks)
        self._grid = RankGrid.make(*layout, _ORDER)
        self._groups: dict[str, _Groups] = {}
        self._families: dict[tuple[str, str, int, float, Exchange | None], int] = {}
        self._made: list[Family] = []
        self._tokens = np.zeros(2, np.int64)

    def programs(self, trace: RankTrace) -> Programs:
        """Return all operations."""
        nodes, end = trace.nodes, len(trace.nodes) - 1
        check_limit("steps", len(nodes), where="an iteration of a rank")
        rows = tuple(map(self._row, nodes))
        place = {node.id: row for row, node in enumerate(nodes)}
        after = tuple((row, place[other]) for row, node in enumerate(nodes) for other in node.after)
        previous = tuple((row, end) for row, node in enumerate(nodes) if not node.after)
        routed, dropped = self._tokens.tolist()
        return Programs(rows, after, previous, tuple(self._made), len(self._ranks),
                        tokens=(routed, dropped))

    def _row(self, node: RankNode) -> Row:
        ranks, count = self._ranks, len(self._ranks)
        if node.kind in ("compute", "point"):
            factors = None
            if node.exchange is not None:
                factors = np.empty(count)
                factors[self._groups_of("ep").members] = node.exchange.work
            return Row(node.name, node.stream, ranks if node.kind == "compute" else None,
                       node.seconds, -1, count, ranks, factors)
        if node.kind == "send":
            ends = np.stack((ranks, (ranks + node.members[1]) % count), axis=1)
            return Row(node.name, node.group, None, 0.0, self._family(node, ends), count, ranks)
        members, of_rank, rings = self._groups_of(node.label)
        family = -1 if node.collective == "barrier" else self._family(
            node, members, rings if node.collective in RINGS else 1)
        return Row(node.name, node.label, None, node.seconds, family, len(members), of_rank)

    def _groups_of(self, group: str) -> _Groups:
        if group not in self._groups:
            members = self._ranks[None] if group == "all" else np.concatenate([
                self._grid.of_stage(_REPLICAS.get(group, group), stage)
                for stage in range(len(self._grid.dense))])
            of_rank = np.arange(len(self._ranks))
            of_rank[members] = np.arange(len(members))[:, None]
            self._groups[group] = _Groups(members, of_rank, _rings(members, self._gpus))
        return self._groups[group]

    def _family(self, node: RankNode, members: Ints, rings: int = 1) -> int:
        """Return the index of the family of what a node sends, which equal ones share."""
        exchange = node.exchange
        key = node.collective, node.label, node.payload, node.factor, exchange
        if exchange is not None:
            self._tokens += len(members) * np.array(exchange.tokens)
        if key not in self._families:
            self._families[key] = len(self._made)
            self._made.append(Family(
                node.collective, members, node.payload, node.label, node.factor, rings,
                between=None if exchange is None else exchange.between))
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
