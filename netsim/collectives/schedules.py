"""Schedules of messages: direct, rings, trees, recursive halving and doubling, hierarchical.

In trees, chunks move one after the other. For recursive schedules of a number of positions that is
not a power of two, let p be the largest power of two below it. A first step folds the odd positions
among the first 2r into their neighbours, so that p positions survive. A last step returns their
data to the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from netsim.base.arrays import Ints
from netsim.collectives.messages import Round, one_step


# --- direct exchanges ----------------------------------------------------------------------
def _others(n: int) -> tuple[Ints, Ints]:
    """Return all pairs of different positions."""
    src, dst = np.divmod(np.arange(n * n), n)
    apart = src != dst
    return src[apart], dst[apart]


def direct_reduce_scatter(n: int) -> list[Round]:
    """Make one step: each position i sends block j to each other position j, which adds it."""
    src, dst = _others(n)
    return [Round(src, dst, dst, np.ones(len(src), np.int64), n, adds=True)]


def direct_all_gather(n: int) -> list[Round]:
    """Make one step: each position i sends block i to all other positions."""
    src, dst = _others(n)
    return [Round(src, dst, src, np.ones(len(src), np.int64), n)]


def all_to_all(n: int) -> list[Round]:
    """Make one step: each position i sends piece i n + j to each other position j."""
    src, dst = _others(n)
    return [Round(src, dst, src * n + dst, np.ones(len(src), np.int64), n * n)]


def pairwise(n: int) -> list[Round]:
    """Make n - 1 steps: in step s = 0, 1, .., position i sends its piece for i + s + 1 to it."""
    src, one = np.arange(n), np.ones(n, np.int64)
    return [Round(src, dst := (src + step) % n, src * n + dst, one, n * n)
            for step in range(1, n)]


def send_recv(pairs: Sequence[tuple[int, int]]) -> list[Round]:
    """Make one step: the first position of each pair sends to the second."""
    src, dst = np.array(pairs, np.int64).T
    return [one_step(src, dst, np.arange(len(pairs)), 1, len(pairs))]


# --- rings and chains ----------------------------------------------------------------------
def ring_reduce_scatter(n: int) -> list[Round]:
    """Make a reduce-scatter, in which position i ends with block i of the sum.

    In step s, position i sends block i - 1 - s to position i + 1, which adds the block. For s > 0,
    position i has received this block in step s - 1.
    """
    at = np.arange(n)
    return [Round(at, (at + 1) % n, at - 1, np.ones(n, np.int64), n, n - 1, -1, adds=True)]


def ring_all_gather(n: int) -> list[Round]:
    """Make an all-gather: in step s, position i sends block i - s to position i + 1."""
    at = np.arange(n)
    return [Round(at, (at + 1) % n, at, np.ones(n, np.int64), n, n - 1, -1)]


def ring_orders(n: int, rings: int, group: int, root: int | None = None) -> list[Ints]:
    """Return the positions in the order of each ring; a root is at its own place in all of them.

    Groups of positions, such as the GPUs of servers, follow each other in each ring. Ring r enters
    even groups at place r and leaves them at place r - 1, and goes through odd groups the other way
    round, so that it stays on one rail between them; but for its last edge if groups are odd in
    number.

    >>> [order.tolist() for order in ring_orders(4, 2, 2)]
    [[0, 1, 3, 2], [1, 0, 2, 3]]
    """
    if rings == 1:
        return [np.arange(n)]
    server, place = np.divmod(np.arange(n), group)
    orders = [group * server + np.where(server % 2, ring - 1 - place, ring + place) % group
              for ring in range(0, group, group // rings)]
    return orders if root is None else [np.roll(order, root - order.tolist().index(root))
                                        for order in orders]


def in_rings(rounds: list[Round], n: int, rings: int, group: int, root: int | None = None
             ) -> list[Round]:
    """Let the rounds of a ring go round several rings, each with a part of every block.

    Of b blocks, block p of ring r is piece r b + p. If there is one per position, it belongs to
    that at place p of the ring.
    """
    if rings == 1:
        return rounds
    orders, made = ring_orders(n, rings, group, root), []
    for each in rounds:
        src, dst = (np.concatenate([order[ends] for order in orders])
                    for ends in (each.src, each.dst))
        base = np.repeat(each.wrap * np.arange(rings), len(each.src))
        order = np.lexsort((base, dst, src))
        made.append(replace(each, src=src[order], dst=dst[order], base=base[order],
                            first=np.tile(each.first, rings)[order],
                            count=np.tile(each.count, rings)[order]))
    return made


def ring_chain(n: int, chunks: int, root: int, adds: bool) -> list[Round]:
    """Send chunks along a chain; each position passes on a chunk as soon as it has the chunk.

    A broadcast goes up from the root: root + x sends chunk c to root + x + 1 in step x + c. A
    reduction goes up to the root: root - x sends chunk c to root - x + 1 in step n - 1 - x + c, for
    x from n - 1 to 1. The two differ only in where the chain begins, and in whether receivers
    add the chunks (`adds`).
    """
    begin = root + 1 if adds else root
    made = []
    for step in range(n + chunks - 2):
        link = np.arange(max(step - chunks + 1, 0), min(step, n - 2) + 1)
        src = (begin + link) % n
        made.append(one_step(src, (src + 1) % n, step - link, 1, chunks, adds))
    return made


# --- trees ---------------------------------------------------------------------------------
@lru_cache(maxsize=64)
def in_order_tree(n: int) -> tuple[Ints, Ints]:
    """Return the parents and depths of NCCL's in-order binary tree (``src/graph/trees.cc``).

    With b the lowest set bit of x, the parent of x > 0 is (x xor b) or 2b; or x xor b if that is
    not below n. The root is 0, with the parent -1 and the depth 0.

    >>> in_order_tree(6)
    (array([-1,  2,  4,  2,  0,  4]), array([0, 3, 2, 3, 1, 2]))
    """
    x = np.arange(n)
    low = x & -x
    up = (x ^ low) | (2 * low)
    parent = np.where(up < n, up, x ^ low)
    parent[0] = -1
    depth = np.zeros(n, np.int64)
    at = parent.copy()
    while (at >= 0).any():
        depth += at >= 0
        at = np.where(at >= 0, parent[np.maximum(at, 0)], -1)
    for array in (parent, depth):
        array.setflags(write=False)
    return parent, depth


def _up(n: int, step: int, chunks: int) -> tuple[Ints, Ints, Ints]:
    """Return senders, receivers and chunks: x sends chunk c to its parent in D - depth(x) + c."""
    parent, depth = in_order_tree(n)
    x = np.arange(1, n)
    chunk = step - depth.max() + depth[x]
    now = (chunk >= 0) & (chunk < chunks)
    return x[now], parent[x][now], chunk[now]


def _down(n: int, step: int, chunks: int) -> tuple[Ints, Ints, Ints]:
    """Return senders, receivers and chunks: chunk c is sent to x in depth(parent of x) + c."""
    parent, depth = in_order_tree(n)
    x = np.arange(1, n)
    chunk = step - depth[x] + 1
    now = (chunk >= 0) & (chunk < chunks)
    return parent[x][now], x[now], chunk[now]


def tree_broadcast(n: int, chunks: int, root: int) -> list[Round]:
    """Send chunks down the tree, from the root to all children at the same time."""
    _, depth = in_order_tree(n)
    return [one_step((src + root) % n, (dst + root) % n, chunk, 1, chunks)
            for step in range(int(depth.max()) + chunks - 1)
            for src, dst, chunk in [_down(n, step, chunks)]]


def tree_reduce(n: int, chunks: int, root: int) -> list[Round]:
    """Send chunks up the tree; each parent adds the data of its children."""
    _, depth = in_order_tree(n)
    return [one_step((src + root) % n, (dst + root) % n, chunk, 1, chunks, True)
            for step in range(int(depth.max()) + chunks - 1)
            for src, dst, chunk in [_up(n, step, chunks)]]


def tree_all_reduce(n: int, chunks: int) -> list[Round]:
    """Send chunks up the tree, and from the root down again as soon as they arrive."""
    return _trees_all_reduce(n, chunks, [np.arange(n)])


def double_tree_all_reduce(n: int, chunks: int) -> list[Round]:
    """Make an all-tree_reduce on two trees at the same time, each with half of the bytes.

    The second tree is the first with other labels, so leaves of one are inner nodes of the other: x
    becomes n - 1 - x if n is even, and x + 1 modulo n if it is odd.
    """
    x = np.arange(n)
    return _trees_all_reduce(n, chunks, [x, (x + 1) % n if n % 2 else n - 1 - x])


def _trees_all_reduce(n: int, chunks: int, labels: list[Ints]) -> list[Round]:
    """Make the steps of all trees together; ``labels[t][x]`` is the position of x in tree t."""
    deepest = int(in_order_tree(n)[1].max())
    made = []
    for step in range(2 * deepest + chunks - 1):
        sent = [(label[src], label[dst], tree * chunks + chunk, adds, tree)
                for tree, label in enumerate(labels)
                for adds, (src, dst, chunk) in ((True, _up(n, step, chunks)),
                                                (False, _down(n, step - deepest, chunks)))]
        src, dst, piece = (np.concatenate([each[k] for each in sent]) for k in range(3))
        adds, tree = (np.concatenate([np.full(len(each[0]), each[k]) for each in sent])
                      for k in (3, 4))
        made.append(one_step(src, dst, piece, 1, chunks * len(labels), adds, tree))
    return made


# --- recursive halving and doubling, dissemination -----------------------------------------
class _Survivors(NamedTuple):
    """The surviving positions, a power of two in number, and the blocks that they own.

    Survivor v owns the blocks from ``first[v]`` to ``first[v + 1]``.
    """

    position: Ints
    first: Ints
    folded: Ints


def _survivors(n: int) -> _Survivors:
    p = 1 << (n.bit_length() - 1)
    r = n - p
    v = np.arange(p)
    position = np.where(v < r, 2 * v, v + r)
    return _Survivors(position, np.append(position, n), 2 * np.arange(r))


def recursive_reduce_scatter(n: int) -> list[Round]:
    """Make a reduce-scatter, in which position i ends with block i of the sum."""
    position, first, folded = _survivors(n)
    whole = np.full(len(folded), n)
    rounds = _halving(position, first, n)
    if len(folded):
        rounds.insert(0, one_step(folded + 1, folded, 0 * folded, whole, n, adds=True))
        rounds.append(one_step(folded, folded + 1, folded + 1, 1, n))
    return rounds


def recursive_all_gather(n: int) -> list[Round]:
    """Make an all-gather, in which position i begins with block i."""
    position, first, folded = _survivors(n)
    rounds = _doubling(position, first, n)
    if len(folded):
        rounds.insert(0, one_step(folded + 1, folded, folded + 1, 1, n))
        rounds.append(one_step(folded, folded + 1, folded + 2, n - 1, n))
    return rounds


def halving_doubling(n: int) -> list[Round]:
    """Make an all-reduce: reduce-scatter and all-gather among the survivors of the fold."""
    position, _, folded = _survivors(n)
    p = len(position)
    first = np.arange(p + 1)
    rounds = [*_halving(position, first, p), *_doubling(position, first, p)]
    if len(folded):
        rounds.insert(0, one_step(folded + 1, folded, 0 * folded, p, p, adds=True))
        rounds.append(one_step(folded, folded + 1, 0 * folded, p, p))
    return rounds


def _halving(position: Ints, first: Ints, wrap: int) -> list[Round]:
    """At distance h = p/2, p/4, .., 1: v sends what the half of v xor h owns there."""
    v, rounds = np.arange(len(position)), []
    h = len(position) // 2
    while h:
        partner = v ^ h
        begin = partner // h * h
        rounds.append(one_step(position, position[partner], first[begin],
                               first[begin + h] - first[begin], wrap, adds=True))
        h //= 2
    return rounds


def _doubling(position: Ints, first: Ints, wrap: int) -> list[Round]:
    """At distance h = 1, 2, .., p/2: v sends all that the h survivors around it own."""
    v, rounds = np.arange(len(position)), []
    h = 1
    while h < len(position):
        begin = v // h * h
        rounds.append(one_step(position, position[v ^ h], first[begin],
                               first[begin + h] - first[begin], wrap))
        h *= 2
    return rounds


def dissemination(n: int) -> list[Round]:
    """Make a barrier: in step s, position i signals position i + 2^s.

    At that time, position i knows that the 2^s positions up to itself have reached the barrier.
    """
    at, rounds, h = np.arange(n), [], 1
    while h < n:
        rounds.append(one_step(at, (at + h) % n, at - h + 1, h, n))
        h *= 2
    return rounds


# --- hierarchical --------------------------------------------------------------------------

#: Reduce-scatter and all-gather, by algorithm.
_WAYS = {"ring": (ring_reduce_scatter, ring_all_gather),
         "direct": (direct_reduce_scatter, direct_all_gather)}


def hierarchical_all_reduce(n: int, group: int, inner: str, outer: str) -> list[list[Round]]:
    """Make three phases: reduce-scatter inside groups, all-reduce across, all-gather inside.

    Part l of the data belongs to the position with index l in each group, and is divided into one
    piece per group: group a has piece l G + a, where G is the number of groups. Phases without
    steps are left out.
    """
    scatter_inside, gather_inside = _WAYS[inner]
    scatter_across, gather_across = _WAYS[outer]
    groups = n // group
    phases: list[list[Round]] = [[], [], []]
    if group > 1:
        phases[0] = [_inside(each, n, group) for each in scatter_inside(group)]
        phases[2] = [_inside(each, n, group) for each in gather_inside(group)]
    if groups > 1:
        phases[1] = [_across(each, n, group) for each in
                     (*scatter_across(groups), *gather_across(groups))]
    return [phase for phase in phases if phase]


def _inside(each: Round, n: int, group: int) -> Round:
    """Make a round in which all groups do what one group does with its parts, at the same time."""
    groups = n // group
    begin = group * np.repeat(np.arange(groups), len(each.src))
    return replace(
        each, src=begin + np.tile(each.src, groups), dst=begin + np.tile(each.dst, groups),
        first=np.tile(each.first * groups, groups), count=np.tile(each.count * groups, groups),
        wrap=n, shift=each.shift * groups)


def _across(each: Round, n: int, group: int) -> Round:
    """Make a round in which the positions of each index exchange their pieces across groups.

    All indices do so at the same time.
    """
    groups = n // group
    index = np.tile(np.arange(group), len(each.src))
    src, dst, first, count = (np.repeat(array, group)
                              for array in (each.src, each.dst, each.first, each.count))
    order = np.lexsort((dst, index, src))
    made = replace(each, src=src * group + index, dst=dst * group + index, first=first,
                   count=count, wrap=groups, base=index * groups)
    assert isinstance(made.base, np.ndarray)
    return replace(made, src=made.src[order], dst=made.dst[order], first=first[order],
                   count=count[order], base=made.base[order])
