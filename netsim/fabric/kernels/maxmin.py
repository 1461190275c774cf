"""Compiled max-min fair sharing, once: for who asks for rates and keeps them; see `sharing`."""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled, inlined
from netsim.fabric.kernels.filling import heap_of, lowest_of

__all__ = ["maxmin"]


@compiled
def maxmin(coflows, flows, hops, capacity, weights):
    """Return the weighted max-min fair rates of all unfinished flows.

    Progressive filling: all flows grow alike, by weight; the link that is full first freezes its
    flows; and so on with the rest.

    Parameters
    ----------
    capacity : ndarray of float, shape (links,)
        What there is to share out.
    weights : ndarray of float, shape (unfinished flows,)
        A flow of weight 0 gets nothing.
    """
    where = _senders(coflows, flows, weights)
    first, yet = _wanted(flows, hops, weights, where, len(capacity))
    members = np.empty(first[-1], np.int64)
    _enter(flows, hops, weights, where, first.copy(), members)
    left = capacity.copy()
    rates = np.zeros(len(weights))
    order, levels = heap_of(np.flatnonzero(yet > 0.0), yet, left)
    stop = len(order)
    lowest = 0.0
    grows = weights > 0.0
    while True:
        link, stop = lowest_of(order, levels, stop, yet, left)
        if link < 0:
            return rates
        lowest = max(lowest, left[link] / yet[link])
        for i in members[first[link]:first[link + 1]]:
            if grows[i]:
                grows[i] = False
                rates[i] = weights[i] * lowest
                flow = flows[where[i]]
                for h in range(flow.hop, flow.hop + flow.hops):
                    yet[hops[h].link] -= weights[i]
                    left[hops[h].link] -= rates[i]


@inlined
def _senders(coflows, flows, weights):
    """Return the positions of the unfinished flows."""
    where = np.empty(len(weights), np.int64)
    i = 0
    for c in range(len(coflows)):
        for f in range(coflows[c].flow, coflows[c].flow + coflows[c].flows):
            if flows[f].remaining > 0.0:
                where[i] = f
                i += 1
    return where


@inlined
def _wanted(flows, hops, weights, where, links):
    """Return where each link's members begin, and the sum of their weights."""
    first = np.zeros(links + 1, np.int64)
    yet = np.zeros(links)
    for i in range(len(where)):
        if weights[i] > 0.0:
            flow = flows[where[i]]
            for h in range(flow.hop, flow.hop + flow.hops):
                first[hops[h].link + 1] += 1
                yet[hops[h].link] += weights[i]
    return np.cumsum(first), yet


@inlined
def _enter(flows, hops, weights, where, place, members):
    """List the flows with a weight on each link that they cross."""
    for i in range(len(where)):
        if weights[i] > 0.0:
            flow = flows[where[i]]
            for h in range(flow.hop, flow.hop + flow.hops):
                link = hops[h].link
                members[place[link]] = i
                place[link] += 1
