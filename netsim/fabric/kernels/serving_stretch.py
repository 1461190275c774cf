"""Skipping flows that cannot end yet; see `serving`.

Every rate may change at every event, but hardly any flow is about to end. For each run of flows, a
lower bound of the bytes left and an upper bound of the rates are known. While these bounds show
that no flow of the run ends next, only the levels of slots are recorded, event by event. The bytes
that the flows have sent are computed when one of them may end next, or when the record is full.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.lazy import send

__all__ = ["Past", "begin", "ends", "let_pass_over", "memory", "note_least", "settle",
           "soonest_of"]

#: How many instants are remembered. As so many values are an odd number of cache lines, the same
#: instant of slots that follow each other does not fall on the same few places of the cache.
_INSTANTS = 72


class Past(NamedTuple):
    """The recorded levels and times.

    Attributes
    ----------
    seconds, keeps : ndarray of float, shape (groups, instants)
        The time until the next instant, and the fraction of its bytes that MADD leaves to each
        flow.
    since : ndarray of float, shape (groups, instants)
        The time from which the group has had each of its shares of a queue.
    held, rest : ndarray of float, shape (slots, instants)
        The level of each slot in the two fillings: for each share of a queue, which changes rarely,
        and for each instant.
    weights : ndarray of float, shape (instants,)
        Scratch space.
    """

    seconds: NDArray[np.float64]
    keeps: NDArray[np.float64]
    since: NDArray[np.float64]
    held: NDArray[np.float64]
    rest: NDArray[np.float64]
    weights: NDArray[np.float64]


@inlined
def memory(groups, slots):
    """Return empty space for the record."""
    shape = (len(groups), _INSTANTS)
    held, rest = np.empty((len(slots), _INSTANTS)), np.empty((len(slots), _INSTANTS))
    held[-1] = rest[-1] = np.inf
    return Past(np.empty(shape), np.empty(shape), np.empty(shape), held, rest,
                np.empty(_INSTANTS))


@in_place
def begin(groups, runs, left, floor):
    """Start an empty record; store the least bytes left of each run."""
    for k in range(len(groups)):
        groups[k].steps = groups[k].shares = 0
        groups[k].clock = 0.0
        groups[k].renewed = 1
    for r in range(len(runs)):
        run = runs[r]
        _forget(run)
        run.least = np.inf
        run.floor = 0.0
        for i in range(run.first, run.stop):
            if left[i] > 0.0:
                run.least = min(run.least, left[i])
                run.floor = max(run.floor, floor[i])


@inlined
def soonest_of(groups, moving, runs, senders, path, held, rest, past, holds):
    """Return in how many seconds the next flow ends; inf if no flow sends.

    The run that may end next is examined first, so that few others need a closer look.
    """
    dt = np.inf
    next_run = -1
    for k in moving:
        part = 1.0 / groups[k].gamma if groups[k].gamma > 0.0 else 0.0
        for r in range(groups[k].run, groups[k].run + groups[k].runs):
            run = runs[r]
            if run.busy and run.least < dt * (run.least * part + run.most):
                dt = run.least / (run.least * part + run.most)
                next_run = r
    if next_run < 0:
        return dt
    run = runs[next_run]
    dt = _look(run, groups[run.group], senders, path, held, rest, past, holds, np.inf)
    for k in moving:
        part = 1.0 / groups[k].gamma if groups[k].gamma > 0.0 else 0.0
        for r in range(groups[k].run, groups[k].run + groups[k].runs):
            run = runs[r]
            if run.busy and run.least < dt * (run.least * part + run.most) and r != next_run:
                dt = _look(run, groups[k], senders, path, held, rest, past, holds, dt)
    return dt


@in_place
def _look(run, group, senders, path, held, rest, past, holds, dt):
    """Return in how many seconds the next flow of a run ends, or `dt` if that is sooner."""
    _catch_up(run, group, senders, path, past, holds)
    left, floor = senders.left, senders.floor
    part = 1.0 / group.gamma if group.gamma > 0.0 else 0.0
    run.least = np.inf
    for i in range(run.first, run.stop):
        if floor[i] >= 0.0:
            gains, keeps = np.inf, np.inf if holds else 0.0
            for h in range(path.shape[1]):
                gains = min(gains, rest.full_at[path[i, h]])
                keeps = min(keeps, held.full_at[path[i, h]])
            run.least = min(run.least, left[i])
            rate = left[i] * part + keeps + gains
            if left[i] < dt * rate:
                dt = left[i] / rate
    return dt


@inlined
def let_pass_over(groups, moving, runs, senders, path, held, rest, past, holds, dt):
    """Advance by `dt` seconds: record the levels, and lower the bounds of bytes left."""
    for k in moving:
        group = groups[k]
        if group.speed <= 0.0:
            continue
        keep = 1.0 - dt / group.gamma if group.gamma > 0.0 else 1.0
        past.seconds[k, group.steps] = dt
        past.keeps[k, group.steps] = keep
        _remember(group, rest.full_at, past.rest, group.steps)
        if holds and (group.renewed or not group.shares):
            past.since[k, group.shares] = group.clock
            _remember(group, held.full_at, past.held, group.shares)
            group.shares += 1
            group.renewed = 0
        for r in range(group.run, group.run + group.runs):
            run = runs[r]
            if run.busy:
                run.least = run.least * keep - run.most * dt
            elif run.caught == group.steps:
                run.caught = group.steps + 1
                run.share = max(group.shares - 1, 0)
                run.since = group.clock + dt
        group.steps += 1
        group.clock += dt
        if group.steps == _INSTANTS:
            settle(group, runs, senders, path, past, holds)


@in_place
def _remember(group, level, levels, at):
    for s in range(group.slot, group.slot + group.slots):
        levels[s, at] = level[s]


@in_place
def ends(run, group, senders, path, past, holds):
    """Whether flows of a run may have ended; if so, bring their bytes left up to date."""
    # Twice: what is known of them is rounded otherwise than what they have left.
    if run.least > 2.0 * run.floor:
        return False
    _catch_up(run, group, senders, path, past, holds)
    return True


@in_place
def settle(group, runs, senders, path, past, holds):
    """Bring the bytes left of a group's flows up to date, and clear its record."""
    for r in range(group.run, group.run + group.runs):
        _catch_up(runs[r], group, senders, path, past, holds)
        _forget(runs[r])
    group.steps = group.shares = 0
    group.clock = 0.0


