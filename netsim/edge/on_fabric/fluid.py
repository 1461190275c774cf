"""Training in mode ``"fluid"``: gradients flow continuously while a chunk trains."""

from __future__ import annotations

from functools import partial

import numpy as np

from netsim.edge.on_fabric.traffic import EdgeTraffic, Timer
from netsim.edge.setting import Floats, Ints
from netsim.fabric.coflow_event import CoflowEvent
from netsim.workload import Flows

__all__ = ["Fluid"]


class Fluid:
    """The mode ``"fluid"``: a mini-batch takes m + G + q / push rate + q / pull rate.

    Here m and G are the times of computation and of the update, and q is the size of the gradients.
    While a chunk trains, it has one flow with all bytes that it has left to push, and one with all
    that it has left to pull. The allocator gives them rates as if they sent all the time. Each flow
    uses less than its rate: it sends q bytes in the time that a mini-batch takes. So the flows end
    when the training does. See `netsim.edge.on_fabric.training.Training`.
    """

    def __init__(self, traffic: EdgeTraffic) -> None:
        self._traffic = traffic
        self._flows: dict[int, CoflowEvent] = {}
        self._timers: dict[int, tuple[float, Timer]] = {}

    def restart(self, chunk: int, batches: float) -> None:
        """Set the mini-batches that a chunk has left; see `Training`."""
        self._traffic.batches[chunk] = batches

    def begin(self, chunk: int, host: int, ps: int) -> None:
        """Start to train a chunk now."""
        traffic = self._traffic
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
        """Do nothing: chunks start at once."""

    def left(self, chunk: int) -> float:
        """Return the number of mini-batches that a chunk in training has left."""
        traffic = self._traffic
        if chunk in self._flows:
            return float(traffic.left(self._flows[chunk])[0] / traffic.gradient[chunk])
        since = self._timers[chunk][0] if chunk in self._timers else traffic.now
        return float(traffic.batches[chunk] - (traffic.now - since) / traffic.fixed[chunk])

    def stop(self, chunk: int) -> bool:
        """Stop a chunk; always returns True, as it stops at once."""
        traffic = self._traffic
        if chunk in self._flows:
            left = traffic.fabric.withdraw(self._flows.pop(chunk))
            traffic.batches[chunk] = left[0] / traffic.gradient[chunk]
        else:
            traffic.batches[chunk] = self.left(chunk)
            traffic.cancel(self._timers.pop(chunk)[1])
        return True

    def use(self, limit: Ints, rates: Floats) -> Floats:
        """Return the rates that flows use, given the allocated rates; see `RateCappedAllocator`."""
        traffic = self._traffic
        chunk, which = traffic.decoded(limit)
        exchange = which > 0
        chunk = chunk[exchange]
        period = traffic.fixed.copy()
        with np.errstate(divide="ignore"):
            np.add.at(period, chunk, traffic.gradient[chunk] / rates[exchange])
        used = rates.copy()
        used[exchange] = traffic.gradient[chunk] / period[chunk]
        return used
