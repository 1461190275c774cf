"""Training in mode ``"fluid"``: gradients flow continuously while a chunk trains."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from netsim.edge.on_fabric.traffic import EdgeTraffic, Timer, successors
from netsim.edge.setting import Floats, Ints
from netsim.fabric.coflow_event import CoflowEvent
from netsim.workload import Flows

#: Mini-batches that are a rounding error.
_ROUNDING = 1e-9


class Fluid:
    """The mode ``"fluid"``: a mini-batch takes m + G + q / push rate + q / pull rate.

    Here m and G are the times of computation and of the update, and q is the size of the gradients.
    While a chunk trains, it has one flow with all bytes that it has left to push, and one with all
    that it has left to pull. The allocator gives them rates as if they sent all the time. Each flow
    uses less than its rate: it sends q bytes in the time that a mini-batch takes. So the flows end
    when the training does. See `netsim.edge.on_fabric.training.Training`.

    In a ring of n chunks, a mini-batch takes m + G + 2 (n - 1) / n q / lowest rate; see `_Rings`.
    """

    def __init__(self, traffic: EdgeTraffic) -> None:
        self._traffic = traffic
        self._flows: dict[int, CoflowEvent] = {}
        self._timers: dict[int, tuple[float, Timer]] = {}
        self._rings = _Rings(traffic)

    def restart(self, chunk: int, batches: float) -> None:
        """Set the mini-batches that a chunk has left; see `Training`."""
        self._traffic.batches[chunk] = batches

    def begin(self, chunk: int, host: int, ps: int) -> None:
        """Start to train a chunk now, or when `go` is called if it exchanges in a ring."""
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
                partial(self._sent, chunk))
        else:
            timer = traffic.after(traffic.batches[chunk] * traffic.fixed[chunk], self._timed, chunk)
            self._timers[chunk] = traffic.now, timer

    def _sent(self, chunk: int, _: CoflowEvent) -> None:
        del self._flows[chunk]
        self._end(chunk)

    def _timed(self, chunk: int) -> None:
        del self._timers[chunk]
        self._end(chunk)

    def _end(self, chunk: int) -> None:
        self._traffic.batches[chunk] = 0.0
        self._traffic.ended(chunk)

    def go(self) -> None:
        """Start the rings that have changed; all else starts at once."""
        self._rings.go()

    def left(self, chunk: int) -> float:
        """The number of mini-batches that a chunk in training has left."""
        traffic = self._traffic
        if traffic.ring[chunk]:
            return self._rings.left(chunk)
        if chunk in self._flows:
            return float(traffic.left(self._flows[chunk])[0] / traffic.gradient[chunk])
        since = self._timers[chunk][0] if chunk in self._timers else traffic.now
        return float(traffic.batches[chunk] - (traffic.now - since) / traffic.fixed[chunk])

    def stop(self, chunk: int) -> bool:
        """Stop a chunk; always returns True, as it stops at once."""
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
        """The rates that flows use, given the allocated rates; see `RateCappedAllocator`."""
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
            ring.timer = traffic.after(ring.least * traffic.fixed[first], self._end, ring, None)

    def _end(self, ring: _Ring, _: CoflowEvent | None) -> None:
        """End the members that have trained on all their mini-batches."""
        traffic = self._traffic
        self._record(ring, ring.least)
        ended = [chunk for chunk in ring.members if traffic.batches[chunk] <= _ROUNDING]
        ring.members, ring.transfer, ring.timer = [], None, None
        self._changed.add(int(traffic.job_of[ended[0]]))
        for chunk in ended:
            del ring.hosts[chunk]
            traffic.batches[chunk] = 0.0
            traffic.ended(chunk)
        traffic.paused()
