"""Transports, which simulate how chunks get to workers and train there.

Schedulers of chunks know the delays and rates that jobs declare. A transport determines the real
ones: it moves the data, trains chunks on workers by HAPRF, and maintains the `Queues` that the
scheduler sees. It also owns the clock, and is advanced only to instants at which jobs arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from netsim.edge import kernels
from netsim.edge.queues import Queues
from netsim.edge.schedule import ChunkPlacement, TransportLog
from netsim.edge.setting import CLOUD, EdgeSetting, Floats, Ints

__all__ = ["Constant", "ConstantTransport", "LinkSettings", "Transport", "TransportKind"]


class LinkSettings(NamedTuple):
    """The options of a run that concern links, for transports that have links.

    Attributes
    ----------
    allocator : str, mapping, Allocator or class
        See `netsim.allocators.make_allocator`.
    observe_interval : float
        In seconds; see `netsim.fabric.fabric_process.FabricProcess`.
    events : sequence of (float, int, float)
        Changes of capacities: instant (s), link, and capacity from then on (bytes/s).
    check : bool
        Whether to check that each allocation is feasible.
    observer : Observer, optional
        See `netsim.fabric.protocols.Observer`. The first of the links that it sees are those of
        the network; others follow.
    """

    allocator: Any = "maxmin"
    observe_interval: float = 0.0
    events: Sequence[tuple[float, int, float]] = ()
    check: bool = True
    observer: Any = None


class Transport(Protocol):
    """The back end on which dispatched chunks run.

    Attributes
    ----------
    queues : Queues
        The queues that a scheduler sees. `advance` brings them up to date for the given workers.
    """

    queues: Queues

    def advance(self, until: float, workers: Ints) -> None:
        """Simulate up to the instant `until`, in seconds; at least for the given workers.

        Chunks that finish at `until` are finished afterwards. The chunks to train next are not
        chosen yet, as more chunks may be dispatched at that instant.
        """

    def dispatch(self, job: int, given: ChunkPlacement) -> None:
        """Dispatch the chunks of a job, after its workers were advanced to its arrival."""

    def ended(self, job: int) -> float:
        """Return the instant at which a dispatched job ends, in seconds; inf if not known yet.

        It may be in the future.
        """

    def finish(self) -> TransportLog:
        """Simulate to the end of all jobs, and return the log."""


class TransportKind(Protocol):
    """A kind of transport with its options, which makes the transport of each run.

    Attributes
    ----------
    shares_links : bool
        Whether the transport simulates links, which need an allocator. It then has the attributes
        `fabric`, which counts `decisions`, and `steps`, the number of SimPy events.
    """

    shares_links: ClassVar[bool]

    def begin(self, setting: EdgeSetting, sharing: LinkSettings) -> Transport:
        """Make the transport of one run."""


@dataclass(frozen=True)
class ConstantTransport:
    """Uploads and exchanges take the constant times that jobs declare, and never contend."""

    shares_links: ClassVar[bool] = False

    def begin(self, setting: EdgeSetting, sharing: LinkSettings) -> Transport:
        """Make the transport of one run."""
        return Constant(setting)


class Constant:
    """The transport of `ConstantTransport` in one run.

    Workers are independent of each other, so each is simulated only when `advance` asks for it.

    Parameters
    ----------
    setting : EdgeSetting
    """

    def __init__(self, setting: EdgeSetting) -> None:
        self._setting, self.queues = setting, Queues(setting)
        jobs, chunks, workers = len(setting.jobs), setting.total, setting.system.total
        self._current = np.full(workers, -1)
        self._since = np.zeros(workers)
        self._ready, self._finish = np.full(chunks, np.nan), np.full(chunks, np.nan)
        self._preemptions = np.zeros(chunks, np.int64)
        self._job_of = np.repeat(np.arange(jobs), setting.chunks)
        self._unfinished = np.zeros(jobs, np.int64)
        self._ended = np.zeros(jobs)
        # Each chunk displaces at most one other when it becomes ready, and finishes once, so that
        # there are at most two intervals per chunk.
        self._chunk = np.zeros(2 * chunks, np.int64)
        self._start, self._end = np.zeros(2 * chunks), np.zeros(2 * chunks)
        self._logged = 0

    def advance(self, until: float, workers: Ints) -> None:
        """See `Transport.advance`."""
        queues = self.queues
        self._logged = kernels.advance(
            workers, until, queues.queue, queues.count, queues.clock, self._current, self._since,
            queues.left, queues.ready, self._finish, self._preemptions, self._job_of,
            self._unfinished, self._ended, self._chunk, self._start, self._end, self._logged)

    def dispatch(self, job: int, given: ChunkPlacement) -> None:
        """See `Transport.dispatch`."""
        setting = self._setting
        chunks = np.arange(setting.first[job], setting.first[job + 1])
        edge = given.worker != CLOUD
        server = setting.system.server_of[given.worker[edge]]
        ready = np.full(len(chunks), setting.arrival[job] + setting.cloud_delay[job])
        ready[edge] = setting.arrival[job] + setting.delays[job, server]
        self._ready[chunks] = ready
        self._unfinished[job] = edge.sum()
        self.queues.insert(chunks[edge], given.worker[edge], ready[edge], setting.p0[job])
        self._in_cloud(job, chunks[~edge], ready[~edge],
                       setting.p0[job] if edge.any() else setting.p1[job])

    def _in_cloud(self, job: int, chunks: Ints, ready: Floats, needed: float) -> None:
        """Log the training of chunks in the cloud, where each starts as soon as it is ready."""
        if not len(chunks):
            return
        log = slice(self._logged, self._logged + len(chunks))
        self._logged = log.stop
        self._chunk[log], self._start[log], self._end[log] = chunks, ready, ready + needed
        self._finish[chunks] = ready + needed
        self._ended[job] = ready[0] + needed

    def ended(self, job: int) -> float:
        """See `Transport.ended`."""
        return float("inf") if self._unfinished[job] else float(self._ended[job])

    def finish(self) -> TransportLog:
        """See `Transport.finish`."""
        self.advance(float("inf"), np.arange(len(self._current)))
        logged = slice(self._logged)
        return TransportLog(self._chunk[logged], self._start[logged], self._end[logged],
                            self._ready, self._finish, self._preemptions)
