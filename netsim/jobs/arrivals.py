"""The arrivals of jobs, instant by instant, and what jobs will send, for policies that plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from netsim.base.arrays import Floats, Ints
from netsim.fabric.allocator import Steps
from netsim.fabric.clock import call_at
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.jobs.graph import OperationGraph, StageGraph
from netsim.jobs.plan import JobPlan


class Arrivals:
    """Calls `arrive` with the number of each job that arrives; one event is pending for all jobs.

    `arrival_s` is in ascending order; `which` has the jobs that have not arrived yet, in order.
    """

    def __init__(self, env: Any, arrival_s: ArrayLike, arrive: Callable[[int], None],
                 which: Sequence[int] | Ints | None = None) -> None:
        self._env, self._arrive = env, arrive
        self._at = np.array(arrival_s, np.float64)
        self._jobs = np.arange(len(self._at)) if which is None else np.array(which, np.int64)
        self._next = 0
        self._await()

    def _await(self) -> None:
        if self._next < len(self._jobs):
            at = float(self._at[self._jobs[self._next]])
            call_at(self._env, at, partial(self._ring, at))

    def _ring(self, at: float, _: Any) -> None:
        """Start all jobs that arrive now, unless they have arrived already."""
        before = self._next
        while self._next < len(self._jobs) and self._at[self._jobs[self._next]] <= at:
            self._next += 1
            self._arrive(int(self._jobs[self._next - 1]))
        if self._next > before:
            self._await()

    def add(self, job: int, arrival_s: float) -> None:
        """Insert a job that has not arrived; later jobs are renumbered."""
        self._at = np.insert(self._at, job, arrival_s)
        self._jobs += self._jobs >= job
        place = int(np.searchsorted(self._jobs, job))
        self._jobs = np.insert(self._jobs, place, job)
        if place == self._next:
            self._await()


# --- what jobs will send -------------------------------------------------------------------
class _Step(NamedTuple):
    """A stage or an operation, by its number in its iteration.

    It waits for steps of its iteration (`after`) and of the previous one, and cannot end before
    those `beside` it.
    """

    number: int
    compute_s: float
    release_s: float
    demand: RoutedCoflow | None
    after: Sequence[int]
    previous: Sequence[int]
    beside: Sequence[int]


class ComingJobs:
    """Jobs before they run, in order of (arrival, id); see `netsim.fabric.allocator.Coming`.

    `capacity` is the highest capacity of each link during the run, in bytes per second.
    """

    def __init__(self, plans: Sequence[JobPlan], capacity: Floats) -> None:
        self._plans, self._capacity = plans, capacity

    @cached_property
    def arrival_s(self) -> Floats:
        return np.array([plan.spec.arrival_s for plan in self._plans])

    @cached_property
    def weight(self) -> Floats:
        return np.array([max((demand.weight for demand in plan.graph(0).demands
                              if demand is not None), default=1.0) for plan in self._plans])

    def jobs(self) -> Steps:
        alone_s = np.array([_known(plan.lower_bound()) for plan in self._plans])
        none = np.empty(0, np.int64)
        sent = [[demand for iteration in range(plan.spec.iterations if plan.period > 1 else 1)
                 for demand in plan.graph(iteration).demands if demand is not None]
                for plan in self._plans]
        times = [1 if plan.period > 1 else plan.spec.iterations for plan in self._plans]
        owner, link, seconds = self._loads(sent)
        links = len(self._capacity)
        pairs, place = np.unique(owner * links + link, return_inverse=True)
        owner, link = np.divmod(pairs, links)
        return Steps(np.arange(len(sent)), self.arrival_s + alone_s, self.arrival_s, none, none,
                     np.empty(0), owner, link,
                     np.bincount(place, seconds, len(pairs)) * np.take(times, owner))

    def coflows(self) -> Steps:
        job: list[int] = []
        earliest: list[float] = []
        begin: list[float] = []
        sent: list[list[RoutedCoflow]] = []
        pairs: list[tuple[int, int, float]] = []
        for number, plan in enumerate(self._plans):
            arrival_s, before = plan.spec.arrival_s, dict[int, int]()
            for iteration in range(plan.spec.iterations):
                at: dict[int, int] = {}
                for step in _steps_of(plan.graph(iteration)):
                    demand = step.demand
                    least_s = 0.0 if demand is None else _known(plan.least(demand))
                    parents = [at[k] for k in step.after]
                    parents += [before[k] for k in step.previous if before]
                    beside = [at[k] for k in step.beside]
                    begin.append(step.compute_s + max([arrival_s + step.release_s, *(
                        earliest[parent] for parent in parents)]))
                    earliest.append(max([begin[-1] + least_s, *(earliest[k] for k in beside)]))
                    pairs += [(len(job), parent, step.compute_s + least_s) for parent in parents]
                    pairs += [(len(job), other, 0.0) for other in beside]
                    at[step.number] = len(job)
                    job.append(number)
                    sent.append([] if demand is None else [demand])
                before = at
        columns = np.array(pairs, np.float64).reshape(-1, 3).T
        return Steps(np.array(job, np.int64), np.array(earliest), np.array(begin),
                     columns[0].astype(np.int64), columns[1].astype(np.int64), columns[2],
                     *self._loads(sent))

    def _loads(self, sent: Sequence[Sequence[RoutedCoflow]]) -> tuple[Ints, Ints, Floats]:
        """Return the step, the link and the seconds of each load of the coflows of steps."""
        loads = [demand.loads for demands in sent for demand in demands]
        owner = np.repeat(np.repeat(np.arange(len(sent)), [len(each) for each in sent]),
                          [len(each) for each in loads])
        if not loads:
            return owner, owner.copy(), np.empty(0)
        rows = np.concatenate(loads)
        capacity = self._capacity[rows["link"]]
        seconds = np.divide(rows["nbytes"], capacity, out=np.zeros(len(rows)), where=capacity > 0)
        return owner, rows["link"].astype(np.int64), seconds


def _known(least_s: float) -> float:
    """Return a least time; 0 if it is endless, because a link is always dead."""
    return 0.0 if least_s == math.inf else least_s


def _steps_of(graph: StageGraph | OperationGraph) -> Iterator[_Step]:
    """Yield the steps of an iteration, each after those of it that it waits for."""
    if isinstance(graph, OperationGraph):
        made = graph.operations
        after, previous = made.after.lists(), made.after_previous.lists()
        for k in made.sequence.tolist():
            yield _Step(k, float(made.compute_s[k]), 0.0, graph.demands[k], after[k], previous[k],
                        ())
        return
    dag = graph.dag
    last = [k for k in dag.sequence if not dag.children[k] and not dag.held[k]]
    for k in dag.sequence:
        stage = graph.stages[k]
        yield _Step(k, stage.compute_s, stage.release_s, graph.demands[k], dag.after[k],
                    () if dag.after[k] else last, dag.finishes_before[k])
