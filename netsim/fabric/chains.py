"""Jobs that the fabric runs by itself: chains of coflows, and graphs of operations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from netsim.fabric.by_reference import address_of, type_of_reference
from netsim.fabric.graphs import Graphs, OperationRows
from netsim.fabric.kernels import graphs as kernels
from netsim.fabric.kernels.graphs import ChainArrays, arrived
from netsim.fabric.pools import Pools, enlarged
from netsim.fabric.records import CHAIN, COFLOW, IN_GRAPH
from netsim.fabric.routed_coflow import RoutedCoflow


class Chains:
    """The running chains, and the coflows of their stages."""

    def __init__(self, jobs: int) -> None:
        self.of_jobs = np.zeros(jobs, CHAIN)  #: of CHAIN; other jobs have one without stages
        self.of_jobs["due"] = math.inf
        #: The jobs whose chains have not ended, in order.
        self.running = self._jobs = np.empty(0, np.int64)
        #: Index in `coflows` of what each stage sends, chain by chain, while the chain runs.
        self.stages = np.empty(0, np.int64)
        #: Seconds from the arrival of the previous stage until the coflow of each stage begins, its
        #: overhead included.
        self.pauses = np.empty(0)
        #: Of COFLOW, with segments in the table's pools; equal ones of a chain share a row.
        self.coflows = np.empty(0, COFLOW)
        #: A job that is a graph is also a chain, with a stage per coflow, but none becomes due.
        self.graphs = Graphs(jobs)
        self.next_due = math.inf  #: when the next coflow becomes valid
        self._used = self._used_coflows = 0
        self._begun = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "running": len(self.running)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore `running` as a view of the first jobs of the copied `_jobs`."""
        self.__dict__.update(state)
        self.running = self._jobs[:state["running"]]

    def make_room(self, jobs: int) -> None:
        """Make room for this number of jobs."""
        more = np.zeros(jobs - len(self.of_jobs), CHAIN)
        more["due"] = math.inf
        self.of_jobs = np.concatenate((self.of_jobs, more))
        self.graphs.make_room(jobs)

    def insert(self, job: int) -> None:
        """Insert a chain for a job; later jobs, none of which runs yet, are renumbered."""
        row = np.zeros(1, CHAIN)
        row["due"] = math.inf
        self.of_jobs = np.concatenate((self.of_jobs[:job], row, self.of_jobs[job:]))
        self.graphs.insert(job)

    def begin(self, job: int, demands: Sequence[RoutedCoflow],
              pauses: Sequence[float] | NDArray[np.float64], total: int, due: float,
              pools: Pools) -> None:
        """Start a chain; the pools must have room. See `FabricProcess.run_chain`."""
        self._begun += 1
        if 2 * self._begun > len(self.running):
            self._forget_ended()
        self.of_jobs[job] = self._used, len(demands), 0, total, due
        if (stop := self._used + len(demands)) > len(self.stages):
            self.stages = enlarged(self.stages[:self._used], 2 * stop)
            self.pauses = enlarged(self.pauses[:self._used], 2 * stop)
        sends = self._take(demands, pools)
        self.stages[self._used:stop] = sends
        self.pauses[self._used:stop] = pauses + self.coflows["overhead"][sends]
        self._used = stop
        self._add_running(job)
        self.next_due = min(self.next_due, due)

    def begin_graph(self, job: int, demands: Sequence[RoutedCoflow], operations: OperationRows,
                    iterations: int, now: float, pools: Pools) -> None:
        """Start a graph; the pools must have room. See `FabricProcess.run_graph`."""
        self.begin(job, demands, np.zeros(len(demands)), 1, math.inf, pools)
        self.graphs.begin(job, operations, iterations, now, self.kernel_view)
        self.look()

    def reroute(self, job: int, demands: Sequence[RoutedCoflow], pools: Pools) -> None:
        """Reroute the coflows that a chain has not sent yet; the pools must have room."""
        chain = self.of_jobs[job]
        if chain["emitted"] < chain["total"]:
            self.stages[chain["first"]:][:chain["stages"]] = self._take(demands, pools)

    def stage_of(self, row: Any) -> int:
        """Return the index of the stage that sent a coflow, within its job."""
        if row["waited"] == IN_GRAPH:
            return self.graphs.stage_of(int(row["job"]), int(row["order"]))
        return int(row["order"]) % max(int(self.of_jobs[row["job"]]["stages"]), 1)

    def _take(self, demands: Sequence[RoutedCoflow], pools: Pools) -> list[int]:
        """Store the coflows of a chain's stages; return their places in `coflows`."""
        first = self._used_coflows
        places: dict[RoutedCoflow, int] = {}
        for demand in demands:
            places.setdefault(demand, first + len(places))
        self._used_coflows += len(places)
        if self._used_coflows > len(self.coflows):
            self.coflows = enlarged(self.coflows[:first], 2 * self._used_coflows)
        self.coflows[first:self._used_coflows] = _rows_of([*places], pools)
        return [places[demand] for demand in demands]

    def _add_running(self, job: int) -> None:
        """Insert a job into the ordered list of running jobs; there must be room at its end."""
        count = len(self.running)
        if count == len(self._jobs):
            self._jobs = np.concatenate((self.running, np.empty(count + 16, np.int64)))
        at = int(np.searchsorted(self.running, job))
        self._jobs[at + 1:count + 1] = self.running[at:].copy()
        self._jobs[at] = job
        self.running = self._jobs[:count + 1]

    @property
    def live(self) -> NDArray[Any]:
        """The coflows that own segments of the pools."""
        return self.coflows[:self._used_coflows]

    @property
    def coming(self) -> NDArray[Any]:
        """The coflows of `live` that have not been sent yet."""
        return self.coflows[np.unique(self.stages[_places_of(self.of_jobs[self._unended()])])]

    def _unended(self) -> NDArray[np.int64]:
        """Return the jobs whose chains have coflows left to send."""
        chains = self.of_jobs[self.running]
        return self.running[chains["emitted"] < chains["total"]]

    def _forget_ended(self) -> None:
        """Drop chains that have ended; drop their stages once these fill half of the rows."""
        self._begun = 0
        self.running = self._jobs = self._unended()
        chains = self.of_jobs[self.running]
        if 2 * chains["stages"].sum() >= self._used:
            return
        kept = _places_of(chains)
        coflows, stages = np.unique(self.stages[kept], return_inverse=True)
        self._used, self._used_coflows = len(kept), len(coflows)
        self.stages = enlarged(stages, 2 * len(kept))
        self.pauses = enlarged(self.pauses[kept], 2 * len(kept))
        self.coflows = enlarged(self.coflows[coflows], 2 * len(coflows))
        chains["first"] = np.cumsum(chains["stages"]) - chains["stages"]
        self.of_jobs[self.running] = chains

    def follow(self, gone: NDArray[Any], now: float, interval: float) -> None:
        """Make the next coflows due, after the rows in `gone` have completed.

        See `netsim.fabric.kernels.graphs.follow`.
        """
        due = kernels.follow(gone, self.kernel_view, now, interval, self.arrived_at)
        self.next_due = min(self.next_due, due)
        self.go_on()

    def go_on(self) -> None:
        """Make room for the next iterations of graphs that wait for it."""
        if self.graphs.make_slots(self.kernel_view):
            self.look()

    @property
    def kernel_view(self) -> ChainArrays:
        """The arrays from which the event loop takes the next coflows."""
        return ChainArrays(self.of_jobs, self.running, self.stages, self.coflows, self.pauses,
                           self.graphs.arrays)

    @property
    def arrived_at(self) -> int:
        """The address of `kernels.graphs.arrived`; 0 while no job is a graph."""
        return _arrived_at() if self.graphs.any else 0

    def look(self) -> None:
        """Find which coflow becomes valid next."""
        self.next_due = kernels.next_due(self.kernel_view)

    def wanted(self, until: float) -> tuple[int, int, int, int]:
        """Return the number of coflows due by `until`, and of their flows, hops and loads."""
        if self.next_due > until:
            return 0, 0, 0, 0
        found: tuple[int, int, int, int] = kernels.wanted(self.kernel_view, until,
                                                           len(self.of_jobs))
        return found


@cache
def _arrived_at() -> int:
    """Return the address of `kernels.graphs.arrived`, for the types that `follow` gives it."""
    return address_of(arrived, types.int64, types.int64, types.float64, types.float64,
                      type_of_reference(Chains(0).kernel_view))


def _places_of(chains: NDArray[Any]) -> NDArray[np.int64]:
    """Return the places of the stages of some chains."""
    return np.concatenate([np.empty(0, np.int64), *(
        np.arange(chain["first"], chain["first"] + chain["stages"]) for chain in chains)])


def _rows_of(demands: Sequence[RoutedCoflow], pools: Pools) -> NDArray[Any]:
    """Return one row per coflow, with segments in the pools, which must have room."""
    rows = np.empty(len(demands), COFLOW)
    for k, demand in enumerate(demands):
        rows[k] = demand.coflows[0]
    rows["weight"] = [demand.weight for demand in demands]
    rows["deadline"] = [demand.deadline_s - demand.overhead_s for demand in demands]
    for k, demand in enumerate(demands):
        pools.copy_in(rows[k:k + 1], (demand.flows, demand.hops, demand.loads))
    return rows
