"""Coflows whose flows keep in proportion, at shares of their LP rates: an engine of the event loop.

At share 1 a coflow sends at remaining/gamma and fills its effective bottleneck. Shares come from a
compiled rule, or from a Python policy that is asked ahead of the clock.

A link that only one coflow crosses needs no entry of its own: among several such links with the
same capacity and bytes, one is enough. Only links that several coflows cross are stored, and these
are numbered separately. So the time of a decision depends on how often coflows meet, not on the
size of the network.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels import in_place, inlined, row_type
from netsim.fabric.kernels.loop import POLICY, REFUSED, WAITS, loop_of, write_nothing
from netsim.fabric.kernels.progress import (
    advance_in_step,
    apply_shares,
    copy_rows,
    refresh,
    row_of,
)
from netsim.fabric.kernels.rules import (
    LIMIT,
    MOST,
    NO_ORDER,
    OTHERS,
    SCRATCH,
    SEQUENCE,
    SHARE,
    SOUND,
    SPARE,
    UNSTRETCHED,
    WRITTEN,
    RuleState,
    decide,
    sent_by,
)
from netsim.fabric.records import DUST

#: Above the rounding errors of one product, and of the quotient that it stands for.
_ABOVE_ONE = 1.0 + 1e-15

#: Numbers of ``coflows``, of shared ``links``, and of those among these that are ``unused``.
_COUNTS = row_type([("coflows", "i8"), ("links", "i8"), ("unused", "i8")])

#: An active coflow: the loads from ``load`` on are those of ``shared`` links, then ``own`` ones, no
#: two alike, out of ``loads``; ``unsorted`` is 1 if they must be sorted again. ``key`` and
#: ``gamma`` are copies from its row, which is seven times as long: every decision goes through all.
_COFLOW = row_type([("key", "i8"), ("gamma", "f8"), ("load", "i8"), ("loads", "i4"),
                    ("shared", "i4"), ("own", "i4"), ("unsorted", "i4")])

#: A link: how many ``coflows`` cross it, the sum of their ``keys``, and its ``number`` among shared
#: links, or -1. ``unused`` has nothing to do with it: in the n-th row, the n-th number not in use.
_LINK = row_type([("coflows", "i8"), ("keys", "i8"), ("number", "i8"), ("unused", "i8")])

#: Rows of `SharedLinks.loads`: the bytes that a coflow has to send over a link, and the capacity of
#: the link, if no other coflow crosses it.
_NBYTES, _CAPACITY = range(2)

#: Rows of `SharedLinks.rates`, in bytes per second: the capacities of shared links, what is free
#: on them, and what shares to be stretched leave of them, without all others.
_WHOLE, _FREE, _WITHOUT = range(3)


class SharedLinks(NamedTuple):
    """The links that coflows have in common."""

    counts: NDArray[Any]  #: of _COUNTS, shape (1,)
    coflows: NDArray[Any]  #: of _COFLOW: the active coflows, by key
    links: NDArray[Any]  #: of _LINK
    #: By row, not by load: every decision goes through all of one row.
    loads: NDArray[np.float64]
    #: The number of the link of each load, if it is shared; unsigned, because Numba checks signed
    #: indices for negative values.
    numbers: NDArray[np.uint32]
    rates: NDArray[np.float64]

    def __deepcopy__(self, memo: dict[int, Any]) -> SharedLinks:
        """Return empty ones of the same size, as a copied table has its own rows."""
        return new_shared_links(len(self.coflows), len(self.numbers), len(self.links))


class ProportionalState(NamedTuple):
    """A rule at work, and the links on which its coflows compete."""

    rule: RuleState
    shared: SharedLinks
    used: NDArray[np.float64]  #: bytes per second on each link


def new_shared_links(coflows: int, loads: int, links: int) -> SharedLinks:
    """Return empty shared links with space for this number of coflows and loads."""
    rows = np.zeros(links, _LINK)
    rows["number"] = -1
    return SharedLinks(np.zeros(1, _COUNTS), np.empty(coflows, _COFLOW), rows,
                       np.empty((2, loads)), np.empty(loads, np.uint32), np.empty((3, links)))


# --- which coflows share which links -------------------------------------------------------
@in_place
def update(shared, coflows, loads, capacity):
    """Update which coflows are active, and their gammas.

    Keys of new coflows are larger than all before.
    """
    mine, counts = shared.coflows, shared.counts[0]
    _remove_ended(shared, coflows, loads)
    for c in range(counts.coflows, len(coflows)):
        its, row = mine[c], coflows[c]
        its.key, its.gamma = row.key, row.gamma
        its.load, its.loads, its.unsorted = row.load, row.loads, 1
        counts.coflows = c + 1
        for k in range(its.load, its.load + its.loads):
            _enter(shared, loads[k].link, its.key, capacity)
    for c in range(len(coflows)):
        if mine[c].unsorted:
            _sort_loads(shared, mine[c], loads, capacity)


@inlined
def _remove_ended(shared, coflows, loads):
    """Remove the coflows that are no longer active."""
    mine, links, counts = shared.coflows, shared.links, shared.counts[0]
    kept = 0
    for c in range(counts.coflows):  # both are in order of keys
        if kept < len(coflows) and coflows[kept].key == mine[c].key:
            if kept < c:
                copy_rows(mine, kept, mine, c, 1)
            mine[kept].gamma = coflows[kept].gamma
            kept += 1
            continue
        for k in range(mine[c].load, mine[c].load + mine[c].loads):
            link = links[loads[k].link]
            link.coflows -= 1
            link.keys -= mine[c].key
            # With one coflow left it may stay shared, because another coflow often follows. The
            # rates are the same to the last bit, and the loads need not be sorted again.
            if link.coflows == 0 and link.number >= 0:
                links[counts.unused].unused = link.number
                link.number = -1
                counts.unused += 1
    counts.coflows = kept


@inlined
def _enter(shared, k, key, capacity):
    """Count a coflow on a link; number the link if this is the second coflow and it has none."""
    link, counts = shared.links[k], shared.counts[0]
    link.coflows += 1
    link.keys += key
    if link.coflows == 2 and link.number < 0:
        mine = shared.coflows[:counts.coflows]
        mine[row_of(mine, link.keys - key)].unsorted = 1
        if counts.unused > 0:
            counts.unused -= 1
            link.number = shared.links[counts.unused].unused
        else:
            link.number = counts.links
            counts.links += 1
        shared.rates[_WHOLE, link.number] = capacity[k]


@inlined
def _sort_loads(shared, its, loads, capacity):
    """Sort a coflow's loads: those of shared links first, then one of each kind of its own."""
    links, numbers = shared.links, shared.numbers
    nbytes, capacities = shared.loads[_NBYTES], shared.loads[_CAPACITY]
    its.shared = its.own = its.unsorted = 0
    for k in range(its.load, its.load + its.loads):
        number = links[loads[k].link].number
        if number >= 0:
            to = its.load + its.shared
            nbytes[to], numbers[to] = loads[k].nbytes, number
            its.shared += 1
    first = its.load + its.shared
    for k in range(its.load, its.load + its.loads):
        link = loads[k].link
        if links[link].number < 0:
            to = first + its.own
            if (its.own == 0 or nbytes[to - 1] != loads[k].nbytes
                    or capacities[to - 1] != capacity[link]):
                nbytes[to], capacities[to] = loads[k].nbytes, capacity[link]
                its.own += 1


