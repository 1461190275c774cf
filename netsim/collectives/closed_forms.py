"""Formulas for the time of a collective in steps, alone on an idle switch.

All ports send and receive at B bytes per second, every path has the latency L, and every step the
overhead o; a = L + o. A step in which the fullest port has G bytes takes a + G/B, and the next
begins when it has ended everywhere. So a collective of sigma steps takes

    T = sigma a + (1/B) sum over s of G_s

and a formula is that sum. Parts are equal: n ranks, S bytes, d = floor(log2 n), p = 2^d, r = n - p.

Ring
    A step moves one of n blocks over each edge: G = S/n. Reduce-scatter and all-gather have n - 1
    steps each, an all-reduce both. With an element size, all n blocks are on the way in each step,
    so that G is the largest block.
Direct
    A port sends its n - 1 blocks in one step: G = (n - 1) S/n.
Halving and doubling, r = 0
    Step h = n/2, n/4, .., 1 moves h blocks per port: S/n (n/2 + .. + 1) = (n - 1) S/n in d steps.
Halving-doubling, r > 0
    The same on p parts, twice, and S bytes each in the fold and at the end.
Reduce-scatter by halving, r > 0
    The fold moves S, the last step a block. In between, survivors with two blocks are the first r
    of p. At distance h, the most that one sends is to the half that begins at survivor 0:
    h + min(r, h) blocks. All-gather by doubling mirrors it: a block at first, and at the end n - 1
    blocks instead of n: (n - 1) + 1 = n blocks, or S.
Tree, n = 2^d, one chunk
    The root has one child, and others have two at most. Going up, the deepest level is merged by
    parents of two children (G = 2S) in each step but the last, into the root (G = S): 2d - 1 in d
    steps; likewise down.
Double tree, n = 2^d >= 4, one chunk
    Half of the bytes on each tree, and what is full in one is a leaf in the other: half of a tree's
    time. With n = 2 both trees are one edge, in opposite directions: G = S/2 in 2 steps.
Chain
    n - 2 + k steps of S/k.
Broadcast, reduce by tree, n = 2^d >= 4
    d + k - 1 steps, of which only the first (or last), at the root with its one child, has G = S/k;
    the others have 2 S/k: 2 (d + k - 1) - 1 = 2 (d + k) - 3 times S/k.
All-to-all by a matrix
    Direct: the largest row or column, without the diagonal. Pairwise: in step s, every port has one
    message; the largest of M_(i, i+s).
Hierarchical
    Rings inside groups of g move blocks of S/g, those across them blocks of S/n; each twice. A
    direct exchange moves all blocks of a ring in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.collectives.parts import split

Floats = NDArray[np.float64]


class _Given(NamedTuple):
    """The numbers in a formula.

    `block` is the largest of n parts; `messages` is the number of messages at the fullest port of a
    send-recv.
    """

    n: int
    nbytes: float
    block: float
    chunks: int
    group: int
    ways: tuple[str, str]
    matrix: Floats | None
    messages: int

    @property
    def d(self) -> int:
        return self.n.bit_length() - 1

    @property
    def p(self) -> int:
        return 1 << self.d

    @property
    def r(self) -> int:
        return self.n - self.p


#: Steps, and bytes of the fullest port of all steps together; None if there is no formula.
_Found = tuple[float, float] | None


def closed_form_s(collective: str, algorithm: str, ranks: int, nbytes: float, rate: float,
                  latency: float = 0.0, overhead: float = 0.0, *, chunks: int = 1,
                  unit: float | None = None, group: int | None = None, inner: str = "ring",
                  outer: str = "ring", matrix: Floats | None = None,
                  pairs: Sequence[Sequence[int]] | None = None) -> float | None:
    """Compute the time of a step-by-step collective by a formula; see the module.

    Parameters
    ----------
    collective, algorithm : str
    ranks : int
    nbytes : float
        The size, as in `netsim.collectives.schedule`; not used with a matrix.
    rate : float
        Rate of each port, in bytes per second.
    latency, overhead : float
        Seconds.
    chunks, unit, group, inner, outer, matrix, pairs
        As in `netsim.collectives.schedule` and `Schedule.sizes`.

    Returns
    -------
    float or None
        Seconds; None if there is no formula for this case. `stepwise_s` computes the time from the
        messages.
    """
    if ranks == 1:
        return 0.0
    formula = _FORMULAS.get((collective, algorithm))
    if formula is None or (unit is not None and (algorithm != "ring" or chunks > 1)):
        return None
    block = nbytes / ranks if unit is None else float(split(nbytes, ranks, unit)[0])
    ends: list[list[int]] = [[p, (p + 1) % ranks] for p in range(ranks)]
    used = np.array(ends if pairs is None else pairs)
    most = max(int(np.bincount(used[:, way]).max()) for way in (0, 1))
    found = formula(_Given(ranks, nbytes, block, chunks, group or ranks,
                           (inner, outer), matrix, most))
    return None if found is None else found[0] * (latency + overhead) + found[1] / rate


def _ring(g: _Given) -> _Found:
    return g.n - 1, (g.n - 1) * g.block


def _direct(g: _Given) -> _Found:
    return 1, (g.n - 1) * g.block


def _twice(formula: Callable[[_Given], _Found]) -> Callable[[_Given], _Found]:
    """Return the formula of a reduce-scatter followed by an equal all-gather."""
    def both(g: _Given) -> _Found:
        found = formula(g)
        return None if found is None else (2 * found[0], 2 * found[1])
    return both


def _halving_doubling(g: _Given) -> _Found:
    sent = 2 * (g.p - 1) / g.p * g.nbytes
    return (2 * g.d + 2, sent + 2 * g.nbytes) if g.r else (2 * g.d, sent)


def _halving(g: _Given) -> _Found:
    if not g.r:
        return g.d, (g.n - 1) * g.block
    return g.d + 2, g.nbytes + (1 + _blocks_at_most(g)) * g.block


def _doubling(g: _Given) -> _Found:
    if not g.r:
        return g.d, (g.n - 1) * g.block
    return g.d + 2, g.nbytes + _blocks_at_most(g) * g.block


def _blocks_at_most(g: _Given) -> int:
    """Sum h + min(r, h) over the distances h = p/2, p/4, .., 1."""
    return sum((h := 1 << k) + min(g.r, h) for k in range(g.d))


def _tree(g: _Given) -> _Found:
    if g.r or g.chunks > 1:
        return None
    return 2 * g.d, (4 * g.d - 2) * g.nbytes


def _double_tree(g: _Given) -> _Found:
    if g.r or g.chunks > 1:
        return None
    return 2 * g.d, g.nbytes if g.n == 2 else (2 * g.d - 1) * g.nbytes


def _hierarchical(g: _Given) -> _Found:
    inside, across = g.group - 1, g.n // g.group - 1
    steps = sum(blocks if way == "ring" else min(blocks, 1)
                for blocks, way in zip((inside, across), g.ways, strict=True))
    return 2 * steps, 2 * inside * g.nbytes / g.group + 2 * across * g.nbytes / g.n


def _chain(g: _Given) -> _Found:
    steps = g.n - 2 + g.chunks
    return steps, steps * g.nbytes / g.chunks


def _rooted_tree(g: _Given) -> _Found:
    if g.r:
        return None
    if g.n == 2:
        return g.chunks, g.nbytes
    return g.d + g.chunks - 1, (2 * (g.d + g.chunks) - 3) * g.nbytes / g.chunks


def _all_to_all(g: _Given) -> _Found:
    if g.matrix is None:
        return _direct(g)
    sent = g.matrix - np.diag(np.diag(g.matrix))
    return 1, float(max(sent.sum(axis=0).max(), sent.sum(axis=1).max()))


def _pairwise(g: _Given) -> _Found:
    if g.matrix is None:
        return _ring(g)
    at = np.arange(g.n)
    return g.n - 1, float(sum(g.matrix[at, (at + step) % g.n].max() for step in range(1, g.n)))


_FORMULAS: dict[tuple[str, str], Callable[[_Given], _Found]] = {
    ("all-reduce", "ring"): _twice(_ring),
    ("all-reduce", "direct"): _twice(_direct),
    ("all-reduce", "halving-doubling"): _halving_doubling,
    ("all-reduce", "tree"): _tree,
    ("all-reduce", "double-tree"): _double_tree,
    ("all-reduce", "hierarchical"): _hierarchical,
    **{(collective, algorithm): formula for collective in ("reduce-scatter", "all-gather")
       for algorithm, formula in (("ring", _ring), ("direct", _direct))},
    ("reduce-scatter", "recursive"): _halving,
    ("all-gather", "recursive"): _doubling,
    **{(collective, algorithm): formula for collective in ("broadcast", "reduce")
       for algorithm, formula in (("ring", _chain), ("tree", _rooted_tree))},
    ("all-to-all", "direct"): _all_to_all,
    ("all-to-all", "pairwise"): _pairwise,
    ("send-recv", "direct"): lambda g: (1, g.messages * g.nbytes),
    ("barrier", "dissemination"): lambda g: ((g.n - 1).bit_length(), 0.0),
}
