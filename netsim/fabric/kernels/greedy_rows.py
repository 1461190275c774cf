"""The data of `greedy`: a copy of the unfinished flows in service order, and their links."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels import compiled, in_place, inlined, row_type
from netsim.fabric.kernels.progress import begin_row, write_flow
from netsim.fabric.records import DUST

NONE = -1

#: Why the row of a flow is out of date: it has an old rate, or bytes have moved since.
STALE, MOVED = 1, 2

#: Bytes per second of the link that fills up paths shorter than others: more than is ever used.
_PLENTY = 1e300

#: The copy as a whole: how many flows are ``moving``; how many have ``gone``, and how many more
#: have ``ended`` in the last step, and are still listed as moving; whether flows go ``by_size``,
#: that is, by the bytes that they have left; on how many links rates are ``changing``.
_STATE = row_type([("moving", "i8"), ("gone", "i8"), ("ended", "i8"), ("by_size", "i8"),
                   ("changing", "i8")])

#: A coflow, in service order: its ``key``; its ``row``, or -1; its flows, ``first`` to ``stop``;
#: whether these have ``moved`` since its rows were written.
_GROUP = row_type([("key", "i8"), ("row", "i8"), ("first", "i4"), ("stop", "i4"),
                   ("moved", "i4")])

#: An unfinished flow.
#:
#: - left, rate, floor: the bytes that it has left, its rate, and the bytes at which it has ended
#: - look: by size, the bytes at which it may overtake the flow listed before it on some link
#: - flow, owner, where: its place in the table, its group, and its place among those that move
#: - row: 0, or what its row lacks: `STALE` or `MOVED`
_SENDER = row_type([("left", "f8"), ("rate", "f8"), ("floor", "f8"), ("look", "f8"), ("flow", "i4"),
                    ("owner", "i4"), ("where", "i4"), ("row", "i4")])

#: A flow on a link: its ``place`` among the link's members, and the next flow ``behind`` it that
#: moves.
_CROSSING = row_type([("link", "i4"), ("place", "i4"), ("behind", "i4")])

#: A flow in the list of a link.
#:
#: - other: another link on its path, or none. Most flows wait because that one is full, which is
#:   seen from here without a look at the flow
#: - left: by size, the bytes of a flow that waits; 0 if it moves
_MEMBER = row_type([("left", "f8"), ("flow", "i4"), ("other", "i4")])

#: A link.
#:
#: - capacity, left, dust: bytes per second, in all, not used, and so few that they count as none
#: - first, stop: its flows are ``members[first:stop]``, in order; ``head``: the first that moves
#: - filler: the flow that leaves nothing to those behind it; without one, the one after the last
#: - changes: whether rates change on it; see `_CHANGE`
_LINK = row_type([("capacity", "f8"), ("dust", "f8"), ("left", "f8"), ("first", "i4"),
                  ("stop", "i4"), ("head", "i4"), ("filler", "i4"), ("changes", "i4")])

#: A link on which rates change.
#:
#: - cursor, last: its list is still to be looked through from ``cursor`` on, at least to ``last``
#: - left, before: the bytes per second that flows find there now, and found before
#: - flow: the next flow whose rate may change, or `NONE`; ``size``: the bytes that it has left or,
#:   in list order, its number
#: - place: its place in a heap of changes by size; ``heap``: the link at the place that is the
#:   number of this row
_CHANGE = row_type([("left", "f8"), ("before", "f8"), ("size", "f8"), ("cursor", "i4"),
                    ("last", "i4"), ("flow", "i4"), ("place", "i4"), ("heap", "i4")])


class Greedy(NamedTuple):
    """The unfinished flows in service order, and which of them have a rate (*move*)."""

    state: NDArray[Any]  #: of _STATE, shape (1,)
    groups: NDArray[Any]  #: of _GROUP
    senders: NDArray[Any]  #: of _SENDER; a dummy at the end goes before no flow
    #: Of _CROSSING, by flow and place on its path; shorter paths are filled up with the last of
    #: `links`, a dummy.
    crossings: NDArray[Any]
    links: NDArray[Any]  #: of _LINK
    members: NDArray[Any]  #: of _MEMBER: the flows on each link in order, one link after the other
    moving: NDArray[np.int64]  #: starts with the flows that move
    ended: NDArray[np.int64]  #: starts with the flows that ended in the last step
    #: Of _CHANGE, by link; the first ``changing`` rows name the links on which rates change, as a
    #: heap while these are followed.
    changes: NDArray[Any]
    #: Space for the flows that are about to go ahead of others; shape (flows * (1 + most links on a
    #: path),).
    waiting: NDArray[np.int32]


@in_place
def goes_first(engine, i, j):
    """Whether flow i is served before flow j."""
    if engine.state[0].by_size:
        a, b = engine.senders[i].left, engine.senders[j].left
        if abs(a - b) > DUST * max(a, b):
            return a < b
    return i < j


@compiled
def copy_rows(coflows, flows, hops, capacity, order, by_size):
    """Return a copy of the unfinished flows; none moves yet, and all are listed in order."""
    state = np.zeros(1, _STATE)
    state[0].by_size = by_size
    groups, longest = _groups(coflows, order)
    count = groups[-1].stop if len(groups) else 0
    senders = np.zeros(count + 1, _SENDER)
    senders[count].left = np.inf
    crossings = np.empty((count, longest), _CROSSING)
    links = _links(capacity, count)
    for k in range(len(groups)):
        _copy_group(groups[k], k, coflows, flows, hops, senders, crossings, links)
    ranked = _ranked(senders, by_size)
    return Greedy(state, groups, senders, crossings, links,
                  _members(senders, crossings, links, ranked), ranked, np.empty(count, np.int64),
                  np.empty(len(links), _CHANGE), np.empty(count * (1 + longest), np.int32))


@inlined
def _groups(coflows, order):
    """Return the groups in service order, and the largest number of links on a path of a flow."""
    groups = np.zeros(len(order), _GROUP)
    count = 0
    longest = 1
    for k in range(len(order)):
        row = coflows[order[k]]
        group = groups[k]
        group.key = row.key
        group.row = order[k]
        group.first = count
        count += row.open
        group.stop = count
        longest = max(longest, row.max_hops)
    return groups, longest


@inlined
def _copy_group(group, k, coflows, flows, hops, senders, crossings, links):
    """Copy the unfinished flows of a group; record whether one has a rate."""
    row = coflows[group.row]
    group.moved = row.finish < np.inf
    i = group.first
    for f in range(row.flow, row.flow + row.flows):
        flow = flows[f]
        if flow.remaining <= 0.0:
            continue
        sender = senders[i]
        if flow.rate > 0.0 or flow.finish < np.inf:
            sender.row = STALE
            group.moved = 1
        sender.left = flow.remaining
        sender.floor = DUST * flow.size
        sender.look = np.inf
        sender.owner = k
        sender.flow = f
        for h in range(crossings.shape[1]):
            link = hops[flow.hop + h].link if h < flow.hops else len(links) - 1
            crossings[i, h].link = link
            crossings[i, h].behind = NONE
            links[link].stop += 1
        i += 1


@inlined
def _links(capacity, flows):
    links = np.zeros(len(capacity) + 1, _LINK)
    for k in range(len(links)):
        links[k].capacity = capacity[k] if k < len(capacity) else _PLENTY
        links[k].left = links[k].capacity
        links[k].dust = DUST * links[k].capacity
        links[k].head = NONE
        links[k].filler = flows
    return links


@inlined
def _members(senders, crossings, links, ranked):
    """Return the flows on each link in order; on entry, ``stop`` is the number of flows there."""
    nowhere = len(links) - 1
    second = min(1, crossings.shape[1] - 1)
    first = 0
    for k in range(nowhere):
        first += links[k].stop
        links[k].first = links[k].stop = first - links[k].stop
    links[nowhere].first = links[nowhere].stop = first
    members = np.empty(first, _MEMBER)
    for i in ranked:
        for h in range(crossings.shape[1]):
            crossing = crossings[i, h]
            if crossing.link < nowhere:
                link = links[crossing.link]
                members[link.stop].left = senders[i].left
                members[link.stop].flow = i
                members[link.stop].other = crossings[i, 0 if h else second].link
                crossing.place = link.stop
                link.stop += 1
    return members


@inlined
def _ranked(senders, by_size):
    """Return the flows by size; sizes within `DUST` of the previous one count as equal."""
    count = len(senders) - 1
    if not by_size:
        return np.arange(count)
    ranked = _by_size(senders)
    first = 0
    in_order = True
    for n in range(1, count + 1):
        before = ranked[n - 1]
        if n < count and senders[ranked[n]].left <= senders[before].left * (1.0 + DUST):
            in_order &= before < ranked[n]
            continue
        if not in_order:
            ranked[first:n].sort()
        first = n
        in_order = True
    return ranked


@inlined
def _by_size(senders):
    """Return the flows by bytes left, then by place; fast if many in a row have the same size."""
    count = len(senders) - 1
    starts = np.empty(count + 1, np.int64)
    sizes = np.empty(count)
    runs = 0
    for i in range(count):
        if runs == 0 or senders[i].left != sizes[runs - 1]:
            starts[runs] = i
            sizes[runs] = senders[i].left
            runs += 1
    starts[runs] = count
    ranked = np.empty(count, np.int64)
    n = 0
    for run in np.argsort(sizes[:runs], kind="mergesort"):
        for i in range(starts[run], starts[run + 1]):
            ranked[n] = i
            n += 1
    return ranked


@inlined
def find_rows(engine, coflows, order):
    """Find the rows of the groups again; return whether the order of the rest is the same."""
    groups = engine.groups
    n = 0
    for k in range(len(groups)):
        group = groups[k]
        group.row = -1
        if n < len(order) and coflows[order[n]].key == group.key:
            group.row = order[n]
            n += 1
    return n == len(order)


@in_place
def write_back(engine, coflows, flows, now, pace):
    """Write bytes as of now, and rates times `pace`, back to the rows."""
    groups, senders = engine.groups, engine.senders
    for k in range(len(groups)):
        group = groups[k]
        if not group.moved or group.row < 0:
            continue
        group.moved = 0
        row = coflows[group.row]
        begin_row(row)
        for i in range(group.first, group.stop):
            sender = senders[i]
            if sender.left > 0.0 and sender.row != 0:
                write_flow(row, flows[sender.flow], sender.left, pace * sender.rate, now)
            elif sender.left > 0.0:
                row.base += sender.left
                row.finish = np.inf
            sender.row = 0
