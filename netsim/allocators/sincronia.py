"""Sincronia: Agarwal et al., "Sincronia: Near-Optimal Network Design for Coflows" (SIGCOMM'18)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from netsim.allocators.options import check_choice, reorders
from netsim.fabric.allocation import Allocation, Event
from netsim.fabric.allocator import Allocator
from netsim.fabric.service import PriorityService
from netsim.fabric.view import FabricView


@dataclass
class Sincronia(Allocator):
    """Sincronia: coflows in BSSI order, with greedy rates of their flows.

    The order is computed by bottleneck-select-scale-iterate from the remaining bytes and the
    weights of coflows. This is the online variant that re-orders the released coflows, not the
    epoch algorithm of the paper's analysis. The offline variant results from arrivals at 0 and
    ``reorder="arrival"``.

    Parameters
    ----------
    reorder : {"arrival+completion", "arrival"}
        Events at which the order is computed.
    """

    reorder: str = "arrival+completion"
    _ids: NDArray[np.int64] | None = field(default=None, init=False, repr=False, compare=False)

    wakes_on: ClassVar[Event] = Event.COFLOW

    def __post_init__(self) -> None:
        check_choice("reorder", self.reorder, ("arrival", "arrival+completion"))

    @property
    def order_free(self) -> bool:
        """False: the flows of a coflow are served in list order."""
        return False

    @property
    def leftover(self) -> str:
        """``"greedy"``, as all bandwidth is allocated greedily."""
        return "greedy"

    @property
    def work_conserving(self) -> bool:
        """True: each flow grows until one of its links is full."""
        return True

    def allocate(self, view: FabricView) -> Allocation:
        """Give greedy rates in BSSI order; see `Allocator.allocate`."""
        anew = view.events & (Event.COFLOW_VALID | Event.REVISIT) if self.reorder == "arrival" \
            else reorders(view.events)
        if self._ids is None or anew:
            self._ids = view.id[view.bssi()[0]]
        place = {coflow: position for position, coflow in enumerate(self._ids.tolist())}
        order = np.argsort([place[coflow] for coflow in view.id.tolist()], kind="stable")
        return Allocation(service=PriorityService(order, backfill="greedy"))
