"""Per-flow max-min fairness: what an ideal transport gives without a coflow scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from netsim.allocators.options import check_choice
from netsim.fabric.allocation import Allocation, Event, Information
from netsim.fabric.allocator import Allocator
from netsim.fabric.view import FabricView

__all__ = ["MaxMin"]


@dataclass(frozen=True)
class MaxMin(Allocator):
    """Max-min fair sharing among all flows, coflows or not.

    Parameters
    ----------
    decisions : {"flow", "coflow"}
        Share anew whenever a flow ends, or only when a coflow becomes valid or completes
        (the Parrot paper, where a flow that has ended wastes its bandwidth until then).
    weights : {"equal", "coflow"}
        Whether flows on a full link get equal rates, or rates in proportion to their coflows'
        weights.
    """

    decisions: str = "flow"
    weights: str = "equal"

    information: ClassVar[Information] = "agnostic"
    wakes_on: ClassVar[Event] = Event.COFLOW

    def __post_init__(self) -> None:
        check_choice("decisions", self.decisions, ("coflow", "flow"))
        check_choice("weights", self.weights, ("coflow", "equal"))

    @property
    def leftover(self) -> str:
        """``"maxmin"``: that is all that it does."""
        return "maxmin"

    @property
    def work_conserving(self) -> bool:
        """True: a flow's bottleneck link is full."""
        return True

    def allocate(self, view: FabricView) -> Allocation:
        """Leave the sharing to the links; see `Allocator.allocate`."""
        equal = self.weights == "equal"
        weights = 1.0 if equal else view.weight[view.coflow]
        if self.decisions == "coflow":
            return Allocation(view.maxmin(weights))
        return Allocation(weights=weights, persistent=equal)
