"""A submitted coflow as an event."""

from __future__ import annotations

import math
from collections.abc import Callable

from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.late import simpy

__all__ = ["CoflowEvent"]


class CoflowEvent(simpy.Event):
    """A submitted coflow: an event that fires when its completion is noticed.

    Parameters
    ----------
    done : callable, optional
        Called with the coflow instead of firing the event, which saves SimPy a step.

    Attributes
    ----------
    job : int
        The job, numbered by (arrival, id).
    order : int
        Its place among the coflows of its job.
    demand : RoutedCoflow
    valid_s, begin_s : float
        When its stage became valid, and when its overhead was over, so that it could send; in
        seconds.
    start_s, sent_s, finish_s : float
        When its first byte was sent, when its last byte was sent, and when its last byte arrived;
        in seconds, NaN until then.
    key : int
        The key of its row in the fabric's table; 0 before it has one.
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
        """As `complete`, but in a separate SimPy step.

        A long chain of coflows without bytes would otherwise exceed Python's recursion limit.
        """
        if self._done is not None:
            self.callbacks.append(self._done)
        self.succeed(self)

    def complete(self) -> None:
        """Fire the event, or call `done`."""
        if self._done is None:
            self.succeed(self)
        else:
            self._done(self)
