"""Equal-cost shortest paths over directed links, and the hash that chooses among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Hashes = NDArray[np.uint64]

_GOLDEN, _FIRST, _SECOND = (np.uint64(part) for part in (
    0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)


def mix(values: Hashes) -> Hashes:
    """Hash values by one step of splitmix64, which is the same on every platform.

    >>> int(mix(np.array([0], np.uint64))[0]) == 0xE220A8397B1DCDAF
    True
    """
    mixed = values + _GOLDEN
    mixed = (mixed ^ (mixed >> _30)) * _FIRST
    mixed = (mixed ^ (mixed >> _27)) * _SECOND
    return mixed ^ (mixed >> _31)


def flow_hash(src: Ints, dst: Ints, key: Ints) -> Hashes:
    """Hash the hosts and the key of each flow."""
    mixed = mix(key.astype(np.uint64))
    mixed = mix(mixed ^ src.astype(np.uint64))
    return mix(mixed ^ dst.astype(np.uint64))


def expand(ptr: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Return, for each entry of some compressed rows, its index into `rows`, and its position.

    Row r has the entries ``ptr[r]`` to ``ptr[r + 1] - 1``.

    >>> expand(np.array([0, 2, 3]), np.array([1, 0]))
    (array([0, 1, 1]), array([2, 0, 1]))
    """
    first, count = ptr[rows], ptr[rows + 1] - ptr[rows]
    owner = np.repeat(np.arange(len(rows)), count)
    skipped = np.cumsum(count) - count
    return owner, np.arange(len(owner)) + (first - skipped)[owner]


def reach(start: int, neighbours: Sequence[Sequence[int]], relays: Sequence[bool]) -> list[int]:
    """Count the hops from a node to every other, through nodes that relay; -1 if there is no path.

    This is plain Python, because a search in NumPy has a cost per level, and a long ring has many
    levels.
    """
    hops = [-1] * len(neighbours)
    hops[start] = 0
    frontier, distance = [start], 0
    while frontier:
        distance += 1
        further = []
        for node in frontier:
            if relays[node] or node == start:
                for other in neighbours[node]:
                    if hops[other] < 0:
                        hops[other] = distance
                        further.append(other)
        frontier = further
    return hops


def weigh(start: int, neighbours: Sequence[Sequence[tuple[int, float]]], relays: Sequence[bool]
          ) -> list[float]:
    """Compute the least weight of a path from a node to every other; -1 if there is no path.

    Each neighbour comes with the positive weight of the link to it; paths lead only through nodes
    that relay.
    """
    weights = [-1.0] * len(neighbours)
    queue = [(0.0, start)]
    while queue:
        weight, node = heappop(queue)
        if weights[node] >= 0:
            continue
        weights[node] = weight
        if relays[node] or node == start:
            for other, more in neighbours[node]:
                if weights[other] < 0:
                    heappush(queue, (weight + more, other))
    return weights


#: Share by which weights of equal paths may differ, as sums of floats depend on their order.
_ROUNDING = 1e-12


