"""The table of active coflows and flows that the fabric, views and kernels work on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.demand import Demand
from netsim.fabric.kernels import blocks, progress
from netsim.fabric.kernels.greedy import greedy_until
from netsim.fabric.kernels.serving import serve_until, serve_while_crowded
from netsim.fabric.kernels.serving_rows import copy_rows, resume
from netsim.fabric.kernels.sharing import maxmin
from netsim.fabric.records import COFLOW, FLOW, HOP, JOB, LOAD
from netsim.fabric.service import Rule, Service
from netsim.fabric.sharing import Sharing

__all__ = ["FlowTable"]

_SEGMENTS = ("flow", "hop", "load")

#: Of so many flows a copy to serve is worth keeping; of fewer, handing it over costs more.
_MANY = 2000


class _Pool:
    """Rows handed out in segments; `FlowTable` moves the live ones together when it is full."""

    def __init__(self, dtype: np.dtype[Any], rows: int = 256) -> None:
        self.rows = np.zeros(rows, dtype)
        self.used = 0
        self.live = 0

    def append(self, rows: NDArray[Any]) -> int:
        first, self.used = self.used, self.used + len(rows)
        self.live += len(rows)
        self.rows[first:self.used] = rows
        return first

    def has_room(self, rows: int) -> bool:
        return self.used + rows <= len(self.rows)


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
    """

    def __init__(self, capacity: NDArray[np.float64], job_arrivals: Any) -> None:
        self.capacity = np.array(capacity, dtype=np.float64)
        self.jobs = np.zeros(len(job_arrivals), JOB)
        self.jobs["arrival"] = job_arrivals
        self.active_jobs = 0
        self.in_step = True
        self._rows = np.zeros(16, COFLOW)
        self._pools = (_Pool(FLOW), _Pool(HOP), _Pool(LOAD))
        self._fresh = True
        self.used = np.zeros(len(self.capacity))
        self.coflows = self._rows[:0]
        self._copy: Any = None
        self._sharing = Sharing()

    @property
    def flows(self) -> NDArray[Any]:
        return self._pools[0].rows

    @property
    def hops(self) -> NDArray[Any]:
        return self._pools[1].rows

    @property
    def loads(self) -> NDArray[Any]:
        return self._pools[2].rows

    def add(self, demand: Demand, job: int, key: int, valid: float, order: int = 0) -> None:
        """Append a coflow; its flows do not move until the next allocation."""
        self._copy = None
        parts = (demand.flows, demand.hops, demand.loads)
        if not all(pool.has_room(len(part))
                   for pool, part in zip(self._pools, parts, strict=True)):
            self._make_room([len(part) for part in parts])
        flow, hop, load = (pool.append(part)
                           for pool, part in zip(self._pools, parts, strict=True))
        self.flows["hop"][flow:flow + len(demand.flows)] += hop
        count = len(self.coflows)
        if count == len(self._rows):
            self._rows = np.concatenate((self._rows, np.zeros(count, COFLOW)))
        self.coflows = self._rows[:count + 1]
        row = self.jobs[job]
        self.active_jobs += row["active"] == 0
        row["active"] += 1
        self.coflows[count] = (
            job, key, valid, -1.0, np.inf, valid, demand.nbytes, demand.nbytes, 1.0, 0.0,
            demand.gamma, demand.weight, demand.gamma, order, flow, len(demand.flows),
            len(demand.flows), hop, len(demand.hops), load, len(demand.loads), 1,
            valid + demand.deadline_s, demand.crosses)
        self._fresh = False

    def _make_room(self, wanted: list[int]) -> None:
        """Move the live segments to the front of pools that hold twice what is live and wanted."""
        self._leave_sharing()
        for pool, name, more in zip(self._pools, _SEGMENTS, wanted, strict=True):
            old = pool.rows
            pool.rows = np.zeros(max(256, 2 * (pool.live + more)), old.dtype)
            pool.used = pool.live = 0
            for row in self.coflows:
                first = int(row[name])
                row[name] = pool.append(old[first:first + int(row[name + "s"])])
                if name == "hop":
                    self.flows["hop"][row["flow"]:row["flow"] + row["flows"]] += row["hop"] - first

    def drop_finished(self) -> NDArray[Any]:
        """Remove the coflows that have completed, and return their rows."""
        gone = np.empty(len(self.coflows), COFLOW)
        count, jobs_idle = progress.drop_finished(self.coflows, self.jobs, gone)
        self.active_jobs -= jobs_idle
        gone = gone[:count]
        for pool, name in zip(self._pools, ("flows", "hops", "loads"), strict=True):
            pool.live -= int(gone[name].sum())
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

    def set_weights(self, weights: NDArray[np.float64]) -> tuple[bool, float, float]:
        """Give each unfinished flow its weight; see `progress.set_weights`."""
        allowed, light, heavy, changed = progress.set_weights(
            self.coflows, self.flows, weights, self._sharing.known)
        if changed:
            self._leave_sharing()
        return allowed, light, heavy

    def maxmin(self, weights: NDArray[np.float64], capacity: NDArray[np.float64]
               ) -> NDArray[np.float64]:
        """Return the weighted max-min fair rate of each unfinished flow; see `sharing.maxmin`."""
        return maxmin(self.coflows, self.flows, self.hops, capacity, weights)

    def share_until(self, now: float, until: float, carried: NDArray[np.float64]
                    ) -> tuple[float, float]:
        """Share max-min fairly, by weight, from now on; see `sharing.share_until`."""
        self._spread()
        self._fresh = False
        then = self._sharing.share_until(self.coflows, self.flows, self.hops, self.capacity, now,
                                         until, carried)
        if until < now:  # flows are to end at these rates, one by one
            self._leave_sharing()
        return then

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
        if self._pools[0].live < _MANY:
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
