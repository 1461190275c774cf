"""Max-min fair sharing computed once, for rates that stay in force; see `sharing`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels import compiled, inlined
from netsim.fabric.kernels.filling import freeze, heap_of, register_release, release_members

#: A link: its members go from ``first`` to ``stop``.
_LINK = np.dtype([("first", "i8"), ("stop", "i8")])


class _Paths(NamedTuple):
    """A filling of `kernels.filling` with flows as members."""

    links: NDArray[Any]
    share: NDArray[np.float64]
    others: NDArray[np.uint32]
    unfrozen: NDArray[np.float64]
    left: NDArray[np.float64]
    full_at: NDArray[np.float64]


def _release(filling, link, level):
    at = filling.links[link]
    release_members(at.first, at.stop, filling.share, filling.others, filling.unfrozen,
                    filling.left, filling.full_at, level)


register_release(_Paths, _release)


@compiled
def maxmin(coflows, flows, hops, capacity, weights):
    """Return the weighted max-min fair rate of each unfinished flow; 0 for those of weight 0."""
    longest = 1
    for c in range(len(coflows)):
        longest = max(longest, coflows[c].max_hops)
    path = np.full((len(weights), longest), len(capacity), np.uint32)
    i = 0
    for c in range(len(coflows)):
        for f in range(coflows[c].flow, coflows[c].flow + coflows[c].flows):
            if flows[f].remaining > 0.0:
                for h in range(flows[f].hops):
                    path[i, h] = hops[flows[f].hop + h].link
                i += 1
    return fill_paths(path, weights, capacity)


@compiled
def fill_paths(path, weights, capacity):
    """Return the weighted max-min fair rates of flows.

    `path`, of shape (flows, most links on a path), has the links of each flow; short paths are
    filled up with the number of links.
    """
    filling = _lay_out(path, weights, capacity)
    growing = np.flatnonzero(filling.unfrozen[:-1] > 0.0)
    heap, levels = heap_of(growing, filling.unfrozen, filling.left)
    freeze(heap, levels, np.inf, filling, heap[:0])
    rates = np.zeros(len(weights))
    for i in range(len(path)):
        if weights[i] > 0.0:
            lowest = np.inf
            for h in range(path.shape[1]):
                lowest = min(lowest, filling.full_at[path[i, h]])
            # A weight that is lost in sums with others may be left without a full link.
            rates[i] = weights[i] * lowest if lowest < np.inf else 0.0
    return rates


@inlined
def _lay_out(path, weights, capacity):
    """Return a filling in which all flows with a weight grow."""
    count, longest = path.shape
    links = np.zeros(len(capacity) + 1, _LINK)
    unfrozen, left = np.zeros(len(links)), np.zeros(len(links))
    for i in range(count):
        for h in range(longest):
            if weights[i] > 0.0 and path[i, h] < len(capacity):
                links[path[i, h]].stop += 1
                unfrozen[path[i, h]] += weights[i]
    members = 0
    for link in range(len(capacity)):
        left[link] = capacity[link]
        members += links[link].stop
        links[link].first = links[link].stop = members - links[link].stop
    share = np.empty(members)
    others = np.full((members, max(longest - 1, 1)), len(capacity), np.uint32)
    for i in range(count):
        for h in range(longest):
            if weights[i] > 0.0 and path[i, h] < len(capacity):
                m = links[path[i, h]].stop
                links[path[i, h]].stop += 1
                share[m] = weights[i]
                for g in range(longest - 1):
                    others[m, g] = path[i, g + (g >= h)]
    return _Paths(links, share, others, unfrozen, left, np.full(len(links), np.inf))