# --- shares ------------------------------------------------------------------------------
@inlined
def _speed(share, gamma):
    """Return the fraction of its bytes that a coflow sends per second at a share."""
    return share / gamma if share > 0.0 and gamma > 0.0 else 0.0


@inlined
def _least(x, free, need):
    """Return ``min(x, free / need)``, for a positive need, without dividing where x stays."""
    return x if free >= x * need * _ABOVE_ONE else min(x, free / need)


@inlined
def _shared(its):
    """Return the range of a coflow's loads of shared links, unsigned as their numbers are."""
    return range(np.uint64(its.load), np.uint64(its.load + its.shared))


@inlined
def _own(its):
    """Return the range of a coflow's loads of its own links."""
    first = its.load + its.shared
    return range(np.uint64(first), np.uint64(first + its.own))


@in_place
def _find_free(shared, shares):
    """Compute what coflows leave of each shared link at these shares; return whether these fit.

    They fit if no link is overloaded by more than half of `DUST`.
    """
    nbytes, capacities, numbers = shared.loads[_NBYTES], shared.loads[_CAPACITY], shared.numbers
    count = shared.counts[0].links
    free, whole = shared.rates[_FREE][:count], shared.rates[_WHOLE][:count]
    for n in range(count):
        free[n] = whole[n]
    fits = True
    for c in range(len(shares)):
        its = shared.coflows[c]
        speed = _speed(shares[c], its.gamma)
        if speed > 0.0:
            for k in _shared(its):
                free[numbers[k]] -= speed * nbytes[k]
            for k in _own(its):
                fits &= capacities[k] - speed * nbytes[k] >= -0.5 * DUST * capacities[k]
    for n in range(count):
        fits &= free[n] >= -0.5 * DUST * whole[n]
    return fits


