"""Compiled weighted max-min fairness: one sharing, or one after the other.

Progressive filling: all flows grow in proportion to their weights; the link that fills
first freezes its flows; and so on with the rest. Between two coflow events a max-min fair
fabric only loses flows, so `share_until` shares anew at each such instant without going
back to Python, and touches only the flows whose rate has changed.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from netsim.fabric.kernels import compiled
from netsim.fabric.records import DUST

__all__ = ["least", "maxmin", "share_until"]

#: Relative: flows that end within a few roundings of one another end together.
_ULPS = 1e-15


#: A flow while it is being shared for: its path is ``path[start:stop]``; ``remaining`` is as
#: of ``since``; ``frozen`` is the last sharing in which its rate was settled.
_SHARER = np.dtype([("weight", "f8"), ("rate", "f8"), ("remaining", "f8"), ("since", "f8"),
                    ("start", "i4"), ("stop", "i4"), ("frozen", "i4"), ("alive", "i4")],
                   align=True)

#: A link while it fills: its flows are ``members[first:first + listed]``, of which ``alive``
#: with weight ``total`` have not ended, and ``waiting`` with ``weight`` are not frozen yet.
#: ``place`` is where it stands among the links that still fill.
_FILLING = np.dtype([("left", "f8"), ("weight", "f8"), ("total", "f8"), ("first", "i4"),
                     ("listed", "i4"), ("waiting", "i4"), ("alive", "i4"), ("place", "i4"),
                     ("touched", "i4")], align=True)


@compiled
def maxmin(coflows, flows, hops, weights, capacity):
    """Return the weighted max-min fair rate of each unfinished flow.

    Parameters
    ----------
    weights : ndarray of float, shape (unfinished flows,)
        A flow of weight 0 gets nothing.
    capacity : ndarray of float, shape (links,)
        What there is to share out.
    """
    index, _, sharers, path = _sharers(coflows, flows, hops, 0.0)
    for i in range(len(sharers)):
        sharers[i].weight = weights[i]
    links, busy, members = _links(sharers, path, len(capacity))
    _share(sharers, path, links, busy, members, capacity, 0.0, 1, np.empty(len(index)))
    rates = np.empty(len(index))
    for i in range(len(index)):
        rates[i] = sharers[i].rate
    return rates


@compiled
def share_until(coflows, flows, hops, capacity, now, until, carried):
    """Share by the flows' weights, anew whenever one ends, until a coflow is about to complete.

    Writes bytes and rates as of the last sharing back to the rows.

    Parameters
    ----------
    capacity : ndarray of float, shape (links,)
    now, until : float
        From when, and before which instant to stop in any case, in seconds.
    carried : ndarray of float, shape (links,) or (0,)
        Collects the bytes that each link carries, if it has a value per link.

    Returns
    -------
    now : float
        The instant of the last sharing; its rates are in force from then on.
    next_finish : float
        When the next flow ends; inf if none moves.
    """
    while True:
        now, next_finish, thinned = _share_while_crowded(coflows, flows, hops, capacity, now,
                                                         until, carried)
        if not thinned:
            return now, next_finish


@compiled
def _share_while_crowded(coflows, flows, hops, capacity, now, until, carried):
    """As `share_until`, but stop, returning True, once half of the flows have ended."""
    index, owner, sharers, path = _sharers(coflows, flows, hops, now)
    links, busy, members = _links(sharers, path, len(capacity))
    count = len(index)
    finish = np.full(count, np.inf)
    ending = np.empty(count, np.int64)
    ended = 0
    turn = 0
    while 2 * ended <= count:
        turn += 1
        _share(sharers, path, links, busy, members, capacity, now, turn, finish)
        if turn == 1:
            _mark_started(coflows, owner, sharers, now)
        next_finish = least(finish)
        ends = 0
        if next_finish < until:
            ends = _ending(coflows, owner, finish, next_finish, ending)
        if ends == 0:
            break
        ended += ends
        now = next_finish
        for e in range(ends):
            i = ending[e]
            _strike(sharers[i], path, links)
            finish[i] = np.inf
            flows[index[i]].finish = now
            coflows[owner[i]].last = max(coflows[owner[i]].last, now)
    _mark_started(coflows, owner, sharers, now)
    _write_back(coflows, flows, index, owner, sharers, path, finish, now, carried)
    return now, next_finish, 2 * ended > count


@compiled
def _sharers(coflows, flows, hops, now):
    """Return the unfinished flows: position, coflow, row, and all paths one after the other."""
    count = 0
    crossings = 0
    for c in range(len(coflows)):
        row = coflows[c]
        count += row.open
        for f in range(row.flow, row.flow + row.flows):
            if flows[f].remaining > 0.0:
                crossings += flows[f].hops
    index = np.empty(count, np.int64)
    owner = np.empty(count, np.int64)
    sharers = np.zeros(count, _SHARER)
    path = np.empty(crossings, np.int32)
    i = 0
    at = 0
    for c in range(len(coflows)):
        row = coflows[c]
        for f in range(row.flow, row.flow + row.flows):
            flow = flows[f]
            if flow.remaining <= 0.0:
                continue
            index[i] = f
            owner[i] = c
            sharer = sharers[i]
            sharer.weight = flow.weight
            sharer.remaining = flow.remaining
            sharer.since = now
            sharer.alive = 1
            sharer.start = at
            for h in range(flow.hop, flow.hop + flow.hops):
                path[at] = hops[h].link
                at += 1
            sharer.stop = at
            i += 1
    return index, owner, sharers, path


@compiled
def _links(sharers, path, count):
    """Return all links, those that carry flows, and these flows link by link."""
    links = np.zeros(count, _FILLING)
    for p in range(len(path)):
        links[path[p]].listed += 1
    busy = np.empty(count, np.int32)
    used = 0
    first = 0
    for link in range(count):
        links[link].first = first
        first += links[link].listed
        if links[link].listed > 0:
            busy[used] = link
            used += 1
    members = np.empty(len(path), np.int32)
    for i in range(len(sharers)):
        for p in range(sharers[i].start, sharers[i].stop):
            link = links[path[p]]
            members[link.first + link.alive] = i
            link.alive += 1
            link.total += sharers[i].weight
    return links, busy[:used].copy(), members


@compiled
def _share(sharers, path, links, busy, members, capacity, now, turn, finish):
    """Share out once, and bring the flows whose rate changes up to `now`.

    Flows that have ended are struck off `members` on the way.
    """
    levels = np.empty(len(busy))
    live = np.empty(len(busy), np.int32)
    touched = np.empty(len(busy), np.int32)
    lives = 0
    for k in busy:
        link = links[k]
        if link.alive > 0:
            link.left = capacity[k]
            link.weight = link.total
            link.waiting = link.alive
            link.touched = 0
            link.place = lives
            levels[lives] = _level(link, capacity[k])
            live[lives] = k
            lives += 1
    while lives > 0:
        lowest = least(levels[:lives])
        if lowest == np.inf:
            return
        place = 0
        while levels[place] != lowest:
            place += 1
        count = _freeze(sharers, path, links, members, links[live[place]], lowest, now, turn,
                        finish, touched)
        for t in range(count):
            k = touched[t]
            link = links[k]
            link.touched = 0
            if link.waiting > 0:
                levels[link.place] = _level(link, capacity[k])
            else:
                lives -= 1
                levels[link.place] = levels[lives]
                live[link.place] = live[lives]
                links[live[lives]].place = link.place


@compiled
def _level(link, capacity):
    """Return the rate per weight at which a link will be full."""
    if link.weight <= 0.0:
        return np.inf
    return link.left / link.weight if link.left > DUST * capacity else 0.0


# Without NaN or signed zeros a minimum can be taken four at a time.
@njit(cache=True, fastmath={"nnan", "nsz"})
def least(values):
    """Return the least of values that are not NaN; inf of none."""
    found = np.inf
    for i in range(len(values)):
        found = min(found, values[i])
    return found


@compiled
def _freeze(sharers, path, links, members, full, level, now, turn, finish, touched):
    """Settle the flows that wait on a link that is full; list the links that they touch."""
    kept = full.first
    count = 0
    for m in range(full.first, full.first + full.listed):
        i = members[m]
        sharer = sharers[i]
        if sharer.alive == 0:
            continue
        members[kept] = i
        kept += 1
        if sharer.frozen == turn:
            continue
        sharer.frozen = turn
        rate = level * sharer.weight
        for p in range(sharer.start, sharer.stop):
            link = links[path[p]]
            link.waiting -= 1
            link.left -= rate
            link.weight -= sharer.weight
            if not link.touched:
                link.touched = 1
                touched[count] = path[p]
                count += 1
        if rate != sharer.rate:
            sharer.remaining -= sharer.rate * (now - sharer.since)
            sharer.since = now
            sharer.rate = rate
            finish[i] = now + sharer.remaining / rate if rate > 0.0 else np.inf
    full.listed = kept - full.first
    return count


@compiled
def _ending(coflows, owner, finish, at, ending):
    """List the flows that end at `at`; none if a coflow would complete with them."""
    ends = 0
    completes = False
    for i in range(len(finish)):
        if finish[i] <= at * (1.0 + _ULPS):
            ending[ends] = i
            ends += 1
            coflows[owner[i]].open -= 1
            completes |= coflows[owner[i]].open == 0
    if completes:
        for e in range(ends):
            coflows[owner[ending[e]]].open += 1
        return 0
    return ends


@compiled
def _strike(sharer, path, links):
    """Take a flow that has ended off its links."""
    sharer.alive = 0
    for p in range(sharer.start, sharer.stop):
        link = links[path[p]]
        link.alive -= 1
        link.total -= sharer.weight


@compiled
def _mark_started(coflows, owner, sharers, now):
    for i in range(len(owner)):
        if sharers[i].rate > 0.0 and coflows[owner[i]].start < 0.0:
            coflows[owner[i]].start = now


@compiled
def _write_back(coflows, flows, index, owner, sharers, path, finish, now, carried):
    for c in range(len(coflows)):
        coflows[c].base = 0.0
        coflows[c].finish = 0.0
        coflows[c].fresh = 0
    for i in range(len(index)):
        flow = flows[index[i]]
        row = coflows[owner[i]]
        sharer = sharers[i]
        before = flow.remaining
        flow.remaining = 0.0
        if sharer.alive:
            flow.remaining = sharer.remaining - sharer.rate * (now - sharer.since)
            flow.rate = sharer.rate
            flow.finish = finish[i]
            row.base += flow.remaining
            row.finish = max(row.finish, finish[i])
        if len(carried):
            for p in range(sharer.start, sharer.stop):
                carried[path[p]] += before - flow.remaining
