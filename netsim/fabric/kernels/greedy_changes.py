"""What changes with a flow's end where flows are served greedily; see `greedy`."""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import compiled
from netsim.fabric.records import DUST

__all__ = ["CHANGE", "NONE", "follow", "note", "promote"]

#: A link on which rates change: its list is still to be looked through from ``cursor`` on, at
#: least up to ``last``; flows there find ``left`` bytes per second, and found ``before`` until now.
CHANGE = np.dtype([("link", "i8"), ("cursor", "i8"), ("last", "i8"), ("left", "f8"),
                    ("before", "f8")], align=True)

NONE = -1


@compiled
def _goes_first(i, j, left, by_size):
    """Whether flow i is served before flow j."""
    if by_size and abs(left[i] - left[j]) > DUST * max(left[i], left[j]):
        return left[i] < left[j]
    return i < j


@compiled
def _hop(path, i, link):
    """Return which of the links of flow i a link is."""
    h = 0
    while path[i, h] != link:
        h += 1
    return h


@compiled
def _left_for(i, link, senders, lists, capacity, by_size):
    """Return what a link has left for flow i: what flows before it on that link do not take."""
    left, rate, _, _, _, path, _, behind = senders
    free = capacity[link]
    entry = lists[3][link]
    while entry != NONE:
        if entry == i or not _goes_first(entry, i, left, by_size):
            break
        free -= rate[entry]
        entry = behind[entry, _hop(path, entry, link)]
    return free


@compiled
def _link_up(i, h, senders, lists, by_size):
    """List flow i among those that move on its h-th link."""
    left, path, behind = senders[0], senders[5], senders[7]
    head, link = lists[3], path[i, h]
    entry = head[link]
    last = NONE
    while entry != NONE and _goes_first(entry, i, left, by_size):
        last = entry
        entry = behind[entry, _hop(path, entry, link)]
    behind[i, h] = entry
    if last == NONE:
        head[link] = i
    else:
        behind[last, _hop(path, last, link)] = i


@compiled
def _unlink(i, h, senders, lists):
    """Take flow i off those that move on its h-th link."""
    path, behind = senders[5], senders[7]
    head, link = lists[3], path[i, h]
    entry = head[link]
    if entry == i:
        head[link] = behind[i, h]
        return
    hop = _hop(path, entry, link)
    while behind[entry, hop] != i:
        entry = behind[entry, hop]
        hop = _hop(path, entry, link)
    behind[entry, hop] = behind[i, h]


@compiled
def note(senders, lists, capacity, i, h, last, by_size, changes, changing, found):
    """Note that rates change on the h-th link of flow i, from its place to the `last` at least."""
    link = senders[5][i, h]
    here = senders[6][i, h]
    if link == NONE:
        return found
    new = changing[link] == NONE
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
def promote(senders, lists, capacity, moving, changes, changing):
    """Move flows ahead of those that now have more left; note where one of these moves too."""
    left, rate, _, _, _, path, place, _ = senders
    _, at, members, _, _, _ = lists
    found = 0
    for i in moving:
        for h in range(path.shape[1]):
            link = path[i, h]
            if link == NONE:
                continue
            last = place[i, h]
            here = last
            passed = False
            while here > at[link] and _goes_first(i, members[here - 1], left, True):
                j = members[here - 1]
                passed |= rate[j] > 0.0
                members[here] = j
                place[j, _hop(path, j, link)] = here
                here -= 1
            members[here] = i
            place[i, h] = here
            if passed:
                _unlink(i, h, senders, lists)
                _link_up(i, h, senders, lists, True)
                found = note(senders, lists, capacity, i, h, last, True, changes, changing, found)
    return found


@compiled
def follow(senders, lists, capacity, by_size, changes, changing, found, count):
    """Go through the flows on links that change, in order; return how many flows move."""
    left, members = senders[0], lists[2]
    while True:
        first = NONE
        n = 0
        while n < found:
            change = changes[n]
            if not _seek(change, senders, lists, capacity, by_size, changes, changing):
                changing[change.link] = NONE
                found -= 1
                if n < found:
                    changes[n] = changes[found]
                    changing[changes[n].link] = n
                continue
            i = members[change.cursor]
            if first == NONE or _goes_first(i, first, left, by_size):
                first = i
            n += 1
        if first == NONE:
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
        if link == NONE:
            break
        if changing[link] != NONE:
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
        if path[i, h] != NONE and new != old:
            found = note(senders, lists, capacity, i, h, place[i, h], by_size, changes, changing,
                          found)
    for h in range(path.shape[1]):
        link = path[i, h]
        if link == NONE or changing[link] == NONE:
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
