"""Adding rows to the table, and moving them within it."""

from __future__ import annotations

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.heap import sort
from netsim.fabric.records import WAITED

__all__ = ["activate", "add", "admit", "copy_in", "copy_in_place", "copy_segments", "move",
           "sort_by_job"]


@in_place
def copy_in(pools, used, coflows, parts):
    """Append the flows, hops and loads of some coflows to pools that have room for them.

    Parameters
    ----------
    pools, parts : tuple of ndarray of FLOW, HOP, LOAD
    used : ndarray of int, shape (3,)
        How many rows of each pool are in use; is updated.
    coflows : ndarray of COFLOW
        Their segments refer to `parts` on entry, and to the pools on return.
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
    row.waited = WAITED
    return activate(jobs[job], gamma)


@in_place
def admit(rows, count, coming, first, until, jobs, key):
    """Append the coflows that become valid by `until` to the active ones, while there is room.

    Parameters
    ----------
    rows : ndarray of COFLOW
        The first `count` are active.
    coming : ndarray of COFLOW
        In order of validity; only those from `first` on are used.
    key : int
        The key of the first admitted coflow; later ones count up from it.

    Returns
    -------
    int
        The number of admitted coflows.
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

    Parameters
    ----------
    joined : ndarray of COFLOW
    numbers : ndarray of int
        Space for one number per coflow.
    spare : ndarray of COFLOW
        Space for all coflows.
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
    """Move the segments of coflows to new pools.

    Parameters
    ----------
    pools, new : tuple of ndarray of FLOW, HOP, LOAD
    used : ndarray of int, shape (3,)
        How many rows of each new pool are in use; is updated.
    """
    for c in range(len(coflows)):
        copy_segments(coflows[c], pools, new, used)


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
