"""The bytes that coflows send, and which flow ends next; see `serving`.

If the engine is *eager*, the rate of each flow is known, and all flows are advanced at each event.

Otherwise, flows that cannot end yet are passed over. Every rate may change at every event, but
hardly any flow is about to end. For each run of flows, a lower bound of the bytes left and an upper
bound of the rates are known. While these bounds show that no flow of the run ends next, only the
levels of slots are recorded, event by event. The bytes that the flows have sent are computed when
one of them may end next, or when the record is full.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.filling import sooner
from netsim.fabric.kernels.lazy import send
from netsim.fabric.kernels.serving_parts import INSTANTS, QUEUES


@in_place
def begin(served):
    """Start an empty record; store the least bytes left of each run."""
    left, floor = served.senders.left, served.senders.floor
    for k in range(len(served.groups)):
        group = served.groups[k]
        group.steps = group.shares = 0
        group.clock = 0.0
        group.renewed = 1
    for r in range(len(served.runs)):
        run = served.runs[r]
        _forget(run)
        run.least = np.inf
        run.floor = 0.0
        for i in range(run.first, run.stop):
            if left[i] > 0.0:
                run.least = min(run.least, left[i])
                run.floor = max(run.floor, floor[i])


@in_place
def crossing_in(served):
    """Return in how many seconds the next sending coflow reaches its limit.

    A coflow that does not send has reached its limit if it is within `DUST` of it: the end of a
    flow at the same time leaves it there.
    """
    crossing = np.inf
    for k in served.moving[:served.state[0].moving]:
        group = served.groups[k]
        if group.speed > 0.0:
            crossing = min(crossing, max(group.left - group.limit, 0.0) / group.speed)
        elif group.row >= 0 and group.left <= group.reached:
            crossing = 0.0
    return crossing


# --- the next end -----------------------------------------------------------------------
@inlined
def soonest(served):
    """Return in how many seconds the next flow ends; inf if no flow sends."""
    return _soonest_known(served) if served.state[0].eager else _soonest_possible(served)


@inlined
def _soonest_known(served):
    groups, runs, senders = served.groups, served.runs, served.senders
    dt = np.inf
    for k in served.moving[:served.state[0].moving]:
        for r in range(groups[k].run, groups[k].run + groups[k].runs):
            if runs[r].busy:
                dt = sooner(senders.left[runs[r].first:runs[r].stop],
                            senders.rate[runs[r].first:runs[r].stop], dt)
    return dt


@inlined
def _soonest_possible(served):
    """Look into the run that may end next first, so that few others need a closer look."""
    groups, runs, moving = served.groups, served.runs, served.moving[:served.state[0].moving]
    dt = np.inf
    next_run = -1
    for k in moving:
        part = _part_per_second(groups[k])
        for r in range(groups[k].run, groups[k].run + groups[k].runs):
            run = runs[r]
            if run.busy and run.least < dt * (run.least * part + run.most):
                dt = run.least / (run.least * part + run.most)
                next_run = r
    if next_run < 0:
        return dt
    dt = _look(served, runs[next_run], np.inf)
    for k in moving:
        part = _part_per_second(groups[k])
        for r in range(groups[k].run, groups[k].run + groups[k].runs):
            run = runs[r]
            if run.busy and run.least < dt * (run.least * part + run.most) and r != next_run:
                dt = _look(served, run, dt)
    return dt


@inlined
def _part_per_second(group):
    """Return which part of its bytes each flow of a group sends per second by MADD."""
    return 1.0 / group.gamma if group.gamma > 0.0 else 0.0


@in_place
def _look(served, run, dt):
    """Return in how many seconds the next flow of a run ends, or `dt` if that is sooner."""
    group, path = served.groups[run.group], served.path
    _catch_up(served, run, group)
    left, floor = served.senders.left, served.senders.floor
    held, rest = served.held.full_at, served.rest.full_at
    holds = served.state[0].primary == QUEUES
    part = _part_per_second(group)
    run.least = np.inf
    for i in range(run.first, run.stop):
        if floor[i] >= 0.0:
            gains, keeps = np.inf, np.inf if holds else 0.0
            for h in range(path.shape[1]):
                gains = min(gains, rest[path[i, h]])
                keeps = min(keeps, held[path[i, h]])
            run.least = min(run.least, left[i])
            rate = left[i] * part + keeps + gains
            if left[i] < dt * rate:
                dt = left[i] / rate
    return dt


# --- time passes ------------------------------------------------------------------------
@inlined
def advance(served, dt, carried):
    """Advance groups and slots by `dt` seconds, and record these for flows that are passed over.

    If `carried` has a value per link, the bytes of each link are added to it.
    """
    moving = served.moving[:served.state[0].moving]
    load, used = served.traffic.load, served.traffic.used
    for k in moving:
        group = served.groups[k]
        group.left -= group.speed * dt
        for s in range(group.slot, group.slot + group.slots):
            load[s] -= used[s] * dt
        if len(carried):
            for s in range(group.slot, group.slot + group.slots):
                carried[served.links[served.link[s]]] += used[s] * dt
    if not served.state[0].eager:
        for k in moving:
            if served.groups[k].speed > 0.0:
                _pass_over(served, k, dt)


@inlined
def _pass_over(served, k, dt):
    """Record the levels of a group for `dt` seconds, and lower the bounds of bytes left."""
    group, runs, past = served.groups[k], served.runs, served.past
    keep = 1.0 - dt / group.gamma if group.gamma > 0.0 else 1.0
    past.seconds[k, group.steps] = dt
    past.keeps[k, group.steps] = keep
    _remember(group, served.rest.full_at, past.rest, group.steps)
    if served.state[0].primary == QUEUES and (group.renewed or not group.shares):
        past.since[k, group.shares] = group.clock
        _remember(group, served.held.full_at, past.held, group.shares)
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
    if group.steps == INSTANTS:
        settle(served, group)


@in_place
def _remember(group, level, levels, at):
    for s in range(group.slot, group.slot + group.slots):
        levels[s, at] = level[s]


@in_place
def advance_run(served, run, dt, slack):
    """Bring a run's flows up to date if one may have ended in `dt` seconds; return whether."""
    if not run.busy:
        return False
    if served.state[0].eager:
        return _move(served.senders, run, dt, slack) > 0
    # Twice, as the bound is rounded otherwise than what the flows have left.
    if run.least > 2.0 * run.floor:
        return False
    _catch_up(served, run, served.groups[run.group])
    return True


