"""Compiled greedy service of flows in order: an engine of the event loop.

Each flow in order takes all that its links have left. Little changes when a flow ends: flows behind
it on its links may get more, which leaves less to those behind them on their other links, and so
on. The engine follows these changes in order, link by link, and visits nothing else. Each step
gives every flow the rate of `ordered.greedy_flows`.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.by_reference import by_reference
from netsim.fabric.kernels import compiled, in_place
from netsim.fabric.kernels.greedy_changes import follow, mark, note, promote
from netsim.fabric.kernels.greedy_rows import (
    MOVED,
    STALE,
    Greedy,
    copy_rows,
    find_rows,
    write_back,
)
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

#: A new copy is made once more than one in this many of its flows has ended.
_MOST_GONE = 3


@compiled
def begin(coflows, flows, hops, capacity, order, by_size):
    """Return a copy of the rows with rates for all flows."""
    engine = copy_rows(coflows, flows, hops, capacity, order, by_size)
    _serve_all(by_reference(engine))
    return engine


@compiled
def resume(engine, coflows, flows, order, by_size):
    """Update a copy from its rows; return whether it can be used, because the order is the same.

    By size it never can: sizes that differ by less than `DUST` might be ranked differently when
    ranked step by step. Rates only change where flows have ended, as only flows with a rate end.
    """
    engine = by_reference(engine)
    state, senders = engine.state[0], engine.senders
    if by_size or state.by_size or not find_rows(engine, coflows, order):
        return False
    passed = state.ended > 0
    for i in engine.moving[:state.moving]:
        sender = senders[i]
        if sender.left == 0.0:  # it is among those that have ended
            continue
        engine.groups[sender.owner].moved = 1
        sender.row = STALE
        remaining = flows[sender.flow].remaining
        passed |= sender.left != remaining
        sender.left = max(remaining, 0.0)
        if sender.left == 0.0:
            engine.ended[state.ended] = i
            state.ended += 1
    if passed:
        _serve_on(engine)
    return True


# --- what the loop calls ---------------------------------------------------------------


def _find_rates(engine, coflows, _jobs, _pools, _capacity, state):
    """Serve flows again after some have ended; return `REDO` if a new copy is worthwhile."""
    mine, senders, groups = engine.state[0], engine.senders, engine.groups
    if mine.ended:
        if _MOST_GONE * (mine.gone + mine.ended) > len(engine.moving):
            return REDO
        _serve_on(engine)
    for i in engine.moving[:mine.moving]:
        if senders[i].row != MOVED:
            senders[i].row = MOVED
            group = groups[senders[i].owner]
            group.moved = 1
            mark_started(coflows[group.row], state)
    return WAITS


def _find_end(engine, _coflows, state):
    """Find when the next flow ends; see `loop.find_end`."""
    dt, senders = np.inf, engine.senders
    for i in engine.moving[:engine.state[0].moving]:
        sender = senders[i]
        if 0.0 < sender.left < dt * sender.rate:
            dt = sender.left / sender.rate
    state.dt, state.end = dt, state.now + dt


def _advance(engine, coflows, pools, _capacity, dt, now, slack, state, finished, carried):
    """Move bytes for `dt` seconds; see `loop.advance`."""
    senders, crossings, mine = engine.senders, engine.crossings, engine.state[0]
    groups, ended = engine.groups, engine.ended
    for i in engine.moving[:mine.moving]:
        sender = senders[i]
        before = sender.left
        if before == 0.0:  # it has ended, which is not noticed yet
            continue
        sender.left -= sender.rate * dt
        if sender.left <= sender.floor + sender.rate * slack:
            sender.left = 0.0
            ended[mine.ended] = i
            mine.ended += 1
            end_flow(coflows, groups[sender.owner].row, pools[0][sender.flow], now, state,
                     finished)
        if len(carried):
            for h in range(crossings.shape[1]):
                if crossings[i, h].link < len(carried):
                    carried[crossings[i, h].link] += before - sender.left


def _leave(engine, coflows, pools, state):
    """Write bytes to the rows, and also rates unless new ones are about to be set."""
    in_force = state.reason == WAITS or state.only_moves == 1
    if not in_force and state.reason != REDO and engine.state[0].ended:
        _serve_on(engine)
    write_back(engine, coflows, pools[0], state.now, 1.0 if in_force else 0.0)


# --- one step --------------------------------------------------------------------------


@in_place
def _serve_on(engine):
    """Update the rates of all flows that the end of some flows changes."""
    state, crossings = engine.state[0], engine.crossings
    if state.by_size:
        promote(engine)
    for i in engine.ended[:state.ended]:
        for h in range(crossings.shape[1]):
            note(engine, i, h, crossings[i, h].place)
    state.gone += state.ended
    state.ended = 0
    follow(engine)


@in_place
def _serve_all(engine):
    """Give each flow, in order, what its links have left; put those that move first in the list."""
    senders, crossings, links, moving = (engine.senders, engine.crossings, engine.links,
                                         engine.moving)
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
            mark(engine, i, 0.0)
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
    engine.state[0].moving = count


register(Greedy, Engine(_find_rates, _find_end, never, _advance, write_nothing, join_never,
                        _leave))
