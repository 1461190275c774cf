"""The run behind `netsim.Fabric`: what happens to the jobs and coflows of a user's program."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base.arrays import Ints
from netsim.base.lazy import simpy
from netsim.base.units import Quantity
from netsim.base.values import as_name, as_weight
from netsim.errors import InputError
from netsim.fabric.allocation import sees
from netsim.fabric.allocator import Allocator
from netsim.fabric.clock import CoflowEvent, call_at
from netsim.fabric.fabric_process import FabricProcess
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.jobs.fitting import fitted
from netsim.jobs.plan import JobPlan, ecmp_key, place_randomly, with_drawn_ranks
from netsim.jobs.process import JobProcess, process_of
from netsim.network import BigSwitch, Topology
from netsim.predictors import Forecast
from netsim.results.lazy_table import FrameColumns
from netsim.results.tables import CoflowNumbers
from netsim.scripting.coflow import Coflow, ScriptRecorder, Sent
from netsim.scripting.job import Job, SubmittedJob
from netsim.simulation.events import Change, FaultEvent
from netsim.simulation.faults import Faults, JobHost
from netsim.simulation.listeners import ListenersInProgram
from netsim.simulation.run import Run, forecast_of, jobs_table
from netsim.workload import Flows, JobSpec, Stage, Workload

if TYPE_CHECKING:
    import pandas as pd

#: How many coflows that were given as `Flows` are remembered with their routes.
_MOST_KNOWN = 4096


class ProgramRun(Run, JobHost):
    """A run in the environment of a user's program, which submits jobs and coflows as it goes."""

    fabric: FabricProcess
    recorder: ScriptRecorder

    def __init__(self, env: simpy.Environment, network: Topology, allocator: Allocator,
                 observe_interval: float, record: Sequence[str], check: bool, seed: int) -> None:
        if allocator.plans_ahead:
            raise InputError(f"allocator {allocator.title} plans for all jobs before they begin, "
                             "and a program submits them as it goes; it is for workloads on a "
                             "network")
        self.workload = SimpleNamespace(name="script", seed=0)
        self.env, self.network, self.seed = env, network, seed  # type: ignore[assignment]
        if allocator.information == "predicted":
            self.forecast = Forecast(allocator.predictor)
        self.jobs: list[Job] = []
        self.in_flight: dict[Coflow, None] = {}
        self._submitted: dict[int, SubmittedJob] = {}  # those that run
        self._to_come = 0
        self._cancelled: list[Coflow] = []
        self._known: dict[tuple[Any, ...], tuple[Flows, Stage, RoutedCoflow]] = {}
        self._by_job = not isinstance(network, BigSwitch)
        self._lost: set[int] = set()
        self.recorder = ScriptRecorder(record, network, self.jobs)
        self.fabric = FabricProcess(
            env, network, allocator, [], observe_interval=observe_interval, check=check,
            observer=self.recorder if self.recorder.watches_fabric else None, job_of=self._job_of)
        self.listeners = ListenersInProgram(env, self.recorder, self.fabric, starts=True)
        self.faults = Faults((), network)
        self.faults.begin(env, self, self.fabric, self.recorder, self.tell_capacities)

    @property
    def now(self) -> float:
        return self.env.now

    @property
    def ended(self) -> bool:
        return not (self.in_flight or self._to_come) and all(job.ended for job in self.jobs)

    def stopped(self) -> ProgramRun:
        return self  # as reading tables changes nothing

    def check_clock(self) -> None:
        """Refuse what comes before the time up to which bytes have moved, or after an error."""
        self.fabric.check_open()
        if (ahead := self.fabric.ahead) > self.env.now:
            raise InputError(
                f"bytes have been moved until {ahead:g} s, as no event was due before, and the "
                f"clock says {self.env.now:g} s: between two calls of env.step() nothing can be "
                "looked at or changed; do it in a process, or step with env.run(until=...)")

    def _job_of(self, index: int) -> Job:
        return self.jobs[index]

    # --- jobs of the user -------------------------------------------------------------

    def add_job(self, name: str, hosts: Ints, ahead_s: float, alone_s: float,
                gpus: int = 1, weight: float = 1.0, group: int | str | None = None) -> Job:
        """Make a job, which arrives now; see `netsim.Fabric.job`."""
        with self.fabric.closing():
            job = Job(len(self.jobs), name, self.env.now, self._end, weight, group)
            row = self._add(job, gpus)
            row["ahead"], row["predicted"] = ahead_s, ahead_s
            row["per_gamma"] = alone_s / ahead_s if ahead_s else 0.0
            if self.fabric.allocator.sees_running:
                self.fabric.running.begin(job.index, hosts)
        return job

    def _add(self, job: Job, gpus: int) -> Any:
        """Give a job its row of the fabric's table, and return the row."""
        self.jobs.append(job)
        self.fabric.table.add_job(job.index, job.arrival_s)
        row = self.fabric.table.jobs[job.index]
        row["gpus"] = gpus
        self.listeners.notify("job-arrived", job.index)
        return row

    def check_job(self, job: Job) -> Job:
        """Refuse what is not a job of this fabric, and a job that has ended."""
        if not isinstance(job, Job):
            raise InputError(f"job must be one that fabric.job() has made, not {job!r}")
        if job.index >= len(self.jobs) or self.jobs[job.index] is not job:
            raise InputError(f"job {job.name!r} is of another fabric; make one with job()")
        if job.ended:
            raise InputError(f"job {job.name!r} has ended at {job.finish_s:g} s, and submits no "
                             "more")
        return job

    def _end(self, job: Job) -> None:
        self.check_job(job)
        self.check_clock()
        flying = [coflow for coflow in self.in_flight
                  if coflow.owner is job and self._still_sends(coflow)]
        if flying:
            raise InputError(f"job {job.name!r} cannot end: {flying[0]} is in flight; wait for it, "
                             "or cancel it")
        with self.fabric.closing():
            self._let_end(job, self.env.now)

    def _still_sends(self, coflow: Coflow) -> bool:
        """Whether a coflow has bytes left to send; that it has none may yet have to be noticed."""
        table, _ = self.fabric.look()
        return not self.fabric.in_flight.has_sent_all(coflow, table)

    def _let_end(self, job: Job, at: float) -> None:
        job.ended, job.finish_s = True, at
        if self.fabric.allocator.sees_running:
            self.fabric.running.end(job.index)
        if not math.isnan(at):
            self.listeners.notify("job-done", job.index)

    # --- coflows ----------------------------------------------------------------------

    def coflow(self, flows: Any, job: Job | None, name: str, weight: float,
               deadline_s: Quantity | None) -> Coflow:
        """Submit a coflow now; see `netsim.Fabric.coflow`."""
        index = len(self.jobs) if job is None else self.check_job(job).index
        stage, demand = self._route(flows, index, name, as_weight(weight, "weight") * (
            1.0 if job is None else job.weight), deadline_s)
        with self.fabric.closing():
            return self._submit(stage, demand, job)

    def _submit(self, stage: Stage, demand: RoutedCoflow, job: Job | None) -> Coflow:
        """Submit a coflow of a job, or of one of its own."""
        name = stage.name
        if job is None:
            ends = demand.flows["src"], demand.flows["dst"]
            owner = self.add_job(name, np.concatenate(ends), demand.gamma, demand.gamma)
        else:
            owner = job
        coflow = Coflow(self.env, self.recorder.next_number(), owner, job is None, stage, demand,
                        self._completed, self._cancel)
        owner.submitted += 1
        lost = [host for host in self._lost if coflow.uses(host)]
        if lost:
            self._drop(coflow)
            coflow.give_up(f"coflow {coflow.number} {name!r} needs host {lost[0]}, which is lost,",
                           demand.nbytes)
            return coflow
        self.in_flight[coflow] = None
        self.fabric.send(coflow)
        self.listeners.notify_at(coflow.begin_s, "coflow-valid", owner.index, coflow.number)
        return coflow

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
        as_name(name, "name")
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
        return RoutedCoflow.of(stage.flows, self.faults.network, key=ecmp_key(job, stage.name),
                               weight=stage.weight, deadline_s=deadline_s)

    def _completed(self, coflow: Coflow) -> None:
        """Record a completed coflow, before waiting processes resume."""
        del self.in_flight[coflow]
        self.recorder.completed(Sent(coflow.number, 0, coflow.name, coflow, coflow.finish_s))
        self._see_start(coflow)
        self.listeners.notify("coflow-done", coflow.job, coflow=coflow.number)
        if coflow.alone:
            self._let_end(coflow.owner, coflow.finish_s)

    def _cancel(self, coflow: Coflow, why: str) -> float:
        """Withdraw a coflow; return the bytes that are left."""
        self.check_clock()
        with self.fabric.closing():
            return self._withdraw(coflow, why)

    def _withdraw(self, coflow: Coflow, why: str) -> float:
        if coflow not in self.in_flight or not self._still_sends(coflow):
            return 0.0
        left = float(self.fabric.withdraw(coflow).sum())
        del self.in_flight[coflow]
        self._drop(coflow)
        coflow.give_up(why, left)
        return left

    def _drop(self, coflow: Coflow) -> None:
        """Record a coflow that will not complete, and end its job if it was made for it alone."""
        self._cancelled.append(coflow)
        self._see_start(coflow)
        if coflow.alone:
            self._let_end(coflow.owner, math.nan)

    def _see_start(self, transfer: CoflowEvent) -> None:
        job = self.jobs[transfer.job]
        if transfer.start_s < job.start_s or math.isnan(job.start_s):
            job.start_s = transfer.start_s

    # --- jobs that netsim runs --------------------------------------------------------

    def submit(self, job: JobSpec) -> simpy.Event:
        """Add a job that arrives now or later; see `netsim.Fabric.submit`."""
        if not isinstance(job, JobSpec):
            raise InputError(f"job must be a JobSpec, not {job!r}")
        self._refuse_late(job)
        forecast_of(self.fabric.allocator, None)  # which needs a predictor without a history
        spec = fitted(with_drawn_ranks(job, self.seed), self.network, self.seed)
        CoflowNumbers(Workload([spec]))  # which draws its pattern, as a run of workloads does first
        ended = simpy.Event(self.env)
        self._to_come += 1
        if spec.arrival_s > self.env.now:
            call_at(self.env, spec.arrival_s, partial(self._arrive, spec, ended))
        else:
            self._arrive(spec, ended)
        return ended

    def _arrive(self, spec: JobSpec, ended: simpy.Event, _: Any = None) -> None:
        with self.fabric.closing():
            index = len(self.jobs)
            recorder: Any = self.recorder  # no coflow is dropped, and no job handed over
            process = process_of(
                spec, self.env, self.fabric, index, spec.arrival_s, recorder, waited_for=True,
                predicted=0.0 if self.forecast is None else self.forecast.predict_job(spec))
            self._to_come -= 1
            self._submitted[index] = job = SubmittedJob(index, spec, process, ended,
                                                        self._end_submitted)
            self._add(job, spec.ranks)
            process.arrive(JobPlan(
                spec, self.faults.network, place_randomly(spec, self.network, self.seed),
                self.seed, self.faults.most_capacity))

    def _end_submitted(self, job: SubmittedJob) -> None:
        del self._submitted[job.index]
        self.listeners.job_done(job.index)

    def _process_of(self, job: int) -> JobProcess:
        return self._submitted[job].process

    def _number_and_name(self, transfer: CoflowEvent) -> tuple[int, str]:
        if isinstance(transfer, Coflow):
            return transfer.number, transfer.name
        return super()._number_and_name(transfer)

    def waiting(self) -> list[tuple[int, str]]:
        """Return the numbers and names of all coflows in flight, in order."""
        return sorted(map(self._number_and_name, self.fabric.in_flight.all()))

    # --- links and hosts --------------------------------------------------------------

    def change(self, event: FaultEvent) -> None:
        super().change(event)
        if event.host is None:
            return
        hosts = {self.network.host(host) for host in self.network.hosts_at(event.host)}
        if event.kind == "repair":
            self._lost -= hosts
            return
        self._lost |= hosts
        for coflow in [each for each in self.in_flight if any(map(each.uses, hosts))]:
            self._withdraw(coflow, f"host {event.host} was lost: coflow {coflow.number} "
                                   f"{coflow.name!r} ended")

    def _check_change(self, change: Change) -> None:
        if change.restart:
            raise InputError("restart: jobs on a netsim.Fabric cannot be stopped; without restart, "
                             "they wait for the links of a host that fails")

    def rerouted(self) -> Mapping[CoflowEvent, RoutedCoflow]:
        self._known.clear()
        found: dict[CoflowEvent, RoutedCoflow] = {}
        for coflow in self.in_flight:
            demand = self._demand(coflow.stage, coflow.job)
            if not np.array_equal(demand.hops["link"], coflow.demand.hops["link"]):
                found[coflow] = demand
        for job in self._submitted.values():
            found |= job.process.rerouted()
        return found

    def _route_on(self, network: Topology) -> None:
        super()._route_on(network)
        for job in self._submitted.values():
            job.process.route_on(network)

    def _take_over(self, fabric: FabricProcess, allocator: Allocator) -> None:
        if (not allocator.plans_ahead and sees(allocator.information, "predicted")
                and not sees(fabric.allocator.information, "predicted")):
            raise InputError(f"allocator {allocator.title} knows or predicts what jobs are yet to "
                             f"send, which jobs made under {fabric.allocator.title} need not say: "
                             "the fabric must begin under one that does")
        super()._take_over(fabric, allocator)

    # --- the result -------------------------------------------------------------------

    def tables(self) -> dict[str, Any]:
        jobs = self._jobs()  # first, as jobs then report what they have sent
        recorder = self.recorder
        recorder.pack()
        tables: dict[str, Any] = recorder.tables(self.network.link_names)
        if tables["coflows"] is not None:
            tables["coflows"] = self._with_unfinished(tables["coflows"].frame())
        return {**tables, "other_coflows": recorder.other_coflows(self._cancelled), "jobs": jobs}

    def _jobs(self) -> FrameColumns:
        for running in self._submitted.values():
            running.report()
        self._see_starts()
        jobs = self.jobs
        times: dict[str, Any] = {
            name: np.array([getattr(job, name) for job in jobs], np.float64)
            for name in ("arrival_s", "start_s", "finish_s", "lower_bound_s")}
        return jobs_table([getattr(job, "spec", job) for job in jobs], **times,
                          coflows=[job.done for job in jobs], nbytes=[job.nbytes for job in jobs])

    def jobs_now(self) -> pd.DataFrame:
        jobs = self._jobs().frame()
        jobs.insert(2, "state", [
            "running" if not job.ended else "cancelled" if math.isnan(job.finish_s) else "done"
            for job in self.jobs])
        return jobs

    def _see_starts(self) -> None:
        """Note which coflows in flight have sent their first byte."""
        if self.fabric.ahead > self.env.now:
            return
        table, coflows = self.fabric.look()
        for coflow, start in zip(coflows, table.coflows["start"].tolist(), strict=True):
            if coflow is not None and start >= 0:
                coflow.start_s = start
                self._see_start(coflow)

    def _with_unfinished(self, done: pd.DataFrame) -> pd.DataFrame:
        """Add the coflows that are in flight or were cancelled to those that have completed."""
        import pandas as pd

        others = [Sent(coflow.number, 0, coflow.name, coflow, coflow.finish_s)
                  for coflow in (*self.in_flight, *self._cancelled)]
        for transfer in self.fabric.in_flight.all() if self._submitted else ():
            if not isinstance(transfer, Coflow):
                iteration, _ = self._process_of(transfer.job).place_of(transfer)
                number, name = self._number_and_name(transfer)
                others.append(Sent(number, iteration, name, transfer, transfer.finish_s))
        if not others:
            return done
        more = self.recorder.frame_of(others)
        stages = pd.CategoricalDtype(more["stage"].cat.categories)
        both = pd.concat([done.astype({"stage": stages}), more.astype({"stage": stages})])
        return both.sort_values("coflow", kind="stable", ignore_index=True)


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
