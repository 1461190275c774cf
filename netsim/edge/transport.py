"""Transports, which simulate how chunks get to workers and train there.

Schedulers of chunks know the delays and rates that jobs declare. A transport determines the real
ones: it moves the data, trains chunks on workers by HAPRF, and maintains the `Queues` that the
scheduler sees. It also owns the clock.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np

from netsim.edge import kernels
from netsim.edge.schedule import ChunkPlacement, Queues, TransportLog
from netsim.edge.setting import CLOUD, EdgeSetting, Floats, Ints, with_room
from netsim.errors import StalledError

if TYPE_CHECKING:
    from netsim.edge.ground import Ground


#: After this many looks at chunks, a kernel returns for Python to handle signals: some 10 ms.
_WORK = 10_000_000


class LinkSettings(NamedTuple):
    """The options of a run that concern links; only some transports have links."""

    allocator: Any = "maxmin"  #: see `netsim.allocators.make_allocator`
    observe_interval: float = 0.0  #: in seconds
    #: Changes of capacities: instant (s), link, and capacity from then on (bytes/s).
    events: Sequence[tuple[float, int, float]] = ()
    check: bool = True  #: whether to check that each allocation is feasible
    #: An `Observer`, which also sees links that are not part of the network; they follow its own.
    observer: Any = None


class Transport(Protocol):
    """The back end on which dispatched chunks run, event by event.

    Attributes
    ----------
    queues : Queues
        The queues that a scheduler sees. `advance` brings them up to date for the given workers.
    settled : bool
        Whether the times of all chunks dispatched so far are known.
    """

    queues: Queues

    @property
    def settled(self) -> bool: ...

    def expect(self, arrival: float) -> None:
        """Set the arrival time of the next job, in seconds; inf if there is none.

        Called at the beginning, after each `dispatch`, and when a job is submitted.
        """

    def next_at(self) -> float:
        """Return the instant of the next event, which may be the arrival; inf if there is none."""

    def step(self) -> bool:
        """Process the next event; return whether it is time to dispatch the job that arrives.

        Chunks that end at this instant have ended afterwards. The chunks to train next are not
        chosen yet, as more chunks may be dispatched at this instant.
        """

    def advance(self, now: float, workers: Ints) -> None:
        """Update the queues of some workers, before a job is dispatched."""

    def dispatch(self, job: int, given: ChunkPlacement) -> None:
        """Dispatch the chunks of a job, after its workers were advanced to its arrival."""

    def ended(self, job: int) -> float:
        """Return the instant at which a dispatched job ends, in seconds; inf if not known yet.

        The end may be in the future.
        """

    def times(self) -> tuple[Floats, Floats]:
        """Return when each job first trains, and when it ends, as far as known; otherwise NaN.

        Future times hold if no other job arrives before. Both have shape (jobs,).
        """

    def log(self) -> TransportLog:
        """Return the log of the run; future events are as for `times`."""

    def make_room(self, place: int) -> None:
        """Make room for a job that has been inserted in the setting; it has not arrived."""

    def stalled(self) -> StalledError:
        """Make the error for chunks that are not settled although no event is left."""


class TransportKind(Protocol):
    """A kind of transport with its options, which makes the transport of each run.

    A kind that also supports schedulers of whole jobs has ``ground(setting, sharing)``, which makes
    the `netsim.edge.ground.Ground` of a run, and ``why_not_whole``, which says why whole jobs
    cannot run with these options; None if they can.
    """

    #: Whether the transport simulates links, which need an allocator. The transport of a run then
    #: has the attributes `fabric` (with the count `decisions`), `env` (the `Clock` of the fabric)
    #: and `steps` (the number of SimPy events).
    shares_links: ClassVar[bool]

    def begin(self, setting: EdgeSetting, sharing: LinkSettings) -> Transport:
        """Make the transport of one run."""


@dataclass(frozen=True)
class ConstantTransport:
    """Uploads and exchanges take the constant times that jobs declare, and never contend."""

    shares_links: ClassVar[bool] = False
    why_not_whole: ClassVar[str | None] = None

    def begin(self, setting: EdgeSetting, sharing: LinkSettings) -> Transport:
        """Make the transport of one run."""
        return Constant(setting)

    def ground(self, setting: EdgeSetting, sharing: LinkSettings) -> Ground:
        """Make the `Ground` of whole jobs for one run."""
        from netsim.edge.ground import ConstantGround

        return ConstantGround(setting)


class Constant:
    """The transport of `ConstantTransport` in one run.

    Workers are independent of each other, so each is simulated only when `advance` asks for it.
    """

    def __init__(self, setting: EdgeSetting) -> None:
        self._setting, self.queues = setting, Queues(setting)
        jobs, chunks, workers = len(setting.jobs), setting.total, setting.system.total
        self._arrival = math.inf
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
        self._outlook: tuple[TransportLog, Floats, Floats] | None = None

    @property
    def settled(self) -> bool:
        """See `Transport`."""
        return True

    def expect(self, arrival: float) -> None:
        """See `Transport.expect`."""
        self._arrival = arrival

    def next_at(self) -> float:
        """See `Transport.next_at`; arrivals are the only events."""
        return self._arrival

    def step(self) -> bool:
        """See `Transport.step`."""
        return True

    def advance(self, now: float, workers: Ints) -> None:
        """See `Transport.advance`."""
        queues, done = self.queues, False
        while not done:  # between two calls, Python handles signals
            self._logged, done = kernels.advance(
                workers, now, queues.queue, queues.count, queues.clock, self._current, self._since,
                queues.left, queues.ready, self._finish, self._preemptions, self._job_of,
                self._unfinished, self._ended, self._chunk, self._start, self._end, self._logged,
                _WORK)

    def dispatch(self, job: int, given: ChunkPlacement) -> None:
        """See `Transport.dispatch`."""
        self._outlook = None
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

    def times(self) -> tuple[Floats, Floats]:
        """See `Transport.times`."""
        return self._ahead()[1:]

    def log(self) -> TransportLog:
        """See `Transport.log`."""
        return self._ahead()[0]

    def _ahead(self) -> tuple[TransportLog, Floats, Floats]:
        """The log and the times of jobs if no more chunks are dispatched."""
        if self._outlook is None:
            ahead, jobs = copy.deepcopy(self), len(self._setting.jobs)
            ahead.advance(math.inf, np.arange(len(self._current)))
            logged = slice(ahead._logged)
            log = TransportLog(
                ahead._chunk[logged], ahead._start[logged], ahead._end[logged], ahead._ready,
                ahead._finish, ahead._preemptions)
            start, finish = np.full(jobs, np.nan), np.full(jobs, np.nan)
            np.fmin.at(start, self._job_of[log.chunk], log.start)
            np.fmax.at(finish, self._job_of, log.finish)
            self._outlook = log, start, finish
        return self._outlook

    def make_room(self, place: int) -> None:
        """See `Transport.make_room`."""
        setting, self._outlook = self._setting, None
        where = setting.chunks_of(place)
        self.queues.make_room(setting, place)
        self._ready = with_room(self._ready, where, np.nan)
        self._finish = with_room(self._finish, where, np.nan)
        self._preemptions = with_room(self._preemptions, where, 0)
        self._job_of = np.repeat(np.arange(len(setting.jobs)), setting.chunks)
        self._unfinished = np.insert(self._unfinished, place, 0)
        self._ended = np.insert(self._ended, place, 0.0)
        more = np.zeros(2 * (where.stop - where.start))
        self._chunk = np.concatenate((self._chunk, more.astype(np.int64)))
        self._start = np.concatenate((self._start, more))
        self._end = np.concatenate((self._end, more))

    def stalled(self) -> StalledError:
        """See `Transport.stalled`; never called, as all is settled."""
        return StalledError("stalled: nothing will happen any more")
