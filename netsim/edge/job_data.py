"""The data of whole jobs: the edge servers that store it, and a placement near it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from netsim.cluster.cluster import Cluster
from netsim.edge.setting import CLOUD, EdgeSetting, Floats, Ints, with_room
from netsim.edge.typed_jobs import TypedJobs
from netsim.errors import AllocationError
from netsim.ties import merge_equal
from netsim.workload import JobSpec

#: Relative tolerance for rounding errors of sums of sizes.
_ROUNDING = 1e-12


class JobData:
    """The data of jobs on the servers that they have used, where it stays until they end.

    A job whose chunks are trained by k workers has chunk i on the server of worker i modulo k. Data
    is sent when a job first uses a server, and continues to be sent if the job is suspended. Jobs
    are numbered as in the setting.
    """

    def __init__(self, env: Any, setting: EdgeSetting) -> None:
        self._env, self._setting = env, setting
        self.limited = bool(np.isfinite(setting.system.capacity).any())
        self.uploads = np.zeros(len(setting.jobs))  #: seconds of uploads of all chunks sent, by job
        #: How often a job that had data on some servers needed it on another server.
        self.migrations = 0
        self.most = np.zeros(setting.system.servers)  #: the most bytes stored, by server
        self._there: dict[int, dict[int, float]] = {}  # arrival: by job, by server
        self._stored: dict[int, dict[int, int]] = {}  # chunks of unfinished jobs, likewise
        self._sums = np.zeros((2, setting.system.servers))  # bytes on each, and rounding errors

    def make_room(self, number: int) -> None:
        """Make room for a job that has been inserted in the setting; it has not arrived."""
        self.uploads = with_room(self.uploads, slice(number, number + 1), 0.0)

    # --- when it is there -----------------------------------------------------------------

    def servers(self, number: int) -> list[int]:
        """List the servers that a job has used."""
        return list(self._there.get(number, ()))

    def on(self, number: int, workers: Ints) -> float:
        """When a job's data should be on all servers if it got these workers now; seconds."""
        now, there = self._env.now, self._there.get(number, {})
        servers = list(self._chunks_on(number, workers))
        return max(now, *map(there.get, servers,
                             (now + self._delays(number, servers)).tolist()))

    def _delays(self, number: int, servers: Sequence[int]) -> Floats:
        """Seconds that a job's uploads to some servers, or to the cloud, take."""
        setting = self._setting
        if servers == [CLOUD]:
            return setting.cloud_delay[number:number + 1]
        return setting.delays[number, servers]

    def _chunks_on(self, number: int, workers: Ints) -> dict[int, int]:
        """Count the chunks trained on each server of some workers, or in the cloud without any."""
        chunks = int(self._setting.chunks[number])
        if not len(workers):
            return {CLOUD: chunks}
        server = self._setting.system.server_of[workers]
        used, place = np.unique(server, return_inverse=True)
        counts = np.bincount(place, shares(chunks, len(workers))).astype(np.int64)
        return dict(zip(used.tolist(), counts.tolist(), strict=True))

    def fetch(self, number: int, workers: Ints, there: Callable[[], None]) -> bool:
        """Begin to send a job's data to the servers of the workers that it gets now.

        Returns whether the arrival of the data is unknown; `there` is then called when it has
        arrived.
        """
        known, now = self._there.setdefault(number, {}), self._env.now
        chunks = self._chunks_on(number, workers)
        new = [each for each in chunks if each not in known]
        self.migrations += bool(new) and bool(known)
        known |= zip(new, (now + self._delays(number, new)).tolist(), strict=True)
        self._send(number, workers, {each: chunks[each] for each in new})
        self._store(number, chunks)
        return self._wait(number, chunks, there)

    def _send(self, number: int, workers: Ints, chunks: Mapping[int, int]) -> None:
        """Send chunks to servers that are new to a job, for workers that it gets."""
        delays = self._delays(number, list(chunks)).tolist()
        for count, delay in zip(chunks.values(), delays, strict=True):
            self.uploads[number] += count * delay

    def _wait(self, number: int, servers: Iterable[int], there: Callable[[], None]) -> bool:
        """Whether data that a job needs is in transit to servers, with an unknown arrival."""
        return False

    def stay(self, number: int) -> None:
        """Stop waiting for a job's data, which continues to be sent."""

    # --- storage --------------------------------------------------------------------------

    def _store(self, number: int, chunks: Mapping[int, int]) -> None:
        job = self._setting.jobs[number]
        if not job.chunk_bytes:
            return
        room, stored = self.room(number), self._stored.setdefault(number, {})
        more: dict[int, int] = {}
        for server, count in chunks.items():
            if server == CLOUD:
                continue
            if count > room[server]:
                raise AllocationError(
                    f"job {job.id} gets workers on server {server} for {count} of its chunks, of "
                    f"{job.chunk_bytes:g} bytes; its storage has room for {int(room[server])}")
            more[server] = max(count - stored.get(server, 0), 0)
            stored[server] = max(stored.get(server, 0), count)
        self._add(number, more)
        self.most = np.maximum(self.most, self._used())

    def _add(self, number: int, chunks: Mapping[int, int], sign: int = 1) -> None:
        """Add chunks of a job to the stored ones (sign 1), or remove them (sign -1)."""
        servers = list(chunks)
        more = np.array(list(chunks.values())) * (sign * self._setting.jobs[number].chunk_bytes)
        # The rounding of each sum is kept, so that jobs that have ended leave none behind.
        bytes_, lost = self._sums[:, servers]
        total = bytes_ + more
        added = total - bytes_
        self._sums[:, servers] = total, lost + ((bytes_ - (total - added)) + (more - added))

    def _used(self) -> Floats:
        """The bytes stored on each server."""
        return self._sums[0] + self._sums[1]

    def _held(self, number: int) -> Ints:
        """The number of chunks of a job that each server stores."""
        held, stored = np.zeros(self._setting.system.servers, np.int64), self._stored.get(number)
        if stored:
            held[list(stored)] = list(stored.values())
        return held

    def room(self, number: int, taken: Floats | float = 0.0) -> Floats:
        """The number of chunks of a job that each server can store, including those stored already.

        `taken` is the number of bytes, by server, that are promised to other jobs but not stored
        yet.
        """
        system, size = self._setting.system, self._setting.jobs[number].chunk_bytes
        if not (self.limited and size):
            return np.full(system.servers, np.inf)
        free = system.capacity * (1 + _ROUNDING) - self._used() - taken
        return np.floor(np.maximum(free, 0.0) / size) + self._held(number)

    def added(self, number: int, workers: Ints) -> Floats:
        """The bytes that each server would store in addition if a job got these workers."""
        held, found = self._held(number), np.zeros(self._setting.system.servers)
        for server, count in self._chunks_on(number, workers).items():
            found[server] = max(count - int(held[server]), 0)
        return found * self._setting.jobs[number].chunk_bytes

    def free(self, number: int) -> None:
        """Forget the data of a job that has ended."""
        self._there.pop(number, None)
        if stored := self._stored.pop(number, None):
            self._add(number, stored, -1)


