"""The programs of identical ranks: one program per class of ranks, and the groups of ranks.

The operations of all ranks follow from it, and those of one rank of each class.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.brief import brief
from netsim.columns import Flows
from netsim.errors import NetsimWarning
from netsim.forking import same
from netsim.operations import Operations, Relation, Sending, transfer

Ints = NDArray[np.int64]

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

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.members)

    @cached_property
    def flows(self) -> Flows:
        """The flows of all groups, group by group."""
        count = self.members.shape[1]
        src, dst, parts, _ = transfer(self.kind, np.arange(count), self.rings)
        nbytes = parts * self.payload / max(count * self.rings, 1) * self.factor
        return Flows(self.members[:, src].ravel(), self.members[:, dst].ravel(),
                     np.full(len(src) * self.groups, nbytes))

    def sending(self, group: int) -> Sending:
        """Return the coflow of a group, given by index."""
        made = Sending.of(self.kind, self.members[group].tolist(), self.payload, self.group,
                          self.rings)
        return made if self.factor == 1 else made.scaled(self.factor)


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


@dataclass(frozen=True, eq=False)
class Programs:
    """The operations of an iteration of a job, by class of identical ranks, all of the same size.

    Each pair of `after` and `after_previous` is a row, and a row that it waits for in the same or
    the previous iteration: the operation of the k-th rank in the first row's class waits for that
    of the k-th rank in the second row's. `until` (of rows) and `turns` are as in `Operations`.
    """

    rows: tuple[Row, ...] = field(repr=False)
    after: tuple[tuple[int, int], ...] = field(repr=False)
    after_previous: tuple[tuple[int, int], ...] = field(repr=False)
    families: tuple[Family, ...] = field(repr=False)
    ranks: int
    until: tuple[int, ...] | None = field(default=None, repr=False)
    turns: str = "ready"
    __repr__ = brief
    __deepcopy__ = same

    def __len__(self) -> int:
        return int(self.counts.sum())

    def __reduce__(self) -> tuple[Any, ...]:
        return Programs, tuple(getattr(self, each.name) for each in fields(self))

    def scaled(self, nbytes: float, compute: float) -> Programs:
        """Return the programs with all bytes and all computation multiplied by factors."""
        return replace(
            self, rows=tuple(row if row.ranks is None else row._replace(
                seconds=row.seconds * compute) for row in self.rows),
            families=tuple(replace(each, factor=each.factor * nbytes) for each in self.families))

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
        sendings = tuple(family.sending(group) for family in self.families
                         for group in range(family.groups))
        return self._operations(self.counts, np.concatenate(rank), np.concatenate(sends),
                                self._of_all(self.after), self._of_all(self.after_previous),
                                sendings, self._until_of_all())

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
        after, previous = (np.array(pairs, np.int64).reshape(-1, 2)
                           for pairs in (self.after, self.after_previous))
        count = len(self.rows)
        return self._operations(np.ones(count, np.int64), np.array(rank, np.int64),
                                np.array([row.family for row in self.rows], np.int64),
                                Relation.of(after[:, 0], after[:, 1], count),
                                Relation.of(previous[:, 0], previous[:, 1], count),
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
                          after_previous, sendings, streams, names, self.ranks, until, self.turns)


def _numbered(texts: Iterator[str]) -> tuple[tuple[str, ...], list[int]]:
    """Number distinct texts; return them, and the number of each text."""
    known: dict[str, int] = {}
    numbers = [known.setdefault(text, len(known)) for text in texts]
    return tuple(known), numbers
