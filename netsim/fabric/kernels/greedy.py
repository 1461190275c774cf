"""Compiled greedy service of flows in order, anew whenever one ends, until a coflow completes.

Each flow in order takes all that its links have left. When a flow ends, little changes: on its
links the flows behind it may get more, which takes from those behind them on their other links,
and so on. `greedy_until` follows these changes in order, link by link, and touches nothing else;
each of its steps gives every flow what `ordered.greedy_flows` gives it.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled, in_place
from netsim.fabric.kernels.greedy_changes import CHANGE, follow, note, promote
from netsim.fabric.kernels.greedy_rows import copy_rows, write_back

__all__ = ["greedy_until"]


@compiled
def greedy_until(coflows, flows, hops, capacity, order, by_size, now, until, carried):
    """Serve flows greedily from now on, anew whenever one ends, until a coflow completes.

    Takes and returns what `serving.serve_until` does, but for these.

    Parameters
    ----------
    order : ndarray of int, shape (coflows,)
        The first to be served first, each one's flows in list order.
    by_size : bool
        Whether flows go by the bytes that they have left, and only then in that order.
    """
    while True:
        now, next_finish, thinned = _greedy_while_crowded(
            coflows, flows, hops, capacity, order, by_size, now, until, carried)
        if not thinned:
            return now, next_finish


@compiled
def _greedy_while_crowded(coflows, flows, hops, capacity, order, by_size, now, until, carried):
    """As `greedy_until`, but stop, returning True, once a third of the flows have ended."""
    senders, crossings, links, members, ranked = copy_rows(coflows, flows, hops, capacity, order,
                                                           by_size)
    most = len(ranked)
    changes = np.empty(len(links), CHANGE)
    moving = np.empty(most, np.int32)
    count = _serve_all(senders, crossings, links, ranked, moving)
    ended = np.empty(most, np.int32)
    gone = 0
    completed = False
    while 3 * gone <= most and not completed:
        dt = _soonest(coflows, senders, moving[:count], now)
        if now + dt >= until or dt == np.inf:
            write_back(coflows, flows, senders, order, now)
            return now, now + dt, False
        now += dt
        ends = _advance(senders, crossings, moving[:count], dt, ended, carried)
        for i in ended[:ends]:
            completed |= _end(coflows, flows, senders[i], now)
        gone += ends
        found = 0
        if by_size:
            found = promote(senders, crossings, links, members, moving[:count], changes)
        for i in ended[:ends]:
            for h in range(crossings.shape[1]):
                found = note(senders, crossings, links, i, h, crossings[i, h].place, by_size,
                             changes, found)
        count = follow(senders, crossings, links, members, by_size, changes, found, moving, count)
    for i in moving[:count]:
        senders[i].rate = 0.0
    write_back(coflows, flows, senders, order, now)
    return now, now, not completed


@in_place
def _serve_all(senders, crossings, links, ranked, moving):
    """Give all flows in order what their links have left; return how many move."""
    nowhere = len(links) - 1
    count = 0
    for i in ranked:
        most = np.inf
        for h in range(crossings.shape[1]):
            link = links[crossings[i, h].link]
            most = min(most, link.left if link.left > link.dust else 0.0)
        if most > 0.0:
            senders[i].rate = most
            senders[i].where = count
            moving[count] = i
            count += 1
            for h in range(crossings.shape[1]):
                link = links[crossings[i, h].link]
                link.left -= most
                if link.left <= link.dust:
                    link.filler = i
    for i in moving[:count][::-1]:
        for h in range(crossings.shape[1]):
            if crossings[i, h].link < nowhere:
                link = links[crossings[i, h].link]
                crossings[i, h].behind = link.head
                link.head = i
    return count


# --- time ------------------------------------------------------------------------------


@in_place
def _soonest(coflows, senders, moving, now):
    """Return in how many seconds the next flow ends; mark coflows that start to move."""
    dt = np.inf
    for i in moving:
        sender = senders[i]
        if coflows[sender.owner].start < 0.0:
            coflows[sender.owner].start = now
        if sender.left < dt * sender.rate:
            dt = sender.left / sender.rate
    return dt


@in_place
def _advance(senders, crossings, moving, dt, ended, carried):
    """Let `dt` seconds pass; list the flows that have ended, and return how many they are."""
    ends = 0
    for i in moving:
        sender = senders[i]
        before = sender.left
        sender.left -= sender.rate * dt
        if sender.left <= sender.floor:
            sender.left = 0.0
            ended[ends] = i
            ends += 1
        if len(carried):
            for h in range(crossings.shape[1]):
                if crossings[i, h].link < len(carried):
                    carried[crossings[i, h].link] += before - sender.left
    return ends


@in_place
def _end(coflows, flows, sender, now):
    """Take note that a flow has ended; return whether its coflow has completed."""
    flows[sender.index].finish = now
    row = coflows[sender.owner]
    row.open -= 1
    row.last = now
    return row.open == 0
