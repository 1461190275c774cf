"""Compiled building blocks that serve coflows or flows one after the other."""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled, in_place
from netsim.fabric.records import DUST

__all__ = ["bssi", "fill", "greedy_flows", "madd", "ports"]


@compiled
def ports(coflows, flows, unfinished):
    """Return min(senders, receivers) of each coflow; of its unfinished flows only if asked."""
    hosts = 0
    for c in range(len(coflows)):
        row = coflows[c]
        for f in range(row.flow, row.flow + row.flows):
            hosts = max(hosts, flows[f].src + 1, flows[f].dst + 1)
    sends = np.full(hosts, -1, np.int64)
    receives = np.full(hosts, -1, np.int64)
    found = np.empty(len(coflows), np.int64)
    for c in range(len(coflows)):
        row = coflows[c]
        senders = 0
        receivers = 0
        for f in range(row.flow, row.flow + row.flows):
            flow = flows[f]
            if unfinished and flow.remaining <= 0.0:
                continue
            senders += sends[flow.src] != c
            receivers += receives[flow.dst] != c
            sends[flow.src] = c
            receives[flow.dst] = c
        found[c] = min(senders, receivers)
    return found


@compiled
def _offsets(coflows):
    """Return where each coflow's unfinished flows begin among all of them, and their number."""
    offset = np.empty(len(coflows) + 1, np.int64)
    offset[0] = 0
    for c in range(len(coflows)):
        offset[c + 1] = offset[c] + coflows[c].open
    return offset


@compiled
def madd(coflows, flows, loads, order, capacity, left):
    """Give each coflow in `order` remaining/Gamma' on what is left; skip it where a link is full.

    Bytes left and Gamma' shrink alike while a coflow is in step, so that the rows serve as
    they are.

    Parameters
    ----------
    order : ndarray of int
        Coflows, the first to be served first.
    capacity, left : ndarray of float, shape (links,)
        Bytes per second in all and still to give away; `left` is updated.

    Returns
    -------
    rates : ndarray of float, shape (unfinished flows,)
    """
    offset = _offsets(coflows)
    rates = np.zeros(offset[-1])
    for c in order:
        row = coflows[c]
        gamma = 0.0
        for k in range(row.load, row.load + row.loads):
            if loads[k].nbytes > 0.0:
                link = loads[k].link
                if left[link] <= DUST * capacity[link]:
                    gamma = np.inf
                    break
                gamma = max(gamma, loads[k].nbytes / left[link])
        if gamma == np.inf:
            continue
        i = offset[c]
        for f in range(row.flow, row.flow + row.flows):
            if flows[f].remaining > 0.0:
                rates[i] = flows[f].remaining / gamma
                i += 1
        for k in range(row.load, row.load + row.loads):
            left[loads[k].link] -= loads[k].nbytes / gamma
    return rates


@compiled
def fill(coflows, flows, hops, loads, order, capacity, left, rates):
    """Let each coflow in `order` share what is left max-min fairly among its flows.

    Adds to `rates` and takes from `left`; see `madd`.
    """
    offset = _offsets(coflows)
    widest = 0
    most_loads = 0
    for c in range(len(coflows)):
        widest = max(widest, coflows[c].open)
        most_loads = max(most_loads, coflows[c].loads)
    wanting = np.empty(widest, np.int64)
    place = np.empty(widest, np.int64)
    waiting = np.empty(most_loads, np.int64)
    for c in order:
        row = coflows[c]
        waiting[:row.loads] = 0
        count = 0
        i = offset[c]
        for f in range(row.flow, row.flow + row.flows):
            if flows[f].remaining <= 0.0:
                continue
            if _has_room(flows[f], hops, capacity, left):
                wanting[count] = f
                place[count] = i
                count += 1
                for h in range(flows[f].hop, flows[f].hop + flows[f].hops):
                    waiting[hops[h].slot] += 1
            i += 1
        if count:
            _fill_one(row, flows, hops, loads, wanting[:count], place, waiting, left, rates)


@in_place
def _has_room(flow, hops, capacity, left):
    for h in range(flow.hop, flow.hop + flow.hops):
        link = hops[h].link
        if left[link] <= DUST * capacity[link]:
            return False
    return True


