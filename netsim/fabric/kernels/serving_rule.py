"""Service in order by a compiled rule, asked again in compiled code when coflows come or go."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import typeof, types
from numpy.typing import NDArray

import netsim.fabric.kernels.serving  # noqa: F401 - registers its engine
from netsim.fabric.by_reference import (
    address_of,
    by_reference,
    call_at,
    owned,
    released,
    replace,
    type_of_reference,
)
from netsim.fabric.kernels import addressed, compiled, in_place, inlined
from netsim.fabric.kernels.loop import KEPT, PAUSED, REDO, REFUSED, Tables, go
from netsim.fabric.kernels.progress import refresh
from netsim.fabric.kernels.rules import SOUND, UNUSED, Ruled, decide
from netsim.fabric.kernels.serving_parts import Served, Service
from netsim.fabric.kernels.serving_rows import can_resume, copy_rows, update


@compiled
def serve_by(ruled, served, serve_at, addresses, loop, tables):
    """Serve coflows in the order that a rule gives, again and again until the loop stops.

    The rule is asked first if the loop ``decides``; otherwise its last decision still holds.
    `served`, the engine of the call before, is resumed if the loop was held or paused, and if not,
    updated if that is possible. Return the engine. See `address_for` and `loop.run`.
    """
    engine = owned(served)
    call_at(serve_at, (by_reference(ruled), engine, addresses, loop[0], by_reference(tables)))
    return released(engine)


def address_for(ruled: Ruled, served: Served, loop: NDArray[Any], tables: Tables) -> int:
    """Return the address of `_serve_ruled`."""
    return address_of(_serve_ruled, type_of_reference(ruled), type_of_reference(served),
                      types.UniTuple(types.int64, 2), typeof(loop).dtype,
                      type_of_reference(tables))


@addressed
def _serve_ruled(ruled, engine, addresses, state, tables):
    """Serve with an engine that is replaced where it cannot be resumed; see `serve_by`.

    Return why the loop has stopped.
    """
    rows, jobs, pools, capacity = tables.rows, tables.jobs, tables.pools, tables.capacity
    until = state.until
    state.until = min(until, ruled.order.wake_at[0])
    resumes = state.reason == PAUSED or state.reason in KEPT
    while resumes or _decide(ruled, rows, jobs, pools, capacity, state, until):
        if not resumes:  # which alone makes arrays, and counts references to them
            _renew(engine, ruled, rows[:state.count], pools, capacity, state.interval)
        resumes = False
        go(engine, addresses, state, tables)
        if state.reason != REDO:
            break
    state.until = until
    return float(state.reason)


@compiled
def _renew(engine, ruled, coflows, pools, capacity, interval):
    """Update the engine to a new decision, from the rows."""
    service = _service(ruled, len(coflows))
    if can_resume(engine):
        update(engine, coflows, pools[0], service, interval)
    else:
        replace(engine, copy_rows(coflows, pools[0], pools[1], pools[2], capacity, service,
                                  interval))


@in_place
def _decide(ruled, rows, jobs, pools, capacity, state, until):
    """Ask the rule if the loop decides; return whether there is a decision to put into force."""
    count = state.count
    state.notice = state.now  # so that the loop finds rates first
    state.decides &= count > 0
    if state.decides:
        flows, hops, loads = pools
        if ruled.reads.gamma or ruled.reads.active_gamma:
            refresh(rows[:count], flows, hops, loads, capacity)
        state.link = decide(ruled, rows[:count], jobs, state.now)
        if state.link == SOUND and _has_unused(ruled, count):
            state.link = UNUSED
        if state.link != SOUND:
            state.reason = REFUSED
            return False
    elif count == 0:
        ruled.order.wake_at[0] = np.inf
    state.until = min(until, ruled.order.wake_at[0])
    return True


@inlined
def _has_unused(ruled, count):
    """Whether the rule has written shares, which its form ignores."""
    for c in range(count):
        if ruled.order.share[c] != 0.0 or ruled.order.most[c] < ruled.form.most:
            return True
    return False


@inlined
def _service(ruled, count):
    """Return the decision in force as a `Service`."""
    order, form = ruled.order, ruled.form
    sequence = ruled.sequence[:count].copy()
    queue = order.queue[:count].copy()
    found = 0
    for q in range(len(order.part)):
        for c in ruled.sequence[:count]:
            if queue[c] == q:
                sequence[found] = c
                found += 1
    return Service(sequence, form.primary, form.backfill, queue, order.part.copy(),
                   order.limit[:count].copy())
