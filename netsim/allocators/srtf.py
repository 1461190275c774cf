"""Shortest remaining flow first: what pFabric approximates, blind to coflows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from netsim.fabric.allocation import Allocation, Event, Information
from netsim.fabric.allocator import Allocator
from netsim.fabric.service import PriorityService
from netsim.fabric.view import FabricView

__all__ = ["SRTF"]


@dataclass(frozen=True)
class SRTF(Allocator):
    """Shortest remaining flow first: each flow takes all that its links have left (pFabric).

    Flows by remaining bytes, then arrival, coflow and list position. Ranks are looked at when
    something happens; on equal ports a crossing in between changes nothing.
    """

    wakes_on: ClassVar[Event] = Event.COFLOW

    @property
    def order_free(self) -> bool:
        """False: of flows of a coflow with as much left, the first listed goes first."""
        return False

    @property
    def leftover(self) -> str:
        """``"greedy"``: that is all that it does."""
        return "greedy"

    @property
    def work_conserving(self) -> bool:
        """True: a flow stops growing when a link of its is full."""
        return True

    def allocate(self, view: FabricView) -> Allocation:
        """Return greedy rates in that order; see `Allocator.allocate`."""
        order = np.arange(len(view))
        return Allocation(service=PriorityService(order, backfill="greedy", by_size=True))


@dataclass(frozen=True)
class CoflowFair(Allocator):
    """Max-min fairness among coflows: a flow weighs its coflow's weight over its open flows.

    A flow of coflow c has the weight w_c/n_c, where n_c is the number of c's unfinished flows.
    """

    information: ClassVar[Information] = "agnostic"
    wakes_on: ClassVar[Event] = Event.COFLOW

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
        return Allocation(coflow_weights=view.weight)
