"""The data of whole jobs, and the edge servers that store it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.edge.schedule import Storage
from netsim.edge.setting import CLOUD, EdgeSetting
from netsim.errors import AllocationError

if TYPE_CHECKING:
    from netsim.edge.on_fabric.links import EdgeLinks
    from netsim.fabric.clock import CoflowEvent


@dataclass(slots=True, eq=False)
class _Coming:
    """Data in transit to a server: since when, how many chunks are missing, and in which coflow."""

    since: float
    chunks: int
    upload: CoflowEvent


class JobData:
    """The data of jobs on the servers that they have used, where it stays until they end.

    A job whose chunks are trained by k workers has chunk i on the server of worker i modulo k. Data
    is sent when a job first uses a server, and continues to be sent if the job is suspended. Jobs
    are numbered as in the setting.

    Data arrives after the delays that jobs declare. With `links`, uploads that take time are flows,
    and predictions use these delays.
    """

    def __init__(self, env: Any, setting: EdgeSetting, links: EdgeLinks | None = None) -> None:
        self._env, self._setting, self._links = env, setting, links
        self.storage = Storage(setting)
        self.uploads = np.zeros(len(setting.jobs))  #: seconds of uploads of all chunks sent, by job
        #: How often a job that had data on some servers needed it on another server.
        self.migrations = 0
        self.most = np.zeros(setting.system.servers)  #: the most bytes stored, by server
        # By job, by server: its arrival, and what is in transit over links.
        self._there: dict[int, dict[int, float]] = {}
        self._coming: dict[int, dict[int, _Coming]] = {}
        # By job that waits: the servers that miss its data, and what to call when it is there.
        self._waiting: dict[int, tuple[set[int], Callable[[], None]]] = {}

    def make_room(self, number: int) -> None:
        """Make room for a job that has been inserted in the setting; it has not arrived."""
        self.uploads = np.insert(self.uploads, number, 0.0)

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
        delays = dict(zip(chunks, self._delays(number, list(chunks)).tolist(), strict=True))
        as_flows = self._links is not None and self._setting.jobs[number].chunk_bytes > 0
        slow = {server: delay for server, delay in delays.items() if as_flows and delay > 0}
        for server, count in chunks.items():
            if server not in slow:
                self.uploads[number] += count * delays[server]
        if slow:
            self._upload(number, workers, slow, chunks)

    def _upload(self, number: int, workers: Ints, delays: Mapping[int, float],
                chunks: Mapping[int, int]) -> None:
        """Send chunks over links to the servers in `delays`, which has the least time for each."""
        assert self._links is not None
        setting, now = self._setting, self._env.now
        every = np.arange(setting.chunks[number])
        server = (setting.system.server_of[workers][every % len(workers)] if len(workers)
                  else np.full(len(every), CLOUD))
        sent = np.isin(server, list(delays))
        upload = self._links.uploads.send(
            number, setting.first[number] + every[sent], server[sent],
            np.array([delays[each] for each in server[sent].tolist()]))
        coming = self._coming.setdefault(number, {})
        coming |= {each: _Coming(now, chunks[each], upload) for each in delays}

    def _wait(self, number: int, servers: Iterable[int], there: Callable[[], None]) -> bool:
        """Whether data that a job needs is in transit to servers, with an unknown arrival."""
        missing = set(servers).intersection(self._coming.get(number, ()))
        if missing:
            self._waiting[number] = missing, there
        return bool(missing)

    def stay(self, number: int) -> None:
        """Stop waiting for a job's data, which continues to be sent."""
        self._waiting.pop(number, None)

    def arrived(self, number: int, server: int) -> None:
        """Record that a chunk of a job has arrived at a server over links."""
        now, coming = self._env.now, self._coming[number]
        self.uploads[number] += now - coming[server].since
        coming[server].chunks -= 1
        if coming[server].chunks:
            return
        del coming[server]
        self._there[number][server] = now
        if number not in self._waiting:
            return
        missing, there = self._waiting[number]
        missing.discard(server)
        if not missing:
            del self._waiting[number]
            there()

    # --- storage --------------------------------------------------------------------------

    def _at_edge(self, chunks: Mapping[int, int]) -> Ints:
        """The number of chunks on each server, without those in the cloud."""
        found = np.zeros(self._setting.system.servers, np.int64)
        for server, count in chunks.items():
            if server != CLOUD:
                found[server] = count
        return found

    def _store(self, number: int, chunks: Mapping[int, int]) -> None:
        job, count = self._setting.jobs[number], self._at_edge(chunks)
        if not job.chunk_bytes:
            return
        room = self.storage.room(number)
        if (count > room).any():
            server = int(np.argmax(count > room))
            raise AllocationError(
                f"job {job.id} gets workers on server {server} for {count[server]} of its chunks, "
                f"of {job.chunk_bytes:g} bytes; its storage has room for {room[server]}")
        self.storage.take(number, count)
        self.most = np.maximum(self.most, self.storage.used)

    def added(self, number: int, workers: Ints) -> Floats:
        """The bytes that each server would store in addition if a job got these workers."""
        more = self._at_edge(self._chunks_on(number, workers)) - self.storage.held(number)
        return np.maximum(more, 0) * self._setting.jobs[number].chunk_bytes

    def free(self, number: int) -> None:
        """Forget the data of a job that has ended, and stop sending it."""
        self._there.pop(number, None)
        self.storage.free(number)
        coming = self._coming.pop(number, {}).values()
        if coming:
            assert self._links is not None
            where = self._setting.chunks_of(number)
            self._links.uploads.forget(np.arange(where.start, where.stop))
            for upload in {id(each.upload): each.upload for each in coming}.values():
                if not upload.triggered:
                    self._links.fabric.withdraw(upload)


def shares(chunks: int, workers: int) -> Ints:
    """The number of chunks of each worker, as equal as possible, larger numbers first."""
    return (chunks - np.arange(workers) + workers - 1) // workers
