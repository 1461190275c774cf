"""Service in order: what a policy may leave to the fabric, to be done anew at each flow's end."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import AllocationError, UnknownNameError
from netsim.fabric.kernels import serving

__all__ = ["Rule", "Service"]

#: What `serving.serve_until` goes by.
Rule = tuple[NDArray[np.int64], int, int, NDArray[np.int64], NDArray[np.float64],
             NDArray[np.float64]]

_FIRST = {"none": serving.NOBODY, "madd": serving.MADD, "queues": serving.QUEUES}
_REST = {"none": serving.NOBODY, "maxmin": serving.MAXMIN, "greedy": serving.GREEDY}


class Service:
    """Coflows are served in order, anew whenever a flow ends; the policy is not asked on that.

    Parameters
    ----------
    order : array_like of int, shape (coflows,)
        The coflows of the view, the first to be served first.
    first : {"none", "madd", "queues"}
        What comes first. ``"madd"``: in order, each coflow gets remaining/Gamma' of what is
        left of the links, or nothing if a link that it needs is full. ``"queues"``: each queue
        has its part of every link; in order, the flows of each coflow share what is left of
        their queue's, max-min fairly.
    rest : {"none", "maxmin", "greedy"}
        Who gets what is left: nobody; in order, the flows of each coflow, max-min fairly; or
        in list order, each as much as its links have left.
    queue : array_like of int, shape (coflows,), optional
        The queue of each coflow; `order` goes queue by queue.
    parts : array_like of float, shape (queues,), optional
        The part of each queue. Those of the queues in use add up to 1 at most.
    limit : array_like of float, shape (coflows,), optional
        Ask again as soon as a coflow has sent that many bytes.
    by_size : bool
        Flows go by the bytes that they have left, whosever they are, and only then in that
        order: with ``rest="greedy"`` alone.

    Raises
    ------
    UnknownNameError
        If `first` or `rest` is none of these.
    AllocationError
        If the arrays do not fit one another.
    """

    __slots__ = ("by_size", "first", "limit", "order", "parts", "queue", "rest", "rule")

    def __init__(self, order: ArrayLike, *, first: str = "none", rest: str = "none",
                 queue: ArrayLike | None = None, parts: ArrayLike | None = None,
                 limit: ArrayLike | None = None, by_size: bool = False) -> None:
        for name, value, choices in (("first", first, _FIRST), ("rest", rest, _REST)):
            if value not in choices:
                raise UnknownNameError(name, value, choices)
        if (first == "queues") != (queue is not None and parts is not None):
            raise AllocationError('a service takes queue and parts with first="queues", '
                                  "and only then")
        self.first, self.rest, self.by_size = first, rest, by_size
        self.order = np.ascontiguousarray(order, dtype=np.int64)
        count = len(self.order)
        self.queue = _ints(queue, count)
        self.parts = np.ones(1) if parts is None else np.ascontiguousarray(parts, np.float64)
        self.limit = (np.full(count, np.inf) if limit is None
                      else np.ascontiguousarray(limit, np.float64))
        self._check(count)
        self.rule = (self.order, _FIRST[first], _REST[rest], self.queue, self.parts, self.limit)

    @property
    def flow_by_flow(self) -> bool:
        """Whether all that there is goes to flows, one after the other."""
        return self.first == "none" and self.rest == "greedy" and not np.isfinite(self.limit).any()

    def _check(self, count: int) -> None:
        if self.by_size and not self.flow_by_flow:
            raise AllocationError('a service by_size is one with rest="greedy" and nothing else')
        if not np.array_equal(np.sort(self.order), np.arange(count)):
            raise AllocationError("the order of a service must name each coflow once, "
                                  f"not {self.order.tolist()}")
        if self.queue.shape != (count,) or self.limit.shape != (count,):
            raise AllocationError(f"a service in order of {count} coflows needs as many queues "
                                  f"and limits, not {self.queue.shape} and {self.limit.shape}")
        if count and not 0 <= self.queue.min() <= self.queue.max() < len(self.parts):
            raise AllocationError(f"queues are from 0 to {len(self.parts) - 1}, as there are "
                                  f"parts, not {self.queue.tolist()}")
        in_order = self.queue[self.order]
        if np.any(np.diff(in_order) < 0):
            raise AllocationError("the order of a service must go queue by queue, "
                                  f"not {in_order.tolist()}")
        used = self.parts[np.unique(self.queue)]
        if not (np.all(used >= 0) and used.sum() <= 1 + 1e-9):
            raise AllocationError("the parts of queues must be at least 0 and add up to 1 at "
                                  f"most, not {used.tolist()}")


def _ints(values: ArrayLike | None, count: int) -> NDArray[np.int64]:
    return (np.zeros(count, np.int64) if values is None
            else np.ascontiguousarray(values, dtype=np.int64))
