"""Compiled kernels for the time of an iteration, for Heavy-Edge, and for plans of pipelines.

`netsim.models.iteration_time.iteration_parts` and `tests.twins.mapping` are readable versions;
tests compare the two.
"""

from __future__ import annotations

import numpy as np

from netsim.base.compiling import compiled, in_place

#: Rows of `netsim.models.iteration_time.StageTerms`.
(GPUS, _, COMPUTE, SLICES, FAR_IN, NEAR_IN, FAR_OUT, NEAR_OUT, FAR_EXPERTS, NEAR_EXPERTS,
 FAR_REDUCE, NEAR_REDUCE) = range(12)

#: Relative tolerance within which weights are equal.
EQUAL = 1e-9


@in_place
def per_iteration_of(x, terms, micro_batches, slowest):
    """Compute the time of an iteration in seconds (Eq. 7) on the placement `x`.

    `terms` has the rows of `StageTerms`; `micro_batches` is 0 for an asynchronous pipeline;
    `slowest` is a work array of shape (stages,).
    """
    worst = 0.0
    reduce = 0.0
    for s in range(x.shape[1]):
        slowest[s] = 0.0
        for m in range(x.shape[0]):
            if x[m, s] == 0:
                continue
            before = x[m, s - 1] / terms[GPUS, s - 1] if s > 0 else 0.0
            behind = x[m, s + 1] / terms[GPUS, s + 1] if s + 1 < x.shape[1] else 0.0
            others = (x[m, s] - 1) / (terms[GPUS, s] - 1) if terms[GPUS, s] > 1 else 0.0
            seconds = (terms[COMPUTE, s] + terms[SLICES, s]
                       + terms[FAR_IN, s] * (1 - before) + terms[NEAR_IN, s] * before
                       + terms[FAR_OUT, s] * (1 - behind) + terms[NEAR_OUT, s] * behind
                       + terms[FAR_EXPERTS, s] * (1 - others) + terms[NEAR_EXPERTS, s] * others)
            mine = (terms[FAR_REDUCE, s] / x[m, s] if x[m, s] < terms[GPUS, s]
                    else terms[NEAR_REDUCE, s])
            worst = max(worst, seconds + mine)
            slowest[s] = max(slowest[s], seconds)
            reduce = max(reduce, mine)
    if micro_batches == 0:
        return worst
    total = 0.0
    longest = 0.0
    for s in range(x.shape[1]):
        total += slowest[s] / micro_batches
        longest = max(longest, slowest[s] / micro_batches)
    return total + (micro_batches - 1) * longest + reduce


@compiled
def heavy_edge_of(weight, size, kinds, counts, priority):
    """Map blocks, which are replicas with all their slices, to servers by Heavy-Edge.

    `weight` has the bytes exchanged between blocks (symmetric, 0 on the diagonal), `size` the GPUs
    of each block, and `kinds` the distinct sizes, ascending, each a divisor of the next. `counts`
    are the GPUs that each server provides, largest first; they add up to those of all blocks, and
    can hold them. `priority` is the order in which blocks are taken if no edge decides. Returns the
    server of each block.
    """
    blocks = len(size)
    server_of = np.full(blocks, -1, np.int64)
    link = np.empty(blocks)
    need = np.zeros(len(kinds), np.int64)
    later = np.zeros(len(kinds), np.int64)
    for j in range(len(kinds)):
        for v in range(blocks):
            need[j] += size[v] if size[v] >= kinds[j] else 0
        for count in counts:
            later[j] += count // kinds[j] * kinds[j]
    for m in range(len(counts)):
        for j in range(len(kinds)):
            later[j] -= counts[m] // kinds[j] * kinds[j]
        if m == len(counts) - 1:  # c = |V|
            server_of[server_of < 0] = m
            break
        link[:] = 0.0
        room = counts[m]
        one, other = _first_blocks(weight, size, kinds, server_of, priority, room, later, need)
        while True:
            for taken in (one, other):
                if taken < 0:
                    continue
                server_of[taken] = m
                room -= size[taken]
                for j in range(len(kinds)):
                    need[j] -= size[taken] if size[taken] >= kinds[j] else 0
                for v in range(blocks):
                    link[v] = max(link[v], weight[taken, v])
            if room == 0:
                break
            one = _next_block(link, size, kinds, server_of, priority, room, later, need)
            other = -1
    return server_of


