"""Reference implementations of what coflows are ordered by; see `netsim.reference.kernels`."""

from __future__ import annotations

import numpy as np

from netsim.reference.kernels import DUST, Floats, Ints, Problem


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
