"""The engine of docs/developers/add-an-engine.md: a flow gets an equal part of its busiest link."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels import in_place, inlined, row_type
from netsim.fabric.kernels.loop import (
    WAITS,
    end_flow,
    join_never,
    loop_of,
    never,
    write_nothing,
)
from netsim.fabric.kernels.progress import begin_row, mark_started, write_flow
from netsim.fabric.records import DUST

#: An unfinished flow: the place of its ``coflow``, its ``index`` among the flows of that, bytes
#: ``left``, and its ``rate``.
_FLOW = row_type([("coflow", "i8"), ("index", "i8"), ("left", "f8"), ("rate", "f8")])


class EvenState(NamedTuple):
    """The flows that are left, and how many of them cross each link."""

    flows: NDArray[Any]  #: of _FLOW, coflow by coflow
    count: NDArray[np.int64]


def state_of(coflows, flows, links):
    """Return the state for the rows of some coflows and their flows; called from Python."""
    rows = np.concatenate([np.arange(c["flow"], c["flow"] + c["flows"]) for c in coflows])
    state = EvenState(np.zeros(len(rows), _FLOW), np.zeros(links, np.int64))
    state.flows["coflow"] = np.repeat(np.arange(len(coflows)), coflows["flows"])
    state.flows["index"] = rows - coflows["flow"][state.flows["coflow"]]
    state.flows["left"] = flows["remaining"][rows]
    return state


@inlined
def row_of(own, coflows, flows):
    """Return the FLOW row of a flow, which moves with its coflow."""
    return flows[coflows[own.coflow].flow + own.index]


@in_place
def find_rates(engine, coflows, _jobs, arrays, capacity, loop):
    """Count flows on links, and give each flow the least part on its path."""
    flows, hops, _ = arrays
    engine.count[:] = 0
    for own in engine.flows:
        flow = row_of(own, coflows, flows)
        for h in range(flow.hop, flow.hop + flow.hops):
            engine.count[hops[h].link] += own.left > 0.0
    for own in engine.flows:
        flow = row_of(own, coflows, flows)
        own.rate = np.inf if own.left > 0.0 else 0.0
        for h in range(flow.hop, flow.hop + flow.hops):
            link = hops[h].link
            own.rate = min(own.rate, capacity[link] / max(engine.count[link], 1))
        if own.rate > 0.0:
            mark_started(coflows[own.coflow], loop)
    return WAITS


@in_place
def find_end(engine, _coflows, loop):
    """Find when the next flow ends."""
    loop.dt = np.inf
    for own in engine.flows:
        if own.rate > 0.0:
            loop.dt = min(loop.dt, own.left / own.rate)
    loop.end = loop.now + loop.dt


@in_place
def advance(engine, coflows, arrays, _capacity, dt, now, slack, loop, finished, carried):
    """Move bytes, and end the flows that end within the slack."""
    flows, hops, _ = arrays
    for own in engine.flows:
        if own.rate == 0.0:
            continue
        flow, before = row_of(own, coflows, flows), own.left
        own.left -= own.rate * dt
        if own.left <= DUST * flow.size + own.rate * slack:
            own.left = own.rate = 0.0
            end_flow(coflows, own.coflow, flow, now, loop, finished)
        if len(carried):
            for h in range(flow.hop, flow.hop + flow.hops):
                carried[hops[h].link] += before - own.left


@in_place
def leave(engine, coflows, arrays, loop):
    """Write bytes and rates to the rows."""
    for row in coflows:
        begin_row(row)
    for own in engine.flows:
        if own.left > 0.0:
            write_flow(coflows[own.coflow], row_of(own, coflows, arrays.flows), own.left, own.rate,
                       loop.now)


run = loop_of("even", find_rates=find_rates, find_end=find_end, limit_in=never, advance=advance,
              write_rows=write_nothing, join=join_never, leave=leave)
