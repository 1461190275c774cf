"""Compiled greedy service of flows in order: an engine of the event loop.

Each flow in order takes all that its links have left. Little changes when a flow ends: flows behind
it on its links may get more, which leaves less to those behind them on their other links, and so
on. The engine follows these changes in order, link by link, and visits nothing else. Each step
gives every flow the rate of `ordered.greedy_flows`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.by_reference import by_reference
from netsim.fabric.kernels import compiled, in_place, inlined
from netsim.fabric.kernels.greedy_changes import follow, mark, note, promote
from netsim.fabric.kernels.greedy_rows import MOVED, STALE, copy_rows, find_rows, write_back
from netsim.fabric.kernels.loop import (
    REDO,
    WAITS,
    Engine,
    end_flow,
    join_never,
    never,
    register,
    write_nothing,
)
from netsim.fabric.kernels.progress import mark_started

__all__ = ["Greedy", "begin", "resume"]

#: How many flows of a copy move, how many have ended, how many of these are still listed as moving,
#: and whether flows go by the bytes that they have left.
_MOVING, _GONE, _ENDED, _BY_SIZE = 0, 1, 2, 3


#: A copy is made anew once more than one in so many of its flows has ended.
_MOST_GONE = 3


class Greedy(NamedTuple):
    """The unfinished flows in service order, and which of them have a rate (*move*).

    Attributes
    ----------
    groups, senders, crossings, links, members, moving, ended, changes : ndarray
        See `greedy_rows.copy_rows`.
    waiting : ndarray of int, shape (flows * (1 + most links on a path),)
        Space for the flows that are about to go ahead of others.
    tallies : ndarray of int, shape (4,)
        As named above.
    """

    groups: NDArray[Any]
    senders: NDArray[Any]
    crossings: NDArray[Any]
    links: NDArray[Any]
    members: NDArray[Any]
    moving: NDArray[np.int64]
    ended: NDArray[np.int64]
    changes: NDArray[Any]
    waiting: NDArray[np.int32]
    tallies: NDArray[np.int64]


@compiled
def begin(coflows, flows, hops, capacity, order, by_size):
    """Return a copy of the rows with rates for all flows."""
    groups, senders, crossings, links, members, moving, ended, changes = copy_rows(
        coflows, flows, hops, capacity, order, by_size)
    tallies = np.zeros(4, np.int64)
    tallies[_MOVING] = _serve_all(senders, crossings, links, members, moving)
    tallies[_BY_SIZE] = by_size
    waiting = np.empty(crossings.shape[0] * (1 + crossings.shape[1]), np.int32)
    return Greedy(groups, senders, crossings, links, members, moving, ended, changes, waiting,
                  tallies)


@compiled
def resume(engine, coflows, flows, order, by_size):
    """Update a copy from its rows; return whether it can be used, because the order is the same.

    By size it never can: sizes that differ by less than `DUST` might be ranked differently when
    ranked step by step. Rates only change where flows have ended, as only flows with a rate end.
    """
    engine = by_reference(engine)
    tallies, senders = engine.tallies, engine.senders
    if by_size or tallies[_BY_SIZE] or not find_rows(engine.groups, coflows, order):
        return False
    passed = tallies[_ENDED] > 0
    for i in engine.moving[:tallies[_MOVING]]:
        sender = senders[i]
        if sender.left == 0.0:  # it is among those that have ended
            continue
        engine.groups[sender.owner].moved = 1
        sender.row = STALE
        remaining = flows[sender.flow].remaining
        passed |= sender.left != remaining
        sender.left = max(remaining, 0.0)
        if sender.left == 0.0:
            engine.ended[tallies[_ENDED]] = i
            tallies[_ENDED] += 1
    if passed:
        _serve_on(engine)
    return True


# --- what the loop calls ---------------------------------------------------------------


def _find_rates(engine, coflows, _jobs, _pools, _capacity, state):
    """Serve flows again after some have ended; return `REDO` if a new copy is worthwhile."""
    if engine.tallies[_ENDED]:
        if _MOST_GONE * (engine.tallies[_GONE] + engine.tallies[_ENDED]) > len(engine.moving):
            return REDO
        _serve_on(engine)
    senders, groups = engine.senders, engine.groups
    for i in engine.moving[:engine.tallies[_MOVING]]:
        if senders[i].row != MOVED:
            senders[i].row = MOVED
            group = groups[senders[i].owner]
            group.moved = 1
            mark_started(coflows[group.row], state)
    return WAITS


def _find_end(engine, _coflows, state):
    """Find when the next flow ends; see `loop.find_end`."""
    dt, senders = np.inf, engine.senders
    for i in engine.moving[:engine.tallies[_MOVING]]:
        sender = senders[i]
        if 0.0 < sender.left < dt * sender.rate:
            dt = sender.left / sender.rate
    state.dt, state.end = dt, state.now + dt


def _advance(engine, coflows, pools, _capacity, dt, now, slack, state, finished, carried):
    """Let `dt` seconds pass; see `loop.advance`."""
    senders, crossings, tallies = engine.senders, engine.crossings, engine.tallies
    groups, ended = engine.groups, engine.ended
    for i in engine.moving[:tallies[_MOVING]]:
        sender = senders[i]
        before = sender.left
        if before == 0.0:  # it has ended, which is not noticed yet
            continue
        sender.left -= sender.rate * dt
        if sender.left <= sender.floor + sender.rate * slack:
            sender.left = 0.0
            ended[tallies[_ENDED]] = i
            tallies[_ENDED] += 1
            end_flow(coflows, groups[sender.owner].row, pools[0][sender.flow], now, state,
                     finished)
        if len(carried):
            for h in range(crossings.shape[1]):
                if crossings[i, h].link < len(carried):
                    carried[crossings[i, h].link] += before - sender.left


def _leave(engine, coflows, pools, state):
    """Write bytes to the rows, and also rates unless new ones are about to be set."""
    in_force = state.reason == WAITS or state.only_moves == 1
    if not in_force and state.reason != REDO and engine.tallies[_ENDED]:
        _serve_on(engine)
    write_back(coflows, pools[0], engine.groups, engine.senders, state.now,
               1.0 if in_force else 0.0)


# --- one step --------------------------------------------------------------------------


@in_place
def _serve_on(engine):
    """Update the rates of all flows that the end of some flows changes."""
    senders, crossings, links, members = (engine.senders, engine.crossings, engine.links,
                                          engine.members)
    moving, changes, tallies = engine.moving, engine.changes, engine.tallies
    by_size = tallies[_BY_SIZE] == 1
    found = 0
    count = tallies[_MOVING]
    if by_size:
        found = promote(senders, crossings, links, members, moving[:count], engine.waiting, changes)
    for i in engine.ended[:tallies[_ENDED]]:
        for h in range(crossings.shape[1]):
            found = note(senders, crossings, links, i, h, crossings[i, h].place, by_size,
                         changes, found)
    tallies[_GONE] += tallies[_ENDED]
    tallies[_ENDED] = 0
    tallies[_MOVING] = follow(senders, crossings, links, members, by_size, changes, found,
                              moving, count)


@inlined
def _serve_all(senders, crossings, links, members, moving):
    """Give each flow, in order, what its links have left; return how many flows have a rate.

    These flows are put first in the list.
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
            mark(i, 0.0, crossings, links, members)
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


register(Greedy, Engine(_find_rates, _find_end, never, _advance, write_nothing, join_never,
                        _leave))
