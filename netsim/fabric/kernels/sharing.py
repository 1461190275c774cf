"""Compiled max-min fair sharing of all links among all flows, by weight, from end to end.

A *sharing* (`sharing_parts.Parts`) outlives decisions: flows join and leave it. While it is in use
it alone knows how many bytes flows have left; `settle` writes them to the rows.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled, in_place
from netsim.fabric.kernels.filling import sooner
from netsim.fabric.kernels.lines import emit, follow, next_due
from netsim.fabric.kernels.pools import admit
from netsim.fabric.kernels.sharing_fill import fill_up
from netsim.fabric.kernels.sharing_rows import leave, served, take_in
from netsim.fabric.kernels.sharing_stretch import begin, catch_up, holds, remember, set_rates
from netsim.fabric.kernels.sharing_table import split_anew
from netsim.fabric.records import NEXT_IN_LINE, WAITED

__all__ = ["pass_time", "settle", "share_until"]

#: Classes in a piece: only where one ends, or may be the next to, are they looked at one by one.
_PIECE = 64

#: Whose coflow has completed: nobody's; one's that nobody waits for; one's that the next in line
#: waits for; one's that a process waits for.
_NOBODY, _SOMEBODY, _IN_LINE, _WAITED = 0, 1, 2, 3


@compiled
def share_until(parts, table, count, coming, lines, key, stands, capacity, now, until, carried):
    """Share from now on, anew whenever a flow ends, until a coflow completes.

    Parameters
    ----------
    parts : Parts
        See `sharing_parts`; as of now.
    table, lines : tuple
        As for `ahead.fast_forward`; those of lines that are due join.
    count, coming, key
        See `pools.admit`: who is active, and who joins when it becomes valid.
    stands : bool
        Whether to go on when a coflow completes that nobody waits for, and let others join.
    capacity : ndarray of float, shape (links,)
    now, until : float
        From when, and before which instant to stop in any case, in seconds.
    carried : ndarray of float, shape (links,) or (0,)
        Collects the bytes that each link carries, if it has a value per link.

    Returns
    -------
    now : float
        The instant as of which bytes are; rates are in force from then on.
    next_finish : float
        When the next flow ends, `now` if a coflow has completed or one that has joined needs
        room; inf if none moves.
    instants : int
        At how many, before the last, coflows have joined or completed.
    joined : int
        How many have joined of those that were coming; -1, and nothing else has happened, if
        there is no room for those that are active.
    emitted, idle : int
        How many of lines have, and how many jobs had no active coflow before.
    """
    if not take_in(parts, table[0][:count], table[2][0], table[2][1]):
        return now, now, 0, -1, 0, 0
    found = _go_on(parts, table, count, coming, lines, key, stands, capacity, now, until, carried)
    catch_up(parts)
    return found


@compiled
def _go_on(parts, table, count, coming, lines, key, stands, capacity, now, until, carried):
    rows, jobs, pools, free = table
    flows, hops, _ = pools
    of_jobs, running, stages, pauses = lines
    row = parts.state[0]
    row.now = now
    joined = emitted = idle = 0
    instants = 0
    some_done = False
    due = next_due(of_jobs, running) if stands else np.inf
    while True:
        coflows = rows[:count + joined + emitted]
        if not row.plain:
            split_anew(parts, coflows)
        if row.holds < np.inf:
            fill_up(parts, capacity)
            if row.waits > 0:
                _mark_started(parts, coflows, flows, hops, now)
        if holds(parts):
            set_rates(parts)
        else:
            catch_up(parts)
        if row.near == row.classes:
            begin(parts, now)
        dt = _soonest(parts)
        if row.near < row.classes and now + dt > row.horizon:
            catch_up(parts)
            dt = _soonest(parts)
        arrival = min(due, coming[joined].valid if joined < len(coming) else np.inf)
        if (now + dt >= until and arrival >= until) or (dt == np.inf and arrival == np.inf):
            return now, now if some_done else now + dt, instants, joined, emitted, idle
        comes = arrival <= now + dt
        dt = arrival - now if comes else dt
        now = arrival if comes else now + dt
        remember(parts, dt)
        done, _ = _advance(parts, coflows, flows, capacity, dt, now,
                           4.0 * np.spacing(now) if comes else 0.0, carried)
        some_done |= done > 0
        if done >= _IN_LINE and stands:
            due = min(due, _follow_lines(coflows, of_jobs, pauses, now))
        fits = True
        some_come = min(arrival, due) <= now
        if some_come:
            catch_up(parts)
            here = count + emitted
            joined += admit(rows, here + joined, coming, joined, now, jobs, key + joined + emitted)
            here += joined
            came, woken = emit(rows, here, jobs, of_jobs, running, stages, pools, free, now,
                               len(jobs), key + joined + emitted)
            fits = came >= 0
            emitted, idle = emitted + max(came, 0), idle + woken
            due = next_due(of_jobs, running)
            fits &= take_in(parts, rows[:here + max(came, 0)], flows, hops)
        if done == _WAITED or (done and not stands) or due <= now:  # no room for who is due
            return now, now, instants, joined, emitted, idle
        if row.classes > 0:  # else nobody is left to share
            instants += some_come or done > 0
        if (not fits or (len(coming) > 0 and joined == len(coming))
                or (stands and count + joined + emitted + max(len(running), 1) > len(rows))):
            return now, now, instants, joined, emitted, idle


@in_place
def _follow_lines(coflows, lines, pauses, now):
    """Let the next in line become due of those that have completed; return when the first does."""
    first = np.inf
    for c in range(len(coflows)):
        if coflows[c].open == 0 and coflows[c].waited == NEXT_IN_LINE:
            first = min(first, follow(coflows[c:c + 1], lines, pauses, now))
            coflows[c].waited = 0
    return first


@in_place
def pass_time(parts, coflows, flows, capacity, dt, now, slack, carried):
    """Let `dt` seconds pass at the rates in force.

    Returns
    -------
    done, flows_done : int
        How many coflows are complete by now, and how many flows have ended.
    """
    _, flows_done = _advance(parts, coflows, flows, capacity, dt, now, slack, carried)
    done = 0
    for c in range(len(coflows)):
        done += coflows[c].open == 0
    return done, flows_done


@in_place
def _soonest(parts):
    """Return in how many seconds the next flow ends; inf if none moves."""
    count, gap, rate = parts.state[0].near, parts.gap, parts.rate
    soonest = np.inf
    for first in range(0, count, _PIECE):
        stop = min(first + _PIECE, count)
        soonest = sooner(gap[first:stop], rate[first:stop], soonest)
    return soonest


@in_place
def _advance(parts, coflows, flows, capacity, dt, now, slack, carried):
    """Let `dt` seconds pass; what would end within the slack ends now.

    Returns
    -------
    done : int
        `_NOBODY` if no coflow has completed, else the last of the others that is true of one.
    ended : int
        How many flows have.
    """
    gap, floor, rate, row = parts.gap, parts.floor, parts.rate, parts.state[0]
    if len(carried):
        _carry(parts.left, parts.full_at, capacity, dt, carried)
    row.now = now
    done = _NOBODY
    ended = 0
    count = row.near
    # From the last piece on: what takes the place of a class that ends has been looked at.
    for piece in range((count - 1) // _PIECE, -1, -1):
        first = piece * _PIECE
        stop = min(first + _PIECE, count)
        gaps, rates, floors = gap[first:stop], rate[first:stop], floor[first:stop]
        ends = 0
        for c in range(len(gaps)):
            gaps[c] -= rates[c] * dt
            ends += gaps[c] <= floors[c] + rates[c] * slack
        if ends == 0:
            continue
        for c in range(stop - 1, first - 1, -1):
            here = row.classes
            while row.classes == here and gap[c] <= floor[c] + rate[c] * slack:
                done = max(done, _end(parts, coflows, flows, c, now))
                ended += 1
    return done, ended


@in_place
def _carry(left, full_at, capacity, dt, carried):
    """Add up what the links carry: a full one all that it can."""
    for link in range(len(carried)):
        free = left[link] if full_at[link] == np.inf else 0.0
        carried[link] += (capacity[link] - free) * dt


@in_place
def _end(parts, coflows, flows, c, now):
    """End the next flow of a class; return whether its coflow has completed, as `_advance`."""
    f = leave(parts, flows, c)
    flows[f].remaining = 0.0
    flows[f].finish = now
    row = coflows[_row_of(coflows, parts.senders[f].owner)]
    row.open -= 1
    row.thinner = row.split > 0.0
    row.last = now
    if row.open > 0:
        return _NOBODY
    return (_WAITED if row.waited == WAITED else _IN_LINE if row.waited == NEXT_IN_LINE
            else _SOMEBODY)


@in_place
def _row_of(coflows, key):
    """Return the place of a coflow: rows go by key."""
    first, stop = 0, len(coflows)
    while stop - first > 1:
        middle = (first + stop) // 2
        if coflows[middle].key <= key:
            first = middle
        else:
            stop = middle
    return first


@in_place
def _mark_started(parts, coflows, flows, hops, now):
    """Note for each coflow that has not started whether it does now; the last are the newest."""
    c = len(coflows) - 1
    unseen = parts.state[0].waits
    while c >= 0 and unseen > 0:
        row = coflows[c]
        if row.start < 0.0:
            unseen -= 1
            for f in range(row.flow, row.flow + row.flows):
                if (flows[f].remaining > 0.0 and parts.senders[f].number >= 0
                        and _lowest(parts.full_at, flows[f], hops) > 0.0):
                    row.start = now
                    parts.state[0].waits -= 1
                    break
        c -= 1


@in_place
def _lowest(full_at, flow, hops):
    lowest = np.inf
    for h in range(flow.hop, flow.hop + flow.hops):
        lowest = min(lowest, full_at[hops[h].link])
    return lowest


@in_place
def settle(parts, coflows, flows):
    """Write bytes and rates as of the last instant to the rows of known coflows."""
    senders, now = parts.senders, parts.state[0].now
    for c in range(len(coflows)):
        row = coflows[c]
        if row.key > parts.state[0].known:
            break
        row.base = 0.0
        row.finish = row.last
        row.fresh = 0
        for f in range(row.flow, row.flow + row.flows):
            flow = flows[f]
            if flow.remaining <= 0.0:
                continue
            if senders[f].number >= 0:
                k = parts.place_of[senders[f].number]
                # A trifle past its mark, it has yet to be seen to have ended.
                flow.remaining = max(senders[f].mark - served(parts, k), 1e-12 * senders[f].mark)
                flow.rate = parts.rate[k]
            else:
                flow.rate = 0.0
            flow.finish = now + flow.remaining / flow.rate if flow.rate > 0.0 else np.inf
            row.base += flow.remaining
            row.finish = max(row.finish, flow.finish)
