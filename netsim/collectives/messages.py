"""The messages of a collective: who sends which parts of its bytes to whom, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.values import as_number
from netsim.errors import InputError


# --- parts of the bytes --------------------------------------------------------------------
def split(nbytes: float, count: int, unit: float | None = None) -> Floats:
    """Divide bytes into parts.

    Parameters
    ----------
    nbytes : float
        A multiple of `unit`, if that is given.
    count : int
        Number of parts, at least 1.
    unit : float, optional
        The size of an element in bytes; elements are not divided. By default, all parts are equal,
        because sizes are real numbers.

    Returns
    -------
    ndarray of float, shape (count,)
        With ``nbytes / unit = q count + r``, the first r parts have ``(q + 1) unit`` bytes and the
        others ``q unit``.

    Raises
    ------
    InputError
        If `nbytes` is not a multiple of `unit`.

    Examples
    --------
    >>> split(10.0, 4), split(40.0, 4, unit=4)
    (array([2.5, 2.5, 2.5, 2.5]), array([12., 12.,  8.,  8.]))
    """
    if unit is None:
        return np.full(count, nbytes / count, np.float64)
    least, more = divmod(whole_units(nbytes, unit), count)
    return (float(unit) * (least + (np.arange(count) < more))).astype(np.float64)


def whole_units(nbytes: float, unit: float) -> int:
    """Count the elements of `unit` bytes in `nbytes`, which must be a whole number."""
    unit = as_number(unit, "unit", above=0)
    if nbytes % unit:
        raise InputError(f"unit must divide the size: {nbytes:.17g} bytes are no whole number of "
                         f"elements of {unit:.17g} bytes", "unit")
    return int(nbytes // unit)


@dataclass(frozen=True)
class Sizes:
    """The sizes of the pieces of a collective.

    Equal pieces are not listed: k of them have ``nbytes * k / divisor`` bytes, rounded once.

    Attributes
    ----------
    nbytes : float
        The size of the collective.
    divisor : int
        Number of equal pieces that make up `nbytes`.
    listed : ndarray of float, shape (pieces,), optional
        The size of each piece, if they are not equal.
    """

    nbytes: float
    divisor: int
    listed: Floats | None = None

    def of(self, count: Ints, first: Ints | None = None, base: Ints | int = 0, wrap: int = 1
           ) -> Floats:
        """Return the bytes of some messages.

        Parameters
        ----------
        count : ndarray of int, shape (messages,)
            Number of pieces of each message.
        first : ndarray of int, shape (messages,)
            Piece k of a message is ``base + (first + k) % wrap``. Not needed if pieces are equal.
        """
        if self.listed is None:
            equal: Floats = self.nbytes * count / self.divisor
            return equal
        assert first is not None
        if (count == 1).all():
            return self.listed[base + first % wrap]
        stops = np.cumsum(count)
        place = np.arange(stops[-1]) - np.repeat(stops - count - first, count)
        pieces = np.repeat(np.broadcast_to(base, count.shape), count) + place % wrap
        return np.add.reduceat(self.listed[pieces], stops - count)


# --- messages ------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Round:
    """Several equal steps: the same messages, with pieces that move on from step to step.

    Piece k of message m in repetition t is ``base[m] + (first[m] + t shift + k) mod wrap``.

    Attributes
    ----------
    src, dst : ndarray of int, shape (messages,)
        Positions of the sender and the receiver, in order of sender, receiver and pieces.
    first, count : ndarray of int, shape (messages,)
        The offset of each message's first piece in the first step, counted from `base`, and the
        number of pieces of the message.
    wrap : int
        The number of pieces after which numbering starts again at `base`.
    times : int
        The number of steps.
    shift : int
        By how many pieces the messages move on from one step to the next.
    base : ndarray of int, shape (messages,), or int
        The number from which the pieces of a message are counted.
    adds : ndarray of bool, shape (messages,), or bool
        Whether the receiver adds the data to its own; otherwise it replaces its own.
    tree : ndarray of int, shape (messages,), or int
        The tree to which a message belongs, if there are several.
    """

    src: Ints
    dst: Ints
    first: Ints
    count: Ints
    wrap: int
    times: int = 1
    shift: int = 0
    base: Ints | int = 0
    adds: Bools | bool = False
    tree: Ints | int = 0

    def nbytes(self, sizes: Sizes, repetition: int = 0) -> Floats:
        """Return the bytes of each message in a repetition; shape (messages,)."""
        return sizes.of(self.count, self.first + repetition * self.shift, self.base, self.wrap)

    def pieces(self, message: int, repetition: int) -> list[int]:
        """Return the pieces of a message in a repetition, in ascending order."""
        first = int(self.first[message]) + repetition * self.shift
        base = int(np.broadcast_to(self.base, self.src.shape)[message])
        return sorted(base + (first + k) % self.wrap for k in range(int(self.count[message])))

    def alike(self, sizes: Sizes) -> bool:
        """Whether all steps send the same bytes between the same positions."""
        return self.times == 1 or not self.shift or sizes.listed is None


def one_step(src: Ints, dst: Ints, first: Ints, count: Ints | int, wrap: int,
             adds: Bools | bool = False, tree: Ints | int = 0) -> Round:
    """Make a round of one step; its messages are sorted."""
    order = np.lexsort((first, dst, src))
    whole = np.broadcast_to(count, src.shape)[order]
    return Round(src[order], dst[order], first[order], whole, wrap,
                 adds=adds if isinstance(adds, bool) else adds[order],
                 tree=tree if isinstance(tree, int) else tree[order])


class Messages(NamedTuple):
    """All messages of a collective, in order of step, sender, receiver and pieces.

    Attributes
    ----------
    step : ndarray of int, shape (messages,)
    src, dst : ndarray of int, shape (messages,)
        Ranks.
    nbytes : ndarray of float, shape (messages,)
    pieces : list of list of int
        The pieces of each message, in ascending order.
    adds : ndarray of bool, shape (messages,)
        Whether the receiver adds the data to its own.
    tree : ndarray of int, shape (messages,)
    """

    step: Ints
    src: Ints
    dst: Ints
    nbytes: Floats
    pieces: list[list[int]]
    adds: Bools
    tree: Ints


class Edges(NamedTuple):
    """The bytes that a phase sends over each directed edge, in order of sender and receiver.

    Attributes
    ----------
    src, dst : ndarray of int, shape (edges,)
        Ranks.
    pieces : ndarray of int, shape (edges,)
        Number of pieces sent over each edge.
    steps : tuple of (ndarray of int, int)
        The kinds of steps that the phase merges: the indices of the edges in use, and the number of
        steps of this kind. See `netsim.network.Wire.overhead_of`.
    """

    src: Ints
    dst: Ints
    pieces: Ints
    steps: tuple[tuple[Ints, int], ...]


@dataclass(frozen=True, eq=False)
class Schedule:
    """The messages of a collective among some ranks, for any size.

    Attributes
    ----------
    collective, algorithm : str
    ranks : int
    rounds : tuple of Round
        The steps, one after the other.
    phase_lengths : tuple of int
        The number of rounds of each phase.
    cuts : tuple of int
        How the data is divided: into ``cuts[0]`` parts, each of them into ``cuts[1]``, and so on.
        The smallest parts are the pieces.
    copies : int
        The number of sets of such pieces: one per rank in an all-to-all, because each rank has data
        of its own; one in total if all ranks work on the same data.
    order : tuple of int, optional
        The rank at each position; position p is rank p if not given.
    in_turn : bool
        Whether each rank ends a step before it begins the next one, even if no piece requires that.
    after : tuple of tuple of int, optional
        For each message, in the order of `messages`, the messages that it waits for, if the
        algorithm defines these. By default they follow from `netsim.collectives.waits`.
    """

    collective: str
    algorithm: str
    ranks: int
    rounds: tuple[Round, ...]
    phase_lengths: tuple[int, ...]
    cuts: tuple[int, ...]
    copies: int = 1
    order: tuple[int, ...] | None = None
    in_turn: bool = False
    after: tuple[tuple[int, ...], ...] | None = None

    @property
    def steps(self) -> int:
        """Number of steps."""
        return sum(each.times for each in self.rounds)

    @property
    def pieces(self) -> int:
        """Number of pieces into which the data is divided."""
        return int(np.prod(self.cuts, dtype=np.int64)) * self.copies

    @property
    def phases(self) -> tuple[int, ...]:
        """The first step of each phase."""
        firsts = [0, *accumulate(each.times for each in self.rounds)]
        return tuple(firsts[k] for k in accumulate((0, *self.phase_lengths[:-1]))
                     ) if self.rounds else ()

    @property
    def messages_sent(self) -> int:
        """Number of messages of all steps."""
        return sum(each.times * len(each.src) for each in self.rounds)

    def sizes(self, nbytes: float, unit: float | None = None,
              matrix: Floats | None = None) -> Sizes:
        """Return the sizes of the pieces.

        Parameters
        ----------
        nbytes : float
            The size of the collective, as `netsim.collectives.schedule` says.
        unit : float, optional
            The size of an element in bytes; elements are not divided.
        matrix : ndarray of float, shape (ranks, ranks), optional
            For an all-to-all: bytes that each position sends to each other one.

        Raises
        ------
        InputError
            If the unit does not divide the bytes.
        """
        if matrix is not None:
            return Sizes(nbytes, 1, matrix.ravel())
        if self.collective == "barrier":
            return Sizes(0.0, 1)
        if unit is None:
            return Sizes(nbytes, int(np.prod(self.cuts, dtype=np.int64)))
        listed = np.array([nbytes])
        for count in self.cuts:
            listed = np.concatenate([split(float(part), count, unit) for part in listed])
        return Sizes(nbytes, len(listed), np.tile(listed, self.copies))

    def at(self, positions: Ints) -> Ints:
        """Return the ranks at some positions."""
        return positions if self.order is None else np.array(self.order)[positions]

    def phase_rounds(self) -> Iterator[Sequence[Round]]:
        """Yield the rounds of each phase."""
        for begin, end in pairwise(accumulate((0, *self.phase_lengths))):
            yield self.rounds[begin:end]

    @cached_property
    def edges(self) -> tuple[Edges, ...]:
        """The number of pieces that each phase sends over each edge, and its steps."""
        return tuple(self._edges(rounds) for rounds in self.phase_rounds())

    def _edges(self, rounds: Sequence[Round]) -> Edges:
        n = self.ranks
        codes = [each.src * n + each.dst for each in rounds]
        found = np.unique(np.concatenate(codes))
        count, steps = np.zeros(len(found), np.int64), []
        for each, code in zip(rounds, codes, strict=True):
            place = np.searchsorted(found, code)
            np.add.at(count, place, each.times * each.count)
            steps.append((np.unique(place), each.times))
        src, dst = np.divmod(found, n)
        return Edges(self.at(src), self.at(dst), count, tuple(steps))

    def phase_bytes(self, phase: int, sizes: Sizes) -> Floats:
        """Return the bytes that a phase sends over each of its `edges`; shape (edges,)."""
        if sizes.listed is None:
            return sizes.of(self.edges[phase].pieces)
        n, rounds = self.ranks, list(self.phase_rounds())[phase]
        found = np.unique(np.concatenate([each.src * n + each.dst for each in rounds]))
        total = np.zeros(len(found))
        for each in rounds:
            place = np.searchsorted(found, each.src * n + each.dst)
            for repetition in range(each.times):
                np.add.at(total, place, each.nbytes(sizes, repetition))
        return total

    def messages(self, sizes: Sizes) -> Messages:
        """List all messages."""
        rounds = [(each, t) for each in self.rounds for t in range(each.times)]
        if not rounds:
            none = np.zeros(0, np.int64)
            return Messages(none, none, none, np.zeros(0), [], none.astype(bool), none)

        def joined(name: str) -> NDArray[Any]:
            return np.concatenate([np.broadcast_to(getattr(each, name), each.src.shape)
                                   for each, _ in rounds])

        step = np.repeat(np.arange(len(rounds)), [len(each.src) for each, _ in rounds])
        nbytes = np.concatenate([each.nbytes(sizes, t) for each, t in rounds])
        pieces = [each.pieces(m, t) for each, t in rounds for m in range(len(each.src))]
        return Messages(step, self.at(joined("src")), self.at(joined("dst")), nbytes, pieces,
                        joined("adds"), joined("tree"))
