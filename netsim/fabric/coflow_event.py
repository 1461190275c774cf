"""A coflow in flight, as an event."""

from __future__ import annotations

import math
from collections.abc import Callable

import simpy

from netsim.fabric.routed_coflow import RoutedCoflow

__all__ = ["CoflowEvent"]


class CoflowEvent(simpy.Event):
    """A coflow in flight: the event that fires when its completion is noticed.

    Parameters
    ----------
    done : callable, optional
        Called with it then, instead of its firing, which saves SimPy a step.

    Attributes
    ----------
    job : int
        The job, numbered by (arrival, id).
    order : int
        Its place among the coflows of its job.
    demand : RoutedCoflow
    valid_s, begin_s : float
        When its stage became valid, and the coflow itself, after its overhead.
    start_s, sent_s, finish_s : float
        When it first sent a byte, sent its last, and the last arrived; NaN until then.
    key : int
        What the fabric's table knows it by; 0 until a decision has taken it in.
    """

    def __init__(self, env: simpy.Environment, job: int, order: int, demand: RoutedCoflow,
                 done: Callable[[CoflowEvent], None] | None = None) -> None:
        super().__init__(env)
        self._done = done
        self.job = job
        self.order = order
        self.demand = demand
        self.valid_s = float(env.now)
        self.begin_s = self.valid_s + demand.overhead_s
        self.start_s = self.sent_s = self.finish_s = math.nan
        self.key = 0

    def complete_at_once(self) -> None:
        """As `complete`, but tell whoever waits in a step of its own.

        Otherwise a long chain of coflows without bytes would be as many calls deep.
        """
        if self._done is not None:
            self.callbacks.append(self._done)
        self.succeed(self)

    def complete(self) -> None:
        """Tell whoever waits for it."""
        if self._done is None:
            self.succeed(self)
        else:
            self._done(self)
