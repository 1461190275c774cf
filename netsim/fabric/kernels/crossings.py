"""Shares of coflows in step, computed on the links that coflows have in common.

A link that only one coflow crosses needs no entry of its own: among several such links with the
same capacity and bytes, one is enough. Only links that several coflows cross are stored, and these
are numbered separately. So the time of a decision depends on how often coflows meet, not on the
size of the network.

The blocks at the end do the same for allocators, through the view. Shares are multiples of LP
rates: at share 1 a coflow sends at remaining/gamma and fills its effective bottleneck.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels import compiled, in_place, inlined, row_type
from netsim.fabric.kernels.progress import row_of
from netsim.fabric.records import DUST

#: Above the rounding errors of one product, and of the quotient that it stands for.
_ABOVE_ONE = 1.0 + 1e-15

#: An active coflow: the legs from ``load`` on are those of ``shared`` links, then ``own`` ones, no
#: two alike, out of ``loads``; ``due`` is 1 if they must be sorted again. ``key`` and ``gamma``
#: are copies from its row, which is seven times as long: every decision goes through all of them.
_KNOWN = row_type([("key", "i8"), ("gamma", "f8"), ("load", "i8"), ("loads", "i4"),
                   ("shared", "i4"), ("own", "i4"), ("due", "i4")])

#: A link: how many ``coflows`` cross it, the sum of their ``keys``, and its ``room``, or -1.
_LINK = row_type([("coflows", "i8"), ("keys", "i8"), ("room", "i8")])

#: Places in `Crossings.counts`: of the known coflows, the rooms, and the free ones among the rooms.
_KNOWS, _ROOMS, _FREE = range(3)


class Legs(NamedTuple):
    """The links that coflows cross, indexed as the loads of the coflows in their pool.

    Each column is an array of its own: every decision goes through all of it.
    """

    nbytes: NDArray[np.float64]  #: that the coflow has to send over the link
    capacity: NDArray[np.float64]  #: of the link, if no other coflow crosses it
    #: The index of the link in `Rooms`, if others cross it; unsigned, because Numba checks signed
    #: indices for negative values.
    room: NDArray[np.uint32]


class Rooms(NamedTuple):
    """The links that several coflows cross; in bytes per second."""

    capacity: NDArray[np.float64]
    left: NDArray[np.float64]
    without: NDArray[np.float64]  #: what shares to be stretched leave, without all others


class Crossings(NamedTuple):
    """The links that coflows have in common."""

    legs: Legs
    known: NDArray[Any]  #: of _KNOWN: the active coflows, by key
    links: NDArray[Any]  #: of _LINK
    rooms: Rooms
    free: NDArray[np.int64]  #: indices in `rooms` that no link uses
    counts: NDArray[np.int64]  #: entries in use; see `_KNOWS`

    def __deepcopy__(self, memo: dict[int, Any]) -> Crossings:
        """Return empty crossings of the same size, as a copied table has other pools."""
        return new_crossings(len(self.known), len(self.legs.room), len(self.links))


def new_crossings(rows: int, loads: int, links: int) -> Crossings:
    """Return empty crossings with space for this number of coflows and loads."""
    of_links = np.zeros(links, _LINK)
    of_links["room"] = -1
    legs = Legs(np.empty(loads), np.empty(loads), np.empty(loads, np.uint32))
    rooms = Rooms(np.empty(links), np.empty(links), np.empty(links))
    return Crossings(legs, np.empty(rows, _KNOWN), of_links, rooms, np.empty(links, np.int64),
                     np.zeros(3, np.int64))


# --- which coflows meet where ------------------------------------------------------------
@in_place
def take_in(crossings, coflows, loads, capacity):
    """Update which coflows are active, and their gammas.

    Keys of new coflows are larger than all before.
    """
    known, counts = crossings.known, crossings.counts
    _remove_ended(crossings, coflows, loads)
    for c in range(counts[_KNOWS], len(coflows)):
        its, row = known[c], coflows[c]
        its.key, its.gamma = row.key, row.gamma
        its.load, its.loads, its.due = row.load, row.loads, 1
        counts[_KNOWS] = c + 1
        for k in range(its.load, its.load + its.loads):
            _enter(crossings, loads[k].link, its.key, capacity)
    for c in range(len(coflows)):
        if known[c].due:
            _sort_out(crossings, known[c], loads, capacity)


@inlined
def _remove_ended(crossings, coflows, loads):
    """Remove the coflows that are no longer active."""
    known, counts = crossings.known, crossings.counts
    kept = 0
    for c in range(counts[_KNOWS]):  # both are in order of keys
        if kept < len(coflows) and coflows[kept].key == known[c].key:
            if kept < c:
                known[kept] = known[c]
            known[kept].gamma = coflows[kept].gamma
            kept += 1
        else:
            for k in range(known[c].load, known[c].load + known[c].loads):
                _leave(crossings, loads[k].link, known[c].key)
    counts[_KNOWS] = kept


@inlined
def _enter(crossings, link, key, capacity):
    """Count a coflow on a link; give the link a room if this is the second coflow without one."""
    row, counts = crossings.links[link], crossings.counts
    row.coflows += 1
    row.keys += key
    if row.coflows == 2 and row.room < 0:
        _make_due(crossings, row.keys - key)
        if counts[_FREE] > 0:
            counts[_FREE] -= 1
            row.room = crossings.free[counts[_FREE]]
        else:
            row.room = counts[_ROOMS]
            counts[_ROOMS] += 1
        crossings.rooms.capacity[row.room] = capacity[link]


@inlined
def _leave(crossings, link, key):
    """Remove a coflow from a link; free the link's room if no coflow is left.

    A link with one coflow may keep its room, because another coflow often follows. The rates are
    the same to the last bit, and the coflow's legs need not be sorted again.
    """
    row, counts = crossings.links[link], crossings.counts
    row.coflows -= 1
    row.keys -= key
    if row.coflows == 0 and row.room >= 0:
        crossings.free[counts[_FREE]] = row.room
        row.room = -1
        counts[_FREE] += 1


@inlined
def _make_due(crossings, key):
    """Mark a coflow, given by its key: its legs must be sorted again."""
    known = crossings.known[:crossings.counts[_KNOWS]]
    known[row_of(known, key)].due = 1


@inlined
def _sort_out(crossings, its, loads, capacity):
    """Sort a coflow's legs: those on shared links first, then one of each kind of its own links."""
    legs = crossings.legs
    nbytes, capacities, room = legs.nbytes, legs.capacity, legs.room
    its.shared = its.own = its.due = 0
    for k in range(its.load, its.load + its.loads):
        link = loads[k].link
        if crossings.links[link].room >= 0:
            leg = its.load + its.shared
            nbytes[leg], room[leg] = loads[k].nbytes, crossings.links[link].room
            its.shared += 1
    first = its.load + its.shared
    for k in range(its.load, its.load + its.loads):
        link = loads[k].link
        if crossings.links[link].room < 0:
            leg = first + its.own
            if (its.own == 0 or nbytes[leg - 1] != loads[k].nbytes
                    or capacities[leg - 1] != capacity[link]):
                nbytes[leg], capacities[leg] = loads[k].nbytes, capacity[link]
                its.own += 1