@in_place
def find_factor(shared, shares, base):
    """Return the largest x for which ``base + x * shares`` fits; inf if nothing limits it.

    An empty `base` stands for zeros.
    """
    nbytes, capacities, numbers = shared.loads[_NBYTES], shared.loads[_CAPACITY], shared.numbers
    count = shared.counts[0].links
    free, whole = shared.rates[_FREE][:count], shared.rates[_WHOLE][:count]
    without = shared.rates[_WITHOUT][:count]
    _find_free(shared, base)
    for n in range(count):
        without[n] = whole[n]
    x = np.inf
    for c in range(len(shares)):
        its = shared.coflows[c]
        speed = _speed(shares[c], its.gamma)
        if speed <= 0.0:
            continue
        for k in _shared(its):
            without[numbers[k]] -= speed * nbytes[k]
        before = _speed(base[c], its.gamma) if len(base) else 0.0
        for k in _own(its):
            capacity = capacities[k]
            used = capacity - (capacity - speed * nbytes[k])
            if used > DUST * capacity:
                x = _least(x, max(capacity - before * nbytes[k], 0.0), used)
    for n in range(count):
        used = whole[n] - without[n]
        if used > DUST * whole[n]:
            x = _least(x, max(free[n], 0.0), used)
    return x if x >= DUST else 0.0


@in_place
def add_greedily(shared, order, limit, shares):
    """Add the largest share up to `limit` that still fits to `shares`, in `order`.

    Return whether the given `shares` fitted, so that the new shares fit as well. If not, the caller
    must check the new shares.
    """
    nbytes, numbers, free = shared.loads[_NBYTES], shared.numbers, shared.rates[_FREE]
    fits = _find_free(shared, shares)
    for c in order:
        if limit[c] < DUST:
            continue
        its = shared.coflows[c]
        speed = 1.0 / its.gamma if its.gamma > 0.0 else 0.0
        x = _largest(shared, its, speed, _speed(shares[c], its.gamma), limit[c])
        if x < DUST:
            continue
        shares[c] += x
        for k in _shared(its):
            free[numbers[k]] -= x * speed * nbytes[k]
    return fits


@inlined
def _largest(shared, its, speed, before, limit):
    """Return the largest share up to `limit` that a coflow can add to its speed `before`.

    If it is under `DUST`, it may be too large.
    """
    nbytes, capacities, numbers = shared.loads[_NBYTES], shared.loads[_CAPACITY], shared.numbers
    free = shared.rates[_FREE]
    x = limit
    for k in _shared(its):
        rate = speed * nbytes[k]
        if rate > 0.0:
            x = min(x, free[numbers[k]] / rate)
            if x < DUST:
                first = np.uint64(its.load)  # this link will be looked at first, next time
                nbytes[first], nbytes[k] = nbytes[k], nbytes[first]
                numbers[first], numbers[k] = numbers[k], numbers[first]
                return x
    for k in _own(its):
        rate = speed * nbytes[k]
        if rate > 0.0:
            x = min(x, (capacities[k] - before * nbytes[k]) / rate)
    return x


# --- from the answer of a rule to shares ---------------------------------------------------
@in_place
def share_out(engine, count):
    """Compute the share of each of `count` coflows from a rule's answer, in place of that.

    The shared links must be up to date. Return whether the shares are known to fit all links; if
    not, the caller must check.
    """
    rule, form = engine.rule, engine.rule.form[0]
    share, most = rule.values[SHARE][:count], rule.values[MOST][:count]
    sequence, scratch = rule.lists[SEQUENCE][:count], rule.values[SCRATCH][:count]
    if form.by_place:
        _hand_out(share, sequence, scratch)
        _hand_out(most, sequence, scratch)
    if form.stretch != UNSTRETCHED:
        _stretch(engine.shared, share, form.stretch == OTHERS, scratch)
    any_positive = False
    for c in range(count):
        any_positive |= most[c] > 0.0
    return any_positive and add_greedily(engine.shared, sequence, most, share)


