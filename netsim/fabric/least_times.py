"""Lower bounds on the time from a stage being valid until all bytes of its coflow arrive."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels.binding import bottlenecks

Floats = NDArray[np.float64]


def least_times(coflows: NDArray[Any], flows: NDArray[Any], hops: NDArray[Any], loads: NDArray[Any],
                capacity: Floats, latency: Floats) -> Floats:
    """Return a lower bound on the completion time of each coflow, counted from its valid time.

    If o is the overhead, U_l the capacity of link l, and the flows on l are numbered by falling
    latency Lambda_f of their paths, with w_f bytes each, the bound is

            o + max( max_f Lambda_f,  max_l max_k [ (w_1 + ... + w_k) / U_l + Lambda_k ] )

    A link that sends its flows in that order reaches the bound, and no other order is faster
    (Jackson's rule for delivery times). With equal latencies the bound is o + gamma + Lambda.

    The rows are as `netsim.fabric.kernels.binding.bind` makes them. A capacity of inf means that
    flows may avoid the link; its latency then does not count. `capacity` and `latency` may include
    links that the coflows do not cross.
    """
    gamma = bottlenecks(coflows, loads, capacity)
    sure = np.isfinite(capacity[:len(latency)])
    messages = np.maximum(coflows["arrives"], 0.0) if sure.all() else np.zeros(len(coflows))
    if not (coflows["reach"].any() or messages.any()):
        return gamma + coflows["overhead"]
    of_flow = np.repeat(np.arange(len(flows)), flows["hops"])
    counted = np.where(sure, latency, 0.0)[hops["link"]]
    paths = np.bincount(of_flow, counted, len(flows)).astype(np.float64)
    shortest, longest = _ends_of_paths(coflows["flows"], paths)
    least = gamma + longest
    for k in np.flatnonzero(shortest < longest).tolist():
        row = coflows[k]
        own = slice(row["flow"], row["flow"] + row["flows"])
        on = slice(row["hop"], row["hop"] + row["hops"])
        least[k] = _least_time(paths[own], flows["size"][own], of_flow[on] - row["flow"],
                               hops["link"][on], capacity)
    return coflows["overhead"] + np.maximum(least, messages)


def _ends_of_paths(flows: NDArray[np.int64], paths: Floats) -> tuple[Floats, Floats]:
    """Return the lowest and the highest path latency of each coflow; inf and 0 without flows."""
    owner = np.repeat(np.arange(len(flows)), flows)
    shortest, longest = np.full(len(flows), np.inf), np.zeros(len(flows))
    np.minimum.at(shortest, owner, paths)
    np.maximum.at(longest, owner, paths)
    return shortest, longest


def _least_time(paths: Floats, nbytes: Floats, flow: NDArray[np.int64], link: NDArray[np.int64],
                capacity: Floats) -> float:
    """Return the bound of a coflow with unequal latencies, given the flow and link of each hop."""
    order = np.lexsort((-paths[flow], link))
    flow, link = flow[order], link[order]
    sent = np.cumsum(nbytes[flow])
    first = np.flatnonzero(np.diff(link, prepend=-1))
    before = np.repeat(sent[first] - nbytes[flow[first]], np.diff(first, append=len(link)))
    return float(((sent - before) / capacity[link] + paths[flow]).max())
