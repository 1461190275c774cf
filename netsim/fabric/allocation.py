"""The answer of an allocator, the events on which it is asked, and the information it gets."""

from __future__ import annotations

import enum
import math
import reprlib
from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from netsim.base.arrays import Floats, Ints
from netsim.base.brief import MOST_ROWS, shown
from netsim.base.values import as_choice, known_names, refuse_set
from netsim.errors import AllocationError, InputError
from netsim.fabric.kernels import priority_state as kinds


# --- checks of arrays ----------------------------------------------------------------------
def whole_numbers(values: ArrayLike) -> Ints:
    """Convert an order to an array of whole numbers."""
    try:
        array = np.ascontiguousarray(values)
        with np.errstate(invalid="ignore"):  # of NaN, which is refused below
            whole = np.ascontiguousarray(array, dtype=np.int64)
    except (TypeError, ValueError, OverflowError) as error:
        raise AllocationError(f"an order must be whole numbers: {error}") from error
    if array.dtype.kind == "f" and not np.array_equal(array, whole):
        raise AllocationError(f"an order must be whole numbers, such as np.argsort gives, "
                              f"not {array!r}")
    return whole


def indices(values: ArrayLike, count: int) -> Ints:
    """Convert an order of some of `count` coflows or flows to an array."""
    order = whole_numbers(values)
    if order.ndim != 1 or (order.size and (order.min() < 0 or order.max() >= count)):
        raise AllocationError(f"an order must have numbers from 0 to {count - 1}, such as "
                              f"np.argsort gives, not {order!r}")
    return order


def not_once(order: Ints) -> str:
    """Describe an order that does not name each coflow once; empty if it does."""
    if np.array_equal(np.sort(order), np.arange(len(order))):
        return ""
    return (f"returned {order.tolist()}; an order must name each of {len(order)} coflows once, as "
            "np.argsort does")


def amounts(name: str, values: ArrayLike, count: int) -> Floats:
    """Convert `count` values to an array of numbers that are finite and not negative."""
    array = np.ascontiguousarray(values, dtype=np.float64)
    if array.shape != (count,) or not np.all((array >= 0) & (array < np.inf)):
        raise AllocationError(f"{name} must be {count} numbers that are finite and not negative, "
                              f"not {array!r}")
    return array


def numbers(name: str, values: ArrayLike, count: int) -> Floats:
    """Convert `count` values, called `name` in errors, to an array."""
    try:
        array = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise AllocationError(f"{name} must be numbers: {error}") from error
    if array.shape != (count,):
        raise AllocationError(f"{name} must be {count} numbers, not {array!r}")
    return array


# --- service in order ----------------------------------------------------------------------

_PRIMARY = {"none": kinds.NOBODY, "madd": kinds.MADD, "queues": kinds.QUEUES}

_BACKFILL = {"none": kinds.NOBODY, "maxmin": kinds.MAXMIN, "greedy": kinds.GREEDY}


