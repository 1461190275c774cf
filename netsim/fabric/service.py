"""Service in order, which the fabric repeats whenever a flow ends."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.checks import refuse_set
from netsim.errors import AllocationError, UnknownNameError
from netsim.fabric.given import whole_numbers
from netsim.fabric.kernels import serving_parts as kinds
from netsim.plain import known_names

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
        for name, value, choices in (("primary", primary, _PRIMARY),
                                     ("backfill", backfill, _BACKFILL)):
            if value not in choices:
                raise UnknownNameError(name, value, choices)
        if (primary == "queues") != (queue is not None and queue_shares is not None):
            raise AllocationError('a service takes queue and queue_shares with '
                                  'primary="queues", '
                                  "and only then")
        self.primary, self.backfill, self.by_size = primary, backfill, by_size
        refuse_set(order, "order")
        self.order = whole_numbers(order)
        count = len(self.order)
        self.queue = _ints(queue, count)
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


def _ints(values: ArrayLike | None, count: int) -> NDArray[np.int64]:
    return (np.zeros(count, np.int64) if values is None
            else np.ascontiguousarray(values, dtype=np.int64))
