"""The changes that the end of a flow causes when flows are served greedily; see `greedy`."""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.greedy_rows import NONE, goes_first
from netsim.fabric.records import DUST

__all__ = ["follow", "mark", "note", "promote"]

#: A flow with more than so many times the bytes of another goes behind it, whatever is rounded.
_ABOVE = 1.0 + 2.0 * DUST


@in_place
def _hop(crossings, i, link):
    """Return the position of a link on the path of flow i."""
    h = 0
    while crossings[i, h].link != link:
        h += 1
    return h


@inlined
def mark(i, left, crossings, links, members):
    """Store on the links of flow i that it waits with `left` bytes, or moves, if `left` is 0."""
    for h in range(crossings.shape[1]):
        if crossings[i, h].link < len(links) - 1:
            members[crossings[i, h].place].left = left


@in_place
def _left_for(i, link, senders, crossings, links, by_size):
    """Return what the flows before flow i on a link leave for it."""
    free = links[link].capacity
    entry = links[link].head
    while entry != NONE and entry != i and goes_first(entry, i, senders, by_size):
        free -= senders[entry].rate
        entry = crossings[entry, _hop(crossings, entry, link)].behind
    return free


@in_place
def _find_filler(link, senders, crossings, links):
    """Find the first flow that leaves nothing of a link to the flows behind it."""
    free = links[link].capacity
    entry = links[link].head
    links[link].filler = len(senders) - 1
    while entry != NONE:
        free -= senders[entry].rate
        if free <= links[link].dust:
            links[link].filler = entry
            return
        entry = crossings[entry, _hop(crossings, entry, link)].behind


@in_place
def _link_up(i, h, senders, crossings, links, by_size):
    """Insert flow i into the list of moving flows of its h-th link."""
    link = crossings[i, h].link
    entry = links[link].head
    last = NONE
    while entry != NONE and goes_first(entry, i, senders, by_size):
        last = entry
        entry = crossings[entry, _hop(crossings, entry, link)].behind
    crossings[i, h].behind = entry
    if last == NONE:
        links[link].head = i
    else:
        crossings[last, _hop(crossings, last, link)].behind = i


@in_place
def _unlink(i, h, crossings, links):
    """Remove flow i from the list of moving flows of its h-th link."""
    link = crossings[i, h].link
    entry = links[link].head
    if entry == i:
        links[link].head = crossings[i, h].behind
        return
    hop = _hop(crossings, entry, link)
    while crossings[entry, hop].behind != i:
        entry = crossings[entry, hop].behind
        hop = _hop(crossings, entry, link)
    crossings[entry, hop].behind = crossings[i, h].behind


@in_place
def note(senders, crossings, links, i, h, last, by_size, changes, found):
    """Record that rates change on the h-th link of flow i, from its place at least to `last`."""
    k = crossings[i, h].link
    here = crossings[i, h].place
    if k == len(links) - 1:
        return found
    new = links[k].change == NONE
    change = changes[k]
    if new:
        links[k].change = k
        change.link = k
        change.flow = NONE
        change.size = np.inf
        change.place = found
        changes[found].heap = k
        found += 1
    change.last = last if new else max(last, change.last)
    if new or here < change.cursor:
        more = 0.0 if new else change.left - change.before
        change.cursor = here
        change.left = _left_for(i, k, senders, crossings, links, by_size)
        change.before = change.left - more
    return found


@inlined
def promote(senders, crossings, links, members, moving, waiting, changes):
    """Move flows ahead of those that have more bytes left; record changes on their links.

    The flow with the least bytes left goes first. The flows before it are then in order, and no
    other waiting flow is between it and its new place.
    """
    hops = crossings.shape[1]
    most = len(moving) * (1 + hops)
    count = 0  # of those that wait, of whom the first to go ahead comes last
    for i in moving:
        if senders[i].left > senders[i].look:
            continue
        if _has_overtaken(i, senders, crossings, links, members):
            count = _insert(i, waiting, count, senders)
        else:
            senders[i].look = _next_look(i, senders, crossings, links, members)
    found = 0
    while count:
        count -= 1
        i = waiting[count]
        if not _has_overtaken(i, senders, crossings, links, members):
            continue
        for h in range(hops):
            behind = crossings[i, h].place + 1
            found = _promote(i, h, senders, crossings, links, members, changes, found)
            link = links[crossings[i, h].link]
            if crossings[i, h].place + 1 < behind < link.stop and count < most:
                # It was behind the flow that has gone ahead, and may now follow.
                count = _insert(members[behind].flow, waiting, count, senders)
    return found