@in_place
def _hand_out(values, sequence, scratch):
    """Give the k-th value to the k-th coflow in order."""
    alike = True
    for k in range(len(values)):
        scratch[k] = values[k]
        alike &= values[k] == values[0]
    if not alike:
        for k in range(len(values)):
            values[sequence[k]] = scratch[k]


@inlined
def _stretch(shared, share, of_others, scratch):
    """Scale all shares, or those of coflows without one, by the largest factor that fits."""
    if of_others:
        for c in range(len(share)):
            scratch[c] = 1.0 if share[c] == 0.0 else 0.0
        factor = min(find_factor(shared, scratch, share), 1.0)
        for c in range(len(share)):
            share[c] += scratch[c] * factor
        return
    factor = find_factor(shared, share, scratch[:0])
    greatest = 0.0
    for c in range(len(share)):
        # A coflow that needs a dead link does not move at any factor.
        if shared.coflows[c].gamma < np.inf:
            greatest = max(greatest, share[c])
    factor = min(factor, 1.0 / greatest) if greatest > 0.0 else 1.0
    for c in range(len(share)):
        share[c] *= factor


@inlined
def _is_order(sequence, named):
    """Whether a sequence contains each coflow once."""
    named[:] = 0
    for c in sequence:
        if not 0 <= c < len(sequence) or named[c]:
            return False
        named[c] = 1
    return True


# --- what the loop calls ---------------------------------------------------------------
@inlined
def _find_rates(engine, coflows, jobs, arrays, capacity, loop):
    """Have the rule decide; return `REFUSED` if its answer is invalid, `POLICY` to ask Python."""
    count, rule, form = len(coflows), engine.rule, engine.rule.form[0]
    loop.decides = count > 0
    if count == 0:
        return WAITS
    asks_python = rule.function is None
    if asks_python and not form.answered:
        loop.decides = False
        return POLICY
    flows, hops, loads = arrays
    refresh(coflows, flows, hops, loads, capacity)
    update(engine.shared, coflows, loads, capacity)
    if asks_python:
        form.answered = 0
        fits = _is_order(rule.lists[SEQUENCE][:count], rule.lists[SPARE][:count])
        loop.link = SOUND if fits else NO_ORDER
    else:
        loop.link = decide(rule, coflows, jobs, loop.now)
    if loop.link == SOUND:
        fits = share_out(engine, count)
        _, loop.link = apply_shares(coflows, loads, rule.values[SHARE], capacity, engine.used,
                                    loop.now, form.check == 1 and not fits)
    return WAITS if loop.link == SOUND else REFUSED


@in_place
def _find_end(engine, coflows, loop):
    """Find the next end of a coflow, and the next call of the rule; see `loop.find_end`."""
    limit, wake_at = engine.rule.values[LIMIT], engine.rule.scalars[WRITTEN, 0]
    loop.end = np.inf
    wakes_in = wake_at - loop.now
    for c in range(len(coflows)):
        row = coflows[c]
        if row.open > 0:
            loop.end = min(loop.end, row.finish)
            if limit[c] < np.inf and row.speed > 0.0:
                ahead = limit[c] - sent_by(row)
                wakes_in = min(wakes_in, max(ahead, 0.0) / (row.base * row.speed))
    loop.dt = loop.end - loop.now
    engine.rule.form[0].wakes_in = wakes_in


@inlined
def _limit_in(engine):
    """Return in how many seconds the rule must be called again; see `loop.limit_in`."""
    return engine.rule.form[0].wakes_in


@in_place
def _advance(_engine, coflows, arrays, _capacity, dt, now, slack, loop, finished, carried):
    """Move bytes for `dt` seconds; see `loop.advance`."""
    advance_in_step(coflows, arrays.loads, dt, now, slack, carried)
    loop.finished = 0
    for c in range(len(coflows)):
        if coflows[c].open == 0:
            finished[loop.finished] = c
            loop.finished += 1


@inlined
def _join(_engine, _coflows, _arrays):
    """Return True: the engine works on the rows themselves."""
    return True


@inlined
def _leave(_engine, _coflows, _arrays, _loop):
    """Do nothing: the rows are up to date."""


_functions = {"find_rates": _find_rates, "find_end": _find_end, "limit_in": _limit_in,
              "advance": _advance, "write_rows": write_nothing, "join": _join, "leave": _leave}

#: See `loop_of`; by a rule, and by a policy that is asked in Python, without one.
run, run_ahead = loop_of("proportional", **_functions), loop_of("ahead", **_functions)
