"""Schedulers that dispatch all chunks of a job when it arrives: A_online and its relatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from netsim.base.values import as_flag, convert
from netsim.edge import kernels
from netsim.edge.schedule import ChunkPlacement, Queues, Storage
from netsim.edge.setting import CLOUD, EdgeSetting
from netsim.errors import InputError
from netsim.ties import below


class Dispatcher(Protocol):
    """Decides where the chunks of jobs go, in one run.

    A scheduler of chunks declares ``schedules = "chunks"``, and its method ``dispatcher(setting)``
    returns a dispatcher. In ``needs``, the scheduler lists what a run must have, by names of
    `netsim.simulation.needs.NEEDS`. A scheduler that does not use the cloud needs
    ``"edge workers"`` and ``"edge storage"``, for example.
    """

    def place(self, job: int, queues: Queues, storage: Storage) -> ChunkPlacement:
        """Return where the chunks of an arriving job go.

        Parameters
        ----------
        job : int
            Index of the job in the setting.
        queues : Queues
            Queues of workers, up to date for those of the job's type. Read-only.
        storage : Storage
            Contents of the servers' storage. Read-only.
        """


@dataclass(frozen=True)
class AOnline:
    """A_online: each chunk goes to the worker, or to the cloud, with the least Q (Eq. 5).

    The weight of a chunk is 1 / D, where D is the number of chunks of its job. Q of an edge worker
    is the increase in the weighted completion times of all chunks if the new chunk goes there. The
    new chunk itself adds (upload + wait for chunks of equal or higher priority + training) / D.
    Each chunk of lower priority that it delays adds p0 / D', where p0 is the training time of the
    new chunk, and D' the number of chunks in the delayed chunk's job. Priority is that of HAPRF,
    1 / (D p0). The cloud has no queues, so its Q is (upload + training) / D, where training
    includes exchanges of gradients only if a chunk of the job is at the edge. Ties go to the edge,
    and to the worker with the lowest number.

    Parameters
    ----------
    least_bytes : bool
        Whether to send as few bytes as possible without a later end of any job, as planned when a
        job arrives (the paper's Section VII names less bandwidth as an extension). Each chunk is
        uploaded once, wherever it trains, and exchanges the same bytes unless all chunks of its job
        are in the cloud, where none exchanges any. So placements only differ by whether the whole
        job is in the cloud. It goes there if it ends no later there than by its plan; this delays
        no other job. Jobs that arrive later may see other queues, so that their plans differ.

    Raises
    ------
    InputError
        If `least_bytes` is not true or false.
    """

    schedules: ClassVar[str] = "chunks"
    needs: ClassVar[frozenset[str]] = frozenset({"edge storage or a cloud"})

    least_bytes: bool = False

    def __post_init__(self) -> None:
        convert(self, least_bytes=as_flag)

    def dispatcher(self, setting: EdgeSetting) -> Dispatcher:
        """Make the dispatcher of a run; see `Dispatcher`."""
        greedy = _Greedy(setting, setting.system.cloud)
        return _LeastBytes(setting, greedy) if self.least_bytes else greedy


@dataclass(frozen=True)
class AOnlineEdge:
    """A_online-E: A_online without the cloud."""

    schedules: ClassVar[str] = "chunks"
    needs: ClassVar[frozenset[str]] = frozenset({"edge workers", "edge storage"})

    def dispatcher(self, setting: EdgeSetting) -> Dispatcher:
        """Make the dispatcher of a run; see `Dispatcher`."""
        return _Greedy(setting, False)


@dataclass(frozen=True)
class CloudOnly:
    """Send all chunks to the cloud, as a baseline without scheduling."""

    schedules: ClassVar[str] = "chunks"
    needs: ClassVar[frozenset[str]] = frozenset({"a cloud"})

    def dispatcher(self, setting: EdgeSetting) -> Dispatcher:
        """Make the dispatcher of a run; see `Dispatcher`."""
        return _ToCloud(setting)


class _ToCloud:
    """Dispatcher that sends all chunks to the cloud."""

    def __init__(self, setting: EdgeSetting) -> None:
        self._setting = setting

    def place(self, job: int, queues: Queues, storage: Storage) -> ChunkPlacement:
        """Choose the cloud for all chunks; see `Dispatcher.place`."""
        setting = self._setting
        chunks, delay = setting.chunks[job], setting.cloud_delay[job]
        return ChunkPlacement(np.full(chunks, CLOUD),
                              np.full(chunks, (delay + setting.p1[job]) / chunks),
                              np.full(chunks, setting.arrival[job] + delay))


class _Greedy:
    """Dispatcher of A_online: the paper's A_greedy."""

    def __init__(self, setting: EdgeSetting, cloud: bool) -> None:
        self._setting, self._cloud = setting, cloud
        self._q = np.empty(setting.system.total)
        self._start = np.empty(setting.system.total)

    def place(self, job: int, queues: Queues, storage: Storage) -> ChunkPlacement:
        """Choose greedily for each chunk; see `Dispatcher.place`."""
        setting = self._setting
        chunks = int(setting.chunks[job])
        given = ChunkPlacement(np.empty(chunks, np.int64), np.empty(chunks), np.empty(chunks))
        placed = kernels.greedy(
            setting.workers_of[job], setting.system.server_of, storage.room(job),
            setting.delays[job], queues.queue, queues.count, queues.left, queues.ready,
            queues.weight, queues.share, setting.arrival[job], setting.p0[job], chunks,
            setting.weight_s[job], setting.cloud_delay[job], setting.p1[job], self._cloud,
            self._q, self._start, np.empty(queues.queue.shape[1]), *given)
        if placed < chunks:
            spec = setting.jobs[job]
            raise InputError(
                f"at {spec.arrival_s:g} s no server has room for chunk {placed} of job {spec.id}, "
                f"of {spec.chunk_bytes:g} bytes, and no cloud can be used: storage is too small")
        return given


class _LeastBytes:
    """Dispatcher of A_online with `least_bytes`: all chunks to the cloud if no job ends later."""

    def __init__(self, setting: EdgeSetting, greedy: _Greedy) -> None:
        self._setting, self._greedy, self._cloud = setting, greedy, _ToCloud(setting)

    def place(self, job: int, queues: Queues, storage: Storage) -> ChunkPlacement:
        """Choose greedily, or the cloud for all chunks; see `Dispatcher.place`."""
        setting, given = self._setting, self._greedy.place(job, queues, storage)
        if not setting.system.cloud or (given.worker == CLOUD).all():
            return given
        # A chunk that waits for others of its job on a worker has a later planned start.
        planned = float(given.t_star.max()) - setting.arrival[job] + setting.p0[job]
        in_cloud = setting.cloud_delay[job] + setting.p1[job]
        return given if below(planned, in_cloud) else self._cloud.place(job, queues, storage)
