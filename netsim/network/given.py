"""User-defined paths, which flows take instead of shortest paths."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.checks import check_sequence, refuse_set
from netsim.errors import InputError
from netsim.network.routing import Hashes, Ints, expand

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

    def has(self, src: Ints, dst: Ints) -> NDArray[np.bool_]:
        """Return the mask of the pairs of hosts that have user-defined paths."""
        return np.isin(src * self._hosts + dst, self._pairs)

    def without(self, dead: NDArray[np.bool_]) -> GivenPaths:
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
        yield from map(_check_path, check_sequence(paths, object, "paths", "lists of nodes"))
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
