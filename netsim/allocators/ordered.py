"""Policies that serve coflows in order of a key at MADD rates, with backfill.

They are FIFO, shortest, lightest and narrowest coflow first, and smallest effective bottleneck
first, which is Varys: Chowdhury, Zhong, Stoica, "Efficient Coflow Scheduling with Varys"
(SIGCOMM'14).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from netsim.allocators.coflowsim import refill
from netsim.allocators.options import Standing, check_choice
from netsim.compiling import inlined
from netsim.fabric.allocation import Allocation, Event
from netsim.fabric.allocator import Allocator
from netsim.fabric.compiled_allocator import compiled
from netsim.fabric.records import DUST
from netsim.fabric.rule import Rule
from netsim.fabric.service import PriorityService
from netsim.fabric.view import FabricView
from netsim.ties import rank

# --- the keys, compiled ----------------------------------------------------------------------

#: As `netsim.ties.rank` does.
_by_key = compiled(rounding=True)


@inlined
def count_instants(coflows: Any, numbers: Any) -> None:
    """Number coflows by arrival; times within 1e-9 of the time before count as equal."""
    for c in range(1, len(coflows)):
        later = coflows[c].valid_s - coflows[c - 1].valid_s > DUST * coflows[c].valid_s
        numbers[c] = numbers[c - 1] + later


@compiled
def by_arrival(coflows: Any, jobs: Any, now: float, order: Any) -> None:
    """Order coflows by arrival."""
    count_instants(coflows, order.key)


@_by_key
def by_longest_flow(coflows: Any, jobs: Any, now: float, order: Any) -> None:
    """Order coflows by the bytes of their longest flow."""
    count_instants(coflows, order.tie)
    for c in range(len(coflows)):
        order.key[c] = coflows[c].longest


@_by_key
def by_total(coflows: Any, jobs: Any, now: float, order: Any) -> None:
    """Order coflows by their bytes."""
    count_instants(coflows, order.tie)
    for c in range(len(coflows)):
        order.key[c] = coflows[c].total


@_by_key
def by_remaining(coflows: Any, jobs: Any, now: float, order: Any) -> None:
    """Order coflows by the bytes that they have left."""
    count_instants(coflows, order.tie)
    for c in range(len(coflows)):
        order.key[c] = coflows[c].remaining


@_by_key
def by_flows(coflows: Any, jobs: Any, now: float, order: Any) -> None:
    """Order coflows by the number of their flows."""
    count_instants(coflows, order.tie)
    for c in range(len(coflows)):
        order.key[c] = coflows[c].flow_count


@_by_key
def by_unfinished_flows(coflows: Any, jobs: Any, now: float, order: Any) -> None:
    """Order coflows by the number of their unfinished flows."""
    count_instants(coflows, order.tie)
    for c in range(len(coflows)):
        order.key[c] = coflows[c].width


@_by_key
def by_gamma(coflows: Any, jobs: Any, now: float, order: Any) -> None:
    """Order coflows by the effective bottleneck of what is left of them."""
    count_instants(coflows, order.tie)
    for c in range(len(coflows)):
        order.key[c] = coflows[c].gamma


@_by_key
def by_gamma_of_all(coflows: Any, jobs: Any, now: float, order: Any) -> None:
    """Order coflows by the effective bottleneck of all their bytes."""
    count_instants(coflows, order.tie)
    for c in range(len(coflows)):
        order.key[c] = coflows[c].nominal_gamma


def in_order_of_arrival(view: FabricView) -> NDArray[np.int64]:
    """Sort the coflows by arrival, then job.

    Coflows that became valid within 1e-9 of each other, relatively, count as simultaneous, so that
    rounding does not decide.
    """
    at_once = np.cumsum(np.diff(view.valid_s, prepend=view.valid_s[:1]) > DUST * view.valid_s)
    return np.lexsort((view.job, at_once))


# --- the policies ----------------------------------------------------------------------------


@dataclass
class Ordered(Allocator):
    """Base of policies that serve coflows by a key, least first: implement `keys`.

    The order is computed when coflows become valid or complete, and when a link that they use fails
    or is repaired. In this order, each coflow gets MADD rates: remaining bytes divided by gamma,
    where gamma is computed from the capacities that are left. It gets nothing if a link that it
    needs is full. Then the remaining bandwidth is allocated; see `SEBF` for the options.
    """

    work_conservation: str = "maxmin"
    decisions: str = "flow"

    _order: Standing[NDArray[np.int64]] = field(default_factory=Standing, init=False, repr=False,
                                                compare=False)

    wakes_on: ClassVar[Event] = Event.COFLOW

    def __post_init__(self) -> None:
        check_choice("work_conservation", self.work_conservation,
                     ("coflowsim", "greedy", "maxmin", "none"))
        check_choice("decisions", self.decisions, ("coflow", "flow"))
        if self.work_conservation == "coflowsim" and self.decisions == "flow":
            # Set on the instance: the fabric cannot refill without asking the allocator.
            self.wakes_on = Event.ANY  # type: ignore[misc]

    @property
    def by_key(self) -> Rule | None:
        """The keys of the policy as a compiled rule; None if there is none."""
        return None

    @property
    def compiled_rule(self) -> Rule | None:
        """The policy as a compiled rule, if rates are decided whenever a flow ends."""
        keys = self.by_key
        if keys is None or self.work_conservation == "coflowsim" or self.decisions == "coflow":
            return None
        return replace(keys, leftover=self.work_conservation)

    @property
    def order_free(self) -> bool:
        """Whether rates are independent of the order in which a coflow lists its flows."""
        return self.work_conservation in ("maxmin", "none")

    def keys(self, view: FabricView) -> NDArray[np.float64]:
        """A number per coflow: the least is served first; ties go by arrival, then id."""
        raise NotImplementedError(f"{type(self).__name__} must implement keys")

    def in_order(self, view: FabricView) -> NDArray[np.int64]:
        """The coflows by key, then arrival, then id."""
        by_arrival = in_order_of_arrival(view)
        return by_arrival[rank(self.keys(view)[by_arrival])]

    def allocate(self, view: FabricView) -> Allocation:
        """Serve coflows at MADD rates in order, and backfill; see `Allocator.allocate`."""
        order = self._order.at(view, self.in_order)
        if self.work_conservation == "coflowsim":
            return Allocation(refill(view, *view.madd(order)))
        if self.decisions == "coflow":
            return Allocation(view.serve(PriorityService(order, primary="madd",
                                                         backfill=self.work_conservation)))
        return Allocation(order=order, leftover=self.work_conservation)


@dataclass
class FIFO(Ordered):
    """First in, first out: coflows by arrival, then id."""

    @property
    def by_key(self) -> Rule | None:
        """See `Ordered.by_key`."""
        return by_arrival.base_rule

    def keys(self, view: FabricView) -> NDArray[np.float64]:
        """0 for each coflow, as ties go by arrival."""
        return np.zeros(len(view))


@dataclass
class _Sized(Ordered):
    """Base of policies by size, at release (``key = "original"``) or now (``"remaining"``)."""

    key: str = "original"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("key", self.key, ("original", "remaining"))


@dataclass
class SCF(_Sized):
    """Shortest coflow first: by the longest flow.

    "SCF" stands for *shortest* here, as in CoflowSim and Sincronia; some texts read "smallest".

    Parameters
    ----------
    work_conservation, decisions
        As for `SEBF`.
    key : {"original", "remaining"}
        Whether sizes are those at release, or those that remain.
    """

    @property
    def by_key(self) -> Rule | None:
        """See `Ordered.by_key`."""
        return by_longest_flow.base_rule if self.key == "original" else None

    def keys(self, view: FabricView) -> NDArray[np.float64]:
        """The bytes of each coflow's longest flow."""
        if self.key == "original":
            return view.longest
        longest = np.zeros(len(view))
        np.maximum.at(longest, view.coflow, view.flow_remaining)
        return longest


