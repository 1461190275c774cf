"""Schedulers that dispatch chunks once, as their job arrives: A_online and its relatives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from netsim.edge import kernels
from netsim.edge.queues import Queues
from netsim.edge.schedule import ChunkPlacement, Schedule, of_chunks
from netsim.edge.setting import CLOUD, EdgeSetting, Floats
from netsim.edge.storage import Storage
from netsim.edge.transport import Transport
from netsim.errors import InputError

__all__ = ["AOnline", "AOnlineEdge", "CloudOnly", "Dispatcher", "dispatch_jobs"]


class Dispatcher(Protocol):
    """Decides in one run where the chunks of jobs go.

    A scheduler of chunks has ``begin(setting)``, which returns one. What it needs of a run it
    declares in ``needs``, by names of `netsim.simulation.compatibility.NEEDS`, such as
    ``"edge workers"`` and ``"edge storage"`` if it does not use the cloud.
    """

    def place(self, job: int, queues: Queues, storage: Storage) -> ChunkPlacement:
        """Return where the chunks of a job go, as it arrives.

        Parameters
        ----------
        job : int
            Its place in the setting's jobs.
        queues : Queues
            Up to date of the workers of its type. Read-only.
        storage : Storage
            What servers hold. Read-only.
        """


@dataclass(frozen=True)
class AOnline:
    """A_online: each chunk to the worker, or to the cloud, where Q of Eq. 5 is least.

    Q of an edge worker is how much the weighted completion times of all chunks grow if the new one
    goes there: (upload + wait for the chunks of no lower rate + training) / D, and for each chunk
    of lower rate, that the new one delays, p0 / D' of that. The cloud has no queues: Q is
    (upload + training) / D, without exchanges as long as no chunk of the job is at the edge. Ties
    go to the lowest worker, and to the edge.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"edge storage or a cloud"})
    cloud: ClassVar[bool] = True

    def begin(self, setting: EdgeSetting) -> Dispatcher:
        """Return what decides in a run; see `Dispatcher`."""
        return _Greedy(setting, self.cloud and setting.system.cloud)


@dataclass(frozen=True)
class AOnlineEdge(AOnline):
    """A_online-E: the same without the cloud."""

    needs: ClassVar[frozenset[str]] = frozenset({"edge workers", "edge storage"})
    cloud: ClassVar[bool] = False


@dataclass(frozen=True)
class CloudOnly:
    """All chunks to the cloud: the control that tells what scheduling gains."""

    needs: ClassVar[frozenset[str]] = frozenset({"a cloud"})

    def begin(self, setting: EdgeSetting) -> Dispatcher:
        """Return what decides in a run; see `Dispatcher`."""
        return _ToCloud(setting)


class _ToCloud:
    """All chunks to the cloud."""

    def __init__(self, setting: EdgeSetting) -> None:
        self._setting = setting

    def place(self, job: int, queues: Queues, storage: Storage) -> ChunkPlacement:
        """See `Dispatcher.place`."""
        setting = self._setting
        chunks, delay = setting.chunks[job], setting.cloud_delay[job]
        return ChunkPlacement(np.full(chunks, CLOUD),
                              np.full(chunks, (delay + setting.p1[job]) / chunks),
                              np.full(chunks, setting.arrival[job] + delay))


class _Greedy:
    """A_greedy in one run."""

    def __init__(self, setting: EdgeSetting, cloud: bool) -> None:
        self._setting, self._cloud = setting, cloud
        self._q = np.empty(setting.system.total)
        self._start = np.empty(setting.system.total)

    def place(self, job: int, queues: Queues, storage: Storage) -> ChunkPlacement:
        """See `Dispatcher.place`."""
        setting = self._setting
        chunks = int(setting.chunks[job])
        given = ChunkPlacement(np.empty(chunks, np.int64), np.empty(chunks), np.empty(chunks))
        placed = kernels.greedy(
            setting.workers_of[job], setting.system.server_of, storage.room(job),
            setting.delays[job], queues.queue, queues.count, queues.left, queues.ready,
            queues.weight, queues.share, setting.arrival[job], setting.p0[job], chunks,
            setting.weight[job], setting.cloud_delay[job], setting.p1[job], self._cloud,
            self._q, self._start, np.empty(queues.queue.shape[1]), *given)
        if placed < chunks:
            spec = setting.jobs[job]
            raise InputError(
                f"at {spec.arrival_s:g} s no server has room for chunk {placed} of job {spec.id}, "
                f"of {spec.chunk_bytes:g} bytes, and no cloud can be used: storage is too small")
        return given


def dispatch_jobs(scheduler: AOnline | CloudOnly, setting: EdgeSetting, transport: Transport
                  ) -> Iterator[Schedule | None]:
    """Begin to run jobs under a scheduler of chunks, a step for each as it arrives.

    Parameters
    ----------
    scheduler : object
        See `Dispatcher`.
    setting : EdgeSetting
        It has what the scheduler needs.
    transport : Transport
        Made for the setting, not used before.

    Returns
    -------
    iterator
        Of None for each job but the last, and of the schedule for that.

    Raises
    ------
    InputError
        In a step, if a job can go nowhere.
    """
    return _dispatched(scheduler.begin(setting), setting, transport)


def _dispatched(decider: Dispatcher, setting: EdgeSetting, transport: Transport
                ) -> Iterator[Schedule | None]:
    storage = Storage(setting)
    everyone = np.arange(setting.system.total)
    given = ChunkPlacement(np.empty(setting.total, np.int64), *_two(setting.total))
    for job in range(len(setting.jobs)):
        now = float(setting.arrival[job])
        # Who ends by now is needed of all where storage is to be released, else of none.
        transport.advance(now, everyone if storage.limited else setting.workers_of[job])
        storage.release(now, transport.ended)
        placed = decider.place(job, transport.queues, storage)
        storage.take(job, placed.worker)
        transport.dispatch(job, placed)
        rows = slice(setting.first[job], setting.first[job + 1])
        for whole, part in zip(given, placed, strict=True):
            whole[rows] = part
        if job + 1 < len(setting.jobs):
            yield None
    yield of_chunks(setting, given, transport.finish())


def _two(length: int) -> tuple[Floats, Floats]:
    return np.empty(length), np.empty(length)
