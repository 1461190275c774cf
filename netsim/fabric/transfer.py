"""What the fabric tells others: a coflow's completion, and what happens for the records."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import simpy
from numpy.typing import NDArray

from netsim.fabric.demand import Demand
from netsim.fabric.policy import Allocation

if TYPE_CHECKING:
    import numpy as np

    from netsim.fabric.fabric import Fabric

__all__ = ["Observer", "Source", "Transfer"]


class Transfer(simpy.Event):
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
    demand : Demand
    valid_s, start_s, finish_s : float
        When the coflow became valid, first sent a byte and sent its last; NaN until then.
    key : int
        What the fabric's table knows it by; 0 until a decision has taken it in.
    """

    def __init__(self, env: simpy.Environment, job: int, order: int, demand: Demand,
                 done: Callable[[Transfer], None] | None = None) -> None:
        super().__init__(env)
        self._done = done
        self.job = job
        self.order = order
        self.demand = demand
        self.valid_s = env.now
        self.start_s = math.nan
        self.finish_s = math.nan
        self.key = 0

    def complete_at_once(self) -> None:
        """Be complete without a byte sent; whoever waits is told in a step of its own.

        Otherwise a long line of such coflows would be as many calls deep.
        """
        self.start_s = self.finish_s = self.env.now
        if self._done is not None:
            self.callbacks.append(self._done)
        self.succeed(self)

    def complete(self) -> None:
        """Tell whoever waits for it."""
        if self._done is None:
            self.succeed(self)
        else:
            self._done(self)


class Observer(Protocol):
    """Is told what happens on the fabric, for records; see `Fabric`.

    Attributes
    ----------
    follows_rates : bool
        Whether `moved` must not span the end of a flow, so that rates are constant within.
    follows_decisions : bool
        Whether it is to be told of every decision and movement, also where jobs take turns.
    follows_standing : bool
        Whether also where an answer stands, as if the policy were asked anew. Then sums of bytes
        are rounded otherwise.
    """

    @property
    def follows_rates(self) -> bool: ...

    @property
    def follows_decisions(self) -> bool: ...

    @property
    def follows_standing(self) -> bool: ...

    def decided(self, now: float, fabric: Fabric, allocation: Allocation) -> None:
        """Take note of a decision."""

    def moved(self, start: float, now: float, carried: NDArray[np.float64]) -> None:
        """Take note of the bytes that each link carried between two instants.

        The array is the observer's to keep.
        """

    def flows_finished(self, transfer: Transfer, flows: NDArray[Any]) -> None:
        """Take note of a completed coflow's FLOW rows; in step, they have ``remaining > 0``."""


class Source(Protocol):
    """Knows beforehand when coflows become valid, each the only one of its job; see `Fabric`."""

    def more(self) -> Demand | None:
        """Return the next coflows, in order of (validity, job); None if there are no more.

        Each has something to send.
        """
