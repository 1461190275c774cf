"""Jobs that send one coflow after the other: the next becomes valid when one has arrived."""

from __future__ import annotations

import math

import numpy as np

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.pools import copy_segments
from netsim.fabric.records import NEXT_IN_CHAIN

__all__ = ["GRID_SLACK", "arrive", "emit", "follow", "next_due", "observed"]

#: Relative to the observation interval: how late an event may be and still be noticed.
GRID_SLACK = 1e-6


@in_place
def observed(at, interval, now):
    """Return the observation instant at which something that happens at `at` is noticed."""
    if interval == 0.0 or at == np.inf:
        return at
    return max(math.ceil(at / interval - GRID_SLACK) * interval, now)


@in_place
def arrive(gone, flows):
    """Find when the last bytes arrive of coflows that have completed: ``arrives``.

    A flow's last byte arrives the latency of its path after it was sent.
    """
    for k in range(len(gone)):
        row = gone[k]
        row.arrives = max(row.arrives, row.last)
        if row.reach > 0.0:
            for f in range(row.flow, row.flow + row.flows):
                # Of flows in step only their coflow knows when they have ended.
                sent = row.last if flows[f].remaining > 0.0 else flows[f].finish
                row.arrives = max(row.arrives, sent + flows[f].latency)


@in_place
def follow(gone, chains, pauses, now, interval):
    """Make the next coflow due of each chain with a coflow in `gone`; return when the first is.

    Parameters
    ----------
    gone : ndarray of COFLOW
        What has completed now; each knows when it arrives.
    chains : ndarray of CHAIN, shape (jobs,)
    pauses : ndarray of float
        Seconds that pass before each stage's coflow begins, once the one before has arrived.
    interval : float
        The observe interval, in seconds.
    """
    first = np.inf
    for k in range(len(gone)):
        chain = chains[gone[k].job]
        if gone[k].waited == NEXT_IN_CHAIN and chain.emitted < chain.total:
            seen = max(observed(gone[k].arrives, interval, now), now)
            chain.due = seen + pauses[chain.first + chain.emitted % chain.stages]
            first = min(first, chain.due)
    return first


@in_place
def next_due(chains, running):
    """Return when the next coflow of a chain becomes valid; inf if none does."""
    first = np.inf
    for job in running:
        first = min(first, chains[job].due)
    return first


@in_place
def emit(rows, count, jobs, chains, running, stages, pools, used, until, before, key):
    """Append the coflows of chains that are due by `until` to the active ones, job by job.

    Parameters
    ----------
    rows : ndarray of COFLOW
        The first `count` are active; there is room for one per chain.
    jobs, chains : ndarray of JOB, CHAIN, shape (jobs,)
    running : ndarray of int
        The numbers of the jobs that are chains, in order.
    stages : (ndarray of int, ndarray of COFLOW)
        Which of some coflows each stage sends; their flows, hops and loads are in the same pools.
    pools, used : tuple of ndarray, ndarray of int
        As for `copy_in`.
    before : int
        Only chains with a number below this are looked at.
    key : int
        The key of the first; each has one more than the one before.

    Returns
    -------
    emitted : int
        How many; -1, and nothing is done, if there is no room for all in the pools.
    idle : int
        How many of their jobs had no active coflow.
    """
    if not _room_for(chains, running, stages, pools, used, until, before):
        return -1, 0
    emitted = idle = 0
    for job in running:
        chain = chains[job]
        if job >= before:
            break
        if chain.due > until:
            continue
        rows[count + emitted] = _next_of(chain, stages)
        row = rows[count + emitted]
        copy_segments(row, pools, pools, used)
        row.job, row.order, row.key = job, chain.emitted, key + emitted
        row.valid = row.last = chain.due
        row.arrives += chain.due
        row.deadline += chain.due
        row.waited = NEXT_IN_CHAIN
        owner = jobs[job]
        owner.ahead = max(owner.ahead - row.gamma, 0.0)
        owner.longest = max(owner.longest, row.gamma)
        owner.active += 1
        idle += owner.active == 1
        chain.emitted += 1
        chain.due = np.inf
        emitted += 1
    return emitted, idle


@inlined
def _next_of(chain, stages):
    """Return the coflow that a chain sends next."""
    sends, coflows = stages
    return coflows[sends[chain.first + chain.emitted % chain.stages]]


@inlined
def _room_for(chains, running, stages, pools, used, until, before):
    flows = hops = loads = 0
    for job in running:
        chain = chains[job]
        if chain.due <= until and job < before:
            row = _next_of(chain, stages)
            flows += row.flows
            hops += row.hops
            loads += row.loads
    return (used[0] + flows <= len(pools[0]) and used[1] + hops <= len(pools[1])
            and used[2] + loads <= len(pools[2]))
