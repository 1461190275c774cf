"""Programs of MSCCL as their XML files list them: GPUs, thread blocks and steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NoReturn

from netsim.errors import TraceError, unknown_name
from netsim.xml_tree import Element, parse_xml

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
    made = Listing(path, root.text("name", path.stem), root.text("proto", ""), collective, gpus,
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
