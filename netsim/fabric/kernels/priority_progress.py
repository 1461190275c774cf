"""The bytes that coflows send, and which flow ends next; see `priority`.

If the engine is *eager*, the rate of each flow is known, and all flows are advanced at each event.

Otherwise, flows that cannot end yet are passed over. Every rate may change at every event, but
hardly any flow is about to end. For each run of flows, a lower bound of the bytes left and an upper
bound of the rates are known. While these bounds show that no flow of the run ends next, only the
levels of slots are recorded, event by event. The flows are *flushed*, that is, the bytes that they
have sent are computed, when one of them may end next, or when the record is full.
"""

from __future__ import annotations

import numpy as np

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.filling import lowest_on, sooner
from netsim.fabric.kernels.lazy import sum_of_minima
from netsim.fabric.kernels.priority_state import (
    IN_QUEUE,
    INSTANTS,
    KEEPS,
    LEVEL,
    LOAD,
    PAST,
    QUEUES,
    REST,
    SECONDS,
    SENT,
    SINCE,
    USED,
    moving,
    runs_of,
    slots_of,
)


@in_place
def limit_in(engine):
    """Return in how many seconds the next sending coflow reaches its limit; see `loop`.

    A coflow that does not send has reached its limit if it is within `DUST` of it: the end of a
    flow at the same time leaves it there.
    """
    soonest = 0.0 if engine.status[0].reached else np.inf
    for k in moving(engine):
        coflow = engine.coflows[k]
        if coflow.speed > 0.0:
            soonest = min(soonest, max(coflow.left - coflow.limit, 0.0) / coflow.speed)
        elif coflow.row >= 0 and coflow.left <= coflow.reached:
            soonest = 0.0
    return soonest


# --- the next end -----------------------------------------------------------------------
@in_place
def find_end(engine, _rows, loop):
    """Find when the next flow ends; see `loop.find_end`."""
    loop.dt = _next_known(engine) if engine.status[0].eager else _next_possible(engine)
    loop.end = loop.now + loop.dt


@inlined
def _next_known(engine):
    """Return in how many seconds the next flow ends, from the rates of all."""
    dt = np.inf
    for k in moving(engine):
        for run in runs_of(engine, engine.coflows[k]):
            if run.busy:
                dt = sooner(engine.left[run.first:run.stop], engine.rate[run.first:run.stop], dt)
    return dt


@inlined
def _next_possible(engine):
    """Look into the run that may end next first, so that few others need a closer look."""
    runs, first, dt = engine.runs, -1, np.inf
    for k in moving(engine):
        coflow = engine.coflows[k]
        part = _part_per_second(coflow)
        for r in range(coflow.run, coflow.run + coflow.runs):
            most = runs[r].least_left * part + runs[r].top_rate
            if runs[r].busy and runs[r].least_left < dt * most:
                first, dt = r, runs[r].least_left / most
    if first < 0:
        return dt
    dt = _look(engine, runs[first], np.inf)
    for k in moving(engine):
        coflow = engine.coflows[k]
        part = _part_per_second(coflow)
        for r in range(coflow.run, coflow.run + coflow.runs):
            most = runs[r].least_left * part + runs[r].top_rate
            if runs[r].busy and runs[r].least_left < dt * most and r != first:
                dt = _look(engine, runs[r], dt)
    return dt


@inlined
def _part_per_second(coflow):
    """Return which part of its bytes each flow of a coflow sends per second by MADD."""
    return 1.0 / coflow.gamma if coflow.gamma > 0.0 else 0.0


@in_place
def _look(engine, run, dt):
    """Return in how many seconds the next flow of a run ends, or `dt` if that is sooner."""
    coflow, left = engine.coflows[run.coflow], engine.left
    flush_run(engine, run, coflow)
    in_queue, rest = engine.fillings[IN_QUEUE, LEVEL], engine.fillings[REST, LEVEL]
    queues = engine.status[0].primary == QUEUES
    part = _part_per_second(coflow)
    run.least_left = np.inf
    for i in range(run.first, run.stop):
        if engine.floor[i] >= 0.0:
            run.least_left = min(run.least_left, left[i])
            path = engine.path[i]
            rate = left[i] * part + (lowest_on(path, in_queue) if queues else 0.0)
            rate += lowest_on(path, rest)
            if left[i] < dt * rate:
                dt = left[i] / rate
    return dt


# --- time passes ------------------------------------------------------------------------
@inlined
def move_coflows(engine, dt, carried):
    """Move the bytes of coflows and slots for `dt` seconds, and record them for their flows.

    If `carried` has a value per link, the bytes of each link are added to it.
    """
    slots, load, used = engine.slots, engine.by_slot[LOAD], engine.by_slot[USED]
    for k in moving(engine):
        coflow = engine.coflows[k]
        coflow.left -= coflow.speed * dt
        for s in slots_of(coflow):
            load[s] -= used[s] * dt
        if len(carried):
            for s in slots_of(coflow):
                carried[slots[s].port] += used[s] * dt
        if coflow.speed > 0.0 and not engine.status[0].eager:
            _record(engine, k, dt)


