"""Static shares: what a partition of the network gives, with nothing redistributed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from netsim.allocators.options import check_choice
from netsim.errors import AllocationError, InputError
from netsim.fabric.policy import Allocation, Allocator, Event
from netsim.fabric.records import DUST
from netsim.fabric.view import FabricView

__all__ = ["Reserved"]


@dataclass(frozen=True)
class Reserved(Allocator):
    """Reserved shares: each coflow has its own part of every link that it uses.

    At a share s a coflow sends at s times its LP rates, and takes gamma/s seconds whatever others
    do: its flows end together, its effective bottleneck is used up to s, and nothing that is left
    goes to anybody. A slice of the network per tenant; or the model of papers that reserve part
    of a NIC for each job, such as x of a server's g GPUs.

    Parameters
    ----------
    shares : float or "weight"
        The share of every coflow, in (0, 1]; or ``"weight"``, each coflow's own: its weight
        (`netsim.Stage.weight`), which must then be in (0, 1] too.

    Notes
    -----
    A reservation is refused, with an `AllocationError`, where the shares of the coflows that use
    a link add up to more than 1, even if their rates would fit: a share is there to be used.
    """

    shares: float | str = 0.1

    wakes_on: ClassVar[Event] = Event.COFLOW

    def __post_init__(self) -> None:
        if isinstance(self.shares, str):
            check_choice("shares", self.shares, ("weight", "a number in (0, 1]"))
        elif isinstance(self.shares, bool) or not (
                isinstance(self.shares, int | float) and 0 < self.shares <= 1):
            raise InputError(f"shares must be in (0, 1] or 'weight', not {self.shares!r}")

    def allocate(self, view: FabricView) -> Allocation:
        """Return the shares; see `Allocator.allocate`.

        Raises
        ------
        AllocationError
            If the coflows on a link have more than the whole of it.
        """
        shares = view.weight if self.shares == "weight" else np.full(len(view), self.shares)
        reserved = view.link_shares(shares)
        link = int(np.argmax(reserved))
        if reserved[link] > 1 + DUST:
            raise AllocationError(
                f"allocator reserved at t = {view.now:g} s: the coflows that use link {link} have "
                f"the shares {_listed(view, shares, link)}, which add up to more than 1")
        return Allocation(shares=shares)


def _listed(view: FabricView, shares: np.ndarray, link: int) -> str:
    """Return the shares of the coflows on a link as text."""
    ptr, links = view.paths
    using = np.unique(np.repeat(view.coflow, np.diff(ptr))[links == link])
    more = f" and {len(using) - 5} more" if len(using) > 5 else ""
    return ", ".join(f"{share:g}" for share in shares[using[:5]]) + more
