"""Aalo: Chowdhury, Stoica, "Efficient Coflow Scheduling Without Prior Knowledge" (SIGCOMM'15)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from netsim.allocators.options import check_choice
from netsim.checks import LARGEST, check_sequence, is_number, is_whole
from netsim.errors import InputError
from netsim.fabric.allocation import Allocation, Event, Information
from netsim.fabric.allocator import Allocator
from netsim.fabric.records import DUST
from netsim.fabric.service import PriorityService
from netsim.fabric.view import FabricView
from netsim.plain import plain_numbers
from netsim.units import Quantity, parse_bytes, parse_seconds

__all__ = ["DCLAS"]

Ints = NDArray[np.int64]

#: Relative to the observation interval: how far from a multiple of it still is one.
_GRID_SLACK = 1e-6

#: A queue of less than that share of another's would have nothing but roundings.
_WEIGHT_RATIO = 1e12


@plain_numbers
@dataclass
class DCLAS(Allocator):
    """Aalo: discretised coflow-aware least-attained service, blind to sizes.

    A coflow starts in queue 1 and moves down when the bytes it has sent pass a threshold. The
    queues share every link by weight, a queue serves its coflows in FIFO order, each coflow's
    flows share max-min fairly; what a queue leaves goes to the others, highest first.

    Parameters
    ----------
    queues : int
        K. With 1 it is non-clairvoyant FIFO.
    first_threshold : quantity
        Bytes that end queue 1.
    factor : float
        From one threshold to the next.
    thresholds : sequence of quantities, optional
        All K-1 thresholds, increasing, instead of the three options above.
    weights : {"linear", "strict"} or sequence of float
        Of the queues: K-q+1 for queue q; strict priority, as all released code; or K weights.
    fifo : {"id", "entry"}
        By CoflowId, which is (job, depth in the job, arrival, id); or by entry into the queue.
    observe : quantity or "coflow"
        When moves are seen: 0, at the exact instant of crossing; an interval, at multiples of
        it; ``"coflow"``, at coflow events only. Releases and completions act at once.
    sharing : {"maxmin", "equal"}
        How a coflow's flows share what they get: max-min fairly, or as in CoflowSim, where each
        link's part is split equally in one pass and what a flow cannot use of it goes to the
        coflows that follow.
    decisions : {"flow", "coflow"}
        Whether rates are decided anew when a flow ends, or only at coflow events and moves: the
        bandwidth of a flow that ends idles until then, as in CoflowSim.
    one_queue_per_move : bool
        A move ends in the next queue, however many thresholds the coflow has passed; the next
        one is made when moves are seen again.
    """

    queues: int = 10
    first_threshold: Quantity = "10MB"
    factor: float = 10.0
    thresholds: Sequence[Quantity] | None = None
    weights: str | Sequence[float] = "linear"
    fifo: str = "id"
    observe: Quantity = 0
    sharing: str = "maxmin"
    decisions: str = "flow"
    one_queue_per_move: bool = False
    _queue: dict[int, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    _entry: dict[int, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    _entries: int = field(default=0, init=False, repr=False, compare=False)

    information: ClassVar[Information] = "agnostic"
    wakes_on: ClassVar[Event] = Event.COFLOW
    scale_free: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_choice("fifo", self.fifo, ("entry", "id"))
        check_choice("sharing", self.sharing, ("equal", "maxmin"))
        check_choice("decisions", self.decisions, ("coflow", "flow"))
        if self.sharing == "equal" and self.decisions == "flow":
            # An instance's own: the fabric does not split by itself.
            self.wakes_on = Event.ANY  # type: ignore[misc]
        if not isinstance(self.one_queue_per_move, bool):
            raise InputError("one_queue_per_move must be true or false, "
                             f"not {self.one_queue_per_move!r}")
        self._interval = math.inf if self.observe == "coflow" else parse_seconds(
            self.observe, "observe")
        self._limits = self._check_thresholds()
        self._shares = self._check_weights(len(self._limits) + 1)

    def _check_thresholds(self) -> NDArray[np.float64]:
        if self.thresholds is None:
            if not is_whole(self.queues) or self.queues < 1:
                raise InputError("queues must be a whole number of at least 1, "
                                 f"not {self.queues!r}")
            if not (is_number(self.factor) and 1 < self.factor <= LARGEST):
                raise InputError(f"factor must be greater than 1, not {self.factor!r}")
            first = parse_bytes(self.first_threshold, "first_threshold", strict=True)
            with np.errstate(over="ignore"):
                limits = first * np.float64(self.factor) ** np.arange(self.queues - 1)
            if not np.all(np.isfinite(limits)):
                raise InputError(f"queues: the last of {self.queues} queues would begin at "
                                 f"infinity with factor {self.factor!r}")
            return limits
        given = check_sequence(self.thresholds, Quantity, "thresholds", "sizes")
        limits = np.array([parse_bytes(each, "threshold", strict=True) for each in given])
        if np.any(np.diff(limits) <= 0):
            raise InputError(f"thresholds must increase, not {list(self.thresholds)!r}")
        return limits

    def _check_weights(self, queues: int) -> NDArray[np.float64]:
        if isinstance(self.weights, str):
            check_choice("weights", self.weights, ("linear", "strict"))
            weights = np.arange(queues, 0.0, -1.0)
            return weights if self.weights == "linear" else np.zeros(queues)
        given = check_sequence(self.weights, int | float, "weights", "numbers")
        if len(given) != queues:
            raise InputError(f"weights: {queues} queues need as many, not {len(given)}")
        weights = np.array(given, dtype=np.float64)
        if not np.all((weights > 0) & (weights <= _WEIGHT_RATIO * weights.min())):
            raise InputError("weights must be positive and at most 1e12 times the least, "
                             f"not {list(given)!r}")
        return weights

    @property
    def time_free(self) -> bool:
        """Whether moves are seen at no interval."""
        return self._interval in (0, math.inf)

    @property
    def leftover(self) -> str:
        """How it is shared, by the option `sharing`."""
        return self.sharing

    @property
    def work_conserving(self) -> bool:
        """Whether what a queue leaves goes to the others to the last byte."""
        return self.sharing == "maxmin"

    def allocate(self, view: FabricView) -> Allocation:
        """Return queue shares and the pooled rest; see `Allocator.allocate`."""
        queue = self._move(view)
        order = self._fifo(view, queue)
        passed = self._passed(view)
        limit = self._next_limit(queue, passed)
        service = self._service(order, queue, limit)
        look = self._next_look(view.now, queue, passed)
        if self.sharing == "maxmin" and self.decisions == "flow":
            return Allocation(service=service, revisit_at=look)
        rates = view.serve(service) if self.sharing == "maxmin" else self._split(view, service)
        return Allocation(rates, revisit_at=min(look, self._crossing(view, rates, limit)))

    def _service(self, order: Ints, queue: Ints, limit: NDArray[np.float64]) -> PriorityService:
        if self.weights == "strict":
            # One queue that has all: what comes first in order, and nothing is left to pool.
            return PriorityService(order, primary="queues", queue_shares=[1.0], limit=limit,
                                   queue=np.zeros(len(order), dtype=np.int64))
        parts = self._shares / self._shares[np.unique(queue)].sum()
        return PriorityService(order, primary="queues", queue=queue, queue_shares=parts,
                               backfill="maxmin", limit=limit)

    def _split(self, view: FabricView, service: PriorityService) -> NDArray[np.float64]:
        """Return rates as `FabricView.serve` would, but for equal splits in one pass."""
        rates, pool = np.zeros(view.flows), np.zeros(len(view.capacity))
        queue = service.queue[service.order]
        for q in np.unique(queue):
            rates, left = view.split(service.order[queue == q],
                                     service.queue_shares[q] * view.capacity, rates)
            pool += left
        if service.backfill == "maxmin":
            rates, _ = view.split(service.order, pool, rates)
        return rates

    # --- queues ----------------------------------------------------------------------

    def _passed(self, view: FabricView) -> Ints:
        """Return how many thresholds each coflow has passed."""
        return np.searchsorted(self._limits * (1 - DUST), view.sent, side="right")

    def _move(self, view: FabricView) -> Ints:
        """Return the queue of each coflow, from 0, after the moves that are seen now."""
        ids = view.id.tolist()
        before = [self._queue.get(coflow, -1) for coflow in ids]
        passed = self._passed(view).tolist() if self._sees(view) else before
        if self.one_queue_per_move:
            passed = [min(moved, queue + 1) for queue, moved in zip(before, passed, strict=True)]
        after = {coflow: max(queue, moved, 0)
                 for coflow, queue, moved in zip(ids, before, passed, strict=True)}
        old = {coflow: (self._queue.get(coflow, -1), self._entry.get(coflow, 0), place)
               for place, coflow in enumerate(ids)}
        for coflow in sorted(ids, key=lambda each: old[each]):
            if after[coflow] != old[coflow][0]:
                self._entries += 1
                self._entry[coflow] = self._entries
        self._entry = {coflow: self._entry[coflow] for coflow in ids}
        self._queue = after
        return np.array([after[coflow] for coflow in ids], dtype=np.int64)

    def _sees(self, view: FabricView) -> bool:
        """Whether moves are seen at this instant."""
        if self._interval == 0:
            return True
        if self._interval == math.inf:
            return bool(view.events & Event.COFLOW)
        instants = view.now / self._interval
        return abs(instants - round(instants)) <= _GRID_SLACK

    def _fifo(self, view: FabricView, queue: Ints) -> Ints:
        """Return the coflows by queue, and in FIFO order within each."""
        if self.fifo == "entry":
            entry = np.array([self._entry[coflow] for coflow in view.id.tolist()])
            return np.lexsort((entry, queue))
        return np.lexsort((view.order, view.job, queue))

    def _next_limit(self, queue: Ints, passed: Ints) -> NDArray[np.float64]:
        """Return the bytes that each coflow may send before it is to move once more."""
        if self._interval == math.inf:
            return np.full(len(queue), math.inf)
        return np.append(self._limits, math.inf)[np.maximum(queue, passed)]

    def _next_look(self, now: float, queue: Ints, passed: Ints) -> float:
        """Return when moves that are due but not made yet will be; inf if there are none."""
        if self._interval == math.inf or not np.any(queue < passed):
            return math.inf
        if self._interval == 0:
            return math.nextafter(now, math.inf)
        return (math.floor(now / self._interval + _GRID_SLACK) + 1) * self._interval

    def _crossing(self, view: FabricView, rates: NDArray[np.float64], limit: NDArray[np.float64]
                  ) -> float:
        """Return when the next coflow is seen to have sent as much as its limit, at these rates."""
        at = view.crossings(limit, rates).min(initial=math.inf)
        if self._interval and at < math.inf:
            at = math.ceil(at / self._interval - _GRID_SLACK) * self._interval
        return max(at, math.nextafter(view.now, math.inf))
