"""Adding rows to the table, and moving them within it."""

from __future__ import annotations

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.heap import sort
from netsim.fabric.records import WAITED


@in_place
def copy_in(pools, used, coflows, parts):
    """Append the flows, hops and loads of some coflows to pools that have room for them.

    The segments of `coflows` refer to `parts` on entry, and to the pools on return. `used` counts
    the rows of each pool that are in use.
    """
    flows, hops, loads = pools
    flow, hop, load = used
    for k in range(len(parts[0])):
        flows[flow + k] = parts[0][k]
        flows[flow + k].hop += hop
    for k in range(len(parts[1])):
        hops[hop + k] = parts[1][k]
    for k in range(len(parts[2])):
        loads[load + k] = parts[2][k]
    for c in range(len(coflows)):
        coflows[c].flow += flow
        coflows[c].hop += hop
        coflows[c].load += load
    used[0] += len(parts[0])
    used[1] += len(parts[1])
    used[2] += len(parts[2])


@inlined
def activate(job, gamma):
    """Count a coflow with this gamma as active in its job; return whether the job had none."""
    job.ahead = max(job.ahead - gamma, 0.0)
    job.predicted = max(job.predicted - gamma, 0.0)
    job.longest = max(job.longest, gamma)
    job.active += 1
    return job.active == 1


@in_place
def add(rows, count, jobs, pools, used, coflows, parts, job, key, order, valid, gamma, weight,
        deadline):
    """Append one coflow to the active ones; return whether its job had none."""
    rows[count] = coflows[0]
    copy_in(pools, used, rows[count:count + 1], parts)
    row = rows[count]
    row.job, row.key, row.order = job, key, order
    row.valid = row.last = valid
    row.arrives += valid
    row.weight, row.deadline = weight, deadline
    row.nominal_gamma = gamma  # as of when it became valid, if it was rerouted since
    row.waited = WAITED
    return activate(jobs[job], gamma)


@in_place
def admit(rows, count, coming, first, until, jobs, key):
    """Append the coflows that are valid by `until` to the active ones; return their number.

    They come from `coming`, which is in order of validity, from `first` on, while there is room
    behind the first `count` of `rows`, which are active. Their keys count up from `key`.
    """
    admitted = 0
    while (first + admitted < len(coming) and count + admitted < len(rows)
           and coming[first + admitted].valid <= until):
        rows[count + admitted] = coming[first + admitted]
        row = rows[count + admitted]
        row.key = key + admitted
        activate(jobs[row.job], row.gamma)
        admitted += 1
    return admitted


@in_place
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
        spare[c] = joined[c]
    sort(numbers[:count])
    for c in range(count):
        joined[c] = spare[numbers[c] % count]
        joined[c].key = first + c


@in_place
def move(coflows, pools, new, used):
    """Move the segments of coflows to new pools, of which `used` counts the rows in use."""
    for c in range(len(coflows)):
        copy_segments(coflows[c], pools, new, used)


@in_place
def reroute(rows, places, pools, used, demands, parts):
    """Give active coflows the hops and loads of others, if their links differ; count those.

    The rows at `places` may change. `demands` have the same flows, with segments in `parts`; the
    pools, of which `used` rows are in use, must have room for all of their hops and loads.
    """
    flows, hops, loads = pools
    changed = 0
    for k in range(len(places)):
        row, its = rows[places[k]], demands[k]
        if _same_links(row, hops, its, parts[1]):
            continue
        changed += 1
        hop, load = used[1], used[2]
        row.reach = 0.0
        for f in range(row.flows):
            own, other = flows[row.flow + f], parts[0][its.flow + f]
            if own.remaining > 0.0:  # what was sent arrives on the path on which it was
                own.latency = other.latency
            row.reach = max(row.reach, own.latency)
            own.hop, own.hops = other.hop - its.hop + hop, other.hops
        for h in range(its.hops):
            hops[hop + h] = parts[1][its.hop + h]
        for each in range(its.loads):
            loads[load + each] = parts[2][its.load + each]
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
def copy_in_place(coflows, pools, new):
    """Copy the segments of coflows to the same places in new pools."""
    flows, hops, loads = pools
    new_flows, new_hops, new_loads = new
    for c in range(len(coflows)):
        row = coflows[c]
        for k in range(row.flow, row.flow + row.flows):
            new_flows[k] = flows[k]
        for k in range(row.hop, row.hop + row.hops):
            new_hops[k] = hops[k]
        for k in range(row.load, row.load + row.loads):
            new_loads[k] = loads[k]


@in_place
def copy_segments(row, pools, new, used):
    """Copy a coflow's segments to the free part of other pools, and point its row to them."""
    flows, hops, loads = pools
    new_flows, new_hops, new_loads = new
    flow, hop, load = used
    for k in range(row.flows):
        new_flows[flow + k] = flows[row.flow + k]
        new_flows[flow + k].hop += hop - row.hop
    for k in range(row.hops):
        new_hops[hop + k] = hops[row.hop + k]
    for k in range(row.loads):
        new_loads[load + k] = loads[row.load + k]
    row.flow, row.hop, row.load = flow, hop, load
    used[0] += row.flows
    used[1] += row.hops
    used[2] += row.loads
