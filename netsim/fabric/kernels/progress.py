"""Compiled steps of the fabric: move bytes, apply an allocation, and add, move and remove rows.

All work on the rows of `netsim.fabric.records`. A coflow that is *in step* changes only its
``left``; `spread` writes that back to its flows before they are treated one by one.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import anywhere, compiled, in_place, inlined
from netsim.fabric.kernels.heap import sort
from netsim.fabric.records import DUST, WAITED


@anywhere
def refresh(coflows, flows, hops, loads, capacity):
    """Recompute the loads and the gamma of every coflow that is not ``fresh``."""
    for c in range(len(coflows)):
        row = coflows[c]
        if row.fresh == 2:
            continue
        if row.fresh == 0:
            for k in range(row.load, row.load + row.loads):
                loads[k].nbytes = 0.0
            for f in range(row.flow, row.flow + row.flows):
                if flows[f].remaining > 0.0:
                    first = flows[f].hop
                    for h in range(first, first + flows[f].hops):
                        loads[row.load + hops[h].slot].nbytes += flows[f].remaining
        gamma = 0.0
        for k in range(row.load, row.load + row.loads):
            if loads[k].nbytes > 0.0:
                u = capacity[loads[k].link]
                gamma = max(gamma, loads[k].nbytes / u if u > 0.0 else np.inf)
        row.gamma = gamma
        row.fresh = 2


@inlined
def row_of(rows, key):
    """Return the place of a coflow by its key; rows are in order of their keys."""
    first, stop = 0, len(rows)
    while stop - first > 1:
        middle = (first + stop) // 2
        if rows[middle].key <= key:
            first = middle
        else:
            stop = middle
    return first


@inlined
def mark_started(row, loop):
    """Store that a coflow which sends from now on has started, unless it had before."""
    if row.start < 0.0:
        row.start = loop.now
        loop.shows = True


@inlined
def begin_row(row):
    """Reset a coflow's bytes, end and freshness; `write_flow` then adds each open flow."""
    row.base = 0.0
    row.finish = row.last
    row.fresh = 0


@inlined
def write_flow(row, flow, left, rate, now):
    """Write a flow's bytes left, rate and predicted end; add them to its coflow's row."""
    flow.remaining = left
    flow.rate = rate
    flow.finish = now + left / rate if rate > 0.0 else np.inf
    row.base += left
    row.finish = max(row.finish, flow.finish)


@in_place
def spread(coflows, flows, loads):
    """Write each coflow's ``left`` back to its flows and loads."""
    for c in range(len(coflows)):
        row = coflows[c]
        if row.left != 1.0:
            for f in range(row.flow, row.flow + row.flows):
                flows[f].remaining *= row.left
            for k in range(row.load, row.load + row.loads):
                loads[k].nbytes *= row.left
            row.base *= row.left
            row.gamma *= row.left
            row.left = 1.0
        row.speed = 0.0
        for f in range(row.flow, row.flow + row.flows):
            if flows[f].remaining > 0.0:
                flows[f].rate = 0.0
                flows[f].finish = np.inf


@anywhere
def advance_in_step(coflows, loads, dt, now, slack, carried):
    """Move bytes of coflows in step for `dt` seconds; return how many coflows are complete now.

    A coflow is complete if its predicted end is not after ``now + slack``, or if less than `DUST`
    of it is left. If `carried` has a value per link, the bytes of each link are added to it.
    """
    done = 0
    for c in range(len(coflows)):
        row = coflows[c]
        if row.open == 0:
            done += 1
            continue
        if row.speed <= 0.0:
            continue
        before = row.left
        row.left = before - row.speed * dt
        if row.finish <= now + slack or row.left <= DUST:
            row.left = 0.0
            row.open = 0
            row.last = min(row.finish, now)
            done += 1
        if len(carried):
            for k in range(row.load, row.load + row.loads):
                carried[loads[k].link] += (before - row.left) * loads[k].nbytes
    return done


