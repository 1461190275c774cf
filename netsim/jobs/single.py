"""Jobs of a single coflow, which need no process of their own as nothing follows the coflow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels.binding import bind, bottlenecks
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.jobs.single_columns import SingleColumns
from netsim.network import Topology

__all__ = ["SingleCoflows"]

#: The most coflows and flows built in one batch; a coflow of more flows is built alone.
_MOST_COFLOWS, _MOST_FLOWS = 4096, 100_000


class SingleCoflows:
    """Builds the coflows of the jobs that have only one, in order of validity.

    The instants at which they become valid are known in advance, so that coflows are built in
    batches, a little ahead of time.

    Parameters
    ----------
    jobs : int
        Number of all jobs of the workload.
    columns : SingleColumns
        Those that have a single coflow.
    network : Topology
    most_capacity : ndarray of float, shape (links,)
        The highest capacity of each link during the run, for the lower bounds.
    tell : callable
        Called with the COFLOW rows of completed coflows, and all FLOW rows of their batch.
    at : callable
        Function that schedules a call at an instant, in seconds; used for coflows without bytes.

    Attributes
    ----------
    columns : SingleColumns
    """

    def __init__(self, jobs: int, columns: SingleColumns, network: Topology,
                 most_capacity: NDArray[np.float64],
                 tell: Callable[[NDArray[Any], NDArray[Any]], None],
                 at: Callable[[float, Callable[[], None]], None]) -> None:
        self.columns = columns
        self._network = network
        self._most = most_capacity
        self._tell = tell
        self._at = at
        self._lower_bound_s = np.full(jobs, np.nan)
        arrival, release = columns.arrival_s, columns.release_s
        wait = np.maximum(arrival + release - arrival, 0.0)
        self._valid = arrival + (wait + columns.compute_s)
        self._before_s = release + columns.compute_s
        self._batches = self._split(np.lexsort((columns.members, self._valid)))

    def _split(self, order: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Divide the members, in the given order, into batches that are built together."""
        before = np.concatenate(([0], np.cumsum(self.columns.flows[order])))
        valid = self._valid[order]
        first = 0
        while first < len(order):
            stop = int(np.searchsorted(before, before[first] + _MOST_FLOWS, "right")) - 1
            stop = max(first + 1, min(stop, first + _MOST_COFLOWS))
            # Coflows that become valid at the same instant are in the same batch.
            stop = int(np.searchsorted(valid, valid[stop - 1], "right"))
            yield order[first:stop]
            first = stop

    def more(self) -> RoutedCoflow | None:
        """Return the next batch of coflows; see `netsim.fabric.protocols.Source`."""
        for batch in self._batches:
            demand = self._build(batch)
            empty = demand.coflows["open"] == 0
            for k in np.flatnonzero(empty):
                self._end_empty(demand.coflows[k:k + 1], demand.flows)
            if not empty.all():
                return replace(demand, coflows=demand.coflows[~empty])
        return None

    def lower_bounds(self, now: float) -> NDArray[np.float64]:
        """Return the least possible JCTs of these jobs, in seconds; shape (jobs,).

        NaN for other jobs, and for jobs that have not arrived at `now`.
        """
        members, arrived = self.columns.members, self.columns.arrival_s <= now
        late = arrived & np.isnan(self._lower_bound_s[members])
        if late.any():
            self._build(np.flatnonzero(late))
        bounds = np.full(len(self._lower_bound_s), np.nan)
        bounds[members[arrived]] = self._lower_bound_s[members[arrived]]
        return bounds

    def _end_empty(self, row: NDArray[Any], flows: NDArray[Any]) -> None:
        """Schedule the end of a coflow without bytes when it becomes valid, without the fabric."""
        row["start"] = row["valid"]
        self._at(float(row["valid"][0]), lambda: self._tell(row, flows))

    def _build(self, which: NDArray[np.int64]) -> RoutedCoflow:
        """Build the coflows of some members, and set their lower bounds."""
        columns, network, valid = self.columns, self._network, self._valid[which]
        members, sent = columns.members[which], columns.sent(which)
        stops = np.cumsum(sent.counts)
        key = np.arange(stops[-1]) + np.repeat(sent.key - (stops - sent.counts), sent.counts)
        ptr, links = network.routes(sent.src, sent.dst, key)
        rows, flows, hops, loads = bind(sent.src, sent.dst, sent.nbytes, ptr, links,
                                        network.capacity, stops)
        for array in (flows, hops, loads):
            array.setflags(write=False)
        rows["job"] = members
        rows["valid"] = rows["last"] = valid
        rows["weight"] = columns.weight[which]
        rows["deadline"] = valid + columns.deadline_s[which]
        alone = rows["gamma"]
        if not np.array_equal(self._most, network.capacity):
            alone = bottlenecks(rows, loads, self._most)
        self._lower_bound_s[members] = alone + self._before_s[which]
        return RoutedCoflow(rows, flows, hops, loads, float(rows["total"].sum()),
                            float(rows["gamma"][0]))
