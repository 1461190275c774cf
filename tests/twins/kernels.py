"""Readable versions of the compiled building blocks, with which tests compare these.

Problems are plain arrays, and each rule is stated as in its paper. A coflow sends at *LP rates*,
remaining/gamma, if all its flows end together as early as full capacities allow (MADD); a *share*
is a multiple of these rates. Shapes: F flows, C coflows, L links.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.workload.operations import Operations


def ends_of(operations: Operations, seconds: Sequence[float], iterations: int
            ) -> list[list[float]]:
    """Compute the end of each operation of each iteration; see `netsim.jobs.longest_path`."""
    after, after_previous = operations.after.lists(), operations.after_previous.lists()
    ends: list[list[float]] = [[0.0] * len(operations)]
    for _ in range(iterations):
        own = [0.0] * len(operations)
        for k in operations.sequence.tolist():
            start = max([own[other] for other in after[k]]
                        + [ends[-1][other] for other in after_previous[k]])
            own[k] = start + seconds[k]
        ends.append(own)
    return ends[1:]


def ports(coflow: Ints, src: Ints, dst: Ints) -> Ints:
    """Compute each coflow's width in ports: min(number of senders, number of receivers).

    Arrays have an entry for each flow that counts; coflows are 0 .. C-1, each with at least one.
    """
    return np.array([min(len(set(src[coflow == c])), len(set(dst[coflow == c])))
                     for c in range(int(coflow.max()) + 1)])


def bssi(problem: Problem, weight: Floats) -> tuple[list[int], float]:
    """Compute Sincronia's order, bottleneck-select-scale-iterate, and its dual bound.

    d_jb is the time that link b takes for what coflow j has left to send over it, in seconds. From
    the last place to the first:

    1. b is the link of which the coflows without a place need most: the largest sum of d_jb.
    2. k = argmin w_j/d_jb over these coflows, where d_jb > 0, gets the last free place.
    3. With theta = w_k/d_kb, each other's w_j falls by theta d_jb.

    Ties, within 1e-9 relative, go to the lowest link and to the latest coflow. The dual, a lower
    bound on the sum of weighted completion times from now on, is the sum over the places of theta
    ((sum of d_jb)^2 + sum of d_jb^2)/2. What is to cross a link without capacity does not count.
    """
    load = problem.link_load(problem.remaining)
    seconds = np.divide(load, problem.capacity, out=np.zeros(load.shape),
                        where=problem.capacity > 0)
    weight, without_place = weight.copy(), list(range(len(weight)))
    order: list[int] = []
    dual = 0.0
    while without_place:
        total = seconds[without_place].sum(axis=0)
        b = np.flatnonzero(total >= total.max() * (1 - DUST))[0]
        on_b = [j for j in without_place if seconds[j, b] > 0]
        k = without_place[-1]
        if on_b:
            per_second = weight[on_b] / seconds[on_b, b]
            k = [j for j, each in zip(on_b, per_second, strict=True)
                 if each <= per_second.min() * (1 + DUST)][-1]
            theta = weight[k] / seconds[k, b]
            dual += theta * (total[b] ** 2 + (seconds[on_b, b] ** 2).sum()) / 2
            weight[on_b] = np.maximum(weight[on_b] - theta * seconds[on_b, b], 0.0)
        without_place.remove(k)
        order.insert(0, k)
    return order, dual


Floats = NDArray[np.float64]

Ints = NDArray[np.int64]

#: Fraction of a link, or of a quantity that is compared, that counts as zero.
DUST = 1e-9


class Problem(NamedTuple):
    """Unfinished flows of coflows on links."""

    remaining: Floats  #: bytes of each flow
    coflow: Ints  #: of each flow; coflows are 0 .. C-1, each with at least one flow
    ptr: Ints
    links: Ints  #: flow f crosses ``links[ptr[f]:ptr[f + 1]]``
    capacity: Floats  #: of each link, in bytes per second

    def path(self, flow: int) -> Ints:
        """The links that a flow crosses."""
        return self.links[self.ptr[flow]:self.ptr[flow + 1]]

    def link_load(self, values: ArrayLike) -> Floats:
        """Sum one value per flow over the flows of each coflow on each link. Shape (C, L)."""
        per_flow = np.asarray(values, dtype=np.float64)
        load = np.zeros((int(self.coflow.max()) + 1, len(self.capacity)))
        for flow, coflow in enumerate(self.coflow):
            load[coflow, self.path(flow)] += per_flow[flow]
        return load


def gamma(problem: Problem) -> Floats:
    """Compute each coflow's effective bottleneck, in seconds. Shape (C,).

    By Eq. 26, Gamma is the largest (bytes of the coflow on the link)/capacity over all links. It is
    inf if the coflow needs a link without capacity.
    """
    load = problem.link_load(problem.remaining)
    seconds = np.full(load.shape, np.inf)
    np.divide(load, problem.capacity, out=seconds, where=problem.capacity > 0)
    return np.where(load > 0, seconds, 0.0).max(axis=1)


def lp_rates(problem: Problem, shares: ArrayLike = 1.0) -> Floats:
    """Compute the rate of each flow at its coflow's share: b_f = share * V_f/Gamma (Eq. 27)."""
    alone = gamma(problem)
    return np.broadcast_to(shares, alone.shape)[problem.coflow] * (
        problem.remaining / alone[problem.coflow])


