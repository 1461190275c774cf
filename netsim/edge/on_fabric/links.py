"""The links of an edge-cloud in one run, with what is sent over them."""

from __future__ import annotations

from netsim.allocators import make_allocator
from netsim.edge import kernels
from netsim.edge.on_fabric.limits import RateCappedAllocator
from netsim.edge.on_fabric.network import PerFlowCapNetwork
from netsim.edge.on_fabric.traffic import LIMITS, Callbacks, EdgeTraffic
from netsim.edge.on_fabric.training import make_training
from netsim.edge.on_fabric.uploads import Uploads
from netsim.edge.setting import EdgeSetting, Floats, Ints
from netsim.edge.transport import LinkSettings
from netsim.errors import StalledError
from netsim.fabric.allocator import Allocator
from netsim.fabric.clock import LAST, Clock
from netsim.fabric.fabric_process import FabricProcess
from netsim.late import simpy


class EdgeLinks:
    """Base of runs in which uploads and exchanges of chunks are flows.

    A subclass reacts to events: `_arrived`, `_ended`, `_stopped` and `_choose`.
    """

    def __init__(self, setting: EdgeSetting, sharing: LinkSettings, mode: str,
                 preemption: str | None) -> None:
        setting.check_sites()
        self._setting = setting
        self.env = Clock(0.0)
        network = PerFlowCapNetwork(setting.system.network, LIMITS * setting.total)
        self._network, self._sharing = network, sharing
        self._traffic = EdgeTraffic(setting, self.env, network, Callbacks(
            self._ended, self._stopped, self._schedule_choice))
        self._training = make_training(self._traffic, mode, preemption)
        self._uploads = Uploads(setting, self._traffic, self._arrived)
        self.fabric = self._make_fabric(sharing, network)
        self._choosing = False
        self.steps = 0  #: number of SimPy events processed so far

    def _capped(self, allocator: Allocator) -> RateCappedAllocator:
        return RateCappedAllocator(allocator, self._use, self._network.first, self._sharing.check)

    def _make_fabric(self, sharing: LinkSettings, network: PerFlowCapNetwork) -> FabricProcess:
        asked = self._capped(make_allocator(sharing.allocator))
        fabric = FabricProcess(self.env, network, asked, self._setting.arrival,
                        observe_interval=sharing.observe_interval, check=sharing.check,
                        observer=sharing.observer, job_of=self._setting.job)
        self._traffic.fabric = fabric
        for at, link, capacity in sharing.events:
            self._traffic.after(at, fabric.set_capacities, {link: capacity})
            if sharing.observer is not None:
                self._traffic.after(at, sharing.observer.set_capacity, link, capacity)
        return fabric

    def hold(self, now: float) -> None:
        """Set the clock to `now`, in seconds; no earlier event is left."""
        self.env._now = max(now, self.env.now)

    # --- events ------------------------------------------------------------------------

    def _use(self, limit: Ints, rates: Floats) -> Floats:
        """Report uploads that have ended, and compute the rates that flows use."""
        self._uploads.see(limit)
        return self._training.use(limit, rates)

    def _arrived(self, chunk: int, server: int) -> None:
        """Note that a chunk has been uploaded to a server."""
        raise NotImplementedError

    def _ended(self, chunk: int) -> None:
        """Note that a chunk has trained on all its mini-batches."""
        raise NotImplementedError

    def _stopped(self, chunk: int) -> None:
        """Note that a chunk has stopped, some time after it was told to."""
        raise NotImplementedError

    def _schedule_choice(self) -> None:
        """Schedule the choice of the chunks to train next, after all events of this instant."""
        if not self._choosing:
            self._choosing = True
            self._schedule_choice_at(self.env.now)

    def _schedule_choice_at(self, at: float) -> None:
        event = simpy.Event(self.env)
        event._ok, event._value = True, None
        event.callbacks.append(self._choose_soon)
        self.env.schedule(event, LAST, at - self.env.now)  # type: ignore[arg-type]

    def _choose_soon(self, _: simpy.Event) -> None:
        now = self.env.now
        # Events that differ by rounding errors only belong to the same instant.
        if (upcoming := self.env.peek()) <= now * (1 + 3 * kernels.ROUNDING):
            self._schedule_choice_at(upcoming)
            return
        self._choosing = False
        self._choose(now)
        self._training.go()

    def _choose(self, now: float) -> None:
        """Begin to train the chunks that train from now on."""
        raise NotImplementedError

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
        self._traffic.make_room(place)

    def stalled(self) -> StalledError:
        """Make the error for flows that get no bandwidth although no event is left."""
        pending = sorted({self._setting.jobs[job].id for job, _, _ in self.fabric.pending()})
        return StalledError(
            f"stalled at t = {self.fabric.decided_s:g} s: allocator "
            f"{self.fabric.allocator.title} gives no bandwidth to the flows of jobs "
            f"{', '.join(map(str, pending[:5]))}, and no other event is pending")
