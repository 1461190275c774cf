"""The targets of a simulation: their protocol, and the base class of those that use SimPy.

Also functions that all targets use: for Ctrl-C with a message about how far the run was, for how
the allocator shared leftover bandwidth, and for tables of the state at an instant.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim._version import __version__
from netsim.allocators import make_allocator
from netsim.base.lazy import pd, simpy
from netsim.base.units import Quantity, format_seconds, parse_seconds
from netsim.errors import InputError, Interrupted, StalledError, interruption_of
from netsim.fabric.allocation import Allocation, Event, as_event
from netsim.fabric.allocator import Allocator
from netsim.fabric.clock import LAST, Clock, call_at
from netsim.fabric.coflow_event import CoflowEvent
from netsim.fabric.fabric_process import FabricProcess
from netsim.fabric.flow_table import FlowTable
from netsim.jobs.fitting import chosen_algorithms
from netsim.jobs.plan import with_drawn_ranks
from netsim.jobs.process import JobProcess
from netsim.network import Topology
from netsim.predictors import Forecast
from netsim.results.link_recorder import named_ends
from netsim.results.recorder import Recorder
from netsim.simulation.events import Change, FaultEvent, RunEvent, changes_of
from netsim.simulation.faults import Faults
from netsim.simulation.listeners import Listeners
from netsim.workload import History, JobSpec, Workload, column

if TYPE_CHECKING:
    from netsim.fabric.view import FabricView

Floats = NDArray[np.float64]


# --- Ctrl-C --------------------------------------------------------------------------------
@contextmanager
def interrupt_with_status(what: Callable[[], str]) -> Iterator[None]:
    """Turn Ctrl-C in this context into an `Interrupted` error with the text that `what` returns."""
    try:
        yield
    except BaseException as error:
        stop = interruption_of(error)
        if stop is None:
            raise
        said = str(stop)
        with suppress(Exception):  # the interruption may leave the state inconsistent
            said = what()
        raise Interrupted(said) from stop


def so_far(now: float, arrival_s: NDArray[np.float64], finish_s: NDArray[np.float64]) -> str:
    """Describe the progress of a run for a message; `finish_s` is NaN for unfinished jobs."""
    jct_s = finish_s - arrival_s
    done = jct_s[~np.isnan(jct_s)]
    # The fabric may run jobs ahead of the clock; the last end then says more.
    at = max(now, np.nanmax(finish_s)) if len(done) else now
    said = f"at {format_seconds(at)} of the simulation {len(done):,} of {len(jct_s):,} jobs had " \
           "finished"
    if not len(done):
        return said
    return said + (f", JCT {format_seconds(done.mean())} on average, "
                   f"p95 {format_seconds(np.percentile(done, 95))}")


# --- leftover bandwidth --------------------------------------------------------------------
def _given_by(answer: Allocation | None) -> str:
    """Return the word for leftover bandwidth that an allocation itself gives; empty if none."""
    if answer is None:
        return ""
    if answer.service is not None:
        return answer.service.backfill
    return "none" if answer.order is not None else ""


def leftover_of(fabric: FabricProcess) -> dict[str, str]:
    """Describe how an allocator shares leftover bandwidth, and on which events it decides.

    ``"leftover"``, such as ``"maxmin to flows"``, is the value of `Allocator.leftover`, or else
    that of an allocation by an order or a service, followed by whether the bandwidth goes to single
    flows, or to coflows whose flows keep equal progress; it is empty if unknown. ``"decides_per"``
    is ``"flow"`` if rates change when a flow ends, else ``"coflow"``. Both describe the last
    allocation; without one, the dict is empty.
    """
    if not fabric.decisions:
        return {}
    answer, allocator = fabric.answer, fabric.allocator
    how = str(allocator.leftover) or _given_by(answer)
    if answer is None:  # a rule that the event loop asks
        rule = allocator.compiled_rule
        in_step = rule is None or rule.in_step
        shared_again = not in_step
    else:
        in_step = answer.in_step
        shared_again = not in_step and answer.rates is None and answer.decisions == "flow"
    to = "coflows" if in_step else "flows"
    return {"leftover": how if how in ("", "none") else f"{how} to {to}",
            "decides_per": ("flow" if shared_again or as_event(allocator.wakes_on) & Event.FLOW_DONE
                            else "coflow")}


# --- the state at an instant ---------------------------------------------------------------
def active_coflows(table: FlowTable, numbers: NDArray[np.int64], names: list[str],
                   jobs: NDArray[np.int64]) -> pd.DataFrame:
    """Tabulate the active coflows; see `netsim.Fabric.active`.

    `numbers` and `names` have the ids and the stages of the coflows in `table`, in order, and
    `jobs` has the ids of all jobs.
    """
    import pandas as pd

    table.refresh()
    rows, (_, owner) = table.coflows, table.open_flows()
    with np.errstate(invalid="ignore"):  # of one that has sent all, on a dead link
        gamma = rows["gamma"] * rows["left"]
    return _ended_left_out(table, pd.DataFrame({
        "coflow": numbers, "job": jobs[rows["job"]], "stage": names,
        "valid_s": rows["valid"].copy(),
        "start_s": np.where(rows["start"] < 0, np.nan, rows["start"]),
        "bytes": rows["total"].copy(), "left_bytes": table.bytes_left(),
        "rate": np.bincount(owner, table.flow_rates(), len(rows)),
        "flows": rows["open"].copy(), "gamma_s": gamma,
        "deadline_s": np.where(np.isfinite(rows["deadline"]), rows["deadline"], np.nan)}))


def _ended_left_out(table: FlowTable, frame: pd.DataFrame) -> pd.DataFrame:
    """Leave out coflows that have sent all bytes, which is only noticed at the next observation."""
    return frame[table.coflows["open"] > 0].reset_index(drop=True)


def active_flows(table: FlowTable, numbers: NDArray[np.int64], jobs: NDArray[np.int64],
                 network: Topology) -> pd.DataFrame:
    """Tabulate the unfinished flows; see `netsim.Fabric.flows` and `active_coflows`."""
    import pandas as pd

    index, owner = table.open_flows()
    flows, rows = table.flows[index], table.coflows
    ends = {end: flows[end].astype("i8") for end in ("src", "dst")}
    names = {name: made(ends) for name, made in named_ends(network.host_names).items()}
    return pd.DataFrame({
        "coflow": numbers[owner], "job": jobs[rows["job"][owner]],
        "flow": flows["index"].astype("i8"), **ends,
        "bytes": flows["size"], "left_bytes": flows["remaining"] * rows["left"][owner],
        "rate": table.flow_rates(), **names})


def links_now(table: FlowTable, network: Topology) -> pd.DataFrame:
    """Tabulate the links of the network; see `netsim.Fabric.links`."""
    import pandas as pd

    index, _ = table.open_flows()
    hops, rates = table.flows["hops"][index], table.flow_rates()
    first = table.flows["hop"][index]
    at = np.repeat(first - np.cumsum(hops) + hops, hops) + np.arange(hops.sum())
    crossed = table.hops["link"][at]
    capacity = table.capacity[:network.links]
    rate, flows = (np.bincount(crossed, each, len(table.capacity))[:network.links]
                   for each in (np.repeat(rates, hops), None))
    with np.errstate(invalid="ignore"):
        used = np.where(capacity > 0, rate / capacity, np.nan)
    return pd.DataFrame({
        "link": np.array(network.link_names), "capacity": capacity.copy(), "rate": rate,
        "utilisation": used, "flows": flows})


# --- targets -------------------------------------------------------------------------------
class Target(Protocol):
    """Protocol of the targets of a `Simulation`: jobs on a network, a cluster or an edge-cloud.

    Targets without links raise an `InputError` where links are needed.
    """

    counts: str  #: what `total` and `done` count: ``"coflows"`` or ``"jobs"``
    seed: int
    allocator: Any  #: can be set to whatever `netsim.simulate` takes
    observe_interval: Any  #: in seconds; can be set to a quantity

    @property
    def total(self) -> int: ...

    @property
    def done(self) -> int: ...

    @property
    def ended(self) -> bool: ...

    @property
    def now(self) -> float: ...

    @property
    def workload_seed(self) -> int: ...

    @property
    def env(self) -> simpy.Environment:
        """The SimPy environment of the run, at the current time; see `Simulation.env`."""

    def begin(self) -> None:
        """Prepare the first step."""

    def fold_ranks(self) -> None:
        """Simulate identical ranks once; only the result of the run is available then."""

    def hold_at(self, limit: float) -> None:
        """Make sure that the run can stop at a time, in seconds, that is not in the past."""

    def next_at(self) -> float:
        """Return the time of the next event, in seconds."""

    def step(self) -> None:
        """Process the next event; raise SimPy's `EmptySchedule` if none is left."""

    def settle(self) -> None:
        """Bring the clock to the instant at which the last job has ended."""

    def stalled(self) -> StalledError:
        """Make the error for jobs that are pending although no event is left."""

    def stopped(self) -> Target:
        """Return a snapshot of the target, without changing the run.

        Only its `identity`, `cost` and `tables` are used.
        """

    def close(self) -> None:
        """Free the memory of a run that is not used any more."""

    def so_far(self) -> str:
        """Describe the progress of the run for a message."""

    def identity(self) -> Mapping[str, Any]:
        """Return names of the workload, the network and the policies, for `Result.run`."""

    def cost(self) -> Mapping[str, Any]:
        """Return counts of decisions, overdue coflows and so on, for `Result.run`."""

    def tables(self) -> Mapping[str, Any]:
        """Return the tables of the result by name; None for those that were not recorded."""

    def active(self) -> pd.DataFrame:
        """Return the coflows that are active now; see `Simulation.active`."""

    def flows(self) -> pd.DataFrame:
        """Return the flows that have not ended; see `Simulation.flows`."""

    def links(self) -> pd.DataFrame:
        """Return the links; see `Simulation.links`."""

    def view(self) -> FabricView:
        """Return the view that the allocator would get now."""

    def jobs_now(self) -> pd.DataFrame:
        """Return all jobs with their states; see `Simulation.jobs`."""

    def submit(self, job: Any) -> None:
        """Add a job that arrives now or later; see `Simulation.submit`."""

    def change(self, event: FaultEvent) -> None:
        """Change links, hosts or switches now; see `Simulation.fail`."""

    def listen(self, listener: Callable[[RunEvent], None] | None) -> None:
        """Call `listener` with each event from now on; None stops the calls."""

    def shared(self) -> list[Any]:
        """Return the objects that copies of the target may share, because they never change."""

    def policies(self) -> Mapping[str, Any]:
        """Return the policies by their kind, such as ``"allocator"``, for messages."""


