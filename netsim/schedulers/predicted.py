"""Schedulers by predicted running times, the baselines of A-SRPT.

The running time of a job is predicted at its submission: its iterations times alpha~_min.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

from netsim.base.units import Quantity, parse_seconds
from netsim.base.values import as_choice, convert, known_names, optional, plain
from netsim.cluster.cluster import server_kind
from netsim.cluster.context import RunContext
from netsim.cluster.ring import model_of
from netsim.engine.view import ClusterView, Decision, Start
from netsim.models.mapping import Mapper
from netsim.placements.mapped import SERVER_RULES
from netsim.placements.placement import Room
from netsim.predictors import Forecast, make_predictor
from netsim.schedulers.waiting_jobs import TiedQueue
from netsim.ties import equal


def as_predictor(given: Any, what: str) -> Any:
    """Check that a predictor can be made of what is given, and keep that."""
    make_predictor(given)
    return plain(given)


def as_period(given: Any, what: str) -> Any:
    """Check a period, and keep its unit."""
    parse_seconds(given, what, strict=True)
    return plain(given)


def needs_to_predict(predictor: Any, retrain: Quantity | None) -> frozenset[str]:
    """List the needs of a scheduler that predicts the running times of jobs; see `Forecast`."""
    learns_before = not make_predictor(predictor).clairvoyant and retrain is None
    return frozenset({"known iteration times", "equal servers",
                      *(["a history"] if learns_before else [])})


class Predictions:
    """Predicted running times of the jobs of a run on equal servers; see `Forecast`."""

    def __init__(self, context: RunContext, predictor: Any, retrain: Quantity | None) -> None:
        self._jobs = context.jobs
        self._forecast = Forecast(predictor, context.history, retrain)
        self._mapper = Mapper(server_kind(context.cluster))
        self._sure = retrain is None
        self._last_s = -math.inf
        self._iterations = self._forecast.predict_jobs(self._jobs) if self._sure else None

    def add_job(self, job: int, context: RunContext) -> None:
        """Add a job submitted during the run; see `Scheduler`."""
        self._jobs = context.jobs
        if self._sure:
            self._iterations = self._forecast.predict_jobs(self._jobs)

    def extremes(self, job: int) -> tuple[float, float]:
        """Estimate a job's longest and shortest iteration time, in seconds."""
        return self._mapper.extremes(model_of(self._jobs[job]))

    def see(self, view: ClusterView) -> None:
        """Learn from the jobs that have ended; call it before any prediction at this instant."""
        if not self._sure:
            for job in view.ended:
                spec = self._jobs[job]
                self._forecast.observe(view.now, spec.group, spec.user, spec.iterations)

    def iterations(self, job: int) -> float:
        """The predicted number of iterations of a job that is submitted now."""
        if self._iterations is not None:
            return float(self._iterations[job])
        spec = self._jobs[job]
        # A job that was evicted arrives again, but predictions must not go back in time.
        self._last_s = max(self._last_s, spec.arrival_s)
        return self._forecast.predict(self._last_s, spec.group, spec.user, spec.iterations)

    def seconds(self, job: int) -> float:
        """The predicted seconds of a job: iterations times the shortest iteration time."""
        return self.iterations(job) * self.extremes(job)[1]


@dataclass(frozen=True)
class _Predicted:
    """Base of the schedulers by predicted running times; see `SPJF` for the options."""

    #: Whether the first job of the queue blocks the others if it does not fit.
    strict: ClassVar[bool]

    predictor: Any = "random-forest"
    retrain: Quantity | None = None
    servers: str = "index"

    @property
    def placement(self) -> dict[str, str]:
        """Default placement of a run."""
        return {"name": "mapped", "servers": self.servers}

    def __post_init__(self) -> None:
        convert(self, predictor=as_predictor, retrain=optional(as_period),
                servers=partial(as_choice, choices=SERVER_RULES))

    @property
    def clairvoyant(self) -> bool:
        """Whether the predictor knows the iterations that jobs will make."""
        return make_predictor(self.predictor).clairvoyant

    @property
    def work_conserving(self) -> bool:
        """Whether it claims to start every job that fits."""
        return not self.strict

    def key(self, seconds: float, gpus: int, arrival_s: float) -> float:
        """The sort key of a job: the predicted running time."""
        return seconds

    @property
    def needs(self) -> frozenset[str]:
        """What a run must have; see `netsim.engine.view.Scheduler`."""
        return needs_to_predict(self.predictor, self.retrain)

    def begin(self, context: RunContext) -> _ByKey:
        """Make the object that decides in a run; see `netsim.engine.view.Scheduler`."""
        return _ByKey(self, Predictions(context, self.predictor, self.retrain))


