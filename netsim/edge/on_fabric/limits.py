"""The allocator of an edge-cloud's fabric, which reduces the user's rates to those used."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from netsim.edge.setting import Floats, Ints
from netsim.errors import AllocationError
from netsim.fabric.allocation import Allocation, Information
from netsim.fabric.allocator import Allocator
from netsim.fabric.records import DUST
from netsim.fabric.view import FabricView


class RateCappedAllocator(Allocator):
    """Calls another allocator at every event, including ends of flows, and reduces its rates.

    ``use(limit, rates)`` takes the number of the limit of each flow (see `PerFlowCapNetwork`) and
    its allocated rate, and returns the rate that each flow uses, which is not higher; `first` is
    the number of the link that is limit 0. With `check`, allocated rates that are infeasible are
    reported even if the rates used are feasible.
    """

    def __init__(self, inner: Allocator, use: Callable[[Ints, Floats], Floats], first: int,
                 check: bool) -> None:
        self._inner, self._use, self._first, self._check = inner, use, first, check
        self.information: Information = inner.information  # type: ignore[misc]

    @property
    def inner(self) -> Allocator:
        """The allocator that decides."""
        return self._inner

    @property
    def title(self) -> str:
        return self._inner.title

    @property
    def counts(self) -> Mapping[str, float]:
        return self._inner.counts

    def allocate(self, view: FabricView) -> Allocation:
        """Ask the inner allocator for rates, and return the rates that flows use."""
        given = self._inner.allocate(view)
        if not isinstance(given, Allocation):
            return given
        rates = view.rates(given)
        if rates.shape != (view.flows,) or not self._feasible(given, rates, view):
            return given  # the fabric raises the error
        ptr, links = view.paths
        used = self._use(links[ptr[1:] - 1] - self._first, rates)
        revisit_at = given.revisit_at
        if given.service is not None and np.isfinite(given.service.limit).any():
            revisit_at = min(revisit_at, float(view.crossings(given.service.limit, used).min()))
        if not revisit_at > view.now:
            raise AllocationError(f"allocator {self.title} asks to be woken at {revisit_at!r} s, "
                                  f"which is not after now, {view.now!r} s")
        return Allocation(used, revisit_at=revisit_at, note=given.note)

    def _feasible(self, given: Allocation, rates: Floats, view: FabricView) -> bool:
        """Whether the links can carry the rates given; always True without `check`."""
        if not self._check or (given.rates is None and given.shares is None):
            return True
        carried = view.link_load(rates) <= view.capacity * (1 + DUST)
        return bool((rates >= 0).all() and carried.all())