@in_place
def advance_flows(coflows, flows, dt, now, slack):
    """Move bytes for `dt` seconds, flow by flow.

    Return how many coflows are complete now, and how many flows have completed in this time.
    """
    done = 0
    flows_done = 0
    for c in range(len(coflows)):
        row = coflows[c]
        base = 0.0
        ended = 0
        moved = False
        for f in range(row.flow, row.flow + row.flows):
            flow = flows[f]
            before = flow.remaining
            if before <= 0.0:
                continue
            moved |= flow.rate > 0.0
            flow.remaining = before - flow.rate * dt
            if flow.finish <= now + slack or flow.remaining <= DUST * flow.size:
                flow.remaining = 0.0
                flow.finish = min(flow.finish, now)
                row.last = max(row.last, flow.finish)
                ended += 1
            base += flow.remaining
        row.base = base
        if moved or ended:
            row.fresh = 0
        if ended:
            row.open -= ended
            flows_done += ended
        if row.open == 0:
            done += 1
    return done, flows_done


@compiled
def carried_between(coflows, flows, hops, loads, in_step, start, end, links):
    """Return the bytes that each link carries between two times at the rates in the rows."""
    carried = np.zeros(links)
    for c in range(len(coflows)):
        row = coflows[c]
        if in_step:
            if row.open > 0 and row.speed > 0.0 and row.finish > start:
                part = row.speed * (min(end, row.finish) - start)
                for k in range(row.load, row.load + row.loads):
                    carried[loads[k].link] += part * loads[k].nbytes
            continue
        for f in range(row.flow, row.flow + row.flows):
            flow = flows[f]
            if flow.remaining > 0.0 and flow.rate > 0.0 and flow.finish > start:
                sent = flow.rate * (min(end, flow.finish) - start)
                for h in range(flow.hop, flow.hop + flow.hops):
                    carried[hops[h].link] += sent
    return carried


@in_place
def apply_shares(coflows, loads, shares, capacity, used, now, check):
    """Apply `shares` of the LP rates; return when the first coflow will complete, and a link.

    The link is -2 if a share is negative or not finite, with `check` one that is overloaded, and
    else -1.
    """
    next_finish = np.inf
    if check:
        used[:] = 0.0
    for c in range(len(coflows)):
        row = coflows[c]
        share = shares[c]
        if not (share >= 0.0 and share < np.inf):
            return np.inf, -2
        row.speed = share / row.gamma if row.gamma > 0.0 else 0.0
        row.finish = np.inf
        if row.open == 0:
            row.finish = row.last
            next_finish = min(next_finish, row.last)
        elif row.speed > 0.0:
            row.finish = now + row.left / row.speed
            next_finish = min(next_finish, row.finish)
            if row.start < 0.0:
                row.start = now
            if check:
                for k in range(row.load, row.load + row.loads):
                    used[loads[k].link] += row.speed * loads[k].nbytes
    if check:
        return next_finish, _overloaded(used, capacity)
    return next_finish, -1


@in_place
def apply_rates(coflows, flows, hops, rates, capacity, used, now, check):
    """Apply one rate per unfinished flow.

    Return when the first flow and the first coflow will complete, and a link as `apply_shares`
    does.
    """
    next_flow = np.inf
    next_coflow = np.inf
    used[:] = 0.0
    i = 0
    for c in range(len(coflows)):
        row = coflows[c]
        end = row.last
        moves = False
        for f in range(row.flow, row.flow + row.flows):
            flow = flows[f]
            if flow.remaining <= 0.0:
                continue
            rate = rates[i]
            i += 1
            if not (rate >= 0.0 and rate < np.inf):
                return np.inf, np.inf, -2
            flow.rate = rate
            flow.finish = np.inf
            if rate > 0.0:
                flow.finish = now + flow.remaining / rate
                next_flow = min(next_flow, flow.finish)
                moves = True
                if check:
                    first = flow.hop
                    for h in range(first, first + flow.hops):
                        used[hops[h].link] += rate
            end = max(end, flow.finish)
        row.finish = end
        next_coflow = min(next_coflow, end)
        if moves and row.start < 0.0:
            row.start = now
    if check:
        return next_flow, next_coflow, _overloaded(used, capacity)
    return next_flow, next_coflow, -1


