"""Compiled weighted max-min fairness: one sharing, or one after the other.

Progressive filling: all flows grow in proportion to their weights; the link that fills
first freezes its flows; and so on with the rest. Between two coflow events a max-min fair
fabric only loses flows, so `share_until` shares anew at each such instant without going
back to Python, and touches only the flows whose rate has changed.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from netsim.fabric.records import DUST

__all__ = ["maxmin", "share_until"]

#: Relative: flows that end within a few roundings of one another end together.
_ULPS = 1e-15


@njit(cache=True)
def maxmin(coflows, flows, hops, weights, capacity):
    """Return the weighted max-min fair rate of each unfinished flow.

    Parameters
    ----------
    weights : ndarray of float, shape (unfinished flows,)
        A flow of weight 0 gets nothing.
    capacity : ndarray of float, shape (links,)
        What there is to share out.
    """
    index, _, ptr, path = _paths(coflows, flows, hops)
    members, first, listed = _members(ptr, path, len(capacity))
    total = _weight_per_link(weights, ptr, path, len(capacity))
    rate = np.zeros(len(index))
    clock = np.zeros(len(index))
    _share(weights, ptr, path, members, first, listed, listed.copy(), total, capacity,
           np.ones(len(index), np.bool_), 0.0, clock, rate, clock, clock)
    return rate


@njit(cache=True)
def share_until(coflows, flows, hops, capacity, now, until, carried):
    """Share by the flows' weights, anew whenever one ends, until a coflow is about to complete.

    Writes bytes and rates as of the last sharing back to the rows.

    Parameters
    ----------
    capacity : ndarray of float, shape (links,)
    now, until : float
        From when, and before which instant to stop in any case, in seconds.
    carried : ndarray of float, shape (links,) or (0,)
        Collects the bytes that each link carries, if it has a value per link.

    Returns
    -------
    now : float
        The instant of the last sharing; its rates are in force from then on.
    next_finish : float
        When the next flow ends; inf if none moves.
    """
    index, owner, ptr, path = _paths(coflows, flows, hops)
    count = len(index)
    members, first, listed = _members(ptr, path, len(capacity))
    alive_on = listed.copy()
    remaining = np.empty(count)
    weight = np.empty(count)
    for i in range(count):
        remaining[i] = flows[index[i]].remaining
        weight[i] = flows[index[i]].weight
    total = _weight_per_link(weight, ptr, path, len(capacity))
    rate = np.zeros(count)
    since = np.full(count, now)
    finish = np.full(count, np.inf)
    alive = np.ones(count, np.bool_)
    ending = np.empty(count, np.int64)
    while True:
        _share(weight, ptr, path, members, first, listed, alive_on, total, capacity, alive, now,
               remaining, rate, since, finish)
        next_finish = np.inf
        for i in range(count):
            next_finish = min(next_finish, finish[i])
        if next_finish >= until:
            break
        ends = _ending(coflows, owner, alive, finish, next_finish, ending)
        if ends == 0:
            break
        now = next_finish
        for e in range(ends):
            i = ending[e]
            alive[i] = False
            remaining[i] = 0.0
            finish[i] = np.inf
            flows[index[i]].finish = now
            coflows[owner[i]].last = max(coflows[owner[i]].last, now)
            for p in range(ptr[i], ptr[i + 1]):
                alive_on[path[p]] -= 1
                total[path[p]] -= weight[i]
    _write_back(coflows, flows, index, owner, ptr, path, alive, remaining, rate, since, finish,
                now, carried)
    return now, next_finish


@njit(cache=True)
def _ending(coflows, owner, alive, finish, at, ending):
    """List the flows that end at `at`; none if a coflow would complete with them."""
    ends = 0
    completes = False
    for i in range(len(finish)):
        if finish[i] <= at * (1.0 + _ULPS) and alive[i]:
            ending[ends] = i
            ends += 1
            coflows[owner[i]].open -= 1
            completes |= coflows[owner[i]].open == 0
    if completes:
        for e in range(ends):
            coflows[owner[ending[e]]].open += 1
        return 0
    return ends


@njit(cache=True)
def _weight_per_link(weight, ptr, path, links):
    total = np.zeros(links)
    for i in range(len(weight)):
        for p in range(ptr[i], ptr[i + 1]):
            total[path[p]] += weight[i]
    return total


@njit(cache=True)
def _paths(coflows, flows, hops):
    """Return the unfinished flows, their coflows, and their paths in compressed rows."""
    count = 0
    crossings = 0
    for c in range(len(coflows)):
        row = coflows[c]
        for f in range(row.flow, row.flow + row.flows):
            if flows[f].remaining > 0.0:
                count += 1
                crossings += flows[f].hops
    index = np.empty(count, np.int64)
    owner = np.empty(count, np.int64)
    ptr = np.zeros(count + 1, np.int64)
    path = np.empty(crossings, np.int32)
    i = 0
    at = 0
    for c in range(len(coflows)):
        row = coflows[c]
        for f in range(row.flow, row.flow + row.flows):
            if flows[f].remaining > 0.0:
                index[i] = f
                owner[i] = c
                for h in range(flows[f].hop, flows[f].hop + flows[f].hops):
                    path[at] = hops[h].link
                    at += 1
                i += 1
                ptr[i] = at
    return index, owner, ptr, path


@njit(cache=True)
def _members(ptr, path, links):
    """Return the flows on each link: ``members[first[l]:first[l] + listed[l]]``."""
    listed = np.zeros(links, np.int64)
    for p in range(len(path)):
        listed[path[p]] += 1
    first = np.zeros(links, np.int64)
    for link in range(1, links):
        first[link] = first[link - 1] + listed[link - 1]
    at = first.copy()
    members = np.empty(len(path), np.int32)
    for i in range(len(ptr) - 1):
        for p in range(ptr[i], ptr[i + 1]):
            members[at[path[p]]] = i
            at[path[p]] += 1
    return members, first, listed


@njit(cache=True)
def _share(weight, ptr, path, members, first, listed, alive_on, total, capacity, alive, now,
           remaining, rate, since, finish):
    """Share out once, and bring the flows whose rate changes up to `now`.

    Flows that have ended are struck off `members` on the way.
    """
    links = len(capacity)
    left = capacity.copy()
    open_weight = total.copy()
    waiting = alive_on.copy()
    frozen = np.zeros(len(rate), np.bool_)
    live = np.empty(links, np.int64)
    lives = 0
    for link in range(links):
        if waiting[link] > 0:
            live[lives] = link
            lives += 1
    while lives > 0:
        lowest = np.inf
        full = -1
        kept = 0
        for k in range(lives):
            link = live[k]
            if waiting[link] == 0:
                continue
            live[kept] = link
            kept += 1
            spare = left[link]
            level = spare / open_weight[link] if spare > DUST * capacity[link] else 0.0
            if level < lowest:
                lowest = level
                full = link
        lives = kept
        if full < 0:
            break
        kept = first[full]
        for m in range(first[full], first[full] + listed[full]):
            i = members[m]
            if not alive[i]:
                continue
            members[kept] = i
            kept += 1
            if frozen[i]:
                continue
            frozen[i] = True
            new = lowest * weight[i] if weight[i] > 0.0 else 0.0
            for p in range(ptr[i], ptr[i + 1]):
                link = path[p]
                waiting[link] -= 1
                left[link] -= new
                open_weight[link] -= weight[i]
            if new != rate[i]:
                remaining[i] -= rate[i] * (now - since[i])
                since[i] = now
                rate[i] = new
                finish[i] = now + remaining[i] / new if new > 0.0 else np.inf
        listed[full] = kept - first[full]


@njit(cache=True)
def _write_back(coflows, flows, index, owner, ptr, path, alive, remaining, rate, since, finish,
                now, carried):
    for c in range(len(coflows)):
        coflows[c].base = 0.0
        coflows[c].finish = 0.0
        coflows[c].fresh = 0
    for i in range(len(index)):
        flow = flows[index[i]]
        row = coflows[owner[i]]
        before = flow.remaining
        flow.remaining = remaining[i] - rate[i] * (now - since[i]) if alive[i] else 0.0
        if len(carried):
            for p in range(ptr[i], ptr[i + 1]):
                carried[path[p]] += before - flow.remaining
        if alive[i]:
            flow.rate = rate[i]
            flow.finish = finish[i]
            row.base += flow.remaining
            row.finish = max(row.finish, finish[i])
            if rate[i] > 0.0 and row.start < 0.0:
                row.start = now
