"""Compiled greedy service of flows in order, anew whenever one ends, until a coflow completes.

Each flow in order takes all that its links have left. When a flow ends, little changes: on its
links the flows behind it may get more, which takes from those behind them on their other links,
and so on. `greedy_until` follows these changes in order, link by link, and touches nothing else;
what each of its steps gives is what `ordered.greedy_flows` gives.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled
from netsim.fabric.kernels.greedy_changes import CHANGE, NONE, follow, note, promote
from netsim.fabric.records import DUST

__all__ = ["greedy_until"]

@compiled
def greedy_until(coflows, flows, hops, capacity, order, by_size, now, until, carried):
    """Serve flows greedily from now on, anew whenever one ends, until a coflow completes.

    Writes bytes and rates as of the last instant back to the rows.

    Parameters
    ----------
    capacity : ndarray of float, shape (links,)
    order : ndarray of int, shape (coflows,)
        The first to be served first, each one's flows in list order.
    by_size : bool
        Whether flows go by the bytes that they have left, and only then in that order.
    now, until : float
        From when, and before which instant to stop in any case, in seconds.
    carried : ndarray of float, shape (links,) or (0,)
        Collects the bytes that each link carries, if it has a value per link.

    Returns
    -------
    now : float
        The instant as of which the rows are; their rates are in force from then on.
    next_finish : float
        When the next flow ends, `now` if a coflow has completed; inf if none moves.
    """
    while True:
        now, next_finish, thinned = _greedy_while_crowded(
            coflows, flows, hops, capacity, order, by_size, now, until, carried)
        if not thinned:
            return now, next_finish


@compiled
def _greedy_while_crowded(coflows, flows, hops, capacity, order, by_size, now, until, carried):
    """As `greedy_until`, but stop, returning True, once a third of the flows have ended."""
    senders = _copy(coflows, flows, hops, order)
    left, rate, _, owner = senders[:4]
    lists = _lists(senders, len(capacity), by_size)
    changes = np.empty(len(capacity), CHANGE)
    changing = np.full(len(capacity), NONE)
    count = _serve_all(senders, lists, capacity)
    moving = lists[4]
    ended = np.empty(len(left), np.int64)
    gone = 0
    completed = False
    while 3 * gone <= len(left) and not completed:
        dt = np.inf
        for i in moving[:count]:
            if coflows[owner[i]].start < 0.0:
                coflows[owner[i]].start = now
            if left[i] < dt * rate[i]:
                dt = left[i] / rate[i]
        if now + dt >= until or dt == np.inf:
            _write_back(coflows, flows, senders, order, now)
            return now, now + dt, False
        now += dt
        ends = _advance(senders, moving[:count], dt, ended, carried)
        for i in ended[:ends]:
            completed |= _end(coflows, flows, senders, i, now)
        gone += ends
        found = 0
        if by_size:
            found = promote(senders, lists, capacity, moving[:count], changes, changing)
        for i in ended[:ends]:
            for h in range(senders[5].shape[1]):
                found = note(senders, lists, capacity, i, h, senders[6][i, h], by_size, changes,
                              changing, found)
        count = follow(senders, lists, capacity, by_size, changes, changing, found, count)
    rate[:] = 0.0
    _write_back(coflows, flows, senders, order, now)
    return now, now, not completed


# --- the copy to work on ---------------------------------------------------------------


@compiled
def _copy(coflows, flows, hops, order):
    """Return the unfinished flows in service order, each as an entry of several arrays.

    Returns
    -------
    left, rate, floor : ndarray of float
        Bytes left, bytes per second, bytes at which the flow has ended.
    owner, index : ndarray of int
        Its coflow; its position in `flows`.
    path, place, behind : ndarray of int, shape (flows, most hops)
        The links that it crosses, and `NONE`; its place in the list of each; the next flow
        that moves on that link.
    """
    count = 0
    longest = 1
    for c in order:
        row = coflows[c]
        count += row.open
        for f in range(row.flow, row.flow + row.flows):
            longest = max(longest, flows[f].hops)
    left = np.empty(count)
    floor = np.empty(count)
    owner = np.empty(count, np.int32)
    index = np.empty(count, np.int64)
    path = np.full((count, longest), NONE, np.int32)
    i = 0
    for c in order:
        row = coflows[c]
        for f in range(row.flow, row.flow + row.flows):
            flow = flows[f]
            if flow.remaining <= 0.0:
                continue
            left[i] = flow.remaining
            floor[i] = DUST * flow.size
            owner[i] = c
            index[i] = f
            for h in range(flow.hops):
                path[i, h] = hops[flow.hop + h].link
            i += 1
    place = np.empty((count, longest), np.int64)
    behind = np.full((count, longest), NONE)
    return left, np.zeros(count), floor, owner, index, path, place, behind


@compiled
def _ranked(left, by_size):
    """Return the flows in order; sizes within `DUST` of the one before are equal."""
    if not by_size:
        return np.arange(len(left))
    ranked = np.argsort(left, kind="mergesort")
    first = 0
    for n in range(1, len(ranked) + 1):
        if n < len(ranked) and left[ranked[n]] <= left[ranked[n - 1]] * (1.0 + DUST):
            continue
        ranked[first:n].sort()
        first = n
    return ranked


@compiled
def _lists(senders, links, by_size):
    """Return the flows on each link in order, and those of them that move.

    Returns
    -------
    ranked : ndarray of int
        All flows in order.
    at, members : ndarray of int
        The flows on link l are ``members[at[l]:at[l + 1]]``.
    head : ndarray of int, shape (links,)
        The first flow that moves on each link.
    moving, where : ndarray of int
        The flows that move, in no order, and where each is among them.
    """
    left, _, _, _, _, path, place, _ = senders
    ranked = _ranked(left, by_size)
    at = np.zeros(links + 1, np.int64)
    for i in range(len(left)):
        for h in range(path.shape[1]):
            if path[i, h] != NONE:
                at[path[i, h] + 1] += 1
    at = np.cumsum(at)
    end = at[:-1].copy()
    members = np.empty(at[-1], np.int32)
    for i in ranked:
        for h in range(path.shape[1]):
            link = path[i, h]
            if link != NONE:
                members[end[link]] = i
                place[i, h] = end[link]
                end[link] += 1
    return (ranked, at, members, np.full(links, NONE), np.empty(len(left), np.int32),
            np.empty(len(left), np.int32))


@compiled
def _serve_all(senders, lists, capacity):
    """Give all flows in order what their links have left; return how many move."""
    _, rate, _, _, _, path, _, behind = senders
    ranked, _, _, head, moving, where = lists
    left = capacity.copy()
    count = 0
    for i in ranked:
        most = np.inf
        for h in range(path.shape[1]):
            link = path[i, h]
            if link != NONE:
                most = min(most, left[link] if left[link] > DUST * capacity[link] else 0.0)
        if most > 0.0:
            rate[i] = most
            where[i] = count
            moving[count] = i
            count += 1
            for h in range(path.shape[1]):
                if path[i, h] != NONE:
                    left[path[i, h]] -= most
    for i in moving[:count][::-1]:
        for h in range(path.shape[1]):
            link = path[i, h]
            if link != NONE:
                behind[i, h] = head[link]
                head[link] = i
    return count


# --- time ------------------------------------------------------------------------------


@compiled
def _advance(senders, moving, dt, ended, carried):
    """Let `dt` seconds pass; list the flows that have ended, and return how many they are."""
    left, rate, floor, _, _, path, _, _ = senders
    ends = 0
    for i in moving:
        before = left[i]
        left[i] -= rate[i] * dt
        if left[i] <= floor[i]:
            left[i] = 0.0
            ended[ends] = i
            ends += 1
        if len(carried):
            for h in range(path.shape[1]):
                if path[i, h] != NONE:
                    carried[path[i, h]] += before - left[i]
    return ends


@compiled
def _end(coflows, flows, senders, i, now):
    """Take note that a flow has ended; return whether its coflow has completed."""
    flows[senders[4][i]].finish = now
    row = coflows[senders[3][i]]
    row.open -= 1
    row.last = now
    return row.open == 0


@compiled
def _write_back(coflows, flows, senders, order, now):
    left, rate, _, owner, index, _, _, _ = senders
    for c in order:
        coflows[c].base = 0.0
        coflows[c].finish = coflows[c].last
        coflows[c].fresh = 0
    for i in range(len(left)):
        flow = flows[index[i]]
        flow.remaining = left[i]
        if left[i] > 0.0:
            row = coflows[owner[i]]
            flow.rate = rate[i]
            flow.finish = now + left[i] / rate[i] if rate[i] > 0.0 else np.inf
            row.base += left[i]
            row.finish = max(row.finish, flow.finish)
