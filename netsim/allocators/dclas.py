"""Aalo: Chowdhury, Stoica, "Efficient Coflow Scheduling Without Prior Knowledge" (SIGCOMM'15)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from netsim.allocators.options import GRID_SLACK, next_multiple
from netsim.base.arrays import Floats, Ints
from netsim.base.units import LONG_INTERVAL, SMALL_SIZE, Quantity, parse_bytes, parse_seconds
from netsim.base.values import (
    as_choice,
    as_flag,
    as_list,
    as_number,
    as_whole,
    convert,
    known_names,
    plain,
)
from netsim.errors import InputError
from netsim.fabric.allocation import Allocation, Event, Information, PriorityService
from netsim.fabric.allocator import Allocator, compiled
from netsim.fabric.records import DUST
from netsim.fabric.rule import Rule
from netsim.fabric.view import FabricView

_NOBODY = np.array([-1])

#: Largest ratio of two queues' weights; beyond it, a share would be lost in rounding.
_WEIGHT_RATIO = 1e12


#: Weight of the queue in a key, to which the number of the job is added; more than any such number.
_QUEUE = 2.0 ** 40


@compiled(gives="queues", information="agnostic", leftover="maxmin", queues=1)
def queues_by_attained(coflows: Any, jobs: Any, now: float, order: Any) -> None:
    """Put coflows in queues by the bytes they have sent; options: K-1 limits, then K weights.

    With weights of 0 priority is strict: a single queue with all bandwidth serves in order.
    """
    queues = (len(order.options) + 1) // 2
    limits, weights = order.options[:queues - 1], order.options[queues - 1:]
    for c in range(len(coflows)):
        queue = 0
        while queue < queues - 1 and coflows[c].sent >= limits[queue] * (1 - DUST):
            queue += 1
        if queue < queues - 1:
            order.limit[c] = limits[queue]
        order.key[c] = queue * _QUEUE + coflows[c].job
        order.tie[c] = coflows[c].order
        if weights[0] > 0.0:
            order.queue[c] = queue
            order.part[queue] = weights[queue]
    if weights[0] == 0.0:
        order.part[0] = 1.0
        return
    used = 0.0
    for queue in range(queues):
        used += order.part[queue]
    for queue in range(queues):
        order.part[queue] /= used


@known_names
@dataclass
class DCLAS(Allocator):
    """Aalo: discretised coflow-aware least-attained service, without knowledge of sizes.

    A coflow starts in queue 1, and moves to the next queue when the bytes that it has sent pass a
    threshold. The queues share every link by weight. A queue serves its coflows in FIFO order, and
    the flows of a coflow share its bandwidth max-min fairly. Bandwidth that a queue does not use
    goes to the other queues, queue 1 first.

    Parameters
    ----------
    queues : int
        Number of queues, K. With 1 it is non-clairvoyant FIFO.
    first_threshold : quantity
        Bytes after which a coflow leaves queue 1.
    factor : float
        Ratio of successive thresholds.
    thresholds : sequence of quantities, optional
        All K-1 thresholds in bytes, increasing, instead of the three options above.
    weights : {"linear", "strict"} or sequence of float
        Weights of the queues. ``"linear"``: K-q+1 for queue q. ``"strict"``: strict priority, as in
        all published code. Or K numbers.
    fifo : {"id", "entry"}
        Order within a queue: by CoflowId, which is (job, depth in the job, arrival, id), or by
        entry into the queue.
    observe : quantity or "coflow"
        When coflows are moved to other queues. 0: at the exact instants at which they pass
        thresholds. An interval: at its multiples. ``"coflow"``: only when coflows become valid or
        complete, and not when capacities change. These two events themselves always take effect at
        once.
    sharing : {"maxmin", "equal"}
        How the flows of a coflow share its bandwidth: max-min fairly; or equally, as in CoflowSim,
        which splits the bandwidth on each link in one pass, and leaves what a flow cannot use to
        the coflows that follow.
    decisions : {"flow", "coflow"}
        When rates are decided: whenever a flow ends; or, as in CoflowSim, only when coflows become
        valid, complete or move, so that the bandwidth of a flow that has ended is idle until then.
    one_queue_per_move : bool
        Whether a coflow moves down one queue at a time, however many thresholds it has passed;
        the next move is then made at the next instant of `observe`.
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
    #: Ids of the coflows at the last decision, their queues and numbers of entry; each ends in -1.
    _moved: tuple[Ints, Ints, Ints] = field(default=(_NOBODY, _NOBODY, _NOBODY), init=False,
                                            repr=False, compare=False)
    _entries: int = field(default=0, init=False, repr=False, compare=False)

    information: ClassVar[Information] = "agnostic"
    wakes_on: ClassVar[Event] = Event.COFLOW
    scale_free: ClassVar[bool] = False

    def __post_init__(self) -> None:
        convert(self, queues=partial(as_whole, least=1), first_threshold=plain,
                factor=partial(as_number, above=1), observe=plain,
                fifo=partial(as_choice, choices=("entry", "id")),
                sharing=partial(as_choice, choices=("equal", "maxmin")),
                decisions=partial(as_choice, choices=("coflow", "flow")),
                one_queue_per_move=as_flag)
        if self.sharing == "equal" and self.decisions == "flow":
            # Set on the instance: the fabric cannot split without asking the allocator.
            self.wakes_on = Event.ANY  # type: ignore[misc]
        self._interval = math.inf if self.observe == "coflow" else parse_seconds(
            self.observe, "observe", usual=LONG_INTERVAL)
        self._limits = self._check_thresholds()
        self._shares = self._check_weights(len(self._limits) + 1)

    def _check_thresholds(self) -> Floats:
        """Check the options of thresholds, and convert them to bytes."""
        if self.thresholds is None:
            first = parse_bytes(self.first_threshold, "first_threshold", strict=True,
                                usual=SMALL_SIZE)
            with np.errstate(over="ignore"):
                limits = first * np.float64(self.factor) ** np.arange(self.queues - 1)
            if not np.all(np.isfinite(limits)):
                raise InputError(f"queues: the last of {self.queues} queues would begin at "
                                 f"infinity with factor {self.factor!r}", "queues")
            return limits
        self.thresholds = list(as_list(self.thresholds, "thresholds", Quantity, "sizes"))
        limits = np.array([parse_bytes(each, "thresholds", strict=True, usual=SMALL_SIZE)
                           for each in self.thresholds])
        if np.any(np.diff(limits) <= 0):
            raise InputError(f"thresholds must increase, not {self.thresholds!r}",
                             "thresholds")
        return limits

    def _check_weights(self, queues: int) -> Floats:
        """Check the weights of the queues, and list them; zeros for strict priority."""
        if isinstance(self.weights, str):
            as_choice(self.weights, "weights", ("linear", "strict"))
            weights = np.arange(queues, 0.0, -1.0)
            return weights if self.weights == "linear" else np.zeros(queues)
        self.weights = list(as_list(self.weights, "weights", int | float, "numbers"))
        if len(self.weights) != queues:
            raise InputError(f"weights must be one for each of the {queues} queues, "
                             f"not {len(self.weights)} numbers", "weights")
        weights = np.array(self.weights, dtype=np.float64)
        if not np.all((weights > 0) & (weights <= _WEIGHT_RATIO * weights.min())):
            raise InputError("weights must be positive and at most 1e12 times the least, "
                             f"not {list(self.weights)!r}", "weights")
        return weights

    @property
    def time_free(self) -> bool:
        """Whether decisions are independent of the unit of time: if `observe` is no interval."""
        return self._interval in (0, math.inf)

    @property
    def leftover(self) -> str:
        """How bandwidth left over is shared: the option `sharing`."""
        return self.sharing

    @property
    def work_conserving(self) -> bool:
        """Whether all bandwidth that queues leave over is used."""
        return self.sharing == "maxmin"

    @property
    def compiled_rule(self) -> Rule | None:
        """The policy as a compiled rule; None if an option that rules do not support was changed.

        These are `observe`, `fifo`, `sharing`, `decisions` and `one_queue_per_move`.
        """
        has_state = self._interval != 0 or self.fifo == "entry" or self.one_queue_per_move
        if has_state or self.sharing == "equal" or self.decisions == "coflow":
            return None
        values = [*self._limits.tolist(), *self._shares.tolist()]
        return replace(queues_by_attained.base_rule, queues=len(self._shares),
                       leftover="none" if self.weights == "strict" else "maxmin",
                       options={f"value {k}": value for k, value in enumerate(values)})

    @property
    def queue_of(self) -> dict[int, int]:
        """The queue of each coflow at the last decision, counted from 0, by the coflow's id."""
        ids, queues, _ = self._moved
        return dict(zip(ids[:-1].tolist(), queues[:-1].tolist(), strict=True))

    def allocate(self, view: FabricView) -> Allocation:
        """Serve the queues by weight; see `Allocator.allocate`."""
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

    def _service(self, order: Ints, queue: Ints, limit: Floats) -> PriorityService:
        """Make the service of the queues that are not empty."""
        if self.weights == "strict":
            # A single queue with all bandwidth serves in order, and leaves nothing over.
            return PriorityService(order, primary="queues", queue_shares=[1.0], limit=limit,
                                   queue=np.zeros(len(order), dtype=np.int64))
        parts = self._shares / self._shares[np.flatnonzero(np.bincount(queue))].sum()
        return PriorityService(order, primary="queues", queue=queue, queue_shares=parts,
                               backfill="maxmin", limit=limit)

    def _split(self, view: FabricView, service: PriorityService) -> Floats:
        """Compute the rates of a service, with equal splits in one pass instead of max-min."""
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
        """The number of thresholds that each coflow has passed."""
        return np.searchsorted(self._limits * (1 - DUST), view.sent, side="right")

    def _move(self, view: FabricView) -> Ints:
        """Make the moves that are due now; return the queue of each coflow, counted from 0."""
        before, entry = self._known(view.id)
        passed = self._passed(view) if self._sees(view) else before
        if self.one_queue_per_move:
            passed = np.minimum(passed, before + 1)
        queue = np.maximum(np.maximum(before, passed), 0)
        moved = np.flatnonzero(queue != before)
        moved = moved[np.lexsort((entry[moved], before[moved]))]
        entry[moved] = self._entries + np.arange(len(moved))
        self._entries += len(moved)
        self._moved = np.append(view.id, -1), np.append(queue, -1), np.append(entry, -1)
        return queue

    def _known(self, ids: Ints) -> tuple[Ints, Ints]:
        """The queue and the number of entry of each coflow; both are -1 for a new coflow."""
        known, queue, entry = self._moved
        by_id = np.argsort(known, kind="stable")
        at = by_id[np.minimum(np.searchsorted(known, ids, sorter=by_id), len(known) - 1)]
        found = known[at] == ids
        return np.where(found, queue[at], -1), np.where(found, entry[at], -1)

    def _sees(self, view: FabricView) -> bool:
        """Whether moves are made at this instant."""
        if self._interval == 0:
            return True
        if self._interval == math.inf:
            return bool(view.events & (Event.COFLOW_VALID | Event.COFLOW_DONE))
        instants = view.now / self._interval
        return abs(instants - round(instants)) <= GRID_SLACK

    def _fifo(self, view: FabricView, queue: Ints) -> Ints:
        """The coflows by queue, in FIFO order within each."""
        if self.fifo == "entry":
            return np.lexsort((self._moved[2][:-1], queue))
        return np.lexsort((view.order, view.job, queue))

    def _next_limit(self, queue: Ints, passed: Ints) -> Floats:
        """The bytes after which each coflow will move again."""
        if self._interval == math.inf:
            return np.full(len(queue), math.inf)
        return np.append(self._limits, math.inf)[np.maximum(queue, passed)]

    def _next_look(self, now: float, queue: Ints, passed: Ints) -> float:
        """The next instant at which overdue moves can be made; inf if none are overdue."""
        if self._interval == math.inf or not np.any(queue < passed):
            return math.inf
        if self._interval == 0:
            return math.nextafter(now, math.inf)
        return next_multiple(now, self._interval)

    def _crossing(self, view: FabricView, rates: Floats, limit: Floats) -> float:
        """The instant of the next move at the current rates; inf if there is none."""
        at = view.crossings(limit, rates).min(initial=math.inf)
        if self._interval and at < math.inf:
            at = math.ceil(at / self._interval - GRID_SLACK) * self._interval
        return max(at, math.nextafter(view.now, math.inf))