@in_place
def next_finishes(coflows, flows, in_step):
    """Return when the next flow and the next coflow will complete at the rates in force."""
    next_flow = np.inf
    next_coflow = np.inf
    for c in range(len(coflows)):
        row = coflows[c]
        next_coflow = min(next_coflow, row.finish)
        if not in_step:
            for f in range(row.flow, row.flow + row.flows):
                if flows[f].remaining > 0.0:
                    next_flow = min(next_flow, flows[f].finish)
    return min(next_flow, next_coflow), next_coflow


@in_place
def _overloaded(used, capacity):
    """Return the first link that is overloaded, -1 if none is."""
    for link in range(len(used)):
        if used[link] > capacity[link] * (1.0 + DUST):
            return link
    return -1


@compiled
def throttle_shares(coflows, loads, capacity, used):
    """After a drop of capacity, return shares that slow each coflow by its worst overload."""
    used[:] = 0.0
    for c in range(len(coflows)):
        row = coflows[c]
        if row.open == 0:
            continue
        for k in range(row.load, row.load + row.loads):
            used[loads[k].link] += row.speed * loads[k].nbytes
    shares = np.zeros(len(coflows))
    for c in range(len(coflows)):
        row = coflows[c]
        factor = 1.0
        for k in range(row.load, row.load + row.loads):
            link = loads[k].link
            if row.speed * loads[k].nbytes > 0.0 and used[link] > capacity[link]:
                factor = min(factor, capacity[link] / used[link])
        if row.gamma < np.inf:
            shares[c] = factor * row.speed * row.gamma
    return shares


@compiled
def throttle_rates(coflows, flows, hops, capacity, used):
    """After a drop of capacity, return rates that slow each flow by its worst overload."""
    used[:] = 0.0
    count = 0
    for c in range(len(coflows)):
        row = coflows[c]
        for f in range(row.flow, row.flow + row.flows):
            if flows[f].remaining > 0.0:
                count += 1
                first = flows[f].hop
                for h in range(first, first + flows[f].hops):
                    used[hops[h].link] += flows[f].rate
    rates = np.zeros(count)
    i = 0
    for c in range(len(coflows)):
        row = coflows[c]
        for f in range(row.flow, row.flow + row.flows):
            if flows[f].remaining > 0.0:
                factor = 1.0
                first = flows[f].hop
                for h in range(first, first + flows[f].hops):
                    link = hops[h].link
                    if used[link] > capacity[link]:
                        factor = min(factor, capacity[link] / used[link])
                rates[i] = factor * flows[f].rate
                i += 1
    return rates


@in_place
def copy_rows(target, at, source, first, count):
    """Copy `count` rows of `source`, from `first` on, to those of `target` from `at` on.

    Copies of long rows are made here, as each is compiled to an instruction for every byte.
    """
    for k in range(count):
        target[at + k] = source[first + k]


@anywhere
def remove_finished(coflows, jobs, removed):
    """Move unfinished coflows to the front, and copy the finished ones to `removed`, in order.

    Return the number of finished coflows, and of jobs that have no active coflow any more.
    """
    kept = 0
    count = 0
    jobs_idle = 0
    for c in range(len(coflows)):
        if coflows[c].open > 0:
            if kept < c:
                copy_rows(coflows, kept, coflows, c, 1)
            kept += 1
        else:
            job = jobs[coflows[c].job]
            job.attained += coflows[c].total
            job.completed += 1
            job.active -= 1
            jobs_idle += job.active == 0
            copy_rows(removed, count, coflows, c, 1)
            count += 1
    return count, jobs_idle