class Clocked:
    """Base class of targets that use a SimPy environment."""

    env: Clock
    workload: Workload
    arrival_s: Floats
    fabric: FabricProcess | None  #: None if jobs run by formulas
    faults: Faults
    recorder: Recorder
    listeners: Listeners
    begun = False  #: whether the first step has been prepared
    forecast: Forecast | None = None  #: of iterations, for an allocator that uses predictions

    def begin(self) -> None:
        """See `Target.begin`."""
        self.begun = True
        # The event loop calls these at each step, so they are the environment's own methods.
        self.next_at, self.step = self.env.peek, self.env.step  # type: ignore[method-assign]

    def next_at(self) -> float:
        """See `Target.next_at`."""
        return self.env.peek()

    def step(self) -> None:
        """See `Target.step`."""
        self.env.step()

    @property
    def now(self) -> float:
        """See `Target`."""
        return float(self.env.now)

    def fold_ranks(self) -> None:
        """See `Target.fold_ranks`; does nothing by default."""

    def hold_at(self, limit: float) -> None:
        """See `Target.hold_at`; an event at that time keeps the fabric from running past it."""
        call_at(self.env, limit, priority=LAST)

    def settle(self) -> None:
        """See `Target.settle`."""
        if self.fabric is None:
            return
        # Listeners are notified of the last end in an event of its own.
        if (end := self.fabric.ahead) > self.env.now or self.fabric.stepwise:
            self.hold_at(end)
            while self.env.peek() <= end:
                self.env.step()

    def close(self) -> None:
        """See `Target.close`."""
        if self.fabric is not None:
            self.fabric.close()

    def so_far(self) -> str:
        """See `Target.so_far`."""
        return so_far(self.env.now, self.arrival_s, self.finish_s())

    def _job_of(self, index: int) -> JobSpec:
        """Return a job by its number, for views of allocators."""
        return self.workload.jobs[index]

    def finish_s(self) -> Floats:
        """Return the time at which each job finished, in seconds; NaN if it has not."""
        raise NotImplementedError

    # --- copies -----------------------------------------------------------------------

    def policies(self) -> dict[str, Any]:
        """See `Target.policies`."""
        return {} if self.fabric is None else {"allocator": self.fabric.allocator}

    def shared(self) -> list[Any]:
        """See `Target.shared`."""
        # SimPy recognizes pending events by the identity of PENDING.
        return [self.workload, self.workload.jobs, self.workload.history, self.forecast,
                simpy.events.PENDING]

    def stopped(self) -> Self:
        """See `Target.stopped`: a copy that makes no more decisions."""
        memo = {id(each): each for each in (*self.shared(), *self.policies().values())}
        memo[id(self.env)] = self.env.stopped()
        other = deepcopy(self, memo)
        if other.fabric is not None:
            other.fabric.catch_up()
        return other

    # --- the instant ------------------------------------------------------------------

    @property
    def _links(self) -> FabricProcess:
        """The fabric, for methods that need one."""
        if self.fabric is None:
            raise InputError("jobs run by formulas here, without links and an allocator; with "
                             "execution = \"fabric\" there are some")
        return self.fabric

    def _process_of(self, job: int) -> JobProcess:
        """Return the process of a job that runs."""
        raise NotImplementedError

    def active(self) -> pd.DataFrame:
        """See `Target.active`."""
        table, numbers, names = self._look()
        return active_coflows(table, numbers, names, self.recorder.job_ids)

    def flows(self) -> pd.DataFrame:
        """See `Target.flows`."""
        table, numbers, _ = self._look()
        return active_flows(table, numbers, self.recorder.job_ids, self.faults.given)

    def links(self) -> pd.DataFrame:
        """See `Target.links`."""
        return links_now(self._links.look()[0], self.faults.given)

    def view(self) -> FabricView:
        """See `Target.view`."""
        return self._links.view()

    def _look(self) -> tuple[FlowTable, NDArray[np.int64], list[str]]:
        """Return the table of active coflows, their ids, and the names of their stages."""
        table, events = self._links.look()
        recorder, rows = self.recorder, table.coflows
        numbers, names = np.empty(len(rows), np.int64), [""] * len(rows)
        alone = [k for k, event in enumerate(events) if event is None]
        which = recorder.coflows_of(rows[alone])
        numbers[alone] = which["coflow"]
        for k, stage in zip(alone, which["stage"].tolist(), strict=True):
            names[k] = recorder.stage_names[stage]
        for k, event in enumerate(events):
            if event is not None:
                numbers[k], names[k] = self._number_and_name(event)
        return table, numbers, names

    def _number_and_name(self, transfer: CoflowEvent) -> tuple[int, str]:
        """Return the id of a coflow that a process has submitted, and the name of its stage."""
        process = self._process_of(transfer.job)
        iteration, stage = process.place_of(transfer)
        return (self.recorder.number(process, iteration, stage),
                process.graph.stages[stage].name)

    def jobs_now(self) -> pd.DataFrame:
        """See `Target.jobs_now`."""
        shown = self.stopped()
        jobs: pd.DataFrame = shown.tables()["jobs"]
        if shown.fabric is not None:  # of what is in flight, too
            rows = shown.fabric.table.coflows
            sent = rows[rows["start"] >= 0]
            start = jobs["start_s"].to_numpy(copy=True)
            np.fmin.at(start, sent["job"], sent["start"])
            jobs["start_s"] = start
        jobs.insert(2, "state", self._states(jobs))
        return jobs

    def _states(self, jobs: pd.DataFrame) -> list[str]:
        """Return the state of each job: to come, waiting, running, done."""
        raise NotImplementedError

    def tables(self) -> dict[str, Any]:
        """See `Target.tables`."""
        raise NotImplementedError

    # --- changes ----------------------------------------------------------------------

    def _with(self, job: JobSpec, fitted: Callable[[JobSpec], JobSpec]) -> tuple[Workload, int]:
        """Return the workload with another job, as `fitted` returns it, and the job's number."""
        jobs, now = self.workload.jobs, self.now
        if not isinstance(job, JobSpec):
            raise InputError(f"job must be a JobSpec, not {job!r}")
        if self.fabric is not None and self.fabric.allocator.plans_ahead:
            raise InputError(f"job {job.id}: allocator {self.fabric.allocator.title} has planned "
                             "for the jobs of the workload alone")
        if job.arrival_s < now:
            raise InputError(f"job {job.id} arrives at {job.arrival_s:g} s, and it is {now:g} s "
                             "already")
        ids, arrived = column(jobs, "id"), int(np.searchsorted(self.arrival_s, now, "right"))
        if job.id in ids:
            raise InputError(f"job {job.id}: the run has a job with this id")
        before = self.arrival_s < job.arrival_s
        tied = self.arrival_s == job.arrival_s
        index = int(np.count_nonzero(before | (tied & (np.asarray(ids) < job.id))))
        if self.begun and index < arrived:
            raise InputError(f"job {job.id} arrives at the same instant as jobs with larger ids "
                             "that have arrived already; give it a larger id")
        job = fitted(with_drawn_ranks(job, self.workload.seed))
        given = Workload((*jobs[:index], job, *jobs[index:]), self.workload.name,
                         seed=self.workload.seed, history=self.workload.history)
        return given, index

    def change(self, event: FaultEvent) -> None:
        """See `Target.change`."""
        changes = changes_of([event], self.faults.where)  # several: of the GPUs of a server
        for change in changes:
            self._check_change(change)
        for change in changes:
            if self.fabric is not None and self.faults.goes_live(change):
                self._route_on(self.faults.network)
            self.faults.apply(change)

    def _check_change(self, change: Change) -> None:
        """Refuse a change that cannot be made during this run."""
        raise NotImplementedError

    def _route_on(self, network: Topology) -> None:
        """Use the routes of a network with the same links from now on."""
        self._links.network = network
        self._links.table.add_links(network.usable)

    @property
    def allocator(self) -> Allocator:
        """See `Target`."""
        return self._links.allocator

    @allocator.setter
    def allocator(self, given: Any) -> None:
        self._take_over(make_allocator(given))

    def _take_over(self, allocator: Allocator) -> None:
        fabric = self._links
        if allocator.information == "predicted" and (
                self.forecast is None or self.forecast.given != allocator.predictor):
            raise InputError(f"allocator {allocator.title} goes by predictions, made when jobs "
                             "begin: the run must begin under one with the same predictor")
        for name, what in (("sees_running", "is told which jobs run, and where"),
                           ("reserves_gpus", "goes by the GPUs of jobs")):
            if getattr(allocator, name) and not getattr(fabric.allocator, name):
                raise InputError(
                    f"allocator {allocator.title} {what}, which {fabric.allocator.title} is not: "
                    "the run must begin under one that is")
        if allocator.plans_ahead:
            raise InputError(f"allocator {allocator.title} plans for all jobs before they begin: "
                             "the run must begin under it")
        fabric.set_allocator(allocator)

    @property
    def observe_interval(self) -> float:
        """See `Target`."""
        return self._links.observe_interval

    @observe_interval.setter
    def observe_interval(self, given: Quantity) -> None:
        self._links.set_observe_interval(parse_seconds(given, "observe_interval"))

    def listen(self, listener: Callable[[RunEvent], None] | None) -> None:
        """See `Target.listen`."""
        self.listeners.listen(listener)


