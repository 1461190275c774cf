"""Chains: the next coflow of a job becomes valid when the previous one has arrived."""

from __future__ import annotations

import math

import numpy as np

from netsim.fabric.by_reference import by_reference, call_at
from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.graphs import (
    coflow_of,
    collect,
    forget_first,
    job_of,
    next_begin,
    order_of,
    times_of,
)
from netsim.fabric.kernels.pools import activate, copy_segments
from netsim.fabric.records import IN_GRAPH, NEXT_IN_CHAIN

#: By how much an event may miss an instant of observation and still be noticed then, in intervals.
GRID_SLACK = 1e-6

#: After this many observation intervals, floats are farther apart than an interval.
MOST_TICKS = 2.0**53


@in_place
def observed(at, interval, now):
    """Return the time at which an event at `at` is noticed."""
    if interval == 0.0 or at == np.inf:
        return at
    if at / interval > MOST_TICKS:
        return max(at, now)
    return max(math.ceil(at / interval - GRID_SLACK) * interval, now)


@in_place
def arrive(gone, flows):
    """Set ``arrives`` of completed coflows: when their last bytes arrive.

    A flow's last byte arrives one path latency after it was sent.
    """
    for k in range(len(gone)):
        row = gone[k]
        row.arrives = max(row.arrives, row.last)
        if row.reach > 0.0:
            for f in range(row.flow, row.flow + row.flows):
                # In step, only the coflow's row says when its flows have ended.
                sent = row.last if flows[f].remaining > 0.0 else flows[f].finish
                row.arrives = max(row.arrives, sent + flows[f].latency)


@in_place
def follow(gone, chains, now, interval, arrived_at):
    """Make the coflows due that follow those in `gone`; return when the first of them is due.

    ``arrives`` must be set in `gone`, the COFLOW rows that have completed now. `arrived_at`, the
    address of `graphs.arrived`, may be 0 if none of them is of a graph. `interval` is the observe
    interval, in seconds.
    """
    chains = by_reference(chains)
    first = np.inf
    for k in range(len(gone)):
        chain = chains.of_jobs[gone[k].job]
        if gone[k].waited not in (NEXT_IN_CHAIN, IN_GRAPH):
            continue
        seen = max(observed(gone[k].arrives, interval, now), now)
        if gone[k].waited == IN_GRAPH:
            begins = call_at(arrived_at, (gone[k].job, gone[k].order, seen, gone[k].arrives,
                                          chains))
            first = min(first, begins)
        elif chain.emitted < chain.total:
            chain.due = seen + chains.pauses[chain.first + chain.emitted % chain.stages]
            first = min(first, chain.due)
    return first


@in_place
def next_due(chains):
    """Return when the next coflow of a chain or graph becomes valid; inf if none does."""
    chains = by_reference(chains)
    first = next_begin(chains.graphs)
    for job in chains.running:
        first = min(first, chains.of_jobs[job].due)
    return first


@in_place
def emit(rows, count, jobs, chains, pools, used, until, before, key):
    """Append the coflows that are due by `until` to the active ones, job by job.

    The first `count` of `rows` are active. Only coflows of jobs numbered below `before` are
    appended, with keys that count up from `key`. Their flows, hops and loads are in `pools`
    already, of which `used` rows are in use.

    Return the number of appended coflows, and how many of their jobs had no active coflow before;
    -1 and 0 if there was no room for all, and nothing was done.
    """
    chains = by_reference(chains)
    more, flows, hops, loads = wanted(chains, until, before)
    if (count + more > len(rows) or used[0] + flows > len(pools[0])
            or used[1] + hops > len(pools[1]) or used[2] + loads > len(pools[2])):
        return -1, 0
    graphs = chains.graphs
    emitted = idle = in_graphs = 0
    for job in chains.running:
        chain = chains.of_jobs[job]
        if job >= before:
            break
        if chain.due <= until:
            rows[count + emitted] = _next_of(chain, chains)
            row = rows[count + emitted]
            row.job, row.order, row.key = job, chain.emitted, key + emitted
            row.waited = NEXT_IN_CHAIN
            idle += _join(row, chain.due, jobs, pools, used)
            emitted += 1
            chain.emitted += 1
            chain.due = np.inf
        while in_graphs < graphs.head[0].due and job_of(graphs.due[in_graphs]) == job:
            code = graphs.due[in_graphs]
            rows[count + emitted] = coflow_of(code, chains)
            row = rows[count + emitted]
            row.job, row.order, row.key = job, order_of(code), key + emitted
            row.waited = IN_GRAPH
            valid, begins = times_of(code, graphs)
            row.overhead = begins - valid  # as they are rounded
            idle += _join(row, begins, jobs, pools, used)
            emitted += 1
            in_graphs += 1
    forget_first(graphs, in_graphs)
    return emitted, idle


@inlined
def _join(row, begins, jobs, pools, used):
    """Activate a coflow; return whether its job had no active one."""
    copy_segments(row, pools, pools, used)
    row.valid = row.last = begins
    row.arrives += begins
    row.deadline += begins
    return activate(jobs[row.job], row.gamma)


@inlined
def _next_of(chain, chains):
    """Return the coflow that a chain sends next."""
    return chains.coflows[chains.stages[chain.first + chain.emitted % chain.stages]]


@in_place
def wanted(chains, until, before):
    """Count the coflows due by `until` in jobs below `before`, and their flows, hops and loads."""
    chains = by_reference(chains)
    count = flows = hops = loads = 0
    for job in chains.running:
        chain = chains.of_jobs[job]
        if job < before and chain.due <= until:
            row = _next_of(chain, chains)
            count += 1
            flows += row.flows
            hops += row.hops
            loads += row.loads
    for k in range(collect(chains.graphs, until)):
        code = chains.graphs.due[k]
        if job_of(code) < before:
            row = coflow_of(code, chains)
            count += 1
            flows += row.flows
            hops += row.hops
            loads += row.loads
    return count, flows, hops, loads
