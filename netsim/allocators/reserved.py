"""Static shares: what a partition of the network gives, with nothing redistributed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from netsim.allocators.options import check_choice
from netsim.checks import is_number
from netsim.errors import AllocationError, InputError
from netsim.fabric.allocation import Allocation, Event
from netsim.fabric.allocator import Allocator
from netsim.fabric.records import DUST
from netsim.fabric.view import FabricView

__all__ = ["Reserved"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Reserved(Allocator):
    """Reserved shares: each coflow has its own part of every link that it uses.

    At a share s a coflow sends at s times its LP rates, and takes gamma/s seconds whatever others
    do: its flows end together, its effective bottleneck is used up to s, and nothing that is left
    goes to anybody. A slice of the network per tenant; or the model of papers that reserve part
    of a NIC for each job, such as x of a server's g GPUs.

    Parameters
    ----------
    shares : float, "weight" or "gpus"
        The share of every coflow, in (0, 1]; or ``"weight"``, each coflow's own: its weight
        (`netsim.Stage.weight`), which must then be in (0, 1] too; or ``"gpus"``, on a
        `netsim.Cluster`: the part of NICs that those of the job's GPUs have that send and receive,
        1/g each on a server of g GPUs. Elsewhere that is as ``"weight"``.

    Notes
    -----
    A reservation is refused, with an `AllocationError`, where the shares of the coflows that use
    a link add up to more than 1, even if their rates would fit: a share is there to be used. By
    ``"gpus"`` a coflow has another part of each NIC, of which its share is what the scarcest one
    lets it have; there it is refused where rates do not fit. Those of models fit, as their stages
    exchange in turn (`netsim.cluster.placed.placed_model`), but for groups of experts of a
    synchronous pipeline.
    """

    shares: float | str = 0.1

    wakes_on: ClassVar[Event] = Event.COFLOW

    def __post_init__(self) -> None:
        if isinstance(self.shares, str):
            check_choice("shares", self.shares, ("weight", "gpus", "a number in (0, 1]"))
        elif not (is_number(self.shares) and 0 < self.shares <= 1):
            raise InputError(f"shares must be in (0, 1], 'weight' or 'gpus', not "
                             f"{self.shares!r}")

    @property
    def reserves_gpus(self) -> bool:
        """Whether coflows have the part of NICs that their GPUs have: by ``"gpus"``."""
        return self.shares == "gpus"

    @property
    def leftover(self) -> str:
        """``"none"``: nobody gets it."""
        return "none"

    def allocate(self, view: FabricView) -> Allocation:
        """Return the shares; see `Allocator.allocate`.

        Raises
        ------
        AllocationError
            If the coflows on a link have more than the whole of it.
        """
        shares = view.weight if isinstance(self.shares, str) else np.full(len(view), self.shares)
        if self.reserves_gpus:
            _check_rates(view, shares)
        else:
            _check_shares(view, shares)
        return Allocation(shares=shares)


def _check_shares(view: FabricView, shares: Floats) -> None:
    """Refuse shares that add up to more than 1 on a link."""
    reserved = view.link_shares(shares)
    link = int(np.argmax(reserved))
    if reserved[link] > 1 + DUST:
        raise AllocationError(
            f"allocator reserved at t = {view.now:g} s: the coflows that use link {link} have "
            f"the shares {_listed(view, shares, link)}, which add up to more than 1")


def _check_rates(view: FabricView, shares: Floats) -> None:
    """Refuse shares at which a link would carry more than it can."""
    load, capacity = view.link_load(view.lp_rates(shares)), view.capacity
    used = np.divide(load, capacity, out=np.zeros_like(load), where=capacity > 0)
    link = int(np.argmax(used))
    if used[link] > 1 + DUST:
        raise AllocationError(
            f"allocator reserved at t = {view.now:g} s: what GPUs have of link {link} adds up to "
            f"{used[link]:.9g} of it, by the shares {_listed(view, shares, link)} of its coflows; "
            "it can be at most 1: GPUs have 1/g of a server's NIC, of as many bytes per second as "
            "the network's ports, and a network behind those that carries all of it")


def _listed(view: FabricView, shares: Floats, link: int) -> str:
    """Return the shares of the coflows on a link as text."""
    ptr, links = view.paths
    using = np.unique(np.repeat(view.coflow, np.diff(ptr))[links == link])
    more = f" and {len(using) - 5} more" if len(using) > 5 else ""
    return ", ".join(f"{share:g}" for share in shares[using[:5]]) + more