@known_names
class PriorityService:
    """Serve coflows in order, again whenever a flow ends, without asking the policy.

    Parameters
    ----------
    order : array_like of int, shape (coflows,)
        The coflows of the view, the first to be served first.
    primary : {"none", "madd", "queues"}
        The first pass over the coflows, in order. ``"madd"``: each coflow gets remaining/Gamma' of
        what is left of the links, or nothing if a link that it needs is full. ``"queues"``: each
        queue has its part of every link, and the flows of each coflow share what is left of it
        max-min fairly.
    backfill : {"none", "maxmin", "greedy"}
        Who gets left-over bandwidth. ``"none"``: nobody. ``"maxmin"``: the flows of each coflow, in
        order and max-min fairly. ``"greedy"``: flow by flow in list order, as much as its links
        have left.
    queue : array_like of int, shape (coflows,), optional
        The queue of each coflow; `order` must list the coflows queue by queue.
    queue_shares : array_like of float, shape (queues,), optional
        The part of each link that a queue gets. The parts of the queues in use add up to 1 at most.
    limit : array_like of float, shape (coflows,), optional
        Ask the policy again as soon as a coflow has sent that many bytes.
    by_size : bool
        Serve flows by their bytes left, whatever their coflow; `order` breaks ties. Only with
        ``primary="none"`` and ``backfill="greedy"``.

    Raises
    ------
    UnknownNameError
        If `primary` or `backfill` is not one of the values above.
    AllocationError
        If the arrays do not fit each other.
    """

    __slots__ = ("backfill", "by_size", "for_kernels", "limit", "order", "primary", "queue",
                 "queue_shares")

    def __init__(self, order: ArrayLike, *, primary: str = "none", backfill: str = "none",
                 queue: ArrayLike | None = None, queue_shares: ArrayLike | None = None,
                 limit: ArrayLike | None = None, by_size: bool = False) -> None:
        as_choice(primary, "primary", _PRIMARY)
        as_choice(backfill, "backfill", _BACKFILL)
        if (primary == "queues") != (queue is not None and queue_shares is not None):
            raise AllocationError('a service takes queue and queue_shares with '
                                  'primary="queues", '
                                  "and only then")
        self.primary, self.backfill, self.by_size = primary, backfill, by_size
        refuse_set(order, "order")
        self.order = whole_numbers(order)
        count = len(self.order)
        self.queue = (np.zeros(count, np.int64) if queue is None
                      else np.ascontiguousarray(queue, np.int64))
        self.queue_shares = (np.ones(1) if queue_shares is None
                             else np.ascontiguousarray(queue_shares, np.float64))
        self.limit = (np.full(count, np.inf) if limit is None
                      else np.ascontiguousarray(limit, np.float64))
        self._check(count)
        self.for_kernels = kinds.Service(self.order, *kinds_of(primary, backfill), self.queue,
                                         self.queue_shares, self.limit)

    @property
    def flow_by_flow(self) -> bool:
        """Whether all bandwidth goes to flows, one after the other."""
        return (self.primary == "none" and self.backfill == "greedy"
                and not np.isfinite(self.limit).any())

    def _check(self, count: int) -> None:
        if self.by_size and not self.flow_by_flow:
            raise AllocationError('a service by_size is one with backfill="greedy" and nothing '
                                  "else")
        order = self.order
        once = order.ndim == 1 and (not count or (
            0 <= order.min() <= order.max() < count and np.bincount(order).max() == 1))
        if not once:
            raise AllocationError("the order of a service must name each coflow once, "
                                  f"not {self.order.tolist()}")
        if self.queue.shape != (count,) or self.limit.shape != (count,):
            raise AllocationError(f"a service in order of {count} coflows needs as many queues "
                                  f"and limits, not {self.queue.shape} and {self.limit.shape}")
        if count and not 0 <= self.queue.min() <= self.queue.max() < len(self.queue_shares):
            raise AllocationError(f"queues are from 0 to {len(self.queue_shares) - 1}, as there "
                                  f"are shares, not {self.queue.tolist()}")
        in_order = self.queue[self.order]
        if np.any(np.diff(in_order) < 0):
            raise AllocationError("the order of a service must go queue by queue, "
                                  f"not {in_order.tolist()}")
        used = self.queue_shares[np.flatnonzero(np.bincount(self.queue))]
        if not (np.all(used >= 0) and used.sum() <= 1 + 1e-9):
            raise AllocationError("the shares of queues must be at least 0 and add up to 1 at "
                                  f"most, not {used.tolist()}")


def kinds_of(primary: str, backfill: str) -> tuple[int, int]:
    """Return the numbers by which kernels know these two words."""
    return _PRIMARY[primary], _BACKFILL[backfill]


# --- information, events, the answer -------------------------------------------------------

#: What a policy may see: ``"agnostic"``, bytes already sent; ``"clairvoyant"``, also the flow sizes
#: of coflows that are valid; ``"predicted"``, also what a job is predicted to emit;
#: ``"job-clairvoyant"``, also what it will emit.
Information = Literal["agnostic", "clairvoyant", "predicted", "job-clairvoyant"]


def sees(information: Information, needs: Information) -> bool:
    """Whether a policy that declares `information` may read what requires `needs`."""
    levels = get_args(Information)
    return bool(levels.index(information) >= levels.index(needs))


