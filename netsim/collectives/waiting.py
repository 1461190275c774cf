"""The messages that a message waits for, if each is sent as early as possible."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby

from netsim.collectives.messages import Messages

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