@compiled
def _fill_one(row, flows, hops, loads, wanting, place, waiting, left, rates):
    """Fill the flows `wanting` of one coflow until each crosses a full link."""
    first = np.zeros(row.loads + 1, np.int64)
    for slot in range(row.loads):
        first[slot + 1] = first[slot] + waiting[slot]
    at = first[:-1].copy()
    members = np.empty(first[-1], np.int64)
    for n in range(len(wanting)):
        flow = flows[wanting[n]]
        for h in range(flow.hop, flow.hop + flow.hops):
            members[at[hops[h].slot]] = n
            at[hops[h].slot] += 1
    frozen = np.zeros(len(wanting), np.bool_)
    settled = 0
    while settled < len(wanting):
        lowest = np.inf
        full = -1
        for slot in range(row.loads):
            if waiting[slot] > 0:
                level = max(left[loads[row.load + slot].link], 0.0) / waiting[slot]
                if level < lowest:
                    lowest = level
                    full = slot
        for m in range(first[full], first[full + 1]):
            n = members[m]
            if frozen[n]:
                continue
            frozen[n] = True
            settled += 1
            rates[place[n]] += lowest
            flow = flows[wanting[n]]
            for h in range(flow.hop, flow.hop + flow.hops):
                waiting[hops[h].slot] -= 1
                left[hops[h].link] -= lowest


@in_place
def greedy_flows(flows, hops, index, order, capacity, left, rates):
    """Give each flow in `order` all that the links on its path have left.

    Parameters
    ----------
    index : ndarray of int, shape (unfinished flows,)
        Their positions in `flows`.
    order : ndarray of int
        Unfinished flows, the first to be served first.
    capacity, left, rates
        As for `fill`.
    """
    for i in order:
        flow = flows[index[i]]
        if not _has_room(flow, hops, capacity, left):
            continue
        rate = np.inf
        for h in range(flow.hop, flow.hop + flow.hops):
            rate = min(rate, left[hops[h].link])
        rates[i] += rate
        for h in range(flow.hop, flow.hop + flow.hops):
            left[hops[h].link] -= rate


@in_place
def _seconds(load, left, capacity):
    """Return a load in seconds; nothing on a dead link, which no order can serve."""
    return load.nbytes * left / capacity[load.link] if capacity[load.link] > 0.0 else 0.0


@in_place
def _seconds_on(row, loads, link, capacity):
    """Return what a coflow has to send over a link, in seconds; its loads are sorted by link."""
    low = row.load
    high = row.load + row.loads
    while low < high:
        middle = (low + high) // 2
        if loads[middle].link < link:
            low = middle + 1
        else:
            high = middle
    if low < row.load + row.loads and loads[low].link == link:
        return _seconds(loads[low], row.left, capacity)
    return 0.0


@compiled
def bssi(coflows, loads, capacity):
    """Return the bottleneck-select-scale-iterate order of Sincronia, and its dual bound.

    On the remaining bytes and the coflows' weights. Ties, within 1e-9 relative, go to the
    lowest link and to the latest coflow.

    Returns
    -------
    order : ndarray of int, shape (coflows,)
        The first to be served first.
    dual : float
        Lower bound on the sum of weighted completion times from now on.
    """
    count = len(coflows)
    order = np.empty(count, np.int64)
    weight = np.empty(count)
    total = np.zeros(len(capacity))
    square = 0.0
    dual = 0.0
    ahead = np.ones(count, np.bool_)
    for c in range(count):
        row = coflows[c]
        weight[c] = row.weight
        for k in range(row.load, row.load + row.loads):
            total[loads[k].link] += _seconds(loads[k], row.left, capacity)
    for position in range(count - 1, -1, -1):
        most = total.max()
        link = 0
        while total[link] < most * (1.0 - DUST):
            link += 1
        last = -1
        anyone = -1
        least = np.inf
        square = 0.0
        for c in range(count):
            if not ahead[c]:
                continue
            anyone = c
            seconds = _seconds_on(coflows[c], loads, link, capacity)
            square += seconds * seconds
            if seconds > 0.0 and weight[c] / seconds <= least * (1.0 + DUST):
                least = min(least, weight[c] / seconds)
                last = c
        theta = 0.0
        if last >= 0:
            theta = weight[last] / _seconds_on(coflows[last], loads, link, capacity)
        else:
            last = anyone
        dual += theta * (total[link] * total[link] + square) / 2.0
        for c in range(count):
            if ahead[c] and c != last:
                seconds = _seconds_on(coflows[c], loads, link, capacity)
                weight[c] = max(weight[c] - theta * seconds, 0.0)
        row = coflows[last]
        for k in range(row.load, row.load + row.loads):
            total[loads[k].link] -= _seconds(loads[k], row.left, capacity)
        ahead[last] = False
        order[position] = last
    return order, dual