def shares(chunks: int, workers: int) -> Ints:
    """The number of chunks of each worker, as equal as possible, larger numbers first."""
    return (chunks - np.arange(workers) + workers - 1) // workers


class NearData:
    """A placement on workers where the job's data is, or arrives soonest.

    Workers on servers that have the job's data come first, then those with the least upload delay,
    then those with the lowest number. A worker is only taken if its server has room for the chunks
    that it would train. If too few workers qualify, the job waits.
    """

    def __init__(self, typed: TypedJobs, data: JobData, taken: Floats | None = None) -> None:
        # `taken`: bytes of storage, by server, promised to jobs that have not started yet.
        self._typed, self._data, self._taken = typed, data, taken

    @property
    def refuses(self) -> bool:
        """Whether the placement may refuse a job although enough workers are free."""
        return self._data.limited

    def trial(self) -> NearData:
        """Make a placement for several jobs, which share the storage that is left."""
        servers = self._typed.setting.system.servers
        return (NearData(self._typed, self._data, np.zeros(servers)) if self._data.limited
                else self)

    def scope(self, cluster: Cluster, job: JobSpec, load: Floats) -> Ints:
        """All GPUs in order of preference; see `Placement`."""
        typed, number = self._typed, self._typed.numbers[self._typed.place_of(job)]
        server = typed.setting.system.server_of[typed.workers]
        fetched = ~np.isin(server, self._data.servers(number))
        delay = merge_equal(typed.setting.delays[number, server])
        return np.lexsort((np.arange(len(server)), delay, fetched))

    def choose(self, cluster: Cluster, job: JobSpec, candidates: Ints, load: Floats
               ) -> Ints | None:
        """Take the first candidates with storage for their chunks; see `Placement`."""
        return self.some(job, candidates, job.ranks)

    def some(self, job: JobSpec, candidates: Ints, count: int) -> Ints | None:
        """Take the first `count` candidates with storage for their chunks; None if too few have it.

        Those that will train more chunks than others come first.
        """
        typed, number = self._typed, self._typed.numbers[self._typed.place_of(job)]
        room = self._data.room(number, 0.0 if self._taken is None else self._taken)
        if np.isinf(room).all():
            return candidates[:count]
        server = typed.setting.system.server_of[typed.workers]
        chosen: list[int] = []
        left = candidates.tolist()
        for share in shares(int(typed.setting.chunks[number]), count).tolist():
            found = next((gpu for gpu in left if room[server[gpu]] >= share), None)
            if found is None:
                return None
            left.remove(found)
            chosen.append(found)
            room[server[found]] -= share
        gpus = np.array(chosen)
        if self._taken is not None:
            self._taken = self._taken + self._data.added(number, typed.workers[gpus])
        return gpus