@inlined
def _insert(i, waiting, count, senders):
    """Insert a flow into the ordered list of waiting flows; return the list's length."""
    n = count
    while n and goes_first(waiting[n - 1], i, senders, True):
        waiting[n] = waiting[n - 1]
        n -= 1
    waiting[n] = i
    return count + 1


@in_place
def _has_overtaken(i, senders, crossings, links, members):
    """Whether flow i has fewer bytes left than the flow before it on some link."""
    for h in range(crossings.shape[1]):
        k, place = crossings[i, h].link, crossings[i, h].place
        if k < len(links) - 1 and place > links[k].first and _passes(i, members[place - 1],
                                                                     senders):
            return True
    return False


@inlined
def _passes(i, member, senders):
    """Whether flow i goes before a listed one; for a waiting flow, the list has its bytes left."""
    return member.left > senders[i].left * _ABOVE or goes_first(i, member.flow, senders, True)


@inlined
def _next_look(i, senders, crossings, links, members):
    """Return at how many bytes left flow i may overtake a flow; inf if that flow moves, too."""
    look = 0.0
    for h in range(crossings.shape[1]):
        k, place = crossings[i, h].link, crossings[i, h].place
        if k < len(links) - 1 and place > links[k].first:
            before = senders[members[place - 1].flow]
            look = max(look, np.inf if before.rate > 0.0 else before.left * _ABOVE)
    return look


@inlined
def _promote(i, h, senders, crossings, links, members, changes, found):
    """Move flow i to its new place on its h-th link."""
    k = crossings[i, h].link
    last = crossings[i, h].place
    if k == len(links) - 1:
        return found
    here = last
    member_left, other = members[last].left, members[last].other
    passed = False
    while here > links[k].first and _passes(i, members[here - 1], senders):
        j = members[here - 1].flow
        passed |= members[here - 1].left == 0.0 and senders[j].rate > 0.0
        members[here] = members[here - 1]
        crossings[j, _hop(crossings, j, k)].place = here
        here -= 1
    if here == last:
        return found
    members[here].left = member_left
    members[here].flow = i
    members[here].other = other
    crossings[i, h].place = here
    for place in (here, here + 1, last + 1):  # what is listed before these is another flow now
        if place < links[k].stop:
            senders[members[place].flow].look = np.inf
    if passed:
        _unlink(i, h, crossings, links)
        _link_up(i, h, senders, crossings, links, True)
        _find_filler(k, senders, crossings, links)
        found = note(senders, crossings, links, i, h, last, True, changes, found)
    return found


@in_place
def follow(senders, crossings, links, members, by_size, changes, found, moving, count):
    """Visit the flows on changing links, in order; return how many flows move."""
    for n in range(found):
        _seek(changes[changes[n].heap], senders, crossings, links, members, by_size, changes)
    noted, found = found, 0
    for n in range(noted):
        found = _keep(changes[n].heap, senders, links, by_size, changes, found)
    while found:
        i = changes[changes[0].heap].flow
        old = senders[i].rate
        new = _most(i, senders, crossings, links, by_size, changes)
        if new != old:
            for h in range(crossings.shape[1]):
                found = note(senders, crossings, links, i, h, crossings[i, h].place, by_size,
                             changes, found)
            senders[i].rate = new
            count = _list(i, old, senders, crossings, links, members, by_size, moving, count)
        for h in range(crossings.shape[1]):
            if links[crossings[i, h].link].change != NONE:
                found = _take_out(crossings[i, h].link, senders, by_size, changes, found)
        for h in range(crossings.shape[1]):
            n = links[crossings[i, h].link].change
            if n != NONE:
                if members[changes[n].cursor].flow == i:
                    changes[n].left -= new
                    changes[n].before -= old
                    changes[n].cursor += 1
                _seek(changes[n], senders, crossings, links, members, by_size, changes)
        for h in range(crossings.shape[1]):
            if links[crossings[i, h].link].change != NONE:
                found = _keep(crossings[i, h].link, senders, links, by_size, changes, found)
    return count


# --- a heap of changes, by the flows that are next on their links -----------------------


@inlined
def _keep(k, senders, links, by_size, changes, found):
    """Put the change of link k back into the heap unless it is over; return the heap's size."""
    if changes[k].flow == NONE:
        links[k].change = NONE
        return found
    _put(k, found, senders, by_size, changes, found + 1)
    return found + 1