@in_place
def set_weights(coflows, flows, weights, known):
    """Set the weight of each unfinished flow.

    Return the smallest positive weight, inf if there is none, the largest, and whether a weight has
    changed in a coflow with a key up to `known`.
    """
    light = np.inf
    heavy = 0.0
    changed = False
    i = 0
    for c in range(len(coflows)):
        row = coflows[c]
        changed |= row.key <= known and row.split > 0.0
        row.split, row.thinner = 0.0, 0
        for f in range(row.flow, row.flow + row.flows):
            if flows[f].remaining > 0.0:
                changed |= row.key <= known and flows[f].weight != weights[i]
                flows[f].weight = weights[i]
                heavy = max(heavy, weights[i])
                if weights[i] > 0.0:
                    light = min(light, weights[i])
                i += 1
    return light, heavy, changed


@in_place
def split_weights(coflows, flows, weights, known):
    """Split each coflow's weight equally among its unfinished flows.

    Return the smallest and the largest weight of a flow, and whether any has changed, as
    `set_weights` does.
    """
    light = np.inf
    heavy = 0.0
    changed = False
    for c in range(len(coflows)):
        row = coflows[c]
        own = weights[c] / max(row.open, 1)
        light = min(light, own)
        heavy = max(heavy, own)
        if row.split == weights[c] and row.key <= known:
            continue
        changed |= row.key <= known
        row.split = weights[c]
        row.thinner = 0
        for f in range(row.flow, row.flow + row.flows):
            flows[f].weight = own
    return light, heavy, changed


# --- rows that come, go or move ------------------------------------------------------------
@in_place
def copy_in(arrays, used, coflows, parts):
    """Append the flows, hops and loads of some coflows to arrays that have room for them.

    The segments of `coflows` refer to `parts` on entry, and to the arrays on return. `used` counts
    the rows of each array that are in use.
    """
    flows, hops, loads = arrays
    flow, hop, load = used
    copy_rows(flows, flow, parts.flows, 0, len(parts.flows))
    copy_rows(hops, hop, parts.hops, 0, len(parts.hops))
    copy_rows(loads, load, parts.loads, 0, len(parts.loads))
    for k in range(len(parts.flows)):
        flows[flow + k].hop += hop
    for c in range(len(coflows)):
        coflows[c].flow += flow
        coflows[c].hop += hop
        coflows[c].load += load
    used[0] += len(parts.flows)
    used[1] += len(parts.hops)
    used[2] += len(parts.loads)


@inlined
def activate(job, gamma):
    """Count a coflow with this gamma as active in its job; return whether the job had none."""
    job.ahead = max(job.ahead - gamma, 0.0)
    job.predicted = max(job.predicted - gamma, 0.0)
    job.longest = max(job.longest, gamma)
    job.active += 1
    return job.active == 1


@in_place
def add(rows, count, jobs, arrays, used, coflows, parts, job, key, order, valid, gamma, weight,
        deadline):
    """Append one coflow to the active ones; return whether its job had none."""
    copy_rows(rows, count, coflows, 0, 1)
    copy_in(arrays, used, rows[count:count + 1], parts)
    row = rows[count]
    row.job, row.key, row.order = job, key, order
    row.valid = row.last = valid
    row.arrives += valid
    row.weight, row.deadline = weight, deadline
    row.nominal_gamma = gamma  # as of when it became valid, if it was rerouted since
    row.waited = WAITED
    return activate(jobs[job], gamma)


