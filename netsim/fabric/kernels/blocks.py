"""Building blocks of allocators, through the view: they read the rows and change none.

Max-min fair rates are computed once here, and stay in force; the engine in `max_min` computes them
again at each end of a flow. Shares are multiples of LP rates: at share 1 a coflow sends at
remaining/gamma and fills its effective bottleneck.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels import compiled, in_place, inlined, row_type
from netsim.fabric.kernels.filling import freeze_of, heap_of, lowest_on, release_members
from netsim.fabric.kernels.proportional import add_greedily, find_factor, update
from netsim.fabric.records import DUST

# --- max-min fair --------------------------------------------------------------------------

#: A link: its members go from ``first`` to ``stop``.
_LINK = row_type([("first", "i8"), ("stop", "i8")])


class _Paths(NamedTuple):
    """A filling of `kernels.filling` with flows as members."""

    links: NDArray[Any]
    share: NDArray[np.float64]
    others: NDArray[np.uint32]
    unfrozen: NDArray[np.float64]
    left: NDArray[np.float64]
    full_at: NDArray[np.float64]


@inlined
def _release(filling, link, level):
    """Remove the flows of a full link from their other links; see `filling`."""
    at = filling.links[link]
    release_members(at.first, at.stop, filling.share, filling.others, filling.unfrozen,
                    filling.left, filling.full_at, level)


_freeze = freeze_of(_release)


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
    _freeze(heap, levels, np.inf, filling, heap[:0])
    rates = np.zeros(len(weights))
    for i in range(len(path)):
        if weights[i] > 0.0:
            lowest = lowest_on(path[i], filling.full_at)
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


# --- equal split ---------------------------------------------------------------------------
@compiled
def split(coflows, flows, hops, order, ends, capacity, left, rates):
    """Give the flows of each batch of coflows the smallest equal part among their links.

    A flow's part is the minimum of left/n over its links, where n is the number of flows of the
    batch on the link. Flows that need a full link get nothing and do not count. This is one pass:
    what a flow cannot use of its part stays on the link, for the next batch.

    `ends` has the end of each batch in `order`. Parts are added to `rates`, one per unfinished
    flow, and subtracted from `left`, in bytes per second.
    """
    offset = _offsets(coflows)
    wanting = np.empty(offset[-1], np.int64)
    place = np.empty(offset[-1], np.int64)
    part = np.empty(offset[-1])
    wanted = np.zeros(len(capacity), np.int64)
    start = 0
    for end in ends:
        count = 0
        for c in order[start:end]:
            row = coflows[c]
            i = offset[c]
            for f in range(row.flow, row.flow + row.flows):
                flow = flows[f]
                if flow.remaining <= 0.0:
                    continue
                room = True
                for h in range(flow.hop, flow.hop + flow.hops):
                    room &= left[hops[h].link] > DUST * capacity[hops[h].link]
                if room:
                    wanting[count] = f
                    place[count] = i
                    count += 1
                    for h in range(flow.hop, flow.hop + flow.hops):
                        wanted[hops[h].link] += 1
                i += 1
        for n in range(count):
            flow = flows[wanting[n]]
            part[n] = np.inf
            for h in range(flow.hop, flow.hop + flow.hops):
                part[n] = min(part[n], left[hops[h].link] / wanted[hops[h].link])
        for n in range(count):
            flow = flows[wanting[n]]
            rates[place[n]] += part[n]
            for h in range(flow.hop, flow.hop + flow.hops):
                left[hops[h].link] -= part[n]
                wanted[hops[h].link] = 0
        start = end


# --- reserved shares, and ports ------------------------------------------------------------
@compiled
def link_shares(coflows, loads, shares, capacity):
    """Return the sum of the shares on each link, over the coflows with bytes to send on it.

    Only the length of `capacity` is used.
    """
    reserved = np.zeros(len(capacity))
    for c in range(len(coflows)):
        row = coflows[c]
        for k in range(row.load, row.load + row.loads):
            if loads[k].nbytes > 0.0:
                reserved[loads[k].link] += shares[c]
    return reserved


@compiled
def ports(coflows, flows, unfinished):
    """Return min(senders, receivers) of each coflow, optionally of its unfinished flows only."""
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


# --- in order ------------------------------------------------------------------------------
@compiled
def _offsets(coflows):
    """Return the index of each coflow's first unfinished flow, and their total number."""
    offset = np.empty(len(coflows) + 1, np.int64)
    offset[0] = 0
    for c in range(len(coflows)):
        offset[c + 1] = offset[c] + coflows[c].open
    return offset


@compiled
def madd(coflows, flows, loads, order, capacity, left):
    """Give each coflow in `order` MADD rates on the capacity left; skip it if a link is full.

    The rates are remaining/Gamma', where Gamma' is the effective bottleneck on what the links have
    left. Bytes left and Gamma' shrink in proportion while a coflow is in step, so rows need not be
    updated first. Return the rates of all unfinished flows; `left`, in bytes per second, is
    updated.
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
    """Share what is left among the flows of each coflow in `order`, max-min fairly.

    The bandwidth is added to `rates` and subtracted from `left`; see `madd`.
    """
    offset = _offsets(coflows)
    for c in order:
        row = coflows[c]
        path = np.full((row.open, row.max_hops), row.loads, np.uint32)
        wants = np.zeros(row.open)
        i = 0
        for f in range(row.flow, row.flow + row.flows):
            if flows[f].remaining > 0.0:
                wants[i] = _has_room(flows[f], hops, capacity, left)
                for h in range(flows[f].hops):
                    path[i, h] = hops[flows[f].hop + h].slot
                i += 1
        if not wants.any():
            continue
        more = fill_paths(path, wants, left[loads["link"][row.load:row.load + row.loads]])
        rates[offset[c]:offset[c + 1]] += more
        for i in range(len(path)):
            for h in range(row.max_hops):
                if path[i, h] < row.loads:
                    left[loads[row.load + path[i, h]].link] -= more[i]


@in_place
def _has_room(flow, hops, capacity, left):
    """Whether no link that a flow crosses is full."""
    for h in range(flow.hop, flow.hop + flow.hops):
        link = hops[h].link
        if left[link] <= DUST * capacity[link]:
            return False
    return True


@in_place
def greedy_flows(flows, hops, index, order, capacity, left, rates):
    """Give each flow in `order` all that the links on its path have left.

    `order` names unfinished flows, of which `index` has the positions in `flows`. `left` and
    `rates` are updated as by `fill`.
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
    """Return a load in seconds; 0 on a dead link, which no order can serve."""
    return load.nbytes * left / capacity[load.link] if capacity[load.link] > 0.0 else 0.0