# --- shares ------------------------------------------------------------------------------
@inlined
def _speed(share, gamma):
    """Return the fraction of its bytes that a coflow sends per second at a share."""
    return share / gamma if share > 0.0 and gamma > 0.0 else 0.0


@inlined
def _least(x, room, need):
    """Return ``min(x, room / need)``, for a positive need, without dividing where x stays."""
    return x if room >= x * need * _ABOVE_ONE else min(x, room / need)


@inlined
def _shared(its):
    """Return the range of a coflow's legs on shared links, unsigned as rooms are."""
    return range(np.uint64(its.load), np.uint64(its.load + its.shared))


@inlined
def _own(its):
    """Return the range of a coflow's legs on its own links."""
    first = its.load + its.shared
    return range(np.uint64(first), np.uint64(first + its.own))


@in_place
def _find_left(crossings, shares):
    """Compute what coflows leave of each room at the given shares; return whether these fit.

    They fit if no link is overloaded by more than half of `DUST`.
    """
    legs = crossings.legs
    nbytes, capacities, room = legs.nbytes, legs.capacity, legs.room
    count = crossings.counts[_ROOMS]
    left, whole = crossings.rooms.left[:count], crossings.rooms.capacity[:count]
    for r in range(count):
        left[r] = whole[r]
    fits = True
    for c in range(len(shares)):
        its = crossings.known[c]
        speed = _speed(shares[c], its.gamma)
        if speed > 0.0:
            for k in _shared(its):
                left[room[k]] -= speed * nbytes[k]
            for k in _own(its):
                fits &= capacities[k] - speed * nbytes[k] >= -0.5 * DUST * capacities[k]
    for r in range(count):
        fits &= left[r] >= -0.5 * DUST * whole[r]
    return fits


