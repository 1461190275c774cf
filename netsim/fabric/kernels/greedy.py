"""Compiled greedy service of flows in order, anew whenever one ends, until a coflow completes.

Each flow in order takes all that its links have left. When a flow ends, little changes: on its
links the flows behind it may get more, which takes from those behind them on their other links,
and so on. `greedy_until` follows these changes in order, link by link, and touches nothing else;
what each of its steps gives is what `ordered.greedy_flows` gives.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled
from netsim.fabric.records import DUST

__all__ = ["greedy_until"]

#: A link on which rates change: its list is still to be looked through from ``cursor`` on, at
#: least up to ``last``; flows there find ``left`` bytes per second, and found ``before`` until now.
_CHANGE = np.dtype([("link", "i8"), ("cursor", "i8"), ("last", "i8"), ("left", "f8"),
                    ("before", "f8")], align=True)

_NONE = -1


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
    changes = np.empty(len(capacity), _CHANGE)
    changing = np.full(len(capacity), _NONE)
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
            found = _promote(senders, lists, capacity, moving[:count], changes, changing)
        for i in ended[:ends]:
            for h in range(senders[5].shape[1]):
                found = _note(senders, lists, capacity, i, h, senders[6][i, h], by_size, changes,
                              changing, found)
        count = _follow(senders, lists, capacity, by_size, changes, changing, found, count)
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
        The links that it crosses, and `_NONE`; its place in the list of each; the next flow
        that moves on that link, as the number of an entry of this array.
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
    path = np.full((count, longest), _NONE, np.int32)
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
    behind = np.full((count, longest), _NONE)
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
        The first flow that moves on each link, as an entry of ``behind``.
    moving, where : ndarray of int
        The flows that move, in no order, and where each is among them.
    """
    left, _, _, _, _, path, place, _ = senders
    ranked = _ranked(left, by_size)
    at = np.zeros(links + 1, np.int64)
    for i in range(len(left)):
        for h in range(path.shape[1]):
            if path[i, h] != _NONE:
                at[path[i, h] + 1] += 1
    at = np.cumsum(at)
    end = at[:-1].copy()
    members = np.empty(at[-1], np.int32)
    for i in ranked:
        for h in range(path.shape[1]):
            link = path[i, h]
            if link != _NONE:
                members[end[link]] = i
                place[i, h] = end[link]
                end[link] += 1
    return (ranked, at, members, np.full(links, _NONE), np.empty(len(left), np.int32),
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
            if link != _NONE:
                most = min(most, left[link] if left[link] > DUST * capacity[link] else 0.0)
        if most > 0.0:
            rate[i] = most
            where[i] = count
            moving[count] = i
            count += 1
            for h in range(path.shape[1]):
                if path[i, h] != _NONE:
                    left[path[i, h]] -= most
    for i in moving[:count][::-1]:
        for h in range(path.shape[1]):
            link = path[i, h]
            if link != _NONE:
                behind[i, h] = head[link]
                head[link] = i * path.shape[1] + h
    return count


# --- one step --------------------------------------------------------------------------


@compiled
def _goes_first(i, j, left, by_size):
    """Whether flow i is served before flow j."""
    if by_size and abs(left[i] - left[j]) > DUST * max(left[i], left[j]):
        return left[i] < left[j]
    return i < j


@compiled
def _left_for(i, link, senders, lists, capacity, by_size):
    """Return what a link has left for flow i: what flows before it on that link do not take."""
    left, rate, _, _, _, path, _, behind = senders
    free = capacity[link]
    entry = lists[3][link]
    while entry != _NONE:
        j, h = divmod(entry, path.shape[1])
        if j == i or not _goes_first(j, i, left, by_size):
            break
        free -= rate[j]
        entry = behind[j, h]
    return free


@compiled
def _link_up(i, h, senders, lists, by_size):
    """List flow i among those that move on its h-th link."""
    left, path, behind = senders[0], senders[5], senders[7]
    head, link, width = lists[3], path[i, h], path.shape[1]
    entry = head[link]
    last = _NONE
    while entry != _NONE and _goes_first(entry // width, i, left, by_size):
        last = entry
        entry = behind[entry // width, entry % width]
    behind[i, h] = entry
    if last == _NONE:
        head[link] = i * width + h
    else:
        behind[last // width, last % width] = i * width + h


@compiled
def _unlink(i, h, senders, lists):
    """Take flow i off those that move on its h-th link."""
    path, behind = senders[5], senders[7]
    head, link, width = lists[3], path[i, h], path.shape[1]
    entry = head[link]
    if entry == i * width + h:
        head[link] = behind[i, h]
        return
    while behind[entry // width, entry % width] != i * width + h:
        entry = behind[entry // width, entry % width]
    behind[entry // width, entry % width] = behind[i, h]


@compiled
def _note(senders, lists, capacity, i, h, last, by_size, changes, changing, found):
    """Note that rates change on the h-th link of flow i, from its place to the `last` at least."""
    link = senders[5][i, h]
    here = senders[6][i, h]
    if link == _NONE:
        return found
    new = changing[link] == _NONE
    if new:
        changing[link] = found
        found += 1
    change = changes[changing[link]]
    change.link = link
    change.last = last if new else max(last, change.last)
    if new or here < change.cursor:
        change.cursor = here
        change.left = _left_for(i, link, senders, lists, capacity, by_size)
        change.before = change.left
    return found


@compiled
def _promote(senders, lists, capacity, moving, changes, changing):
    """Move flows ahead of those that now have more left; note where one of these moves too."""
    left, rate, _, _, _, path, place, _ = senders
    _, at, members, _, _, _ = lists
    found = 0
    for i in moving:
        for h in range(path.shape[1]):
            link = path[i, h]
            if link == _NONE:
                continue
            last = place[i, h]
            here = last
            passed = False
            while here > at[link] and _goes_first(i, members[here - 1], left, True):
                j = members[here - 1]
                passed |= rate[j] > 0.0
                members[here] = j
                for g in range(path.shape[1]):
                    if path[j, g] == link:
                        place[j, g] = here
                here -= 1
            members[here] = i
            place[i, h] = here
            if passed:
                _unlink(i, h, senders, lists)
                _link_up(i, h, senders, lists, True)
                found = _note(senders, lists, capacity, i, h, last, True, changes, changing, found)
    return found


@compiled
def _follow(senders, lists, capacity, by_size, changes, changing, found, count):
    """Go through the flows on links that change, in order; return how many flows move."""
    left, members = senders[0], lists[2]
    while True:
        first = _NONE
        n = 0
        while n < found:
            change = changes[n]
            if not _seek(change, senders, lists, capacity, by_size, changes, changing):
                changing[change.link] = _NONE
                found -= 1
                if n < found:
                    changes[n] = changes[found]
                    changing[changes[n].link] = n
                continue
            i = members[change.cursor]
            if first == _NONE or _goes_first(i, first, left, by_size):
                first = i
            n += 1
        if first == _NONE:
            return count
        found, count = _settle(first, senders, lists, capacity, by_size, changes, changing, found,
                               count)


@compiled
def _seek(change, senders, lists, capacity, by_size, changes, changing):
    """Go on to the next flow whose rate may change; return whether there is one."""
    left, rate = senders[0], senders[1]
    _, at, members, _, _, _ = lists
    full = DUST * capacity[change.link]
    while change.cursor < at[change.link + 1]:
        settled = change.left == change.before or max(change.left, change.before) <= full
        if settled and change.cursor > change.last:
            return False
        i = members[change.cursor]
        if rate[i] > 0.0 or (left[i] > 0.0 and _most(i, senders, lists, capacity, by_size, changes,
                                                     changing) > 0.0):
            return True
        change.cursor += 1
    return False


@compiled
def _most(i, senders, lists, capacity, by_size, changes, changing):
    """Return what the links of flow i have left for it."""
    path = senders[5]
    most = np.inf
    for h in range(path.shape[1]):
        link = path[i, h]
        if link == _NONE:
            break
        if changing[link] != _NONE:
            free = changes[changing[link]].left
        else:
            free = _left_for(i, link, senders, lists, capacity, by_size)
        if free <= DUST * capacity[link]:
            return 0.0
        most = min(most, free)
    return most


@compiled
def _settle(i, senders, lists, capacity, by_size, changes, changing, found, count):
    """Give flow i its rate, and note what changes with it."""
    left, rate, _, _, _, path, place, _ = senders
    _, _, members, _, moving, where = lists
    old = rate[i]
    new = 0.0
    if left[i] > 0.0:
        new = _most(i, senders, lists, capacity, by_size, changes, changing)
    for h in range(path.shape[1]):
        if path[i, h] != _NONE and new != old:
            found = _note(senders, lists, capacity, i, h, place[i, h], by_size, changes, changing,
                          found)
    for h in range(path.shape[1]):
        link = path[i, h]
        if link == _NONE or changing[link] == _NONE:
            continue
        change = changes[changing[link]]
        change.left -= new
        change.before -= old
        if members[change.cursor] == i:
            change.cursor += 1
        if old == 0.0 and new > 0.0:
            _link_up(i, h, senders, lists, by_size)
        elif old > 0.0 and new == 0.0:
            _unlink(i, h, senders, lists)
    rate[i] = new
    if old == 0.0 and new > 0.0:
        where[i] = count
        moving[count] = i
        count += 1
    elif old > 0.0 and new == 0.0:
        count -= 1
        moving[where[i]] = moving[count]
        where[moving[count]] = where[i]
    return found, count


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
                if path[i, h] != _NONE:
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
