"""What chunks send over the fabric of an edge-cloud, and how long they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import simpy
from numpy.typing import ArrayLike

from netsim.edge.on_fabric.network import PerFlowCapNetwork
from netsim.edge.setting import EdgeSetting, Floats
from netsim.fabric.coflow_event import CoflowEvent
from netsim.fabric.fabric import Fabric
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.workload import Flows

__all__ = ["Answers", "EdgeTraffic", "Timer"]

#: What is to happen some time later; see `EdgeTraffic.after`.
Timer = simpy.Event


class Answers(NamedTuple):
    """Whom those that train tell what has happened, each with the number of a chunk.

    Attributes
    ----------
    ended : callable
        It has trained on all mini-batches.
    stopped : callable
        It trains no longer, some time after it was to stop.
    paused : callable
        Without arguments: somebody is between two mini-batches; `go` is to be called.
    """

    ended: Callable[[int], None]
    stopped: Callable[[int], None]
    paused: Callable[[], None]


class EdgeTraffic:
    """Sends for chunks, and counts time for them.

    Chunks of all jobs are numbered through. Limit c of the network is that of the upload of chunk
    c; then come two for each, what it pushes and what it pulls.

    Parameters
    ----------
    setting : EdgeSetting
    env : simpy.Environment
    network : PerFlowCapNetwork
    answers : Answers

    Attributes
    ----------
    fabric : Fabric
        To be set.
    chunks : int
        How many there are.
    compute, update, fixed : ndarray of float, shape (chunks,)
        Seconds of a mini-batch in which a worker computes, in which the PS updates, and both, at
        the speed augmented.
    gradient : ndarray of float, shape (chunks,)
        Bytes that are pushed and pulled each.
    exchange : ndarray of float, shape (chunks,)
        Seconds of a mini-batch that both should take.
    batches : ndarray of float, shape (chunks,)
        Mini-batches left, when training began last; or since then, by whoever counts them.
    vain : ndarray of float, shape (chunks,)
        Seconds computed on mini-batches that were dropped.
    """

    fabric: Fabric

    def __init__(self, setting: EdgeSetting, env: simpy.Environment, network: PerFlowCapNetwork,
                 answers: Answers) -> None:
        self._env, self._network, self._setting = env, network, setting
        self.ended, self.stopped, self.paused = answers
        self.chunks = setting.total
        speed = 1 + setting.epsilon
        self.compute = self._per_chunk("compute_s") / speed
        self.update = self._per_chunk("update_s") / speed
        self.fixed = self.compute + self.update
        self.gradient = self._per_chunk("gradient_bytes")
        self.exchange = self._per_chunk("exchange_s") / speed
        self.batches = self._per_chunk("batches")
        self.vain = np.zeros(self.chunks)
        self.job_of = np.repeat(np.arange(len(setting.jobs)), setting.chunks)
        network.limit(self.chunks, np.repeat(self._per_chunk("bandwidth") * speed, 2))

    def _per_chunk(self, name: str) -> Floats:
        values = [float(getattr(job, name)) for job in self._setting.jobs]
        return np.repeat(values, self._setting.chunks)

    @property
    def now(self) -> float:
        """The time, in seconds."""
        return self._env.now

    def after(self, seconds: float, then: Callable[..., None], *args: Any) -> Timer:
        """Call something after so many seconds, unless what is returned is cancelled."""
        timer = self._env.timeout(seconds)
        timer.callbacks.append(lambda _: then(*args))
        return timer

    def cancel(self, timer: Timer) -> None:
        """See that nothing comes of a timer."""
        timer.callbacks.clear()

    def limit_of(self, chunk: int, *, pull: bool) -> int:
        """Return the limit of what a chunk pushes, or pulls."""
        return self.chunks + 2 * chunk + pull

    def set_uploads(self, first: int, rates: Floats) -> None:
        """Set the most that uploads of chunks may send, from one on, in bytes per second."""
        links = self._network.limit(first, rates)
        # Nobody uses them yet: there is nothing to decide anew.
        self.fabric.table.capacity[links] = rates

    def demand(self, flows: Flows, limits: ArrayLike) -> RoutedCoflow:
        """Return a coflow between hosts, to be sent once or more often.

        Parameters
        ----------
        flows : Flows
        limits : int or array_like of int, shape (flows,)
            Of each flow; or of the first, and the others have those that follow.
        """
        return RoutedCoflow.of(flows, self._network, key=limits)

    def send(self, job: int, order: int, demand: RoutedCoflow, done: Callable[[CoflowEvent], None]
             ) -> CoflowEvent:
        """Send a coflow of a job, by place; `order` is its place among those of the job."""
        return self.fabric.submit(job, demand, order, done)

    def order_of(self, chunk: int) -> int:
        """Return the place of what a chunk exchanges among the coflows of its job: 1, 2, ..."""
        return 1 + chunk - int(self._setting.first[self.job_of[chunk]])

    def left(self, transfer: CoflowEvent) -> Floats:
        """Return the bytes that each flow of a coflow has left now."""
        if not transfer.key:
            return np.array(transfer.demand.flows["size"])
        self.fabric.catch_up()
        return self.fabric.table.flows_left(transfer.key)
