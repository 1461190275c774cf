"""Plans of all jobs by the contention model, and their guarantee (SJF-BCO, Section 5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.base.brief import brief
from netsim.base.values import same
from netsim.cluster.cluster import Cluster
from netsim.cluster.contention import Iterations, RunningJobs
from netsim.engine.view import ClusterView, Start
from netsim.errors import InputError
from netsim.placements.placement import Placement
from netsim.workload import JobSpec

#: Rounding error of sums of estimates that a limit tolerates, in slots.
_ROUNDING = 1e-9


def check_at_start(jobs: Iterable[JobSpec]) -> None:
    """Check that all jobs arrive at time 0."""
    for job in jobs:
        if job.arrival_s > 0:
            raise InputError(f"job {job.id} arrives at {job.arrival_s:g} s; this scheduler plans "
                             "jobs that are all there at 0")


@dataclass(frozen=True)
class GpuPlan:
    """An assignment of GPUs to jobs, with their times by the contention model."""

    order: tuple[int, ...]  #: of jobs, by index: that in which they get their GPUs
    gpus: tuple[Ints, ...]  #: of each job, by index
    start_s: Floats
    end_s: Floats
    load: Floats  #: work that each GPU has been promised, in slots
    in_line: bool  #: whether no job may start before all jobs that precede it in the order
    limit: float  #: on the load of a GPU, in slots
    #: Jobs with more GPUs than this were packed onto few servers; None for policies without it.
    kappa: int | None = None
    #: Further numbers that the policy adds to the summary of a run.
    notes: Mapping[str, float] = field(default_factory=dict)

    __repr__ = brief
    __deepcopy__ = same

    @property
    def counts(self) -> dict[str, float]:
        """Numbers of the plan for the summary of a run."""
        kappa = {} if self.kappa is None else {"plan_kappa": self.kappa}
        return {"plan_makespan_s": self.makespan_s, "plan_limit": self.limit,
                **kappa, **self.notes}

    @property
    def makespan_s(self) -> float:
        """End of the last job, in seconds."""
        return float(self.end_s.max())


class Planner:
    """Makes plans for jobs that are all present at time 0; `estimates` are in slots."""

    def __init__(self, cluster: Cluster, jobs: Sequence[JobSpec], iterations: Iterations,
                 estimates: Floats) -> None:
        self.cluster, self.jobs, self.iterations = cluster, jobs, iterations
        self.estimates = estimates

    def plan(self, order: Sequence[int], placement_of: Callable[[int], Placement], limit: float,
             availability: str = "idle", kappa: int | None = None) -> GpuPlan | None:
        """Give each job its GPUs, in order; None if the limit leaves a job too few.

        `limit` is that on the load of a GPU, in slots; `availability` is as for `SjfBco`; `kappa`
        is only noted in the plan.
        """
        make = _Idle if availability == "idle" else _Queue
        builder = make(self)
        load = np.zeros(self.cluster.total)
        for job in order:
            spec, placement = self.jobs[job], placement_of(job)
            scope = placement.scope(self.cluster, spec, load)
            allowed = scope[load[scope] + self.estimates[job] <= limit + _ROUNDING]
            if len(allowed) < spec.ranks:
                return None
            idle = builder.available(allowed, spec.ranks)
            gpus = placement.choose(self.cluster, spec, idle, load)
            if gpus is None:
                return None
            load[gpus] += self.estimates[job]
            builder.assign(job, gpus)
        builder.finish()
        return GpuPlan(tuple(order), tuple(builder.gpus[job] for job in range(len(self.jobs))),
                       builder.start_s, builder.end_s, load, availability == "idle", limit, kappa)


class _PlanBuilder:
    """A plan in progress: the running jobs and the free GPUs."""

    def __init__(self, planner: Planner) -> None:
        self._cluster = planner.cluster
        self._running = RunningJobs(planner.iterations, planner.cluster, planner.jobs)
        self._free = np.ones(planner.cluster.total, np.bool_)
        self.gpus: dict[int, Ints] = {}
        self.start_s = np.full(len(planner.jobs), np.nan)
        self.end_s = np.full(len(planner.jobs), np.nan)

    def _start(self, job: int) -> None:
        """Start a job on its GPUs."""
        gpus = self.gpus[job]
        self._free[gpus] = False
        self.start_s[job] = self._running.now
        self._running.start(job, np.unique(self._cluster.server_of[gpus]).tolist())

    def _advance(self) -> list[int]:
        """Advance to the next exit and free the GPUs of the jobs that leave; return these jobs."""
        done = self._running.to_next_exit()
        for job in done:
            self._free[self.gpus[job]] = True
            self.end_s[job] = self._running.now
        return done


class _Idle(_PlanBuilder):
    """Jobs get idle GPUs and start at once."""

    def available(self, allowed: Ints, need: int) -> Ints:
        """Advance until enough of the allowed GPUs are idle, and return these."""
        while True:
            idle = allowed[self._free[allowed]]
            if len(idle) >= need:
                return idle
            self._advance()

    def assign(self, job: int, gpus: Ints) -> None:
        self.gpus[job] = gpus
        self._start(job)

    def finish(self) -> None:
        while len(self._running):
            self._advance()


class _Queue(_PlanBuilder):
    """Jobs start when it is their turn on all their GPUs."""

    def __init__(self, planner: Planner) -> None:
        super().__init__(planner)
        self._queues: list[deque[int]] = [deque() for _ in range(planner.cluster.total)]

    def available(self, allowed: Ints, need: int) -> Ints:
        """All allowed GPUs, as jobs wait for theirs."""
        return allowed

    def assign(self, job: int, gpus: Ints) -> None:
        self.gpus[job] = gpus
        for gpu in gpus:
            self._queues[gpu].append(job)

    def finish(self) -> None:
        candidates = sorted(self.gpus)
        while candidates or len(self._running):
            for job in candidates:
                if all(self._queues[gpu][0] == job and self._free[gpu]
                       for gpu in self.gpus[job]):
                    for gpu in self.gpus[job]:
                        self._queues[gpu].popleft()
                    self._start(job)
            left = self._advance()
            freed = {gpu for job in left for gpu in self.gpus[job].tolist()}
            candidates = sorted({self._queues[gpu][0] for gpu in freed if self._queues[gpu]})


class PlanFollower:
    """Starts jobs in the order of a plan, as soon as their GPUs are free.

    Under the contention model, jobs then start at the times of the plan. Under other executions,
    such as on a fabric, they may start earlier or later.
    """

    def __init__(self, plan: GpuPlan) -> None:
        self._plan = plan
        self.counts = plan.counts
        self._left = deque(plan.order)

    def decide(self, view: ClusterView) -> list[Start]:
        """Start the next jobs whose GPUs are all free; see `Scheduler.decide`."""
        free = view.free.copy()
        starts: list[Start] = []
        kept: deque[int] = deque()
        while self._left and not (self._plan.in_line and kept):
            job = self._left.popleft()
            gpus = self._plan.gpus[job]
            if free[gpus].all():
                starts.append((job, gpus))
            else:
                kept.append(job)
            free[gpus] = False  # later jobs must not overtake on a GPU
        self._left.extendleft(reversed(kept))
        return starts


@dataclass(frozen=True)
class Guarantee:
    """The ratio to the least possible makespan that Theorem 5 claims.

    It is reported but not relied upon. There are counterexamples, since the proof ignores the time
    for which jobs that hold a GPU wait for other GPUs.
    """

    low: float  #: l; estimates are between l and u times the possible running times, l <= 1 <= u
    high: float  #: u
    largest: int  #: n_g, the GPUs of the largest job
    spread: float  #: varphi, the largest ratio of a job's running times in two schedules

    @property
    def ratio(self) -> float:
        """n_g varphi u / l."""
        return self.largest * self.spread * self.high / self.low


def guarantee_of(planner: Planner, scale: float = 1.0) -> Guarantee:
    """Compute the terms of Theorem 5; the planner's estimates have been divided by `scale`."""
    iterations = planner.iterations
    count = np.array([job.iterations for job in planner.jobs])
    seconds: Floats = planner.estimates * scale * iterations.model.slot / count
    with np.errstate(divide="ignore", invalid="ignore"):  # iterations may take no time
        low, high = (seconds / iterations.most).min(), (seconds / iterations.least).max()
        spread = np.nan_to_num(iterations.most / iterations.least, nan=1.0, posinf=np.inf).max()
    return Guarantee(low=min(1.0, float(low)), high=max(1.0, float(high)),
                     largest=max(job.ranks for job in planner.jobs), spread=float(spread))
