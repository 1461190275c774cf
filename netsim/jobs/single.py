"""Jobs of a single coflow, as columns: they need no process, because nothing follows the coflow."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.values import same
from netsim.fabric.kernels.binding import bind
from netsim.fabric.routed_coflow import RoutedCoflow, least_times
from netsim.jobs.plan import ecmp_key, ecmp_keys
from netsim.network import Topology
from netsim.workload import Flows, JobSpec, Stage
from netsim.workload.columns import Columns
from netsim.workload.job import JobColumns, is_ranked


# --- columns -------------------------------------------------------------------------------
class Sent(NamedTuple):
    """The flows of some coflows, coflow after coflow."""

    src: Ints
    dst: Ints
    nbytes: Floats
    counts: Ints  #: the number of flows of each coflow
    key: Ints  #: the ECMP key of the first flow of each coflow


@dataclass(frozen=True, slots=True)
class SingleColumns:
    """Jobs of a single coflow, with the values of the jobs and their stages."""

    members: Ints  #: positions of the jobs in order of (arrival, id)
    arrival_s: Floats
    release_s: Floats
    compute_s: Floats  #: including the job's own computation
    weight: Floats
    deadline_s: Floats  #: after validity; inf for none
    overhead_s: Floats  #: NaN for that of the network
    flows: Ints  #: the number of flows of each job
    coflow_id: Ints  #: -1 for none
    stages: Sequence[str]
    sent: Callable[[Ints], Sent]  #: the flows of some jobs, given by indices into `members`
    __deepcopy__ = same

    def largest(self) -> Floats:
        """Return the bytes of the largest flow of each coflow."""
        sent = self.sent(np.arange(len(self.members)))
        found = np.zeros(len(self.members))
        np.maximum.at(found, np.repeat(np.arange(len(found)), sent.counts), sent.nbytes)
        return found


def is_single(job: JobSpec) -> bool:
    """Whether a job consists of a single coflow."""
    return (job.iterations == 1 and len(job.stages) == 1 and job.stages[0].flows is not None
            and not job.stages[0].steps and not job.stages[0].continues
            and not is_ranked(job.stages))


def of_columns(jobs: JobColumns) -> SingleColumns:
    """Make columns of jobs that are stored as columns."""
    columns, count = jobs.columns, len(jobs)
    none, unknown = np.zeros(count), np.full(count, math.nan)
    return SingleColumns(np.arange(count), columns.arrival_s, none, none, columns.weight,
                         np.full(count, math.inf), unknown, columns.counts, columns.coflow_id,
                         [jobs.STAGE] * count, partial(_sent_of_columns, columns))


def _sent_of_columns(columns: Columns, which: Ints) -> Sent:
    flows = columns.flows_of(which)
    return Sent(columns.src[flows], columns.dst[flows], columns.nbytes[flows],
                columns.counts[which], ecmp_keys(columns.id[which], JobColumns.STAGE))


def of_specs(jobs: Sequence[JobSpec], members: Sequence[int],
             place: Callable[[JobSpec], Ints]) -> SingleColumns:
    """Make columns of the `members` of all jobs, those for which `is_single` holds.

    `jobs` are in order of (arrival, id); `place` returns the host of each rank of a job.
    """
    specs = [jobs[k] for k in members]
    stages = [job.stages[0] for job in specs]
    return SingleColumns(
        np.array(members, np.int64), np.array([job.arrival_s for job in specs]),
        np.array([stage.release_s for stage in stages]),
        np.array([stage.compute_s + job.compute_s for job, stage
                  in zip(specs, stages, strict=True)]),
        np.array([job.weight * stage.weight for job, stage
                  in zip(specs, stages, strict=True)]),
        np.array([math.inf if stage.deadline_s is None else stage.deadline_s
                  for stage in stages]),
        np.array([math.nan if stage.overhead_s is None else stage.overhead_s
                  for stage in stages]),
        np.array([_flows(stage).nbytes.size for stage in stages], np.int64),
        np.array([-1 if stage.coflow_id is None else stage.coflow_id for stage in stages],
                 np.int64),
        [stage.name for stage in stages], partial(_sent_of_specs, specs, place))


def _sent_of_specs(specs: Sequence[JobSpec], place: Callable[[JobSpec], Ints], which: Ints) -> Sent:
    chosen = [specs[k] for k in which.tolist()]
    stages = [job.stages[0] for job in chosen]
    flows = [_flows(stage) for stage in stages]
    counts = np.array([each.nbytes.size for each in flows], np.int64)
    hosts, first = _hosts(chosen, place)
    shift = np.repeat(first, counts)
    return Sent(hosts[np.concatenate([each.src for each in flows]) + shift],
                hosts[np.concatenate([each.dst for each in flows]) + shift],
                np.concatenate([each.nbytes for each in flows]), counts,
                np.array([ecmp_key(job.id, stage.name)
                          for job, stage in zip(chosen, stages, strict=True)], np.int64))


def _flows(stage: Stage) -> Flows:
    assert stage.flows is not None
    return stage.flows


def _hosts(jobs: Sequence[JobSpec], place: Callable[[JobSpec], Ints]) -> tuple[Ints, Ints]:
    """Concatenate the hosts of jobs; return them, and the position of each job's first.

    Jobs with the same tuple of hosts share them.
    """
    first: list[int] = []
    known: dict[int, int] = {}
    places: list[Ints] = []
    count = 0
    for job in jobs:
        at = known.get(id(job.hosts)) if job.hosts is not None else None
        if at is None:
            at = known[id(job.hosts)] = count
            places.append(place(job))
            count += len(places[-1])
        first.append(at)
    return np.concatenate(places), np.array(first, np.int64)


# --- coflows -------------------------------------------------------------------------------

#: The most coflows and flows built in one batch; a coflow of more flows is built alone.
_MOST_COFLOWS, _MOST_FLOWS = 4096, 100_000


class SingleCoflows:
    """Builds the coflows of jobs with a single coflow, in order of validity.

    Their valid times are known in advance, so they are built in batches, a little ahead of time.
    `most_capacity` is the highest capacity of each link during the run, for the lower bounds.
    `tell` is called with the rows of completed coflows (dtype ``COFLOW``), and with the rows of all
    flows of their batch (dtype ``FLOW``). For a coflow without bytes, `at` schedules a function at
    the time when the coflow begins; the function returns the time when the coflow arrives.
    """

    def __init__(self, jobs: int, columns: SingleColumns, network: Topology, most_capacity: Floats,
                 tell: Callable[[NDArray[Any], NDArray[Any]], None],
                 at: Callable[[float, Callable[[], float]], None]) -> None:
        self.columns = columns
        self.network = network
        self._most = most_capacity
        self._tell = tell
        self._at = at
        self._lower_bound_s = np.full(jobs, np.nan)
        arrival, release = columns.arrival_s, columns.release_s
        wait = np.maximum(arrival + release - arrival, 0.0)
        self._valid = arrival + (wait + columns.compute_s)
        given = columns.overhead_s
        self._overhead_s = np.where(np.isnan(given), network.wire.overhead, given)
        if network.wire.protocols and len(columns.members):
            self._overhead_s = self._overhead_s + network.wire.launch_of(columns.largest())
        self._before_s = release + columns.compute_s
        # A coflow that crosses no link has no overhead; its end may be recorded a little late.
        self._begins = self._valid + self._overhead_s
        self._order = np.lexsort((columns.members, self._begins))
        self._built = 0
        self._empty: dict[int, tuple[NDArray[Any], NDArray[Any]]] = {}

    def _next_batch(self) -> Ints:
        """Return the members of the next batch, in order of validity."""
        first, order = self._built, self._order
        flows = np.cumsum(self.columns.flows[order[first:first + _MOST_COFLOWS]])
        count = max(int(np.searchsorted(flows, _MOST_FLOWS, "right")), 1)
        # Coflows that become valid at the same instant are in the same batch.
        last = self._begins[order[first + count - 1]]
        self._built = int(np.searchsorted(self._begins, last, "right", sorter=order))
        return order[first:self._built]

    def more(self) -> RoutedCoflow | None:
        """Return the next batch of coflows; see `netsim.fabric.routed_coflow.Source`."""
        while self._built < len(self._order):
            batch = self._next_batch()
            demand = self._build(batch)
            empty = demand.coflows["open"] == 0
            for k in np.flatnonzero(empty):
                self._end_empty(int(batch[k]), demand.coflows[k:k + 1], demand.flows)
            if not empty.all():
                return replace(demand, coflows=demand.coflows[~empty])
        return None

    def rerouted(self, rows: NDArray[Any], now: float) -> RoutedCoflow:
        """Rebuild coflows, given by their rows, in this order, on their current routes.

        A coflow that is valid already keeps its nominal Gamma, and a job that has arrived keeps its
        lower bound.
        """
        which = np.searchsorted(self.columns.members, rows["job"])
        demand = self._build(which, now)
        valid = self._valid[which] < now
        demand.coflows["nominal_gamma"][valid] = rows["nominal_gamma"][valid]
        return demand

    def reroute_empty(self, now: float) -> None:
        """Reroute the coflows without bytes that are built, but whose stages are not valid yet."""
        which = np.array([each for each in self._empty if self._valid[each] >= now], np.int64)
        if len(which):
            demand = self._build(which, now)
            for k, member in enumerate(which.tolist()):
                self._await_empty(member, demand.coflows[k:k + 1], demand.flows)

    def lower_bounds(self, now: float) -> Floats:
        """Return the least possible JCTs of jobs with a single coflow, in seconds; shape (jobs,).

        The values are NaN for other jobs, and for jobs that have not arrived at `now`.
        """
        members, arrived = self.columns.members, self.columns.arrival_s <= now
        late = arrived & np.isnan(self._lower_bound_s[members])
        if late.any():
            self._build(np.flatnonzero(late))
        bounds = np.full(len(self._lower_bound_s), np.nan)
        bounds[members[arrived]] = self._lower_bound_s[members[arrived]]
        return bounds

    def _end_empty(self, member: int, row: NDArray[Any], flows: NDArray[Any]) -> None:
        """Schedule the end of a coflow without bytes, which the fabric need not see."""
        self._await_empty(member, row, flows)
        self._at(float(row["valid"][0]), partial(self._tell_of, member))

    def _await_empty(self, member: int, row: NDArray[Any], flows: NDArray[Any]) -> None:
        row["start"] = row["valid"]
        row["arrives"] = np.maximum(row["valid"], row["arrives"])
        self._empty[member] = row, flows

    def _tell_of(self, member: int) -> float:
        """Record a coflow without bytes that begins; return when it arrives."""
        row, flows = self._empty.pop(member)
        row["job"] = self.columns.members[member]  # which may have changed since
        self._tell(row, flows)
        return float(row["arrives"][0])

    def add_job(self, job: int) -> None:
        """Insert a job that has not arrived; the numbers of later jobs grow by one."""
        members = self.columns.members
        self.columns = replace(self.columns, members=members + (members >= job))
        self._lower_bound_s = np.insert(self._lower_bound_s, job, np.nan)

    def _build(self, which: Ints, since: float = -math.inf) -> RoutedCoflow:
        """Build the coflows of some members; set the lower bounds of those that arrive `since`."""
        columns, network, wire = self.columns, self.network, self.network.wire
        members, sent = columns.members[which], columns.sent(which)
        stops = np.cumsum(sent.counts)
        key = np.arange(stops[-1]) + np.repeat(sent.key - (stops - sent.counts), sent.counts)
        ptr, links = network.routes(sent.src, sent.dst, key)
        latency = wire.latency_of(ptr, links) if wire.timed else None
        nbytes = network.wire_bytes(sent.nbytes, sent.src, sent.dst, key, ptr, links)
        rows, flows, hops, loads = bind(sent.src, sent.dst, nbytes, ptr, links, network.usable,
                                        stops, sent.nbytes, latency)
        for array in (flows, hops, loads):
            array.setflags(write=False)
        rows["job"] = members
        rows["overhead"] = np.where(_have_paths(rows), self._overhead_s[which], 0.0)
        least = rows["gamma"] + rows["overhead"]
        if wire.timed or not np.array_equal(self._most[:network.links], network.usable):
            least = least_times(rows, flows, hops, loads, self._most, wire.latency)
        to_come = columns.arrival_s[which] >= since
        self._lower_bound_s[members[to_come]] = (least + self._before_s[which])[to_come]
        rows["valid"] = rows["last"] = self._valid[which] + rows["overhead"]
        rows["arrives"] += rows["valid"]
        rows["weight"] = columns.weight[which]
        rows["deadline"] = self._valid[which] + columns.deadline_s[which]
        return RoutedCoflow(rows, flows, hops, loads, float(rows["total"].sum()),
                            float(rows["gamma"][0]))


def _have_paths(rows: NDArray[Any]) -> Bools:
    """Whether some flow of each coflow crosses a link, with bytes or without."""
    have: Bools = (rows["flows"] > 0) | (rows["arrives"] > -np.inf)
    return have