@in_place
def find_factor(crossings, shares, base):
    """Return the largest x for which ``base + x * shares`` fits; inf if nothing limits it.

    An empty `base` stands for zeros.
    """
    legs = crossings.legs
    nbytes, capacities, room = legs.nbytes, legs.capacity, legs.room
    count = crossings.counts[_ROOMS]
    left, whole = crossings.rooms.left[:count], crossings.rooms.capacity[:count]
    without = crossings.rooms.without[:count]
    _find_left(crossings, base)
    for r in range(count):
        without[r] = whole[r]
    x = np.inf
    for c in range(len(shares)):
        its = crossings.known[c]
        speed = _speed(shares[c], its.gamma)
        if speed <= 0.0:
            continue
        for k in _shared(its):
            without[room[k]] -= speed * nbytes[k]
        before = _speed(base[c], its.gamma) if len(base) else 0.0
        for k in _own(its):
            capacity = capacities[k]
            used = capacity - (capacity - speed * nbytes[k])
            if used > DUST * capacity:
                x = _least(x, max(capacity - before * nbytes[k], 0.0), used)
    for r in range(count):
        used = whole[r] - without[r]
        if used > DUST * whole[r]:
            x = _least(x, max(left[r], 0.0), used)
    return x if x >= DUST else 0.0


@in_place
def add_greedily(crossings, order, limit, shares):
    """Add the largest share up to `limit` that still fits to `shares`, in `order`.

    Return whether the given `shares` fitted, so that the new shares fit as well. If not, the caller
    must check the new shares.
    """
    nbytes, room = crossings.legs.nbytes, crossings.legs.room
    left = crossings.rooms.left
    fits = _find_left(crossings, shares)
    for c in order:
        if limit[c] < DUST:
            continue
        its = crossings.known[c]
        speed = 1.0 / its.gamma if its.gamma > 0.0 else 0.0
        x = _largest(crossings, its, speed, _speed(shares[c], its.gamma), limit[c])
        if x < DUST:
            continue
        shares[c] += x
        for k in _shared(its):
            left[room[k]] -= x * speed * nbytes[k]
    return fits


@inlined
def _largest(crossings, its, speed, before, limit):
    """Return the largest share up to `limit` that a coflow can add to its speed `before`.

    If it is under `DUST`, it may be too large.
    """
    legs = crossings.legs
    nbytes, capacities, room = legs.nbytes, legs.capacity, legs.room
    left = crossings.rooms.left
    x = limit
    for k in _shared(its):
        rate = speed * nbytes[k]
        if rate > 0.0:
            x = min(x, left[room[k]] / rate)
            if x < DUST:
                first = np.uint64(its.load)  # this link will be looked at first, next time
                nbytes[first], nbytes[k] = nbytes[k], nbytes[first]
                room[first], room[k] = room[k], room[first]
                return x
    for k in _own(its):
        rate = speed * nbytes[k]
        if rate > 0.0:
            x = min(x, (capacities[k] - before * nbytes[k]) / rate)
    return x


# --- blocks of the view --------------------------------------------------------------------
@compiled
def open_flows(coflows, flows):
    """Return the positions of the unfinished flows, and the coflow of each."""
    count = 0
    for c in range(len(coflows)):
        count += coflows[c].open
    index = np.empty(count, np.int64)
    owner = np.empty(count, np.int64)
    i = 0
    for c in range(len(coflows)):
        row = coflows[c]
        # In step, the flows of a coflow that has ended still have bytes, until that is noticed.
        for f in range(row.flow, row.flow + (row.flows if row.open > 0 else 0)):
            if flows[f].remaining > 0.0:
                index[i] = f
                owner[i] = c
                i += 1
    return index, owner


