"""Binary trees, through which chunks move one after the other."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from netsim.collectives.messages import Round, one_step

Ints = NDArray[np.int64]


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
