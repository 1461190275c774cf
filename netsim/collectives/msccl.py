"""Programs of MSCCL as algorithms of collectives.

An XML file lists GPUs, thread blocks and steps. Running it gives the order of the steps, and with
that the messages, what each waits for, and whether there is a deadlock or a wrong result.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NoReturn

import numpy as np

from netsim.base.arrays import Floats
from netsim.base.files import stem_of
from netsim.base.reading import read_bytes
from netsim.base.values import as_number
from netsim.base.xml_tree import Element, parse_xml
from netsim.collectives.messages import Round, Schedule, Sizes
from netsim.errors import InputError, NetsimWarning, TraceError, unknown_name

# --- the file ------------------------------------------------------------------------------

#: The collectives that MSCCL's names stand for.
_COLLECTIVES = {"allreduce": "all-reduce", "allgather": "all-gather", "alltoall": "all-to-all",
                "reduce_scatter": "reduce-scatter", "reducescatter": "reduce-scatter"}

#: By type of step, what it does: send (s), receive (r), read its source (<), write its target (>).
_TYPES = {"s": "s<", "r": "r>", "cpy": "<>", "re": "<>", "nop": "", "rrc": "r<>", "rcs": "rs>",
          "rrs": "rs<", "rrcs": "rs<>"}

_BUFFERS = {"i": "i", "input": "i", "o": "o", "output": "o", "s": "s", "scratch": "s"}

#: The largest size for which a program is meant by default, in bytes.
_MAX_BYTES = 2**27


@dataclass(frozen=True, eq=False)
class Step:
    """One step of a thread block of a GPU."""

    gpu: int
    block: int
    number: int
    type: str  #: as in the file; see `_TYPES`
    source: tuple[str, int]  #: a buffer, ``"i"``, ``"o"`` or ``"s"``, and the first chunk there
    target: tuple[str, int]
    count: int  #: of chunks
    #: The thread block and the number of the step on the same GPU for which this step waits.
    after: tuple[int, int] | None
    line: int

    @property
    def sends(self) -> bool:
        """Whether it sends a message."""
        return "s" in _TYPES[self.type]

    @property
    def receives(self) -> bool:
        """Whether it receives a message."""
        return "r" in _TYPES[self.type]

    @property
    def reads(self) -> bool:
        """Whether it reads its source."""
        return "<" in _TYPES[self.type]

    @property
    def writes(self) -> bool:
        """Whether it writes its target."""
        return ">" in _TYPES[self.type]

    @property
    def where(self) -> str:
        """The position of the step, in words."""
        return f"gpu {self.gpu} tb {self.block} step {self.number}"


@dataclass(frozen=True, eq=False)
class Block:
    """A thread block: its peers to send to and receive from (-1: none), its channel and steps."""

    gpu: int
    number: int
    send: int
    recv: int
    channel: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, eq=False)
class Listing:
    """A program as listed in its file."""

    path: Path
    name: str
    protocol: str
    collective: str
    gpus: int
    chunks: int  #: of the larger buffer of a rank
    in_place: bool
    min_bytes: int  #: the smallest size for which the program is meant
    max_bytes: int  #: the largest one; 0 if there is none
    scratch: tuple[int, ...]  #: chunks of the scratch buffer of each GPU
    blocks: Mapping[tuple[int, int], Block]  #: by GPU and number

    @cached_property
    def steps(self) -> list[Step]:
        """All steps, by GPU, thread block and number."""
        return [step for block in self.blocks.values() for step in block.steps]

    def size_of(self, gpu: int, buffer: str) -> int:
        """Return the number of chunks of a buffer."""
        if buffer == "s":
            return self.scratch[gpu]
        small = {"all-gather": "i", "reduce-scatter": "o"}.get(self.collective)
        return self.chunks // self.gpus if buffer == small else self.chunks

    def refuse(self, message: str, step: Step | None = None) -> NoReturn:
        """Raise a `TraceError`, with the position of a step if one is given."""
        if step is None:
            raise TraceError(message, self.path)
        raise TraceError(f"{step.where}: {message}", self.path, step.line)


def parse_listing(data: bytes, path: Path) -> Listing:
    """Parse the XML of a program, and check its elements."""
    root = parse_xml(data, path)
    if root.name != "algo":
        root.refuse(f"must be an <algo>, not a <{root.name}>")
    given = root.text("coll")
    if given not in _COLLECTIVES:
        root.refuse(unknown_name("collective", given, _COLLECTIVES))
    collective = _COLLECTIVES[given]
    gpus, chunks = root.whole("ngpus", 1), root.whole("nchunksperloop", 1)
    if collective != "all-reduce" and chunks % gpus:
        root.refuse(f"nchunksperloop, {chunks}, must be a multiple of ngpus, {gpus}")
    low, high = root.whole("minBytes", 0, 0), root.whole("maxBytes", 0, _MAX_BYTES)
    if high and low > high:
        root.refuse(f"minBytes, {low}, must not be above maxBytes, {high}")
    found: dict[int, Element] = {}
    for element in root.named("gpu"):
        if (number := element.whole("id", 0)) in found:
            element.refuse(f"gpu {number} is there twice, first on line {found[number].line}")
        found[number] = element
    if len(found) != gpus or max(found) >= gpus:  # not all of a range, which may be huge
        wrong = next(gpu for gpu in range(len(found) + 1) if gpu not in found)
        if wrong >= gpus:
            wrong = min(gpu for gpu in found if gpu >= gpus)
        root.refuse(f"ids of GPUs must be 0 to {gpus - 1}: gpu {wrong} is "
                    f"{'too much' if wrong in found else 'missing'}")
    scratch = tuple(found[gpu].whole("s_chunks", 0, 0) for gpu in range(gpus))
    blocks: dict[tuple[int, int], Block] = {}
    for gpu in range(gpus):
        _check_chunks(found[gpu], collective, gpus, chunks)
        blocks |= _blocks(found[gpu], gpu, gpus)
    made = Listing(path, root.text("name", stem_of(path)), root.text("proto", ""), collective, gpus,
                   chunks, bool(root.whole("inplace", 0, 0)), low, high, scratch, blocks)
    for step in made.steps:
        _check_step(made, step)
    return made


def _check_chunks(gpu: Element, collective: str, gpus: int, chunks: int) -> None:
    for key, small in (("i_chunks", "all-gather"), ("o_chunks", "reduce-scatter")):
        count, times = gpu.whole(key, 0, 0), gpus if collective == small else 1
        if count and count * times != chunks:
            gpu.refuse(f"{key} {count}{f' times {gpus} GPUs' * (times > 1)} must be "
                       f"nchunksperloop, {chunks}")


def _blocks(element: Element, gpu: int, gpus: int) -> dict[tuple[int, int], Block]:
    """Read the thread blocks of a GPU."""
    found: dict[tuple[int, int], Block] = {}
    for block in element.named("tb"):
        number = block.whole("id", 0)
        if (gpu, number) in found:
            block.refuse(f"gpu {gpu}: tb {number} is there twice")
        send, recv = (block.whole(key, -1, -1) for key in ("send", "recv"))
        for key, peer in (("send", send), ("recv", recv)):
            if peer == gpu or peer >= gpus:
                block.refuse(f"gpu {gpu} tb {number}: {key} {peer} must be another GPU, 0 to "
                             f"{gpus - 1}, or -1")
        steps = tuple(_step(each, gpu, number, k) for k, each in enumerate(block.named("step")))
        found[gpu, number] = Block(gpu, number, send, recv, block.whole("chan", 0, 0),
                                       steps)
    return found


def _step(element: Element, gpu: int, block: int, place: int) -> Step:
    where = f"gpu {gpu} tb {block} step {place}"
    number = element.whole("s", 0)
    if number != place:
        element.refuse(f"{where}: steps out of order: the next one must be {place}, not {number}")
    kind = element.text("type")
    if kind not in _TYPES:
        element.refuse(f"{where}: {unknown_name('type', kind, _TYPES)}")
    source, target = (_end(element, side, where) for side in ("src", "dst"))
    after = element.whole("depid", -1, -1), element.whole("deps", -1, -1)
    return Step(gpu, block, number, kind, source, target,
                element.whole("cnt", int(kind != "nop")), None if -1 in after else after,
                element.line)


def _end(element: Element, side: str, where: str) -> tuple[str, int]:
    """Return the buffer and the first chunk of the source or the target."""
    buffer = element.text(f"{side}buf")
    if buffer not in _BUFFERS:
        element.refuse(f"{where}: unknown buffer {buffer!r}; choose from: i, o, s")
    return _BUFFERS[buffer], element.whole(f"{side}off", -1)


def _check_step(listing: Listing, step: Step) -> None:
    """Check the peers, the chunks and the dependency of a step."""
    block = listing.blocks[step.gpu, step.block]
    for does, key, peer in ((step.sends, "send", block.send), (step.receives, "recv", block.recv)):
        if does and peer < 0:
            listing.refuse(f"type {step.type} needs a peer, but {key} is -1", step)
    for used, what, (buffer, first) in ((step.reads, "reads", step.source),
                                        (step.writes, "writes", step.target)):
        size = listing.size_of(step.gpu, buffer)
        if used and not 0 <= first <= size - step.count:
            listing.refuse(f"{what} {step.count} chunks from {buffer}[{first}], but the buffer has "
                           f"{size}", step)
    if step.after is not None:
        other = listing.blocks.get((step.gpu, step.after[0]))
        if other is None or step.after[1] >= len(other.steps):
            listing.refuse(f"waits for tb {step.after[0]} step {step.after[1]}, which is not "
                           "there", step)


# --- running it ----------------------------------------------------------------------------

#: The most thread blocks that an error names.
_MOST_NAMED = 10

#: What is in a chunk: how often each (rank, chunk) has been added.
Value = dict[tuple[int, int], int]


@dataclass(frozen=True)
class Message:
    """A message: the steps that send and receive it, and the messages that it waits for."""

    sent: Step
    received: Step
    after: tuple[int, ...]


def matched(listing: Listing) -> dict[Step, Step]:
    """Find, for each step that sends, the step that receives its message.

    The k-th send over a channel from one GPU to another meets the k-th receive; the two must have
    equally many chunks. Two thread blocks of a GPU must not share a channel.
    """
    sends: defaultdict[tuple[int, int, int], list[Step]] = defaultdict(list)
    receives: defaultdict[tuple[int, int, int], list[Step]] = defaultdict(list)
    for step in listing.steps:
        block = listing.blocks[step.gpu, step.block]
        for does, ways, way in (
                (step.sends, sends, (step.gpu, block.send, block.channel)),
                (step.receives, receives, (block.recv, step.gpu, block.channel))):
            if does:
                if ways[way] and ways[way][0].block != step.block:
                    listing.refuse(f"tb {ways[way][0].block} uses the channel {way[2]} between "
                                   f"gpu {way[0]} and gpu {way[1]}, too", step)
                ways[way].append(step)
    found = {}
    for way in {**sends, **receives}:
        for sent, received in zip(sends[way], receives[way], strict=False):
            if sent.count != received.count:
                listing.refuse(f"receives {received.count} chunks, but {sent.where} sends "
                               f"{sent.count}", received)
            found[sent] = received
        count = min(len(sends[way]), len(receives[way]))
        for left in sends[way][count:]:
            listing.refuse(f"a send that nobody receives: gpu {way[1]} receives {count} times "
                           f"from gpu {way[0]} on channel {way[2]}", left)
        for left in receives[way][count:]:
            listing.refuse(f"receives what nobody sends: gpu {way[0]} sends {count} times to "
                           f"gpu {way[1]} on channel {way[2]}", left)
    return found


def order_of(listing: Listing, partner: Mapping[Step, Step], *, last_first: bool = False
             ) -> list[Step]:
    """Put all steps into an order in which they can run, or raise an error for a deadlock.

    A step waits for the previous step of its thread block, for the step that it names, and, if it
    receives, for the step that sends. Among the steps that can run, the one that became ready first
    runs next; with `last_first`, the one that became ready last.
    """
    onward: defaultdict[Step, list[Step]] = defaultdict(list)
    waits: dict[Step, int] = {}
    sender = {received: sent for sent, received in partner.items()}
    for step in listing.steps:
        needed = _needed(listing, step, sender)
        waits[step] = len(needed)
        for other in needed:
            onward[other].append(step)
    ready = deque(step for step, count in waits.items() if not count)
    found = []
    while ready:
        step = ready.pop() if last_first else ready.popleft()
        found.append(step)
        for other in onward[step]:
            waits[other] -= 1
            if not waits[other]:
                ready.append(other)
    if len(found) < len(waits):
        circle = _circle(listing, sender, [step for step, count in waits.items() if count])
        others = [step.where for step in circle[1:]]
        more = len(others) - _MOST_NAMED
        said = [*others[:_MOST_NAMED], *([f"{more} more"] if more > 0 else []),
                "it" if others else "itself"]
        listing.refuse("deadlock: waits for " + ", which waits for ".join(said), circle[0])
    return found


def _circle(listing: Listing, sender: Mapping[Step, Step], stuck: Sequence[Step]) -> list[Step]:
    """Return a circle of steps, each of which waits for the next."""
    place: dict[Step, int] = {}
    left, step = set(stuck), stuck[0]
    while step not in place:
        place[step] = len(place)
        # Steps of other thread blocks come first: they say more than the previous step.
        step = next(other for other in reversed(_needed(listing, step, sender)) if other in left)
    return list(place)[place[step]:]


def _needed(listing: Listing, step: Step, sender: Mapping[Step, Step]) -> list[Step]:
    """Return the steps that a step waits for."""
    needed = []
    if step.number:
        needed.append(listing.blocks[step.gpu, step.block].steps[step.number - 1])
    if step.after is not None:
        block, number = step.after
        needed.append(listing.blocks[step.gpu, block].steps[number])
    if step.receives:
        needed.append(sender[step])
    return needed


def sent_messages(listing: Listing, order: Sequence[Step], partner: Mapping[Step, Step]
                  ) -> list[Message]:
    """Return the messages, each with the earlier messages that it waits for.

    A step that sends is done when its message has arrived. A step that receives is done when the
    message has arrived and it is its turn. Other steps are done at once. So messages only wait for
    messages. Messages of one thread block arrive one after the other, so among several of them it
    is enough to wait for the last.
    """
    sender = {received: sent for sent, received in partner.items()}
    ends: dict[Step, dict[tuple[int, int], int]] = {}  # by thread block, the last message
    found: list[Message] = []
    for step in order:
        last: dict[tuple[int, int], int] = {}
        for other in _needed(listing, step, sender):
            for block, message in ends[other].items():
                last[block] = max(message, last.get(block, message))
        if step.sends:
            after = set(last.values())
            after -= {earlier for message in after for earlier in found[message].after}
            last = {(step.gpu, step.block): len(found)}
            found.append(Message(step, partner[step], tuple(sorted(after))))
        ends[step] = last
    return found


def check_results(listing: Listing, order: Sequence[Step], partner: Mapping[Step, Step]) -> None:
    """Run a program on symbols, and check that each rank gets the right result.

    No step may read data that has not been written.
    """
    buffers = [_Buffers(listing, gpu) for gpu in range(listing.gpus)]
    sender = {received: sent for sent, received in partner.items()}
    sent: dict[Step, list[Value]] = {}
    for step in order:
        own = buffers[step.gpu]
        values = sent.pop(sender[step]) if step.receives else []
        if step.reads:
            read = own.read(step, *step.source)
            values = list(map(_sum, values, read)) if values else read
        if step.type == "re":
            values = list(map(_sum, values, own.read(step, *step.target)))
        if step.writes:
            own.write(*step.target, values)
        if step.sends:
            sent[step] = values
    for gpu, own in enumerate(buffers):
        for chunk, expected in enumerate(_expected(listing, gpu)):
            if own.cell("o", chunk) != expected:
                listing.refuse(f"wrong result: gpu {gpu} chunk {chunk} has "
                               f"{_said(own.cell('o', chunk))}, not {_said(expected)}")


class _Buffers:
    """The buffers of a GPU, some of which may be the same."""

    def __init__(self, listing: Listing, gpu: int) -> None:
        self._listing, self._gpu = listing, gpu
        self._cells: dict[tuple[str, int], Value] = {}
        for chunk in range(listing.size_of(gpu, "i")):
            self._cells[self._at("i", chunk)] = {(gpu, chunk): 1}

    def _at(self, buffer: str, chunk: int) -> tuple[str, int]:
        """Return the place of a chunk, in place or not."""
        listing = self._listing
        if not listing.in_place or buffer == "s":
            return buffer, chunk
        if listing.collective == "all-gather":
            own = self._gpu * listing.size_of(self._gpu, "i")
            return ("o", own + chunk) if buffer == "i" else ("o", chunk)
        if listing.collective == "reduce-scatter":
            own = self._gpu * listing.size_of(self._gpu, "o")
            return ("i", own + chunk) if buffer == "o" else ("i", chunk)
        return "i", chunk

    def cell(self, buffer: str, chunk: int) -> Value | None:
        return self._cells.get(self._at(buffer, chunk))

    def read(self, step: Step, buffer: str, first: int) -> list[Value]:
        found = []
        for chunk in range(first, first + step.count):
            value = self.cell(buffer, chunk)
            if value is None:
                self._listing.refuse(f"reads {buffer}[{chunk}], which nobody has written", step)
            found.append(value)
        return found

    def write(self, buffer: str, first: int, values: Sequence[Value]) -> None:
        for chunk, value in enumerate(values, first):
            self._cells[self._at(buffer, chunk)] = value


def _sum(one: Value, other: Value) -> Value:
    found = dict(one)
    for key, times in other.items():
        found[key] = found.get(key, 0) + times
    return found


def _expected(listing: Listing, gpu: int) -> Iterator[Value]:
    """Yield what each chunk of the output of a GPU must be."""
    part = listing.chunks // listing.gpus
    for chunk in range(listing.size_of(gpu, "o")):
        owner, own = divmod(chunk, part) if part else (0, 0)
        if listing.collective == "all-gather":
            yield {(owner, own): 1}
        elif listing.collective == "all-to-all":
            yield {(owner, gpu * part + own): 1}
        else:
            before = gpu * part if listing.collective == "reduce-scatter" else 0
            yield {(rank, before + chunk): 1 for rank in range(listing.gpus)}


def _said(value: Value | None) -> str:
    """Describe the contents of a chunk."""
    if value is None:
        return "nothing"
    listed = [f"{f'{times} times ' if times > 1 else ''}chunk {chunk} of gpu {rank}"
              for (rank, chunk), times in sorted(value.items())]
    more = len(listed) - _MOST_NAMED
    return " + ".join(listed[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


# --- as an algorithm -----------------------------------------------------------------------

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
              matrix: Floats | None = None) -> Sizes:
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
            raise InputError(f"{listing.path}: a program takes no matrix", "matrix")
        unit = 1.0 if unit is None else as_number(unit, "unit", above=0)
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
    return _program(read_bytes(path), Path(path), verify)


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
