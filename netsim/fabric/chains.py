"""Jobs that send one coflow after the other, which the fabric goes through by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels.chains import follow, next_due
from netsim.fabric.pools import Pools
from netsim.fabric.records import CHAIN, COFLOW
from netsim.fabric.routed_coflow import RoutedCoflow

__all__ = ["Chains"]


class Chains:
    """The chains that run, and what each of their stages sends.

    Parameters
    ----------
    jobs : int
        Number of all jobs, chains or not.

    Attributes
    ----------
    of_jobs : ndarray of CHAIN, shape (jobs,)
    running : ndarray of int
        The numbers of those that have not come to their end, in order.
    stages : ndarray of int
        Which of `coflows` each stage sends, chain by chain. Only those of chains that run count.
    pauses : ndarray of float
        The seconds before each begins, once the one before it has arrived.
    coflows : ndarray of COFLOW
        What stages send; segments of the table's pools are theirs. Stages of a chain that send the
        same have it in common.
    next_due : float
        When the next coflow becomes valid; inf if none is about to.
    """

    def __init__(self, jobs: int) -> None:
        self.of_jobs = np.zeros(jobs, CHAIN)
        self.of_jobs["due"] = math.inf
        self.running = self._jobs = np.empty(0, np.int64)
        self.stages = np.empty(0, np.int64)
        self.pauses = np.empty(0)
        self.coflows = np.empty(0, COFLOW)
        self.next_due = math.inf
        self._used = self._used_coflows = 0
        self._begun = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "running": len(self.running)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore `running` as a view of the first jobs, in a copy."""
        self.__dict__.update(state)
        self.running = self._jobs[:state["running"]]

    def make_room(self, jobs: int) -> None:
        """Grow the array of chains to a number of jobs."""
        more = np.zeros(jobs - len(self.of_jobs), CHAIN)
        more["due"] = math.inf
        self.of_jobs = np.concatenate((self.of_jobs, more))

    def insert(self, job: int) -> None:
        """Insert a chain for a job; later chains, none of which runs, are renumbered."""
        row = np.zeros(1, CHAIN)
        row["due"] = math.inf
        self.of_jobs = np.concatenate((self.of_jobs[:job], row, self.of_jobs[job:]))

    def begin(self, job: int, demands: Sequence[RoutedCoflow], pauses: Sequence[float], total: int,
              due: float, pools: Pools) -> None:
        """Add a chain; there is room in the pools. See `FabricProcess.run_chain`."""
        self._begun += 1
        if 2 * self._begun > len(self.running):
            self._forget_ended()
        self.of_jobs[job] = self._used, len(demands), 0, total, due
        if (stop := self._used + len(demands)) > len(self.stages):
            self.stages = _enlarged(self.stages[:self._used], 2 * stop)
            self.pauses = _enlarged(self.pauses[:self._used], 2 * stop)
        sends = self._take(demands, pools)
        self.stages[self._used:stop] = sends
        self.pauses[self._used:stop] = pauses + self.coflows["overhead"][sends]
        self._used = stop
        self._add_running(job)
        self.next_due = min(self.next_due, due)

    def reroute(self, job: int, demands: Sequence[RoutedCoflow], pools: Pools) -> None:
        """Reroute the coflows that a chain has yet to emit; the pools have room."""
        chain = self.of_jobs[job]
        if chain["emitted"] < chain["total"]:
            self.stages[chain["first"]:][:chain["stages"]] = self._take(demands, pools)

    def _take(self, demands: Sequence[RoutedCoflow], pools: Pools) -> list[int]:
        """Take in what the stages of a chain send; return where it is in `coflows`."""
        first = self._used_coflows
        places: dict[RoutedCoflow, int] = {}
        for demand in demands:
            places.setdefault(demand, first + len(places))
        self._used_coflows += len(places)
        if self._used_coflows > len(self.coflows):
            self.coflows = _enlarged(self.coflows[:first], 2 * self._used_coflows)
        self.coflows[first:self._used_coflows] = _rows_of([*places], pools)
        return [places[demand] for demand in demands]

    def _add_running(self, job: int) -> None:
        """Insert a job among those that run, in order; most come last, for which there is room."""
        count = len(self.running)
        if count == len(self._jobs):
            self._jobs = np.concatenate((self.running, np.empty(count + 16, np.int64)))
        at = int(np.searchsorted(self.running, job))
        self._jobs[at + 1:count + 1] = self.running[at:].copy()
        self._jobs[at] = job
        self.running = self._jobs[:count + 1]

    @property
    def live(self) -> NDArray[Any]:
        """The coflows that have segments of the pools."""
        return self.coflows[:self._used_coflows]

    @property
    def coming(self) -> NDArray[Any]:
        """Those of `live` that are still to be sent."""
        return self.coflows[np.unique(self.stages[_places_of(self.of_jobs[self._unended()])])]

    def _unended(self) -> NDArray[np.int64]:
        """Return the jobs whose chains have more to send."""
        chains = self.of_jobs[self.running]
        return self.running[chains["emitted"] < chains["total"]]

    def _forget_ended(self) -> None:
        """Drop chains that have ended, and their stages if at least half of the rows are unused."""
        self._begun = 0
        self.running = self._jobs = self._unended()
        chains = self.of_jobs[self.running]
        if 2 * chains["stages"].sum() >= self._used:
            return
        kept = _places_of(chains)
        coflows, stages = np.unique(self.stages[kept], return_inverse=True)
        self._used, self._used_coflows = len(kept), len(coflows)
        self.stages = _enlarged(stages, 2 * len(kept))
        self.pauses = _enlarged(self.pauses[kept], 2 * len(kept))
        self.coflows = _enlarged(self.coflows[coflows], 2 * len(coflows))
        chains["first"] = np.cumsum(chains["stages"]) - chains["stages"]
        self.of_jobs[self.running] = chains

    def follow(self, gone: NDArray[Any], now: float, interval: float) -> None:
        """Make the next coflows of chains due, after the rows in `gone` have completed.

        See `netsim.fabric.kernels.chains.follow`.
        """
        self.next_due = min(self.next_due,
                            follow(gone, self.of_jobs, self.pauses, now, interval))

    @property
    def kernel_view(self) -> tuple[Any, ...]:
        """The arrays by which the event loop lets the coflows of chains come; see `loop.run`."""
        return self.of_jobs, self.running, (self.stages, self.coflows), self.pauses

    def look(self) -> None:
        """See which is the next to become valid."""
        self.next_due = next_due(self.of_jobs, self.running)

    def wanted(self, until: float) -> tuple[int, int, int]:
        """Return the flows, hops and loads of the coflows that are due by then."""
        if self.next_due > until:
            return 0, 0, 0
        chains = self.of_jobs[self.running]
        chains = chains[chains["due"] <= until]
        rows = self.coflows[self.stages[chains["first"] + chains["emitted"] % chains["stages"]]]
        flows, hops, loads = (int(rows[name].sum()) for name in ("flows", "hops", "loads"))
        return flows, hops, loads


def _places_of(chains: NDArray[Any]) -> NDArray[np.int64]:
    """Return the places of the stages of some chains."""
    return np.concatenate([np.empty(0, np.int64), *(
        np.arange(chain["first"], chain["first"] + chain["stages"]) for chain in chains)])


def _enlarged(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return an array with room for more."""
    return np.concatenate((array, np.zeros(size - len(array), array.dtype)))


def _rows_of(demands: Sequence[RoutedCoflow], pools: Pools) -> NDArray[Any]:
    """Return a row for each coflow, with segments of the pools, which have room."""
    rows = np.empty(len(demands), COFLOW)
    for k, demand in enumerate(demands):
        rows[k] = demand.coflows[0]
    rows["weight"] = [demand.weight for demand in demands]
    rows["deadline"] = [demand.deadline_s - demand.overhead_s for demand in demands]
    for k, demand in enumerate(demands):
        pools.copy_in(rows[k:k + 1], (demand.flows, demand.hops, demand.loads))
    return rows