def forecast_of(allocator: Allocator, history: History | None) -> Forecast | None:
    """Make the forecast of iterations for an allocator that uses predictions, else None."""
    if allocator.information != "predicted":
        return None
    made = Forecast(allocator.predictor, history)
    if not history and not made.predictor.clairvoyant:
        raise InputError(
            f"allocator {allocator.title} goes by predictions, and the workload has no history to "
            "learn from; give one, such as by the option `train` of its format, or predictor = "
            '"perfect"')
    return made


def run_info(identity: Mapping[str, Any], cost: Mapping[str, Any], *, seed: int,
             workload_seed: int, stopped_at_s: float | None, steps: int, wall_s: float
             ) -> dict[str, Any]:
    """Make `Result.run`; see `Target.identity` and `Target.cost`."""
    return {**identity, "seed": int(seed), "workload_seed": workload_seed, "version": __version__,
            "platform": platform.platform(), "python": platform.python_version(),
            "stopped_at_s": stopped_at_s, "simpy_events": steps, "wall_s": wall_s, "overdue": 0,
            **cost}


def jobs_table(jobs: Sequence[Any], *, arrival_s: Floats, start_s: Floats, finish_s: Floats,
               iterations: Sequence[int], ranks: Sequence[int], coflows: ArrayLike,
               nbytes: ArrayLike, lower_bound_s: Floats, **more: Any) -> pd.DataFrame:
    """Make the table of jobs; see `netsim.Result`.

    Times are in seconds, and NaN for what has not happened; `more` has further columns.
    """
    return pd.DataFrame({
        "job": np.array(column(jobs, "id"), np.int64), "name": column(jobs, "name"),
        "arrival_s": arrival_s, "start_s": start_s, "finish_s": finish_s,
        "jct_s": finish_s - arrival_s, "iterations": np.array(iterations, np.int64),
        "ranks": np.array(ranks, np.int64), "coflows": coflows, "bytes": nbytes,
        "lower_bound_s": lower_bound_s, **more, **chosen_algorithms(jobs)})
