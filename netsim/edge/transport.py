"""How chunks get to workers and train there: what happens, whatever a scheduler expects.

A scheduler of chunks knows delays and rates as the jobs say them. What they really are is a
transport's to say: it moves the data, lets workers train by HAPRF, and keeps the `Queues` that the
scheduler sees. It owns the clock too, and is asked only for instants at which jobs arrive.
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
    """What is said of a run's links, for a transport that has some.

    Attributes
    ----------
    allocator : str, mapping, Allocator or class
        See `netsim.allocators.make_allocator`.
    observe_interval : float
        In seconds; see `netsim.fabric.fabric.Fabric`.
    events : sequence of (float, int, float)
        When, in seconds, which link has which capacity from then on, in bytes per second.
    check : bool
        Check that each allocation is feasible.
    observer : Observer, optional
        See `netsim.fabric.protocols.Observer`; of the links that it is told of the first are those
        of the network.
    """

    allocator: Any = "maxmin"
    observe_interval: float = 0.0
    events: Sequence[tuple[float, int, float]] = ()
    check: bool = True
    observer: Any = None


class Transport(Protocol):
    """A back end that dispatched chunks run on.

    Attributes
    ----------
    queues : Queues
        What a scheduler sees; after `advance` up to date of the workers asked for.
    """

    queues: Queues

    def advance(self, until: float, workers: Ints) -> None:
        """Let everything happen up to an instant, in seconds; at least of these workers.

        Chunks that finish then have finished. Who trains from then on is not chosen yet: chunks may
        still be dispatched at that instant.
        """

    def dispatch(self, job: int, given: ChunkPlacement) -> None:
        """Upload and train the chunks of a job as it arrives, where its type has advanced to."""

    def ended(self, job: int) -> float:
        """Return when the last chunk of a dispatched job ended, in seconds; inf if not yet.

        It may lie ahead where that is known.
        """

    def finish(self) -> TransportLog:
        """Let everything happen to the end, and return it."""


class TransportKind(Protocol):
    """What a transport is chosen by: its options, and what makes one for a run.

    Attributes
    ----------
    shares_links : bool
        Whether there are links, that an allocator shares out. Then the transport has a `fabric`,
        with the number of `decisions`, and how many `steps` of SimPy it has taken.
    """

    shares_links: ClassVar[bool]

    def begin(self, setting: EdgeSetting, sharing: LinkSettings) -> Transport:
        """Return a transport for one run."""


@dataclass(frozen=True)
class ConstantTransport:
    """The delays and rates of the jobs, always: uploads and exchanges never contend."""

    shares_links: ClassVar[bool] = False

    def begin(self, setting: EdgeSetting, sharing: LinkSettings) -> Transport:
        """Return a transport for one run."""
        return Constant(setting)


class Constant:
    """The transport of `ConstantTransport` in one run.

    Workers have nothing to do with each other, and each advances when it is asked for.

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
        # A chunk that becomes ready displaces at most one other; and each finishes once.
        self._chunk = np.zeros(2 * chunks, np.int64)
        self._start, self._end = np.zeros(2 * chunks), np.zeros(2 * chunks)
        self._logged = 0

    def advance(self, until: float, workers: Ints) -> None:
        """See `Transport.advance`."""
        see = self.queues
        self._logged = kernels.advance(
            workers, until, see.queue, see.count, see.clock, self._current, self._since, see.left,
            see.ready, self._finish, self._preemptions, self._job_of, self._unfinished,
            self._ended, self._chunk, self._start, self._end, self._logged)

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
