"""Schedulers that go by predictions of how long jobs will run: what A-SRPT is compared with.

What a job will take is predicted as it is submitted: its iterations, times alpha~_min.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

from netsim.cluster.cluster import server_kind
from netsim.cluster.context import RunContext
from netsim.cluster.ring import model_of
from netsim.engine.view import ClusterView, Decision, Start
from netsim.models.mapping import Mapper
from netsim.placements.mapped import check_rules
from netsim.plain import plain_numbers
from netsim.predictors import Forecast, make_predictor
from netsim.schedulers.tied_queue import TiedQueue
from netsim.ties import equal
from netsim.units import Quantity, parse_seconds

__all__ = ["SPJF", "SPWF", "Predictions", "WCSDuration", "WCSSubTime", "WCSWorkload",
           "needs_to_predict"]


def needs_to_predict(predictor: Any, retrain: Quantity | None) -> frozenset[str]:
    """Return what a run needs for a predictor to say how long jobs will take.

    Parameters
    ----------
    predictor, retrain
        As for `netsim.predictors.Forecast`.
    """
    learns_before = not make_predictor(predictor).clairvoyant and retrain is None
    return frozenset({"known iteration times", "equal servers",
                      *(["a history"] if learns_before else [])})


class Predictions:
    """What jobs of a run will take, as predicted when they are submitted.

    Parameters
    ----------
    context : RunContext
    predictor, retrain
        As for `netsim.predictors.Forecast`.

    Raises
    ------
    InputError
        If servers are not all alike.
    """

    def __init__(self, context: RunContext, predictor: Any, retrain: Quantity | None) -> None:
        self._jobs = context.jobs
        self._forecast = Forecast(predictor, context.history, retrain)
        self._mapper = Mapper(server_kind(context.cluster))
        self._sure = retrain is None
        self._last_s = -math.inf
        self._iterations = self._forecast.predict_jobs(self._jobs) if self._sure else None

    def extremes(self, job: int) -> tuple[float, float]:
        """Return alpha_max and alpha~_min of a job, in seconds."""
        return self._mapper.extremes(model_of(self._jobs[job]))

    def see(self, view: ClusterView) -> None:
        """Take note of who has ended, before anything is predicted at this instant."""
        if not self._sure:
            for job in view.ended:
                spec = self._jobs[job]
                self._forecast.observe(view.now, spec.group, spec.user, spec.iterations)

    def iterations(self, job: int) -> float:
        """Return how many iterations a job that is just submitted will make."""
        if self._iterations is not None:
            return float(self._iterations[job])
        spec = self._jobs[job]
        # One that comes back is predicted with those that have come last.
        self._last_s = max(self._last_s, spec.arrival_s)
        return self._forecast.predict(self._last_s, spec.group, spec.user, spec.iterations)

    def seconds(self, job: int) -> float:
        """Return what it will take, in seconds: its iterations, times alpha~_min."""
        return self.iterations(job) * self.extremes(job)[1]


@dataclass(frozen=True)
class _Predicted:
    """What these schedulers share.

    Parameters
    ----------
    predictor : str, mapping or object
        As `netsim.predictors.make_predictor` takes it.
    retrain : str or number, optional
        Train it anew every so often, in simulated time: ``"1h"``, ``"1d"``.
    servers : {"index", "most", "least"}
        Whose free GPUs come first, as `netsim.placements.mapped.MappedPlacement` takes it; without
        effect where a placement is given.

    Raises
    ------
    InputError
        If a value is not allowed.
    """

    #: Whether who comes first and does not fit holds up the others.
    strict: ClassVar[bool]

    predictor: Any = "random-forest"
    retrain: Quantity | None = None
    servers: str = "index"

    @property
    def placement(self) -> dict[str, str]:
        """The placement of a run that says none."""
        return {"name": "mapped", "servers": self.servers}

    def __post_init__(self) -> None:
        check_rules(self.servers, "heavy-edge")
        make_predictor(self.predictor)
        if self.retrain is not None:
            parse_seconds(self.retrain, "retrain", strict=True)

    @property
    def clairvoyant(self) -> bool:
        """Whether it knows how many iterations jobs will make."""
        return make_predictor(self.predictor).clairvoyant

    @property
    def work_conserving(self) -> bool:
        """Whether it claims that all start that fit."""
        return not self.strict

    def key(self, seconds: float, gpus: int, arrival_s: float) -> float:
        """Return what jobs are ordered by: the least first."""
        raise NotImplementedError

    @property
    def needs(self) -> frozenset[str]:
        """What a run must have; see `netsim.engine.view.Scheduler`."""
        return needs_to_predict(self.predictor, self.retrain)

    def begin(self, context: RunContext) -> _ByKey:
        """Return what decides in a run; see `netsim.engine.view.Scheduler`."""
        return _ByKey(self, Predictions(context, self.predictor, self.retrain))


@plain_numbers
@dataclass(frozen=True)
class SPJF(_Predicted):
    """The shortest predicted job first; who does not fit holds up the others."""

    strict: ClassVar[bool] = True

    def key(self, seconds: float, gpus: int, arrival_s: float) -> float:
        """Return what it will take."""
        return seconds


@plain_numbers
@dataclass(frozen=True)
class SPWF(_Predicted):
    """The smallest predicted workload (time by GPUs) first; who does not fit holds up others."""

    strict: ClassVar[bool] = True

    def key(self, seconds: float, gpus: int, arrival_s: float) -> float:
        """Return what it will take, times its GPUs."""
        return seconds * gpus


@plain_numbers
@dataclass(frozen=True)
class WCSDuration(_Predicted):
    """Work-conserving: all that fit start, the shortest predicted job first."""

    strict: ClassVar[bool] = False

    def key(self, seconds: float, gpus: int, arrival_s: float) -> float:
        """Return what it will take."""
        return seconds


@plain_numbers
@dataclass(frozen=True)
class WCSWorkload(_Predicted):
    """Work-conserving: all that fit start, the smallest predicted workload first."""

    strict: ClassVar[bool] = False

    def key(self, seconds: float, gpus: int, arrival_s: float) -> float:
        """Return what it will take, times its GPUs."""
        return seconds * gpus


@plain_numbers
@dataclass(frozen=True)
class WCSSubTime(_Predicted):
    """Work-conserving: all that fit start, who was submitted first before the others.

    Nothing is predicted, so that it is for jobs of all kinds, on any servers.
    """

    strict: ClassVar[bool] = False

    predictor: Any = field(default="perfect", init=False)
    retrain: Quantity | None = field(default=None, init=False)

    @property
    def clairvoyant(self) -> bool:
        """Whether it knows how many iterations jobs will make: it does not ask."""
        return False

    @property
    def needs(self) -> frozenset[str]:
        """What a run must have: nothing in particular."""
        return frozenset()

    def begin(self, context: RunContext) -> _ByKey:
        """Return what decides in a run; see `netsim.engine.view.Scheduler`."""
        return _ByKey(self, None)

    def key(self, seconds: float, gpus: int, arrival_s: float) -> float:
        """Return when it was submitted."""
        return arrival_s


class _ByKey:
    """A queue by key; if jobs may pass, one for each number of GPUs, of which the first is next.

    Jobs whose keys tie go by arrival and id.
    """

    def __init__(self, scheduler: _Predicted, predictions: Predictions | None) -> None:
        self._scheduler, self._predictions = scheduler, predictions
        self._queues: dict[int, TiedQueue[int]] = {}

    def decide(self, view: ClusterView) -> Decision:
        """Return who starts; see `netsim.engine.view.Scheduler`."""
        predictions, strict = self._predictions, self._scheduler.strict
        if predictions is not None:
            predictions.see(view)
        for job in view.arrived:
            spec = view.jobs[job]
            seconds = math.nan if predictions is None else predictions.seconds(job)
            key = self._scheduler.key(seconds, spec.ranks, spec.arrival_s)
            self._queue_of(0 if strict else spec.ranks).push(key, job)
        if not view.idle:
            return Decision()
        return Decision(self._in_line(view) if strict else self._passing(view))

    def _queue_of(self, gpus: int) -> TiedQueue[int]:
        return self._queues.setdefault(gpus, TiedQueue())

    def _in_line(self, view: ClusterView) -> Sequence[Start]:
        """Return who starts where the first holds up the others."""
        queue, room, left = self._queue_of(0), view.room(), view.idle
        starts: list[Start] = []
        while queue:
            job = queue.first[1]
            need = view.jobs[job].ranks
            if need > left or (taken := room.place(job)) is None:
                break
            queue.pop()
            starts.append((job, taken))
            left -= need
        return starts

    def _passing(self, view: ClusterView) -> Sequence[Start]:
        """Return who starts where all do that fit."""
        room, left = view.room(), view.idle
        starts: list[Start] = []
        passed: list[tuple[int, float, int]] = []
        while left:
            fitting = [gpus for gpus, queue in self._queues.items() if queue and gpus <= left]
            if not fitting:
                break
            gpus = self._next_of(fitting)
            key, job = self._queues[gpus].pop()
            taken = room.place(job)
            if taken is None:  # enough GPUs, but no servers that could hold it
                passed.append((gpus, key, job))
            else:
                starts.append((job, taken))
                left -= gpus
        for gpus, key, job in passed:
            self._queues[gpus].push(key, job)
        return starts

    def _next_of(self, queues: Sequence[int]) -> int:
        """Return the queue whose first job is next, of some that are not empty."""
        firsts = sorted((*self._queues[gpus].first, gpus) for gpus in queues)
        tied = [firsts[0]]
        for one, other in pairwise(firsts):
            if not equal(one[0], other[0]):
                break
            tied.append(other)
        return min(tied, key=lambda first: first[1])[2]
