"""Policies for coflows with deadlines: admission with a guarantee, and earliest deadline first.

Chowdhury, Zhong, Stoica, "Efficient Coflow Scheduling with Varys" (SIGCOMM'14), Section 5.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from netsim.allocators.ordered import Ordered
from netsim.base.arrays import Bools, Floats
from netsim.base.values import as_choice, known_names
from netsim.fabric.allocation import Allocation, Event
from netsim.fabric.records import DUST
from netsim.fabric.view import FabricView


@known_names
@dataclass
class EDF(Ordered):
    """Earliest deadline first, with MADD and backfill; without admission, so without guarantees.

    Coflows without a deadline come last, by arrival.

    Parameters
    ----------
    work_conservation, decisions
        As for `netsim.allocators.ordered.SEBF`.
    """

    def keys(self, view: FabricView) -> Floats:
        """The deadline of each coflow; inf for none."""
        return view.deadline_s


@known_names
@dataclass
class VarysDeadline(Ordered):
    """Varys with deadlines: coflows are admitted if they can be guaranteed to meet their deadline.

    A coflow needs the rate (bytes left)/(time left) for each flow. When it becomes valid, in order
    of (arrival, id), it is admitted if all links can carry these rates in addition to those of the
    coflows admitted before. An admitted coflow gets its rates until it finishes, so it meets its
    deadline unless a capacity drops. Remaining bandwidth goes to admitted coflows, earliest
    deadline first, and then to the others, by arrival.

    Parameters
    ----------
    work_conservation : {"maxmin", "greedy", "none"}
        Allocation of the remaining bandwidth, as under ``sebf``. With ``"none"``, coflows that
        were not admitted never send: stop such a run with ``until``.
    decisions : {"flow", "coflow"}
        As for `netsim.allocators.ordered.SEBF`. With ``"coflow"`` and greedy backfill, the
        first coflow gets MADD rates if none is admitted, since some of its flows might otherwise
        never send.
    rejected : {"backfill", "drop"}
        What coflows with a deadline that were not admitted get: remaining bandwidth, as coflows
        without a deadline do; or nothing, as in the paper.

    Notes
    -----
    The numbers of ``admitted`` and ``rejected`` coflows are in the summary of a run and in the note
    of each decision. If capacities drop, admitted coflows keep their guaranteed rates, in order of
    validity, as far as these fit. Coflows that have missed their deadline are backfilled.

    Departures from the paper: coflows that are not admitted may be backfilled, and options define
    the allocation of remaining bandwidth. CoflowSim divides the bytes left by the whole time from
    validity to deadline, instead of the time left, so that coflows at guaranteed rates are late.
    """

    rejected: str = "backfill"
    _admitted: dict[int, bool] = field(default_factory=dict, init=False, repr=False, compare=False)
    _yes: int = field(default=0, init=False, repr=False, compare=False)
    _no: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        as_choice(self.work_conservation, "work_conservation", ("greedy", "maxmin", "none"))
        as_choice(self.rejected, "rejected", ("backfill", "drop"))
        super().__post_init__()
        if self.decisions == "flow":
            # Set on the instance: promised rates depend on the time left.
            self.wakes_on = Event.ANY  # type: ignore[misc]

    @property
    def work_conserving(self) -> bool:
        """Whether all coflows may use remaining bandwidth."""
        return self.work_conservation != "none" and self.rejected == "backfill"

    @property
    def stall_free(self) -> bool:
        """Whether all coflows may use remaining bandwidth; if not, some may wait forever."""
        return self.work_conserving

    @property
    def counts(self) -> Mapping[str, int]:
        """Numbers of coflows with a deadline that were admitted, and that were rejected."""
        return {"admitted": self._yes, "rejected": self._no}

    def keys(self, view: FabricView) -> Floats:
        """The deadline of each admitted coflow; inf for the others."""
        return np.where(self._is_admitted(view), view.deadline_s, np.inf)

    def allocate(self, view: FabricView) -> Allocation:
        """Serve admitted coflows at their rates, and backfill; see `Allocator.allocate`."""
        shares = self._guarantee(view)
        order = self.in_order(view)
        if self.rejected == "drop":
            served = self._is_admitted(view) | np.isinf(view.deadline_s)
            order = order[served[order]]
        if (self.decisions, self.work_conservation) == ("coflow", "greedy") and not shares.any():
            # With greedy rates its flows could wait for each other, and no coflow would ever end.
            shares[order[view.gamma[order] < np.inf][:1]] = 1.0
        rates = view.lp_rates(shares)
        left = np.maximum(view.capacity - view.link_load(rates), 0.0)
        return Allocation(view.backfill(self.work_conservation, order, left, rates),
                          note=self.counts)

    def _is_admitted(self, view: FabricView) -> Bools:
        """The mask of the admitted coflows."""
        return np.array([self._admitted[coflow] for coflow in view.id.tolist()])

    def _guarantee(self, view: FabricView) -> Floats:
        """Admit or reject new coflows; return the shares of all admitted coflows."""
        need = _needed_shares(view)
        ids = view.id.tolist()
        held = [c for c, coflow in enumerate(ids)
                if self._admitted.get(coflow) and need[c] < np.inf]
        shares = view.greedy(held, limit=need)
        known, self._admitted = self._admitted, {}
        for c, coflow in enumerate(ids):
            if coflow not in known and view.deadline_s[c] < np.inf:
                tried = view.greedy([c], limit=need, base=shares)
                known[coflow] = bool(need[c] < np.inf and tried[c] >= need[c] * (1 - DUST))
                shares = tried if known[coflow] else shares
                self._yes += known[coflow]
                self._no += not known[coflow]
            self._admitted[coflow] = known.get(coflow, False)
        return shares


def _needed_shares(view: FabricView) -> Floats:
    """Compute the share of its LP rates at which each coflow ends at its deadline.

    The share is gamma/(time left); inf without a deadline or if it can no longer be met. Shares
    that are so small that they would count as nothing are rounded up.
    """
    time_left = view.deadline_s - view.now
    possible = (time_left > 0) & (time_left < np.inf) & (view.gamma < np.inf)
    need = np.full(len(view), np.inf)
    need[possible] = np.maximum(view.gamma[possible] / time_left[possible], DUST)
    return need
