"""`netsim.Fabric`: the network of a user's SimPy program."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from netsim.allocators import ALLOCATORS, make_allocator
from netsim.base.lazy import simpy
from netsim.base.units import Quantity, format_count, parse_seconds
from netsim.base.values import (
    Node,
    check_flag,
    check_label,
    check_name,
    check_sequence,
    check_weight,
    check_whole,
    known_names,
)
from netsim.columns import Flows
from netsim.errors import InputError, NetsimWarning
from netsim.fabric.allocation import sees
from netsim.fabric.allocator import Allocator
from netsim.fabric.coflow_event import CoflowEvent
from netsim.fabric.fabric_process import FabricProcess
from netsim.fabric.flow_table import FlowTable
from netsim.fabric.routed_coflow import RoutedCoflow, WithoutProcess
from netsim.fabric.view import FabricView
from netsim.jobs.plan import ecmp_key
from netsim.network import BigSwitch, GraphTopology, Topology
from netsim.network.files import as_network
from netsim.network.live import LiveNetwork, live_network, moves_flows
from netsim.results.result import Result
from netsim.results.tables import RECORDS
from netsim.scripting.coflow import Coflow, ScriptRecorder
from netsim.scripting.job import Job
from netsim.simulation.events import Change, FaultEvent, by_hand, capacity_by_hand, changes_of
from netsim.simulation.faults import dead_links, listed
from netsim.simulation.run import (
    active_coflows,
    active_flows,
    jobs_table,
    leftover_of,
    links_now,
    run_info,
)
from netsim.workload import Stage

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

#: How many coflows that were given as `Flows` are remembered with their routes.
_MOST_KNOWN = 4096


@known_names
class Fabric:
    """A network in a user's SimPy environment, on which processes send coflows.

    `netsim.simulate` uses the same code to move bytes. Coflows submitted at the same time share one
    decision of the allocator. An environment may have several fabrics.

    Parameters
    ----------
    env : simpy.Environment
        Any environment, including `simpy.rt.RealtimeEnvironment`.
    network : Topology, str or path
    allocator, observe_interval, record, check, seed
        As for `netsim.simulate`; nothing here is drawn from the seed.

    Raises
    ------
    InputError
        If `netsim.simulate` would not accept an argument.

    Examples
    --------
    >>> import simpy, netsim
    >>> env = simpy.Environment()
    >>> fabric = netsim.Fabric(env, netsim.big_switch(2, "8Mbps"))
    >>> def sender():
    ...     done = yield fabric.transfer(0, 1, "3MB")
    ...     print(f"{done.bytes:g} bytes in {done.cct_s:g} s, at {env.now:g} s")
    >>> process = env.process(sender())
    >>> env.run()
    3e+06 bytes in 3 s, at 3 s
    """

    # With slots, setting an attribute that does not exist, such as `allocator`, is an error.
    __slots__ = ("__weakref__", "_allocator", "_began", "_by_job", "_cancelled", "_drawn",
                 "_in_flight", "_interval", "_jobs", "_known", "_lost", "_process", "_recorder",
                 "_routed", "_seed", "_submitted", "env", "network")

    def __init__(self, env: simpy.Environment, network: Topology | str, *,
                 allocator: str | Mapping[str, Any] | Allocator | type[Allocator] = "maxmin",
                 observe_interval: Quantity = 0,
                 record: Sequence[str] = ("jobs", "coflows"), check: bool = True,
                 seed: int = 0) -> None:
        if not isinstance(env, simpy.Environment):
            raise InputError(f"env must be a simpy.Environment, not {env!r}")
        check_whole(seed, "seed")
        check_flag(check, "check")
        self.env = env
        self.network = as_network(network)
        self._allocator = made = make_allocator(allocator)
        if made.plans_ahead:
            raise InputError(f"allocator {made.title} plans for all jobs before they begin, and a "
                             "program submits them as it goes; it is for workloads on a network")
        self._interval = parse_seconds(observe_interval, "observe_interval")
        self._seed = seed
        self._recorder = ScriptRecorder(record, self.network)
        self._process = FabricProcess(
            env, self.network, self._allocator, [], observe_interval=self._interval, check=check,
            observer=self._recorder if self._recorder.watches_fabric else None,
            job_of=self._job_of)
        self._routed: Topology = self.network
        self._jobs: list[Job] = []
        self._in_flight: dict[Coflow, None] = {}
        self._cancelled: list[Coflow] = []
        self._known: dict[tuple[Any, ...], tuple[Flows, Stage, RoutedCoflow]] = {}
        self._by_job = not isinstance(self.network, BigSwitch)
        self._lost: set[int] = set()
        self._submitted = 0
        self._drawn = next(env._eid)  # of the numbers of SimPy's events
        self._began = time.perf_counter()

    # --- jobs and coflows -------------------------------------------------------------

    @known_names
    def job(self, name: str = "", *, hosts: Sequence[Node] | None = None,
            communication_s: Quantity | None = None, gpus: int = 1,
            alone_s: Quantity | None = None, weight: float = 1.0,
            group: int | str | None = None) -> Job:
        """Make a job, which arrives now; policies that rank jobs see its coflows as one job.

        Parameters
        ----------
        name : str
        hosts : sequence of int or str, optional
            The hosts that it runs on, by number or name, for allocators that are told which jobs
            run.
        communication_s : quantity, optional
            Sum of the effective bottlenecks of all coflows that it will submit, or a prediction of
            it, for allocators that know the future of jobs or go by predictions (``information`` is
            ``"job-clairvoyant"`` or ``"predicted"``).
        gpus : int
            GPUs that it holds, for `netsim.fabric.view.FabricView.job_service`.
        alone_s : quantity, optional
            Seconds that it would take if it were alone, computation included, for the same. By
            default `communication_s`.
        weight : float
            Its priority, for policies that use weights: that of each of its coflows is this times
            the coflow's own.
        group : int or str, optional
            A label of jobs that belong together, for policies that look at it.

        Raises
        ------
        InputError
            If the allocator needs an argument that is not given, or a value is not allowed.
        """
        check_name(name, "name of a job")
        title = self._allocator.title
        if communication_s is None and sees(self._allocator.information, "predicted"):
            raise InputError(f"allocator {title} knows or predicts what jobs are yet to send: give "
                             "communication_s, the sum of the effective bottlenecks of the coflows")
        if self._allocator.sees_running and hosts is None:
            raise InputError(f"allocator {title} is told which jobs run, and where: give hosts")
        where = self.network.host_numbers(check_sequence(
            () if hosts is None else hosts, int | np.integer | str | tuple, "hosts",
            "names or numbers"))
        check_whole(gpus, "gpus", 1)
        weight = check_weight(weight, "weight of a job")
        check_label(group, "group of a job")
        ahead = 0.0 if communication_s is None else parse_seconds(communication_s,
                                                                  "communication_s")
        alone = ahead if alone_s is None else parse_seconds(alone_s, "alone_s")
        self._check_clock()
        with self._process.closing():
            job = Job(len(self._jobs), name, self.env.now, self._end, weight, group)
            self._jobs.append(job)
            self._process.table.add_job(job.index, self.env.now)
            row = self._process.table.jobs[job.index]
            row["ahead"], row["predicted"], row["gpus"] = ahead, ahead, gpus
            row["per_gamma"] = alone / ahead if ahead else 0.0
            if self._allocator.sees_running:
                self._process.running.begin(job.index, where.tolist())
        return job

    @known_names
    def coflow(self, flows: Flows | Iterable[tuple[Node, Node, Quantity]] | NDArray[Any]
               | pd.DataFrame, *, job: Job | None = None, name: str = "coflow",
               weight: float = 1.0, deadline_s: Quantity | None = None) -> Coflow:
        """Submit a coflow now; return the event of its completion.

        Parameters
        ----------
        flows : Flows, iterable of (src, dst, nbytes), ndarray or DataFrame
            Flows between hosts, by number or name: as an array, of shape (flows, 3); as a table,
            with the columns src, dst and nbytes. A `Flows` object, with numbers as hosts, is routed
            only once if it is submitted repeatedly.
        job : Job, optional
            The job of the coflow. By default, the coflow gets its own job, which ends with it.
        name : str
            The name in records; coflows with the same name and job take the same paths.
        weight : float
            How much it counts among the coflows of its job, for policies that use weights.
        deadline_s : quantity, optional
            Seconds from now by which it should complete.

        Raises
        ------
        InputError
            If the job has ended or belongs to another fabric, or a flow is invalid.
        """
        self._check_clock()
        index = len(self._jobs) if job is None else self._check_job(job).index
        stage, demand = self._route(flows, index, name, check_weight(weight, "weight") * (
            1.0 if job is None else job.weight), deadline_s)
        with self._process.closing():
            return self._submit(stage, demand, job)

    def _submit(self, stage: Stage, demand: RoutedCoflow, job: Job | None) -> Coflow:
        """Submit a coflow of a job, or of one of its own."""
        name = stage.name
        owner = self._own_job(name, demand) if job is None else job
        coflow = Coflow(self.env, self._submitted, owner, job is None, stage, demand,
                        self._completed, self._cancel)
        self._submitted += 1
        owner.submitted += 1
        lost = [host for host in self._lost if coflow.uses(host)]
        if lost:
            self._drop(coflow)
            coflow.give_up(f"coflow {coflow.number} {name!r} needs host {lost[0]}, which is lost,",
                           demand.nbytes)
            return coflow
        self._in_flight[coflow] = None
        self._process.send(coflow)
        return coflow

    @known_names
    def transfer(self, src: Node, dst: Node, nbytes: Quantity, *, job: Job | None = None,
                 name: str = "transfer", weight: float = 1.0, deadline_s: Quantity | None = None
                 ) -> Coflow:
        """Submit a coflow of one flow; see `coflow`."""
        return self.coflow([(src, dst, nbytes)], job=job, name=name, weight=weight,
                           deadline_s=deadline_s)

    def _job_of(self, index: int) -> Job:
        """Return a job by its number, for views of allocators."""
        return self._jobs[index]

    def _own_job(self, name: str, demand: RoutedCoflow) -> Job:
        """Make a job for one coflow alone."""
        ends = demand.flows["src"], demand.flows["dst"]
        return self.job(name, hosts=np.unique(np.concatenate(ends)).tolist(),
                        communication_s=demand.gamma)

    def _check_job(self, job: Job) -> Job:
        if not isinstance(job, Job):
            raise InputError(f"job must be one that fabric.job() has made, not {job!r}")
        if job.index >= len(self._jobs) or self._jobs[job.index] is not job:
            raise InputError(f"job {job.name!r} is of another fabric; make one with job()")
        if job.ended:
            raise InputError(f"job {job.name!r} has ended at {job.finish_s:g} s, and submits no "
                             "more")
        return job

    def _route(self, flows: Any, job: int, name: str, weight: float,
               deadline_s: Quantity | None) -> tuple[Stage, RoutedCoflow]:
        # Where there is one path, it is that of all jobs.
        key = (id(flows), job if self._by_job else -1, name, weight, deadline_s)
        try:
            known = self._known.get(key)
        except TypeError:  # it is not hashable, and `Stage` refuses it
            known = None
        if known is not None:
            return known[1:]
        check_name(name, "name")
        given = _as_flows(flows, self.network)
        stage = Stage(name, given, weight=weight, deadline_s=deadline_s)
        routed = stage, self._demand(stage, job)
        if isinstance(flows, Flows):
            if len(self._known) == _MOST_KNOWN:
                self._known.clear()
            self._known[key] = given, *routed
        return routed

    def _demand(self, stage: Stage, job: int) -> RoutedCoflow:
        assert stage.flows is not None
        deadline_s = math.inf if stage.deadline_s is None else stage.deadline_s
        return RoutedCoflow.of(stage.flows, self._routed, key=ecmp_key(job, stage.name),
                               weight=stage.weight, deadline_s=deadline_s)

    def _check_clock(self) -> None:
        """Refuse what comes before the time up to which bytes have moved, or after an error."""
        self._process.check_open()
        if (ahead := self._process.ahead) > self.env.now:
            raise InputError(
                f"bytes have been moved until {ahead:g} s, as no event was due before, and the "
                f"clock says {self.env.now:g} s: between two calls of env.step() nothing can be "
                "looked at or changed; do it in a process, or step with env.run(until=...)")

    def _completed(self, coflow: Coflow) -> None:
        """Record a completed coflow, before waiting processes resume."""
        del self._in_flight[coflow]
        self._recorder.completed(coflow)
        owner = coflow.owner
        owner.done += 1
        owner.nbytes += coflow.nbytes
        self._see_start(coflow)
        if coflow.alone:
            self._let_end(owner, coflow.finish_s)

    def _cancel(self, coflow: Coflow, why: str) -> float:
        """Withdraw a coflow; return the bytes that are left."""
        self._check_clock()
        with self._process.closing():
            return self._withdraw(coflow, why)

    def _withdraw(self, coflow: Coflow, why: str) -> float:
        if coflow not in self._in_flight:
            return 0.0
        in_flight = self._process.in_flight
        if coflow.key in in_flight.active:
            self._process.interrupt()
        if in_flight.has_sent_all(coflow, self._process.table):  # which is yet to be noticed
            return 0.0
        left = float(self._process.withdraw(coflow).sum())
        del self._in_flight[coflow]
        self._drop(coflow)
        coflow.give_up(why, left)
        return left

    def _drop(self, coflow: Coflow) -> None:
        """Record a coflow that will not complete, and end its job if it was made for it alone."""
        self._cancelled.append(coflow)
        self._see_start(coflow)
        if coflow.alone:
            self._let_end(coflow.owner, math.nan)

    def _see_start(self, coflow: Coflow) -> None:
        owner = coflow.owner
        if coflow.start_s < owner.start_s or math.isnan(owner.start_s):
            owner.start_s = coflow.start_s

    def _end(self, job: Job) -> None:
        self._check_job(job)
        self._check_clock()
        flying = self._sending([coflow for coflow in self._in_flight if coflow.owner is job])
        if flying:
            raise InputError(f"job {job.name!r} cannot end: {flying[0]} is in flight; wait for it, "
                             "or cancel it")
        with self._process.closing():
            self._let_end(job, self.env.now)

    def _sending(self, coflows: Sequence[Coflow]) -> list[Coflow]:
        """Return those that have not sent their last bytes, whether that is noticed or not."""
        if not coflows:
            return []
        table, _ = self._process.look()
        return [coflow for coflow in coflows
                if not self._process.in_flight.has_sent_all(coflow, table)]

    def _let_end(self, job: Job, at: float) -> None:
        job.ended, job.finish_s = True, at
        if self._allocator.sees_running:
            self._process.running.end(job.index)

    # --- links and hosts --------------------------------------------------------------

    def set_capacity(self, link: Node, capacity: Quantity) -> None:
        """Change the capacity of a link now; 0 is a failure.

        Parameters
        ----------
        link : str, int or tuple
            Name or number of the link, or its two nodes.
        capacity : quantity
            ``"1Gbps"``, or bytes per second.
        """
        changes = self._changes_of(capacity_by_hand(self.env.now, link, capacity))
        with self._process.closing():
            self._change(changes)

    @known_names
    def fail(self, *, link: Node | None = None, host: Node | None = None,
             switch: Node | None = None) -> None:
        """Fail a link, or a host or switch with all of its links, from now on.

        Coflows that need a failed link take other paths, or wait for its repair if there are none.
        Coflows with flows that start or end at a failed host fail with `netsim.Cancelled`, also if
        they are submitted after the failure and before the repair.
        """
        changes = self._changes_of(by_hand("fail", self.env.now, kind="fail", link=link, host=host,
                                           switch=switch))
        with self._process.closing():
            lost = self._change(changes)
            self._lost.update(lost)
            for coflow in [each for each in self._in_flight if any(map(each.uses, lost))]:
                self._withdraw(coflow, f"host {host} was lost: coflow {coflow.number} "
                                       f"{coflow.name!r} ended")

    @known_names
    def repair(self, *, link: Node | None = None, host: Node | None = None,
               switch: Node | None = None) -> None:
        """Restore the nominal capacity of a link, or of all links of a host or switch."""
        changes = self._changes_of(by_hand("repair", self.env.now, kind="repair", link=link,
                                           host=host, switch=switch))
        with self._process.closing():
            self._lost.difference_update(self._change(changes))

    def _changes_of(self, event: FaultEvent) -> Sequence[Change]:
        """Return the changes of an event, after checking that it may happen now."""
        self._check_clock()
        return changes_of([event], self.network)

    def _change(self, changes: Sequence[Change]) -> list[int]:
        """Change links now, and reroute flows if needed; return the affected hosts."""
        table = self._process.table
        capacities: Mapping[int, float] = {
            link: rate for change in changes for link, rate in change.capacity.items()}
        if self._routed is self.network and moves_flows(self.network, capacities):
            assert isinstance(self.network, GraphTopology)
            self._routed = live_network(self.network)
            table.add_links(self._routed.usable)
        if isinstance(self._routed, LiveNetwork):
            capacities = self._routed.with_trunks(capacities, table.capacity)
        self._process.set_capacities(capacities)
        for link, capacity in capacities.items():
            if link < self.network.links:
                self._recorder.set_capacity(link, capacity)
        if isinstance(self._routed, LiveNetwork):
            self._reroute(self._routed)
        return [change.host for change in changes if change.host is not None]

    def _reroute(self, network: LiveNetwork) -> None:
        """Route flows around failed links, and back after their repair."""
        if not network.set_dead(np.flatnonzero(self._process.table.capacity == 0)):
            return
        self._known.clear()
        demands = {coflow: self._demand(coflow.stage, coflow.job) for coflow in self._in_flight}
        moved: dict[CoflowEvent, RoutedCoflow] = {
            coflow: demand for coflow, demand in demands.items()
            if not np.array_equal(demand.hops["link"], coflow.demand.hops["link"])}
        if moved:
            self._process.reroute(moved, WithoutProcess())

    # --- the instant ------------------------------------------------------------------

    def active(self) -> pd.DataFrame:
        """Return the coflows that are active now, the oldest first.

        Columns: coflow, job, stage (its name), valid_s, start_s, bytes, left_bytes, rate (bytes per
        second, of all its flows), flows (number of unfinished flows), gamma_s (effective bottleneck
        of the bytes left), deadline_s. Coflows submitted at this instant have no rate yet.
        """
        table, coflows = self._look()
        return active_coflows(table, _numbers(coflows), [coflow.name for coflow in coflows],
                              np.arange(len(self._jobs)))

    def flows(self) -> pd.DataFrame:
        """Return the flows that have not ended: coflow, job, flow, src, dst, bytes, left_bytes,
        rate.
        """
        table, coflows = self._look()
        return active_flows(table, _numbers(coflows), np.arange(len(self._jobs)), self.network)

    def links(self) -> pd.DataFrame:
        """Return all links: link (its name), capacity, rate (bytes per second), utilisation (NaN
        for dead links), flows.
        """
        return links_now(self._look()[0], self.network)

    def view(self) -> FabricView:
        """Return the view that the allocator would get now."""
        self._check_clock()
        return self._process.view()

    def _look(self) -> tuple[FlowTable, list[Coflow]]:
        self._check_clock()
        table, coflows = self._process.look()
        return table, cast("list[Coflow]", coflows)

    # --- the result -------------------------------------------------------------------

    def result(self) -> Result:
        """Return the tables recorded until now; see `netsim.Result`.

        May be called at any time. Times that are not known yet are NaN for coflows in flight or
        cancelled, and for jobs that have not ended. Cancelled coflows have a row in `other_coflows`
        as well, with the end and the bytes that were sent. The iteration of coflows is 0. The ranks
        of jobs are 0, and their lower_bound_s is NaN, because both are unknown. The bytes of a job
        are those of its completed coflows.

        Raises
        ------
        InputError
            If an error, such as one of the allocator or Ctrl-C, has closed the fabric.
        """
        self._process.check_open()
        if self._in_flight and self.env.peek() == math.inf:
            waiting = listed(f"{coflow.number} {coflow.name!r}" for coflow in self._in_flight)
            warnings.warn(NetsimWarning("; ".join(
                [f"no event is left, and coflows wait for bandwidth: {waiting}",
                 *dead_links(self._process)])), stacklevel=2)
        recorder = self._recorder
        recorder.pack()
        self._see_starts()
        tables: dict[str, Any] = {}
        for name in RECORDS:
            table = recorder.table(name, self.network.link_names)
            tables[name] = None if table is None else table.frame()
        if tables["coflows"] is not None:
            tables["coflows"] = self._with_unfinished(tables["coflows"])
        tables["other_coflows"] = recorder.other_coflows(self._cancelled)
        unfinished = any(not job.ended for job in self._jobs) or bool(self._in_flight)
        jobs, none = self._jobs, np.zeros(len(self._jobs), np.int64)
        tables["jobs"] = jobs_table(
            jobs, iterations=(none + 1).tolist(), ranks=none.tolist(),
            coflows=[job.done for job in jobs], nbytes=[job.nbytes for job in jobs],
            lower_bound_s=np.full(len(jobs), np.nan),
            **{name: np.array([getattr(job, name) for job in jobs], np.float64)
               for name in ("arrival_s", "start_s", "finish_s")})
        return Result(**tables, run=run_info(
            {"workload": "script", "network": self.network.name,
             "allocator": ALLOCATORS.to_dict(self._allocator),
             "sharing": leftover_of(self._process), "observe_interval": self._interval},
            {"decisions": self._process.decisions, "overdue": self._overdue(),
             "counts": dict(self._allocator.counts)},
            seed=self._seed, workload_seed=0, steps=self._events(),
            stopped_at_s=self.env.now if unfinished else None,
            wall_s=time.perf_counter() - self._began))

    def _events(self) -> int:
        """Return the number of SimPy events since the fabric was made."""
        self._drawn += 1  # the number drawn here belongs to no event
        return next(self.env._eid) - self._drawn

    def _see_starts(self) -> None:
        """Note which coflows in flight have sent their first byte."""
        if self._process.ahead > self.env.now:
            return
        table, coflows = self._look()
        for coflow, start in zip(coflows, table.coflows["start"].tolist(), strict=True):
            if start >= 0:
                coflow.start_s = start
                self._see_start(coflow)

    def _overdue(self) -> int:
        return sum(deadline_s < self.env.now for _, _, deadline_s in self._process.pending())

    def _with_unfinished(self, done: pd.DataFrame) -> pd.DataFrame:
        """Add the coflows that are in flight or were cancelled to those that have completed."""
        import pandas as pd

        others = [*self._in_flight, *self._cancelled]
        if not others:
            return done
        more = self._recorder.frame_of(others)
        stages = pd.CategoricalDtype(more["stage"].cat.categories)
        both = pd.concat([done.astype({"stage": stages}), more.astype({"stage": stages})])
        return both.sort_values("coflow", kind="stable", ignore_index=True)

    def __repr__(self) -> str:
        return (f"<Fabric of {self.network.name!r} under {self._allocator.title} at "
                f"{self.env.now:g} s: {format_count(len(self._in_flight), 'coflow')} in flight>")


def _numbers(coflows: Iterable[Coflow]) -> NDArray[np.int64]:
    return np.array([coflow.number for coflow in coflows], np.int64)


def _as_flows(flows: Any, network: Topology) -> Flows:
    """Convert a user's flows to `Flows`, with numbers instead of names of hosts."""
    if isinstance(flows, Flows):
        return flows
    if hasattr(flows, "columns"):
        missing = [name for name in ("src", "dst", "nbytes") if name not in flows.columns]
        if missing:
            raise InputError(f"flows: the table has no column {missing[0]!r}; it has "
                             + ", ".join(map(repr, flows.columns)))
        columns = [flows[name].to_numpy() for name in ("src", "dst", "nbytes")]
        if all(column.dtype.kind in "iuf" for column in columns):
            return Flows(*columns)
        flows = zip(*(column.tolist() for column in columns), strict=True)
    elif isinstance(flows, np.ndarray):
        if flows.ndim != 2 or flows.shape[1] != 3:
            raise InputError("flows: an array has the shape (flows, 3), with columns src, dst and "
                             f"nbytes, not {flows.shape}")
        if flows.dtype.kind in "iuf":
            return Flows(*flows.T)
        flows = flows.tolist()
    return Flows.of(flows, network.host)