@compiled
def job_attained(coflows, jobs):
    """Return, per coflow, the bytes that its job has sent, active coflows included."""
    attained = np.empty(len(coflows))
    for c in range(len(coflows)):
        job = jobs[coflows[c].job]
        job.sent = job.attained
    for c in range(len(coflows)):
        row = coflows[c]
        jobs[row.job].sent += row.total - row.base * row.left
    for c in range(len(coflows)):
        attained[c] = np.rint(jobs[coflows[c].job].sent)
    return attained


@compiled
def lp_rates(coflows, flows, shares):
    """Return share times remaining/gamma for each unfinished flow."""
    count = 0
    for c in range(len(coflows)):
        count += coflows[c].open
    rates = np.zeros(count)
    i = 0
    for c in range(len(coflows)):
        row = coflows[c]
        speed = shares[c] / row.gamma
        for f in range(row.flow, row.flow + row.flows):
            if flows[f].remaining > 0.0:
                rates[i] = speed * flows[f].remaining
                i += 1
    return rates


@compiled
def common_factor(coflows, loads, shares, base, capacity, crossings):
    """Return the largest x for which ``base + x * shares`` fits; inf if nothing limits it.

    `crossings` must be empty.
    """
    take_in(crossings, coflows, loads, capacity)
    return find_factor(crossings, shares, base)


@compiled
def greedy(coflows, loads, order, limit, base, capacity, crossings):
    """Add to `base`, in `order`, the largest share up to `limit` that still fits.

    `crossings` must be empty.
    """
    take_in(crossings, coflows, loads, capacity)
    shares = base.copy()
    add_greedily(crossings, order, limit, shares)
    return shares


@compiled
def crossing_in(coflows, flows, rates, ahead, near):
    """Return in how many seconds each coflow will have sent `ahead` more bytes; inf if never.

    Each unfinished flow sends at its constant rate until it ends. A coflow that stops sending when
    it lacks no more than `near` bytes counts as if it had sent them.
    """
    first = 0
    found = np.full(len(coflows), np.inf)
    for c in range(len(coflows)):
        row = coflows[c]
        if ahead[c] < np.inf:
            found[c] = _crossing_in(row, flows, rates[first:first + row.open], ahead[c], near[c])
        first += row.open
    return found


@inlined
def _crossing_in(row, flows, rates, ahead, near):
    # What is sent is concave in time: from an instant that is too early, the line through its
    # slope leads to a later one, and never past the crossing.
    at, ended = 0.0, -1
    while True:
        sent, speed, over, last = 0.0, 0.0, 0, 0.0
        i = 0
        for f in range(row.flow, row.flow + row.flows):
            left = flows[f].remaining * row.left
            if flows[f].remaining <= 0.0:
                continue
            if rates[i] > 0.0 and ended >= 0 and left <= rates[i] * at:
                sent += left
                over += 1
                last = max(last, left / rates[i])
            else:
                speed += rates[i]
            i += 1
        if over == ended:
            return at
        if speed <= 0.0:
            return last if ahead - sent <= near else np.inf
        at, ended = max((ahead - sent) / speed, at), over


@compiled
def stretch_flows(coflows, flows, hops, rates, capacity):
    """Return each rate times the smallest capacity/load among the flow's links."""
    used = np.zeros(len(capacity))
    i = 0
    for c in range(len(coflows)):
        row = coflows[c]
        for f in range(row.flow, row.flow + row.flows):
            if flows[f].remaining > 0.0:
                for h in range(flows[f].hop, flows[f].hop + flows[f].hops):
                    used[hops[h].link] += rates[i]
                i += 1
    stretched = rates.copy()
    i = 0
    for c in range(len(coflows)):
        row = coflows[c]
        for f in range(row.flow, row.flow + row.flows):
            if flows[f].remaining > 0.0:
                factor = np.inf
                for h in range(flows[f].hop, flows[f].hop + flows[f].hops):
                    link = hops[h].link
                    if used[link] > 0.0:
                        factor = min(factor, capacity[link] / used[link])
                if factor < np.inf:
                    stretched[i] *= factor
                i += 1
    return stretched
