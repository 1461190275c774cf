"""Compiled greedy service of flows in order, anew whenever one ends, until a coflow completes.

Each flow in order takes all that its links have left. When a flow ends, little changes: on its
links the flows behind it may get more, which takes from those behind them on their other links,
and so on. `greedy_until` follows these changes in order, link by link, and touches nothing else;
each of its steps gives every flow what `ordered.greedy_flows` gives it.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled, in_place
from netsim.fabric.kernels.greedy_changes import follow, note, promote
from netsim.fabric.kernels.greedy_rows import MOVED, STALE, copy_rows, find_rows, write_back

__all__ = ["begin", "greedy_until", "greedy_while_crowded", "resume"]

#: How many flows of a copy move, and how many have ended.
_MOVING, _GONE = 0, 1


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
        copy = begin(coflows, flows, hops, capacity, order, by_size)
        now, next_finish, thinned = greedy_while_crowded(
            copy, coflows, flows, by_size, now, until, carried)
        if not thinned:
            return now, next_finish


@compiled
def begin(coflows, flows, hops, capacity, order, by_size):
    """Return a copy of the rows, all flows served, and tallies; see `greedy_rows.copy_rows`."""
    groups, senders, crossings, links, members, moving, ended, changes = copy_rows(
        coflows, flows, hops, capacity, order, by_size)
    tallies = np.zeros(2, np.int64)
    tallies[_MOVING] = _serve_all(senders, crossings, links, moving)
    return groups, senders, crossings, links, members, moving, ended, changes, tallies


@compiled
def resume(copy, coflows, flows, order, by_size):
    """Bring a copy up to date with its rows; return whether it stands, the order being the same.

    By size it never does: incrementally, sizes within `DUST` of each other may rank otherwise.
    Rates only change where flows have ended meanwhile, as only those that move may have.
    """
    groups, senders, _, _, _, moving, ended, _, tallies = copy
    if by_size or not find_rows(groups, coflows, order):
        return False
    ends = 0
    passed = False
    for i in moving[:tallies[_MOVING]]:
        sender = senders[i]
        groups[sender.owner].moved = 1
        sender.row = STALE
        remaining = flows[sender.index].remaining
        passed |= sender.left != remaining
        sender.left = max(remaining, 0.0)
        if sender.left == 0.0:
            ended[ends] = i
            ends += 1
    if passed:
        _serve_on(copy, ends, by_size)
    return True


@compiled
def greedy_while_crowded(copy, coflows, flows, by_size, now, until, carried):
    """As `greedy_until`, on a copy, but stop, returning True, once a third of its flows have ended.

    Where it has stopped for that, there is more to do on a new copy.
    """
    groups, senders, crossings, _, _, moving, ended, _, tallies = copy
    completed = False
    while 3 * tallies[_GONE] <= len(moving) and not completed:
        going = moving[:tallies[_MOVING]]
        dt = _soonest(coflows, groups, senders, going, now)
        if now + dt >= until or dt == np.inf:
            write_back(coflows, flows, groups, senders, now, 1.0)
            return now, now + dt, False
        now += dt
        ends = _advance(senders, crossings, going, dt, ended, carried)
        for i in ended[:ends]:
            completed |= _end(coflows, flows, groups, senders[i], now)
        _serve_on(copy, ends, by_size)
    write_back(coflows, flows, groups, senders, now, 0.0)
    return now, now, not completed


@compiled
def _serve_on(copy, ends, by_size):
    """Serve flows anew after time has passed and some, listed in the copy, have ended."""
    _, senders, crossings, links, members, moving, ended, changes, tallies = copy
    found = 0
    count = tallies[_MOVING]
    if by_size:
        found = promote(senders, crossings, links, members, moving[:count], changes)
    for i in ended[:ends]:
        for h in range(crossings.shape[1]):
            found = note(senders, crossings, links, i, h, crossings[i, h].place, by_size,
                         changes, found)
    tallies[_GONE] += ends
    tallies[_MOVING] = follow(senders, crossings, links, members, by_size, changes, found,
                              moving, count)


@in_place
def _serve_all(senders, crossings, links, moving):
    """Give all flows, in the order they come in, what their links have left; return how many move.

    Those that move are the first that are left in the list.
    """
    nowhere = len(links) - 1
    count = 0
    for i in moving:
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
def _soonest(coflows, groups, senders, moving, now):
    """Return in how many seconds the next flow ends; mark coflows that start to move."""
    dt = np.inf
    for i in moving:
        sender = senders[i]
        if sender.row != MOVED:
            sender.row = MOVED
            group = groups[sender.owner]
            group.moved = 1
            if coflows[group.row].start < 0.0:
                coflows[group.row].start = now
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
def _end(coflows, flows, groups, sender, now):
    """Take note that a flow has ended; return whether its coflow has completed."""
    flows[sender.index].finish = now
    row = coflows[groups[sender.owner].row]
    row.open -= 1
    row.last = now
    return row.open == 0
