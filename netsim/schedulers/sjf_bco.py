"""Schedulers that plan ahead, by bisection on what a GPU may be promised: SJF-BCO, Section 5."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from netsim.checks import LARGEST, check_whole, is_number
from netsim.cluster.cluster import Cluster, check_size
from netsim.cluster.contention import Contention, Iterations, check_rates
from netsim.cluster.context import RunContext
from netsim.engine.estimates import estimates_of
from netsim.errors import InputError
from netsim.placements.placement import (
    FirstFit,
    LeastBusyServers,
    LeastLoaded,
    Placement,
    RandomChoice,
)
from netsim.plain import plain_numbers
from netsim.schedulers.guarantee import guarantee_of
from netsim.schedulers.plan import Plan, PlanFollower, Planner, check_at_start
from netsim.ties import EQUAL, below, rank
from netsim.workload import JobSpec

__all__ = ["FF", "LS", "RAND", "SjfBco"]

@dataclass(frozen=True)
class _Planning:
    """What the planning schedulers share.

    Parameters
    ----------
    horizon : int, optional
        T, in slots: what is looked for is a makespan below it. If not given, as long as all jobs
        take one after the other at their slowest.
    availability : {"idle", "queue"}
        As for `Planner.plan`.
    search : {"improve", "feasible"}
        Look among lower limits if a limit gave a better makespan; or also if it placed all jobs.
    u : float
        Estimates are divided by it.
    """

    needs: ClassVar[frozenset[str]] = frozenset(
        {"rings", "fast servers", "jobs at 0", "no restarts"})
    chooses_gpus: ClassVar[bool] = True
    clairvoyant: ClassVar[bool] = True

    horizon: int | None = None
    availability: str = "idle"
    search: str = "improve"
    u: float = 1.0

    def plan(self, cluster: Cluster, jobs: Sequence[JobSpec], model: Contention, seed: int = 0
             ) -> Plan:
        """Return who gets which GPUs, and in which order."""
        raise NotImplementedError

    def begin(self, context: RunContext) -> PlanFollower:
        """Return what starts jobs as the plan says; see `netsim.engine.view.Scheduler`."""
        return PlanFollower(self.plan(context.cluster, context.jobs, context.model, context.seed))

    def __post_init__(self) -> None:
        if self.horizon is not None:
            check_whole(self.horizon, "horizon", 1)
        for name, choices in (("availability", ("idle", "queue")),
                              ("search", ("improve", "feasible"))):
            if getattr(self, name) not in choices:
                raise InputError(f"{name} must be one of {', '.join(choices)}, "
                                 f"not {getattr(self, name)!r}")
        if not (is_number(self.u) and 1 <= self.u <= LARGEST):
            raise InputError(f"u must be a number of at least 1, not {self.u!r}")

    def planner(self, cluster: Cluster, jobs: Sequence[JobSpec], model: Contention) -> Planner:
        """Return what makes plans for jobs.

        Raises
        ------
        InputError
            If a job needs more GPUs than there are, or is not there at time 0.
        """
        for job in jobs:
            check_size(job, cluster)
        check_at_start(jobs)
        check_rates(cluster)
        estimates = estimates_of(jobs) / model.slot / self.u
        return Planner(cluster, jobs, model.of(cluster, jobs), estimates)

    def horizon_of(self, planner: Planner) -> int:
        """Return T, in slots."""
        if self.horizon is not None:
            return self.horizon
        iterations = planner.iterations
        slots = [self._slots(job.iterations, float(most), iterations)
                 for job, most in zip(planner.jobs, iterations.most, strict=True)]
        total = max(sum(slots), planner.estimates.sum())
        # All of them are below it by more than rounding.
        return math.ceil(total) + 1 + math.floor(2 * EQUAL * total)

    @staticmethod
    def _slots(count: int, seconds: float, iterations: Iterations) -> float:
        """Return what so many iterations of so many seconds take, in slots."""
        if iterations.model.time == "continuous":
            return count * seconds / iterations.model.slot
        # Where not even one fits into a slot, the job waits until others have gone.
        return math.ceil(count / max(iterations.per_slot(seconds), 1))

    def bisect(self, planner: Planner, plans_at: Callable[[int], Sequence[Plan | None]]) -> Plan:
        """Return the plan of the least makespan that Algorithm 1 finds.

        Parameters
        ----------
        planner : Planner
        plans_at : callable
            The plans under a limit, in slots; None for those that leave a job out.

        Raises
        ------
        InputError
            If there is none below the horizon.
        """
        horizon = self.horizon_of(planner)
        slot = planner.iterations.model.slot
        best, least = None, float(horizon)
        low, high = 1, horizon
        while low <= high:
            limit = (low + high) // 2
            plans = [plan for plan in plans_at(limit) if plan is not None]
            # Of plans that end at the same time, but for rounding, the first one is as good.
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
                f"after the other take {self._at_most(planner)} at their slowest")
        return best

    def _at_most(self, planner: Planner) -> int:
        return type(self)().horizon_of(planner)


def _by_size(jobs: Sequence[JobSpec]) -> list[int]:
    return sorted(range(len(jobs)), key=lambda job: jobs[job].ranks)


@plain_numbers
@dataclass(frozen=True)
class SjfBco(_Planning):
    """Smallest jobs first, with balanced contention and overhead: Algorithm 1.

    Jobs of at most kappa GPUs go to the GPUs with the least load, Algorithm 2; larger ones to those
    on the servers with the least, Algorithm 3. All kappas that make a difference are tried.

    Parameters
    ----------
    horizon, availability, search, u
        See above.
    lam : float
        lambda: how many times as many GPUs as it needs the servers of a job have, at least 1.
    kappa : int, optional
        Only this one.
    """

    lam: float = 1.0
    kappa: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        LeastBusyServers(self.lam)
        if self.kappa is not None:
            check_whole(self.kappa, "kappa", 1)

    def plan(self, cluster: Cluster, jobs: Sequence[JobSpec], model: Contention, seed: int = 0
             ) -> Plan:
        """Return the plan that the search finds.

        Raises
        ------
        InputError
            If there is none below the horizon, or the jobs cannot be planned.
        """
        planner = self.planner(cluster, jobs, model)
        kappas = ([self.kappa] if self.kappa is not None
                  else sorted({1, *(job.ranks for job in jobs)}))
        plan = self.bisect(planner, lambda limit: [self.plan_at(planner, limit, kappa)
                                                   for kappa in kappas])
        claimed = guarantee_of(planner, self.u)
        return replace(plan, notes={"estimates_low": claimed.low, "estimates_high": claimed.high,
                                    "theorem_5": claimed.ratio})

    def plan_at(self, planner: Planner, limit: float, kappa: int) -> Plan | None:
        """Return the plan under a limit, in slots, and with a kappa; None if there is none."""
        small, large = LeastLoaded(), LeastBusyServers(self.lam)

        def placement_of(job: int) -> Placement:
            return small if planner.jobs[job].ranks <= kappa else large

        return planner.plan(_by_size(planner.jobs), placement_of, limit, self.availability, kappa)


@dataclass(frozen=True)
class _OnePlacement(_Planning):
    """A baseline: one placement for all jobs, in either order.

    Parameters
    ----------
    horizon, availability, search, u
        See above.
    order : {"given", "by_size"}
        Of jobs: as they are given, or by GPUs as in SJF-BCO.
    """

    order: str = "given"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order not in ("given", "by_size"):
            raise InputError(f"order must be 'given' or 'by_size', not {self.order!r}")

    def plan_at(self, planner: Planner, limit: float, placement: Placement) -> Plan | None:
        """Return the plan under a limit, in slots; None if there is none."""
        jobs = planner.jobs
        order = _by_size(jobs) if self.order == "by_size" else range(len(jobs))
        return planner.plan(list(order), lambda job: placement, limit, self.availability)

    def _search_with(self, placement: Placement, cluster: Cluster, jobs: Sequence[JobSpec],
                     model: Contention) -> Plan:
        planner = self.planner(cluster, jobs, model)
        return self.bisect(planner, lambda limit: [self.plan_at(planner, limit, placement)])


@plain_numbers
@dataclass(frozen=True)
class FF(_OnePlacement):
    """First fit: the first GPUs that may be had."""

    def plan(self, cluster: Cluster, jobs: Sequence[JobSpec], model: Contention, seed: int = 0
             ) -> Plan:
        """Return the plan that the search finds; see `SjfBco.plan`."""
        return self._search_with(FirstFit(), cluster, jobs, model)


@plain_numbers
@dataclass(frozen=True)
class LS(_OnePlacement):
    """List scheduling: the GPUs with the least load."""

    def plan(self, cluster: Cluster, jobs: Sequence[JobSpec], model: Contention, seed: int = 0
             ) -> Plan:
        """Return the plan that the search finds; see `SjfBco.plan`."""
        return self._search_with(LeastLoaded(), cluster, jobs, model)


@plain_numbers
@dataclass(frozen=True)
class RAND(_OnePlacement):
    """Random GPUs, the horizon as the limit: one plan, also if it ends after the horizon."""

    def plan(self, cluster: Cluster, jobs: Sequence[JobSpec], model: Contention, seed: int = 0
             ) -> Plan:
        """Return the plan of a seed.

        Raises
        ------
        InputError
            If the horizon leaves a job too few GPUs, or the jobs cannot be planned.
        """
        planner = self.planner(cluster, jobs, model)
        horizon = self.horizon_of(planner)
        plan = self.plan_at(planner, horizon, RandomChoice(seed))
        if plan is None:
            raise InputError(f"random placement leaves a job too few GPUs that may be promised "
                             f"more within the horizon of {horizon} slots: raise horizon")
        return plan
