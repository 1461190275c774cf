"""What an allocator is: the base class, its answer, and the events it is asked on."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import AllocationError
from netsim.fabric.service import Service
from netsim.fabric.turns import Turns

if TYPE_CHECKING:
    from netsim.fabric.view import FabricView

__all__ = ["Allocation", "Allocator", "Event", "Knowledge"]

#: What a policy may see: ``"sent"``, bytes already sent; ``"sizes"``, also the flow sizes of
#: coflows that are valid; ``"jobs"``, also what a job has yet to emit.
Knowledge = Literal["sent", "sizes", "jobs"]


class Event(enum.IntFlag):
    """What can happen between two decisions.

    ``CAPACITY`` is also that flows take other links, or that coflows go with a host that is lost.
    ``JOB``, a job begins or ends, is for those alone that are told; see `Allocator.sees_running`.
    ``ANY`` is all that happens to coflows and links.
    """

    COFLOW_VALID = enum.auto()
    COFLOW_DONE = enum.auto()
    FLOW_DONE = enum.auto()
    CAPACITY = enum.auto()
    REVISIT = enum.auto()
    JOB = enum.auto()
    COFLOW = COFLOW_VALID | COFLOW_DONE | CAPACITY | REVISIT
    ANY = COFLOW | FLOW_DONE


class Allocation:
    """Who gets which bandwidth until the next decision. Give one of five forms.

    Parameters
    ----------
    rates : array_like of float, shape (flows,), optional
        Bytes per second for each flow of the view.
    shares : array_like of float, shape (coflows,), optional
        For each coflow of the view, the multiple of its LP rates (remaining/gamma) at
        which its flows send; 1 fills its effective bottleneck. Keeps each coflow's flows
        in step, which the fabric simulates per coflow rather than per flow: much faster
        for wide coflows.
    weights : array_like of float, shape (flows,), or float, optional
        The links share max-min fairly by these weights, or by one for all, anew whenever a flow
        ends; the policy need not be asked on that. The largest is at most 1e12 times the least
        but 0.
    coflow_weights : array_like of float, shape (coflows,), optional
        Likewise, but each coflow has a weight, more than 0, which its unfinished flows split
        equally, anew whenever one ends.
    service : Service, optional
        Coflows are served in order, anew whenever a flow ends; likewise.
    stands : bool
        Whether flows to come are to have the one weight for all, too, so that the policy need not
        be asked again.
    turns : Turns, optional
        With `shares`: how they came about. While nothing else happens than that coflows end, and
        the next ones of their jobs come, the fabric decides likewise by itself.
    revisit_at : float
        An instant at which to be asked again even if nothing happens, in seconds.
    note : mapping of str to float, optional
        What the policy inferred, kept with the decision where decisions are recorded.

    Raises
    ------
    AllocationError
        If not exactly one form is given; if it is to stand but is not one weight for all, more
        than 0; if there are turns without shares.
    """

    __slots__ = ("coflow_weights", "note", "rates", "revisit_at", "service", "shares", "stands",
                 "turns", "weights")

    def __init__(self, rates: ArrayLike | None = None, *, shares: ArrayLike | None = None,
                 weights: ArrayLike | None = None, coflow_weights: ArrayLike | None = None,
                 service: Service | None = None, stands: bool = False,
                 turns: Turns | None = None, revisit_at: float = math.inf,
                 note: Mapping[str, float] | None = None) -> None:
        forms = (rates, shares, weights, coflow_weights, service)
        if sum(form is not None for form in forms) != 1:
            raise AllocationError("an Allocation takes one of rates, shares, weights, "
                                  "coflow_weights and service")
        if stands and (weights is None or np.ndim(weights) > 0
                       or not np.asarray(weights, np.float64) > 0):
            raise AllocationError("only an Allocation of one weight for all, more than 0, can "
                                  "stand")
        self.rates = None if rates is None else _floats(rates)
        self.shares = None if shares is None else _floats(shares)
        self.weights = None if weights is None else _floats(weights).reshape(np.shape(weights))
        self.coflow_weights = None if coflow_weights is None else _floats(coflow_weights)
        if turns is not None and shares is None:
            raise AllocationError("turns go with shares only")
        self.stands = stands
        self.turns = turns
        self.service = service
        self.revisit_at = revisit_at
        self.note = note


def _floats(values: ArrayLike) -> NDArray[np.float64]:
    try:
        return np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise AllocationError(f"rates, shares and weights must be numbers: {error}") from error


class Allocator:
    """Base of bandwidth allocators: implement `allocate`, and say what the policy sees.

    A policy without state is a pure function of the view. State, where one is needed,
    lives on the instance; each run gets a fresh copy.

    Attributes
    ----------
    knows : {"sizes", "sent", "jobs"}
        What the policy may see, see `Knowledge`; sizes that it may not see are NaN.
    wakes_on : Event
        The events on which it is asked. It is always asked after a capacity change, and when
        it has asked to be.
    scale_free : bool
        Whether rates scale with the unit of bytes; False for a policy that counts in absolute
        bytes, such as thresholds of queues. `netsim.testing.check_allocator` holds it to that.
    time_free : bool
        Whether rates scale with the unit of time; False for a policy that counts in absolute
        seconds, such as an interval or a time after which nobody waits any more. Held to it
        likewise.
    stall_free : bool
        Whether somebody moves as long as some coflow could, or it asks to be woken; False for a
        policy that may leave coflows waiting for ever. Held to it likewise.
    order_free : bool
        Whether it does not matter in which order a coflow lists its flows; False for a policy
        that serves flows in list order. Held to it likewise.
    work_conserving : bool
        Whether it claims that no unfinished flow could be given more.
    """

    knows: ClassVar[Knowledge] = "sizes"
    scale_free: ClassVar[bool] = True
    wakes_on: ClassVar[Event] = Event.ANY

    @property
    def order_free(self) -> bool:
        """Whether the order in which a coflow lists its flows does not matter; True unless said."""
        return True

    @property
    def time_free(self) -> bool:
        """Whether rates scale with the unit of time; True unless said."""
        return True

    @property
    def stall_free(self) -> bool:
        """Whether somebody moves as long as some coflow could; True unless said."""
        return True

    @property
    def sees_running(self) -> bool:
        """Whether it is told which jobs run, and where; False unless said.

        Then `FabricView.running` says so, and it is asked whenever a job begins or ends. Such a
        policy costs more: no job is left to the fabric to go through.
        """
        return False

    @property
    def reserves_gpus(self) -> bool:
        """Whether it gives coflows the part of NICs that their GPUs have; False unless said.

        Then a coflow of a job that a cluster has placed comes with that part, a share of its LP
        rates, as its weight, and stages of a pipeline exchange in turn so that parts suffice; see
        `netsim.cluster.placed.nic_share` and ``placed_model``.
        """
        return False

    @property
    def work_conserving(self) -> bool:
        """Whether the policy claims that no flow could be given more; False unless said."""
        return False

    @property
    def leftover(self) -> str:
        """Who gets what its order leaves of the links, in a word, for tables that compare.

        Its option `work_conservation`, or nothing if it has none, unless said.
        """
        return str(getattr(self, "work_conservation", ""))

    @property
    def title(self) -> str:
        """What errors call it; the name of its class unless said."""
        return type(self).__name__

    @property
    def counts(self) -> Mapping[str, int]:
        """What the policy has counted in its run, for the summary; nothing unless said."""
        return {}

    def allocate(self, view: FabricView) -> Allocation:
        """Return the rates that hold until the next decision.

        Parameters
        ----------
        view : FabricView
            The active coflows and flows; read-only.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement allocate")
