"""A run on a network: each job runs as coflows from its arrival on."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from netsim.allocators import make_allocator
from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.lazy import pd
from netsim.base.values import about
from netsim.errors import InputError, NetsimWarning, StalledError
from netsim.fabric.allocator import Allocator
from netsim.fabric.clock import Clock, CoflowEvent, call_at
from netsim.fabric.fabric_process import FabricProcess
from netsim.fabric.routed_coflow import RoutedCoflow, WithoutProcess
from netsim.jobs.arrivals import Arrivals, ComingJobs
from netsim.jobs.fitting import all_fitted, fitted
from netsim.jobs.plan import JobPlan, expert_counts, links_of, place_randomly
from netsim.jobs.process import JobProcess, process_of
from netsim.jobs.single import SingleCoflows, SingleColumns, is_single, of_columns, of_specs
from netsim.jobs.stragglers import factors_of, slowed_job
from netsim.network import Topology
from netsim.results.lazy_table import FrameColumns
from netsim.results.recorder import Recorder
from netsim.results.tables import CoflowNumbers
from netsim.simulation.events import Change, RunEvent
from netsim.simulation.faults import Faults, JobHost, dead_links, listed
from netsim.simulation.run import Run, forecast_of, jobs_table
from netsim.simulation.run_spec import TIMELINE, RunSpec
from netsim.workload import JobSpec, Workload
from netsim.workload.job import JobColumns, column, delays_stages
from netsim.workload.operations import Programs

#: The most waiting ranks that a message names.
_MOST_STUCK = 8


class OnNetwork(Run, JobHost):
    """A run of jobs that run as coflows on a network when they arrive.

    The network and the workload of `spec` are given as they are, not by name. Jobs stay on their
    hosts, and wait until these are repaired.
    """

    counts = "coflows"
    fabric: FabricProcess

    def __init__(self, network: Topology, workload: Workload, spec: RunSpec) -> None:
        self.seed = spec.seed
        with about("allocator"):
            allocator = make_allocator(spec.allocator)
        self.workload = workload = all_fitted(workload, network, spec.seed)
        self.forecast = forecast_of(allocator, workload.history)
        self.faults = Faults(spec.events, network)
        self.network = network
        self.slowness = (np.ones(network.hosts) if spec.stragglers is None else
                         factors_of(spec.stragglers, network.hosts, network.hosts_at))
        self.numbers = CoflowNumbers(workload)
        self.arrival_s = np.array(column(workload.jobs, "arrival_s"))
        self.env = Clock(0.0)
        count = len(workload)
        self.recorder = Recorder(spec.record, count, self.numbers, network,
                                 TIMELINE if spec.timeline else (),
                                 delays_stages(workload.jobs),
                                 self.env if network.wire.timed else None)
        finished = self.recorder.finished_without_process
        single = self._singles(allocator)
        self.singles = SingleCoflows(count, single, self.faults.network, self.faults.most_capacity,
                                     finished, self._pass_empty)
        self.recorder.singles_begun(single.members, single.coflow_id, single.stages)
        self.fabric = FabricProcess(
            self.env, self.faults.network, allocator, self.arrival_s,
            observe_interval=float(spec.observe_interval), check=spec.check, source=self.singles,
            observer=self.recorder if self.recorder.watches_fabric else None, completed=finished,
            ended=self.recorder.job_finished, job_of=self._job_of)
        self.fabric.table.jobs["gpus"] = column(workload.jobs, "ranks")
        if self.recorder.keeps_computations:
            self.fabric.table.graphs.keeps_all = True
        if not isinstance(workload.jobs, JobColumns):
            # Results must not depend on whether all ranks are simulated, which the records decide.
            self.fabric.table.sharing.deterministic_rounding = any(
                isinstance(job.operations, Programs) for job in workload.jobs)
        self.faults.begin(self.env, self, self.fabric, self.recorder, self.tell_capacities)
        self.jobs: list[JobProcess] = []  #: those with a process; the fabric runs the others
        self._lost: dict[int, None] = {}  # hosts
        #: Of jobs that need a process; None while there are no such jobs.
        self._arrivals: Arrivals | None = None
        if len(single.members) < count:
            self._arrivals = Arrivals(self.env, self.arrival_s, self._arrive,
                                      np.delete(np.arange(count), single.members))
        self._arrival_events: Arrivals | None = None
        self._links_used: list[Ints] | None = None
        self._folds_ranks, self._simulated_ranks = False, 0
        if allocator.plans_ahead:
            allocator.prepare(ComingJobs([self._plan(k) for k in range(count)],
                                         self.faults.most_capacity))

    def _arrive(self, index: int) -> None:
        """Start a job that has a process."""
        spec = self.workload.jobs[index]
        job = process_of(
            spec, self.env, self.fabric, index, float(self.arrival_s[index]), self.recorder,
            self.faults.touch_jobs, self._may_run,
            predicted=0.0 if self.forecast is None else self.forecast.predict_job(spec))
        self.jobs.append(job)
        plan = self._plan(index)
        self._simulated_ranks += plan.simulated_ranks
        job.arrive(plan)

    def _singles(self, allocator: Allocator) -> SingleColumns:
        """Return the jobs that need no process."""
        jobs = self.workload.jobs
        # An allocator that sees running jobs needs processes, which report begins and ends.
        plain = not (allocator.sees_running or self.faults.restarts)
        if plain and isinstance(jobs, JobColumns) and not (self.slowness > 1).any():
            return of_columns(jobs)
        plain = plain and self.forecast is None  # it may predict more than one coflow
        return of_specs(jobs, [k for k, job in enumerate(jobs)
                               if plain and is_single(job) and not self._is_slow(job)],
                        partial(place_randomly, network=self.network, seed=self.seed))

    def _pass_empty(self, begin: float, tell: Callable[[], float]) -> None:
        """Record a coflow without bytes when it begins, and has nothing to send."""
        call_at(self.env, begin, partial(self._pass_empty_now, tell))

    def _pass_empty_now(self, tell: Callable[[], float], _: Any) -> None:
        if (arrives := tell()) > self.env.now:
            call_at(self.env, arrives)  # for which the run waits
        self.fabric.pass_empty()

    def _is_slow(self, job: JobSpec) -> bool:
        return bool((self.slowness > 1).any()
                    and (self.slowness[self._place(job)[:job.ranks]] > 1).any())

    def _plan(self, index: int, taken: Bools | None = None) -> JobPlan:
        job = self.workload.jobs[index]
        hosts = self._place(job)
        spec, slowed = slowed_job(job, self.slowness[hosts[:job.ranks]])
        if self._folds_ranks and isinstance(spec.operations, Programs):
            taken = self._taken_by_others(index)
        return JobPlan(spec, self.faults.network, hosts, self.workload.seed,
                       self.faults.most_capacity, slowed, taken)

    def fold_ranks(self) -> None:
        # Rates must depend on paths alone, not on coflows.
        self._folds_ranks = (
            self.fabric.allocator.by_flow_alone and self.recorder.tells_coflows_at_most
            and not self.faults.restarts and self.faults.parts is self.faults.network
            and not isinstance(self.workload.jobs, JobColumns))

    def _taken_by_others(self, index: int) -> Bools:
        """Return the links that other jobs use, or that change."""
        if self._links_used is None:
            count = len(self.workload.jobs)
            self._links_used = [self._links_of(each) for each in range(count)] if count > 1 else []
        taken = np.zeros(self.network.links, np.bool_)
        taken[self.faults.changing] = True
        for other, links in enumerate(self._links_used):
            if other != index:
                taken[links] = True
        return taken

    def _links_of(self, index: int) -> Ints:
        """Return the links that a job uses, or may use."""
        job = self.workload.jobs[index]
        if isinstance(job.operations, Programs):
            return links_of(job, job.operations, self.network, self._place(job))
        return self._plan(index).links()

    def _place(self, job: JobSpec) -> Ints:
        return place_randomly(job, self.network, self.seed)

    @property
    def total(self) -> int:
        return self.numbers.total

    @property
    def done(self) -> int:
        return self.recorder.coflows_done

    @property
    def ended(self) -> bool:
        return self.recorder.jobs_done == len(self.arrival_s)

    def shared(self) -> list[Any]:
        return [*super().shared(), self.network]

    def _process_of(self, job: int) -> JobProcess:
        return next(each for each in self.jobs if each.index == job)

    def _states(self, jobs: pd.DataFrame) -> list[str]:
        waiting = {job.index for job in self.jobs if job.waits}
        done, arrived = jobs["finish_s"].notna(), self.arrival_s <= self.now
        return ["done" if done[k] else "to come" if not arrived[k] else
                "waiting" if k in waiting else "running" for k in range(len(jobs))]

    def submit(self, job: JobSpec) -> None:
        workload, index = self._with(job, partial(fitted, network=self.network,
                                                  seed=self.seed))
        numbers = CoflowNumbers(workload)
        arrived = int(np.searchsorted(self.arrival_s, self.now, "right"))
        if numbers.last_of(arrived) != self.numbers.last_of(arrived):
            raise InputError(f"job {job.id}: each coflow_id of its stages must be larger than all "
                             f"ids in use, the last of which is {self.numbers.last_of(arrived)}")
        if self._arrivals is None:
            self._arrivals = Arrivals(self.env, self.arrival_s, self._arrive, [])
        self.workload, self.numbers = workload, numbers
        self.arrival_s = np.insert(self.arrival_s, index, job.arrival_s)
        self.recorder.add_job(index, numbers)
        self.singles.add_job(index)
        self.fabric.table.insert_job(index, job.arrival_s, workload.jobs[index].ranks)
        self._arrivals.add(index, job.arrival_s)
        if self._arrival_events is not None:
            self._arrival_events.add(index, job.arrival_s)

    def _check_change(self, change: Change) -> None:
        if change.restart and not self.faults.restarts:
            raise InputError(
                "restart: jobs of this run cannot be stopped, because the fabric runs their "
                "coflows by itself. To allow it, begin the run with an event with restart, even "
                'one that never happens: events=[{"at": 1e9, "host": 0, "kind": "fail", '
                '"restart": True}]; without restart, a host can fail now')

    def _route_on(self, network: Topology) -> None:
        super()._route_on(network)
        self.singles.network = network
        for job in self.jobs:
            job.route_on(network)

    def listen(self, listener: Callable[[RunEvent], None] | None) -> None:
        if listener is not None and self._arrival_events is None:
            first = int(np.searchsorted(self.arrival_s, self.now, "right")) if self.begun else 0
            self._arrival_events = Arrivals(
                self.env, self.arrival_s, partial(self.listeners.notify, "job-arrived"),
                np.arange(first, len(self.arrival_s)))
        super().listen(listener)

    # --- hosts that fail and are repaired ----------------------------------------------

    def _may_run(self, hosts: Ints) -> bool:
        """Whether all of some hosts are available."""
        return self._lost.keys().isdisjoint(hosts.tolist())

    def lose(self, host: int, restart: bool) -> None:
        """With `restart`, keep jobs off a host until it is repaired."""
        if restart:
            self._lost[host] = None

    def stop(self, host: int) -> None:
        """Stop the jobs on a host; restart them at once if it has been repaired already."""
        for job in self.jobs:
            if job.running and host in job.hosts:
                job.stop()
                if self._may_run(job.hosts):
                    job.resume()

    def repair(self, host: int) -> None:
        """Restart the jobs of which this was the only host that was down."""
        self._lost.pop(host, None)
        for job in self.jobs:
            if job.waits and self._may_run(job.hosts):
                job.resume()

    def rerouted(self) -> Mapping[CoflowEvent, RoutedCoflow]:
        return {transfer: demand for job in self.jobs
                for transfer, demand in job.rerouted().items()}

    def rerouted_without_process(self) -> WithoutProcess:
        """Return the demands of jobs without a process; see `JobHost`.

        Coflows that are still to come are rerouted, too.
        """
        table, singles, now = self.fabric.table, self.singles, self.env.now
        singles.reroute_empty(now)
        if len(table.pending):
            table.expect(singles.rerouted(table.pending, now))
        active = table.coflows[np.isin(table.coflows["job"], singles.columns.members)
                               & (table.coflows["open"] > 0)]
        moving = singles.rerouted(active, now) if len(active) else None
        jobs = np.setdiff1d(table.without_process(), singles.columns.members)
        return WithoutProcess(moving, {job: self._plan(job).graph(0).routed
                                       for job in jobs.tolist()})

    # --- the end, and records ----------------------------------------------------------

    def finish_s(self) -> Floats:
        self.recorder.pack()
        return self.recorder.finish_s

    def stalled(self) -> StalledError:
        pending, jobs, problems = self.fabric.pending(), self.workload.jobs, []
        if pending:
            problems.append(
                f"allocator {type(self.fabric.allocator).__name__} gives no bandwidth to "
                f"{len(pending)} pending coflows, and nothing else will happen; coflows of "
                + listed(f"job {jobs[job].id} (valid since {valid_s:g} s)"
                         for job, valid_s, _ in pending))
            problems += dead_links(self.fabric)
        if waiting := [job for job in self.jobs if job.waits]:
            problems.append("lost hosts are not repaired; " + listed(
                f"job {jobs[job.index].id} waits for host "
                + ", ".join(str(host) for host in self._lost if host in job.hosts)
                for job in waiting))
        for job in self.jobs:
            problems += [f"job {jobs[job.index].id}, {each}" for each in job.stuck()[:_MOST_STUCK]]
        return StalledError(f"stalled at t = {self.fabric.policy.asked_s:g} s: " + "; ".join(
            [*problems, "a run that may leave some needs an end, `until`"]))

    def cost(self) -> dict[str, Any]:
        cost = super().cost()
        cost["counts"] |= expert_counts(self.workload)
        if self._simulated_ranks:
            cost["counts"]["simulated_ranks"] = self._simulated_ranks
        return cost

    def tables(self) -> dict[str, Any]:
        for job in self.jobs:
            job.tell()
        recorder = self.recorder
        if recorder.keeps_computations:
            for computed in self.fabric.table.graphs.computed(self.now):
                recorder.keep_computed(computed)
        recorder.pack()
        return {**recorder.tables(self.network.link_names), "jobs": self._jobs(),
                "other_coflows": recorder.other_coflows() if self.faults.restarts else None}

    def _meeting(self, start_s: Floats, finish_s: Floats) -> str:
        """Say which jobs of programs of ranks have computed on one host at the same time."""
        jobs = self.workload.jobs
        if isinstance(jobs, JobColumns):
            return ""
        of = [k for k, job in enumerate(jobs)
              if isinstance(job.operations, Programs) and not math.isnan(start_s[k])]
        hosts = [self._place(jobs[k])[:jobs[k].ranks] for k in of]
        if len(of) < 2:
            return ""
        job, host = np.repeat(of, [len(each) for each in hosts]), np.concatenate(hosts)
        # If two jobs of a host meet, so do two that follow one another there.
        order = np.lexsort((start_s[job], host))
        job, host = job[order], host[order]
        ends = np.nan_to_num(finish_s, nan=math.inf)
        meets = ((host[1:] == host[:-1]) & (job[1:] != job[:-1])
                 & (start_s[job[1:]] < ends[job[:-1]]))
        if not meets.any():
            return ""
        at = int(meets.argmax())
        names = self.network.host_names or range(self.network.hosts)
        return (f"jobs {jobs[job[at]].id} and {jobs[job[at + 1]].id} compute on host "
                f"{names[host[at]]} at the same time, each as if it were "
                "alone there; where a host is a GPU, give them different ones (hosts=), or use a "
                "scheduler, which gives them free GPUs")

    def _jobs(self) -> FrameColumns:
        specs, recorder = self.workload.jobs, self.recorder
        start_s = recorder.start_s.copy()
        lower_bound_s = self.singles.lower_bounds(self.env.now)
        for job in self.jobs:
            lower_bound_s[job.index] = job.lower_bound_s
            start_s[job.index] = np.fmin(start_s[job.index], job.start_s)
        # Where jobs restart, all are processes.
        more: dict[str, Any] = {} if not self.faults.restarts else {
            "restarts": np.zeros(len(specs), np.int64), "lost_s": np.zeros(len(specs)),
            "lost_bytes": np.zeros(len(specs))}
        for name, values in more.items():
            for job in self.jobs:
                values[job.index] = getattr(job, name)
        if met := self._meeting(start_s, recorder.finish_s):
            warnings.warn(NetsimWarning(met), stacklevel=8)  # of simulate
        if not self.network.wire.plain:
            more["wire_bytes"] = recorder.wire_bytes_of_job
        return jobs_table(
            specs, arrival_s=self.arrival_s, start_s=start_s, finish_s=recorder.finish_s,
            coflows=recorder.coflows_of_job, nbytes=recorder.bytes_of_job,
            lower_bound_s=lower_bound_s, **more)
