"""Jobs of a single coflow, which need no process of their own as nothing follows the coflow."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels.binding import bind, bottlenecks
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.jobs.plan import ecmp_key
from netsim.network import Topology
from netsim.workload import Flows, JobSpec, Stage

__all__ = ["SingleCoflows", "is_single"]

#: The most coflows and flows built in one batch; a coflow of more flows is built alone.
_MOST_COFLOWS, _MOST_FLOWS = 4096, 100_000


def is_single(job: JobSpec) -> bool:
    """Whether a job consists of a single coflow."""
    return job.iterations == 1 and len(job.stages) == 1 and job.stages[0].flows is not None


class SingleCoflows:
    """Builds the coflows of the jobs that have only one, in order of validity.

    The instants at which they become valid are known in advance, so that coflows are built in
    batches, a little ahead of time.

    Parameters
    ----------
    jobs : sequence of JobSpec
        All jobs of the workload, in order of (arrival, id).
    members : sequence of int
        Positions of the jobs for which `is_single` holds.
    place : callable
        Function that returns the host of each rank of a job.
    network : Topology
    most_capacity : ndarray of float, shape (links,)
        The highest capacity of each link during the run, for the lower bounds.
    tell : callable
        Called with the COFLOW rows of completed coflows, and all FLOW rows of their batch.
    at : callable
        Function that schedules a call at an instant, in seconds; used for coflows without bytes.

    Attributes
    ----------
    members : ndarray of int
        Positions of the jobs.
    stages : list of Stage
        The stage of each of these jobs.
    """

    def __init__(self, jobs: Sequence[JobSpec], members: Sequence[int],
                 place: Callable[[JobSpec], NDArray[np.int64]], network: Topology,
                 most_capacity: NDArray[np.float64],
                 tell: Callable[[NDArray[Any], NDArray[Any]], None],
                 at: Callable[[float, Callable[[], None]], None]) -> None:
        self._jobs = jobs
        self._place = place
        self._network = network
        self._most = most_capacity
        self._tell = tell
        self._at = at
        self.members = np.array(members, np.int64)
        self.stages = [jobs[k].stages[0] for k in members]
        self._lower_bound_s = np.full(len(jobs), np.nan)
        self._arrival = np.array([jobs[k].arrival_s for k in members])
        release = np.array([stage.release_s for stage in self.stages])
        compute = np.array([stage.compute_s + jobs[k].compute_s
                            for k, stage in zip(members, self.stages, strict=True)])
        wait = np.maximum(self._arrival + release - self._arrival, 0.0)
        self._valid = self._arrival + (wait + compute)
        self._before_s = release + compute
        self._batches = self._split(np.lexsort((self.members, self._valid)))

    def _split(self, order: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Divide the members, in the given order, into batches that are built together."""
        flows = np.array([len(_flows(stage)) for stage in self.stages], np.int64)[order]
        before = np.concatenate(([0], np.cumsum(flows)))
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
        arrived = self._arrival <= now
        late = arrived & np.isnan(self._lower_bound_s[self.members])
        if late.any():
            self._build(np.flatnonzero(late))
        bounds = np.full(len(self._jobs), np.nan)
        bounds[self.members[arrived]] = self._lower_bound_s[self.members[arrived]]
        return bounds

    def _end_empty(self, row: NDArray[Any], flows: NDArray[Any]) -> None:
        """Schedule the end of a coflow without bytes when it becomes valid, without the fabric."""
        row["start"] = row["valid"]
        self._at(float(row["valid"][0]), lambda: self._tell(row, flows))

    def _build(self, which: NDArray[np.int64]) -> RoutedCoflow:
        """Build the coflows of some members, and set their lower bounds."""
        members, valid = self.members[which], self._valid[which]
        jobs = [self._jobs[k] for k in members.tolist()]
        stages = [self.stages[k] for k in which.tolist()]
        sent = [_flows(stage) for stage in stages]
        counts = np.array([len(each) for each in sent], np.int64)
        stops = np.cumsum(counts)
        hosts, first_rank = self._hosts(jobs)
        shift = np.repeat(first_rank, counts)
        src = hosts[np.concatenate([each.src for each in sent]) + shift]
        dst = hosts[np.concatenate([each.dst for each in sent]) + shift]
        first_key = np.array([ecmp_key(job.id, stage.name)
                              for job, stage in zip(jobs, stages, strict=True)])
        key = np.arange(len(src)) + np.repeat(first_key - (stops - counts), counts)
        network = self._network
        ptr, links = network.routes(src, dst, key)
        nbytes = np.concatenate([each.nbytes for each in sent])
        rows, flows, hops, loads = bind(src, dst, nbytes, ptr, links, network.capacity, stops)
        for array in (flows, hops, loads):
            array.setflags(write=False)
        rows["job"] = members
        rows["valid"] = rows["last"] = valid
        rows["weight"] = [stage.weight for stage in stages]
        rows["deadline"] = valid + [math.inf if stage.deadline_s is None else stage.deadline_s
                                    for stage in stages]
        alone = rows["gamma"]
        if not np.array_equal(self._most, network.capacity):
            alone = bottlenecks(rows, loads, self._most)
        self._lower_bound_s[members] = alone + self._before_s[which]
        return RoutedCoflow(rows, flows, hops, loads, float(rows["total"].sum()),
                            float(rows["gamma"][0]))

    def _hosts(self, jobs: Sequence[JobSpec]
               ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Concatenate the hosts of jobs; return them, and the position of each job's first.

        Jobs with the same tuple of hosts share them.
        """
        first: list[int] = []
        known: dict[int, int] = {}
        places: list[NDArray[np.int64]] = []
        count = 0
        for job in jobs:
            at = known.get(id(job.hosts)) if job.hosts is not None else None
            if at is None:
                at = known[id(job.hosts)] = count
                places.append(self._place(job))
                count += len(places[-1])
            first.append(at)
        return np.concatenate(places), np.array(first, np.int64)


def _flows(stage: Stage) -> Flows:
    assert stage.flows is not None
    return stage.flows
