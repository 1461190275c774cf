"""The links of an edge-cloud in one run: uploads of chunks, and the rates that flows may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from netsim.allocators import make_allocator
from netsim.base.arrays import Floats, Ints
from netsim.base.lazy import simpy
from netsim.edge.on_fabric.traffic import LIMITS, EdgeTraffic, PerFlowCapNetwork
from netsim.edge.on_fabric.training import Fluid, Rounds, TrainingMode
from netsim.edge.setting import EdgeSetting
from netsim.errors import AllocationError, StalledError
from netsim.fabric.allocation import Allocation, Information
from netsim.fabric.allocator import Allocator
from netsim.fabric.clock import LAST, Clock, CoflowEvent, call_at
from netsim.fabric.fabric_process import FabricProcess
from netsim.fabric.records import DUST
from netsim.fabric.view import FabricView
from netsim.ties import ROUNDING
from netsim.workload import Flows


class LinkSettings(NamedTuple):
    """The options of a run that concern links; only some transports have links."""

    allocator: Any = "maxmin"  #: see `netsim.allocators.make_allocator`
    observe_interval: float = 0.0  #: in seconds
    #: Changes of capacities: instant (s), link, and capacity from then on (bytes/s).
    events: Sequence[tuple[float, int, float]] = ()
    check: bool = True  #: whether to check that each allocation is feasible
    #: An `Observer`, which also sees links that are not part of the network; they follow its own.
    observer: Any = None


class RateCappedAllocator(Allocator):
    """Calls another allocator at every event, including ends of flows, and reduces its rates.

    ``use(limit, rates)`` takes the number of the limit of each flow (see `PerFlowCapNetwork`) and
    its allocated rate, and returns the rate that each flow uses, which is not higher; `first` is
    the number of the link that is limit 0. With `check`, allocated rates that are infeasible are
    reported even if the rates used are feasible.
    """

    def __init__(self, inner: Allocator, use: Callable[[Ints, Floats], Floats], first: int,
                 check: bool) -> None:
        self.inner = inner  #: the allocator that decides
        self._use, self._first, self._check = use, first, check
        self.information: Information = inner.information  # type: ignore[misc]

    @property
    def title(self) -> str:
        return self.inner.title

    @property
    def counts(self) -> Mapping[str, float]:
        return self.inner.counts

    def allocate(self, view: FabricView) -> Allocation:
        """Ask the inner allocator for rates, and return the rates that flows use."""
        given = self.inner.allocate(view)
        if not isinstance(given, Allocation):
            return given
        rates = view.rates(given)
        if rates.shape != (view.flows,) or not self._feasible(given, rates, view):
            return given  # the fabric raises the error
        ptr, links = view.paths
        used = self._use(links[ptr[1:] - 1] - self._first, rates)
        revisit_at = given.revisit_at
        if given.service is not None and np.isfinite(given.service.limit).any():
            revisit_at = min(revisit_at, float(view.crossings(given.service.limit, used).min()))
        if not revisit_at > view.now:
            raise AllocationError(f"allocator {self.title} asks to be woken at {revisit_at!r} s, "
                                  f"which is not after now, {view.now!r} s")
        return Allocation(used, revisit_at=revisit_at, note=given.note)

    def _feasible(self, given: Allocation, rates: Floats, view: FabricView) -> bool:
        """Whether the links can carry the rates given; always True without `check`."""
        if not self._check or (given.rates is None and given.shares is None):
            return True
        carried = view.link_load(rates) <= view.capacity * (1 + DUST)
        return bool((rates >= 0).all() and carried.all())


#: The server of a limit that no upload has had yet.
_NONE = -2


class Uploads:
    """Uploads of chunks from the sites of their jobs; each chunk is ready when its own flow ends.

    `arrived` is called with a chunk and the server to which it has been uploaded, or `CLOUD`.
    """

    def __init__(self, setting: EdgeSetting, traffic: EdgeTraffic,
                 arrived: Callable[[int, int], None]) -> None:
        self._setting, self._traffic, self._arrived = setting, traffic, arrived
        # Of each limit: whether its upload is on its way, and to which server.
        self._going, self._server = np.empty(0, np.bool_), np.empty(0, np.int64)

    def send(self, job: int, chunks: Ints, server: Ints, delay: Floats) -> CoflowEvent:
        """Upload chunks of a job to servers, or to `CLOUD`, as one coflow.

        `delay` is the time that each upload takes at its highest rate, in seconds; if it is 0, the
        chunk arrives at once.
        """
        system, spec, traffic = self._setting.system, self._setting.jobs[job], self._traffic
        sent, limits = delay > 0, self._limits(chunks)
        traffic.set_uploads(limits, np.divide(
            spec.chunk_bytes, delay, out=np.ones(len(chunks)), where=sent))
        flows = Flows(np.full(len(chunks), system.site_host(spec.site)),
                      system.host_of(server), np.where(sent, spec.chunk_bytes, 0.0))
        self._going[limits[sent]], self._server[limits] = True, server
        return traffic.send(job, 0, traffic.demand(flows, limits), partial(self._sent, limits))

    def _limits(self, chunks: Ints) -> Ints:
        """Find a limit for each upload of chunks, adding limits for repeated uploads."""
        self._grow()
        limits = self._traffic.uploads_of(chunks)
        taken = self._server[limits] != _NONE
        if taken.any():
            limits[taken] = self._traffic.further_uploads_of(chunks[taken])
            self._grow()
        return limits

    def _grow(self) -> None:
        more = self._traffic.limits - len(self._going)
        if more:
            self._going = np.concatenate((self._going, np.zeros(more, np.bool_)))
            self._server = np.concatenate((self._server, np.full(more, _NONE)))

    def see(self, limits: Ints) -> None:
        """Report the uploads that have ended, given the limits of all flows still in transit."""
        self._grow()
        gone = self._going.copy()
        gone[limits] = False
        self._end(np.flatnonzero(gone))

    def _sent(self, limits: Ints, _: CoflowEvent) -> None:
        self._end(limits[self._going[limits]])

    def _end(self, limits: Ints) -> None:
        self._going[limits] = False
        for chunk, server in zip(self._traffic.decoded(limits)[0].tolist(),
                                 self._server[limits].tolist(), strict=True):
            self._arrived(chunk, server)

    def forget(self, chunks: Ints) -> None:
        """Stop reporting the uploads of the given chunks."""
        if self._going.any():
            going = np.flatnonzero(self._going)
            self._going[going[np.isin(self._traffic.decoded(going)[0], chunks)]] = False


class EdgeLinks:
    """The links of an edge-cloud in one run, on which chunks are uploaded and exchange gradients.

    Those that send over them are told of events: ``arrived(chunk, server)`` when a chunk has been
    uploaded to a server or to `CLOUD`, ``ended(chunk)`` when one has trained on all its
    mini-batches, and ``stopped(chunk)`` when one has stopped some time after it was told to. After
    all events of an instant in which training may begin, ``choose(now)`` begins it.
    """

    def __init__(self, setting: EdgeSetting, sharing: LinkSettings, mode: str,
                 preemption: str | None, *, arrived: Callable[[int, int], None],
                 ended: Callable[[int], None], stopped: Callable[[int], None],
                 choose: Callable[[float], None]) -> None:
        setting.check_sites()
        self._setting, self._sharing, self._choose = setting, sharing, choose
        self.env = Clock(0.0)
        network = PerFlowCapNetwork(setting.system.network, LIMITS * setting.total)
        self._network = network
        self.traffic = EdgeTraffic(setting, self.env, network, ended, stopped,
                                   self.schedule_choice)
        self.training: TrainingMode = (
            Fluid(self.traffic) if mode == "fluid"
            else Rounds(self.traffic, mode == "sync", preemption or "finish"))
        self.uploads = Uploads(setting, self.traffic, arrived)
        self.fabric = self._make_fabric(sharing, network)
        self._choosing = False
        self.steps = 0  #: number of SimPy events processed so far

    def _capped(self, allocator: Allocator) -> RateCappedAllocator:
        return RateCappedAllocator(allocator, self._use, self._network.first, self._sharing.check)

    def _make_fabric(self, sharing: LinkSettings, network: PerFlowCapNetwork) -> FabricProcess:
        fabric = FabricProcess(self.env, network, self._capped(make_allocator(sharing.allocator)),
                               self._setting.arrival, observe_interval=sharing.observe_interval,
                               check=sharing.check, observer=sharing.observer,
                               job_of=self._setting.job)
        self.traffic.fabric = fabric
        for at, link, capacity in sharing.events:
            self.traffic.after(at, fabric.set_capacities, {link: capacity})
            if sharing.observer is not None:
                self.traffic.after(at, sharing.observer.set_capacity, link, capacity)
        return fabric

    def _use(self, limit: Ints, rates: Floats) -> Floats:
        """Report uploads that have ended, and compute the rates that flows use."""
        self.uploads.see(limit)
        return self.training.use(limit, rates)

    # --- the clock -----------------------------------------------------------------------

    def step(self) -> None:
        """Process the next event."""
        self.steps += 1
        self.env.step()

    def hold(self, now: float) -> None:
        """Set the clock to `now`, in seconds; no earlier event is left."""
        self.env._now = max(now, self.env.now)

    def schedule_choice(self) -> None:
        """Schedule the choice of the chunks to train next, after all events of this instant."""
        if not self._choosing:
            self._choosing = True
            call_at(self.env, self.env.now, self._choose_soon, LAST)

    def _choose_soon(self, _: simpy.Event) -> None:
        now = self.env.now
        # Events that differ by rounding errors only belong to the same instant.
        if (upcoming := self.env.peek()) <= now * (1 + 3 * ROUNDING):
            call_at(self.env, upcoming, self._choose_soon, LAST)
            return
        self._choosing = False
        self._choose(now)
        self.training.go()

    # --- changes -------------------------------------------------------------------------

    def set_capacity(self, link: int, capacity: float) -> None:
        """Change the capacity of a link of the network now, in bytes per second."""
        self.fabric.set_capacities({link: capacity})
        if self._sharing.observer is not None:
            self._sharing.observer.set_capacity(link, capacity)

    def set_allocator(self, allocator: Allocator) -> None:
        """Replace the allocator from now on."""
        self.fabric.set_allocator(self._capped(allocator))

    def make_room(self, place: int) -> None:
        """Make room for a job that has been inserted in the setting; it has not arrived."""
        self.fabric.table.insert_job(place, float(self._setting.arrival[place]))
        self.traffic.make_room(place)

    def stalled(self) -> StalledError:
        """Make the error for flows that get no bandwidth although no event is left."""
        pending = sorted({self._setting.jobs[job].id for job, _, _ in self.fabric.pending()})
        return StalledError(
            f"stalled at t = {self.fabric.policy.asked_s:g} s: allocator "
            f"{self.fabric.allocator.title} gives no bandwidth to the flows of jobs "
            f"{', '.join(map(str, pending[:5]))}, and no other event is pending")
