"""Direct exchanges: each position sends straight to the position that needs the data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netsim.collectives.messages import Round, one_step


def _others(n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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