def check_sees(reader: str, column: str, information: Information, needs: Information) -> None:
    """Raise an `InputError` unless `reader`, which declares `information`, may read `column`."""
    if not sees(information, needs):
        raise InputError(f"{reader} reads {column}, but declares information={information!r}, by "
                         "which it may not know that; to read it, declare "
                         f"information={needs!r}")


#: The information that a policy needs to read a column of a view; others anybody may read.
NEEDS: dict[str, Information] = {
    **dict.fromkeys(("total", "remaining", "gamma", "nominal_gamma", "longest",
                     "job_longest_gamma", "flow_size", "flow_remaining"), "clairvoyant"),
    "job_predicted_s": "predicted", "job_ahead_s": "job-clairvoyant",
    "job_service": "job-clairvoyant", "job_profile": "job-clairvoyant"}


#: How bandwidth left over by an order is allocated.
_LEFTOVER = ("greedy", "maxmin", "none")


class Event(enum.IntFlag):
    """What can happen between two decisions.

    ``CAPACITY`` is a change of the capacity of a link that an unfinished flow crosses; it also
    covers flows that are rerouted, and coflows that are lost with their host. If the link has
    failed or been repaired, or flows are rerouted, ``REVISIT`` is set, too. ``JOB`` means that a
    job begins or ends; only allocators with `Allocator.sees_running` are told.
    ``ANY`` covers all events of coflows and links.
    """

    COFLOW_VALID = enum.auto()
    COFLOW_DONE = enum.auto()
    FLOW_DONE = enum.auto()
    CAPACITY = enum.auto()
    REVISIT = enum.auto()
    JOB = enum.auto()
    COFLOW = COFLOW_VALID | COFLOW_DONE | CAPACITY | REVISIT
    ANY = COFLOW | FLOW_DONE


#: Words for events that policies wait for.
_WAKES_ON = {"coflow": Event.COFLOW, "flow": Event.ANY}


def as_event(given: Any) -> Event:
    """Convert `wakes_on`, an `Event` or a word such as ``"coflow"``, to an `Event`."""
    if isinstance(given, Event):
        return given
    if isinstance(given, str):
        return _WAKES_ON[as_choice(given, "wakes_on", _WAKES_ON)]
    raise InputError(f"wakes_on must be a netsim.Event, such as netsim.Event.COFLOW, or one of "
                     f"{', '.join(map(repr, _WAKES_ON))}, not {given!r}", "wakes_on")


#: The forms of an allocation, of which exactly one is given.
_FORMS = ("rates", "shares", "weights", "coflow_weights", "order", "service")


