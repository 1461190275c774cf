"""The modes in which chunks train under the fabric transport.

In mode ``"fluid"``, gradients flow continuously while a chunk trains. In modes ``"exact"`` and
``"sync"``, each mini-batch computes, pushes, updates and pulls.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.edge.on_fabric.traffic import BATCHES_ERROR, EdgeTraffic, Timer, successors
from netsim.fabric.clock import CoflowEvent
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.workload import Flows


class TrainingMode(ABC):
    """Base of the modes: trains chunks, each on a worker of its own, and reports by `EdgeTraffic`.

    After each mini-batch, it reports a pause, in which the worker may be given to another chunk.
    The chunks that keep their workers continue when `go` is called.
    """

    def __init__(self, traffic: EdgeTraffic) -> None:
        self._traffic = traffic

    @abstractmethod
    def restart(self, chunk: int, batches: float) -> None:
        """Set the number of mini-batches left of a chunk that is not training."""

    @abstractmethod
    def begin(self, chunk: int, host: int, ps: int) -> None:
        """Prepare to train a chunk on a host, with a PS on host `ps`, once `go` is called.

        Chunks that exchange in rings have no use for `ps`.
        """

    @abstractmethod
    def go(self) -> None:
        """Start or continue all chunks that are prepared or paused."""

    @abstractmethod
    def stop(self, chunk: int) -> bool:
        """Stop a chunk; return whether it stopped at once. If not, `EdgeTraffic` reports when.

        In mode ``"sync"``, a chunk that stops at once also stops the other chunks of its round.
        """

    @abstractmethod
    def left(self, chunk: int) -> float:
        """The number of mini-batches that a chunk in training has left, with fractions."""

    def use(self, limit: Ints, rates: Floats) -> Floats:
        """The rates that flows use, given the allocated rates; see `RateCappedAllocator`."""
        return rates


# --- mode fluid ----------------------------------------------------------------------------


class Fluid(TrainingMode):
    """The mode ``"fluid"``: a mini-batch takes m + G + q / push rate + q / pull rate.

    Here m and G are the times of computation and of the update, and q is the size of the gradients.
    While a chunk trains, it has one flow with all bytes that it has left to push, and one with all
    that it has left to pull. The allocator gives them rates as if they sent all the time. Each flow
    uses less than its rate: it sends q bytes in the time that a mini-batch takes. So the flows end
    when the training does.

    In a ring of n chunks, a mini-batch takes m + G + 2 (n - 1) / n q / lowest rate; see `_Rings`.
    """

    def __init__(self, traffic: EdgeTraffic) -> None:
        super().__init__(traffic)
        self._flows: dict[int, CoflowEvent] = {}
        self._timers: dict[int, tuple[float, Timer]] = {}
        self._rings = _Rings(traffic)

    def restart(self, chunk: int, batches: float) -> None:
        self._traffic.batches[chunk] = batches

    def begin(self, chunk: int, host: int, ps: int) -> None:
        traffic = self._traffic
        if traffic.ring[chunk]:
            self._rings.begin(chunk, host)
            return
        size = traffic.gradient[chunk] * traffic.batches[chunk]
        if size > 0:
            flows = Flows(np.array([host, ps]), np.array([ps, host]), np.full(2, size))
            self._flows[chunk] = traffic.send(
                int(traffic.job_of[chunk]), traffic.order_of(chunk),
                traffic.demand(flows, traffic.limit_of(chunk, pull=False)),
                partial(self._end, chunk))
        else:
            timer = traffic.after(traffic.batches[chunk] * traffic.fixed[chunk], self._end, chunk)
            self._timers[chunk] = traffic.now, timer

    def _end(self, chunk: int, _: CoflowEvent | None = None) -> None:
        self._flows.pop(chunk, None)
        self._timers.pop(chunk, None)
        self._traffic.batches[chunk] = 0.0
        self._traffic.ended(chunk)

    def go(self) -> None:
        self._rings.go()  # all else has started in `begin`

    def left(self, chunk: int) -> float:
        traffic = self._traffic
        if traffic.ring[chunk]:
            return self._rings.left(chunk)
        if chunk in self._flows:
            return float(traffic.left(self._flows[chunk])[0] / traffic.gradient[chunk])
        since = self._timers[chunk][0] if chunk in self._timers else traffic.now
        return float(traffic.batches[chunk] - (traffic.now - since) / traffic.fixed[chunk])

    def stop(self, chunk: int) -> bool:
        traffic = self._traffic
        if traffic.ring[chunk]:
            self._rings.stop(chunk)
        elif chunk in self._flows:
            left = traffic.fabric.withdraw(self._flows.pop(chunk))
            traffic.batches[chunk] = left[0] / traffic.gradient[chunk]
        else:
            traffic.batches[chunk] = self.left(chunk)
            traffic.cancel(self._timers.pop(chunk)[1])
        return True

    def use(self, limit: Ints, rates: Floats) -> Floats:
        traffic = self._traffic
        chunk, which = traffic.decoded(limit)
        exchange = which > 0
        chunk = chunk[exchange]
        period = traffic.fixed.copy()
        with np.errstate(divide="ignore"):
            takes = traffic.message[chunk] / rates[exchange]
        ring = traffic.ring[chunk]
        if ring.any():
            job = traffic.job_of[chunk[ring]]
            slowest = np.zeros(int(job.max()) + 1)
            np.maximum.at(slowest, job, takes[ring])
            takes[ring] = slowest[job]
        np.add.at(period, chunk, takes)
        used = rates.copy()
        used[exchange] = traffic.message[chunk] / period[chunk]
        return used


@dataclass(slots=True, eq=False)
class _Ring:
    """The chunks of a job in training."""

    hosts: dict[int, int] = field(default_factory=dict)  #: of each chunk
    #: The chunks that the current flows are for; empty if there are none yet.
    members: list[int] = field(default_factory=list)
    least: float = 0.0  #: mini-batches, counted from `since`, after which the first of them ends
    since: float = 0.0
    #: Either the flows or, if there is nothing to send, a timer ends then.
    transfer: CoflowEvent | None = None
    timer: Timer | None = None


class _Rings:
    """Fluid training of the chunks of jobs that exchange in rings.

    All chunks of a job in training advance at the same pace. Each has a flow to the next one, and
    these flows are one coflow, which lasts until the first chunk ends. Then, or when a chunk joins
    or stops, another coflow takes its place, after all events of the instant.
    """

    def __init__(self, traffic: EdgeTraffic) -> None:
        self._traffic = traffic
        self._rings: dict[int, _Ring] = {}
        self._changed: set[int] = set()

    def begin(self, chunk: int, host: int) -> None:
        """Add a chunk to the ring of its job."""
        job = int(self._traffic.job_of[chunk])
        self._rings.setdefault(job, _Ring()).hosts[chunk] = host
        self._changed.add(job)

    def stop(self, chunk: int) -> None:
        """Remove a chunk from its ring."""
        job = int(self._traffic.job_of[chunk])
        self._halt(self._rings[job])
        del self._rings[job].hosts[chunk]
        self._changed.add(job)

    def left(self, chunk: int) -> float:
        """The number of mini-batches that a chunk has left."""
        ring = self._rings.get(int(self._traffic.job_of[chunk]))
        made = self._made(ring) if ring is not None and chunk in ring.members else 0.0
        return float(self._traffic.batches[chunk]) - made

    def _made(self, ring: _Ring) -> float:
        """The number of mini-batches that each member has done since the ring was started."""
        traffic = self._traffic
        if ring.transfer is not None:
            message = traffic.message[ring.members[0]]
            return ring.least - float(traffic.left(ring.transfer)[0] / message)
        return float((traffic.now - ring.since) / traffic.fixed[ring.members[0]])

    def _halt(self, ring: _Ring) -> None:
        """Stop a ring, and record what its members have done."""
        if not ring.members:
            return
        self._record(ring, self._made(ring))
        if ring.transfer is not None:
            self._traffic.fabric.withdraw(ring.transfer)
        if ring.timer is not None:
            self._traffic.cancel(ring.timer)
        ring.members, ring.transfer, ring.timer = [], None, None

    def _record(self, ring: _Ring, made: float) -> None:
        traffic, members = self._traffic, ring.members
        traffic.batches[members] = np.maximum(traffic.batches[members] - made, 0.0)
        traffic.ring_bytes[members] += made * traffic.message[members]

    def go(self) -> None:
        """Start the rings whose members have changed."""
        changed, self._changed = self._changed, set()
        for job in sorted(changed):
            ring = self._rings[job]
            self._halt(ring)
            if ring.hosts:
                self._start(job, ring)
            else:
                del self._rings[job]

    def _start(self, job: int, ring: _Ring) -> None:
        traffic, members = self._traffic, sorted(ring.hosts)
        traffic.form_ring(members)
        ring.members, ring.since = members, traffic.now
        ring.least = float(traffic.batches[members].min())
        first = members[0]
        size = traffic.message[first] * ring.least
        if size > 0:
            after = successors(ring.hosts)
            flows = Flows(np.array([ring.hosts[chunk] for chunk in members]),
                          np.array([after[chunk] for chunk in members]),
                          np.full(len(members), size))
            limits = [traffic.limit_of(chunk, pull=False) for chunk in members]
            ring.transfer = traffic.send(job, traffic.order_of(first),
                                         traffic.demand(flows, limits), partial(self._end, ring))
        else:
            ring.timer = traffic.after(ring.least * traffic.fixed[first], self._end, ring)

    def _end(self, ring: _Ring, _: CoflowEvent | None = None) -> None:
        """End the members that have trained on all their mini-batches."""
        traffic = self._traffic
        self._record(ring, ring.least)
        ended = [chunk for chunk in ring.members if traffic.batches[chunk] <= BATCHES_ERROR]
        ring.members, ring.transfer, ring.timer = [], None, None
        self._changed.add(int(traffic.job_of[ended[0]]))
        for chunk in ended:
            del ring.hosts[chunk]
            traffic.batches[chunk] = 0.0
            traffic.ended(chunk)
        traffic.paused()


# --- modes exact and sync ------------------------------------------------------------------

_COMPUTE, _PUSH, _UPDATE, _PULL, _PHASES = range(5)


@dataclass(slots=True, eq=False)
class _Group:
    """Chunks that go through the phases of mini-batches together, in rounds."""

    members: list[int] = field(default_factory=list)
    joining: list[int] = field(default_factory=list)  #: at the next round
    leaving: list[int] = field(default_factory=list)  #: at the end of the current round
    hosts: dict[int, int] = field(default_factory=dict)  #: of each chunk
    ps: int = 0  #: the host of their parameter server
    phase: int = _PHASES  #: `_PHASES` between two rounds
    since: float = 0.0  #: when the phase began
    #: The part of a computation or an update that was done when the phase began, after a pause.
    done: float = 0.0
    transfer: CoflowEvent | None = None
    timer: Timer | None = None
    #: Cached coflows that these members push (key False) and pull (key True).
    whole: dict[bool, RoutedCoflow] = field(default_factory=dict)

    def change(self, members: list[int]) -> None:
        """Set the members; the cached coflows are dropped if they change."""
        if members != self.members:
            self.members, self.whole = members, {}


class Rounds(TrainingMode):
    """The modes ``"exact"`` and ``"sync"``, in which chunks go through mini-batches in rounds.

    In mode ``"exact"``, chunks are independent. In mode ``"sync"`` (`together`), all chunks of a
    job that are in training push in one coflow, the PS updates when all gradients have arrived, and
    all these chunks pull in one coflow. A chunk that starts in the meantime waits for the next
    round.

    In both modes, the chunks of a job that exchange in a ring train in such rounds. When all have
    computed, each sends all bytes of the all-reduce to the next one, in one coflow, and then makes
    the update.

    `preemption` says what a chunk that has to stop does with its current mini-batch: ``"finish"``
    it first, stop at once and repeat it later (``"drop"``), or stop at once and resume it later
    (``"pause"``). In mode ``"sync"`` and in rings, ``"drop"`` is not possible, and ``"pause"`` only
    for all chunks of a job at once.
    """

    def __init__(self, traffic: EdgeTraffic, together: bool, preemption: str) -> None:
        super().__init__(traffic)
        self._together, self._preemption = together, preemption
        self._groups: dict[int, _Group] = {}
        self._between: dict[int, _Group] = {}
        self._paused: dict[int, tuple[int, float]] = {}

    def _key(self, chunk: int) -> int:
        together = self._together or self._traffic.ring[chunk]
        return self._traffic.first_of(chunk) if together else chunk

    def restart(self, chunk: int, batches: float) -> None:
        self._paused.pop(chunk, None)
        self._traffic.batches[chunk] = math.ceil(batches - BATCHES_ERROR)  # none is trained in part

    def begin(self, chunk: int, host: int, ps: int) -> None:
        key = self._key(chunk)
        group = self._groups.setdefault(key, _Group())
        group.joining.append(chunk)
        group.hosts[chunk], group.ps = host, ps
        if group.phase == _PHASES:
            self._between[key] = group

    def go(self) -> None:
        between, self._between = self._between, {}
        for key in sorted(between):
            group = between[key]
            group.change(group.members + group.joining)
            group.joining = []
            if group.members:
                if self._traffic.ring[group.members[0]]:
                    self._traffic.form_ring(group.members)
                paused = [self._paused.pop(chunk, (_COMPUTE, 0.0)) for chunk in group.members]
                self._enter(group, paused[0][0], np.array([done for _, done in paused]))
            else:
                del self._groups[key]

    def _enter(self, group: _Group, phase: int, done: Floats | None = None) -> None:
        """Begin a phase, part of which may be done, or the next one that takes time."""
        traffic, chunk = self._traffic, group.members[0]
        while phase < _PHASES:
            done = np.zeros(len(group.members)) if done is None else done
            group.phase, group.since, group.done = phase, traffic.now, float(done[0])
            part = 1 - done
            if phase in (_PUSH, _PULL):
                sends = phase == _PUSH or not traffic.ring[chunk]
                if sends and traffic.message[chunk] > 0 and part.any():
                    group.transfer = self._exchange(group, phase == _PULL, part)
                    return
            elif (seconds := self._seconds(chunk, phase) * float(part[0])) > 0:
                group.timer = traffic.after(seconds, self._go_on, group)
                return
            phase, done = phase + 1, None
        self._end_round(group)

    def _seconds(self, chunk: int, phase: int) -> float:
        traffic = self._traffic
        return float((traffic.compute if phase == _COMPUTE else traffic.update)[chunk])

    def _exchange(self, group: _Group, pull: bool, part: Floats) -> CoflowEvent:
        traffic, first = self._traffic, group.members[0]
        demand = group.whole.get(pull) if (part == 1).all() else self._demand(group, pull, part)
        if demand is None:
            demand = group.whole[pull] = self._demand(group, pull, part)
        return traffic.send(int(traffic.job_of[first]), traffic.order_of(first), demand,
                            partial(self._go_on, group))

    def _demand(self, group: _Group, pull: bool, part: Floats) -> RoutedCoflow:
        traffic, members = self._traffic, group.members
        hosts = np.array([group.hosts[chunk] for chunk in members])
        if traffic.ring[members[0]]:
            after = successors(dict(zip(members, hosts.tolist(), strict=True)))
            others = np.array([after[chunk] for chunk in members])
        else:
            others = np.full(len(members), group.ps)
        src, dst = (others, hosts) if pull else (hosts, others)
        return traffic.demand(Flows(src, dst, traffic.message[members] * part),
                              [traffic.limit_of(chunk, pull=pull) for chunk in members])

    def _go_on(self, group: _Group, _: CoflowEvent | None = None) -> None:
        group.transfer = group.timer = None
        self._enter(group, group.phase + 1)

    def _end_round(self, group: _Group) -> None:
        traffic = self._traffic
        group.phase = _PHASES
        leaving, group.leaving = group.leaving, []
        self._between[self._key(group.members[0])] = group
        members = group.members
        traffic.batches[members] -= 1
        if traffic.ring[members[0]]:
            traffic.ring_bytes[members] += traffic.message[members]
        group.change([chunk for chunk in members
                      if traffic.batches[chunk] > 0 and chunk not in leaving])
        for chunk in members:
            if traffic.batches[chunk] == 0:
                traffic.ended(chunk)
            elif chunk in leaving:
                traffic.stopped(chunk)
        traffic.paused()

    def left(self, chunk: int) -> float:
        """The mini-batches left; of the current one, the time that its other phases should take."""
        group = self._groups.get(self._key(chunk))
        if group is None or chunk not in group.members or group.phase == _PHASES:
            phase, done = self._paused.get(chunk, (_COMPUTE, 0.0))
        else:
            phase, done = group.phase, self._done(group, chunk)
        return float(self._traffic.batches[chunk]) - self._fraction_done(chunk, phase, done)

    def _done(self, group: _Group, chunk: int) -> float:
        """The fraction of the current phase that a chunk has done."""
        traffic = self._traffic
        if group.transfer is not None:
            left = traffic.left(group.transfer)[group.members.index(chunk)]
            return float(1 - left / traffic.message[chunk])
        seconds = self._seconds(chunk, group.phase)
        return min(group.done + (traffic.now - group.since) / seconds, 1.0)

    def _fraction_done(self, chunk: int, phase: int, done: float) -> float:
        """The fraction of a mini-batch done, after some phases and a fraction of one."""
        traffic = self._traffic
        exchange = traffic.exchange[chunk]
        push, pull = (exchange, 0.0) if traffic.ring[chunk] else (exchange / 2, exchange / 2)
        durations = [traffic.compute[chunk], push, traffic.update[chunk], pull]
        return _time_spent(durations, phase, done) / float(sum(durations))

    def stop(self, chunk: int) -> bool:
        group = self._groups.get(self._key(chunk))
        if group is None:
            return True  # it stopped with the others
        if chunk in group.joining:
            group.joining.remove(chunk)
            return True
        if group.phase == _PHASES:
            group.change([each for each in group.members if each != chunk])
            return True
        if self._preemption == "finish":
            group.leaving.append(chunk)
            return False
        for member in group.members:
            self._leave(group, member)
        if group.transfer is not None:
            self._traffic.fabric.withdraw(group.transfer)
        if group.timer is not None:
            self._traffic.cancel(group.timer)
        del self._groups[self._key(chunk)]
        return True

    def _leave(self, group: _Group, chunk: int) -> None:
        """Decide about the current mini-batch of a chunk that stops in the middle of it."""
        traffic, done = self._traffic, self._done(group, chunk)
        if self._preemption == "pause":
            self._paused[chunk] = group.phase, done
        else:
            durations = [traffic.compute[chunk], 0.0, traffic.update[chunk], 0.0]
            traffic.wasted[chunk] += _time_spent(durations, group.phase, done)


def _time_spent(durations: Sequence[float], phase: int, done: float) -> float:
    """Time spent on the phases before `phase`, and on the fraction `done` of it."""
    return float(sum(durations[:phase]) + durations[phase] * done)
