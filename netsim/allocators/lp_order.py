"""Jobs in the order of their completion in a linear programme, solved before the run.

Tian, Tian, Dai, Wang, "Scheduling Coflows of Multi-stage Jobs to Minimize the Total Weighted Job
Completion Time" (INFOCOM'18), which is [26] in the Parrot paper.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from netsim.allocators.first import JobFirst
from netsim.allocators.lp import Ordering, ordering
from netsim.allocators.options import check_choice
from netsim.fabric.allocation import Information
from netsim.fabric.protocols import Coming
from netsim.fabric.view import FabricView
from netsim.plain import plain_numbers
from netsim.ties import merge_equal

#: Largest relative violation of a constraint: the bound is below the LP's optimum by as much.
_TOLERANCE = 1e-3


@dataclass(slots=True)
class _Plan:
    """The place of each job in the order, and the bound on the sum of weighted JCTs in seconds."""

    place: NDArray[np.int64] | None = None
    bound_s: float = math.nan


@plain_numbers
@dataclass(frozen=True)
class LPOrder(JobFirst):
    """Jobs in the order of a linear programme over all jobs, which it knows before the run.

    The LP minimises the weighted sum of the completion times of jobs. A job completes when all its
    coflows have, and weighs as much as the heaviest of them. Jobs keep their places to the end;
    within a job, coflows are in order of validity.

    Parameters
    ----------
    work_conservation : {"greedy", "none", "capped", "shared_uniform", "maxmin"}
        Shares of the jobs after the first; see `netsim.allocators.first.serve_first`.
    relaxation : {"jobs", "coflows"}
        What the LP orders. ``"jobs"``: jobs as a whole, each at least its time alone after its
        arrival. ``"coflows"``: also the coflows of all stages and iterations, each at least its
        computation and its Gamma after those that it waits for. The bound is tighter, and takes
        far longer: minutes for a few hundred wide coflows.

    Notes
    -----
    The variables are completion times C. For every link and every set S of coflows, with d the
    seconds that a coflow needs on the link, ``sum(d*C) >= (sum(d)**2 + sum(d**2)) / 2`` over S
    holds in any schedule, since a link serves one second per second (Queyranne, 1993); C counts
    from the time at which the first of S can begin. So it does for jobs, with d that of all coflows
    of a job; both relaxations have the constraints of jobs.
    With the constraints of dependencies and arrivals, the optimum is a lower bound; constraints are
    added until none is violated by more than 0.1 %. A run has it in its summary, less the arrivals,
    as ``weighted_jct_bound_s``.

    On M equal machines, if jobs do not compute, the weighted sum of completion times is at most
    2 M + 1 times the LP's optimum. The jobs up to the k-th in order have arrived by some time r,
    which is at most C_k. Until all of them are complete, the first that is not has an
    active coflow, whose Gamma falls by a second per second. So they are complete at
    r + sum(Gamma). Gamma is at most the seconds of a coflow on all senders together, and for each
    sender, the constraint of these jobs, with C <= C_k, says that C_k is at least half of the sum
    of their seconds: sum(Gamma) <= 2 M C_k.

    The paper's own algorithm was not followed step by step: which of several coflows of a job goes
    first, and which gets the bandwidth left over, is as for other policies here.
    """

    relaxation: str = "jobs"
    _plan: _Plan = field(default_factory=_Plan, init=False, repr=False, compare=False)

    information: ClassVar[Information] = "job-clairvoyant"
    plans_ahead: ClassVar[bool] = True
    needs_extra: ClassVar[tuple[str, str] | None] = ("scipy", "ilp")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("relaxation", self.relaxation, ("coflows", "jobs"))

    def prepare(self, coming: Coming) -> None:
        """Solve the LP; see `Allocator.prepare`."""
        solved = (_of_jobs if self.relaxation == "jobs" else _of_coflows)(coming)
        finish = solved.finish[-len(coming.weight):]
        order = np.argsort(merge_equal(finish), kind="stable")
        self._plan.place = np.argsort(order)
        self._plan.bound_s = solved.bound - float(coming.weight @ coming.arrival_s)

    @property
    def counts(self) -> Mapping[str, float]:
        """The LP's lower bound on the weighted sum of JCTs, in seconds."""
        return {"weighted_jct_bound_s": self._plan.bound_s}

    def in_order(self, view: FabricView) -> NDArray[np.int64]:
        """The coflows in order of their jobs; by arrival if it was not prepared."""
        place = self._plan.place
        return np.argsort(view.job if place is None else place[view.job], kind="stable")


def _of_jobs(coming: Coming) -> Ordering:
    """Solve the LP of jobs as a whole."""
    jobs = coming.jobs()
    return ordering(jobs.earliest_s, coming.weight, jobs.owner, jobs.link, jobs.seconds,
                    begin=jobs.begin_s, tolerance=_TOLERANCE)


def _of_coflows(coming: Coming) -> Ordering:
    """Solve the LP of steps and, after them, jobs; links count once for steps, once for jobs."""
    steps, jobs = coming.coflows(), coming.jobs()
    count = len(steps.job)
    links = int(jobs.link.max(initial=-1)) + 1
    join = np.concatenate
    return ordering(
        join((steps.earliest_s, jobs.earliest_s)), join((np.zeros(count), coming.weight)),
        join((steps.owner, jobs.owner + count)), join((steps.link, jobs.link + links)),
        join((steps.seconds, jobs.seconds)), join((steps.child, steps.job + count)),
        join((steps.parent, np.arange(count))), join((steps.gap_s, np.zeros(count))),
        join((steps.begin_s, jobs.begin_s)), _TOLERANCE)
