"""What changes with a flow's end where flows are served greedily; see `greedy`."""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.greedy_rows import NONE, goes_first

__all__ = ["follow", "note", "promote"]


@in_place
def _hop(crossings, i, link):
    """Return which of the links of flow i a link is."""
    h = 0
    while crossings[i, h].link != link:
        h += 1
    return h


@in_place
def _left_for(i, link, senders, crossings, links, by_size):
    """Return what a link has left for flow i: what flows before it on that link do not take."""
    free = links[link].capacity
    entry = links[link].head
    while entry != NONE and entry != i and goes_first(entry, i, senders, by_size):
        free -= senders[entry].rate
        entry = crossings[entry, _hop(crossings, entry, link)].behind
    return free


@in_place
def _find_filler(link, senders, crossings, links):
    """Find the flow that leaves nothing of a link to those behind it."""
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
    """List flow i among those that move on its h-th link."""
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
    """Take flow i off those that move on its h-th link."""
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
    """Note that rates change on the h-th link of flow i, from its place to the `last` at least."""
    k = crossings[i, h].link
    here = crossings[i, h].place
    if k == len(links) - 1:
        return found
    new = links[k].change == NONE
    if new:
        links[k].change = found
        found += 1
    change = changes[links[k].change]
    change.link = k
    change.last = last if new else max(last, change.last)
    if new or here < change.cursor:
        more = 0.0 if new else change.left - change.before
        change.cursor = here
        change.left = _left_for(i, k, senders, crossings, links, by_size)
        change.before = change.left - more
    return found


@inlined
def promote(senders, crossings, links, members, moving, changes):
    """Move flows ahead of those that now have more left; note where one of these moves too.

    The one with the least left comes first: it finds those before it in order, and none that
    waits to go ahead itself is between it and its place.
    """
    hops = crossings.shape[1]
    waiting = np.empty(len(moving) * (1 + hops), np.int32)
    count = 0
    for i in moving:
        if _has_overtaken(i, senders, crossings, links, members):
            waiting[count] = i
            count += 1
    found = 0
    for _ in moving:
        best = NONE
        n = 0
        while n < count:
            i = waiting[n]
            if _has_overtaken(i, senders, crossings, links, members):
                if best == NONE or goes_first(i, best, senders, True):
                    best = i
                n += 1
            else:
                count -= 1
                waiting[n] = waiting[count]
        if best == NONE:
            break
        for h in range(hops):
            behind = crossings[best, h].place + 1
            found = _promote(best, h, senders, crossings, links, members, changes, found)
            link = links[crossings[best, h].link]
            if crossings[best, h].place + 1 < behind < link.stop:
                # It was behind the flow that has gone ahead, and may now follow.
                waiting[count] = members[behind].flow
                count += 1
    return found


@in_place
def _has_overtaken(i, senders, crossings, links, members):
    """Whether flow i goes before the one that is listed before it on some link."""
    for h in range(crossings.shape[1]):
        k, place = crossings[i, h].link, crossings[i, h].place
        if k < len(links) - 1 and place > links[k].first and goes_first(
                i, members[place - 1].flow, senders, True):
            return True
    return False


@inlined
def _promote(i, h, senders, crossings, links, members, changes, found):
    """Move flow i to its place on its h-th link."""
    k = crossings[i, h].link
    last = crossings[i, h].place
    if k == len(links) - 1:
        return found
    here = last
    other = members[last].other
    passed = False
    while here > links[k].first and goes_first(i, members[here - 1].flow, senders, True):
        j = members[here - 1].flow
        passed |= senders[j].rate > 0.0
        members[here] = members[here - 1]
        crossings[j, _hop(crossings, j, k)].place = here
        here -= 1
    members[here].flow = i
    members[here].other = other
    crossings[i, h].place = here
    if passed:
        _unlink(i, h, crossings, links)
        _link_up(i, h, senders, crossings, links, True)
        _find_filler(k, senders, crossings, links)
        found = note(senders, crossings, links, i, h, last, True, changes, found)
    return found


@in_place
def follow(senders, crossings, links, members, by_size, changes, found, moving, count):
    """Go through the flows on links that change, in order; return how many flows move."""
    for n in range(found):
        _seek(changes[n], senders, crossings, links, members, by_size, changes)
    while True:
        i, found = _first(senders, links, by_size, changes, found)
        if i == NONE:
            return count
        old = senders[i].rate
        new = _most(i, senders, crossings, links, by_size, changes)
        if new != old:
            for h in range(crossings.shape[1]):
                found = note(senders, crossings, links, i, h, crossings[i, h].place, by_size,
                             changes, found)
            senders[i].rate = new
            count = _list(i, old, senders, crossings, links, by_size, moving, count)
        for h in range(crossings.shape[1]):
            n = links[crossings[i, h].link].change
            if n != NONE:
                if members[changes[n].cursor].flow == i:
                    changes[n].left -= new
                    changes[n].before -= old
                    changes[n].cursor += 1
                _seek(changes[n], senders, crossings, links, members, by_size, changes)


@inlined
def _first(senders, links, by_size, changes, found):
    """Return the first flow whose rate may change, or `NONE`; strike changes that are over."""
    first = NONE
    n = 0
    while n < found:
        i = changes[n].flow
        if i == NONE:
            links[changes[n].link].change = NONE
            found -= 1
            if n < found:
                changes[n] = changes[found]
                links[changes[n].link].change = n
            continue
        if first == NONE or goes_first(i, first, senders, by_size):
            first = i
        n += 1
    return first, found


@in_place
def _seek(change, senders, crossings, links, members, by_size, changes):
    """Find the next flow on a link whose rate may change.

    One that waits may move if no link on its path is full. Where others before it on that path
    are still to change, and free some of it, the flow is found from there.
    """
    end = links[change.link].stop
    dust = links[change.link].dust
    if change.left == change.before or max(change.left, change.before) <= dust:
        end = min(end, change.last + 1)
    has_room = change.left > dust
    change.flow = NONE
    while change.cursor < end:
        i = members[change.cursor].flow
        other = links[members[change.cursor].other]
        if other.change == NONE and goes_first(other.filler, i, senders, by_size):
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
            return
        change.cursor += 1


@inlined
def _most(i, senders, crossings, links, by_size, changes):
    """Return what the links of flow i have left for it.

    A link that changes tells it, unless it does so only behind flow i.
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
def _list(i, old, senders, crossings, links, by_size, moving, count):
    """Bring the lists of flows that move up to date with a new rate; return how many these are."""
    sender = senders[i]
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
