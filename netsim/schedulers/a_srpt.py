"""A-SRPT: jobs queue in the order in which a virtual machine under SRPT completes them.

This is Algorithm 1 of the paper, made event-driven: GPUs become free only when jobs end, so that
ends and deadlines take the place of slots.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from netsim.base.arrays import Bools, Ints
from netsim.base.units import Quantity
from netsim.base.values import about, as_number, convert, known_names, optional
from netsim.cluster.context import RunContext
from netsim.cluster.ring import model_of
from netsim.engine.view import ClusterView, Decision, Start
from netsim.models import ParallelModel
from netsim.models.mapping import MAPPINGS, Mapped
from netsim.placements.mapped import MappingCache
from netsim.predictors import make_predictor
from netsim.schedulers.predicted import (
    Predictions,
    as_period,
    as_predictor,
    needs_to_predict,
)
from netsim.schedulers.waiting_jobs import TiedQueue
from netsim.ties import EQUAL, ROUNDING, equal

#: Error of a job's remaining time, in units in the last place of the current instant.
_ULPS = 4


@known_names
@dataclass(frozen=True)
class ASRPT:
    """Adaptive shortest remaining processing time first, by predictions; Heavy-Edge mapping.

    Let alpha~_min be an estimate of the shortest iteration time of a job over all placements. A job
    with g GPUs and n predicted iterations is w = (g/G) n alpha~_min seconds of work for a virtual
    machine that represents all G GPUs. When the virtual machine completes the job, it joins a
    first-in, first-out queue for real GPUs, whose head blocks the others. A job is heavy on
    communication if its iterations could take more than `comm_heavy` times alpha~_min. Such a job
    gets the servers with most free GPUs. If its iterations would take that long even there, it
    waits for a better placement, but no longer than tau w seconds. Other jobs get the servers with
    fewest free GPUs.

    Parameters
    ----------
    predictor : str, mapping or object
        A name of `netsim.predictors.PREDICTORS`, with options as in ``"mean:scope=user"``, or
        another argument that `netsim.predictors.make_predictor` takes.
    retrain : str or number, optional
        Interval of simulated time after which the predictor is trained again, such as ``"1d"``.
    tau : float
        Longest wait for a better placement, relative to the job's work w; at least 0.
    comm_heavy : float
        COMM_HEAVY of the paper: the ratio of iteration times above which a job is heavy on
        communication; at least 1.
    mapping : str
        A name from `netsim.models.mapping.MAPPINGS`, or ``"module:function"``.

    Raises
    ------
    InputError
        If a value is invalid.
    """

    chooses_gpus: ClassVar[bool] = True

    predictor: Any = "random-forest"
    retrain: Quantity | None = None
    tau: float = 0.0
    comm_heavy: float = 1.5
    mapping: str = "heavy-edge"

    def __post_init__(self) -> None:
        convert(self, predictor=as_predictor, retrain=optional(as_period),
                tau=partial(as_number, least=0), comm_heavy=partial(as_number, least=1))
        with about("mapping"):
            MAPPINGS.resolve(self.mapping)

    @property
    def clairvoyant(self) -> bool:
        """Whether the predictor knows the iterations that jobs will make."""
        return make_predictor(self.predictor).clairvoyant

    @property
    def needs(self) -> frozenset[str]:
        """What a run must have; see `netsim.engine.view.Scheduler`."""
        return needs_to_predict(self.predictor, self.retrain)

    def begin(self, context: RunContext) -> _Run:
        """Make the object that decides in a run; see `netsim.engine.view.Scheduler`."""
        return _Run(self, context)


@known_names
@dataclass(frozen=True)
class ASRPTPerfect(ASRPT):
    """A-SRPT that knows the iterations that jobs will make."""

    predictor: Any = field(default="perfect", init=False)
    retrain: Quantity | None = field(default=None, init=False)


class _Window(NamedTuple):
    """The wait of the queue's head: until an iteration takes less than kappa, or a deadline."""

    kappa: float
    deadline: float


class _Job(NamedTuple):
    """Quantities of a job, computed at its submission."""

    model: ParallelModel
    work: float  #: w, in seconds of the virtual machine
    least: float  #: alpha~_min, in seconds
    heavy: bool  #: whether communication could make iterations take COMM_HEAVY times as long