@in_place
def _move(senders, run, dt, slack):
    """Move bytes of the flows of a run for `dt` seconds; return how many end within the slack."""
    lefts, rates = senders.left[run.first:run.stop], senders.rate[run.first:run.stop]
    floors = senders.floor[run.first:run.stop]
    ended = 0
    for i in range(len(lefts)):
        lefts[i] -= rates[i] * dt
        ended += lefts[i] <= floors[i] + rates[i] * slack
    return ended


# --- flows that were passed over --------------------------------------------------------
@in_place
def settle(served, group):
    """Bring the bytes left of a group's flows up to date, and clear its record."""
    for r in range(group.run, group.run + group.runs):
        _catch_up(served, served.runs[r], group)
        _forget(served.runs[r])
    group.steps = group.shares = 0
    group.clock = 0.0


@in_place
def _forget(run):
    run.caught = run.share = 0
    run.since = 0.0


@in_place
def _catch_up(served, run, group):
    """Bring the bytes left of a run's flows up to date."""
    if run.caught == group.steps:
        return
    past, weights = served.past, served.past.weights
    lefts = served.senders.left[run.first:run.stop]
    floors = served.senders.floor[run.first:run.stop]
    paths = served.path[run.first:run.stop]
    keep = _weigh(run, group, past)
    if keep < 1.0:
        for i in range(len(lefts)):
            lefts[i] *= keep
    send(lefts, floors, paths, past.rest, run.caught, weights[:group.steps - run.caught])
    if served.state[0].primary == QUEUES:
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
