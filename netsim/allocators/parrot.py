"""Parrot: coflow scheduling for DML jobs without knowledge of their length.

Li, Chen, Li, Qi, Xu, Zhang, "Efficient Online Scheduling for Coflow-aware Machine Learning
Clusters". Numbers of sections, equations and steps are those of the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from netsim.allocators.options import Standing
from netsim.base.arrays import Floats, Ints
from netsim.base.compiling import in_place, inlined
from netsim.base.values import as_choice, as_number, convert, known_names
from netsim.fabric.allocation import Allocation, Event
from netsim.fabric.allocator import Allocator, compiled
from netsim.fabric.rule import Rule
from netsim.fabric.view import FabricView
from netsim.ties import EQUAL, merge_equal

WORK_CONSERVATION = ("backfill", "none", "per_flow", "uniform")


#: Allocation of bandwidth left over: a rule's `stretch`, and whether more is then given in order.
_REST = {"backfill": ("all", 1.0), "none": ("none", 0.0), "uniform": ("all", 0.0)}


@inlined
def _sum_attained(coflows: Any, jobs: Any, order: Any) -> Any:
    """Order jobs by bytes sent per completed coflow, then by bytes sent.

    Returns the sum of the bytes, and whether a job has several active coflows.
    """
    total = 0.0
    overlaps = False
    for c in range(len(coflows)):
        job = jobs[coflows[c].job]
        order.key[c] = job.attained / job.completed if job.completed > 0 else np.inf
        order.tie[c] = job.attained
        total += job.attained
        overlaps |= job.active > 1
    return total, overlaps


@inlined
def _first(coflows: Any, order: Any) -> Any:
    """The job that comes first in order."""
    first = 0
    for c in range(1, len(coflows)):
        if (order.key[c] < order.key[first]
                or (order.key[c] == order.key[first]
                    and (order.tie[c] < order.tie[first]
                         or (order.tie[c] == order.tie[first]
                             and coflows[c].job < coflows[first].job)))):
            first = c
    return coflows[first].job


@in_place
def _merge_equal(values: Any, order: Any) -> None:
    """Merge equal values as `netsim.ties.merge_equal` does, in place; `order` is scratch space."""
    for c in range(len(values)):
        at = c
        while at > 0 and values[order[at - 1]] > values[c]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = c
    least = last = values[order[0]]
    for c in order:
        now = values[c]
        if now != last and not now - last <= EQUAL * min(now, last):
            least = now
        last, values[c] = now, least


@inlined
def _rank(coflows: Any, jobs: Any, place: Any, longest: Any) -> None:
    """Count in `place` how many coflows go before each by the rule of Section 7.

    Also stores, in `longest`, the gamma of the longest coflow of each coflow's job.
    """
    valid, gamma = np.empty(len(coflows)), np.empty(len(coflows))
    for c in range(len(coflows)):
        longest[c] = jobs[coflows[c].job].longest_gamma
        valid[c], gamma[c] = coflows[c].valid_s, coflows[c].gamma
    sorted_by = np.empty(len(coflows), np.int64)
    for values in (longest, valid, gamma):
        _merge_equal(values, sorted_by)
    for c in range(len(coflows)):
        row = coflows[c]
        for earlier in range(c):
            other = coflows[earlier]
            if longest[c] != longest[earlier]:
                first = longest[c] < longest[earlier]
            elif row.job != other.job:
                first = row.job < other.job
            elif valid[c] != valid[earlier]:
                first = valid[c] > valid[earlier]
            elif gamma[c] != gamma[earlier]:
                first = gamma[c] > gamma[earlier]
            else:
                first = row.order < other.order
            place[earlier if first else c] += 1.0


@compiled(options={"theta_max": 0.9, "backfill": 1.0}, stretch="all",
          notes={"theta": float, "job": int})
def shortest_inferred(coflows: Any, jobs: Any, now: float, order: Any) -> None:
    """Give theta to the job that is inferred to be shortest, see `Parrot`."""
    count = len(coflows)
    attained, overlaps = _sum_attained(coflows, jobs, order)
    if overlaps:
        order.key[:] = 0.0
        _rank(coflows, jobs, order.key, order.tie)
        return
    theta = 1.0
    if count > 1:
        theta = min(order.options[0],
                    (1.0 / count) ** (1.0 / (math.log(attained + 1.0) + 1.0)))
    order.share[:] = (1.0 - theta) / max(count - 1, 1)
    order.share[0] = theta
    if order.options[1] == 0.0:
        order.most[:] = 0.0
    order.note[0] = theta
    order.note[1] = _first(coflows, order)


@known_names
@dataclass(frozen=True)
class Parrot(Allocator):
    """Parrot: most bandwidth goes to the job inferred to be shortest (LPCAS), the rest is shared.

    The job that has sent the fewest bytes per completed coflow is taken for the one with the
    shortest remaining time (Def. 5). It gets the share theta (Eq. 10) of its LP rates, and the n-1
    other jobs get the share (1-theta)/(n-1) of their LP rates (Eq. 11).

    Parameters
    ----------
    theta_max : float
        Largest share of the inferred job; in [0.5, 1).
    work_conservation : {"backfill", "none", "per_flow", "uniform"}
        Allocation of bandwidth left over (Algorithm 1, step 10). ``"uniform"`` is the literal
        step: all rates are multiplied by the largest common factor that fits. ``"backfill"`` does
        the same, and then offers the remaining bandwidth to jobs in order, up to their LP rates.
        ``"per_flow"`` multiplies the rate of each flow by its own largest factor. ``"none"`` leaves
        the bandwidth idle (Parrot-wo-WC).

    Notes
    -----
    If a job has several active coflows (computation overlapped with communication), the rule of
    Section 7 replaces Algorithm 1: coflows are served greedily in an order. The job whose longest
    coflow has the smallest effective bottleneck comes first. Within a job, the latest coflow comes
    first, and of equally late coflows, the one that takes longer, then the earlier one in the job.
    Times within 1e-9 of each other are equal.

    Step 3 of Algorithm 1 says "sort non-increasingly", but the text of the paper, and this class,
    put the least first. Attained service is rounded to whole bytes, so that floating-point noise
    does not decide ties, which go to the earlier arrival, then id.
    """

    theta_max: float = 0.9
    work_conservation: str = "backfill"
    _decided: Standing[tuple[Ints, float]] = field(
        default_factory=Standing, init=False, repr=False, compare=False)

    # Theta takes the logarithm of bytes.
    scale_free: ClassVar[bool] = False
    wakes_on: ClassVar[Event] = Event.COFLOW

    def __post_init__(self) -> None:
        convert(self, work_conservation=partial(as_choice, choices=WORK_CONSERVATION),
                theta_max=partial(as_number, least=0.5, below=1))

    @property
    def compiled_rule(self) -> Rule | None:
        """The policy as a compiled rule; None if each flow is stretched by its own factor."""
        if self.work_conservation == "per_flow":
            return None
        stretch, backfill = _REST[self.work_conservation]
        return replace(shortest_inferred.base_rule, stretch=stretch,
                       options={"theta_max": self.theta_max, "backfill": backfill})

    def allocate(self, view: FabricView) -> Allocation:
        """Serve each job at its share of its LP rates; see `Allocator.allocate`."""
        order, theta = self._decided.at(view, self._decide)
        if view.jobs < len(view):
            return Allocation(shares=view.greedy(order))
        shares = np.full(len(view), (1 - theta) / max(len(view) - 1, 1))
        shares[order[0]] = theta
        note = {"theta": theta, "job": int(view.job[order[0]])}
        if self.work_conservation == "per_flow":
            return Allocation(view.stretch_flows(view.lp_rates(shares)), note=note)
        if self.work_conservation == "none":
            return Allocation(shares=shares, note=note)
        # Coflows that need a failed link cannot move, and so do not limit the factor.
        moving = shares[view.gamma < np.inf]
        shares *= min(view.common_factor(shares), 1 / moving.max()) if len(moving) else 1.0
        if self.work_conservation == "backfill":
            shares = view.greedy(order, base=shares)
        return Allocation(shares=shares, note=note)

    def _decide(self, view: FabricView) -> tuple[Ints, float]:
        """Decide on the order of the coflows, and on the share of the first."""
        if view.jobs < len(view):
            return _overlap_order(view), 1.0
        return np.lexsort((view.job, view.job_attained, average_coflow(view))), self.theta(view)

    def theta(self, view: FabricView) -> float:
        """The share of the inferred job (Eq. 10); 1 if it is alone."""
        if len(view) == 1:
            return 1.0
        attained = float(view.job_attained.sum())
        return min(self.theta_max, (1 / len(view)) ** (1 / (math.log(attained + 1) + 1)))


def average_coflow(view: FabricView) -> Floats:
    """Compute bytes sent per completed coflow, A_m = S_m/Z_m (Def. 5); inf before the first."""
    completed = view.job_completed
    return np.where(completed > 0, view.job_attained / np.maximum(completed, 1), np.inf)


def _overlap_order(view: FabricView) -> Ints:
    """Sort coflows by the rule of Section 7."""
    longest, valid, gamma = map(merge_equal, (view.job_longest_gamma, view.valid_s, view.gamma))
    return np.lexsort((view.order, -gamma, -valid, view.job, longest))
