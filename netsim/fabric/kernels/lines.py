"""Jobs that send one coflow after the other: the next becomes valid when one has completed."""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.pools import copy_segments
from netsim.fabric.records import NEXT_IN_LINE

__all__ = ["emit", "follow", "next_due"]


@in_place
def follow(gone, lines, pauses, now):
    """Let the next coflow of each line become due that one in `gone` was of; return the first.

    Parameters
    ----------
    gone : ndarray of COFLOW
        What has completed now.
    lines : ndarray of LINE, shape (jobs,)
    pauses : ndarray of float
        Seconds that pass before each stage, once the one before has completed.
    """
    first = np.inf
    for k in range(len(gone)):
        line = lines[gone[k].job]
        if gone[k].waited == NEXT_IN_LINE and line.emitted < line.total:
            line.due = now + pauses[line.first + line.emitted % line.stages]
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
