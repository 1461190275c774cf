"""What ranks compute and send in an iteration, as columns; classes of ranks that do the same.

An *operation* is a computation on a rank, a coflow, or a point at which others meet. It begins when
the operations that it waits for are complete, in its own iteration and in the previous one. So all
iterations form one graph, without a common start and end of each.

`Programs` has one program per class of identical ranks, and the groups of ranks. The operations of
all ranks follow from it, and those of one rank of each class.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from netsim.base.arrays import Floats, Ints
from netsim.base.brief import brief
from netsim.base.values import as_choice, as_whole, convert, same
from netsim.errors import InputError, NetsimWarning
from netsim.workload.columns import Flows

#: What a group of ranks does together, and a message from one rank to another.
COMMUNICATIONS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "reduce",
                  "gather", "scatter", "send")


class Communication(NamedTuple):
    """A collective of a group of ranks, or a message."""

    kind: str  #: one of `COMMUNICATIONS`
    #: Ranks in order, the root first if there is one; of a send, sender and receiver.
    members: tuple[int, ...]
    #: Bytes of the larger of a rank's two buffers, such as the output of an all-gather.
    payload: int
    group: str = ""  #: kind of parallelism, such as ``"tp"``, or name in a trace
    #: Rings of an all-reduce, an all-gather or a reduce-scatter, each with a part of the payload.
    #: The members consist of runs of this length, such as the ranks on a server. Within each run,
    #: ring k starts at the member after the k-th, wraps around, and ends at the k-th.
    rings: int = 1


class Sending(NamedTuple):
    """A coflow that one or more operations send.

    Attributes
    ----------
    flows : Flows
        The flows, between ranks.
    steps : tuple of (ndarray of int, int)
        The steps of a collective, if the coflow merges several; see `netsim.Stage`.
    weight : float
    deadline_s, overhead_s : float or None
    continues : bool
        See `netsim.Stage`.
    communication : Communication or None
        The collective or the message; None if not known.
    """

    flows: Flows
    steps: tuple[tuple[Ints, int], ...] = ()
    weight: float = 1.0
    deadline_s: float | None = None
    overhead_s: float | None = None
    continues: bool = False
    communication: Communication | None = None

    @classmethod
    def of(cls, kind: str, members: Sequence[int], payload: int, group: str = "",
           rings: int = 1) -> Sending:
        """Make the coflow of a `Communication`, with the bytes of all of its steps.

        All-reduce, all-gather and reduce-scatter use a ring; broadcast and reduce use a chain from
        or to the root; all other kinds send directly from rank to rank.

        >>> list(Sending.of("all-reduce", [4, 6], 100).flows)
        [Flow(src=4, dst=6, nbytes=100.0), Flow(src=6, dst=4, nbytes=100.0)]
        """
        as_choice(kind, "communication", COMMUNICATIONS, "kind")
        at, count = np.array(members, np.int64), len(members)
        src, dst, parts, steps = transfer(kind, at, rings)
        flows = Flows(src, dst, np.full(len(src), parts * payload / max(count * rings, 1)))
        listed = ((np.arange(len(src)), steps),) if len(src) and kind != "send" else ()
        return cls(flows, listed, communication=Communication(
            kind, tuple(at.tolist()), payload, group, rings))

    def scaled(self, factor: float) -> Sending:
        """Return the coflow with its bytes multiplied by a factor."""
        flows, made = self.flows, self.communication
        if made is not None:
            made = made._replace(payload=round(made.payload * factor))
        return self._replace(flows=Flows(flows.src, flows.dst, flows.nbytes * factor),
                             communication=made)


#: Collectives that use rings.
RINGS = ("all-reduce", "all-gather", "reduce-scatter")


def transfer(kind: str, at: Ints, rings: int = 1) -> tuple[Ints, Ints, int, int]:
    """Compute the sources and destinations of flows, the parts that each sends, and the steps.

    The payload consists of ``ranks * rings`` equal parts. Raises `InputError` if the kind or the
    number of ranks does not allow so many rings.
    """
    others = len(at) - 1
    if rings != 1 and (kind not in RINGS or rings < 1 or len(at) % rings):
        raise InputError(f"there cannot be {rings} rings of {kind} over {len(at)} ranks: rings are "
                         f"for {', '.join(RINGS)}, whose ranks are in runs of so many")
    if others <= 0:
        return at[:0], at[:0], 0, 0
    if kind == "all-to-all":
        src, dst = (each.ravel() for each in np.meshgrid(at, at, indexing="ij"))
        return src[src != dst], dst[src != dst], 1, others
    if kind in ("send", "broadcast"):
        return at[:-1], at[1:], len(at), others
    if kind == "reduce":
        return at[1:], at[:-1], len(at), others
    root = np.repeat(at[:1], others)
    if kind == "scatter":
        return root, at[1:], 1, 1
    if kind == "gather":
        return at[1:], root, 1, 1
    steps = others * (2 if kind == "all-reduce" else 1)
    runs = at.reshape(-1, rings)
    src = np.stack([np.roll(runs, -(ring + 1), axis=1).ravel() for ring in range(rings)])
    return src.ravel(), np.roll(src, -1, axis=1).ravel(), steps, steps


class Relation(NamedTuple):
    """Pairs of an operation and another operation for which it waits, in compressed rows.

    Operation k is paired with ``others[first[k]:first[k + 1]]``, which is in ascending order.

    Attributes
    ----------
    first : ndarray of int, shape (operations + 1,)
    others : ndarray of int, shape (pairs,)
    """

    first: Ints
    others: Ints

    @classmethod
    def of(cls, operation: ArrayLike, other: ArrayLike, count: int) -> Relation:
        """Make a relation between `count` operations from pairs, which may be repeated."""
        codes = np.unique(np.asarray(operation, np.int64) * count + np.asarray(other, np.int64))
        operations, others = np.divmod(codes, max(count, 1))
        first = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(operations, minlength=count), out=first[1:])
        for array in (first, others):
            array.setflags(write=False)
        return cls(first, others)

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[int, int]], count: int) -> Relation:
        """Make a relation between `count` operations from pairs of them."""
        listed = np.array(list(pairs), np.int64).reshape(-1, 2)
        return cls.of(listed[:, 0], listed[:, 1], count)

    @property
    def counts(self) -> Ints:
        """The number of others with which each operation is paired; shape (operations,)."""
        return np.diff(self.first)

    def inverse(self) -> Relation:
        """Return the relation in which each pair is swapped."""
        count = len(self.first) - 1
        return Relation.of(self.others, np.repeat(np.arange(count), self.counts), count)

    def lists(self) -> list[list[int]]:
        """Return the others of each operation as lists."""
        others, first = self.others.tolist(), self.first.tolist()
        return [others[begin:end] for begin, end in pairwise(first)]


@dataclass(frozen=True, slots=True, eq=False)
class Operations:
    """The operations of a job's ranks in an iteration.

    Attributes
    ----------
    rank : ndarray of int, shape (operations,)
        The rank that computes; -1 for an operation on no rank.
    compute_s : ndarray of float, shape (operations,)
        Seconds of computation.
    sends : ndarray of int, shape (operations,)
        Index in `sendings` of the coflow sent after the computation; -1 for none.
    stream, name : ndarray of int, shape (operations,)
        Index of the stream in `streams`, and of the name in `names`. Computations of a stream on
        the same rank take turns, in the order in which they could begin. Different streams run in
        parallel.
    after, after_previous : Relation
        For each operation, the operations that it waits for: in its own iteration (`after`), and in
        the previous iteration. Each operation must wait for at least one operation.
    sendings : tuple of Sending
    streams, names : tuple of str
    ranks : int
        Number of ranks.
    until : ndarray of int, optional, shape (operations,)
        For each computation, the operation at whose end the stream is free again; by default the
        computation itself. A rank that occupies a stream while it waits in a collective has an
        operation of 0 seconds there before the collective, with the collective as its `until`.
    turns : {"ready", "number"}
        Which ready computation a free stream runs next: the one that became ready first
        (``"ready"``), or the one with the lowest index (``"number"``).
    tokens : (int, int)
        Tokens that routers send to experts in an iteration, and those of them that are dropped.
    variants : tuple of Operations
        Operations of the iterations in turn, if these differ in `compute_s`, `sendings` and
        `tokens`; the first is like this one.

    Raises
    ------
    InputError
        If columns differ in length, a rank or a reference does not exist, operations of an
        iteration wait for each other in a circle, or an operation waits for nothing.
    """

    rank: Ints
    compute_s: Floats
    sends: Ints
    stream: Ints
    name: Ints
    after: Relation
    after_previous: Relation
    sendings: tuple[Sending, ...]
    streams: tuple[str, ...]
    names: tuple[str, ...]
    ranks: int
    until: Ints | None = None
    turns: str = "ready"
    tokens: tuple[int, int] = (0, 0)
    variants: tuple[Operations, ...] = ()
    sequence: Ints = field(init=False)
    __repr__ = brief
    __deepcopy__ = same

    def __post_init__(self) -> None:
        count = len(self.rank)
        convert(self, "operations", ranks=as_whole,
                turns=partial(as_choice, choices=("ready", "number")))
        until = np.arange(count) if self.until is None else self.until
        for name in ("rank", "compute_s", "sends", "stream", "name"):
            column = getattr(self, name)
            if len(column) != count:
                raise InputError(f"operations: {name} has {len(column):,} entries, and rank has "
                                 f"{count:,}", name)
            column.setflags(write=False)
        for name, column, least, most in (
                ("rank", self.rank, -1, self.ranks), ("sends", self.sends, -1, len(self.sendings)),
                ("stream", self.stream, 0, len(self.streams)),
                ("name", self.name, 0, len(self.names)), ("until", until, 0, count),
                ("after", self.after.others, 0, count),
                ("after_previous", self.after_previous.others, 0, count)):
            if len(column) and not least <= column.min() <= column.max() < most:
                raise InputError(f"operations: {name} must be from {least} to {most - 1}, not "
                                 f"{column.min()} to {column.max()}", name)
        if not ((self.compute_s >= 0) & np.isfinite(self.compute_s)).all():
            raise InputError("operations: compute_s must be finite and at least 0", "compute_s")
        lost = np.flatnonzero((self.after.counts == 0) & (self.after_previous.counts == 0))
        if len(lost):
            raise InputError(f"operation {self.names[self.name[lost[0]]]!r} waits for no other, in "
                             "its iteration or the one before; it could begin at any time")
        object.__setattr__(self, "sequence", self._in_order())

    def _in_order(self) -> Ints:
        """Return the operations in topological order."""
        left, children = self.after.counts.tolist(), self.after.inverse().lists()
        order = [k for k, count in enumerate(left) if not count]
        for k in order:  # the list grows in the loop
            for child in children[k]:
                left[child] -= 1
                if not left[child]:
                    order.append(child)
        if len(order) < len(left):
            stuck = next(k for k, count in enumerate(left) if count)
            raise InputError(f"operation {self.names[self.name[stuck]]!r} is in a cycle of "
                             "operations that wait for each other, or after such a cycle")
        return np.array(order, np.int64)

    def __len__(self) -> int:
        return len(self.rank)

    @property
    def holders(self) -> dict[int, list[int]]:
        """For each operation that is the `until` of other operations, these other operations."""
        found: dict[int, list[int]] = {}
        if self.until is not None:
            for k in np.flatnonzero(self.until != np.arange(len(self))).tolist():
                found.setdefault(int(self.until[k]), []).append(k)
        return found

    def slowed(self, factors: Floats) -> Operations:
        """Return the operations with the computation of each rank multiplied by its factor.

        Parameters
        ----------
        factors : ndarray of float, shape (ranks,)
        """
        slow = self.compute_s * np.where(self.rank < 0, 1.0, factors[self.rank])
        return self._changed(slow, self.sendings, [each.slowed(factors) for each in self.variants])

    def scaled(self, nbytes: float, compute: float) -> Operations:
        """Return the operations with all bytes and all computation multiplied by factors."""
        slow = self.slowed(np.full(self.ranks, compute)).compute_s
        return self._changed(slow, [each.scaled(nbytes) for each in self.sendings],
                             [each.scaled(nbytes, compute) for each in self.variants])

    def _changed(self, compute_s: Floats, sendings: Sequence[Sending],
                 variants: Sequence[Operations] = (), **more: Any) -> Operations:
        """Return operations that wait for each other as these do."""
        other = copy(self)
        compute_s.setflags(write=False)
        for name, value in ({"compute_s": compute_s, "sendings": tuple(sendings),
                             "variants": tuple(variants)} | more).items():
            object.__setattr__(other, name, value)
        return other

    def name_of(self, operation: int) -> str:
        """Return the name of an operation."""
        return self.names[self.name[operation]]

    @classmethod
    def make(cls, rows: Sequence[tuple[int, float, int, str, str]],
             after: Iterable[tuple[int, int]], after_previous: Iterable[tuple[int, int]],
             sendings: Sequence[Sending], ranks: int) -> Operations:
        """Make operations from rows ``(rank, seconds, sending, stream, name)``.

        Parameters
        ----------
        rows : sequence of tuple
            One row per operation. ``rank``, and ``sending``, an index into `sendings`, are -1 if
            there is none.
        after, after_previous : iterable of (int, int)
            Pairs of row numbers: an operation, and an operation that it waits for, in the same
            iteration and in the previous one.
        sendings : sequence of Sending
        ranks : int

        Examples
        --------
        Rank 0 computes and sends; its next iteration begins while it sends.

        >>> sent = Sending(Flows.of([(0, 1, "1MB")]))
        >>> made = Operations.make([(0, 1.0, -1, "compute", "work"), (-1, 0.0, 0, "net", "push")],
        ...                        [(1, 0)], [(0, 0), (1, 1)], [sent], ranks=2)
        >>> len(made), made.name_of(1)
        (2, 'push')
        """
        columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True))
        rank, seconds, sends, streams, names = columns
        (streams, stream), (names, name) = map(_numbered, (streams, names))
        return cls(np.array(rank, np.int64), np.array(seconds, np.float64),
                   np.array(sends, np.int64), np.array(stream, np.int64), np.array(name, np.int64),
                   Relation.of_pairs(after, len(rows)),
                   Relation.of_pairs(after_previous, len(rows)), tuple(sendings), streams, names,
                   ranks)


# --- programs of identical ranks -----------------------------------------------------------

#: Operations above which expanding them is worth a warning, and bytes that one takes in a run.
_MANY, _EACH = 5_000_000, 850


@dataclass(frozen=True, eq=False)
class Family:
    """Equal coflows of several groups of ranks, one per group; see `operations.Communication`."""

    kind: str
    members: Ints  #: shape (groups, ranks of a group)
    payload: int
    group: str
    factor: float = 1.0  #: of all bytes; 1 unless the job has been scaled
    rings: int = 1
    payloads: Ints | None = None  #: of each group, if they differ
    #: Of an all-to-all with unequal parts: the bytes from each rank of a group to each, in all
    #: groups alike.
    between: Ints | None = None

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.members)

    @cached_property
    def flows(self) -> Flows:
        """The flows of all groups, group by group."""
        count = self.members.shape[1]
        src, dst, parts, _ = transfer(self.kind, np.arange(count), self.rings)
        if self.between is not None:
            nbytes = np.tile(self.between[src, dst] * self.factor, self.groups)
        else:
            payload = self.payload if self.payloads is None else self.payloads
            each = parts * payload / max(count * self.rings, 1) * self.factor
            nbytes = np.repeat(np.broadcast_to(each, self.groups), len(src))
        return Flows(self.members[:, src].ravel(), self.members[:, dst].ravel(), nbytes)

    @property
    def messages(self) -> int:
        """Number of messages of each flow."""
        steps = transfer(self.kind, np.arange(self.members.shape[1]), self.rings)[3]
        return 1 if self.kind == "send" else max(steps, 1)

    def sending(self, group: int) -> Sending:
        """Return the coflow of a group, given by index."""
        payload = self.payload if self.payloads is None else int(self.payloads[group])
        made = Sending.of(self.kind, self.members[group].tolist(), payload, self.group, self.rings)
        if self.between is None:
            return made if self.factor == 1 else made.scaled(self.factor)
        own = slice(group * len(made.flows), (group + 1) * len(made.flows))
        src, dst, nbytes = (getattr(self.flows, name)[own] for name in ("src", "dst", "nbytes"))
        # It is no `Communication`, all of which have equal parts.
        return made._replace(flows=Flows(src, dst, nbytes), communication=None)


class Row(NamedTuple):
    """A step in the program of a class of identical ranks.

    A computation is one operation per rank of the class, a communication one per group of ranks.
    """

    name: str
    stream: str
    ranks: Ints | None  #: the ranks that compute; None for a communication
    seconds: float  #: of a computation, or of a delay on no rank
    family: int  #: index in `Programs.families` of the coflows that are sent; -1 for none
    size: int  #: number of operations of this step
    of_rank: Ints  #: for each rank of the class, its operation among those of this step
    #: Of each operation's seconds, if ranks of the class differ in them.
    factors: Floats | None = None


@dataclass(frozen=True, eq=False)
class Programs:
    """The operations of an iteration of a job, by class of identical ranks, all of the same size.

    Each pair of `after` and `after_previous` is a row, and a row that it waits for in the same or
    the previous iteration: the operation of the k-th rank in the first row's class waits for that
    of the k-th rank in the second row's. `until` (of rows), `turns`, `tokens` and `variants` are as
    in `Operations`.
    """

    rows: tuple[Row, ...] = field(repr=False)
    after: tuple[tuple[int, int], ...] = field(repr=False)
    after_previous: tuple[tuple[int, int], ...] = field(repr=False)
    families: tuple[Family, ...] = field(repr=False)
    ranks: int
    until: tuple[int, ...] | None = field(default=None, repr=False)
    turns: str = "ready"
    tokens: tuple[int, int] = (0, 0)
    variants: tuple[Programs, ...] = field(default=(), repr=False)
    __repr__ = brief
    __deepcopy__ = same

    def __len__(self) -> int:
        return int(self.counts.sum())

    @property
    def identical(self) -> bool:
        """Whether ranks of a class do the same, so that one can represent all of them."""
        return (not self.variants and all(row.factors is None for row in self.rows)
                and all(family.between is None for family in self.families))

    def __reduce__(self) -> tuple[Any, ...]:
        return Programs, tuple(getattr(self, each.name) for each in fields(self))

    def scaled(self, nbytes: float, compute: float) -> Programs:
        """Return the programs with all bytes and all computation multiplied by factors."""
        return replace(
            self, rows=tuple(row if row.ranks is None else row._replace(
                seconds=row.seconds * compute) for row in self.rows),
            families=tuple(replace(each, factor=each.factor * nbytes) for each in self.families),
            variants=tuple(each.scaled(nbytes, compute) for each in self.variants))

    @cached_property
    def counts(self) -> Ints:
        """Number of operations of each row."""
        return np.array([row.size for row in self.rows], np.int64)

    @cached_property
    def first(self) -> Ints:
        """Index in `whole` of the first operation of each row."""
        return np.cumsum(self.counts) - self.counts

    @cached_property
    def first_sending(self) -> Ints:
        """Index of the first coflow of each family among the sendings of `whole`."""
        groups = np.array([family.groups for family in self.families], np.int64)
        return np.cumsum(groups) - groups

    @cached_property
    def whole(self) -> Operations:
        """The operations of all ranks; a warning says if they need gigabytes."""
        if len(self) > _MANY:
            warnings.warn(NetsimWarning(
                f"all {self.ranks:,} ranks of a job are simulated, with {len(self):,} operations "
                f"in an iteration, which takes about {_EACH * len(self) / 1e9:.0f} GB of memory; "
                "fewer layers, micro-batches or ranks take less, and ranks alike are simulated "
                "once where symmetry holds: on links that no other job uses, under maxmin, "
                "without a scheduler"), stacklevel=2)
        rank = [np.full(row.size, -1) if row.ranks is None else row.ranks for row in self.rows]
        sends = [np.full(row.size, -1) if row.family < 0 else
                 self.first_sending[row.family] + np.arange(row.size) for row in self.rows]
        made = self._operations(self.counts, np.concatenate(rank), np.concatenate(sends),
                                self._of_all(self.after), self._of_all(self.after_previous),
                                self._sendings(), self._until_of_all())
        if self.identical:
            return made
        return made._changed(self._seconds(), made.sendings, [made._changed(
            each._seconds(), each._sendings(), tokens=each.tokens) for each in self.variants])

    def _seconds(self) -> Floats:
        """Return the seconds of all operations."""
        seconds = np.repeat([row.seconds for row in self.rows], self.counts)
        for row, first in zip(self.rows, self.first, strict=True):
            if row.factors is not None:
                seconds[first:first + row.size] *= row.factors
        return seconds

    def _sendings(self) -> tuple[Sending, ...]:
        """Return the coflows of all groups."""
        return tuple(family.sending(group) for family in self.families
                     for group in range(family.groups))

    def _of_all(self, pairs: Sequence[tuple[int, int]]) -> Relation:
        """Derive the relation of operations from pairs of rows."""
        operation, other = (np.concatenate([np.empty(0, np.int64), *(
            self.first[pair[side]] + self.rows[pair[side]].of_rank for pair in pairs)])
            for side in (0, 1))
        return Relation.of(operation, other, len(self))

    def _until_of_all(self) -> Ints | None:
        """Derive the `until` of operations from that of rows."""
        if self.until is None:
            return None
        found = np.arange(len(self))
        for row, other in enumerate(self.until):
            if other != row:
                found[self.first[row] + self.rows[row].of_rank] = (
                    self.first[other] + self.rows[other].of_rank)
        return found

    @cached_property
    def folded(self) -> Operations:
        """The operations of the first rank of each class and of the first group of each family."""
        rank = [-1 if row.ranks is None else row.ranks[0] for row in self.rows]
        count = len(self.rows)
        return self._operations(np.ones(count, np.int64), np.array(rank, np.int64),
                                np.array([row.family for row in self.rows], np.int64),
                                Relation.of_pairs(self.after, count),
                                Relation.of_pairs(self.after_previous, count),
                                tuple(family.sending(0) for family in self.families),
                                None if self.until is None else np.array(self.until, np.int64))

    def _operations(self, counts: Ints, rank: Ints, sends: Ints, after: Relation,
                    after_previous: Relation, sendings: tuple[Sending, ...],
                    until: Ints | None) -> Operations:
        """Make operations, with the given number for each row."""
        streams, stream = _numbered(row.stream for row in self.rows)
        names, name = _numbered(row.name for row in self.rows)
        return Operations(rank, np.repeat([row.seconds for row in self.rows], counts), sends,
                          np.repeat(stream, counts), np.repeat(name, counts), after,
                          after_previous, sendings, streams, names, self.ranks, until, self.turns,
                          self.tokens)


def _numbered(texts: Iterable[str]) -> tuple[tuple[str, ...], list[int]]:
    """Number distinct texts; return them, and the number of each text."""
    known: dict[str, int] = {}
    numbers = [known.setdefault(text, len(known)) for text in texts]
    return tuple(known), numbers