@known_names
class Allocation:
    """Bandwidth of each flow until the next decision, in one of six forms.

    Parameters
    ----------
    rates : array_like of float, shape (flows,), optional
        Bytes per second for each flow of the view.
    shares : array_like of float, shape (coflows,), optional
        For each coflow of the view, the multiple of its LP rates (remaining/gamma) at which its
        flows send; 1 fills its effective bottleneck. The flows of a coflow then keep equal
        progress (are in step), so that the fabric simulates coflows rather than flows, which is
        much faster for wide coflows.
    weights : array_like of float, shape (flows,), or float, optional
        Share links max-min fairly by these weights, or by one weight for all flows. The fabric
        shares again whenever a flow ends, without asking the policy. The largest weight may be at
        most 1e12 times the smallest positive one.
    coflow_weights : array_like of float, shape (coflows,), optional
        As `weights`, but one positive weight per coflow. The unfinished flows of a coflow split its
        weight equally, and split it again whenever a flow ends.
    order : array_like of int, shape (coflows,), optional
        Serve coflows in this order. Each gets the largest share of its LP rates that still fits
        (MADD).
    leftover : {"none", "maxmin", "greedy"}
        With an order: how left-over bandwidth is allocated, see `PriorityService`. With ``"none"``,
        the flows of a coflow stay in step. Otherwise rates are set again whenever a flow ends.
    service : PriorityService, optional
        Serve coflows in an order with further settings, such as queues. Rates are set again
        whenever a flow ends.
    decisions : {"flow", "coflow"}
        With weights: when links are shared again. ``"flow"``: whenever a flow ends. ``"coflow"``:
        when a coflow becomes valid or completes, when a capacity changes, and at `revisit_at`. The
        bandwidth of a flow that has ended is idle until then.
    persistent : bool
        With a single weight: whether it also applies to flows that become active later. If so, the
        policy is not asked again.
    revisit_at : float
        When to ask the policy again even if nothing happens, in seconds.
    note : mapping of str to float, optional
        Values that the policy inferred. They are recorded with the decision.

    Raises
    ------
    AllocationError
        If not exactly one form is given; if `persistent` is set without a single positive weight;
        if ``decisions="coflow"`` is given without weights; or if `leftover` is given without an
        order.
    UnknownNameError
        If `decisions` or `leftover` is not one of the values above.
    """

    __slots__ = ("coflow_weights", "decisions", "note", "order", "persistent", "rates",
                 "revisit_at", "service", "shares", "weights")

    def __repr__(self) -> str:
        form, value = self._given
        return f"<Allocation of {form}: {reprlib.repr(np.asarray(value).tolist())}>"

    def _repr_html_(self) -> str:
        form, value = self._given
        if isinstance(value, PriorityService):
            form, value = "order", value.order
        values = np.atleast_1d(value)
        return shown(f"<Allocation of {form}>", {form: values[:MOST_ROWS]}, len(values))

    @property
    def _given(self) -> tuple[str, Any]:
        """The name and the value of the form that is given."""
        return next((name, value) for name in _FORMS
                    if (value := getattr(self, name)) is not None)

    def __init__(self, rates: ArrayLike | None = None, *, shares: ArrayLike | None = None,
                 weights: ArrayLike | None = None, coflow_weights: ArrayLike | None = None,
                 order: ArrayLike | None = None, leftover: str = "none",
                 service: PriorityService | None = None, decisions: str = "flow",
                 persistent: bool = False, revisit_at: float = math.inf,
                 note: Mapping[str, float] | None = None) -> None:
        forms = (rates, shares, weights, coflow_weights, order, service)
        if sum(form is not None for form in forms) != 1:
            raise AllocationError("an Allocation takes one of rates, shares, weights, "
                                  "coflow_weights, order and service")
        if persistent and (weights is None or np.ndim(weights) > 0
                           or not np.asarray(weights, np.float64) > 0):
            raise AllocationError("only an Allocation of one weight for all, more than 0, can be "
                                  "persistent")
        as_choice(decisions, "decisions", ("coflow", "flow"))
        if decisions == "coflow" and weights is None and coflow_weights is None:
            raise AllocationError('decisions="coflow" goes with weights or coflow_weights only; '
                                  "rates and shares stay as they are until the next decision, and "
                                  "a service is for each end of a flow")
        self.rates = None if rates is None else _floats(rates)
        self.shares = None if shares is None else _floats(shares)
        self.weights = None if weights is None else _floats(weights).reshape(np.shape(weights))
        self.coflow_weights = None if coflow_weights is None else _floats(coflow_weights)
        as_choice(leftover, "leftover", _LEFTOVER)
        if leftover != "none":
            if order is None:
                raise AllocationError(f"leftover={leftover!r} goes with an order only")
            service = PriorityService(order, primary="madd", backfill=leftover)
        self.order = None if order is None else whole_numbers(order)
        self.decisions = decisions
        self.persistent = persistent
        self.service = service
        self.revisit_at = revisit_at
        self.note = note

    def misfit(self, coflows: int, flows: int) -> str:
        """Describe an array that does not fit the numbers of coflows and flows; empty if all do."""
        service = None if self.service is None else self.service.order
        for kind, given, wanted in (("rates", self.rates, flows), ("an order", self.order, coflows),
                                    ("shares", self.shares, coflows),
                                    ("service", service, coflows)):
            if given is not None and given.shape != (wanted,):
                return f"returned {kind} of shape {given.shape}, not ({wanted},)"
        return ""

    @property
    def in_step(self) -> bool:
        """Whether the allocation keeps the flows of each coflow in step."""
        return self.shares is not None or (self.order is not None and self.service is None)


def _floats(values: ArrayLike) -> Floats:
    try:
        return np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise AllocationError(f"rates, shares and weights must be numbers: {error}") from error
