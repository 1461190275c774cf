"""Compiled: what an iteration takes, and Heavy-Edge.

`netsim.models.iteration_time.iteration_parts` and `netsim.reference.mapping` are readable;
the tests hold one against the other.
"""

from __future__ import annotations

import numpy as np

from netsim.compiling import compiled, in_place

__all__ = ["EQUAL", "heavy_edge_of", "per_iteration_of"]

#: Rows of `netsim.models.iteration_time.StageTerms`.
(GPUS, _, COMPUTE, SLICES, FAR_IN, NEAR_IN, FAR_OUT, NEAR_OUT, FAR_EXPERTS, NEAR_EXPERTS,
 FAR_REDUCE, NEAR_REDUCE) = range(12)

#: Weights that differ by less, relative, are equal.
EQUAL = 1e-9


@in_place
def per_iteration_of(x, terms, micro_batches, slowest):
    """Return what an iteration takes, in seconds (Eq. 7).

    Parameters
    ----------
    x : ndarray of int, shape (servers, stages)
    terms : ndarray of float, shape (12, stages)
        `StageTerms`.
    micro_batches : int
        0 for an asynchronous pipeline.
    slowest : ndarray of float, shape (stages,)
        Room to work in.
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
    """Return the server of each block: of a replica, with all its slices.

    Parameters
    ----------
    weight : ndarray of float, shape (blocks, blocks)
        Bytes between them; symmetric, 0 on the diagonal.
    size : ndarray of int, shape (blocks,)
        GPUs of each.
    kinds : ndarray of int
        The sizes that there are. Each divides the next larger one.
    counts : ndarray of int, shape (servers,)
        GPUs that each server gives, largest first; as many as blocks need, and able to hold them.
    priority : ndarray of int, shape (blocks,)
        Who is taken first where there is no edge.
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
        one, other = _first(weight, size, kinds, server_of, priority, room, later, need)
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
            one = _next(link, size, kinds, server_of, priority, room, later, need)
            other = -1
    return server_of


@in_place
def _holds(room, kinds, later, need, one, other):
    """Say whether blocks of these sizes fit into a server, and the rest into it and later ones.

    As sizes divide one another, it does if for each size there are so many places for blocks of
    at least that size: how those of one size are placed takes none from smaller ones.
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
def _first(weight, size, kinds, server_of, priority, room, later, need):
    """Return both ends of the heaviest edge that fits; else one block, with the least edges."""
    blocks = len(size)
    heaviest = 0.0
    for u in range(blocks):
        if server_of[u] >= 0 or room == 1:
            continue
        for v in range(u + 1, blocks):
            if (server_of[v] < 0 and weight[u, v] > heaviest
                    and _holds(room, kinds, later, need, size[u], size[v])):
                heaviest = weight[u, v]
    if heaviest > 0.0:
        for u in range(blocks):
            if server_of[u] >= 0:
                continue
            for v in range(u + 1, blocks):
                if (server_of[v] < 0 and weight[u, v] >= heaviest * (1 - EQUAL)
                        and _holds(room, kinds, later, need, size[u], size[v])):
                    return u, v
    least = np.inf
    found = -1
    for place in range(blocks):
        v = place if room == 1 else priority[place]  # a tie of no edges is open to chance
        if server_of[v] < 0 and _holds(room, kinds, later, need, size[v], 0):
            total = 0.0
            for u in range(blocks):
                total += weight[v, u] if server_of[u] < 0 else 0.0
            if total < least * (1 - EQUAL) or found < 0:
                least = total
                found = v
    return found, -1


@in_place
def _next(link, size, kinds, server_of, priority, room, later, need):
    """Return the block with the heaviest edge to those that the server has."""
    heaviest = 0.0
    for v in range(len(size)):
        if (server_of[v] < 0 and link[v] > heaviest
                and _holds(room, kinds, later, need, size[v], 0)):
            heaviest = link[v]
    for place in range(len(size)):
        v = place if heaviest > 0.0 else priority[place]
        if (server_of[v] < 0 and link[v] >= heaviest * (1 - EQUAL)
                and _holds(room, kinds, later, need, size[v], 0)):
            return v
    return -1