@in_place
def _forget(run):
    run.caught = run.share = 0
    run.since = 0.0


@in_place
def _catch_up(run, group, senders, path, past, holds):
    """Bring the bytes left of a run's flows up to date."""
    if run.caught == group.steps:
        return
    weights = past.weights
    lefts, floors = senders.left[run.first:run.stop], senders.floor[run.first:run.stop]
    paths = path[run.first:run.stop]
    keep = _weigh(run, group, past)
    if keep < 1.0:
        for i in range(len(lefts)):
            lefts[i] *= keep
    send(lefts, floors, paths, past.rest, run.caught, weights[:group.steps - run.caught])
    if holds:
        _weigh_shares(run, group, past)
        send(lefts, floors, paths, past.held, run.share, weights[:group.shares - run.share])
        run.share = group.shares - 1
    run.caught = group.steps
    run.since = group.clock
    note_least(run, lefts, floors)


@in_place
def note_least(run, lefts, floors):
    """Store the least bytes left of a run's unfinished flows."""
    run.least = np.inf
    for i in range(len(lefts)):
        if floors[i] >= 0.0:
            run.least = min(run.least, lefts[i])


@inlined
def _weigh(run, group, past):
    """Compute the weight of each recorded instant, and the fraction of bytes that MADD leaves."""
    keep = 1.0
    for t in range(group.steps - 1, run.caught - 1, -1):
        past.weights[t - run.caught] = past.seconds[run.group, t] * keep
        keep *= past.keeps[run.group, t]
    return keep


@inlined
def _weigh_shares(run, group, past):
    """Compute for how long each share of a queue was in force."""
    until = group.clock
    for t in range(group.shares - 1, run.share - 1, -1):
        start = max(past.since[run.group, t], run.since)
        past.weights[t - run.share] = until - start
        until = start
