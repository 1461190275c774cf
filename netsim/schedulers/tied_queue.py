"""A priority queue in which keys that are equal up to rounding tie."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from netsim.ties import equal

#: Type of entries, which must be comparable: the least of those that tie comes first.
Entry = TypeVar("Entry", int, tuple[float, int])


class TiedQueue(Generic[Entry]):
    """A priority queue by key; entries whose keys tie are in their own order.

    The order is that of `netsim.ties.rank`: keys are sorted, and those in a maximal sequence in
    which neighbours tie count as equal. Of the entries with the least keys, the least entry is
    first. For example, entries 0, 1 and 2 with the keys 0.4, 0.1 + 0.2 and 0.3 are in the order 1,
    2, 0.
    """

    def __init__(self, ties: Callable[[float, float], bool] = equal) -> None:
        self._ties = ties
        self._keys: list[float] = []  # a heap of distinct keys
        self._entries: dict[float, list[Entry]] = {}  # a heap for each key

    def __len__(self) -> int:
        """The number of distinct keys."""
        return len(self._keys)

    def push(self, key: float, entry: Entry) -> None:
        """Add an entry."""
        if key not in self._entries:
            self._entries[key] = []
            heappush(self._keys, key)
        heappush(self._entries[key], entry)

    @property
    def first(self) -> tuple[float, Entry]:
        """The key and the entry that `pop` would return."""
        run = self._take_run()
        for key in run:
            heappush(self._keys, key)
        return self._first_of(run)

    def pop(self) -> tuple[float, Entry]:
        """Remove the first entry, and return it with its key."""
        run = self._take_run()
        first = key, _ = self._first_of(run)
        heappop(self._entries[key])
        if not self._entries[key]:
            del self._entries[key]
        for other in run:
            if other in self._entries:
                heappush(self._keys, other)
        return first

    def remove(self, key: float, entry: Entry) -> None:
        """Remove an entry from any position, in time proportional to the queue's length."""
        entries = self._entries[key]
        entries.remove(entry)
        heapify(entries)
        if not entries:
            del self._entries[key]
            self._keys.remove(key)
            heapify(self._keys)

    def _take_run(self) -> list[float]:
        """Remove the first run of keys that tie from the heap, and return it."""
        run = [heappop(self._keys)]
        while self._keys and self._ties(run[-1], self._keys[0]):
            run.append(heappop(self._keys))
        return run

    def _first_of(self, run: list[float]) -> tuple[float, Entry]:
        """The least entry of a run, with its key."""
        key = min(run, key=lambda key: self._entries[key][0])
        return key, self._entries[key][0]
