"""Programs of MSCCL as algorithms of collectives."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netsim.checks import check_path
from netsim.collectives.messages import Round, Schedule
from netsim.collectives.msccl_file import Listing, parse_listing
from netsim.collectives.msccl_run import (
    Message,
    check_results,
    matched,
    order_of,
    sent_messages,
)
from netsim.collectives.parts import Sizes
from netsim.errors import InputError, NetsimWarning, TraceError
from netsim.xml_tree import xml_bytes

#: The most steps of a program that is checked by itself, and the most chunks that it handles.
_MOST_STEPS, _MOST_CHUNKS = 100_000, 1_000_000

#: The order in which pieces of the buffers are numbered.
_BUFFER_ORDER = "ios"


def is_program(algorithm: str) -> bool:
    """Whether the name of an algorithm is the name of a file."""
    return algorithm.endswith(".xml")


@dataclass(frozen=True, eq=False)
class Program(Schedule):
    """A program of MSCCL: messages that wait for other messages; see `read_msccl`.

    Step s consists of the messages that wait for a chain of s other messages. Pieces are chunks of
    the sender's buffers: first the input, then the output, then the scratch buffer.

    Attributes
    ----------
    listing : Listing
        The contents of the file.
    """

    listing: Listing | None = None

    def sizes(self, nbytes: float, unit: float | None = None,
              matrix: NDArray[np.float64] | None = None) -> Sizes:
        """Return the sizes of chunks, all equal and rounded up to a multiple of the unit.

        The unit is 1 byte by default.

        Raises
        ------
        InputError
            If there is a matrix, or the unit is not positive.

        Warns
        -----
        NetsimWarning
            If the program is not meant for this size.
        """
        listing = self.listing
        assert listing is not None
        if matrix is not None:
            raise InputError(f"{listing.path}: a program takes no matrix")
        unit = 1.0 if unit is None else unit
        if not unit > 0:
            raise InputError(f"unit must be greater than 0 bytes, not {unit!r}")
        least, most = listing.min_bytes, listing.max_bytes
        if nbytes < least or (most and nbytes > most):
            warnings.warn(NetsimWarning(
                f"is meant for sizes from {least} {f'up to {most} bytes' if most else 'bytes on'}, "
                f"not {nbytes:g}", listing.path), stacklevel=3)
        chunk = math.ceil(nbytes / (unit * listing.chunks)) * unit
        return Sizes(chunk * listing.chunks, listing.chunks)


def read_msccl(path: str | Path, *, verify: bool | None = None) -> Program:
    """Read a program of MSCCL (XML); check that it can run and gives the right result.

    Parameters
    ----------
    path : path-like
    verify : bool, optional
        Whether to run the program on symbols and check the results; by default only if it has at
        most 100,000 steps, and its buffers and steps at most a million chunks. Whether the program
        can run at all is always checked.

    Returns
    -------
    Program
        The program, with the GPUs of the file as ranks. A message has all chunks of a step, and a
        step that sends is done when its message has arrived. Copies and additions take no time.

    Raises
    ------
    TraceError
        If the file cannot be read or is invalid, sends and receives do not match, steps wait for
        each other, a step reads unwritten data, or results are wrong; with the line, GPU, thread
        block and step.
    """
    check_path(path, "path")
    return _program(xml_bytes(path), Path(path), verify)


@lru_cache(maxsize=8)
def _program(data: bytes, path: Path, verify: bool | None) -> Program:
    """Make a program from the bytes of a file; cached, as jobs ask for the same one repeatedly."""
    listing = parse_listing(data, path)
    partner = matched(listing)
    order = order_of(listing, partner)
    if _is_small(listing) if verify is None else verify:
        check_results(listing, order, partner)
        # If steps do not wait for others as they should, another order gives other results.
        check_results(listing, order_of(listing, partner, last_first=True), partner)
    return _scheduled(listing, sent_messages(listing, order, partner))


def _is_small(listing: Listing) -> bool:
    chunks = 2 * listing.chunks * listing.gpus + sum(step.count for step in listing.steps)
    return len(listing.steps) <= _MOST_STEPS and chunks <= _MOST_CHUNKS


def _scheduled(listing: Listing, messages: list[Message]) -> Program:
    """Put messages in order of step, sender, receiver and pieces."""
    level: list[int] = []
    for each in messages:
        level.append(1 + max((level[other] for other in each.after), default=-1))
    first = [_first_piece(listing, each) for each in messages]
    keys = [(level[m], each.sent.gpu, each.received.gpu, first[m], m)
            for m, each in enumerate(messages)]
    order = sorted(range(len(messages)), key=keys.__getitem__)
    place = {m: k for k, m in enumerate(order)}
    after = tuple(tuple(sorted(place[other] for other in messages[m].after)) for m in order)
    rounds = []
    rows = np.array([(*key[:4], messages[key[4]].sent.count, messages[key[4]].received.type in (
        "rrc", "rrcs", "rrs")) for key in sorted(keys)], np.int64).reshape(-1, 6)
    for step in range(max(level, default=-1) + 1):
        of_step = rows[rows[:, 0] == step]
        _, src, dst, pieces, count, adds = of_step.T.copy()
        rounds.append(Round(src, dst, pieces, count, 2**62, adds=adds.astype(bool)))
    return Program(listing.collective, listing.path.name, listing.gpus, tuple(rounds),
                   (len(rounds),) if rounds else (), (listing.chunks,), after=after,
                   listing=listing)


def _first_piece(listing: Listing, message: Message) -> int:
    """Return the number of the first chunk of a message."""
    step = message.sent
    buffer, chunk = step.source if step.reads else step.target
    before = _BUFFER_ORDER[:_BUFFER_ORDER.index(buffer)]
    return chunk + sum(listing.size_of(step.gpu, each) for each in before)


def program_for(collective: str, path: str) -> Program:
    """Read the program of a file, which must describe the given collective."""
    made = read_msccl(path)
    if made.collective != collective:
        raise TraceError(f"is a program for {made.collective}, not for {collective}", path)
    return made
