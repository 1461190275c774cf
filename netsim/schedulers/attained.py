"""Schedulers by attained service, which know nothing of the future: LAS and Tiresias."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.base.units import Quantity, parse_seconds
from netsim.base.values import (
    as_choice,
    as_collection,
    as_flag,
    as_number,
    convert,
    known_names,
    optional,
    plain,
    refuse_set,
)
from netsim.cluster.context import RunContext
from netsim.engine.ledger import expected_times
from netsim.engine.view import ClusterView
from netsim.errors import InputError
from netsim.schedulers.in_order import After, InOrder, Keys, Order
from netsim.ties import EQUAL, ROUNDING

_as_service = partial(as_choice, choices=("held", "run"))
_as_positive_s = partial(parse_seconds, strict=True)


@known_names
@dataclass(frozen=True)
class LAS(InOrder):
    """Least attained service first, in GPU-seconds; ties go to jobs that hold GPUs.

    Parameters
    ----------
    backfill : bool
        Whether jobs may start that come after one that does not fit.
    quantum_s : quantity
        Longest time between two decisions while a job waits.
    service : {"held", "run"}
        What counts as service: all time for which a job holds GPUs, or only the time in which it
        makes progress.

    Raises
    ------
    InputError
        If a value is invalid.
    """

    quantum_s: Quantity = 60.0
    service: str = "held"

    def __post_init__(self) -> None:
        convert(self, backfill=as_flag, quantum_s=_as_positive_s, service=_as_service)

    def keys(self, view: ClusterView, jobs: Ints) -> Keys:
        """The attained service of jobs; at equal service, waiting jobs come last."""
        waits = np.isnan(view.got(jobs)).astype(np.float64)
        return Keys(value=_service(view, jobs, self.service), tie=waits)

    def wake_at(self, view: ClusterView, after: After) -> float:
        """The end of the quantum that begins now."""
        return view.now + float(self.quantum_s)


@known_names
@dataclass(frozen=True)
class Tiresias(InOrder):
    """Discretised two-dimensional LAS of Tiresias (NSDI 2019): queues by attained service.

    The queue of a job is the number of thresholds that its service has reached; inside a queue,
    jobs are in order of their first start, and those that never started come last.

    Parameters
    ----------
    backfill : bool
        Whether jobs may start that come after one that does not fit.
    thresholds : sequence of quantity
        Ascending thresholds in GPU-seconds. The default is that of the authors' simulator.
    promote_knob : float, optional
        PROMOTEKNOB: a job that has waited for this multiple of its service in seconds goes back to
        the first queue. By default there are no promotions.
    service : {"held", "run"}
        What counts as service: all time for which a job holds GPUs, or only the time in which it
        makes progress.
    fifo_by : {"start", "arrival"}
        Order inside a queue. By arrival, this is Tiresias-L.

    Raises
    ------
    InputError
        If there is no threshold, or they are not positive and ascending, or another value is
        invalid.
    """

    thresholds: Sequence[Quantity] = (3250.0, 7200.0)
    promote_knob: float | None = None
    service: str = "held"
    fifo_by: str = "start"

    def __post_init__(self) -> None:
        self._convert(thresholds=_as_ascending)

    def _convert(self, **more: Callable[[Any, str], Any]) -> None:
        convert(self, backfill=as_flag, promote_knob=optional(partial(as_number, above=0)),
                service=_as_service, fifo_by=partial(as_choice, choices=("start", "arrival")),
                **more)

    def order_of(self, context: RunContext) -> Order:
        """Make the order of a run."""
        return _Queues(self, len(context.jobs))


def _service(view: ClusterView, jobs: Any, service: str) -> Any:
    """The GPU-seconds for which jobs have held GPUs, or made progress on them."""
    seconds = view.held_s(jobs) if service == "held" else view.run_s(jobs)
    return view.ranks(jobs) * seconds


def _as_gpu_seconds(given: Any, what: str, strict: bool = False) -> tuple[float, ...]:
    """Convert one number of GPU-seconds, or a list of them."""
    given = plain(given)
    listed = (given,) if isinstance(given, str | int | float) else as_collection(
        given, what, object, "GPU-seconds, such as [3250, 7200] or ['1h', '4h']")
    if not listed:
        raise InputError(f"{what} must list at least one number of GPU-seconds")
    return tuple(parse_seconds(each, what, strict=strict) for each in listed)


def _as_ascending(given: Any, what: str) -> tuple[float, ...]:
    """Convert thresholds to GPU-seconds."""
    refuse_set(given, what)
    found = _as_gpu_seconds(given, what, strict=True)
    if any(low >= high for low, high in pairwise(found)):
        raise InputError(f"{what} must ascend, unlike {reprlib.repr(given)}")
    return found


@known_names
@dataclass(frozen=True)
class TiresiasL(Tiresias):
    """Tiresias-L, the baseline of A_online: queues by attained service, each by arrival.

    Parameters
    ----------
    backfill, promote_knob, service, fifo_by
        As for `Tiresias`.
    thresholds : sequence of quantity, optional
        Ascending thresholds in GPU-seconds, such as ``["6h", "24h"]``. By default 1/8 and 1/2 of
        the mean service that all jobs of the run need; jobs can then not be submitted during it.

    Raises
    ------
    InputError
        If a value is invalid.
    """

    thresholds: Sequence[Quantity] | None = None  # type: ignore[assignment]
    fifo_by: str = "arrival"

    def __post_init__(self) -> None:
        self._convert(thresholds=optional(_as_ascending))

    @property
    def clairvoyant(self) -> bool:
        """Whether the thresholds depend on the service that jobs need, as they do by default."""
        return self.thresholds is None

    def order_of(self, context: RunContext) -> Order:
        """Make the order of a run."""
        if self.thresholds is not None:
            return super().order_of(context)
        every = (*context.jobs, *context.others)
        ranks = np.array([job.ranks for job in every])
        mean = float(np.mean(ranks * expected_times(every, context.cluster)))
        if not mean > 0:
            raise InputError("scheduler 'tiresias-l' derives its thresholds from the mean service "
                             f"of all jobs, and the {len(every)} jobs of this run are expected to "
                             "take 0 s; give thresholds, such as ['1h', '4h']", "thresholds")
        return _OfMean(replace(self, thresholds=(mean / 8, mean / 2)), len(context.jobs))


class _Queues(Order):
    """The queues of Tiresias in one run; see `netsim.schedulers.in_order.Order`."""

    def __init__(self, policy: Tiresias, jobs: int) -> None:
        self._policy = policy
        self._thresholds = np.array(policy.thresholds)
        self._base = np.zeros(jobs)  # the service attained at the last promotion
        self._due: list[tuple[float, int]] = []  # a heap of promotions: instant, job
        self.promotions: dict[int, int] = {}  #: how often each promoted job was promoted

    def add_job(self, job: int, context: RunContext) -> None:
        """See `Order.add_job`."""
        self._base = np.insert(self._base, job, 0.0)

    def _service(self, view: ClusterView, jobs: Any) -> Any:
        """The GPU-seconds of jobs since their last promotion."""
        return _service(view, jobs, self._policy.service) - self._base[jobs]

    def _queue(self, view: ClusterView, jobs: Any, service: Any) -> Any:
        """The number of thresholds that service has reached, up to the rounding of the clock."""
        slack = view.ranks(jobs) * view.now * ROUNDING
        return np.searchsorted(self._thresholds, service * (1 + EQUAL) + slack, "right")

    def keys(self, view: ClusterView, jobs: Ints) -> Keys:
        """The queues and first starts of jobs; see `Order.keys`."""
        queue = self._queue(view, jobs, self._service(view, jobs)).astype(np.float64)
        return Keys(queue, 0.0, self._tie(view, jobs))

    def _tie(self, view: ClusterView, jobs: Ints) -> Floats | float:
        """The tie-breaking key inside a queue."""
        if self._policy.fifo_by == "arrival":
            return 0.0
        first = view.first_start(jobs)
        return np.where(np.isnan(first), math.inf, first)

    def see(self, view: ClusterView, fresh: Sequence[int]) -> Collection[int]:
        """Promote jobs that have waited long enough; see `Order.see`."""
        if self._policy.promote_knob is None:
            return ()
        for job in fresh:
            if (due := self._promoted_at(view, job)) < math.inf:
                heappush(self._due, (due, job))
        promoted = []
        while self._due and self._due[0][0] <= view.now * (1 + ROUNDING):
            due, job = heappop(self._due)
            if job in view.pending and due == self._promoted_at(view, job):
                self._base[job] += self._service(view, job)
                self.promotions[job] = self.promotions.get(job, 0) + 1
                promoted.append(job)
        return promoted

    def _promoted_at(self, view: ClusterView, job: int, since: float | None = None) -> float:
        """When a waiting job will be promoted; inf in the first queue."""
        service = self._service(view, job)
        if self._policy.promote_knob is None or not self._queue(view, job, service):
            return math.inf
        waits = float(view.waits_since(job)) if since is None else since
        return waits + self._policy.promote_knob * float(service / view.ranks(job))

    def wake_at(self, view: ClusterView, after: After) -> float:
        """The next instant at which a job crosses a threshold or is promoted."""
        soonest = min((self._promoted_at(view, job, view.now) for job in after.fresh),
                      default=math.inf)
        started = {job for job, _ in after.start}
        while self._due:
            due, job = self._due[0]
            if (job in view.pending and job not in started
                    and due == self._promoted_at(view, job)):
                soonest = min(soonest, due)
                break
            heappop(self._due)
        return min(soonest, self._crossing(view, *after.holding()))

    def _crossing(self, view: ClusterView, jobs: Ints, ready: Floats) -> float:
        """The next instant at which a job that holds GPUs reaches its next threshold."""
        service = self._service(view, jobs)
        queue = self._queue(view, jobs, service)
        ahead = queue < len(self._thresholds)
        if not ahead.any():
            return math.inf
        left = self._thresholds[queue[ahead]] - service[ahead]
        begin = np.maximum(ready[ahead], view.now)
        if self._policy.service == "held":
            begin = np.full(len(left), view.now)
        return float((begin + left / view.ranks(jobs[ahead])).min())


class _OfMean(_Queues):
    """The queues of Tiresias with thresholds derived from all jobs."""

    def check_open(self) -> None:
        """Refuse more jobs; see `netsim.engine.view.Scheduler`."""
        raise InputError("scheduler 'tiresias-l' has derived its thresholds from all jobs, and "
                         "takes no more; give thresholds")


@known_names
@dataclass(frozen=True)
class TiresiasG(Tiresias):
    """Discretised two-dimensional Gittins index of Tiresias, from the service of past jobs.

    The queues are those of `Tiresias`, but inside a queue, the job with the largest Gittins index
    comes first. The index of a job is the probability that it ends within its next `delta` of
    service, divided by the service that it is expected to use until it ends or has used `delta`.
    Indices are recomputed at each decision.

    Parameters
    ----------
    backfill, thresholds, promote_knob, service, fifo_by
        As for `Tiresias`.
    delta : quantity, optional
        GPU-seconds of service; by default those up to the next threshold.
    history : sequence of float, optional
        GPU-seconds that each past job used; by default from the workload's history.

    Raises
    ------
    InputError
        If a value is invalid.
    """

    delta: Quantity | None = None
    history: Sequence[float] | None = None

    def __post_init__(self) -> None:
        self._convert(thresholds=_as_ascending, delta=optional(_as_positive_s),
                      history=optional(_as_gpu_seconds))

    def suits(self, context: RunContext) -> None:
        """Check that there are past jobs; see `netsim.engine.view.Scheduler`."""
        self._past_of(context)

    def _past_of(self, context: RunContext) -> Floats:
        """The GPU-seconds of past jobs, in ascending order."""
        known = None if context.history is None else context.history.gpu_s
        past = known if self.history is None else np.array(self.history)
        if past is None or not len(past):
            raise InputError("tiresias-g ranks jobs by those of the past, and the workload has no "
                             "history with GPU-seconds; give history, a list of GPU-seconds",
                             "history")
        return np.sort(past)

    def order_of(self, context: RunContext) -> Order:
        """Make the order of a run."""
        return _ByIndex(self, context, self._past_of(context))


class _ByIndex(_Queues):
    """The queues of Tiresias with the Gittins index, in one run."""

    def __init__(self, policy: TiresiasG, context: RunContext, past: Floats) -> None:
        super().__init__(policy, len(context.jobs))
        self._delta, self._past = policy.delta, past
        self._sums = np.concatenate(([0.0], np.cumsum(past)))

    def keys(self, view: ClusterView, jobs: Ints) -> Keys:
        """The queues of jobs, then their indices, then first starts; see `Order.keys`."""
        service = self._service(view, jobs)
        queue = self._queue(view, jobs, service)
        return Keys(queue.astype(np.float64), -self._index(service, queue), self._tie(view, jobs))

    def _index(self, service: Floats, queue: Ints) -> Floats:
        """Compute the index: the number of past jobs that ended within delta, over their service.

        The numerator counts past service S with a < S <= a + delta, where a is a job's own; the
        denominator is the sum of min(S - a, delta) over all S > a.
        """
        past, sums = self._past, self._sums
        if self._delta is None:
            delta = np.append(self._thresholds, math.inf)[queue] - service
        else:
            delta = np.full(len(service), float(self._delta))
        behind = np.searchsorted(past, service * (1 + EQUAL), "right")
        end = np.searchsorted(past, (service + delta) * (1 + EQUAL), "right")
        beyond = len(past) - end
        spent = sums[end] - sums[behind] - (end - behind) * service
        spent = spent + np.where(beyond > 0, beyond * np.where(beyond > 0, delta, 0.0), 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(behind < len(past), (end - behind) / spent, 0.0)
