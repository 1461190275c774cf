"""Policies that serve one job first: the schemes that Parrot is compared with (Section 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from netsim.allocators.options import check_choice
from netsim.fabric.allocation import Allocation, Event, Information
from netsim.fabric.allocator import Allocator
from netsim.fabric.service import PriorityService
from netsim.fabric.turns import Turns
from netsim.fabric.view import FabricView
from netsim.plain import plain_numbers
from netsim.ties import merge_equal

__all__ = ["LCCF", "AaloLBSF", "JobSRPT"]

WORK_CONSERVATION = ("capped", "greedy", "maxmin", "none", "shared_uniform")


def serve_first(view: FabricView, order: NDArray[np.int64], work_conservation: str, by: str
                ) -> Allocation:
    """Give the first coflow that can move its LP rates, and the others the remaining bandwidth.

    Parameters
    ----------
    view : FabricView
    order : ndarray of int, shape (coflows,)
        Coflows in the order in which they are served.
    by : str
        Name of that order; see `Turns`.
    work_conservation : {"greedy", "none", "capped", "shared_uniform", "maxmin"}
        Shares of the other coflows. ``"greedy"``: in order, each the largest share up to 1 that
        still fits; ``"capped"``: likewise, but up to 1/(n-1); ``"shared_uniform"``: the largest
        common share; ``"none"``: nothing; ``"maxmin"``: as ``"greedy"``, and then the remaining
        bandwidth goes in order to the flows of each coflow, max-min fairly, and is allocated
        again whenever a flow ends, as under `netsim.allocators.ordered.SEBF`.
    """
    if work_conservation == "maxmin":
        # MADD is the largest share that still fits.
        return Allocation(service=PriorityService(order, primary="madd", backfill="maxmin"))
    first, count = order[np.argmax(view.gamma[order] < np.inf)], len(order)
    # Turns order jobs, so they apply only if each job has a single coflow.
    turns = Turns(by, work_conservation) if view.jobs == count else None
    if work_conservation == "greedy":
        return Allocation(shares=view.greedy(order), turns=turns)
    if work_conservation == "capped":
        limit = np.full(count, 1 / max(count - 1, 1))
        limit[first] = 1.0
        return Allocation(shares=view.greedy(order, limit), turns=turns)
    shares = np.zeros(count)
    shares[first] = 1.0
    if work_conservation == "shared_uniform" and count > 1:
        others = 1.0 - shares
        shares += others * min(view.common_factor(others, base=shares), 1.0)
    return Allocation(shares=shares, turns=turns)


@plain_numbers
@dataclass(frozen=True)
class _JobFirst(Allocator):
    """Base of policies that serve one job first; see `serve_first`."""

    work_conservation: str = "greedy"

    wakes_on: ClassVar[Event] = Event.COFLOW

    def __post_init__(self) -> None:
        check_choice("work_conservation", self.work_conservation, WORK_CONSERVATION)

    @property
    def work_conserving(self) -> bool:
        """Whether remaining bandwidth goes to single flows rather than to whole coflows."""
        return self.work_conservation == "maxmin"


@dataclass(frozen=True)
class AaloLBSF(_JobFirst):
    """Least bytes sent first: the job with the least attained service gets its LP rates.

    This is the "Aalo" of the Parrot paper: D-CLAS with a queue for each job.
    Ties go to the earlier arrival, then id.

    Parameters
    ----------
    work_conservation : {"greedy", "none", "capped", "shared_uniform", "maxmin"}
        Shares of the other jobs; see `serve_first`.
    """

    def allocate(self, view: FabricView) -> Allocation:
        """Return LP rates for the first job; see `Allocator.allocate`."""
        order = np.lexsort((view.job, view.job_attained))
        return serve_first(view, order, self.work_conservation, "attained")


@plain_numbers
@dataclass(frozen=True)
class LCCF(_JobFirst):
    """Least completed coflows first: the job with the fewest gets its LP rates.

    Ties go to the job that has sent least, then to the earlier arrival, then id.

    Parameters
    ----------
    work_conservation : {"greedy", "none", "capped", "shared_uniform", "maxmin"}
        Shares of the other jobs; see `serve_first`.
    """

    def allocate(self, view: FabricView) -> Allocation:
        """Return LP rates for the first job; see `Allocator.allocate`."""
        order = np.lexsort((view.job, view.job_attained, view.job_completed))
        return serve_first(view, order, self.work_conservation, "completed")


@plain_numbers
@dataclass(frozen=True)
class JobSRPT(_JobFirst):
    """Shortest remaining job first, a clairvoyant reference with knowledge of future coflows.

    Jobs are in order of the time that they would still send for if they were alone: the sum of
    gamma over remaining coflows, without computation. Ties go to the earlier arrival, then id.

    Parameters
    ----------
    work_conservation : {"greedy", "none", "capped", "shared_uniform", "maxmin"}
        Shares of the other jobs; see `serve_first`. For a comparison with policies that leave no
        link idle, such as those of `netsim.allocators.ordered`, use ``"maxmin"``.
    """

    information: ClassVar[Information] = "job-clairvoyant"

    def allocate(self, view: FabricView) -> Allocation:
        """Return LP rates for the first job; see `Allocator.allocate`."""
        active = np.zeros(int(view.job.max()) + 1)
        np.add.at(active, view.job, view.gamma)
        order = np.lexsort((view.job, merge_equal(view.job_ahead_s + active[view.job])))
        return serve_first(view, order, self.work_conservation, "ahead")
