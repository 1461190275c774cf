"""Recursive halving and doubling, and dissemination.

If the number of positions is not a power of two, let p be the largest power of two below it. A
first step folds the odd positions among the first 2r into their neighbours, so that p positions
survive. A last step returns their data to the others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.collectives.messages import Round, one_step

Ints = NDArray[np.int64]


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
