"""Policies that serve one job first: the schemes that Parrot is compared with (Section 6)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from netsim.allocators.options import Standing
from netsim.base.arrays import Ints
from netsim.base.compiling import inlined
from netsim.base.values import as_choice, convert, known_names, plain
from netsim.fabric.allocation import Allocation, Event, Information
from netsim.fabric.allocator import Allocator, compiled
from netsim.fabric.rule import Rule
from netsim.fabric.view import FabricView
from netsim.predictors import make_predictor
from netsim.ties import merge_equal

WORK_CONSERVATION = ("capped", "greedy", "maxmin", "none", "shared_uniform")

#: How flows share the bandwidth left over.
_TO_FLOWS = {"greedy": "none", "maxmin": "maxmin"}

#: Codes of the most that a rule gives other jobs in order: 0, 1/(n-1) or 1 of their LP rates.
_NOTHING, _CAPPED, _ALL = 0.0, 1.0, 2.0
_REST = {"capped": _CAPPED, "greedy": _ALL, "maxmin": _ALL, "none": _NOTHING,
         "shared_uniform": _NOTHING}


@inlined
def _serve_first(coflows: Any, order: Any) -> None:
    """Serve the first coflow that can move at share 1, and limit the others."""
    rest = order.options[0]
    if rest == _ALL:
        return
    for c in range(len(coflows)):
        if coflows[c].gamma == np.inf:
            order.key[c] = order.tie[c] = np.inf
    order.most[:] = 1.0 / max(len(coflows) - 1, 1) if rest == _CAPPED else 0.0
    order.share[0], order.most[0] = 1.0, 0.0


@compiled(options={"rest": _ALL})
def least_bytes_sent(coflows: Any, jobs: Any, now: float, order: Any) -> None:
    """Order jobs by attained service."""
    for c in range(len(coflows)):
        order.key[c] = jobs[coflows[c].job].attained
    _serve_first(coflows, order)


@compiled(options={"rest": _ALL})
def fewest_completed(coflows: Any, jobs: Any, now: float, order: Any) -> None:
    """Order jobs by the number of completed coflows, then by attained service."""
    for c in range(len(coflows)):
        job = jobs[coflows[c].job]
        order.key[c], order.tie[c] = job.completed, job.attained
    _serve_first(coflows, order)


@compiled(options={"rest": _ALL}, rounding=True, information="job-clairvoyant")
def shortest_remaining(coflows: Any, jobs: Any, now: float, order: Any) -> None:
    """Order jobs by the time for which they would still send if they were alone."""
    for c in range(len(coflows)):
        job = jobs[coflows[c].job]
        order.key[c] = job.ahead_s + job.active_gamma
    _serve_first(coflows, order)


@compiled(options={"rest": _ALL}, rounding=True, information="predicted")
def shortest_predicted(coflows: Any, jobs: Any, now: float, order: Any) -> None:
    """Order jobs by the time for which they are predicted to send if they were alone."""
    for c in range(len(coflows)):
        job = jobs[coflows[c].job]
        order.key[c] = job.predicted_s + job.active_gamma
    _serve_first(coflows, order)


def serve_first(view: FabricView, order: Ints, work_conservation: str) -> Allocation:
    """Give the first coflow that can move its LP rates, and the others the remaining bandwidth.

    `work_conservation` says which share of their LP rates the other n-1 coflows get. ``"greedy"``:
    in order, each the largest share up to 1 that still fits. ``"capped"``: the same, but up to
    1/(n-1). ``"shared_uniform"``: the largest common share. ``"none"``: nothing. ``"maxmin"``: as
    ``"greedy"``, and then, coflow by coflow in order, the flows of the coflow share remaining
    bandwidth max-min fairly. It is allocated again whenever a flow ends, as under
    `netsim.allocators.ordered.SEBF`.
    """
    if work_conservation in ("greedy", "maxmin"):
        # MADD is the largest share that still fits.
        return Allocation(order=order, leftover=_TO_FLOWS[work_conservation])
    first, count = order[np.argmax(view.gamma[order] < np.inf)], len(order)
    if work_conservation == "capped":
        limit = np.full(count, 1 / max(count - 1, 1))
        limit[first] = 1.0
        return Allocation(shares=view.greedy(order, limit))
    shares = np.zeros(count)
    shares[first] = 1.0
    if work_conservation == "shared_uniform" and count > 1:
        others = 1.0 - shares
        shares += others * min(view.common_factor(others, base=shares), 1.0)
    return Allocation(shares=shares)


@known_names
@dataclass(frozen=True)
class JobFirst(Allocator):
    """Base of policies that serve one job first; see `serve_first`."""

    work_conservation: str = "greedy"
    _order: Standing[Ints] = field(default_factory=Standing, init=False, repr=False,
                                   compare=False)

    wakes_on: ClassVar[Event] = Event.COFLOW
    by_key: ClassVar[Rule]

    def __post_init__(self) -> None:
        as_choice(self.work_conservation, "work_conservation", WORK_CONSERVATION)

    @property
    def compiled_rule(self) -> Rule:
        """The policy as a compiled rule; see `Allocator.compiled_rule`."""
        rest = self.work_conservation
        return replace(self.by_key, leftover="maxmin" if rest == "maxmin" else "none",
                       stretch="others" if rest == "shared_uniform" else "none",
                       options={"rest": _REST[rest]})

    @property
    def work_conserving(self) -> bool:
        """Whether remaining bandwidth goes to single flows rather than to whole coflows."""
        return self.work_conservation == "maxmin"

    def in_order(self, view: FabricView) -> Ints:
        """The coflows, the first to be served first."""
        raise NotImplementedError

    def allocate(self, view: FabricView) -> Allocation:
        """Serve the first job at LP rates; see `serve_first` and `Allocator.allocate`."""
        return serve_first(view, self._order.at(view, self.in_order), self.work_conservation)


@dataclass(frozen=True)
class AaloLBSF(JobFirst):
    """Least bytes sent first: the job with the least attained service gets its LP rates.

    This is the "Aalo" of the Parrot paper: D-CLAS with a queue for each job.
    Ties go to the earlier arrival, then id.

    Parameters
    ----------
    work_conservation : {"greedy", "none", "capped", "shared_uniform", "maxmin"}
        What the other n-1 jobs get of their LP rates, in order. ``"greedy"``: as much as fits.
        ``"capped"``: likewise, up to 1/(n-1). ``"shared_uniform"``: one common share, the largest
        that fits. ``"none"``: nothing. ``"maxmin"``: as ``"greedy"``, and then the flows of each
        job share max-min fairly.
    """

    by_key: ClassVar[Rule] = least_bytes_sent.base_rule

    def in_order(self, view: FabricView) -> Ints:
        """The coflows in order of their jobs."""
        return np.lexsort((view.job, view.job_attained))


@known_names
@dataclass(frozen=True)
class LCCF(JobFirst):
    """Least completed coflows first: the job with the fewest gets its LP rates.

    Ties go to the job that has sent least, then to the earlier arrival, then id.

    Parameters
    ----------
    work_conservation : {"greedy", "none", "capped", "shared_uniform", "maxmin"}
        What the other n-1 jobs get of their LP rates, in order. ``"greedy"``: as much as fits.
        ``"capped"``: likewise, up to 1/(n-1). ``"shared_uniform"``: one common share, the largest
        that fits. ``"none"``: nothing. ``"maxmin"``: as ``"greedy"``, and then the flows of each
        job share max-min fairly.
    """

    by_key: ClassVar[Rule] = fewest_completed.base_rule

    def in_order(self, view: FabricView) -> Ints:
        """The coflows in order of their jobs."""
        return np.lexsort((view.job, view.job_attained, view.job_completed))


@known_names
@dataclass(frozen=True)
class JobSRPT(JobFirst):
    """Shortest remaining job first, by knowledge of future coflows or by a prediction.

    Jobs are in order of the time for which they would still send if they were alone: the sum of
    gamma over their remaining coflows, without computation. Ties go to the earlier arrival, then
    id.

    Parameters
    ----------
    predictor : str, mapping or object, optional
        What predicts the iterations of a job, from which the sum follows, as the Parrot paper
        proposes (Section 7): an argument of `netsim.predictors.make_predictor`, which learns from
        the history of the workload. A job that sends for longer than predicted counts with its
        active coflows only. By default, the sum is known.
    work_conservation : {"greedy", "none", "capped", "shared_uniform", "maxmin"}
        What the other n-1 jobs get of their LP rates, in order. ``"greedy"``: as much as fits.
        ``"capped"``: likewise, up to 1/(n-1). ``"shared_uniform"``: one common share, the largest
        that fits. ``"none"``: nothing. ``"maxmin"``: as ``"greedy"``, and then the flows of each
        job share max-min fairly. For a comparison with policies that leave no
        link idle, such as those of `netsim.allocators.ordered`, use ``"maxmin"``.
    """

    predictor: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        convert(self, predictor=plain)
        if self.predictor is not None:
            make_predictor(self.predictor)

    @property
    def information(self) -> Information:  # type: ignore[override]
        """What the policy may see: predictions, or the future itself."""
        return "job-clairvoyant" if self.predictor is None else "predicted"

    @property
    def by_key(self) -> Rule:  # type: ignore[override]
        """The order as a compiled rule."""
        return (shortest_remaining if self.predictor is None else shortest_predicted).base_rule

    def in_order(self, view: FabricView) -> Ints:
        """The coflows in order of their jobs."""
        active = np.zeros(int(view.job.max()) + 1)
        np.add.at(active, view.job, view.gamma)
        later = view.job_ahead_s if self.predictor is None else view.job_predicted_s
        return np.lexsort((view.job, merge_equal(later + active[view.job])))
