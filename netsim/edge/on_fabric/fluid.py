"""Training where gradients flow all the time: mini-batches take what rates make of them."""

from __future__ import annotations

import numpy as np

from netsim.edge.on_fabric.wires import EdgeTraffic, Timer
from netsim.edge.setting import Floats, Ints
from netsim.fabric.coflow_event import CoflowEvent
from netsim.workload import Flows

__all__ = ["Fluid"]


class Fluid:
    """The mode ``"fluid"``: a mini-batch takes m + G + q / push rate + q / pull rate.

    A chunk has two flows while it trains, with what is left to push and to pull, which are given
    rates as if they sent all the time. They use q per mini-batch of that, and so end when the
    training does. See `netsim.edge.on_fabric.training.Training`.
    """

    def __init__(self, wires: EdgeTraffic) -> None:
        self._wires = wires
        self._flows: dict[int, CoflowEvent] = {}
        self._timers: dict[int, tuple[float, Timer]] = {}

    def begin(self, chunk: int, host: int, ps: int) -> None:
        """Let a chunk train from now on."""
        wires = self._wires
        size = wires.gradient[chunk] * wires.batches[chunk]
        if size > 0:
            flows = Flows(np.array([host, ps]), np.array([ps, host]), np.full(2, size))
            self._flows[chunk] = wires.send(
                int(wires.job_of[chunk]), wires.order_of(chunk),
                wires.demand(flows, wires.limit_of(chunk, pull=False)), lambda _: self._sent(chunk))
        else:
            timer = wires.after(wires.batches[chunk] * wires.fixed[chunk], self._timed, chunk)
            self._timers[chunk] = wires.now, timer

    def _sent(self, chunk: int) -> None:
        del self._flows[chunk]
        self._end(chunk)

    def _timed(self, chunk: int) -> None:
        del self._timers[chunk]
        self._end(chunk)

    def _end(self, chunk: int) -> None:
        self._wires.batches[chunk] = 0.0
        self._wires.ended(chunk)

    def go(self) -> None:
        """Nothing is left to begin."""

    def left(self, chunk: int) -> float:
        """Return how many mini-batches a chunk that has begun has left."""
        wires = self._wires
        if chunk in self._flows:
            return float(wires.left(self._flows[chunk])[0] / wires.gradient[chunk])
        since = self._timers[chunk][0] if chunk in self._timers else wires.now
        return float(wires.batches[chunk] - (wires.now - since) / wires.fixed[chunk])

    def stop(self, chunk: int) -> bool:
        """Let a chunk train no longer; True, as it stops at once."""
        wires = self._wires
        if chunk in self._flows:
            left = wires.fabric.withdraw(self._flows.pop(chunk))
            wires.batches[chunk] = left[0] / wires.gradient[chunk]
        else:
            wires.batches[chunk] = self.left(chunk)
            wires.cancel(self._timers.pop(chunk)[1])
        return True

    def use(self, limit: Ints, rates: Floats) -> Floats:
        """Return the rates that flows use of those given; see `limits.RateCappedAllocator`."""
        wires = self._wires
        exchange = limit >= wires.chunks
        chunk = (limit[exchange] - wires.chunks) // 2
        period = wires.fixed.copy()
        with np.errstate(divide="ignore"):
            np.add.at(period, chunk, wires.gradient[chunk] / rates[exchange])
        used = rates.copy()
        used[exchange] = wires.gradient[chunk] / period[chunk]
        return used
