"""Running programs of MSCCL: the order of steps, messages, waits, deadlocks and results."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from netsim.collectives.msccl_file import Listing, Step

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
