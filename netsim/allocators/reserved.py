"""Static shares: a partition of the network without redistribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from netsim.base.arrays import Floats
from netsim.base.values import as_choice, as_share, convert
from netsim.errors import AllocationError
from netsim.fabric.allocation import Allocation, Event
from netsim.fabric.allocator import Allocator
from netsim.fabric.records import DUST
from netsim.fabric.view import FabricView


@dataclass(frozen=True)
class Reserved(Allocator):
    """Reserved shares: each coflow has a fixed part of every link that it uses.

    With share s, a coflow sends at s times its LP rates and takes gamma/s seconds, whatever the
    other coflows do. Its flows end together, and it uses the fraction s of its bottleneck link.
    Bandwidth left over is not allocated. This models a slice of the network per tenant, or papers
    in which a job with x of a server's g GPUs owns the part x/g of its NIC.

    Parameters
    ----------
    shares : float, "weight" or "gpus"
        Share of every coflow, in (0, 1]. With ``"weight"``, it is the weight of the coflow
        (`netsim.Stage.weight`), which must be in (0, 1]. With ``"gpus"``, on a `netsim.Cluster`,
        it follows from the parts of NICs that belong to the GPUs that send and receive, 1/g each
        on a server with g GPUs; on other networks, ``"gpus"`` is the same as ``"weight"``.

    Notes
    -----
    If the shares of the coflows that use a link add up to more than 1, an `AllocationError` is
    raised even if their rates would fit, as each coflow must be able to use its share. With
    ``"gpus"``, a coflow may have different parts of different NICs; the smallest one, relative to
    its bytes there, determines its share. The error is then raised only if rates do not fit. Rates
    of models fit, as their stages exchange in turn (`netsim.cluster.placed.placed_model`), except
    for groups of experts in a synchronous pipeline.
    """

    shares: float | str = 0.1

    wakes_on: ClassVar[Event] = Event.COFLOW
    leftover = "none"

    def __post_init__(self) -> None:
        if isinstance(self.shares, str):
            as_choice(self.shares, "shares", ("weight", "gpus", "a number in (0, 1]"))
        else:
            convert(self, shares=as_share)

    @property
    def reserves_gpus(self) -> bool:
        """Whether coflows have the parts of NICs that belong to their GPUs: with ``"gpus"``."""
        return self.shares == "gpus"

    def allocate(self, view: FabricView) -> Allocation:
        """Check that the shares fit, and give them to the coflows; see `Allocator.allocate`."""
        shares = view.weight if isinstance(self.shares, str) else np.full(len(view), self.shares)
        if self.reserves_gpus:
            _check_rates(view, shares)
        else:
            _check_shares(view, shares)
        return Allocation(shares=shares)


def _check_shares(view: FabricView, shares: Floats) -> None:
    """Check that shares add up to at most 1 on each link."""
    reserved = view.link_shares(shares)
    link = int(np.argmax(reserved))
    if reserved[link] > 1 + DUST:
        raise AllocationError(
            f"allocator reserved at t = {view.now:g} s: the coflows that use link {link} have "
            f"the shares {_listed(view, shares, link)}, which add up to more than 1")


def _check_rates(view: FabricView, shares: Floats) -> None:
    """Check that no link carries more than its capacity."""
    load, capacity = view.link_load(view.lp_rates(shares)), view.capacity
    used = np.divide(load, capacity, out=np.zeros_like(load), where=capacity > 0)
    link = int(np.argmax(used))
    if used[link] > 1 + DUST:
        raise AllocationError(
            f"allocator reserved at t = {view.now:g} s: the parts of link {link} of the GPUs add "
            f"up to {used[link]:.9g}, by the shares {_listed(view, shares, link)} of its coflows, "
            "but must not exceed 1: ports of the network must be as fast as NICs (each of a "
            "server's g GPUs has 1/g of one), and the network must carry the traffic of all ports")


def _listed(view: FabricView, shares: Floats, link: int) -> str:
    """Format the shares of the coflows on a link; at most five of them."""
    ptr, links = view.paths
    using = np.unique(np.repeat(view.coflow, np.diff(ptr))[links == link])
    more = f" and {len(using) - 5} more" if len(using) > 5 else ""
    return ", ".join(f"{share:g}" for share in shares[using[:5]]) + more
