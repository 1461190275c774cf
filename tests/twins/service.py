"""Readable versions of service in order; see `tests.twins.kernels`.

`serve` is what `netsim.fabric.allocation.PriorityService` describes, and the other functions are
its parts. Each gives away bytes per second that links have left, and returns the rates of all
flows, of shape (F,), with what is left then, of shape (L,).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.ties import rank
from tests.twins.kernels import DUST, Floats, Problem, maxmin


def serve(problem: Problem, order: Sequence[int], primary: str = "none", backfill: str = "none",
          queue: ArrayLike = 0, queue_shares: Sequence[float] = (1.0,), *, by_size: bool = False
          ) -> Floats:
    """Compute the rate of each flow when coflows are served in order, until a flow ends.

    The first pass, `primary`, is nothing, `madd`, or with ``"queues"``, `fill`, queue by queue,
    within each queue's part of the links. What the queues leave is pooled; queues without coflows
    have no part. Then the rest goes to nobody or, by `backfill`, through `fill` (``"maxmin"``) or
    `greedy_flows` (``"greedy"``); with `by_size`, this takes flows by the bytes that they have
    left, those within 1e-9 of each other in the order of their coflows.
    """
    rates, left = np.zeros(len(problem.remaining)), problem.capacity.copy()
    if primary == "madd":
        rates, left = madd(problem, order, left)
    elif primary == "queues":
        queue_of = np.broadcast_to(queue, len(order))
        left = np.zeros(len(problem.capacity))
        for q in sorted(set(queue_of.tolist())):
            own = [coflow for coflow in order if queue_of[coflow] == q]
            given, rest = fill(problem, own, queue_shares[q] * problem.capacity)
            rates, left = rates + given, left + rest
    if backfill == "maxmin":
        rates = rates + fill(problem, order, left)[0]
    elif backfill == "greedy":
        flows = [f for coflow in order for f in np.flatnonzero(problem.coflow == coflow).tolist()]
        if by_size:
            flows = [flows[place] for place in rank(problem.remaining[flows])]
        rates = rates + greedy_flows(problem, flows, left)[0]
    return rates


def madd(problem: Problem, order: Sequence[int], left: Floats) -> tuple[Floats, Floats]:
    """Serve coflows in turn: each ends all its flows together, as early as links with a rest allow.

    Its flows get v_f/Gamma', where v_f is what they have left to send, and Gamma' is the largest
    (bytes of the coflow on the link)/(bytes per second left) over its links. It gets nothing if one
    of these is full.
    """
    rates, per_link = np.zeros(len(problem.remaining)), problem.link_load(problem.remaining)
    for coflow in order:
        crossed = per_link[coflow] > 0
        if np.all(_has_room(problem, left)[crossed]):
            seconds = np.max(per_link[coflow, crossed] / left[crossed])
            own = problem.coflow == coflow
            rates[own] = problem.remaining[own] / seconds
            left = left - per_link[coflow] / seconds
    return rates, left


def fill(problem: Problem, order: Sequence[int], left: Floats) -> tuple[Floats, Floats]:
    """Share what is left max-min fairly between the flows of each coflow in turn."""
    rates = np.zeros(len(problem.remaining))
    for coflow in order:
        room = _has_room(problem, left)
        grows = [c == coflow and bool(np.all(room[problem.path(f)]))
                 for f, c in enumerate(problem.coflow)]
        given = maxmin(problem._replace(capacity=left), np.array(grows, dtype=np.float64))
        rates, left = rates + given, left - problem.link_load(given).sum(axis=0)
    return rates, left


def greedy_flows(problem: Problem, order: Sequence[int], left: Floats) -> tuple[Floats, Floats]:
    """Give each flow in turn all that its links have left."""
    rates, left = np.zeros(len(problem.remaining)), left.copy()
    for flow in order:
        path = problem.path(flow)
        if np.all(_has_room(problem, left)[path]):
            rates[flow] = left[path].min()
            left[path] -= rates[flow]
    return rates, left


def _has_room(problem: Problem, left: Floats) -> NDArray[np.bool_]:
    """Mark the links on which more than dust is left."""
    return left > DUST * problem.capacity
