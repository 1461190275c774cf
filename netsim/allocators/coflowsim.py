"""Behaviour of the public simulator CoflowSim that differs from the papers.

CoflowSim is the simulator of Varys and Aalo, and most published averages on the Facebook trace
are its results. Presets of `netsim.allocators.ALLOCATORS` have its schemes by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from netsim.fabric.allocation import Allocation, Information
from netsim.fabric.allocator import Allocator
from netsim.fabric.view import FabricView, Floats


@dataclass(frozen=True)
class EqualSplit(Allocator):
    """Split each link equally among its flows, wasting unused parts: CoflowSim's "FAIR".

    A flow sends at the smallest part that it gets on its links. With equal ports, this is
    min(1/n_src, 1/n_dst) of a port, where n_src and n_dst are the numbers of flows at its two
    ports. This is not max-min fairness: bandwidth that a flow cannot use is not redistributed.
    """

    information: ClassVar[Information] = "agnostic"

    @property
    def leftover(self) -> str:
        """``"none"``: bandwidth left over is not allocated."""
        return "none"

    def allocate(self, view: FabricView) -> Allocation:
        """Give each flow its smallest part over its links; see `Allocator.allocate`."""
        rates, _ = view.split(np.arange(len(view)), together=True)
        return Allocation(rates)


def refill(view: FabricView, rates: Floats, left: Floats) -> Floats:
    """Raise rates by CoflowSim's work conservation; `left` is the remaining capacity of each link.

    First, each link splits its remaining capacity equally, in one pass, among the flows of all
    coflows that have no rate yet. Then, coflow by coflow in order of arrival, each flow takes all
    that its links have left.
    """
    skipped = np.flatnonzero(np.bincount(view.coflow, rates, len(view)) == 0)
    rates, left = view.split(skipped, left, rates, together=True)
    rates, _ = view.greedy_flows(np.arange(view.flows), left, rates)
    return rates