@known_names
@dataclass(frozen=True)
class SPJF(_Predicted):
    """Shortest predicted job first; the first job blocks the others if it does not fit.

    Parameters
    ----------
    predictor : str, mapping or object
        A name of `netsim.predictors.PREDICTORS`, with options as in ``"mean:scope=user"``, or
        another argument that `netsim.predictors.make_predictor` takes.
    retrain : str or number, optional
        Interval of simulated time after which the predictor is trained again, such as ``"1d"``.
    servers : {"index", "most", "least"}
        Order in which the free GPUs of servers are taken: by number, or from the servers with most
        or fewest free GPUs; see `netsim.placements.mapped.MappedPlacement`. Ignored if a placement
        is given.
    """

    strict: ClassVar[bool] = True


@known_names
@dataclass(frozen=True)
class SPWF(_Predicted):
    """Smallest predicted workload (time by GPUs) first; the first job blocks the others.

    Parameters
    ----------
    predictor, retrain, servers
        As for `SPJF`.
    """

    strict: ClassVar[bool] = True

    def key(self, seconds: float, gpus: int, arrival_s: float) -> float:
        """The predicted running time times the GPUs."""
        return seconds * gpus


@known_names
@dataclass(frozen=True)
class WCSDuration(SPJF):
    """Work-conserving: every job that fits starts, shortest predicted job first.

    Parameters
    ----------
    predictor, retrain, servers
        As for `SPJF`.
    """

    strict: ClassVar[bool] = False


@known_names
@dataclass(frozen=True)
class WCSWorkload(SPWF):
    """Work-conserving: every job that fits starts, smallest predicted workload first.

    Parameters
    ----------
    predictor, retrain, servers
        As for `SPJF`.
    """

    strict: ClassVar[bool] = False


@known_names
@dataclass(frozen=True)
class WCSSubTime(_Predicted):
    """Work-conserving: every job that fits starts, in order of submission.

    It predicts nothing, so it supports jobs of all kinds on any servers.

    Parameters
    ----------
    servers
        As for `SPJF`.
    """

    strict: ClassVar[bool] = False
    clairvoyant: ClassVar[bool] = False
    needs: ClassVar[frozenset[str]] = frozenset()

    predictor: Any = field(default="perfect", init=False)
    retrain: Quantity | None = field(default=None, init=False)

    def begin(self, context: RunContext) -> _ByKey:
        """Make the object that decides in a run; see `netsim.engine.view.Scheduler`."""
        return _ByKey(self, None)

    def key(self, seconds: float, gpus: int, arrival_s: float) -> float:
        """The arrival time."""
        return arrival_s


class _ByKey:
    """A queue by sort key; if jobs may overtake, one queue for each number of GPUs.

    Jobs whose keys tie go by arrival and id.
    """

    def __init__(self, scheduler: _Predicted, predictions: Predictions | None) -> None:
        self._scheduler, self._predictions = scheduler, predictions
        self._queues: dict[int, TiedQueue[int]] = {}

    def add_job(self, job: int, context: RunContext) -> None:
        """Add a job submitted during the run; see `Scheduler`."""
        if self._predictions is not None:
            self._predictions.add_job(job, context)

    def decide(self, view: ClusterView) -> Decision:
        """Choose the jobs that start; see `netsim.engine.view.Scheduler`."""
        predictions, strict = self._predictions, self._scheduler.strict
        if predictions is not None:
            predictions.see(view)
        for job in view.arrived:
            spec = view.jobs[job]
            seconds = math.nan if predictions is None else predictions.seconds(job)
            key = self._scheduler.key(seconds, spec.ranks, spec.arrival_s)
            self._queues.setdefault(0 if strict else spec.ranks, TiedQueue()).push(key, job)
        return Decision(self._starts(view))

    def _starts(self, view: ClusterView) -> Sequence[Start]:
        """Start jobs in order; if jobs may not overtake, up to the first that does not fit."""
        left = view.idle
        room: Room | None = None  # made when it is needed
        starts: list[Start] = []
        passed: list[tuple[int, float, int]] = []
        while left:
            fitting = [gpus for gpus, queue in self._queues.items() if queue and gpus <= left]
            if not fitting:
                break
            gpus = self._next_of(fitting)
            key, job = self._queues[gpus].pop()
            need, taken = view.jobs[job].ranks, None
            if need <= left:
                room = room or view.room()
                taken = room.place(job)
            if taken is not None:
                starts.append((job, taken))
                left -= need
                continue
            passed.append((gpus, key, job))  # too few GPUs, or on servers that could not hold it
            if self._scheduler.strict:
                break
        for gpus, key, job in passed:
            self._queues[gpus].push(key, job)
        return starts

    def _next_of(self, queues: Sequence[int]) -> int:
        """Find the queue with the first job in order, among queues that are not empty."""
        firsts = sorted((*self._queues[gpus].first, gpus) for gpus in queues)
        tied = [firsts[0]]
        for one, other in pairwise(firsts):
            if not equal(one[0], other[0]):
                break
            tied.append(other)
        return min(tied, key=lambda first: first[1])[2]
