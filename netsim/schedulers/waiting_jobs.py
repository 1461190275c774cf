"""Waiting jobs in order: a queue for each number of GPUs and each level; equal keys tie."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Generic, NamedTuple, TypeVar

from netsim.base.arrays import Floats
from netsim.ties import EQUAL, equal

# --- keys that tie -------------------------------------------------------------------------

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


# --- waiting jobs --------------------------------------------------------------------------
class QueuePlace(NamedTuple):
    """The place of a waiting job in the order, and the GPUs that it needs."""

    level: float
    value: float
    tie: float
    job: int
    gpus: int


def places_of(keys: Sequence[Floats], jobs: Sequence[int], gpus: Sequence[int]) -> list[QueuePlace]:
    """Make the places of jobs from their keys and numbers of GPUs."""
    level, value, tie = (key.tolist() for key in keys)
    return list(map(QueuePlace, level, value, tie, jobs, gpus))


def precedes(one: QueuePlace, other: QueuePlace) -> bool:
    """Whether a place comes before another one."""
    if one.level != other.level:
        return one.level < other.level
    if not _equal(one.value, other.value):
        return one.value < other.value
    return (one.tie, one.job) < (other.tie, other.job)


def _equal(one: float, other: float) -> bool:
    """Whether two values of keys tie."""
    return abs(one - other) <= EQUAL * max(abs(one), abs(other))


class WaitingJobs:
    """The waiting jobs in order: a queue for each number of GPUs and each level."""

    def __init__(self) -> None:
        self._queues: dict[int, dict[float, TiedQueue[tuple[float, int]]]] = {}
        self._heads: dict[int, QueuePlace] = {}  # the first job for some numbers of GPUs
        self.places: dict[int, QueuePlace] = {}  #: of all jobs that wait
        self._taken: dict[int, QueuePlace] = {}  # those out of their queues until `rewind`
        self._most, self._rejected = math.inf, False
        self._skipped: dict[int, None] = {}

    def add(self, place: QueuePlace) -> None:
        """Add a job."""
        self.places[place.job] = place
        self._push(place)

    def remove(self, job: int) -> None:
        """Remove a job, if it waits."""
        place = self.places.pop(job, None)
        if place is not None and self._taken.pop(job, None) is None:
            levels = self._queues[place.gpus]
            levels[place.level].remove(place.value, (place.tie, job))
            self._tidy(place)

    def in_order(self, most: float) -> Iterator[QueuePlace]:
        """Yield jobs that need at most `most` GPUs, in order; none is removed."""
        self.rewind(most)
        while place := self.first():
            self._rejected = False
            yield place
            if not self._rejected:
                self.take(place)

    def reject(self, place: QueuePlace) -> None:
        """Keep the job that was yielded last, and yield only jobs with fewer GPUs from now on."""
        self._most, self._rejected = min(self._most, place.gpus - 1), True

    def rewind(self, most: float) -> None:
        """Go back to the first job that needs at most `most` GPUs."""
        taken, self._taken, self._most = self._taken, {}, most
        self._skipped.clear()
        for again in taken.values():
            self._push(again)

    def take(self, place: QueuePlace) -> None:
        """Pass over a job until `rewind`; it must be the first that needs its number of GPUs."""
        self._queues[place.gpus][place.level].pop()
        self._tidy(place)
        self._taken[place.job] = place

    def skip(self, place: QueuePlace) -> None:
        """Skip all jobs that need as many GPUs as the given one."""
        self._skipped[place.gpus] = None

    def skipped(self) -> list[QueuePlace]:
        """List the first job for each skipped number of GPUs that is still allowed."""
        return [self._head(gpus) for gpus in self._skipped if gpus <= self._most]

    def skip_to(self, head: QueuePlace, end: QueuePlace) -> None:
        """Undo `skip` for jobs with as many GPUs as `head`, but pass over those before `end`."""
        del self._skipped[head.gpus]
        while head.gpus in self._queues and precedes(self._head(head.gpus), end):
            self.take(self._head(head.gpus))

    def at_most(self, gpus: int) -> None:
        """Yield only jobs that need at most this number of GPUs, from now on."""
        self._most = min(self._most, gpus)

    def _push(self, place: QueuePlace) -> None:
        levels = self._queues.setdefault(place.gpus, {})
        if place.level not in levels:
            levels[place.level] = TiedQueue(_equal)
        levels[place.level].push(place.value, (place.tie, place.job))
        self._heads.pop(place.gpus, None)

    def _tidy(self, place: QueuePlace) -> None:
        """Drop the queue of a place if it is empty, and the cached first job."""
        levels = self._queues[place.gpus]
        self._heads.pop(place.gpus, None)
        if not levels[place.level]:
            del levels[place.level]
        if not levels:
            del self._queues[place.gpus]

    def first(self) -> QueuePlace | None:
        """The first job that is small enough and not skipped."""
        first: QueuePlace | None = None
        for gpus in self._queues:
            if gpus > self._most or gpus in self._skipped:
                continue
            head = self._head(gpus)
            if first is None or precedes(head, first):
                first = head
        return first

    def _head(self, gpus: int) -> QueuePlace:
        """The first job that needs a number of GPUs."""
        if gpus not in self._heads:
            levels = self._queues[gpus]
            job = levels[min(levels)].first[1][1]
            self._heads[gpus] = self.places[job]
        return self._heads[gpus]
