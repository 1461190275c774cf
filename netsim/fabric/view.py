"""What an allocator sees: read-only arrays of active coflows and flows, and building blocks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.base.arrays import Floats, Ints
from netsim.base.brief import MOST_ROWS, shown
from netsim.base.units import format_count
from netsim.errors import AllocationError
from netsim.fabric import kernels
from netsim.fabric.allocation import (
    NEEDS,
    Allocation,
    Event,
    Information,
    PriorityService,
    amounts,
    check_sees,
    indices,
    not_once,
    numbers,
    sees,
)
from netsim.fabric.records import DUST, ROUNDINGS
from netsim.fabric.running import JobHosts, JobLabel, Running
from netsim.ties import merge_equal, rank

if TYPE_CHECKING:
    from netsim.fabric.flow_table import FlowTable


def _locked(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


class FabricView:
    """The fabric at one decision, as far as a policy may know it, and building blocks for rates.

    Arrays have one entry per active coflow, shape (C,), or per unfinished flow, shape (F,). Coflows
    are in order of (valid time, job, stage), and jobs are numbered by (arrival, id), so a stable
    sort breaks ties in the usual way. Only `bssi` and netsim's own policies take valid times within
    1e-9 of each other as equal. Flows are listed coflow by coflow, in list order. All arrays are
    read-only. A column that the policy does not declare to know is refused with an `InputError`:
    sizes if it is agnostic, and what jobs have yet to send, `job_predicted_s`, `job_ahead_s`,
    `job_service` and `job_profile`, unless it goes by predictions or is job-clairvoyant.

    Building blocks are compiled. They take and return arrays with one entry per coflow, (C,),
    per unfinished flow, (F,), or per link, (L,).

    Parameters
    ----------
    table : FlowTable
        The rows to look at.
    now : float
        The time of the decision, in seconds.
    information : {"agnostic", "clairvoyant", "predicted", "job-clairvoyant"}
        What the policy may see.
    events : Event
        What has happened since the last decision.
    running : Running, optional
        The running jobs and their hosts; None if the policy is not told.
    reader : str
        The policy, as error messages name it.
    job_of : callable
        Takes the number of a job, and returns an object with its id, name and group, such as a
        `netsim.JobSpec`. By default, the number is the id.

    Attributes
    ----------
    now : float
    events : Event
    """

    def __init__(self, table: FlowTable, now: float, information: Information = "clairvoyant",
                 events: Event = Event.ANY, running: Running | None = None,
                 reader: str = "the policy", job_of: Callable[[int], Any] = JobLabel) -> None:
        table.flush()
        self._table, self._rows = table, table.coflows
        self._information, self._running = information, running
        self._reader, self._job_of = reader, job_of
        self.now, self.events = now, events

    def __repr__(self) -> str:
        return (f"<{type(self).__name__} at {self.now:g} s: {format_count(len(self), 'coflow')}, "
                f"{format_count(self.flows, 'flow')}>")

    def _repr_html_(self) -> str:
        return shown(repr(self), {name: getattr(self, name)[:MOST_ROWS] for name in (
            "job", "id", "valid_s", "width", "sent", "remaining", "gamma")
            if self.shows(name)}, len(self))

    # --- coflows ---------------------------------------------------------------------

    @property
    def jobs(self) -> int:
        """The number of jobs that have an active coflow."""
        return self._table.active_jobs

    def running(self) -> JobHosts:
        """The running jobs, sending or computing, and their hosts.

        Raises
        ------
        AllocationError
            Unless the policy declares ``sees_running``.
        """
        if self._running is None:
            raise AllocationError("running tells which jobs run, but the policy does not declare "
                                  "that it sees_running")
        return self._running.pairs()

    def __len__(self) -> int:
        """Return the number of active coflows."""
        return len(self._rows)

    def shows(self, column: str) -> bool:
        """Whether the policy may read a column, by the information that it declares."""
        return column not in NEEDS or sees(self._information, NEEDS[column])

    def _check_shows(self, column: str) -> None:
        check_sees(self._reader, f"view.{column}", self._information, NEEDS[column])

    @cached_property
    def job(self) -> Ints:
        """The job of each coflow; jobs are numbered by (arrival, id). Shape (C,)."""
        return _locked(self._rows["job"].copy())

    @cached_property
    def id(self) -> Ints:
        """A number that identifies the coflow as long as it is active. Shape (C,)."""
        return _locked(self._rows["key"].copy())

    @cached_property
    def order(self) -> Ints:
        """The place of each coflow in its job: by iteration, depth, release, id. Shape (C,)."""
        return _locked(self._rows["order"].copy())

    @cached_property
    def valid_s(self) -> Floats:
        """When each coflow became valid, in seconds. Shape (C,)."""
        return _locked(self._rows["valid"].copy())

    @cached_property
    def weight(self) -> Floats:
        """Each coflow's weight: that of its job times that of its stage. Shape (C,)."""
        return _locked(self._rows["weight"].copy())

    @cached_property
    def deadline_s(self) -> Floats:
        """The time by which each coflow should finish, in seconds; inf if none. Shape (C,)."""
        return _locked(self._rows["deadline"].copy())

    @cached_property
    def width(self) -> Ints:
        """The number of unfinished flows of each coflow. Shape (C,)."""
        return _locked(self._rows["open"].copy())

    @cached_property
    def flow_count(self) -> Ints:
        """The number of flows of each coflow, finished or not. Shape (C,)."""
        return _locked(self._rows["flows"].copy())

    @cached_property
    def sent(self) -> Floats:
        """Bytes that each coflow has sent: its attained service. Shape (C,)."""
        return _locked(self._rows["total"] - self._table.bytes_left())

    @cached_property
    def total(self) -> Floats:
        """The size of each coflow, in bytes. Shape (C,)."""
        self._check_shows("total")
        return _locked(self._rows["total"].copy())

    @cached_property
    def remaining(self) -> Floats:
        """Bytes that each coflow has yet to send. Shape (C,)."""
        self._check_shows("remaining")
        return _locked(self._table.bytes_left())

    @cached_property
    def gamma(self) -> Floats:
        """Effective bottleneck of the remaining bytes at full capacities, in seconds. Shape (C,).

        This is the time that the coflow would take alone (Gamma); inf if it needs a link of
        capacity 0.
        """
        self._check_shows("gamma")
        self._table.refresh()
        return _locked(self._rows["gamma"] * self._rows["left"])

    @cached_property
    def nominal_gamma(self) -> Floats:
        """Gamma of all bytes of each coflow at nominal capacities, in seconds. Shape (C,)."""
        self._check_shows("nominal_gamma")
        return _locked(self._rows["nominal_gamma"].copy())

    @cached_property
    def longest(self) -> Floats:
        """The size of each coflow's longest flow, in bytes. Shape (C,)."""
        self._check_shows("longest")
        return _locked(self._rows["longest"].copy())

    def ports(self, *, unfinished: bool = False) -> Ints:
        """Return min(number of senders, number of receivers) of each coflow. Shape (C,).

        Parameters
        ----------
        unfinished : bool
            Count the ports of unfinished flows only.
        """
        return kernels.blocks.ports(self._rows, self._table.flows, unfinished)

    def _labels(self, name: str, dtype: type) -> NDArray[Any]:
        found: NDArray[Any] = np.empty(len(self), dtype)
        found[:] = [getattr(self._job_of(job), name) for job in self.job.tolist()]
        return _locked(found)

    @cached_property
    def job_id(self) -> Ints:
        """The id of the job of each coflow, as in the workload and in results. Shape (C,)."""
        return self._labels("id", np.int64)

    @cached_property
    def job_name(self) -> NDArray[np.object_]:
        """The name of the job of each coflow, a string. Shape (C,)."""
        return self._labels("name", object)

    @cached_property
    def job_group(self) -> NDArray[np.object_]:
        """The group of the job of each coflow: a name, a number, or None. Shape (C,)."""
        return self._labels("group", object)

    @cached_property
    def job_arrival_s(self) -> Floats:
        """When the job of each coflow arrived, in seconds. Shape (C,)."""
        return _locked(self._table.jobs["arrival"][self._rows["job"]])

    @cached_property
    def job_attained(self) -> Floats:
        """Bytes that the job of each coflow has sent (S_m), active coflows included. Shape (C,)."""
        return _locked(kernels.blocks.job_attained(self._rows, self._table.jobs))

    @cached_property
    def job_completed(self) -> Ints:
        """The number of coflows that the job of each coflow has completed (Z_m). Shape (C,)."""
        return _locked(self._table.jobs["completed"][self._rows["job"]])

    @cached_property
    def job_longest_gamma(self) -> Floats:
        """The largest Gamma of the coflows that each job has sent so far, in seconds.

        Shape (C,).
        """
        self._check_shows("job_longest_gamma")
        return _locked(self._table.jobs["longest"][self._rows["job"]])

    @cached_property
    def job_predicted_s(self) -> Floats:
        """The predicted sum of Gamma over the coflows that each job has yet to send, in seconds.

        It is the Gamma of an iteration, times the iterations that the policy's predictor expected
        when the job began, less the Gammas of the coflows that the job has sent; 0 if the job sends
        more than that. Shape (C,). Only for a policy that declares ``information = "predicted"`` or
        more.
        """
        self._check_shows("job_predicted_s")
        return _locked(self._table.jobs["predicted"][self._rows["job"]])

    @cached_property
    def job_ahead_s(self) -> Floats:
        """The sum of Gamma over the coflows that each job has yet to send, in seconds. Shape (C,).

        Only for a policy that declares ``information = "job-clairvoyant"``.
        """
        self._check_shows("job_ahead_s")
        return _locked(self._table.jobs["ahead"][self._rows["job"]])

    @cached_property
    def job_service(self) -> Floats:
        """The GPU-seconds that each job would still take if it were alone. Shape (C,).

        This is its remaining time times its GPUs (ranks, on other networks than clusters). Its
        active coflows take their gammas, and those that it has yet to send their share of an
        iteration, computation included. A job of which the fabric knows no more than its coflows
        counts as one GPU that does not compute. inf if a coflow needs a failed link. Only for a
        policy that declares ``information = "job-clairvoyant"``.
        """
        self._check_shows("job_service")
        jobs = self._table.jobs
        left = jobs["ahead"] * np.where(jobs["per_gamma"] > 0, jobs["per_gamma"], 1.0)
        np.add.at(left, self.job, self.gamma)
        return _locked((left * np.where(jobs["gpus"] > 0, jobs["gpus"], 1.0))[self.job])

    @cached_property
    def job_profile(self) -> NDArray[Any]:
        """The `netsim.workload.IterationProfile` of the job of each coflow, as rows. Shape (C,)."""
        self._check_shows("job_profile")
        return _locked(self._table.profiles_of(self.job))

    # --- flows and links -------------------------------------------------------------

    @cached_property
    def _open(self) -> tuple[Ints, Ints]:
        return self._table.open_flows()

    @cached_property
    def flows(self) -> int:
        """The number of unfinished flows."""
        return int(self._rows["open"].sum())

    @cached_property
    def coflow(self) -> Ints:
        """The coflow of each flow, as an index into the coflow arrays. Shape (F,)."""
        return _locked(self._open[1])

    @cached_property
    def src(self) -> Ints:
        """The host that sends each flow. Shape (F,)."""
        return _locked(self._table.flows["src"][self._open[0]].astype(np.int64))

    @cached_property
    def dst(self) -> Ints:
        """The host that receives each flow. Shape (F,)."""
        return _locked(self._table.flows["dst"][self._open[0]].astype(np.int64))

    @cached_property
    def flow_size(self) -> Floats:
        """The size of each flow, in bytes. Shape (F,)."""
        self._check_shows("flow_size")
        return _locked(self._table.flows["size"][self._open[0]])

    @cached_property
    def _flow_remaining(self) -> Floats:
        index, owner = self._open
        return self._table.flows["remaining"][index] * self._rows["left"][owner]

    @cached_property
    def flow_remaining(self) -> Floats:
        """Bytes that each flow has yet to send. Shape (F,)."""
        self._check_shows("flow_remaining")
        return _locked(self._flow_remaining.copy())

    @cached_property
    def flow_sent(self) -> Floats:
        """Bytes that each flow has sent. Shape (F,)."""
        return _locked(self._table.flows["size"][self._open[0]] - self._flow_remaining)

    @cached_property
    def paths(self) -> tuple[Ints, Ints]:
        """The links that each flow crosses, in compressed rows ``(ptr, links)``.

        Flow f crosses ``links[ptr[f]:ptr[f + 1]]``.
        """
        flows, index = self._table.flows, self._open[0]  # gathering whole rows takes far longer
        counts = flows["hops"][index].astype(np.int64)
        ptr = np.concatenate(([0], np.cumsum(counts)))
        at = np.repeat(flows["hop"][index] - ptr[:-1], counts) + np.arange(ptr[-1])
        return _locked(ptr), _locked(self._table.hops["link"][at])

    @cached_property
    def capacity(self) -> Floats:
        """Bytes per second of each link, as of now. Shape (L,)."""
        return _locked(self._table.capacity.copy())

    # --- building blocks -------------------------------------------------------------

    def uses_sizes(self, allocation: Allocation) -> bool:
        """Whether an allocation depends on sizes, although the policy declares not to know them.

        An order does not depend on them: the fabric, which serves it, knows sizes itself.
        """
        service = allocation.service
        return self._information == "agnostic" and allocation.order is None and (
            allocation.shares is not None
            or (service is not None and (service.primary == "madd" or service.by_size)))

    def _need_sizes(self, block: str) -> None:
        if self._information == "agnostic":
            raise AllocationError(f"{block} needs flow sizes, but the policy declares that it "
                                  "is agnostic")
        self._table.refresh()

    def _per_coflow(self, values: ArrayLike) -> Floats:
        if isinstance(values, float | int):
            array = np.empty(len(self))
            array.fill(values)
            return array
        return numbers("shares", values, len(self))

    def lp_rates(self, shares: ArrayLike = 1.0) -> Floats:
        """Return each flow's LP rate, remaining/gamma, times its coflow's share. Shape (F,).

        Parameters
        ----------
        shares : array_like of float, shape (C,)
            Share of each coflow, or one share for all.
        """
        self._need_sizes("lp_rates")
        return kernels.blocks.lp_rates(self._rows, self._table.flows, self._per_coflow(shares))

    def common_factor(self, shares: ArrayLike = 1.0, base: ArrayLike = 0.0) -> float:
        """Return the largest x for which the shares ``base + x * shares`` fit every link.

        inf if no link limits it.
        """
        self._need_sizes("common_factor")
        return float(kernels.blocks.common_factor(
            self._rows, self._table.loads, self._per_coflow(shares), self._per_coflow(base),
            self._table.capacity, self._table.no_shared_links()))

    def greedy(self, order: ArrayLike, limit: ArrayLike = 1.0, base: ArrayLike = 0.0) -> Floats:
        """Return shares: start from `base`, and add the largest share that still fits, in `order`.

        Parameters
        ----------
        order : array_like of int
            Coflows, the first to be served first.
        limit : array_like of float, shape (C,)
            The largest share that a coflow may add, per coflow, or one for all.
        base : array_like of float, shape (C,)
            Shares that coflows have already.
        """
        self._need_sizes("greedy")
        return kernels.blocks.greedy(
            self._rows, self._table.loads, indices(order, len(self)), self._per_coflow(limit),
            self._per_coflow(base), self._table.capacity, self._table.no_shared_links())

    def stretch_flows(self, rates: ArrayLike) -> Floats:
        """Return each flow's rate times the least capacity/load of its links. Shape (F,)."""
        return kernels.blocks.stretch_flows(
            self._rows, self._table.flows, self._table.hops, numbers("rates", rates, self.flows),
            self._table.capacity)

    def maxmin(self, weights: ArrayLike = 1.0, capacity: ArrayLike | None = None) -> Floats:
        """Return the weighted max-min fair rate of each flow. Shape (F,).

        Parameters
        ----------
        weights : array_like of float, shape (F,), or float
            Weight of each flow, or one weight for all; a flow of weight 0 gets nothing.
        capacity : array_like of float, shape (L,), optional
            Bandwidth to share; by default the links' capacities.

        Raises
        ------
        AllocationError
            If the number of weights or capacities is wrong, or one of them is negative or not
            finite.
        """
        table = self._table
        weights = np.full(self.flows, weights) if np.ndim(weights) == 0 else weights
        weights = amounts("weights", weights, self.flows)
        capacity = amounts("capacity", table.capacity if capacity is None else capacity,
                           len(table.capacity))
        return kernels.blocks.maxmin(self._rows, table.flows, table.hops, capacity, weights)

    def rates(self, allocation: Allocation) -> Floats:
        """Return the bytes per second that an allocation gives each flow. Shape (F,).

        That links can carry them is not checked: see `link_load`. An `AllocationError` says if the
        allocation has other shapes than the view, or its order does not name each coflow once.
        """
        fault = allocation.misfit(len(self), self.flows)
        if fault or (allocation.order is not None and (fault := not_once(allocation.order))):
            raise AllocationError(f"{self._reader} {fault}")
        if self.uses_sizes(allocation):
            self._need_sizes("an allocation of shares, or by MADD or size,")
        if allocation.shares is not None:
            self._table.refresh()
            return kernels.blocks.lp_rates(self._rows, self._table.flows, allocation.shares)
        if allocation.order is not None and allocation.service is None:
            shares = self._table.shares_in_order(allocation.order)
            return kernels.blocks.lp_rates(self._rows, self._table.flows, shares)
        if allocation.weights is not None:
            return self.maxmin(allocation.weights)
        if allocation.coflow_weights is not None:
            return self.maxmin((allocation.coflow_weights / np.maximum(self.width, 1))[self.coflow])
        if allocation.service is not None:
            return self._serve(allocation.service)
        assert allocation.rates is not None
        return allocation.rates.copy()

    def madd(self, order: ArrayLike) -> tuple[Floats, Floats]:
        """Give each coflow in `order` MADD rates on the capacity left; skip it if a link is full.

        Returns
        -------
        rates : ndarray of float, shape (F,)
        left : ndarray of float, shape (L,)
            Bytes per second that links have left.
        """
        self._need_sizes("madd")
        return self._madd(order)

    def _madd(self, order: ArrayLike) -> tuple[Floats, Floats]:
        self._table.refresh()
        table, left = self._table, self._table.capacity.copy()
        rates = kernels.blocks.madd(self._rows, table.flows, table.loads,
                                     indices(order, len(self)), table.capacity, left)
        return rates, left

    def _to_add_to(self, left: ArrayLike | None, rates: ArrayLike | None) -> tuple[Floats, Floats]:
        """Return copies of `left` and `rates`; by default full capacities and rates of 0."""
        capacity = self._table.capacity
        return (numbers("left", capacity if left is None else left, len(capacity)).copy(),
                np.zeros(self.flows) if rates is None else
                numbers("rates", rates, self.flows).copy())

    def fill(self, order: ArrayLike, left: ArrayLike, rates: ArrayLike | None = None
             ) -> tuple[Floats, Floats]:
        """Share what is `left` among coflows in `order`, max-min fairly among the flows of each.

        Parameters
        ----------
        order : array_like of int
            Coflows, the first to be served first.
        left : array_like of float, shape (L,)
            Bytes per second that links have left.
        rates : array_like of float, shape (F,), optional
            Rates to add to; 0 if not given.

        Returns
        -------
        rates, left : ndarray of float
            New arrays.
        """
        table = self._table
        left, rates = self._to_add_to(left, rates)
        kernels.blocks.fill(self._rows, table.flows, table.hops, table.loads,
                             indices(order, len(self)), table.capacity, left, rates)
        return rates, left

    def serve(self, service: PriorityService) -> Floats:
        """Return the rates that a service in order sets first. Shape (F,)."""
        if service.primary == "madd" or service.by_size:
            self._need_sizes("a service by MADD or by size")
        return self._serve(service)

    def _serve(self, service: PriorityService) -> Floats:
        rates, left = np.zeros(self.flows), self._table.capacity.copy()
        if service.primary == "madd":
            rates, left = self._madd(service.order)
        elif service.primary == "queues":
            left[:] = 0.0
            queues = service.queue[service.order]
            for queue in np.unique(queues):
                part = service.queue_shares[queue] * self._table.capacity
                rates, part = self.fill(service.order[queues == queue], part, rates)
                left += part
        if service.by_size:
            order = self.flows_of(service.order)
            return self.greedy_flows(order[rank(self._flow_remaining[order])])[0]
        return self.backfill(service.backfill, service.order, left, rates)

    def backfill(self, rest: str, order: ArrayLike, left: ArrayLike, rates: ArrayLike) -> Floats:
        """Add left-over bandwidth to `rates`; see `PriorityService`. Shape (F,).

        Parameters
        ----------
        rest : {"none", "maxmin", "greedy"}
        order : array_like of int
            Coflows, the first to be served first; other coflows get no left-over bandwidth.
        left : array_like of float, shape (L,)
        rates : array_like of float, shape (F,)
        """
        if rest == "maxmin":
            return self.fill(order, left, rates)[0]
        if rest == "greedy":
            return self.greedy_flows(self.flows_of(order), left, rates)[0]
        return numbers("rates", rates, self.flows)

    def flows_of(self, order: ArrayLike) -> Ints:
        """Return the flows of the coflows in `order`, those of each coflow in list order."""
        order = indices(order, len(self))
        place = np.full(len(self), len(order))
        place[order] = np.arange(len(order))
        flows = np.argsort(place[self.coflow], kind="stable")
        return flows[:self.width[order].sum()]

    def split(self, order: ArrayLike, left: ArrayLike | None = None, rates: ArrayLike | None = None,
              *, together: bool = False) -> tuple[Floats, Floats]:
        """Split what each link has left equally among the flows on it, coflow by coflow.

        The rate of a flow is its smallest part over the links on its path. The rest of its parts on
        other links stays unused. Flows that need a full link get nothing and are not counted.

        Parameters
        ----------
        order : array_like of int
            Coflows, the first to be served first.
        left : array_like of float, shape (L,), optional
            Bytes per second that links have left; their capacities if not given.
        rates : array_like of float, shape (F,), optional
            Rates to add to; 0 if not given.
        together : bool
            Split among the flows of all these coflows at once, rather than coflow by coflow.

        Returns
        -------
        rates, left : ndarray of float
            New arrays.
        """
        table, order = self._table, indices(order, len(self))
        left, rates = self._to_add_to(left, rates)
        ends = np.array([len(order)]) if together else np.arange(1, len(order) + 1)
        kernels.blocks.split(self._rows, table.flows, table.hops, order, ends, table.capacity, left,
                            rates)
        return rates, left

    def greedy_flows(self, order: ArrayLike, left: ArrayLike | None = None,
                     rates: ArrayLike | None = None) -> tuple[Floats, Floats]:
        """Give each flow in `order` all that its links have left.

        Parameters
        ----------
        order : array_like of int
            Flows, the first to be served first.
        left : array_like of float, shape (L,), optional
            Bytes per second that links have left; their capacities if not given.
        rates : array_like of float, shape (F,), optional
            Rates to add to; 0 if not given.

        Returns
        -------
        rates, left : ndarray of float
            New arrays.
        """
        table = self._table
        left, rates = self._to_add_to(left, rates)
        kernels.blocks.greedy_flows(table.flows, table.hops, self._open[0],
                                     indices(order, self.flows), table.capacity, left, rates)
        return rates, left

    def bssi(self) -> tuple[Ints, float]:
        """Return Sincronia's order of the coflows, and its dual bound; see `ordered.bssi`.

        Of coflows with the same weight per second, those valid within 1e-9 of each other are in
        order of their jobs.
        """
        self._need_sizes("bssi")
        valid = self._rows["valid"]
        turn = np.lexsort((self._rows["job"], merge_equal(valid)))
        order, dual = kernels.blocks.bssi(self._rows[turn], self._table.loads,
                                           self._table.capacity)
        return turn[order], float(dual)

    def link_shares(self, shares: ArrayLike = 1.0) -> Floats:
        """Return the sum of the shares of the coflows on each link. Shape (L,).

        A coflow uses the links of its unfinished flows. If coflows send at these shares of their LP
        rates, a link carries at most this sum times its capacity.

        Parameters
        ----------
        shares : array_like of float, shape (C,)
            Share of each coflow, or one share for all.
        """
        self._table.refresh()
        return kernels.blocks.link_shares(self._rows, self._table.loads, self._per_coflow(shares),
                                           self._table.capacity)

    def crossings(self, limit: ArrayLike, rates: ArrayLike) -> Floats:
        """Return when each coflow will have sent `limit` bytes at these rates. Shape (C,).

        In seconds; inf for a coflow that will never reach its limit at these rates. The time may be
        late by a few rounding errors, but is never early: at this time, `sent` has reached the
        limit. It is meant for `revisit_at`. Flows that end before this time are taken into account,
        even if the policy does not know sizes.

        Parameters
        ----------
        limit : array_like of float, shape (C,)
            Bytes; inf for a coflow without a limit.
        rates : array_like of float, shape (F,)
        """
        limit = np.asarray(limit, dtype=np.float64)
        late = ROUNDINGS * self._rows["total"]
        ahead = np.maximum(limit - self.sent + late, 0.0)
        return self.now + kernels.blocks.crossing_in(
            self._rows, self._table.flows, numbers("rates", rates, self.flows), ahead,
            DUST * limit + late)

    def link_load(self, rates: ArrayLike) -> Floats:
        """Return the bytes per second that `rates`, one per flow, put on each link. Shape (L,)."""
        ptr, links = self.paths
        per_hop = np.repeat(numbers("rates", rates, self.flows), np.diff(ptr))
        return np.bincount(links, per_hop, len(self._table.capacity)).astype(np.float64)
