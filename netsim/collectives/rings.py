"""Rings and chains: each position sends to the next one."""

from __future__ import annotations

import numpy as np

from netsim.collectives.messages import Round, one_step


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
