"""Jobs that send one coflow after the other: the next becomes valid when one has arrived."""

from __future__ import annotations

import math

import numpy as np

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.pools import copy_segments
from netsim.fabric.records import NEXT_IN_LINE

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
def follow(gone, lines, pauses, now, interval):
    """Let the next coflow of each line become due that one in `gone` was of; return the first.

    Parameters
    ----------
    gone : ndarray of COFLOW
        What has completed now; each knows when it arrives.
    lines : ndarray of LINE, shape (jobs,)
    pauses : ndarray of float
        Seconds that pass before each stage's coflow begins, once the one before has arrived.
    interval : float
        The observe interval, in seconds.
    """
    first = np.inf
    for k in range(len(gone)):
        line = lines[gone[k].job]
        if gone[k].waited == NEXT_IN_LINE and line.emitted < line.total:
            seen = max(observed(gone[k].arrives, interval, now), now)
            line.due = seen + pauses[line.first + line.emitted % line.stages]
            first = min(first, line.due)
    return first


@in_place
def next_due(lines, running):
    """Return when the next coflow of a line becomes valid; inf if none does."""
    first = np.inf
    for job in running:
        first = min(first, lines[job].due)
    return first


@in_place
def emit(rows, count, jobs, lines, running, stages, pools, used, until, before, key):
    """Append the coflows of lines that are due by `until` to the active ones, job by job.

    Parameters
    ----------
    rows : ndarray of COFLOW
        The first `count` are active; there is room for one per line.
    jobs, lines : ndarray of JOB, LINE, shape (jobs,)
    running : ndarray of int
        The numbers of the jobs that are lines, in order.
    stages : ndarray of COFLOW
        What each stage sends; its flows, hops and loads are in the same pools.
    pools, used : tuple of ndarray, ndarray of int
        As for `copy_in`.
    before : int
        Only lines with a number below this are looked at.
    key : int
        The key of the first; each has one more than the one before.

    Returns
    -------
    emitted : int
        How many; -1, and nothing is done, if there is no room for all in the pools.
    idle : int
        How many of their jobs had no active coflow.
    """
    if not _room_for(lines, running, stages, pools, used, until, before):
        return -1, 0
    emitted = idle = 0
    for job in running:
        line = lines[job]
        if job >= before:
            break
        if line.due > until:
            continue
        rows[count + emitted] = stages[line.first + line.emitted % line.stages]
        row = rows[count + emitted]
        copy_segments(row, pools, pools, used)
        row.job, row.order, row.key = job, line.emitted, key + emitted
        row.valid = row.last = line.due
        row.arrives += line.due
        row.deadline += line.due
        row.waited = NEXT_IN_LINE
        owner = jobs[job]
        owner.ahead = max(owner.ahead - row.gamma, 0.0)
        owner.longest = max(owner.longest, row.gamma)
        owner.active += 1
        idle += owner.active == 1
        line.emitted += 1
        line.due = np.inf
        emitted += 1
    return emitted, idle


@inlined
def _room_for(lines, running, stages, pools, used, until, before):
    flows = hops = loads = 0
    for job in running:
        line = lines[job]
        if line.due <= until and job < before:
            row = stages[line.first + line.emitted % line.stages]
            flows += row.flows
            hops += row.hops
            loads += row.loads
    return (used[0] + flows <= len(pools[0]) and used[1] + hops <= len(pools[1])
            and used[2] + loads <= len(pools[2]))
