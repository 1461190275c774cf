"""Max-min fairness of flows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from netsim.base.values import as_choice
from netsim.fabric.allocation import Allocation, Event, Information
from netsim.fabric.allocator import Allocator
from netsim.fabric.view import FabricView


@dataclass(frozen=True)
class MaxMin(Allocator):
    """Max-min fair sharing among all flows, regardless of coflows.

    Parameters
    ----------
    decisions : {"flow", "coflow"}
        Whether rates are computed whenever a flow ends, or only when a coflow becomes valid or
        completes (as in the Parrot paper, so that the bandwidth of a flow that has ended is idle
        until then).
    weights : {"equal", "coflow"}
        Whether flows on a full link get equal rates, or rates in proportion to the weights of
        their coflows.
    """

    decisions: str = "flow"
    weights: str = "equal"

    information: ClassVar[Information] = "agnostic"
    wakes_on: ClassVar[Event] = Event.COFLOW
    leftover = "maxmin"
    work_conserving = True

    def __post_init__(self) -> None:
        as_choice(self.decisions, "decisions", ("coflow", "flow"))
        as_choice(self.weights, "weights", ("coflow", "equal"))

    @property
    def by_flow_alone(self) -> bool:  # type: ignore[override]
        """True where all flows have one weight."""
        return self.weights == "equal"

    def allocate(self, view: FabricView) -> Allocation:
        """Set the weights by which the fabric shares links; see `Allocator.allocate`."""
        equal = self.weights == "equal"
        weights = 1.0 if equal else view.weight[view.coflow]
        return Allocation(weights=weights, decisions=self.decisions, persistent=equal)