@in_place
def _fits(room, kinds, later, need, one, other):
    """Whether blocks of sizes `one` and `other` fit into a server, and all others after them.

    `room` is the room of the current server; `later[j]` the GPUs of later servers that blocks of
    size `kinds[j]` can use; `need[j]` the GPUs that unplaced blocks of at least this size need. As
    sizes divide one another, it suffices that there is room for each size: the placement of larger
    blocks does not change the room for smaller ones.
    """
    rest = room - one - other
    if rest < 0:
        return False
    for j in range(len(kinds)):
        left = need[j] - (one if one >= kinds[j] else 0) - (other if other >= kinds[j] else 0)
        if rest // kinds[j] * kinds[j] + later[j] < left:
            return False
    return True


@in_place
def _first_blocks(weight, size, kinds, server_of, priority, room, later, need):
    """Find both ends of the heaviest edge that fits; if none fits, one block and -1.

    The block is the one whose edges to unplaced blocks have the least sum.
    """
    blocks = len(size)
    heaviest = 0.0
    for u in range(blocks):
        if server_of[u] >= 0 or room == 1:
            continue
        for v in range(u + 1, blocks):
            if (server_of[v] < 0 and weight[u, v] > heaviest
                    and _fits(room, kinds, later, need, size[u], size[v])):
                heaviest = weight[u, v]
    if heaviest > 0.0:
        for u in range(blocks):
            if server_of[u] >= 0:
                continue
            for v in range(u + 1, blocks):
                if (server_of[v] < 0 and weight[u, v] >= heaviest * (1 - EQUAL)
                        and _fits(room, kinds, later, need, size[u], size[v])):
                    return u, v
    least = np.inf
    found = -1
    for place in range(blocks):
        # If no edge fits, ties are broken by `priority`, which may be random.
        v = place if room == 1 else priority[place]
        if server_of[v] < 0 and _fits(room, kinds, later, need, size[v], 0):
            total = 0.0
            for u in range(blocks):
                total += weight[v, u] if server_of[u] < 0 else 0.0
            if total < least * (1 - EQUAL) or found < 0:
                least = total
                found = v
    return found, -1


@in_place
def _next_block(link, size, kinds, server_of, priority, room, later, need):
    """Find the block with the heaviest edge to the blocks of the server; -1 if none fits."""
    heaviest = 0.0
    for v in range(len(size)):
        if (server_of[v] < 0 and link[v] > heaviest
                and _fits(room, kinds, later, need, size[v], 0)):
            heaviest = link[v]
    for place in range(len(size)):
        v = place if heaviest > 0.0 else priority[place]
        if (server_of[v] < 0 and link[v] >= heaviest * (1 - EQUAL)
                and _fits(room, kinds, later, need, size[v], 0)):
            return v
    return -1


@in_place
def fill_plans(costs, best, begin, replicas):
    """Find the plans whose slowest stage takes least, by dynamic programming.

    The slowest of s stages of the first `end` layers on g GPUs, of which the last stage has the
    layers from `start` on and k replicas, takes::

        max(best[s - 1, start, g - k], costs[start, end, k - 1])

    with the costs of `netsim.models.planner.stage_costs`. The arrays to fill have the shape (stages
    + 1, layers + 1, GPUs + 1): `best`, all inf before, and `begin` and `replicas`, which get
    `start` and k of the last stage.
    """
    best[0, 0, 0] = 0.0
    for s in range(1, best.shape[0]):
        for end in range(s, best.shape[1]):
            for gpus in range(s, best.shape[2]):
                least = np.inf
                for start in range(s - 1, end):
                    for k in range(1, min(costs.shape[2], gpus) + 1):
                        slowest = max(best[s - 1, start, gpus - k], costs[start, end, k - 1])
                        if slowest < least * (1 - EQUAL):
                            least = slowest
                            begin[s, end, gpus] = start
                            replicas[s, end, gpus] = k
                best[s, end, gpus] = least
