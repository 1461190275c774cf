"""Policies that serve coflows or flows in order of a key, with backfill, and those of CoflowSim.

FIFO, shortest, lightest and narrowest coflow first, and smallest effective bottleneck first are
from Chowdhury, Zhong, Stoica, "Efficient Coflow Scheduling with Varys" (SIGCOMM'14). Sincronia is
Agarwal et al., "Sincronia: Near-Optimal Network Design for Coflows" (SIGCOMM'18). CoflowSim is the
simulator of Varys and Aalo, and most published averages on the Facebook trace are its results;
presets of `netsim.allocators.ALLOCATORS` have its schemes by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from netsim.allocators.options import Standing, reorders
from netsim.base.arrays import Floats, Ints
from netsim.base.compiling import inlined
from netsim.base.values import as_choice
from netsim.fabric.allocation import Allocation, Event, Information, PriorityService
from netsim.fabric.allocator import Allocator, compiled
from netsim.fabric.records import DUST
from netsim.fabric.rule import Rule
from netsim.fabric.view import FabricView
from netsim.ties import rank


# --- as in CoflowSim -----------------------------------------------------------------------
@dataclass(frozen=True)
class EqualSplit(Allocator):
    """Split each link equally among its flows, wasting unused parts: CoflowSim's "FAIR".

    A flow sends at the smallest part that it gets on its links. With equal ports, this is
    min(1/n_src, 1/n_dst) of a port, where n_src and n_dst are the numbers of flows at its two
    ports. This is not max-min fairness: bandwidth that a flow cannot use is not redistributed.
    """

    information: ClassVar[Information] = "agnostic"
    leftover = "none"

    def allocate(self, view: FabricView) -> Allocation:
        """Give each flow its smallest part over its links; see `Allocator.allocate`."""
        rates, _ = view.split(np.arange(len(view)), together=True)
        return Allocation(rates)


def refill(view: FabricView, rates: Floats, left: Floats) -> Floats:
    """Raise rates by CoflowSim's work conservation; `left` is the remaining capacity of each link.

    Both are in bytes per second.

    First, each link splits its remaining capacity equally, in one pass, among the flows of all
    coflows that have no rate yet. Then, coflow by coflow in order of arrival, each flow takes all
    that its links have left.
    """
    skipped = np.flatnonzero(np.bincount(view.coflow, rates, len(view)) == 0)
    rates, left = view.split(skipped, left, rates, together=True)
    rates, _ = view.greedy_flows(np.arange(view.flows), left, rates)
    return rates


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


def in_order_of_arrival(view: FabricView) -> Ints:
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

    _order: Standing[Ints] = field(default_factory=Standing, init=False, repr=False,
                                   compare=False)

    wakes_on: ClassVar[Event] = Event.COFLOW

    def __post_init__(self) -> None:
        as_choice(self.work_conservation, "work_conservation",
                  ("coflowsim", "greedy", "maxmin", "none"))
        as_choice(self.decisions, "decisions", ("coflow", "flow"))
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

    def keys(self, view: FabricView) -> Floats:
        """A number per coflow: the least is served first; ties go by arrival, then id."""
        raise NotImplementedError(f"{type(self).__name__} must implement keys")

    def in_order(self, view: FabricView) -> Ints:
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
    """First in, first out: coflows by arrival, then id.

    Parameters
    ----------
    work_conservation, decisions
        As for `SEBF`.
    """

    by_key = by_arrival.base_rule

    def keys(self, view: FabricView) -> Floats:
        """0 for each coflow, as ties go by arrival."""
        return np.zeros(len(view))


@dataclass
class _Sized(Ordered):
    """Base of policies by size, at release (``key = "original"``) or now (``"remaining"``)."""

    key: str = "original"

    def __post_init__(self) -> None:
        super().__post_init__()
        as_choice(self.key, "key", ("original", "remaining"))


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
        return by_longest_flow.base_rule if self.key == "original" else None

    def keys(self, view: FabricView) -> Floats:
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
        return (by_total if self.key == "original" else by_remaining).base_rule

    def keys(self, view: FabricView) -> Floats:
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
        as_choice(self.width, "width", ("flows", "ports"))

    @property
    def by_key(self) -> Rule | None:
        if self.width == "ports":
            return None
        return (by_unfinished_flows if self.key == "remaining" else by_flows).base_rule

    def keys(self, view: FabricView) -> Floats:
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
        ``"coflowsim"``: as in CoflowSim, each link splits it equally among flows without a rate;
        then each flow takes all that is left, in order of arrival of coflows.
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
        return (by_gamma if self.key == "remaining" else by_gamma_of_all).base_rule

    def keys(self, view: FabricView) -> Floats:
        """The gamma of each coflow at full capacities."""
        return view.gamma if self.key == "remaining" else view.nominal_gamma


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
    leftover = "greedy"
    work_conserving = True  # each flow grows until one of its links is full
    order_free = False  # of flows with equal remaining bytes, the first listed goes first
    compiled_rule = shortest_flows.base_rule

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
    leftover = "maxmin"
    work_conserving = True
    compiled_rule = weight_per_coflow.base_rule

    def allocate(self, view: FabricView) -> Allocation:
        """Set the weights by which the fabric shares links; see `Allocator.allocate`."""
        return Allocation(coflow_weights=view.weight)


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
    _ids: Ints | None = field(default=None, init=False, repr=False, compare=False)

    wakes_on: ClassVar[Event] = Event.COFLOW
    leftover = "greedy"
    work_conserving = True  # each flow grows until one of its links is full
    order_free = False  # the flows of a coflow are served in list order

    def __post_init__(self) -> None:
        as_choice(self.reorder, "reorder", ("arrival", "arrival+completion"))

    def allocate(self, view: FabricView) -> Allocation:
        """Give greedy rates in BSSI order; see `Allocator.allocate`."""
        sorts = view.events & (Event.COFLOW_VALID | Event.REVISIT) if self.reorder == "arrival" \
            else reorders(view.events)
        if self._ids is None or sorts:
            self._ids = view.id[view.bssi()[0]]
        place = {coflow: position for position, coflow in enumerate(self._ids.tolist())}
        order = np.argsort([place[coflow] for coflow in view.id.tolist()], kind="stable")
        return Allocation(service=PriorityService(order, backfill="greedy"))
