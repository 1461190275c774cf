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
from numpy.typing import NDArray

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
from netsim.schedulers.virtual_machine import VirtualMachine

#: Relative tolerance within which iteration times and ratios are equal.
_EQUAL = 1e-9

#: Relative error of the clock of a run.
_ROUNDING = 1e-12


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
                                most >= self._comm_heavy * least * (1 - _EQUAL))
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

    def _place(self, now: float, job: _Job, free: NDArray[np.bool_], free_on: NDArray[np.int64]
               ) -> NDArray[np.int64] | None:
        """Choose the GPUs on which a job starts now; None if it has to wait."""
        found = self._mappings.map(job.model, free_on, "most" if job.heavy else "least")
        if found is None or (job.heavy and self._waits(now, job, found[1])):
            return None
        return self._mappings.gpus(free, found[0], found[1].placement)

    def _waits(self, now: float, job: _Job, mapped: Mapped) -> bool:
        """Whether a job waits for a placement better than the first one it was offered."""
        if self._window is None:
            if mapped.alpha_s <= self._comm_heavy * job.least * (1 + _EQUAL):
                return False
            self._window = _Window(mapped.alpha_s, now + self._tau * job.work)
        kappa, deadline = self._window
        return now < deadline * (1 - _ROUNDING) and mapped.alpha_s >= kappa * (1 - _EQUAL)
