"""The operations of one rank, as readers of all formats make them from its trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netsim.base.brief import brief
from netsim.errors import TraceError

#: The longest time of an operation. A longer one is from a damaged stamp.
WEEK_S = 7 * 86400

#: Largest number of nodes or ranks that a message names.
_MOST_NAMED = 10


@dataclass(frozen=True, slots=True, eq=False)
class Exchange:
    """What ranks of a group send to each other in an all-to-all of unequal parts."""

    between: NDArray[np.int64]  #: bytes from each rank of the group to each
    work: NDArray[np.float64]  #: of each rank, as multiples of that with equal parts
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
    exchange : Exchange, optional
        The parts of an all-to-all, if they are not equal.
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
