"""The operations of a job's ranks in an iteration, as columns.

An *operation* is a computation on a rank, a coflow, or a point at which others meet. It begins when
the operations that it waits for are complete, in its own iteration and in the previous one. So all
iterations form one graph, without a common start and end of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.brief import brief
from netsim.columns import Flows
from netsim.errors import InputError, UnknownNameError
from netsim.forking import same

__all__ = ["COMMUNICATIONS", "Communication", "Operations", "Relation", "Sending", "transfer"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


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
        See `netsim.Stage`.
    communication : Communication or None
        The collective or the message; None if not known.
    """

    flows: Flows
    steps: tuple[tuple[Ints, int], ...] = ()
    weight: float = 1.0
    deadline_s: float | None = None
    overhead_s: float | None = None
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
        if kind not in COMMUNICATIONS:
            raise UnknownNameError("communication", kind, COMMUNICATIONS)
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
_RINGS = ("all-reduce", "all-gather", "reduce-scatter")


def transfer(kind: str, at: Ints, rings: int = 1) -> tuple[Ints, Ints, int, int]:
    """Compute the sources and destinations of flows, the parts that each sends, and the steps.

    The payload consists of ``ranks * rings`` equal parts.
    """
    others = len(at) - 1
    if rings != 1 and (kind not in _RINGS or rings < 1 or len(at) % rings):
        raise InputError(f"there cannot be {rings} rings of {kind} over {len(at)} ranks: rings are "
                         f"for {', '.join(_RINGS)}, whose ranks are in runs of so many")
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
    sequence: Ints = field(init=False)
    __repr__ = brief
    __deepcopy__ = same

    def __post_init__(self) -> None:
        count = len(self.rank)
        if self.turns not in ("ready", "number"):
            raise UnknownNameError("operations: turns", self.turns, ("ready", "number"))
        until = np.arange(count) if self.until is None else self.until
        for name in ("rank", "compute_s", "sends", "stream", "name"):
            column = getattr(self, name)
            if len(column) != count:
                raise InputError(f"operations: {name} has {len(column):,} entries, and rank has "
                                 f"{count:,}")
            column.setflags(write=False)
        for name, column, least, most in (
                ("rank", self.rank, -1, self.ranks), ("sends", self.sends, -1, len(self.sendings)),
                ("stream", self.stream, 0, len(self.streams)),
                ("name", self.name, 0, len(self.names)), ("until", until, 0, count),
                ("after", self.after.others, 0, count),
                ("after_previous", self.after_previous.others, 0, count)):
            if len(column) and not least <= column.min() <= column.max() < most:
                raise InputError(f"operations: {name} must be from {least} to {most - 1}, not "
                                 f"{column.min()} to {column.max()}")
        if not ((self.compute_s >= 0) & np.isfinite(self.compute_s)).all():
            raise InputError("operations: compute_s must be finite and at least 0")
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
        other = copy(self)
        slow = self.compute_s * np.where(self.rank < 0, 1.0, factors[self.rank])
        slow.setflags(write=False)
        object.__setattr__(other, "compute_s", slow)
        return other

    def scaled(self, nbytes: float, compute: float) -> Operations:
        """Return the operations with all bytes and all computation multiplied by factors."""
        other = self.slowed(np.full(self.ranks, compute))
        sendings = tuple(each.scaled(nbytes) for each in self.sendings)
        object.__setattr__(other, "sendings", sendings)
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
        count = len(rows)
        of_stream = {each: k for k, each in enumerate(dict.fromkeys(streams))}
        of_name = {each: k for k, each in enumerate(dict.fromkeys(names))}
        relations = []
        for pairs in (after, after_previous):
            listed = np.array(list(pairs), np.int64).reshape(-1, 2)
            relations.append(Relation.of(listed[:, 0], listed[:, 1], count))
        return cls(np.array(rank, np.int64), np.array(seconds, np.float64),
                   np.array(sends, np.int64),
                   np.array([of_stream[each] for each in streams], np.int64),
                   np.array([of_name[each] for each in names], np.int64),
                   relations[0], relations[1], tuple(sendings), tuple(of_stream), tuple(of_name),
                   ranks)
