"""Blocks of the view that only read the rows: shares of coflows, and what flows send.

Shares are multiples of LP rates: at share 1 a coflow sends at remaining/gamma and fills its
effective bottleneck.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled, inlined
from netsim.fabric.kernels.proportional import add_greedily, find_factor, update


@compiled
def open_flows(coflows, flows):
    """Return the positions of the unfinished flows, and the coflow of each."""
    count = 0
    for c in range(len(coflows)):
        count += coflows[c].open
    index = np.empty(count, np.int64)
    owner = np.empty(count, np.int64)
    i = 0
    for c in range(len(coflows)):
        row = coflows[c]
        # In step, the flows of a coflow that has ended still have bytes, until that is noticed.
        for f in range(row.flow, row.flow + (row.flows if row.open > 0 else 0)):
            if flows[f].remaining > 0.0:
                index[i] = f
                owner[i] = c
                i += 1
    return index, owner


@compiled
def job_attained(coflows, jobs):
    """Return, per coflow, the bytes that its job has sent, active coflows included."""
    attained = np.empty(len(coflows))
    for c in range(len(coflows)):
        job = jobs[coflows[c].job]
        job.sent = job.attained
    for c in range(len(coflows)):
        row = coflows[c]
        jobs[row.job].sent += row.total - row.base * row.left
    for c in range(len(coflows)):
        attained[c] = np.rint(jobs[coflows[c].job].sent)
    return attained


@compiled
def lp_rates(coflows, flows, shares):
    """Return share times remaining/gamma for each unfinished flow."""
    count = 0
    for c in range(len(coflows)):
        count += coflows[c].open
    rates = np.zeros(count)
    i = 0
    for c in range(len(coflows)):
        row = coflows[c]
        speed = shares[c] / row.gamma
        for f in range(row.flow, row.flow + row.flows):
            if flows[f].remaining > 0.0:
                rates[i] = speed * flows[f].remaining
                i += 1
    return rates


@compiled
def common_factor(coflows, loads, shares, base, capacity, shared):
    """Return the largest x for which ``base + x * shares`` fits; inf if nothing limits it.

    The `shared` links must be empty.
    """
    update(shared, coflows, loads, capacity)
    return find_factor(shared, shares, base)


@compiled
def greedy(coflows, loads, order, limit, base, capacity, shared):
    """Add to `base`, in `order`, the largest share up to `limit` that still fits.

    The `shared` links must be empty.
    """
    update(shared, coflows, loads, capacity)
    shares = base.copy()
    add_greedily(shared, order, limit, shares)
    return shares


@compiled
def crossing_in(coflows, flows, rates, ahead, near):
    """Return in how many seconds each coflow will have sent `ahead` more bytes; inf if never.

    Each unfinished flow sends at its constant rate until it ends. A coflow that stops sending when
    it lacks no more than `near` bytes counts as if it had sent them.
    """
    first = 0
    found = np.full(len(coflows), np.inf)
    for c in range(len(coflows)):
        row = coflows[c]
        if ahead[c] < np.inf:
            found[c] = _crossing_in(row, flows, rates[first:first + row.open], ahead[c], near[c])
        first += row.open
    return found


@inlined
def _crossing_in(row, flows, rates, ahead, near):
    # What is sent is concave in time: from an instant that is too early, the line through its
    # slope leads to a later one, and never past the crossing.
    at, ended = 0.0, -1
    while True:
        sent, speed, over, last = 0.0, 0.0, 0, 0.0
        i = 0
        for f in range(row.flow, row.flow + row.flows):
            left = flows[f].remaining * row.left
            if flows[f].remaining <= 0.0:
                continue
            if rates[i] > 0.0 and ended >= 0 and left <= rates[i] * at:
                sent += left
                over += 1
                last = max(last, left / rates[i])
            else:
                speed += rates[i]
            i += 1
        if over == ended:
            return at
        if speed <= 0.0:
            return last if ahead - sent <= near else np.inf
        at, ended = max((ahead - sent) / speed, at), over


@compiled
def stretch_flows(coflows, flows, hops, rates, capacity):
    """Return each rate times the smallest capacity/load among the flow's links."""
    used = np.zeros(len(capacity))
    i = 0
    for c in range(len(coflows)):
        row = coflows[c]
        for f in range(row.flow, row.flow + row.flows):
            if flows[f].remaining > 0.0:
                for h in range(flows[f].hop, flows[f].hop + flows[f].hops):
                    used[hops[h].link] += rates[i]
                i += 1
    stretched = rates.copy()
    i = 0
    for c in range(len(coflows)):
        row = coflows[c]
        for f in range(row.flow, row.flow + row.flows):
            if flows[f].remaining > 0.0:
                factor = np.inf
                for h in range(flows[f].hop, flows[f].hop + flows[f].hops):
                    link = hops[h].link
                    if used[link] > 0.0:
                        factor = min(factor, capacity[link] / used[link])
                if factor < np.inf:
                    stretched[i] *= factor
                i += 1
    return stretched
