"""Times of collectives: closed forms, step by step, waits, and bandwidths.

Closed forms are for a collective in steps, alone on an idle switch. All ports send and receive at B
bytes per second, every path has the latency L, and every step the overhead o; a = L + o. A step in
which the fullest port has G bytes takes a + G/B, and the next begins when it has ended everywhere.
So a collective of sigma steps takes

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

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from netsim.base.arrays import Floats
from netsim.collectives.algorithms import algorithms_of
from netsim.collectives.messages import Messages, Round, Schedule, Sizes, split


# --- closed forms --------------------------------------------------------------------------
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


# --- from messages -------------------------------------------------------------------------
def stepwise_s(schedule: Schedule, sizes: Sizes, rate: float, latency: float = 0.0,
               overhead: float = 0.0) -> float:
    """Compute the time of a collective in steps, alone on a non-blocking switch.

    A step takes the overhead, then as long as its fullest port sends or receives, and then the
    latency of a path. With G_s the bytes of the fullest port in step s, and sigma steps:

        T = sigma (latency + overhead) + sum over s of G_s / rate

    Parameters
    ----------
    schedule : Schedule
    sizes : Sizes
        The sizes of its pieces.
    rate : float
        Rate of each port in each direction, in bytes per second.
    latency, overhead : float
        Latency of every path, and overhead of every step, in seconds.

    Returns
    -------
    float
        Seconds; 0 for a single rank.
    """
    fullest = sum(times * nbytes for nbytes, times in port_bytes(schedule, sizes))
    return schedule.steps * (latency + overhead) + fullest / rate


def aggregated_s(schedule: Schedule, sizes: Sizes, rate: float, latency: float = 0.0,
                 overhead: float = 0.0) -> float:
    """Compute the time like `stepwise_s`, but with each phase as one coflow instead of steps.

    A phase takes as long as the port that sends or receives most over all steps of the phase. With
    sigma steps in all:

        T = sigma (latency + overhead) + sum over phases of max over ports of (port's bytes) / rate

    This assumes rates that end each phase as early as its fullest port allows. Max-min fairness may
    take longer if flows of a phase have different sizes, as in a double tree.

    The time is at most that of `stepwise_s`, because the largest sum is at most the sum of the
    largest values. The two are equal if and only if, in each phase, one port is the fullest in
    every step.
    """
    fullest = 0.0
    for phase, edges in enumerate(schedule.edges):
        nbytes = schedule.phase_bytes(phase, sizes)
        fullest += max(float(np.bincount(end, nbytes).max()) for end in (edges.src, edges.dst))
    return schedule.steps * (latency + overhead) + fullest / rate


def port_bytes(schedule: Schedule, sizes: Sizes) -> Iterator[tuple[float, int]]:
    """Yield the bytes of the fullest port of a step, and the number of such steps in a row.

    A port is one direction of a position: sending or receiving.
    """
    for each in schedule.rounds:
        if each.alike(sizes):
            yield _fullest(each, sizes, 0), each.times
        else:
            for repetition in range(each.times):
                yield _fullest(each, sizes, repetition), 1


def _fullest(each: Round, sizes: Sizes, repetition: int) -> float:
    nbytes = each.nbytes(sizes, repetition)
    return max(float(np.bincount(end, nbytes).max()) for end in (each.src, each.dst))


# --- waits ---------------------------------------------------------------------------------

_Held = tuple[int, int]


def waits(messages: Messages, in_turn: bool = False) -> list[list[int]]:
    """Return the messages whose arrival each message waits for.

    A message waits for two kinds of messages. (1) For each of its pieces: the messages of earlier
    steps that brought the piece to the sender since the sender last sent it; if there are none, the
    messages for which the sender waited when it last sent the piece. (2) The last message of an
    earlier step over the same edge and tree.

    Parameters
    ----------
    messages : Messages
    in_turn : bool
        Whether a message also waits for (3) the messages that its sender sent and received in the
        previous step.

    Returns
    -------
    list of list of int
        Indices into the messages, in ascending order.
    """
    brought: defaultdict[_Held, list[int]] = defaultdict(list)
    needed: dict[_Held, list[int]] = {}
    last: dict[tuple[int, int, int], int] = {}
    before: defaultdict[int, list[int]] = defaultdict(list)
    src, dst, tree = (array.tolist() for array in (messages.src, messages.dst, messages.tree))
    found: list[set[int]] = []
    for _, places in groupby(range(len(src)), messages.step.tolist().__getitem__):
        step = list(places)
        for m in step:
            for_pieces = (brought[held] or needed.get(held, ())
                          for held in ((src[m], piece) for piece in messages.pieces[m]))
            found.append({each for some in for_pieces for each in some})
            if (edge := (src[m], dst[m], tree[m])) in last:
                found[m].add(last[edge])
            if in_turn:
                found[m].update(before[src[m]])
        before.clear()
        sent = {(src[m], piece) for m in step for piece in messages.pieces[m]}
        for held in sent:
            if arrived := brought.pop(held, None):
                needed[held] = arrived
        for m in step:
            last[src[m], dst[m], tree[m]] = m
            before[src[m]].append(m)
            before[dst[m]].append(m)
            for piece in messages.pieces[m]:
                brought[dst[m], piece].append(m)
    return [sorted(each) for each in found]


# --- bandwidths, as nccl-tests count them --------------------------------------------------
class Bandwidths(NamedTuple):
    """Bandwidths of a collective, in bytes per second; NaN where there is none."""

    algbw: float  #: the size divided by the time
    busbw: float  #: what the busiest port needs whatever the algorithm; at most the rate of ports


#: The factor of busbw, as a function of the number of ranks.
_FACTORS = {
    "all-reduce": lambda n: 2 * (n - 1) / n,
    "all-gather": lambda n: (n - 1) / n, "reduce-scatter": lambda n: (n - 1) / n,
    "all-to-all": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0, "reduce": lambda n: 1.0, "send-recv": lambda n: 1.0,
}


def bandwidths(collective: str, ranks: int, nbytes: float, time_s: float, *,
               matrix: Floats | None = None, pairs: object = None) -> Bandwidths:
    """Compute the bandwidths of a collective.

    Parameters
    ----------
    collective : str
    ranks : int
    nbytes : float
        The size, as in `netsim.collectives.schedule`; payload, without headers.
    time_s : float
        Duration of the collective.
    matrix : ndarray of float, shape (ranks, ranks), optional
        Bytes that each rank sends to each other rank. The size is then the largest sum of a row;
        for busbw, the largest sum of a row or column without the diagonal.
    pairs : sequence, optional
        Given for a send-recv with user-defined pairs, which has no bandwidths.

    Returns
    -------
    Bandwidths
        NaN for a barrier, for a single rank, and if `time_s` is 0.

    Examples
    --------
    >>> bandwidths("all-reduce", 4, 1e9, 0.5)
    Bandwidths(algbw=2000000000.0, busbw=3000000000.0)
    """
    algorithms_of(collective)
    if ranks == 1 or not time_s > 0 or collective not in _FACTORS or pairs is not None:
        return Bandwidths(math.nan, math.nan)
    if matrix is not None:
        sent = matrix - np.diag(np.diag(matrix))
        most = max(sent.sum(axis=0).max(), sent.sum(axis=1).max())
        return Bandwidths(float(matrix.sum(axis=1).max()) / time_s, float(most) / time_s)
    algbw = nbytes / time_s
    return Bandwidths(algbw, algbw * _FACTORS[collective](ranks))