@anywhere
def admit(rows, count, pending, first, until, jobs, key):
    """Append the coflows that are valid by `until` to the active ones; return their number.

    They come from `pending`, which is in order of validity, from `first` on, while there is room
    behind the first `count` of `rows`, which are active. Their keys count up from `key`.
    """
    admitted = 0
    while (first + admitted < len(pending) and count + admitted < len(rows)
           and pending[first + admitted].valid <= until):
        copy_rows(rows, count + admitted, pending, first + admitted, 1)
        row = rows[count + admitted]
        row.key = key + admitted
        activate(jobs[row.job], row.gamma)
        admitted += 1
    return admitted


@anywhere
def sort_by_job(joined, numbers, spare):
    """Sort coflows that joined at the same time by job, with ascending keys as before.

    `numbers` and `spare` are space for a number and for a row of each.
    """
    count = len(joined)
    in_order = True
    for c in range(1, count):
        in_order &= joined[c - 1].job <= joined[c].job
    if in_order:
        return
    first = joined[0].key
    for c in range(count):
        numbers[c] = joined[c].job * count + c
    copy_rows(spare, 0, joined, 0, count)
    sort(numbers[:count])
    for c in range(count):
        copy_rows(joined, c, spare, numbers[c] % count, 1)
        joined[c].key = first + c


@in_place
def move(coflows, arrays, new, used):
    """Move the segments of coflows to new arrays, of which `used` counts the rows in use."""
    for c in range(len(coflows)):
        copy_segments(coflows[c], arrays, new, used)


@in_place
def reroute(rows, places, arrays, used, demands, parts):
    """Give active coflows the hops and loads of others, if their links differ; count those.

    The rows at `places` may change. `demands` have the same flows, with segments in `parts`; the
    arrays, of which `used` rows are in use, must have room for all of their hops and loads.
    """
    flows, hops, loads = arrays
    changed = 0
    for k in range(len(places)):
        row, its = rows[places[k]], demands[k]
        if _same_links(row, hops, its, parts.hops):
            continue
        changed += 1
        hop, load = used[1], used[2]
        row.reach = 0.0
        for f in range(row.flows):
            own, other = flows[row.flow + f], parts.flows[its.flow + f]
            if own.remaining > 0.0:  # what was sent arrives on the path on which it was
                own.latency = other.latency
            row.reach = max(row.reach, own.latency)
            own.hop, own.hops = other.hop - its.hop + hop, other.hops
        copy_rows(hops, hop, parts.hops, its.hop, its.hops)
        copy_rows(loads, load, parts.loads, its.load, its.loads)
        row.hop, row.hops, row.load, row.loads = hop, its.hops, load, its.loads
        row.max_hops, row.fresh = its.max_hops, 0
        used[1] += its.hops
        used[2] += its.loads
    return changed


@inlined
def _same_links(row, hops, other, others):
    """Whether the flows of two coflows cross the same links."""
    same = row.hops == other.hops
    h = 0
    while same and h < row.hops:
        same = hops[row.hop + h].link == others[other.hop + h].link
        h += 1
    return same


@in_place
def copy_in_place(coflows, arrays, new):
    """Copy the segments of coflows to the same places in new arrays."""
    for c in range(len(coflows)):
        row = coflows[c]
        copy_rows(new.flows, row.flow, arrays.flows, row.flow, row.flows)
        copy_rows(new.hops, row.hop, arrays.hops, row.hop, row.hops)
        copy_rows(new.loads, row.load, arrays.loads, row.load, row.loads)


@in_place
def copy_segments(row, arrays, new, used):
    """Copy a coflow's segments to the free part of other arrays, and point its row to them."""
    flow, hop, load = used
    copy_rows(new.flows, flow, arrays.flows, row.flow, row.flows)
    copy_rows(new.hops, hop, arrays.hops, row.hop, row.hops)
    copy_rows(new.loads, load, arrays.loads, row.load, row.loads)
    for k in range(flow, flow + row.flows):
        new.flows[k].hop += hop - row.hop
    row.flow, row.hop, row.load = flow, hop, load
    used[0] += row.flows
    used[1] += row.hops
    used[2] += row.loads