@compiled
def bssi(coflows, loads, capacity):
    """Return Sincronia's bottleneck-select-scale-iterate order of coflows, and its dual bound.

    The bound is on the sum of weighted completion times, from now on. Both use the remaining bytes
    and the coflows' weights. Values within a relative 1e-9 tie; ties go to the link with the lowest
    number, and to the latest coflow.

    Each position takes one pass over the links in use, and one over the unplaced coflows on the
    bottleneck, the only ones that change.
    """
    count = len(coflows)
    links, total, first, members, seconds = _coflows_by_link(coflows, loads, capacity)
    length = first[1:] - first[:-1]
    order = np.empty(count, np.int64)
    weight = coflows["weight"].copy()
    unplaced = np.ones(count, np.bool_)
    latest = count - 1
    dual = 0.0
    for position in range(count - 1, -1, -1):
        while not unplaced[latest]:
            latest -= 1
        b = _bottleneck(total)
        last = -1
        if b >= 0:
            begin = first[b]
            length[b] = _drop_placed(members[begin:begin + length[b]],
                                     seconds[begin:begin + length[b]], unplaced)
            last, theta, square = _scale(members[begin:begin + length[b]],
                                         seconds[begin:begin + length[b]], weight)
            dual += theta * (total[b] * total[b] + square) / 2.0
        if last < 0:
            last = latest
        unplaced[last] = False
        order[position] = last
        row = coflows[last]
        for k in range(row.load, row.load + row.loads):
            total[links[loads[k].link]] -= _seconds(loads[k], row.left, capacity)
    return order, dual


@inlined
def _coflows_by_link(coflows, loads, capacity):
    """List the coflows that have bytes to send over each link.

    Return the number of each link among those in use; by link in use, the seconds that all coflows
    together need, and where its list begins (with the end of the last list); and, list by list, the
    coflows in order and the seconds that each needs.
    """
    number = np.full(len(capacity), -1)
    length = np.zeros(len(capacity), np.int64)
    for c in range(len(coflows)):
        for k in range(coflows[c].load, coflows[c].load + coflows[c].loads):
            length[loads[k].link] += _seconds(loads[k], coflows[c].left, capacity) > 0.0
            number[loads[k].link] = 0
    first = np.zeros(len(capacity) + 1, np.int64)
    used = 0
    for link in range(len(capacity)):
        if number[link] == 0:
            number[link] = used
            first[used + 1] = first[used] + length[link]
            used += 1
    first = first[:used + 1]
    total = np.zeros(used)
    place = first[:-1].copy()
    members, seconds = np.empty(first[-1], np.int64), np.empty(first[-1])
    for c in range(len(coflows)):
        for k in range(coflows[c].load, coflows[c].load + coflows[c].loads):
            needed = _seconds(loads[k], coflows[c].left, capacity)
            if needed > 0.0:
                n = number[loads[k].link]
                total[n] += needed
                members[place[n]], seconds[place[n]] = c, needed
                place[n] += 1
    return number, total, first, members, seconds


@inlined
def _bottleneck(total):
    """Return the first link with the largest total, within `DUST`; -1 if none is positive."""
    most = 0.0
    for n in range(len(total)):
        most = max(most, total[n])
    if most > 0.0:
        for n in range(len(total)):
            if total[n] >= most * (1.0 - DUST):
                return n
    return -1


@inlined
def _drop_placed(members, seconds, unplaced):
    """Move the coflows that are not placed yet to the front, in order; return their number."""
    kept = 0
    for m in range(len(members)):
        if unplaced[members[m]]:
            members[kept], seconds[kept] = members[m], seconds[m]
            kept += 1
    return kept


@inlined
def _scale(members, seconds, weight):
    """Select the coflow that a bottleneck serves last, and lower the weights of the others.

    Return this coflow, which has the least weight per second and is the latest in a tie (-1 if
    there is none), its weight per second, and the sum of the squares of the seconds.
    """
    last, at = -1, -1
    least = np.inf
    square = 0.0
    for m in range(len(members)):
        square += seconds[m] * seconds[m]
        if weight[members[m]] / seconds[m] <= least * (1.0 + DUST):
            least = min(least, weight[members[m]] / seconds[m])
            last, at = members[m], m
    if last < 0:
        return last, 0.0, square
    theta = weight[last] / seconds[at]
    for m in range(len(members)):
        if m != at:
            weight[members[m]] = max(weight[members[m]] - theta * seconds[m], 0.0)
    return last, theta, square


# --- flows that are open, and shares -------------------------------------------------------
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
    """Return in how many seconds a coflow has sent so many bytes; see `crossing_in`.

    What is sent is concave in time: from an instant that is too early, the line through its slope
    leads to a later one, and never past the crossing.
    """
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