@inlined
def _take_out(k, senders, by_size, changes, found):
    """Remove the change of link k from the heap; return the heap's size."""
    found -= 1
    if changes[k].place < found:
        _put(changes[found].heap, changes[k].place, senders, by_size, changes, found)
    return found


@in_place
def _put(k, at, senders, by_size, changes, count):
    """Insert the change of link k into the heap, where the place `at` is free."""
    while at and _is_next(k, changes[(at - 1) // 2].heap, senders, by_size, changes):
        at = _take_place(changes[(at - 1) // 2].heap, at, changes)
    while True:
        below = 2 * at + 1
        if below + 1 < count and _is_next(changes[below + 1].heap, changes[below].heap, senders,
                                          by_size, changes):
            below += 1
        if below >= count or not _is_next(changes[below].heap, k, senders, by_size, changes):
            break
        at = _take_place(changes[below].heap, at, changes)
    _take_place(k, at, changes)


@inlined
def _take_place(k, at, changes):
    """Put the change of link k at a place in the heap; return the place it had."""
    before = changes[k].place
    changes[at].heap = k
    changes[k].place = at
    return before


@inlined
def _is_next(k, other, senders, by_size, changes):
    """Whether the next flow on link k goes before the next flow on another link."""
    one, two = changes[k].size, changes[other].size
    if one > two * _ABOVE or two > one * _ABOVE:
        return one < two
    return goes_first(changes[k].flow, changes[other].flow, senders, by_size)


@in_place
def _seek(change, senders, crossings, links, members, by_size, changes):
    """Find the next flow on a link that may get another rate.

    A waiting flow may get a rate if no link on its path is full. If flows before it on the path are
    still to change and would free bandwidth, the flow is found from their link.
    """
    end = links[change.link].stop
    dust = links[change.link].dust
    if change.left == change.before or max(change.left, change.before) <= dust:
        end = min(end, change.last + 1)
    has_room = change.left > dust
    change.flow = NONE
    change.size = np.inf
    while change.cursor < end:
        i = members[change.cursor].flow
        other = links[members[change.cursor].other]
        if other.change == NONE and (
                (by_size and members[change.cursor].left > senders[other.filler].left * _ABOVE)
                or goes_first(other.filler, i, senders, by_size)):
            change.cursor += 1
            continue
        sender = senders[i]
        may = sender.rate > 0.0
        if not may and has_room and sender.left > 0.0:
            may = True
            for h in range(crossings.shape[1]):
                link = links[crossings[i, h].link]
                # A change that is only behind the flow does not tell what is left for it.
                if link.change == NONE or changes[link.change].cursor > crossings[i, h].place:
                    may &= not goes_first(link.filler, i, senders, by_size)
                else:
                    may &= changes[link.change].left > link.dust
        if may:
            change.flow = i
            change.size = sender.left if by_size else i
            return
        change.cursor += 1


@inlined
def _most(i, senders, crossings, links, by_size, changes):
    """Return what the links of flow i have left for it.

    A changing link has that stored, unless it only changes behind flow i.
    """
    if senders[i].left == 0.0:
        return 0.0
    most = np.inf
    for h in range(crossings.shape[1]):
        k = crossings[i, h].link
        n = links[k].change
        if n != NONE and changes[n].cursor <= crossings[i, h].place:
            free = changes[n].left
        else:
            free = _left_for(i, k, senders, crossings, links, by_size)
        if free <= links[k].dust:
            return 0.0
        most = min(most, free)
    return most


@inlined
def _list(i, old, senders, crossings, links, members, by_size, moving, count):
    """Update the lists of moving flows for a new rate; return the number of moving flows."""
    sender = senders[i]
    mark(i, sender.left if sender.rate == 0.0 else 0.0, crossings, links, members)
    for h in range(crossings.shape[1]):
        if crossings[i, h].link < len(links) - 1:
            if old == 0.0:
                _link_up(i, h, senders, crossings, links, by_size)
            elif sender.rate == 0.0:
                _unlink(i, h, crossings, links)
            _find_filler(crossings[i, h].link, senders, crossings, links)
    if old == 0.0:
        sender.where = count
        moving[count] = i
        return count + 1
    if sender.rate == 0.0:
        count -= 1
        moving[sender.where] = moving[count]
        senders[moving[count]].where = sender.where
    return count
