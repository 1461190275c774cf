"""Schedulers that plan ahead, by bisection on a limit on the load of GPUs: SJF-BCO, Section 5."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from netsim.base.values import as_choice, as_number, as_whole, convert, known_names, optional
from netsim.cluster.cluster import Cluster, check_size
from netsim.cluster.contention import Contention, Iterations, check_rates
from netsim.cluster.context import RunContext
from netsim.engine.ledger import estimates_of
from netsim.errors import InputError
from netsim.placements.placement import (
    FirstFit,
    LeastBusyServers,
    LeastLoaded,
    Placement,
    RandomChoice,
)
from netsim.schedulers.plan import GpuPlan, PlanFollower, Planner, check_at_start, guarantee_of
from netsim.ties import EQUAL, below, rank
from netsim.workload import JobSpec


@dataclass(frozen=True)
class _Planning:
    """Base of the planning schedulers; see `SjfBco` for the options."""

    needs: ClassVar[frozenset[str]] = frozenset(
        {"rings", "fast servers", "jobs at 0", "no restarts"})
    chooses_gpus: ClassVar[bool] = True
    clairvoyant: ClassVar[bool] = True

    horizon: int | None = None
    availability: str = "idle"
    search: str = "improve"
    u: float = 1.0

    def plan(self, cluster: Cluster, jobs: Sequence[JobSpec], model: Contention, seed: int = 0
             ) -> GpuPlan:
        """Make a plan for the jobs."""
        raise NotImplementedError

    def begin(self, context: RunContext) -> PlanFollower:
        """Make the object that follows the plan; see `netsim.engine.view.Scheduler`."""
        return PlanFollower(self.plan(context.cluster, context.jobs, context.model, context.seed))

    def __post_init__(self) -> None:
        self._convert()

    def _convert(self, **more: Callable[[Any, str], Any]) -> None:
        convert(self, horizon=optional(partial(as_whole, least=1)),
                availability=partial(as_choice, choices=("idle", "queue")),
                search=partial(as_choice, choices=("improve", "feasible")),
                u=partial(as_number, least=1), **more)

    def planner(self, cluster: Cluster, jobs: Sequence[JobSpec], model: Contention) -> Planner:
        """Make a planner for jobs, which must fit on the cluster and arrive at time 0."""
        for job in jobs:
            check_size(job, cluster)
        check_at_start(jobs)
        check_rates(cluster)
        estimates = estimates_of(jobs) / model.slot / self.u
        return Planner(cluster, jobs, model.of(cluster, jobs), estimates)

    def horizon_of(self, planner: Planner) -> int:
        """The horizon T, in slots."""
        if self.horizon is not None:
            return self.horizon
        iterations = planner.iterations
        slots = [self._slots(job.iterations, float(most), iterations)
                 for job, most in zip(planner.jobs, iterations.most, strict=True)]
        total = max(sum(slots), planner.estimates.sum())
        # One more than the total, with a margin for rounding.
        return math.ceil(total) + 1 + math.floor(2 * EQUAL * total)

    @staticmethod
    def _slots(count: int, seconds: float, iterations: Iterations) -> float:
        """The number of slots that iterations of a given length take."""
        if iterations.model.time == "continuous":
            return count * seconds / iterations.model.slot
        # If no iteration fits into a slot, the job waits until others have left.
        return math.ceil(count / max(iterations.per_slot(seconds), 1))

    def bisect(self, planner: Planner, plans_at: Callable[[int], Sequence[GpuPlan | None]]
               ) -> GpuPlan:
        """Search for the plan with the least makespan, by Algorithm 1.

        `plans_at` makes the plans for a limit in slots, with None for those that cannot place a
        job. Raises InputError if no plan ends before the horizon.
        """
        horizon = self.horizon_of(planner)
        slot = planner.iterations.model.slot
        best, least = None, float(horizon)
        low, high = 1, horizon
        while low <= high:
            limit = (low + high) // 2
            plans = [plan for plan in plans_at(limit) if plan is not None]
            # Among plans with equal makespans, up to rounding, the first one is chosen.
            order = rank([plan.makespan_s for plan in plans])
            better = plans[order[0]] if plans else None
            improved = better is not None and below(better.makespan_s / slot, least)
            if better is not None and improved:
                best, least = better, better.makespan_s / slot
            if improved or (self.search == "feasible" and plans):
                high = limit - 1
            else:
                low = limit + 1
        if best is None:
            raise InputError(
                f"no plan ends before the horizon of {horizon} slots: raise horizon; all jobs one "
                f"after the other take {type(self)().horizon_of(planner)} at their slowest",
                "horizon")
        return best


def _by_size(jobs: Sequence[JobSpec]) -> list[int]:
    """The indices of jobs by GPUs, fewest first."""
    return sorted(range(len(jobs)), key=lambda job: jobs[job].ranks)


@known_names
@dataclass(frozen=True)
class SjfBco(_Planning):
    """Smallest job first with balanced contention and overhead: Algorithm 1.

    Jobs with at most kappa GPUs get the GPUs with the least load (Algorithm 2). Larger jobs get
    GPUs on the servers with the least load (Algorithm 3). All values of kappa that make a
    difference are tried.

    Parameters
    ----------
    horizon : int, optional
        T, in slots: only plans with a shorter makespan are accepted. By default, the time that all
        jobs take one after another at their slowest.
    availability : {"idle", "queue"}
        With ``"idle"``, a job waits until enough GPUs are idle, and gets some of these. With
        ``"queue"``, a job may also get busy GPUs; each GPU serves its jobs in order.
    search : {"improve", "feasible"}
        Whether the bisection continues with lower limits only if a limit improved the makespan, or
        also whenever it could place all jobs.
    u : float
        Number by which the estimated running times of jobs are divided in plans; at least 1.
    lam : float
        lambda, at least 1: a job with more than kappa GPUs gets them on the least loaded servers
        that together have at least lambda times as many GPUs as it needs.
    kappa : int, optional
        Try this value only.
    """

    lam: float = 1.0
    kappa: int | None = None

    def __post_init__(self) -> None:
        self._convert(lam=partial(as_number, least=1),
                      kappa=optional(partial(as_whole, least=1)))

    def plan(self, cluster: Cluster, jobs: Sequence[JobSpec], model: Contention, seed: int = 0
             ) -> GpuPlan:
        """Search for the best plan; see `_Planning.bisect`."""
        planner = self.planner(cluster, jobs, model)
        kappas = ([self.kappa] if self.kappa is not None
                  else sorted({1, *(job.ranks for job in jobs)}))
        plan = self.bisect(planner, lambda limit: [self.plan_at(planner, limit, kappa)
                                                   for kappa in kappas])
        claimed = guarantee_of(planner, self.u)
        return replace(plan, notes={"estimates_low": claimed.low, "estimates_high": claimed.high,
                                    "theorem_5": claimed.ratio})

    def plan_at(self, planner: Planner, limit: float, kappa: int) -> GpuPlan | None:
        """Make the plan for a limit in slots and a kappa; None if it cannot place a job."""
        small, large = LeastLoaded(), LeastBusyServers(self.lam)

        def placement_of(job: int) -> Placement:
            return small if planner.jobs[job].ranks <= kappa else large

        return planner.plan(_by_size(planner.jobs), placement_of, limit, self.availability, kappa)


@dataclass(frozen=True)
class _OnePlacement(_Planning):
    """Base of the planning baselines, which use one placement for all jobs.

    The order of jobs is ``"given"``, as in the workload, or ``"by_size"``, as in SJF-BCO.
    """

    _placement: ClassVar[Placement]

    order: str = "given"

    def __post_init__(self) -> None:
        self._convert(order=partial(as_choice, choices=("given", "by_size")))

    def plan_at(self, planner: Planner, limit: float, placement: Placement) -> GpuPlan | None:
        """Make the plan for a limit in slots; None if it cannot place a job."""
        jobs = planner.jobs
        order = _by_size(jobs) if self.order == "by_size" else range(len(jobs))
        return planner.plan(list(order), lambda job: placement, limit, self.availability)

    def plan(self, cluster: Cluster, jobs: Sequence[JobSpec], model: Contention, seed: int = 0
             ) -> GpuPlan:
        """Search for the best plan; see `_Planning.bisect`."""
        planner = self.planner(cluster, jobs, model)
        return self.bisect(planner, lambda limit: [self.plan_at(planner, limit, self._placement)])


@known_names
@dataclass(frozen=True)
class FF(_OnePlacement):
    """First fit: the first GPUs whose load stays within the limit.

    Parameters
    ----------
    horizon, availability, search, u
        As for `SjfBco`.
    order : {"given", "by_size"}
        Order of jobs: as in the workload, or by number of GPUs as in SJF-BCO.
    """

    _placement = FirstFit()


@known_names
@dataclass(frozen=True)
class LS(_OnePlacement):
    """List scheduling: the GPUs with the least load.

    Parameters
    ----------
    horizon, availability, search, u, order
        As for `FF`.
    """

    _placement = LeastLoaded()


@known_names
@dataclass(frozen=True)
class RAND(_OnePlacement):
    """Random GPUs: a single plan with the horizon as the limit, even if it ends later.

    Parameters
    ----------
    horizon, availability, search, u, order
        As for `FF`.
    """

    def plan(self, cluster: Cluster, jobs: Sequence[JobSpec], model: Contention, seed: int = 0
             ) -> GpuPlan:
        """Make the plan for a seed; refused if the horizon leaves a job too few GPUs."""
        planner = self.planner(cluster, jobs, model)
        horizon = self.horizon_of(planner)
        plan = self.plan_at(planner, horizon, RandomChoice(seed))
        if plan is None:
            raise InputError(f"random placement leaves a job too few GPUs with a load within the "
                             f"horizon of {horizon} slots: raise horizon", "horizon")
        return plan