class _Run:
    """A-SRPT in one run."""

    def __init__(self, scheduler: ASRPT, context: RunContext) -> None:
        self._tau, self._comm_heavy = scheduler.tau, scheduler.comm_heavy
        self._predictions = Predictions(context, scheduler.predictor, scheduler.retrain)
        self._mappings = MappingCache(context.cluster, scheduler.mapping, context.seed)
        self._machine = VirtualMachine()
        self._known: dict[int, _Job] = {}
        self._queue: deque[int] = deque()
        self._window: _Window | None = None

    def add_job(self, job: int, context: RunContext) -> None:
        """Add a job submitted during the run; see `Scheduler`."""
        self._predictions.add_job(job, context)

    def decide(self, view: ClusterView) -> Decision:
        """Choose the jobs that start; see `netsim.engine.view.Scheduler`."""
        self._predictions.see(view)
        for job in view.arrived:
            self._submit(view, job)
        self._queue.extend(self._machine.completed(view.now))
        starts = self._starts(view) if self._queue else []
        return Decision(starts, wake_at=self._wake_at())

    def _wake_at(self) -> float:
        """The next instant at which a job may start without an arrival or an end.

        While the head of the queue waits, whatever the virtual machine completes waits behind it.
        """
        if self._window is not None:
            return self._window.deadline
        return math.inf if self._queue else self._machine.next_completion

    def _submit(self, view: ClusterView, job: int) -> None:
        """Submit an arriving job to the virtual machine."""
        most, least = self._predictions.extremes(job)
        model = model_of(view.jobs[job])
        work = model.gpus / view.cluster.total * self._predictions.iterations(job) * least
        self._known[job] = _Job(model, work, least,
                                most >= self._comm_heavy * least * (1 - EQUAL))
        self._machine.arrive(view.now, job, work)

    def _starts(self, view: ClusterView) -> list[Start]:
        """Start jobs from the head of the queue as long as they can be placed."""
        free, free_on, idle = view.free, view.free_on, view.idle
        starts: list[Start] = []
        while self._queue:
            job = self._known[self._queue[0]]
            if job.model.gpus > idle or (gpus := self._place(view.now, job, free, free_on)) is None:
                break
            if not starts:
                free, free_on = free.copy(), free_on.copy()
            free[gpus] = False
            np.subtract.at(free_on, view.cluster.server_of[gpus], 1)
            idle -= len(gpus)
            starts.append((self._queue.popleft(), gpus))
            del self._known[starts[-1][0]]
            self._window = None
        return starts

    def _place(self, now: float, job: _Job, free: Bools, free_on: Ints) -> Ints | None:
        """Choose the GPUs on which a job starts now; None if it has to wait."""
        found = self._mappings.map(job.model, free_on, "most" if job.heavy else "least")
        if found is None or (job.heavy and self._waits(now, job, found[1])):
            return None
        return self._mappings.gpus(free, found[0], found[1].placement)

    def _waits(self, now: float, job: _Job, mapped: Mapped) -> bool:
        """Whether a job waits for a placement better than the first one it was offered."""
        if self._window is None:
            if mapped.alpha_s <= self._comm_heavy * job.least * (1 + EQUAL):
                return False
            self._window = _Window(mapped.alpha_s, now + self._tau * job.work)
        kappa, deadline = self._window
        return now < deadline * (1 - ROUNDING) and mapped.alpha_s >= kappa * (1 - EQUAL)


# --- the virtual machine --------------------------------------------------------------------


class _Served(NamedTuple):
    """The job being served: its remaining time, and its (arrival, number)."""

    left: float
    job: tuple[float, int]


class VirtualMachine:
    """Preemptive shortest remaining processing time (SRPT) at unit speed.

    Jobs with the same remaining time go in order of arrival, then number. At one instant,
    completions come before arrivals, and a job of size 0 completes on arrival. Remaining times are
    the same if they are equal by `netsim.ties`, or differ by no more than the error of the clock.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._served: _Served | None = None
        self._waiting: TiedQueue[tuple[float, int]] = TiedQueue(self._tie)
        self._done: list[int] = []

    def arrive(self, now: float, job: int, size: float) -> None:
        """Add a job of a given size in seconds. Calls must be in order of `now`."""
        self._advance(now)
        if size == 0:
            self._done.append(job)
            return
        self._waiting.push(size, (now, job))
        if self._served is not None:
            self._waiting.push(*self._served)
        self._serve_next()

    def completed(self, now: float) -> list[int]:
        """List the jobs that have completed since the last call, in order of completion."""
        self._advance(now)
        done, self._done = self._done, []
        return done

    @property
    def next_completion(self) -> float:
        """Instant of the next completion if no job arrives before it; inf if there is no job."""
        return math.inf if self._served is None else self._now + self._served.left

    def _tie(self, one: float, other: float) -> bool:
        """Whether two remaining times tie."""
        return equal(one, other) or abs(one - other) <= _ULPS * math.ulp(self._now)

    def _serve_next(self) -> None:
        """Take the first waiting job into service."""
        self._served = _Served(*self._waiting.pop()) if self._waiting else None

    def _advance(self, now: float) -> None:
        """Serve jobs up to `now`; without arrivals, the order does not change meanwhile."""
        until = now + ROUNDING * abs(now)
        while self._served is not None and self._now + self._served.left <= until:
            self._now += self._served.left
            self._done.append(self._served.job[1])
            self._serve_next()
        if self._served is not None and now > self._now:
            left, job = self._served
            self._served = _Served(left - (now - self._now), job)
        self._now = max(self._now, now)