def common_factor(problem: Problem, shares: Floats, base: Floats) -> float:
    """Compute the largest x for which ``base + x * shares`` fits every link (step 10).

    It is the smallest (capacity - load of base)/(load of shares) over the links that the shares
    load; inf if there is no such link, 0 if the result is below 1e-9.
    """
    per_link = problem.link_load(lp_rates(problem))
    wanted = shares @ per_link
    left = np.maximum(problem.capacity - base @ per_link, 0.0)
    loaded = wanted > DUST * problem.capacity
    factor = float(np.min(left[loaded] / wanted[loaded], initial=np.inf))
    return factor if factor >= DUST else 0.0


def greedy(problem: Problem, order: Sequence[int], limit: Floats, base: Floats) -> Floats:
    """Add to each coflow's share in `base`, in order, the largest share that still fits.

    That is the largest x <= limit for which x * (its LP load) <= remaining capacity on every link;
    less than 1e-9 counts as zero.
    """
    per_link = problem.link_load(lp_rates(problem))
    left = problem.capacity - base @ per_link
    shares = base.copy()
    for coflow in order:
        crossed = per_link[coflow] > 0
        x = np.min(left[crossed] / per_link[coflow, crossed], initial=limit[coflow])
        if x >= DUST:
            shares[coflow] += x
            left -= x * per_link[coflow]
    return shares


def share_out(problem: Problem, order: Sequence[int], shares: Floats, most: Floats,
              by_place: bool, stretch: str) -> Floats:
    """Compute the shares of coflows from the answer of a compiled rule; see `netsim.compiled`.

    Each coflow first gets its share, and then, in order, up to `most` more. With `by_place`, entry
    k of both is for the k-th coflow in order, rather than for coflow k. `stretch` says which shares
    grow first, by the same factor, as far as links allow, but to 1 at most: ``"none"``, ``"all"``,
    or ``"others"``, which are those of 0.
    """
    if by_place:
        shares, most = shares[np.argsort(order)], most[np.argsort(order)]
    if stretch == "others":
        others = (shares == 0.0) * 1.0
        shares = shares + others * min(common_factor(problem, others, shares), 1.0)
    elif stretch == "all":
        greatest = shares[gamma(problem) < np.inf].max(initial=0.0)
        factor = min(common_factor(problem, shares, 0.0 * shares),
                     1.0 / greatest if greatest > 0.0 else 1.0)
        shares = shares * factor
    return greedy(problem, order, most, shares)


def link_shares(problem: Problem, shares: Floats) -> Floats:
    """Sum the shares of the coflows that cross each link. Shape (L,)."""
    return shares @ (problem.link_load(problem.remaining) > 0)


