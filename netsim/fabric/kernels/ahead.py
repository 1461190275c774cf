"""From one end of a coflow to the next, deciding each time as `Turns` says."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from netsim.fabric.kernels import in_place
from netsim.fabric.kernels.lines import emit, follow, next_due
from netsim.fabric.kernels.progress import (
    advance_in_step,
    apply_shares,
    drop_finished,
    refresh,
)
from netsim.fabric.kernels.turns import decide
from netsim.fabric.records import DUST, WAITED

__all__ = ["FULL", "GRID_SLACK", "NOTICE_SLACK", "OVERLOADED", "WAITS", "Room", "fast_forward"]

#: Relative to the observation interval: how late an event may be and still be noticed. What
#: marks completions is a trifle larger, or rounding could ring for one and not find it.
GRID_SLACK = 1e-6
NOTICE_SLACK = 1.001 * GRID_SLACK

#: Why `fast_forward` has stopped: another event is due, rows are full, or a link is overloaded.
WAITS, FULL, OVERLOADED = 0, 1, 2


class Room(NamedTuple):
    """Arrays to work in, one value per coflow."""

    shares: np.ndarray
    limit: np.ndarray
    attained: np.ndarray
    key: np.ndarray
    order: np.ndarray
    spare: np.ndarray


@in_place
def fast_forward(table, lines, capacity, used, rule, room, links, done, clock, count, key,
                 undecided):
    """Let coflows end and the next in line become valid, deciding each time, until others act.

    Parameters
    ----------
    table : (ndarray of COFLOW, ndarray of JOB, tuple of ndarray, ndarray of int)
        Rows, jobs, pools and what of these is in use.
    lines : (ndarray of LINE, ndarray of int, ndarray of COFLOW, ndarray of float)
        Lines by job, the jobs that are some, what their stages send, the pauses before these.
    capacity, used : ndarray of float, shape (links,)
        Bytes per second that each link has, and that it carries.
    rule, room, links : tuple, Room, ndarray of float
        As for `turns.decide`.
    done : ndarray of COFLOW
        Room for those that complete.
    clock : (float, float, float, float, bool)
        Now; when the first ends at the shares in force; the instant before which to stop; the
        observation interval; whether to check allocations.
    count, key : int
        How many coflows are active; the key of the next.
    undecided : bool
        Whether shares are yet to be decided, now.

    Returns
    -------
    why : int
        `WAITS`: somebody else is to act, at `until` or when the next coflow completes. `FULL`:
        `done` or the pools are. `OVERLOADED`.
    now, next_finish : float
        Shares have been decided then, unless it is `FULL` of pools; when the first coflow ends.
    undecided : bool
    count, gone, idle, decisions : int
        How many coflows are active, how many have completed, by how much the jobs with an active
        coflow have grown in number, and how often shares have been decided.
    link : int
        As `apply_shares` returns it.
    """
    rows, jobs, pools, free = table
    of_jobs, running, stages, pauses = lines
    now, next_finish, until, interval, check = clock
    gone = idle = decisions = 0
    due = next_due(of_jobs, running)
    while True:
        if undecided:
            if due <= now:
                emitted, woken = emit(rows, count, jobs, of_jobs, running, stages, pools, free,
                                      now, len(jobs), key)
                if emitted < 0:
                    return FULL, now, next_finish, True, count, gone, idle, decisions, -1
                count, key, idle = count + emitted, key + emitted, idle + woken
                due = next_due(of_jobs, running)
            next_finish = np.inf
            if count:
                coflows = rows[:count]
                refresh(coflows, pools[0], pools[1], pools[2], capacity)
                decide(coflows, jobs, pools[2], capacity, rule, room, links)
                next_finish, link = apply_shares(coflows, pools[2], room.shares, capacity, used,
                                                 now, check)
                decisions += 1
                if link != -1:
                    return OVERLOADED, now, next_finish, False, count, gone, idle, decisions, link
            undecided = False
        at = min(_observed(next_finish, interval, now), max(_observed(due, interval, now), due))
        slack = _notice(interval, at)
        coflows = rows[:count]
        if not at < until or _somebody_waits(coflows, at - now, at + slack):
            return WAITS, now, next_finish, False, count, gone, idle, decisions, -1
        if gone + count > len(done):
            return FULL, now, next_finish, False, count, gone, idle, decisions, -1
        if advance_in_step(coflows, pools[2], at - now, at, slack, links[0][:0]):
            ended, asleep = drop_finished(coflows, jobs, done[gone:])
            due = min(due, follow(done[gone:gone + ended], of_jobs, pauses, at))
            count, gone, idle = count - ended, gone + ended, idle - asleep
        now = at
        undecided = True


@in_place
def _observed(at, interval, now):
    """Return the observation instant at which something that happens at `at` is noticed."""
    if not interval or at == np.inf:
        return at
    return max(math.ceil(at / interval - GRID_SLACK) * interval, now)


@in_place
def _notice(interval, now):
    """Return how long after now something may be due and still count as due now."""
    return max(NOTICE_SLACK * interval, 4.0 * (np.nextafter(now, np.inf) - now))


@in_place
def _somebody_waits(coflows, dt, until):
    """Whether one that completes within `dt` seconds is waited for; see `advance_in_step`."""
    for c in range(len(coflows)):
        row = coflows[c]
        if row.waited == WAITED and (row.open == 0 or (row.speed > 0.0 and (
                row.finish <= until or row.left - row.speed * dt <= DUST))):
            return True
    return False