@inlined
def _record(engine, k, dt):
    """Record the levels of a coflow for `dt` seconds, and lower the bounds of bytes left."""
    coflow = engine.coflows[k]
    keep = 1.0 - dt / coflow.gamma if coflow.gamma > 0.0 else 1.0
    engine.steps[SECONDS, k, coflow.steps] = dt
    engine.steps[KEEPS, k, coflow.steps] = keep
    _remember(engine, coflow, REST, coflow.steps)
    if engine.status[0].primary == QUEUES and (coflow.renewed or not coflow.shares):
        engine.steps[SINCE, k, coflow.shares] = coflow.clock
        _remember(engine, coflow, IN_QUEUE, coflow.shares)
        coflow.shares += 1
        coflow.renewed = 0
    for run in runs_of(engine, coflow):
        if run.busy:
            run.least_left = run.least_left * keep - run.top_rate * dt
        elif run.step == coflow.steps:
            run.step = coflow.steps + 1
            run.share = max(coflow.shares - 1, 0)
            run.clock = coflow.clock + dt
    coflow.steps += 1
    coflow.clock += dt
    if coflow.steps == INSTANTS:
        flush(engine, coflow)


@inlined
def _remember(engine, coflow, filling, at):
    """Record the levels of a filling as those of an instant."""
    level, past = engine.fillings[filling, LEVEL], engine.fillings[filling, PAST + at]
    for s in slots_of(coflow):
        past[s] = level[s]


@inlined
def move_flows(left, rate, floor, dt, slack):
    """Move the bytes of flows for `dt` seconds; return how many end within the slack."""
    ended = 0
    for i in range(len(left)):
        left[i] -= rate[i] * dt
        ended += left[i] <= floor[i] + rate[i] * slack
    return ended


@in_place
def note_least(run, left, floor):
    """Store the least bytes left of a run's unfinished flows."""
    run.least_left = np.inf
    for i in range(len(left)):
        if floor[i] >= 0.0:
            run.least_left = min(run.least_left, left[i])


# --- flows that were passed over --------------------------------------------------------
@in_place
def flush(engine, coflow):
    """Bring the bytes left of a coflow's flows up to date, and clear its record."""
    for run in runs_of(engine, coflow):
        flush_run(engine, run, coflow)
        rewind(run)
    rewind_coflow(coflow)


@inlined
def rewind(run):
    """Go back to the beginning of the record."""
    run.step = run.share = 0
    run.clock = 0.0


@inlined
def rewind_coflow(coflow):
    """Clear the record."""
    coflow.steps = coflow.shares = 0
    coflow.clock = 0.0


@inlined
def flush_run(engine, run, coflow):
    """Bring the bytes left of a run's flows up to date."""
    if run.step != coflow.steps:
        _send(run, coflow, engine.left, engine.floor, engine.path, engine.fillings, engine.steps,
              engine.by_slot[SENT], engine.status[0].primary == QUEUES)


@in_place
def _send(run, coflow, lefts, floors, paths, fillings, steps, sent, queues):
    """Subtract what a run's flows have sent since they were flushed."""
    in_queue, rest = fillings[IN_QUEUE, PAST:], fillings[REST, PAST:]
    left, floor = lefts[run.first:run.stop], floors[run.first:run.stop]
    path, weights = paths[run.first:run.stop], steps[SECONDS, -1]
    keep = _weigh(run, coflow, steps, weights)
    if keep < 1.0:
        for i in range(len(left)):
            left[i] *= keep
    begin, end, slot = np.int64(run.others_from), np.int64(run.others_to), np.int64(run.slot)
    run.least_left = subtract(left, floor, path, begin, end, slot, rest[run.step:coflow.steps],
                              weights, sent)
    if queues:
        _weigh_shares(run, coflow, steps[SINCE], weights)
        run.least_left = subtract(left, floor, path, begin, end, slot,
                                  in_queue[run.share:coflow.shares], weights, sent)
        run.share = coflow.shares - 1
    run.step = coflow.steps
    run.clock = coflow.clock


@inlined
def _weigh(run, coflow, steps, weights):
    """Compute the weight of each recorded step, and the part of its bytes that MADD leaves."""
    keep = 1.0
    for t in range(coflow.steps - 1, run.step - 1, -1):
        weights[t - run.step] = steps[SECONDS, run.coflow, t] * keep
        keep *= steps[KEEPS, run.coflow, t]
    return keep


@inlined
def _weigh_shares(run, coflow, since, weights):
    """Compute for how long each share of a queue was in force."""
    until = coflow.clock
    for t in range(coflow.shares - 1, run.share - 1, -1):
        start = max(since[run.coflow, t], run.clock)
        weights[t - run.share] = until - start
        until = start


@in_place
def subtract(left, floor, path, begin, end, slot, levels, weights, sent):
    """Subtract what a run's flows have sent; return the least bytes left of those unfinished.

    `levels` has a row per instant and a column per slot, and `sent` space for each slot. If the
    flows cross few slots from `begin` to `end`, besides `slot`, the bytes per flow are added up for
    each of these: a loop over slots, unlike one over instants, is vectorized without being added up
    in another order.
    """
    if end > 0:
        sent[begin:end] = 0.0
        for t in range(len(levels)):
            _add_lowest(sent[begin:end], levels[t, begin:end], levels[t, slot], weights[t])
    least = np.inf
    for i in range(len(left)):
        if floor[i] < 0.0:
            continue
        if end > 0:
            left[i] -= sent[path[i, 0]]
        elif path.shape[1] == 2:
            left[i] -= sum_of_minima(levels[:, path[i, 0]], levels[:, path[i, 1]],
                                     weights[:len(levels)])
        else:
            for t in range(len(levels)):
                left[i] -= weights[t] * lowest_on(path[i], levels[t])
        least = min(least, left[i])
    return least


@inlined
def _add_lowest(sent, levels, most, seconds):
    """Add what flows on each slot sent in some seconds, with `most` the level on their last one."""
    for s in range(len(sent)):
        sent[s] += seconds * (levels[s] if levels[s] < most else most)