def stretch_flows(problem: Problem, rates: Floats) -> Floats:
    """Multiply the rate of each flow by the smallest capacity/load of its links (`per_flow`)."""
    load = problem.link_load(rates).sum(axis=0)
    stretched = rates.copy()
    for flow, rate in enumerate(rates):
        if rate > 0:
            path = problem.path(flow)
            stretched[flow] *= np.min(problem.capacity[path] / load[path])
    return stretched


def throttle(problem: Problem, rates: Floats, in_step: bool = False) -> Floats:
    """Slow down the flows on links that are overloaded, as after a capacity has dropped.

    Each rate is multiplied by the smallest capacity/load of the links of its flow, or with
    `in_step` of all links that its coflow sends over, but by 1 at most.
    """
    load = problem.link_load(rates).sum(axis=0)
    factor = np.array([np.min(problem.capacity[path] / load[path], initial=1.0) if rate > 0 else 1.0
                       for rate, path in zip(rates, map(problem.path, range(len(rates))),
                                             strict=True)])
    if in_step:
        for coflow in np.unique(problem.coflow):
            own = problem.coflow == coflow
            factor[own] = factor[own].min()
    return rates * factor


def crossing_in(problem: Problem, rates: Floats, ahead: Floats, near: Floats) -> Floats:
    """Compute the seconds until each coflow has sent `ahead` more bytes; inf if never. Shape (C,).

    The rate of a coflow is constant between the ends of its flows. If it stops with at most `near`
    bytes missing, these count as sent.
    """
    found = np.full(len(ahead), np.inf)
    for coflow in np.flatnonzero(np.isfinite(ahead)).tolist():
        own = np.flatnonzero((problem.coflow == coflow) & (rates > 0))
        own = own[np.argsort(problem.remaining[own] / rates[own], kind="stable")]
        now, sent = 0.0, 0.0
        for k, flow in enumerate(own):
            end = problem.remaining[flow] / rates[flow]
            speed = rates[own[k:]].sum()
            if sent + speed * (end - now) >= ahead[coflow]:
                found[coflow] = now + (ahead[coflow] - sent) / speed
                break
            now, sent = end, sent + speed * (end - now)
        else:
            if ahead[coflow] - sent <= near[coflow]:
                found[coflow] = now
    return found


def maxmin(problem: Problem, weights: Floats) -> Floats:
    """Compute the weighted max-min fair rate of each flow, by progressive filling.

    The rates of all flows grow in proportion to their weights. The link that fills first, with the
    least (remaining capacity)/(weight of growing flows), fixes the rates of its flows; this is
    repeated with the other flows. A flow of weight 0 gets nothing.
    """
    rates = np.zeros(len(weights))
    left = problem.capacity.copy()
    growing = [flow for flow, weight in enumerate(weights) if weight > 0]
    while growing:
        weight = np.zeros(len(left))
        for flow in growing:
            weight[problem.path(flow)] += weights[flow]
        used = np.flatnonzero(weight)
        levels = np.maximum(left[used], 0.0) / weight[used]
        full = used[np.argmin(levels)]
        for flow in [flow for flow in growing if full in problem.path(flow)]:
            rates[flow] = levels.min() * weights[flow]
            left[problem.path(flow)] -= rates[flow]
            growing.remove(flow)
    return rates


def split(problem: Problem, lots: Sequence[Sequence[int]], left: Floats) -> tuple[Floats, Floats]:
    """Split links equally among the flows of each lot in turn; return rates and remaining capacity.

    In a lot of coflows, each flow whose links all have capacity left gets the smallest left/n of
    its links, where n is the number of such flows on the link. This is done in one pass: unused
    parts are not redistributed within the lot.
    """
    rates = np.zeros(len(problem.remaining))
    for lot in lots:
        wants = np.isin(problem.coflow, lot)
        for flow in np.flatnonzero(wants).tolist():
            path = problem.path(flow)
            wants[flow] = np.all(left[path] > DUST * problem.capacity[path])
        wanted = problem.link_load(wants).sum(axis=0)
        part = np.zeros(len(rates))
        for flow in np.flatnonzero(wants).tolist():
            path = problem.path(flow)
            part[flow] = np.min(left[path] / wanted[path])
        rates += part
        left = left - problem.link_load(part).sum(axis=0)
    return rates, left
