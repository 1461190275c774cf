"""Weighted max-min fairness by progressive filling, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit

from netsim.fabric.records import DUST

__all__ = ["incidence", "maxmin"]


@njit(cache=True)
def incidence(coflows, flows, hops, links):
    """Return which flows cross each link, in compressed rows of positions in `flows`."""
    ptr = np.zeros(links + 1, np.int64)
    for c in range(len(coflows)):
        row = coflows[c]
        for f in range(row.flow, row.flow + row.flows):
            if flows[f].remaining > 0.0:
                for h in range(flows[f].hop, flows[f].hop + flows[f].hops):
                    ptr[hops[h].link + 1] += 1
    for link in range(links):
        ptr[link + 1] += ptr[link]
    at = ptr[:-1].copy()
    members = np.empty(ptr[-1], np.int64)
    for c in range(len(coflows)):
        row = coflows[c]
        for f in range(row.flow, row.flow + row.flows):
            if flows[f].remaining > 0.0:
                for h in range(flows[f].hop, flows[f].hop + flows[f].hops):
                    link = hops[h].link
                    members[at[link]] = f
                    at[link] += 1
    return ptr, members


@njit(cache=True)
def maxmin(coflows, flows, hops, ptr, members, weights, capacity):
    """Return the weighted max-min fair rate of each unfinished flow.

    Fills all flows in proportion to their weights; the link that fills first freezes its
    flows; and so on with the rest. A flow of weight 0 gets nothing.

    Parameters
    ----------
    ptr, members
        As made by `incidence`, possibly with flows that have finished since.
    weights : ndarray of float, shape (unfinished flows,)
        Empty for weight 1 throughout.
    capacity : ndarray of float, shape (links,)
        What there is to share out.
    """
    links = len(capacity)
    rate = np.full(len(flows), -1.0)
    weight = np.zeros(len(flows))
    total = np.zeros(links)
    waiting = np.zeros(links, np.int64)
    count = 0
    for c in range(len(coflows)):
        row = coflows[c]
        for f in range(row.flow, row.flow + row.flows):
            if flows[f].remaining <= 0.0:
                continue
            w = weights[count] if len(weights) else 1.0
            count += 1
            if w <= 0.0:
                rate[f] = 0.0
                continue
            weight[f] = w
            for h in range(flows[f].hop, flows[f].hop + flows[f].hops):
                total[hops[h].link] += w
                waiting[hops[h].link] += 1

    left = capacity.copy()
    live = np.empty(links, np.int64)
    level = np.empty(links)
    lives = 0
    for link in range(links):
        if waiting[link] > 0:
            live[lives] = link
            level[link] = left[link] / total[link] if left[link] > 0.0 else 0.0
            lives += 1
    while lives > 0:
        lowest = np.inf
        at = 0
        kept = 0
        for i in range(lives):
            link = live[i]
            if waiting[link] == 0:
                continue
            live[kept] = link
            if level[link] < lowest:
                lowest = level[link]
                at = kept
            kept += 1
        lives = kept
        if lives == 0:
            break
        full = live[at]
        for m in range(ptr[full], ptr[full + 1]):
            f = members[m]
            if rate[f] >= 0.0 or flows[f].remaining <= 0.0:
                continue
            w = weight[f]
            rate[f] = lowest * w
            for h in range(flows[f].hop, flows[f].hop + flows[f].hops):
                link = hops[h].link
                waiting[link] -= 1
                if link != full:
                    total[link] -= w
                    left[link] -= rate[f]
                    if waiting[link] > 0:
                        spare = left[link]
                        level[link] = spare / total[link] if spare > DUST * capacity[link] else 0.0

    rates = np.empty(count)
    i = 0
    for c in range(len(coflows)):
        row = coflows[c]
        for f in range(row.flow, row.flow + row.flows):
            if flows[f].remaining > 0.0:
                rates[i] = rate[f]
                i += 1
    return rates
