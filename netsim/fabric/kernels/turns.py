"""One job first, the others behind it: what `Turns` says, as an engine of the event loop.

The policies that say so have the same in NumPy, for one decision; the tests hold one against the
other.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.blocks import add_greedily, find_factor, sum_attained
from netsim.fabric.kernels.loop import REFUSED, WAITS, Engine, never, register
from netsim.fabric.kernels.progress import advance_in_step, apply_shares, refresh
from netsim.ties import EQUAL

__all__ = ["Room", "Ruled", "decide"]


class Room(NamedTuple):
    """Arrays to work in, one value per coflow."""

    shares: NDArray[np.float64]
    limit: NDArray[np.float64]
    attained: NDArray[np.float64]
    key: NDArray[np.float64]
    order: NDArray[np.int64]
    spare: NDArray[np.int64]


class Ruled(NamedTuple):
    """Coflows in step, at shares that a rule decides.

    Attributes
    ----------
    rule, room, links : tuple, Room, ndarray of float
        As for `decide`.
    used : ndarray of float, shape (links,)
        Bytes per second that each link carries.
    check : bool
        Whether to check allocations.
    """

    rule: Any
    room: Room
    links: NDArray[np.float64]
    used: NDArray[np.float64]
    check: bool

AVERAGE, ATTAINED, COMPLETED, AHEAD = 0, 1, 2, 3
NONE, UNIFORM, BACKFILL, GREEDY, CAPPED, SHARED_UNIFORM = 0, 1, 2, 3, 4, 5


@in_place
def decide(coflows, jobs, loads, capacity, rule, room, links):
    """Find the share of each coflow, in ``room.shares``; see `netsim.fabric.turns.Turns`.

    Parameters
    ----------
    coflows, jobs, loads : ndarray of COFLOW, JOB, LOAD
    rule : (int, int, float)
        By what jobs are ordered, what becomes of the rest, and the most that the first gets.
    room : Room
        Arrays to work in, of a value per coflow at least.
    links : ndarray of float, shape (2, links)
        Likewise.
    """
    by, rest, most = rule
    count = len(coflows)
    shares, limit, attained = room.shares[:count], room.limit[:count], room.attained[:count]
    sum_attained(coflows, jobs, attained)
    _sort(coflows, jobs, by, attained, room)
    order = room.order[:count]
    first = order[0]
    if by != AVERAGE:
        for c in order:
            if coflows[c].gamma < np.inf:  # the first that needs no dead link
                first = c
                break
    others = 1.0 / max(count - 1, 1)
    if rest in (GREEDY, CAPPED):
        shares[:] = 0.0
        limit[:] = 1.0 if rest == GREEDY else others
        limit[first] = 1.0
        add_greedily(coflows, loads, order, limit, shares, capacity, links[0])
        return
    theta = _theta(attained, most) if by == AVERAGE else 1.0
    shares[:] = (1.0 - theta) / max(count - 1, 1) if by == AVERAGE else 0.0
    shares[first] = theta
    if rest == SHARED_UNIFORM and count > 1:
        limit[:] = 1.0
        limit[first] = 0.0
        factor = min(find_factor(coflows, loads, limit, shares, capacity, links[0], links[1]), 1.0)
        for c in range(count):
            shares[c] += limit[c] * factor
    if rest in (UNIFORM, BACKFILL):
        limit[:] = 0.0
        factor = find_factor(coflows, loads, shares, limit, capacity, links[0], links[1])
        greatest = 0.0
        for c in range(count):
            if coflows[c].gamma < np.inf:  # what needs a dead link does not move at any factor
                greatest = max(greatest, shares[c])
        factor = min(factor, 1.0 / greatest) if greatest > 0.0 else 1.0
        for c in range(count):
            shares[c] *= factor
    if rest == BACKFILL:
        limit[:] = 1.0
        add_greedily(coflows, loads, order, limit, shares, capacity, links[0])


@inlined
def _theta(attained, most):
    """Return the share of the first job (Parrot, Eq. 10); 1 where it is alone."""
    count = len(attained)
    if count == 1:
        return 1.0
    total = 0.0
    for c in range(count):
        total += attained[c]
    return min(most, (1.0 / count) ** (1.0 / (math.log(total + 1.0) + 1.0)))


@inlined
def _sort(coflows, jobs, by, attained, room):
    """Order coflows by key, bytes sent and job: runs are merged, of twice the length each time."""
    count = len(coflows)
    key = room.key[:count]
    for c in range(count):
        job = jobs[coflows[c].job]
        key[c] = 0.0
        if by == AVERAGE:
            key[c] = attained[c] / job.completed if job.completed > 0 else np.inf
        elif by == COMPLETED:
            key[c] = job.completed
        elif by == AHEAD:
            key[c] = job.ahead + coflows[c].gamma * coflows[c].left
            attained[c] = 0.0
    _sort_by(coflows, key, attained, room)
    if by == AHEAD and _merge_equal(room.order[:count], key):
        _sort_by(coflows, key, attained, room)


@in_place
def _sort_by(coflows, key, attained, room):
    count = len(coflows)
    now, then = room.order[:count], room.spare[:count]
    for c in range(count):
        now[c] = c
    run = 1
    while run < count:
        for start in range(0, count, 2 * run):
            _merge(now, then, start, min(start + run, count), min(start + 2 * run, count), coflows,
                   key, attained)
        now, then = then, now
        run *= 2
    for c in range(count):
        room.order[c] = now[c]


@inlined
def _merge_equal(order, key):
    """Make keys of a run the same, as `netsim.ties.merge_equal` does; say whether any differed."""
    changed = False
    last = key[order[0]]
    for k in range(1, len(order)):
        now = key[order[k]]
        if now == last or now - last <= EQUAL * min(abs(now), abs(last)):
            changed = changed or now != key[order[k - 1]]
            key[order[k]] = key[order[k - 1]]
        last = now
    return changed


@inlined
def _merge(now, then, start, middle, stop, coflows, key, attained):
    i, j = start, middle
    for k in range(start, stop):
        if j == stop or (i < middle and not _before(now[j], now[i], coflows, key, attained)):
            then[k] = now[i]
            i += 1
        else:
            then[k] = now[j]
            j += 1


@inlined
def _before(a, b, coflows, key, attained):
    if key[a] != key[b]:
        return key[a] < key[b]
    if attained[a] != attained[b]:
        return attained[a] < attained[b]
    return coflows[a].job < coflows[b].job


# --- what the loop calls ---------------------------------------------------------------


def _find_rates(engine, coflows, jobs, pools, capacity, state):
    """Decide by the rule; `REFUSED` if that overloads a link."""
    state.decides = len(coflows) > 0
    if not len(coflows):
        return WAITS
    flows, hops, loads = pools
    refresh(coflows, flows, hops, loads, capacity)
    decide(coflows, jobs, loads, capacity, engine.rule, engine.room, engine.links)
    _, state.link = apply_shares(coflows, loads, engine.room.shares, capacity, engine.used,
                                 state.now, engine.check)
    return WAITS if state.link == -1 else REFUSED


def _find_end(_engine, coflows, state):
    """Find when the next coflow ends; see `loop.find_end`."""
    state.end = np.inf
    for c in range(len(coflows)):
        if coflows[c].open > 0:
            state.end = min(state.end, coflows[c].finish)
    state.dt = state.end - state.now


def _advance(engine, coflows, pools, _capacity, dt, now, slack, state, finished, carried):
    """Let `dt` seconds pass; see `loop.advance`."""
    advance_in_step(coflows, pools[2], dt, now, slack, carried)
    state.finished = 0
    for c in range(len(coflows)):
        if coflows[c].open == 0:
            finished[state.finished] = c
            state.finished += 1


def _join(_engine, _coflows, _pools):
    """Take in all coflows: there is nothing to do."""
    return True


def _leave(_engine, _coflows, _pools, _state):
    """Leave the rows as they are: they say all."""


register(Ruled, Engine(_find_rates, _find_end, never, _advance, _join, _leave))
