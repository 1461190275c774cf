"""The traffic of chunks over an edge-cloud's fabric, with a rate limit per flow, and timers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from netsim.base.arrays import Floats, Ints
from netsim.base.lazy import simpy
from netsim.edge.setting import EdgeSetting, with_room
from netsim.fabric.clock import CoflowEvent
from netsim.fabric.fabric_process import FabricProcess
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.network import Topology
from netsim.workload import Flows


class PerFlowCapNetwork(Topology):
    """A network with an additional link per flow, whose capacity is the highest rate of the flow.

    These links are called limits. A flow with the key k crosses limit k after the links of its
    path, so that any allocator respects the limit. A flow from a host to itself crosses only its
    limit.
    """

    def __init__(self, network: Topology, limits: int) -> None:
        # `first` is the number of the link that is limit 0.
        self._network, self.first = network, network.links
        super().__init__(network.name, network.hosts, network.usable, network.link_names)
        #: The chunk and the purpose of each limit as one number, which is also the ECMP key of its
        #: flow. Never changed in place.
        self.codes = np.empty(0, np.int64)
        self.add_limits(np.arange(limits))

    def add_limits(self, codes: Ints) -> Ints:
        """Append limits with the given codes, without rates yet; return their numbers."""
        limits, known = len(codes), self.links - self.first
        self.codes = np.concatenate((self.codes, codes))
        self.link_names += tuple(f"limit-{known + each} of a flow" for each in range(limits))
        self.__dict__.pop("_link_ids", None)
        self.capacity = np.concatenate((self.capacity, np.ones(limits)))
        self.capacity.flags.writeable = False
        return np.arange(known, known + limits)

    def limit(self, limits: Ints, rates: Floats) -> Ints:
        """Set the capacities of limits, in bytes per second; return the numbers of their links."""
        links = self.first + limits
        self.capacity.flags.writeable = True
        self.capacity[links] = rates
        self.capacity.flags.writeable = False
        return links

    def __deepcopy__(self, memo: dict[int, Any]) -> PerFlowCapNetwork:
        other = copy.copy(self)
        other.capacity = self.capacity.copy()
        other.capacity.flags.writeable = False
        return other

    def routes(self, src: Ints, dst: Ints, key: Ints) -> tuple[Ints, Ints]:
        """Compute the paths of flows, each followed by its limit; see `Topology.routes`."""
        ptr, links = self._network.routes(src, dst, self.codes[key])
        return ptr + np.arange(len(ptr)), np.insert(links, ptr[1:], self.first + key)


#: A pending call; see `EdgeTraffic.after`.
Timer = simpy.Event

#: The limits of a chunk: of its upload, its push and its pull, whose codes are LIMITS * chunk, + 1
#: and + 2. What a chunk sends in a ring is a push.
LIMITS = 3

_PUSH, _PULL = 1, 2

#: Mini-batches left that are a rounding error.
BATCHES_ERROR = 1e-9


class EdgeTraffic:
    """Sends coflows and sets timers on behalf of chunks, which are numbered over all jobs.

    The network limits the rate of each flow of a chunk: a chunk has a limit for its upload, another
    for its pushes, and another for its pulls. If it is uploaded again, each further upload has a
    limit of its own. All array attributes are by chunk.

    A `TrainingMode` reports by ``ended(chunk)`` that a chunk has trained on all its mini-batches,
    by ``stopped(chunk)`` that one has stopped, but not at once, and by ``paused()`` that one is
    between two mini-batches, and waits for `TrainingMode.go`.
    """

    fabric: FabricProcess  #: must be set before anything is sent

    def __init__(self, setting: EdgeSetting, env: simpy.Environment, network: PerFlowCapNetwork,
                 ended: Callable[[int], None], stopped: Callable[[int], None],
                 paused: Callable[[], None]) -> None:
        self._env, self._network, self._setting = env, network, setting
        self.ended, self.stopped, self.paused = ended, stopped, paused
        #: Mini-batches left. Training in rounds updates it after each mini-batch, fluid training
        #: only when a chunk stops.
        self.batches = self._per_chunk("batches")
        #: Bytes of each flow per mini-batch: of a push, of a pull, or of what the chunk sends in
        #: its ring as it is now; see `form_ring`.
        self.message = self._per_chunk("gradient_bytes")
        # Seconds computed on mini-batches that were dropped, and bytes sent in rings.
        self.wasted, self.ring_bytes = np.zeros((2, setting.total))
        self._limits = np.arange(LIMITS * setting.total)  # of each code
        self._further = np.zeros(len(self._limits), np.bool_)  # those of further uploads
        self._tabulate()

    def _tabulate(self) -> None:
        """Make the arrays that follow from the setting, and set the limits of exchanges."""
        setting = self._setting
        speed = 1 + setting.epsilon
        # Seconds per mini-batch, at the augmented speed.
        self.compute = self._per_chunk("compute_s") / speed
        self.update = self._per_chunk("update_s") / speed
        self.fixed = self.compute + self.update
        self.gradient = self._per_chunk("gradient_bytes")
        self.exchange = self._per_chunk("exchange_s") / speed  #: push and pull together
        self.job_of = setting.job_of
        self.ring = setting.ring[self.job_of]
        for which in (_PUSH, _PULL):
            self._network.limit(self._limits[which::LIMITS], self._per_chunk("bandwidth") * speed)

    def make_room(self, place: int) -> None:
        """Make room for the chunks of a job that has been inserted in the setting.

        Chunks that come after them have no flows yet, so their limits can be renumbered.
        """
        where = self._setting.chunks_of(place)
        job = self._setting.jobs[place]
        self.batches = with_room(self.batches, where, float(job.batches))
        self.message = with_room(self.message, where, job.gradient_bytes)
        self.wasted = with_room(self.wasted, where, 0.0)
        self.ring_bytes = with_room(self.ring_bytes, where, 0.0)
        more = LIMITS * (where.stop - where.start)
        self._add(np.zeros(more, np.int64), further=False)
        self._limits = np.flatnonzero(~self._further)
        codes = self._network.codes.copy()
        codes[self._limits] = np.arange(len(self._limits))
        self._network.codes = codes
        self._tabulate()
        table, first = self.fabric.table, self._network.first
        table.capacity[first:] = self._network.usable[first:]

    def _add(self, codes: Ints, further: bool) -> Ints:
        """Append limits; return their numbers."""
        added = self._network.add_limits(codes)
        self._further = np.concatenate((self._further, np.full(len(codes), further)))
        self.fabric.table.add_links(self._network.usable)
        return added

    def _per_chunk(self, name: str) -> Floats:
        values = [float(getattr(job, name)) for job in self._setting.jobs]
        return np.repeat(values, self._setting.chunks)

    @property
    def now(self) -> float:
        """The time, in seconds."""
        return self._env.now

    def after(self, seconds: float, then: Callable[..., None], *args: Any) -> Timer:
        """Call a function after some seconds; return a timer by which the call can be cancelled."""
        timer = self._env.timeout(seconds)
        timer.callbacks.append(partial(_call, then, args))
        return timer

    def cancel(self, timer: Timer) -> None:
        """Cancel a timer."""
        timer.callbacks.clear()

    def limit_of(self, chunk: int, *, pull: bool) -> int:
        """The limit of the flow in which a chunk pushes, or pulls if `pull` is set."""
        return int(self._limits[LIMITS * chunk + (_PULL if pull else _PUSH)])

    @property
    def limits(self) -> int:
        """The number of limits of the network."""
        return len(self._further)

    def uploads_of(self, chunks: Ints) -> Ints:
        """The limits of the first uploads of chunks."""
        return self._limits[LIMITS * chunks]

    def further_uploads_of(self, chunks: Ints) -> Ints:
        """Add limits for further uploads of chunks; return their numbers."""
        return self._add(LIMITS * chunks, further=True)

    def decoded(self, limits: Ints) -> tuple[Ints, Ints]:
        """The chunk of each limit, and the purpose of the limit as a number (0: upload)."""
        chunk, which = np.divmod(self._network.codes[limits], LIMITS)
        return chunk, which

    def set_uploads(self, limits: Ints, rates: Floats) -> None:
        """Set the highest rates of uploads, in bytes per second."""
        links = self._network.limit(limits, rates)
        # No flow uses these links yet, so that no new decision is needed.
        self.fabric.table.capacity[links] = rates

    def demand(self, flows: Flows, limits: ArrayLike) -> RoutedCoflow:
        """Route a coflow of one job between hosts, which can then be sent any number of times.

        `limits` has the limit of each flow, or only that of the first if the others have
        consecutive limits.
        """
        chunk = int(self.decoded(np.ravel(limits)[:1])[0][0])
        return RoutedCoflow.of(flows, self._network, key=limits,
                               weight=self._setting.jobs[int(self.job_of[chunk])].weight)

    def send(self, job: int, order: int, demand: RoutedCoflow, done: Callable[[CoflowEvent], None]
             ) -> CoflowEvent:
        """Send a coflow of a job (its index); `order` breaks ties between coflows of the job."""
        return self.fabric.submit(job, demand, order, done)

    def first_of(self, chunk: int) -> int:
        """The first chunk of a chunk's job."""
        return int(self._setting.first[self.job_of[chunk]])

    def order_of(self, chunk: int) -> int:
        """The position of a chunk's exchanges among its job's coflows, from 1 on."""
        return 1 + chunk - self.first_of(chunk)

    def form_ring(self, members: Sequence[int]) -> None:
        """Set what each chunk sends per mini-batch while these chunks of a job are its ring."""
        job = self._setting.jobs[int(self.job_of[members[0]])]
        self.message[list(members)] = job.exchange_bytes(len(members))

    def left(self, transfer: CoflowEvent) -> Floats:
        """The bytes that each flow of a coflow still has to send."""
        if not transfer.key:
            return np.array(transfer.demand.flows["size"])
        self.fabric.advance_to_now()
        return self.fabric.table.flows_left(transfer.key)


def successors(hosts: Mapping[int, int]) -> dict[int, int]:
    """Find the host to which each member of a ring sends, given the host of each.

    The ring goes from host to host, so that it enters and leaves each of them once.
    """
    ring = sorted(hosts, key=lambda chunk: (hosts[chunk], chunk))
    return {chunk: hosts[after]
            for chunk, after in zip(ring, [*ring[1:], *ring[:1]], strict=True)}


def _call(then: Callable[..., None], args: tuple[Any, ...], _: Timer) -> None:
    """Call the function of a timer."""
    then(*args)