class ShortestPaths:
    """Equal-cost shortest paths between nodes, found when a destination is first used.

    Links are in order of start nodes. Paths lead only through nodes that relay, and not over `dead`
    links; without `weights`, links have length 1. Only the length of a path from every node to a
    destination is stored, not the paths. All paths to a node with a single incoming link, such as a
    host with one port, lead through the other end of that link. Hosts on the same switch therefore
    share one search, and memory grows with nodes x switches instead of nodes x hosts.
    """

    def __init__(self, tail: Ints, head: Ints, relays: NDArray[np.bool_],
                 dead: NDArray[np.bool_] | None = None, weights: Floats | None = None) -> None:
        nodes = len(relays)
        self._all = tail, head, weights
        self._number = np.arange(len(tail)) if dead is None else np.flatnonzero(~dead)
        tail, head = tail[self._number], head[self._number]
        self._weights = None if weights is None else weights[self._number]
        self._tail, self._head, self._relays = tail, head, relays
        self._salt = mix(np.arange(nodes, dtype=np.uint64))
        self._ptr = np.searchsorted(tail, np.arange(nodes + 1))
        starts = tail.tolist()
        self._before: list[list[Any]] = [[] for _ in range(nodes)]
        for end, before in zip(head.tolist(), starts if self._weights is None else zip(
                starts, self._weights.tolist(), strict=True), strict=True):
            self._before[end].append(before)
        # The single link into each node; -1 if there are several, or its start does not relay.
        self._last = np.full(nodes, -1)
        self._last[head] = np.arange(len(head))
        several = np.bincount(head, minlength=nodes) != 1
        self._last[several | ~relays[tail[self._last]] if len(tail) else several] = -1
        self._row = np.full(nodes, -1)
        self._lengths: NDArray[Any] = np.empty(
            (0, nodes), np.int32 if weights is None else np.float64)
        self._rows = 0

    def without(self, dead: NDArray[np.bool_]) -> ShortestPaths:
        """Return the shortest paths that avoid dead links."""
        tail, head, weights = self._all
        return ShortestPaths(tail, head, self._relays, dead, weights)

    def _target(self, dst: Ints) -> tuple[Ints, Ints, Ints]:
        """Find the search that serves each destination, after making the searches that are missing.

        The arrays returned have the single link into each destination, or -1; the node at which its
        search starts; and the row of this node in the table of lengths.
        """
        last = self._last[dst]
        root = np.where(last >= 0, self._tail[last], dst) if len(self._tail) else dst
        for node in np.unique(root[self._row[root] < 0]).tolist():
            if self._rows == len(self._lengths):
                self._lengths = np.concatenate((self._lengths, np.empty(
                    (max(8, self._rows), len(self._row)), self._lengths.dtype)))
            search = reach if self._weights is None else weigh
            self._lengths[self._rows] = search(node, self._before, self._relays.tolist())
            self._row[node] = self._rows
            self._rows += 1
        return last, root, self._row[root]

    def connect(self, src: Ints, dst: Ints) -> NDArray[np.bool_]:
        """Return the mask of the pairs of nodes with a path; true for a node and itself."""
        row = self._target(dst)[2]
        return (self._lengths[row, src] >= 0) | (src == dst)

    def walk(self, src: Ints, dst: Ints, hashes: Hashes | None) -> Iterator[tuple[Ints, Ints]]:
        """Yield, hop by hop, the flows that have not arrived yet, and the link that each takes.

        The nodes of a pair must differ and have a path between them. Each node chooses among the
        next links of shortest paths by the `hashes` of flows; without them, the one with the lowest
        number.
        """
        last, root, row = self._target(dst)
        at = src.copy()
        flow = np.flatnonzero(at != root)
        while len(flow):
            here, goal = at[flow], root[flow]
            first, count, links = self._nearer(here, goal, row[flow])
            if hashes is not None:
                turn = mix(hashes[flow] ^ self._salt[here])
                first = first + (turn % count.astype(np.uint64)).astype(np.int64)
            link = links[first]
            yield flow, self._number[link]
            at[flow] = self._head[link]
            flow = flow[at[flow] != goal]
        flow = np.flatnonzero(last >= 0)
        yield flow, self._number[last[flow]]

    def _nearer(self, at: Ints, root: Ints, row: Ints) -> tuple[Ints, Ints, Ints]:
        """Find the links from nodes `at` that lead nearer to `root`.

        The first two arrays returned have, for each flow, the position of its first such link in
        the third array, and the number of its links.
        """
        owner, link = expand(self._ptr, at)
        end = self._head[link]
        left, now = self._lengths[row[owner], end], self._lengths[row, at]
        if self._weights is None:
            nearer = left == (now - 1)[owner]
        else:  # nearer even after rounding, so that paths end
            nearer = (left >= 0) & (left < now[owner])
            nearer &= left + self._weights[link] <= (now * (1 + _ROUNDING))[owner]
        nearer &= self._relays[end] | (end == root[owner])
        count = np.bincount(owner[nearer], minlength=len(at))
        return np.cumsum(count) - count, count, link[nearer]
