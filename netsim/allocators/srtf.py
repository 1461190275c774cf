"""Shortest remaining flow first, and max-min fairness among coflows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from netsim.allocators.ordered import count_instants, in_order_of_arrival
from netsim.fabric.allocation import Allocation, Event, Information
from netsim.fabric.allocator import Allocator
from netsim.fabric.compiled_allocator import compiled
from netsim.fabric.rule import Rule
from netsim.fabric.service import PriorityService
from netsim.fabric.view import FabricView


@compiled(gives="flows")
def shortest_flows(coflows: Any, jobs: Any, now: float, order: Any) -> None:
    """Serve flows in order of the bytes they have left; ties go by arrival."""
    count_instants(coflows, order.key)


@compiled(gives="weights", information="agnostic")
def weight_per_coflow(coflows: Any, jobs: Any, now: float, order: Any) -> None:
    """Give each coflow its weight."""
    for c in range(len(coflows)):
        order.weight[c] = coflows[c].weight


@dataclass(frozen=True)
class SRTF(Allocator):
    """Shortest remaining flow first: each flow takes all that its links have left, as in pFabric.

    Flows are in order of remaining bytes, then arrival, coflow and list position. The order is
    computed at events only. Between events, a flow may get fewer bytes left than a flow before it;
    if all ports are equal, this makes no difference.
    """

    wakes_on: ClassVar[Event] = Event.COFLOW

    @property
    def order_free(self) -> bool:
        """False: among a coflow's flows with equal remaining bytes, the first listed goes first."""
        return False

    @property
    def leftover(self) -> str:
        """``"greedy"``, as all bandwidth is allocated greedily."""
        return "greedy"

    @property
    def work_conserving(self) -> bool:
        """True: each flow grows until one of its links is full."""
        return True

    @property
    def compiled_rule(self) -> Rule:
        """The policy as a compiled rule; see `Allocator.compiled_rule`."""
        return shortest_flows.base_rule

    def allocate(self, view: FabricView) -> Allocation:
        """Give greedy rates in order of remaining bytes; see `Allocator.allocate`."""
        return Allocation(service=PriorityService(in_order_of_arrival(view), backfill="greedy",
                                                  by_size=True))


@dataclass(frozen=True)
class CoflowFair(Allocator):
    """Max-min fairness among coflows; the unfinished flows of a coflow share its weight.

    A flow of coflow c has the weight w_c/n_c, where n_c is the number of c's unfinished flows.
    """

    information: ClassVar[Information] = "agnostic"
    wakes_on: ClassVar[Event] = Event.COFLOW

    @property
    def leftover(self) -> str:
        """``"maxmin"``, as all bandwidth is shared max-min fairly."""
        return "maxmin"

    @property
    def work_conserving(self) -> bool:
        """True: the bottleneck link of each flow is full."""
        return True

    @property
    def compiled_rule(self) -> Rule:
        """The policy as a compiled rule; see `Allocator.compiled_rule`."""
        return weight_per_coflow.base_rule

    def allocate(self, view: FabricView) -> Allocation:
        """Set the weights by which the fabric shares links; see `Allocator.allocate`."""
        return Allocation(coflow_weights=view.weight)
