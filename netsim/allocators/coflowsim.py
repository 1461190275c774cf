"""What the public simulator CoflowSim does where it differs from the papers.

It is the simulator of Varys and Aalo, and most published averages on the Facebook trace are
its own. Presets of `netsim.allocators.ALLOCATORS` have its schemes by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from netsim.fabric.allocation import Allocation, Information
from netsim.fabric.allocator import Allocator
from netsim.fabric.view import FabricView, Floats

__all__ = ["EqualSplit", "refill"]


@dataclass(frozen=True)
class EqualSplit(Allocator):
    """Equal parts of each link to the flows on it, the unused ones wasted: CoflowSim's "FAIR".

    A flow sends at the least part of its links, min(1/n_src, 1/n_dst) on a switch of equal
    ports. Not max-min: what a flow cannot use of a link is not given to the others.
    """

    information: ClassVar[Information] = "agnostic"

    @property
    def leftover(self) -> str:
        """``"none"``: nobody gets it."""
        return "none"

    def allocate(self, view: FabricView) -> Allocation:
        """Return the least part of each flow's links; see `Allocator.allocate`."""
        rates, _ = view.split(np.arange(len(view)), together=True)
        return Allocation(rates)


def refill(view: FabricView, rates: Floats, left: Floats) -> Floats:
    """Return the rates after CoflowSim's work conservation.

    First the links split what is left equally, in one pass, among the flows of all coflows that
    have nothing yet; then all flows take what is left greedily, coflows in order of arrival.

    Parameters
    ----------
    view : FabricView
    rates : ndarray of float, shape (F,)
        What has been given away already.
    left : ndarray of float, shape (L,)
        What is left of the links.
    """
    skipped = np.flatnonzero(np.bincount(view.coflow, rates, len(view)) == 0)
    rates, left = view.split(skipped, left, rates, together=True)
    rates, _ = view.greedy_flows(np.arange(view.flows), left, rates)
    return rates
