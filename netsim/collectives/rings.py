"""Rings and chains: each position sends to the next one."""

from __future__ import annotations

import numpy as np

from netsim.collectives.messages import Round, one_step

__all__ = ["all_gather", "chain", "reduce_scatter"]


def reduce_scatter(n: int) -> list[Round]:
    """Position i ends with block i of the sum.

    In step s, i sends block i - 1 - s to i + 1, which adds it; it got that in step s - 1.
    """
    at = np.arange(n)
    return [Round(at, (at + 1) % n, at - 1, np.ones(n, np.int64), n, n - 1, -1, adds=True)]


def all_gather(n: int) -> list[Round]:
    """Position i begins with block i; in step s, it sends block i - s to i + 1."""
    at = np.arange(n)
    return [Round(at, (at + 1) % n, at, np.ones(n, np.int64), n, n - 1, -1)]


def chain(n: int, chunks: int, root: int, adds: bool) -> list[Round]:
    """Send chunks along a chain, each position as soon as it has one.

    A broadcast goes up from the root: root + x sends chunk c to root + x + 1 in step x + c. A
    reduction comes down to it: root - x sends chunk c to root - x + 1 in step n - 1 - x + c, for x
    from n - 1 to 1. Both differ only in where the chain begins, and in what receivers do.
    """
    begin = root + 1 if adds else root
    made = []
    for step in range(n + chunks - 2):
        link = np.arange(max(step - chunks + 1, 0), min(step, n - 2) + 1)
        src = (begin + link) % n
        made.append(one_step(src, (src + 1) % n, step - link, 1, chunks, adds))
    return made
