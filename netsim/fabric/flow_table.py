"""The table of active coflows and flows that the fabric, views and kernels work on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.demand import Demand
from netsim.fabric.kernels import blocks, progress
from netsim.fabric.kernels.greedy import greedy_until
from netsim.fabric.kernels.pools import add, admit, copy_in, move
from netsim.fabric.kernels.serving import serve_until, serve_while_crowded
from netsim.fabric.kernels.serving_rows import copy_rows, resume
from netsim.fabric.kernels.sharing import maxmin
from netsim.fabric.records import COFLOW, FLOW, HOP, JOB, LOAD
from netsim.fabric.service import Rule, Service
from netsim.fabric.sharing import Sharing

__all__ = ["FlowTable"]

#: Of so many flows a copy to serve is worth keeping; of fewer, handing it over costs more.
_MANY = 2000

#: How many coflows may join before those that have completed meanwhile are cleared away.
_AHEAD = 1024

_NO_COFLOWS = np.empty(0, COFLOW)


class FlowTable:
    """Active coflows in order of (valid time, job, stage), with their flows and loads.

    Parameters
    ----------
    capacity : ndarray of float, shape (links,)
        Bytes per second; `set_capacity` changes it.
    job_arrivals : array_like of float, shape (jobs,)
        When each job arrives, in seconds.

    Attributes
    ----------
    coflows : ndarray of COFLOW, shape (active coflows,)
    flows, hops, loads : ndarray of FLOW, HOP, LOAD
        Pools; each coflow has a segment in each.
    jobs : ndarray of JOB, shape (jobs,)
    active_jobs : int
        The number of jobs that have an active coflow.
    in_step : bool
        Whether all rates in force keep each coflow's flows in step.
    used : ndarray of float, shape (links,)
        Bytes per second that the last allocation put on each link, where it was checked.
    next_arrival : float
        When the next coflow that is expected becomes valid; inf if none is.
    """

    def __init__(self, capacity: NDArray[np.float64], job_arrivals: Any) -> None:
        self.capacity = np.array(capacity, dtype=np.float64)
        self.jobs = np.zeros(len(job_arrivals), JOB)
        self.jobs["arrival"] = job_arrivals
        self.active_jobs = 0
        self.in_step = True
        self._rows = np.zeros(16, COFLOW)
        self._pools: tuple[NDArray[Any], ...] = tuple(
            np.zeros(256, kind) for kind in (FLOW, HOP, LOAD))
        self._used = np.zeros(3, np.int64)
        self._key = 0
        self._coming = _NO_COFLOWS
        self._next_coming = 0
        self.next_arrival = math.inf
        self._fresh = True
        self.used = np.zeros(len(self.capacity))
        self.coflows = self._rows[:0]
        self._copy: Any = None
        self._sharing = Sharing()

    @property
    def flows(self) -> NDArray[Any]:
        return self._pools[0]

    @property
    def hops(self) -> NDArray[Any]:
        return self._pools[1]

    @property
    def loads(self) -> NDArray[Any]:
        return self._pools[2]

    # --- rows come and go ------------------------------------------------------------

    def add(self, demand: Demand, job: int, valid: float, order: int = 0) -> int:
        """Append a coflow; its flows do not move until the next allocation. Return its key."""
        self._copy = None
        count = len(self.coflows)
        if count == len(self._rows):
            self._make_rows(2 * count)
        parts = (demand.flows, demand.hops, demand.loads)
        self._make_room_for(parts)
        self._key += 1
        self.active_jobs += add(
            self._rows, count, self.jobs, self._pools, self._used, demand.coflows, parts, job,
            self._key, order, valid, demand.weight, valid + demand.deadline_s)
        self.coflows = self._rows[:count + 1]
        self._fresh = False
        return self._key

    def expect(self, coming: Demand) -> None:
        """Take in coflows that will become valid, with job, order and time; in order of these.

        Those expected before must all have been admitted.
        """
        self._coming, self._next_coming = _NO_COFLOWS, 0
        rows, parts = coming.coflows.copy(), (coming.flows, coming.hops, coming.loads)
        self._make_room_for(parts)
        copy_in(self._pools, self._used, rows, parts)
        self._coming = rows
        self._came(0)

    def admit(self, until: float, before: float = math.inf) -> None:
        """Let the coflows become active that are valid by then, of jobs before a certain one.

        Those valid by then are taken in the order of their jobs.
        """
        if self.next_arrival > until:
            return
        self._copy = None
        rest = self._coming[self._next_coming:]
        due = rest[:int(np.searchsorted(rest["valid"], until, "right"))]
        due[:] = due[np.argsort(due["job"], kind="stable")]
        joining = int(np.searchsorted(due["job"], before))
        count = len(self.coflows)
        if count + joining > len(self._rows):
            self._make_rows(2 * (count + joining))
        self._came(admit(self._rows, count, rest[:joining], 0, until, self.jobs, self._key + 1))

    def _came(self, admitted: int) -> None:
        self.coflows = self._rows[:len(self.coflows) + admitted]
        self._next_coming += admitted
        rest = self._coming[self._next_coming:]
        self.next_arrival = float(rest["valid"][0]) if len(rest) else math.inf
        self._key += admitted
        self.active_jobs += admitted  # each the only coflow of its job
        self._fresh = False

    def _make_rows(self, count: int) -> None:
        """Give the coflows' rows more room."""
        self._rows = np.concatenate((self.coflows, np.zeros(count - len(self.coflows), COFLOW)))
        self.coflows = self._rows[:len(self.coflows)]

    def _make_room_for(self, parts: tuple[NDArray[Any], ...]) -> None:
        """See that the pools have room for more rows.

        If not, move the live segments to the front of new ones, of twice what is live and wanted.
        """
        pools = self._pools
        if all(len(part) <= len(pool) - used for part, pool, used
               in zip(parts, pools, self._used.tolist(), strict=True)):
            return
        self._leave_sharing()
        self._copy = None
        live = [self._live_rows(name) for name in ("flows", "hops", "loads")]
        self._pools = tuple(np.zeros(max(256, 2 * (count + len(part))), part.dtype)
                            for count, part in zip(live, parts, strict=True))
        self._used[:] = 0
        move(self.coflows, pools, self._pools, self._used)
        move(self._coming[self._next_coming:], pools, self._pools, self._used)

    def _live_rows(self, name: str) -> int:
        return int(self.coflows[name].sum() + self._coming[name][self._next_coming:].sum())

    def drop_finished(self) -> NDArray[Any]:
        """Remove the coflows that have completed, and return their rows."""
        gone = np.empty(len(self.coflows), COFLOW)
        count, jobs_idle = progress.drop_finished(self.coflows, self.jobs, gone)
        self.active_jobs -= jobs_idle
        gone = gone[:count]
        self.coflows = self._rows[:len(self.coflows) - count]
        return gone

    def set_capacity(self, link: int, capacity: float) -> None:
        """Change a link's capacity, in bytes per second."""
        self._leave_sharing()
        self.capacity[link] = capacity
        self.coflows["fresh"] = np.minimum(self.coflows["fresh"], 1)
        self._fresh = False

    def advance(self, dt: float, now: float, slack: float, carried: NDArray[np.float64]
                ) -> tuple[int, int]:
        """Let time pass at the rates in force; return how many coflows and flows completed."""
        if self.in_step:
            done = progress.advance_in_step(self.coflows, self.loads, dt, now, slack, carried)
            return done, done
        self._fresh = False
        if self._sharing.known >= 0:
            return self._sharing.advance(self.coflows, self.flows, self.capacity, dt, now, slack,
                                         carried)
        return progress.advance_flows(self.coflows, self.flows, self.hops, dt, now, slack, carried)

    def apply_shares(self, shares: NDArray[np.float64], now: float, check: bool
                     ) -> tuple[float, float, int]:
        """Put shares of the LP rates into force; see `progress.apply_shares`."""
        self._leave_sharing()
        self.refresh()
        self.in_step = True
        finish, link = progress.apply_shares(self.coflows, self.loads, shares, self.capacity,
                                             self.used, now, check)
        return finish, finish, link

    def apply_rates(self, rates: NDArray[np.float64], now: float, check: bool
                    ) -> tuple[float, float, int]:
        """Put one rate per unfinished flow into force; see `progress.apply_rates`."""
        self._leave_sharing()
        self._spread()
        return progress.apply_rates(self.coflows, self.flows, self.hops, rates, self.capacity,
                                    self.used, now, check)

    def set_weights(self, weights: NDArray[np.float64]) -> tuple[float, float]:
        """Give each unfinished flow its weight; see `progress.set_weights`."""
        light, heavy, changed = progress.set_weights(
            self.coflows, self.flows, weights, self._sharing.known)
        if changed:
            self._leave_sharing()
        return light, heavy

    def split_weights(self, weights: NDArray[np.float64]) -> tuple[float, float]:
        """Let the flows of each coflow split its weight; see `progress.split_weights`."""
        light, heavy, changed = progress.split_weights(self.coflows, self.flows, weights,
                                                       self._sharing.known)
        if changed:
            self._leave_sharing()
        return light, heavy

    def maxmin(self, weights: NDArray[np.float64], capacity: NDArray[np.float64]
               ) -> NDArray[np.float64]:
        """Return the weighted max-min fair rate of each unfinished flow; see `sharing.maxmin`."""
        return maxmin(self.coflows, self.flows, self.hops, capacity, weights)

    def share_until(self, now: float, until: float, carried: NDArray[np.float64]
                    ) -> tuple[float, float]:
        """Share max-min fairly, by weight, from now on; see `sharing.share_until`."""
        now, next_finish, _ = self._share_until(_NO_COFLOWS, False, now, until, carried)
        if until < now:  # flows are to end at these rates, one by one
            self._leave_sharing()
        return now, next_finish

    def share_all_until(self, now: float, until: float, carried: NDArray[np.float64]
                        ) -> tuple[float, float, int]:
        """As `share_until`, but let coflows that are expected join meanwhile, with weight 1.

        Returns
        -------
        now, next_finish : float
        instants : int
            At how many, before the last, coflows have joined or completed.
        """
        if len(self._rows) < len(self.coflows) + _AHEAD:
            self._make_rows(2 * (len(self.coflows) + _AHEAD))
        return self._share_until(self._coming[self._next_coming:], True, now, until, carried)

    def _share_until(self, coming: NDArray[Any], stands: bool, now: float, until: float,
                     carried: NDArray[np.float64]) -> tuple[float, float, int]:
        self._spread()
        self._fresh = False
        now, next_finish, instants, admitted = self._sharing.share_until(
            self._rows, len(self.coflows), self.flows, self.hops, coming, self.jobs,
            self._key + 1, stands, self.capacity, now, until, carried)
        if admitted:
            self._came(admitted)
        return now, next_finish, instants

    def serve_until(self, service: Service, now: float, until: float,
                    carried: NDArray[np.float64]) -> tuple[float, float, float]:
        """Serve coflows in order from now on; see `serving.serve_until`, `greedy.greedy_until`."""
        self._leave_sharing()
        if not service.flow_by_flow:
            return self._serve_until(service.rule, now, until, carried)
        self._spread()
        self._fresh = False
        now, next_finish = greedy_until(
            self.coflows, self.flows, self.hops, self.capacity, service.order, service.by_size,
            now, until, carried)
        return now, next_finish, np.inf

    def _serve_until(self, rule: Rule, now: float, until: float, carried: NDArray[np.float64]
                     ) -> tuple[float, float, float]:
        self._spread()
        self._fresh = False
        if self.coflows["flows"].sum() < _MANY:
            return serve_until(self.coflows, self.flows, self.hops, self.loads, self.capacity,
                               rule, now, until, carried)
        while True:
            copy, gone = self._copy_for(rule)
            now, next_finish, crossing, thinned = serve_while_crowded(
                copy, gone, self.coflows, self.flows, self.capacity, rule, now, until, carried)
            if not thinned:
                return now, next_finish, crossing
            self._copy = None

    def _copy_for(self, rule: Rule) -> tuple[Any, int]:
        """Return what `serving` works on, and how many of its flows have ended.

        It outlives decisions: it is made anew only after a coflow has come, or many flows gone.
        """
        if self._copy is not None:
            return self._copy, resume(self._copy, self.coflows, self.flows, rule)
        self._copy = copy_rows(self.coflows, self.flows, self.hops, self.loads, rule)
        return self._copy, 0

    def settle(self) -> None:
        """Bring the bytes and rates of the rows up to date."""
        self._sharing.settle(self.coflows, self.flows)

    def _leave_sharing(self) -> None:
        self._sharing.end(self.coflows, self.flows)

    def _spread(self) -> None:
        if self.in_step:
            progress.spread(self.coflows, self.flows, self.loads)
            self.in_step = False

    def bytes_left(self) -> NDArray[np.float64]:
        """Return the bytes that each coflow has yet to send. Shape (active coflows,)."""
        self.settle()
        return self.coflows["base"] * self.coflows["left"]

    def next_finishes(self) -> tuple[float, float]:
        """Return when the next flow and coflow will complete; see `progress.next_finishes`."""
        self.settle()
        return progress.next_finishes(self.coflows, self.flows, self.in_step)

    def next_end(self) -> float:
        """Return when the next flow that has not ended will; inf if none moves."""
        self.settle()
        if self.in_step:
            ends = self.coflows["finish"][self.coflows["open"] > 0]
        else:
            ends = self.flows["finish"][self.open_flows()[0]]
        return float(ends.min(initial=np.inf))

    def refresh(self) -> None:
        """Bring the coflows' loads and gammas up to date."""
        if not self._fresh:
            progress.refresh(self.coflows, self.flows, self.hops, self.loads, self.capacity)
            self._fresh = True

    def throttle(self, now: float) -> tuple[float, float, int]:
        """Slow what overloads a link after its capacity has dropped."""
        if self.in_step:
            self.refresh()
            shares = progress.throttle_shares(self.coflows, self.loads, self.capacity, self.used)
            return self.apply_shares(shares, now, False)
        rates = progress.throttle_rates(self.coflows, self.flows, self.hops, self.capacity,
                                        self.used)
        return self.apply_rates(rates, now, False)

    def open_flows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the positions of the unfinished flows in `flows`, and the coflow of each."""
        return blocks.open_flows(self.coflows, self.flows)