@dataclass
class LCF(_Sized):
    """Lightest coflow first: by total bytes (Sincronia's TCF).

    Parameters
    ----------
    work_conservation, decisions
        As for `SEBF`.
    key : {"original", "remaining"}
        Whether bytes are those at release, or those that remain.
    """

    @property
    def by_key(self) -> Rule | None:
        """See `Ordered.by_key`."""
        return (by_total if self.key == "original" else by_remaining).base_rule

    def keys(self, view: FabricView) -> NDArray[np.float64]:
        """The bytes of each coflow."""
        return view.total if self.key == "original" else view.remaining


@dataclass
class NCF(_Sized):
    """Narrowest coflow first: by the number of flows, or of ports.

    Parameters
    ----------
    work_conservation, decisions
        As for `SEBF`.
    key : {"original", "remaining"}
        Whether all flows count, or unfinished ones only.
    width : {"flows", "ports"}
        Measure of width: the number of flows (Varys), or min(senders, receivers) (the public
        simulators).
    """

    width: str = "flows"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("width", self.width, ("flows", "ports"))

    @property
    def by_key(self) -> Rule | None:
        """See `Ordered.by_key`."""
        if self.width == "ports":
            return None
        return (by_unfinished_flows if self.key == "remaining" else by_flows).base_rule

    def keys(self, view: FabricView) -> NDArray[np.float64]:
        """The width of each coflow."""
        if self.width == "ports":
            return view.ports(unfinished=self.key == "remaining").astype(np.float64)
        widths = view.width if self.key == "remaining" else view.flow_count
        return widths.astype(np.float64)


@dataclass
class SEBF(_Sized):
    """Smallest effective bottleneck first, with MADD and backfill: Varys.

    Parameters
    ----------
    work_conservation : {"maxmin", "greedy", "none", "coflowsim"}
        Allocation of the remaining bandwidth. It is offered to all coflows in order, including
        those without MADD rates. ``"maxmin"``: the flows of a coflow share it max-min fairly.
        ``"greedy"``: the flows take all they can, in list order. ``"none"``: it is not allocated.
        ``"coflowsim"``: as in CoflowSim, see `netsim.allocators.coflowsim.refill`.
    decisions : {"flow", "coflow"}
        When rates are decided: whenever a flow ends; or, as in Varys and all public simulators with
        MADD, only when coflows become valid or complete, so that the bandwidth of a flow that has
        ended is idle until then.
    key : {"remaining", "original"}
        Whether gamma is that of the remaining bytes, or of all bytes.
    """

    key: str = "remaining"

    @property
    def by_key(self) -> Rule | None:
        """See `Ordered.by_key`."""
        return (by_gamma if self.key == "remaining" else by_gamma_of_all).base_rule

    def keys(self, view: FabricView) -> NDArray[np.float64]:
        """The gamma of each coflow at full capacities."""
        return view.gamma if self.key == "remaining" else view.nominal_gamma
