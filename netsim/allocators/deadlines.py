"""Coflows with deadlines: guaranteed after admission, or merely served in their order.

Chowdhury, Zhong, Stoica, "Efficient Coflow Scheduling with Varys" (SIGCOMM'14), Section 5.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from netsim.allocators.options import check_choice
from netsim.allocators.ordered import Ordered
from netsim.fabric.allocation import Allocation, Event
from netsim.fabric.records import DUST
from netsim.fabric.view import FabricView, Floats
from netsim.plain import plain_numbers
from netsim.ties import rank

__all__ = ["EDF", "VarysDeadline"]


@plain_numbers
@dataclass
class EDF(Ordered):
    """Earliest deadline first, with MADD and backfill; no admission, and so no guarantee.

    Coflows without a deadline come last, by arrival.

    Parameters
    ----------
    work_conservation, decisions
        See `Ordered`.
    """

    def keys(self, view: FabricView) -> Floats:
        """Return the deadline of each coflow; inf for none."""
        return view.deadline_s


@plain_numbers
@dataclass
class VarysDeadline(Ordered):
    """Varys with deadlines: a coflow is admitted if it can be guaranteed to be in time.

    It is asked for once, when it becomes valid, in order of (arrival, id): if beside the rates
    that the coflows admitted before need, it can have on every link what it needs itself. What a
    coflow needs is (bytes left)/(time left) for each flow, and an admitted one gets that until
    it has finished: it is always in time, unless a capacity drops. The rest of the links goes to
    the admitted, the earliest deadline first, and then to the others, by arrival.

    Parameters
    ----------
    work_conservation : {"maxmin", "greedy", "none"}
        Who gets that rest, see `Ordered`. With ``"none"``, coflows that were not admitted never
        send: stop such a run with ``until``.
    decisions : {"flow", "coflow"}
        See `Ordered`. With ``"coflow"`` and a greedy rest, the first coflow gets MADD rates where
        nobody is admitted, as if it were: otherwise some of its flows may never send.
    rejected : {"backfill", "drop"}
        What becomes of coflows with a deadline that were not admitted: they get what is left, as
        do those without one; or they never send, as in the paper.

    Notes
    -----
    The summary of a run counts the ``admitted`` and the ``rejected``, as does the note of each
    decision. Capacity drops may break guarantees: they hold in order of validity as far as they
    fit, and what has missed its deadline is backfilled.

    Departures from the paper: coflows that are not admitted may be backfilled; who gets what is
    left is said. CoflowSim goes on dividing the bytes left by the whole deadline, rather than by
    what is left of it, so that coflows with the rates that they were promised are late there.
    """

    rejected: str = "backfill"
    _admitted: dict[int, bool] = field(default_factory=dict, init=False, repr=False, compare=False)
    _yes: int = field(default=0, init=False, repr=False, compare=False)
    _no: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_choice("work_conservation", self.work_conservation, ("greedy", "maxmin", "none"))
        super().__post_init__()
        check_choice("rejected", self.rejected, ("backfill", "drop"))
        if self.decisions == "flow":
            # An instance's own: what is promised depends on what is left of the time.
            self.wakes_on = Event.ANY  # type: ignore[misc]

    @property
    def work_conserving(self) -> bool:
        """Whether everybody may have what is left."""
        return self.work_conservation != "none" and self.rejected == "backfill"

    @property
    def stall_free(self) -> bool:
        """Whether all coflows may use bandwidth left over; else those refused wait for ever."""
        return self.work_conserving

    @property
    def counts(self) -> Mapping[str, int]:
        """How many coflows were admitted, and how many with a deadline were not."""
        return {"admitted": self._yes, "rejected": self._no}

    def keys(self, view: FabricView) -> Floats:
        """Return the deadline of each coflow that was admitted; inf for the others."""
        return np.where(self._is_admitted(view), view.deadline_s, np.inf)

    def allocate(self, view: FabricView) -> Allocation:
        """Return what the admitted need, and backfill; see `Allocator.allocate`."""
        shares = self._guarantee(view)
        order = rank(self.keys(view))
        if self.rejected == "drop":
            served = self._is_admitted(view) | np.isinf(view.deadline_s)
            order = order[served[order]]
        if (self.decisions, self.work_conservation) == ("coflow", "greedy") and not shares.any():
            # In list order its flows may wait for each other, and no coflow's end would come.
            shares[order[view.gamma[order] < np.inf][:1]] = 1.0
        rates = view.lp_rates(shares)
        left = np.maximum(view.capacity - view.link_load(rates), 0.0)
        return Allocation(view.backfill(self.work_conservation, order, left, rates),
                          note=self.counts)

    def _is_admitted(self, view: FabricView) -> np.ndarray:
        return np.array([self._admitted[coflow] for coflow in view.id.tolist()])

    def _guarantee(self, view: FabricView) -> Floats:
        """Admit or reject the coflows that are new; return the shares of all admitted."""
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
    """Return the share of its LP rates at which each coflow ends at its deadline.

    That is gamma/(time left). inf where there is none, or it cannot be met any more. Shares so
    small that they count as nothing are rounded up.
    """
    time_left = view.deadline_s - view.now
    possible = (time_left > 0) & (time_left < np.inf) & (view.gamma < np.inf)
    need = np.full(len(view), np.inf)
    need[possible] = np.maximum(view.gamma[possible] / time_left[possible], DUST)
    return need
