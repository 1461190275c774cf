"""Equal-cost shortest paths over directed links, the hash that chooses among them; given paths."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.values import as_list, refuse_set
from netsim.errors import InputError

# --- shortest paths ------------------------------------------------------------------------

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

    def __init__(self, tail: Ints, head: Ints, relays: Bools,
                 dead: Bools | None = None, weights: Floats | None = None) -> None:
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

    def without(self, dead: Bools) -> ShortestPaths:
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

    def connect(self, src: Ints, dst: Ints) -> Bools:
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


# --- given paths ---------------------------------------------------------------------------

Node = Hashable

Path = Sequence[Node]

#: A mapping of (source node, destination node) to a path or several, or of source nodes to such
#: mappings of destination nodes; or a list of paths.
Paths = (Mapping[tuple[Node, Node], Path | Sequence[Path]]
         | Mapping[Node, Mapping[Node, Path | Sequence[Path]]] | Iterable[Path])


class GivenPaths:
    """User-defined paths, one or several for some pairs of hosts; see `netsim.from_networkx`.

    Nodes with a `number` below `hosts` are hosts; `link_of` has the first link between two nodes.
    """

    def __init__(self, paths: Paths, number: Mapping[Node, int], hosts: int,
                 link_of: Mapping[tuple[int, int], int]) -> None:
        found: dict[int, list[list[int]]] = {}
        for path in _iter_paths(paths, number, hosts):
            nodes = _node_numbers(path, number)
            if len(nodes) < 2 or len(set(nodes)) < len(nodes):
                raise InputError(f"the path {path!r} is invalid: it needs two or more nodes, "
                                 "each of them once")
            for end in (0, -1):
                if nodes[end] >= hosts:
                    raise InputError(f"the path {path!r} must lead from a host to a host: "
                                     f"{path[end]!r} is not a host")
            for start, end in pairwise(range(len(nodes))):
                if (nodes[start], nodes[end]) not in link_of:
                    raise InputError(f"the path {path!r} is invalid: no link leads from "
                                     f"{path[start]!r} to {path[end]!r}")
            links = [link_of[pair] for pair in pairwise(nodes)]
            found.setdefault(nodes[0] * hosts + nodes[-1], []).append(links)
        self._hosts = hosts
        self._pairs = np.array(sorted(found), np.int64)
        chosen = [found[pair] for pair in sorted(found)]
        self._alternatives = _starts(chosen)
        self._ptr = _starts([path for several in chosen for path in several])
        self._links = np.array([link for several in chosen for path in several for link in path],
                               np.int64)

    @classmethod
    def of_links(cls, paths: Mapping[tuple[int, int], Sequence[int]], hosts: int) -> GivenPaths:
        """Make paths of links, one for each pair of hosts."""
        made = cls([], {}, hosts, {})
        pairs = sorted(paths)
        made._pairs = np.array([src * hosts + dst for src, dst in pairs], np.int64)
        made._alternatives = np.arange(len(pairs) + 1)
        made._ptr = _starts([paths[pair] for pair in pairs])
        made._links = np.array([link for pair in pairs for link in paths[pair]], np.int64)
        return made

    def has(self, src: Ints, dst: Ints) -> Bools:
        """Return the mask of the pairs of hosts that have user-defined paths."""
        return np.isin(src * self._hosts + dst, self._pairs)

    def without(self, dead: Bools) -> GivenPaths:
        """Return only the paths that avoid dead links."""
        hops = np.diff(self._ptr)
        path = np.repeat(np.arange(len(hops)), hops)
        alive = np.bincount(path, dead[self._links], len(hops)) == 0
        pair = np.repeat(np.arange(len(self._pairs)), np.diff(self._alternatives))[alive]
        left = np.bincount(pair, minlength=len(self._pairs))
        other = copy(self)
        other._pairs = self._pairs[left > 0]
        other._alternatives = _from_counts(left[left > 0])
        other._ptr, other._links = _from_counts(hops[alive]), self._links[alive[path]]
        return other

    def on_links(self, link_of: Ints) -> GivenPaths:
        """Return the same paths over other links; `link_of` maps each link to the new one."""
        other = copy(self)
        other._links = link_of[self._links]
        return other

    def choose(self, src: Ints, dst: Ints, hashes: Hashes | None) -> tuple[Ints, Ints]:
        """Choose a path for each flow by its hash, or else the first one, and return all links.

        Each pair of hosts must have user-defined paths. The arrays returned have, for each hop,
        flow by flow, the flow to which it belongs, and the link that it crosses.
        """
        pair = np.searchsorted(self._pairs, src * self._hosts + dst)
        path = self._alternatives[pair]
        if hashes is not None:
            count = (self._alternatives[pair + 1] - path).astype(np.uint64)
            path = path + (hashes % count).astype(np.int64)
        owner, place = expand(self._ptr, path)
        return owner, self._links[place]


def _iter_paths(paths: Paths, number: Mapping[Node, int], hosts: int) -> Iterator[Path]:
    """Yield all paths; those of a mapping must lead between the two nodes of their key."""
    if not isinstance(paths, Mapping):
        yield from map(_check_path, as_list(paths, "paths", object, "lists of nodes"))
        return
    for key, value in paths.items():
        for ends, given in _by_pair(key, value, number, hosts):
            several = isinstance(given, list | tuple) and len(given) > 0 and all(
                isinstance(path, list | tuple) and not _is_node(path, number) for path in given)
            for path in given if several else [given]:
                path = _check_path(path)
                if not (isinstance(ends, tuple) and path and (path[0], path[-1]) == ends):
                    raise InputError(f"the path {path!r} does not lead from the first to the "
                                     f"second node of its key {ends!r}")
                yield path


def _by_pair(key: Any, value: Any, number: Mapping[Node, int], hosts: int
             ) -> Iterator[tuple[Any, Any]]:
    """Yield an entry of a mapping; of a mapping in it, those of pairs of different hosts.

    networkx's all-pairs functions return paths between all nodes, also from each to itself.
    """
    if not isinstance(value, Mapping):
        yield key, value
        return
    for node in (key, *value):
        if not _is_node(node, number):
            raise InputError(f"paths has the unknown node {node!r}")
    for end, given in value.items():
        if end != key and number[key] < hosts and number[end] < hosts:
            yield (key, end), given


def _is_node(given: Any, number: Mapping[Node, int]) -> bool:
    """Whether an object is a node; tuples may be nodes."""
    try:
        return given in number
    except TypeError:  # it has no hash
        return False


def _check_path(path: Any) -> Path:
    refuse_set(path, "a path in paths")
    if not isinstance(path, list | tuple):
        raise InputError(f"a path must be a list of nodes, not {path!r}")
    return path


def _node_numbers(path: Path, number: Mapping[Node, int]) -> list[int]:
    for node in path:
        if not _is_node(node, number):
            raise InputError(f"the path {path!r} has the unknown node {node!r}")
    return [number[node] for node in path]


def _starts(rows: Sequence[Sequence[Any]]) -> Ints:
    return _from_counts(np.array([*map(len, rows)], np.int64))


def _from_counts(counts: Ints) -> Ints:
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
