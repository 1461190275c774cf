"""Compiled max-min fair sharing of all links among all flows, by weight: an engine of the loop.

A *sharing* (`sharing_parts.Parts`) is kept between decisions: flows join and leave it. While it is
in use, only it knows the bytes left of each flow; `settle` writes them to the rows.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.by_reference import by_reference
from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.filling import sooner
from netsim.fabric.kernels.loop import (
    WAITS,
    Engine,
    end_flow,
    never,
    register,
    write_nothing,
)
from netsim.fabric.kernels.progress import begin_row, mark_started, row_of, write_flow
from netsim.fabric.kernels.sharing_levels import find_levels
from netsim.fabric.kernels.sharing_parts import ALL, LONGEST, Parts
from netsim.fabric.kernels.sharing_rates import (
    begin,
    catch_up,
    forget_ends,
    holds,
    keep_ends,
    left_of,
    next_class,
    remember,
    set_rates,
)
from netsim.fabric.kernels.sharing_rows import add_coflows, leave
from netsim.fabric.kernels.sharing_table import drop_cell, split_anew

#: Classes in a piece: only in pieces where one ends, or may end next, each class is looked at.
_PIECE = 64


def _find_rates(parts, coflows, _jobs, pools, capacity, state):
    """Fill the links where flows have come or gone, and set the rates of tracked classes."""
    row = parts.state[0]
    row.now = state.now
    if not row.plain and (row.by_flow or row.stale):
        split_anew(parts, coflows)
    if row.stale:
        find_levels(parts, capacity)
        if row.waits > 0:
            _mark_started(parts, coflows, pools[0], pools[1], state)
        if row.moved == ALL:
            forget_ends(parts)
        else:
            catch_up(parts)
            keep_ends(parts)
    if holds(parts):
        set_rates(parts)
    else:
        catch_up(parts)
    if row.tracked == row.classes:
        begin(parts, state.now)
    state.decides &= row.classes > 0  # else no flow is left to share
    return WAITS


def _find_end(parts, _coflows, state):
    """Find when the next flow ends, among all once the stretch is over; see `loop.find_end`."""
    row = parts.state[0]
    if row.keeps_ends:
        _, end = next_class(parts)
        state.end = max(end, state.now)
        state.dt = state.end - state.now
        return
    dt = _soonest_tracked(parts)
    if row.tracked < row.classes and (state.now + dt > row.horizon or row.steps == LONGEST):
        catch_up(parts)
        dt = _soonest_tracked(parts)
    state.dt, state.end = dt, state.now + dt


@in_place
def _soonest_tracked(parts):
    count, head_left, rate = parts.state[0].tracked, parts.head_left, parts.rate
    soonest = np.inf
    for first in range(0, count, _PIECE):
        stop = min(first + _PIECE, count)
        soonest = sooner(head_left[first:stop], rate[first:stop], soonest)
    return soonest


def _join(parts, coflows, pools):
    """Add the coflows that the sharing does not have yet; return whether there was room."""
    catch_up(parts)
    return add_coflows(parts, coflows, pools[0], pools[1])


def _leave(parts, _coflows, _pools, _state):
    """Flush the progress of deferred classes before the loop returns."""
    catch_up(parts)


def _advance(parts, coflows, pools, capacity, dt, now, slack, state, finished, carried):
    """Move bytes for `dt` seconds; see `loop.advance`."""
    head_left, floor, rate, row = parts.head_left, parts.floor, parts.rate, parts.state[0]
    remember(parts, dt)
    if len(carried):
        _carry(parts, dt, carried)
    row.now = now
    if row.keeps_ends:
        _end_due(parts, coflows, pools[0], now, slack, state, finished)
        return
    count = row.tracked
    # From the last piece on: what takes the place of a class that ends has been looked at.
    for piece in range((count - 1) // _PIECE, -1, -1):
        first = piece * _PIECE
        stop = min(first + _PIECE, count)
        lefts, rates, floors = head_left[first:stop], rate[first:stop], floor[first:stop]
        ends = 0
        for c in range(len(lefts)):
            lefts[c] -= rates[c] * dt
            ends += lefts[c] <= floors[c] + rates[c] * slack
        if ends == 0:
            continue
        for c in range(stop - 1, first - 1, -1):
            here = row.classes
            while row.classes == here and head_left[c] <= floor[c] + rate[c] * slack:
                _end(parts, coflows, pools[0], c, now, state, finished)


@inlined
def _end_due(parts, coflows, flows, now, slack, state, finished):
    """End the flows whose ends in the heap are due."""
    c, end = next_class(parts)
    while c >= 0 and (end <= now + slack
                      or left_of(parts, c) <= parts.floor[c] + parts.rate[c] * slack):
        _end(parts, coflows, flows, c, now, state, finished)
        c, end = next_class(parts)


@inlined
def _carry(parts, dt, carried):
    """Add what the classes send to each link that they cross."""
    nowhere = len(parts.links) - 1
    for c in range(parts.state[0].classes):
        lowest = np.inf
        for h in range(parts.path.shape[1]):
            lowest = min(lowest, parts.full_at[parts.path[c, h]])
        sent = lowest * parts.units[parts.unit_of[c]] * parts.classes[c].flows * dt
        for h in range(parts.path.shape[1]):
            if parts.path[c, h] < nowhere:
                carried[parts.path[c, h]] += sent


@in_place
def _end(parts, coflows, flows, c, now, state, finished):
    """End the next flow of a class, and its coflow if it is the last."""
    f = leave(parts, flows, c)
    at = row_of(coflows, parts.senders[f].owner)
    coflows[at].thinner = coflows[at].split > 0.0
    if coflows[at].thinner and len(parts.cells):
        drop_cell(parts, coflows[at], f)
    end_flow(coflows, at, flows[f], now, state, finished)
    parts.state[0].stale |= coflows[at].open == 0


@inlined
def _mark_started(parts, coflows, flows, hops, state):
    """Store the start of coflows that begin to send now; the newest are last in the list."""
    c = len(coflows) - 1
    unseen = parts.state[0].waits
    while c >= 0 and unseen > 0:
        row = coflows[c]
        if row.start < 0.0:
            unseen -= 1
            for f in range(row.flow, row.flow + row.flows):
                if (flows[f].remaining > 0.0 and parts.senders[f].number >= 0
                        and _lowest(parts.full_at, flows[f], hops) > 0.0):
                    mark_started(row, state)
                    parts.state[0].waits -= 1
                    break
        c -= 1


@inlined
def _lowest(full_at, flow, hops):
    lowest = np.inf
    for h in range(flow.hop, flow.hop + flow.hops):
        lowest = min(lowest, full_at[hops[h].link])
    return lowest


@in_place
def take_in(parts, coflows, flows, hops):
    """Add coflows from Python; return whether there was room, see `sharing_rows.add_coflows`."""
    return add_coflows(by_reference(parts), coflows, flows, hops)


@in_place
def settle(parts, coflows, flows):
    """Write bytes and rates as of the last event to the rows of known coflows."""
    parts = by_reference(parts)
    senders, now = parts.senders, parts.state[0].now
    for c in range(len(coflows)):
        row = coflows[c]
        if row.key > parts.state[0].known:
            break
        begin_row(row)
        for f in range(row.flow, row.flow + row.flows):
            flow = flows[f]
            if flow.remaining <= 0.0:
                continue
            left, rate = flow.remaining, 0.0
            if senders[f].number >= 0:
                k = parts.place_of[senders[f].number]
                # A trifle past its virtual finish, its end is still to be noticed.
                finish = senders[f].virtual_finish
                after = finish - senders[parts.classes[k].head].virtual_finish
                left = max(left_of(parts, k) + after, 1e-12 * finish)
                rate = parts.rate[k]
            write_flow(row, flow, left, rate, now)


register(Parts, Engine(_find_rates, _find_end, never, _advance, write_nothing, _join, _leave))
