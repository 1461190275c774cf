"""A submitted coflow as an event."""

from __future__ import annotations

import math
from collections.abc import Callable

from netsim.base.lazy import simpy
from netsim.fabric.routed_coflow import RoutedCoflow


class CoflowEvent(simpy.Event):
    """A submitted coflow: an event that fires when its completion is noticed.

    `done`, if given, is called with the coflow instead, which saves SimPy a step.
    """

    def __init__(self, env: simpy.Environment, job: int, order: int, demand: RoutedCoflow,
                 done: Callable[[CoflowEvent], None] | None = None) -> None:
        super().__init__(env)
        self._done = done
        self.job = job  #: numbered by (arrival, id)
        self.order = order  #: its place among the coflows of its job, which breaks ties
        self.demand = demand
        self.valid_s = float(env.now)  #: when its stage became valid
        self.begin_s = self.valid_s + demand.overhead_s  #: when it can send
        #: When its first byte was sent, its last byte was sent, and its last byte arrived; NaN
        #: until then.
        self.start_s = self.sent_s = self.finish_s = math.nan
        self.key = 0  #: of its row in the fabric's table, once it has one

    def complete_at_once(self) -> None:
        """Complete the coflow in a separate SimPy step.

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
