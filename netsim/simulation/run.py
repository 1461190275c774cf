"""`Run`, the base class of all runs: on a network, a cluster, an edge-cloud, in a user's program.

Before it: Ctrl-C with a message about how far the run was, and how the allocator shared leftover
bandwidth.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from netsim._version import __version__
from netsim.allocators import ALLOCATORS, make_allocator
from netsim.base.arrays import Floats, Ints
from netsim.base.lazy import pd, simpy
from netsim.base.units import Quantity, format_seconds, parse_seconds
from netsim.errors import InputError, Interrupted, StalledError, interruption_of
from netsim.fabric.allocation import Allocation, Event, as_event
from netsim.fabric.allocator import Allocator
from netsim.fabric.clock import LAST, Clock, CoflowEvent, call_at
from netsim.fabric.fabric_process import FabricProcess
from netsim.fabric.flow_table import FlowTable
from netsim.jobs.fitting import chosen_algorithms
from netsim.jobs.plan import with_drawn_ranks
from netsim.jobs.process import JobProcess
from netsim.network import Topology
from netsim.results.lazy_table import FrameColumns
from netsim.results.link_recorder import named_ends
from netsim.results.result import Result, result_of
from netsim.simulation.events import Change, FaultEvent, RunEvent, changes_of
from netsim.simulation.faults import Faults
from netsim.simulation.listeners import Listeners
from netsim.workload import History, JobSpec, Workload
from netsim.workload.job import column, columns_of

if TYPE_CHECKING:
    from netsim.fabric.view import FabricView
    from netsim.predictors import Forecast

#: Said of a job that is submitted too late for its id.
ARRIVED_ALREADY = ("arrives at the same instant as jobs with larger ids that have arrived already; "
                   "give it a larger id")


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
    answer, allocator = fabric.policy.answer, fabric.allocator
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


# --- runs ----------------------------------------------------------------------------------
class Run:
    """What runs on a network, a cluster, an edge-cloud and in a user's program have in common.

    The classes of these runs fill in the hooks, which raise a `NotImplementedError` here.
    """

    counts = "jobs"  #: what `total` and `done` count, in the plural
    seed: int
    env: Clock  #: the SimPy environment, at the current time
    workload: Any
    network: Topology  #: as it was given; `faults.network` routes flows around dead links
    arrival_s: Floats
    fabric: FabricProcess | None = None  #: None if jobs run by formulas
    faults: Faults
    recorder: Any
    starts = True  #: whether jobs start with their first byte, as nothing else reports starts
    begun = False  #: whether the first step has been prepared
    forecast: Forecast | None = None  #: of iterations, for an allocator that uses predictions

    # --- time passes ------------------------------------------------------------------

    @property
    def total(self) -> int:
        """The number of coflows, or of jobs; see `counts`."""
        raise NotImplementedError

    @property
    def done(self) -> int:
        """How many of these have ended."""
        raise NotImplementedError

    @property
    def ended(self) -> bool:
        """Whether all jobs have ended; asked at each step."""
        raise NotImplementedError

    @property
    def now(self) -> float:
        """The time of the run, in seconds."""
        return float(self.env.now)

    def fold_ranks(self) -> None:
        """Simulate identical ranks once, if that is possible; only the result is then available."""

    def begin(self) -> None:
        """Prepare the first step."""
        self.begun = True
        # The event loop calls these at each step, so they are the environment's own methods.
        self.next_at, self.step = self.env.peek, self.env.step  # type: ignore[method-assign]

    def next_at(self) -> float:
        """Return the time of the next event, in seconds."""
        return self.env.peek()

    def step(self) -> None:
        """Process the next event; raise SimPy's `EmptySchedule` if none is left."""
        self.env.step()

    def hold_at(self, limit: float) -> None:
        """Make sure that the run can stop at a time, in seconds, that is not in the past."""
        call_at(self.env, limit, priority=LAST)  # past which the fabric does not run

    def settle(self) -> None:
        """Bring the clock to the instant at which the last job has ended."""
        if self.fabric is None:
            return
        # Listeners are notified of the last end in an event of its own.
        if (end := self.fabric.ahead) > self.env.now or self.fabric.stepwise:
            self.hold_at(end)
            while self.env.peek() <= end:
                self.env.step()

    def stalled(self) -> StalledError:
        """Make the error for jobs that are pending although no event is left."""
        raise NotImplementedError

    def close(self) -> None:
        """Free the memory of a run that is not used any more."""
        if self.fabric is not None:
            self.fabric.close()

    def finish_s(self) -> Floats:
        """Return the time at which each job finished, in seconds; NaN if it has not."""
        raise NotImplementedError

    def so_far(self) -> str:
        """Describe the progress of the run for a message."""
        finish_s = self.finish_s()
        jct_s = finish_s - self.arrival_s
        done = jct_s[~np.isnan(jct_s)]
        # The fabric may run jobs ahead of the clock; the last end then says more.
        at = max(self.now, np.nanmax(finish_s)) if len(done) else self.now
        said = (f"at {format_seconds(at)} of the simulation {len(done):,} of {len(jct_s):,} jobs "
                "had finished")
        if not len(done):
            return said
        return said + (f", JCT {format_seconds(done.mean())} on average, "
                       f"p95 {format_seconds(np.percentile(done, 95))}")

    def _job_of(self, index: int) -> Any:
        """Return a job by its number, for views of allocators."""
        return self.workload.jobs[index]

    # --- copies -----------------------------------------------------------------------

    def policies(self) -> dict[str, Any]:
        """Return the policies by their kind, such as ``"allocator"``, for messages."""
        return {} if self.fabric is None else {"allocator": self.fabric.allocator}

    def shared(self) -> list[Any]:
        """Return the objects that copies of the run may share, because they never change."""
        # SimPy recognizes pending events by the identity of PENDING.
        return [self.workload, self.workload.jobs, self.workload.history, self.forecast,
                simpy.events.PENDING]

    def stopped(self) -> Self:
        """Return a snapshot of the run that makes no more decisions, without changing the run."""
        memo = {id(each): each for each in (*self.shared(), *self.policies().values())}
        memo[id(self.env)] = self.env.stopped()
        other = deepcopy(self, memo)
        if other.fabric is not None:
            other.fabric.advance_to_now()
        return other

    # --- the instant ------------------------------------------------------------------

    @property
    def _fabric(self) -> FabricProcess:
        """The fabric, for methods that need one."""
        if self.fabric is None:
            raise InputError("jobs run by formulas here, without links and an allocator; with "
                             "execution = \"fabric\" there are some")
        return self.fabric

    @property
    def job_ids(self) -> Ints:
        """The ids of all jobs."""
        ids: Ints = self.recorder.job_ids
        return ids

    def active(self) -> pd.DataFrame:
        """Tabulate the active coflows; see `RunHandle.active`."""
        import pandas as pd

        table, numbers, names = self._look()
        table.refresh()
        rows, (_, owner) = table.coflows, table.open_flows()
        with np.errstate(invalid="ignore"):  # of one that has sent all, on a dead link
            gamma = rows["gamma"] * rows["left"]
        frame = pd.DataFrame({
            "coflow": numbers, "job": self.job_ids[rows["job"]], "stage": names,
            "valid_s": rows["valid"].copy(),
            "start_s": np.where(rows["start"] < 0, np.nan, rows["start"]),
            "bytes": rows["total"].copy(), "left_bytes": table.bytes_left(),
            "rate": np.bincount(owner, table.flow_rates(), len(rows)),
            "flows": rows["open"].copy(), "gamma_s": gamma,
            "deadline_s": np.where(np.isfinite(rows["deadline"]), rows["deadline"], np.nan)})
        # The end of what has sent all bytes is only noticed at the next observation.
        return frame[rows["open"] > 0].reset_index(drop=True)

    def flows(self) -> pd.DataFrame:
        """Tabulate the unfinished flows; see `RunHandle.flows`."""
        import pandas as pd

        table, numbers, _ = self._look()
        index, owner = table.open_flows()
        flows, rows = table.flows[index], table.coflows
        ends = {end: flows[end].astype("i8") for end in ("src", "dst")}
        names = {name: made(ends) for name, made in named_ends(self.network.host_names).items()}
        return pd.DataFrame({
            "coflow": numbers[owner], "job": self.job_ids[rows["job"][owner]],
            "flow": flows["index"].astype("i8"), **ends,
            "bytes": flows["size"], "left_bytes": flows["remaining"] * rows["left"][owner],
            "rate": table.flow_rates(), **names})

    def links(self) -> pd.DataFrame:
        """Tabulate the links; see `RunHandle.links`."""
        import pandas as pd

        table, _ = self._fabric.look()
        network, (index, _) = self.network, table.open_flows()
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

    def view(self) -> FabricView:
        """Return the view that the allocator would get now."""
        return self._fabric.view()

    def _look(self) -> tuple[FlowTable, Ints, list[str]]:
        """Return the table of active coflows, their ids, and the names of their stages."""
        table, events = self._fabric.look()
        recorder, rows = self.recorder, table.coflows
        numbers, names = np.empty(len(rows), np.int64), [""] * len(rows)
        if alone := [k for k, event in enumerate(events) if event is None]:
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

    def _process_of(self, job: int) -> JobProcess:
        """Return the process of a job that runs."""
        raise NotImplementedError

    def jobs_now(self) -> pd.DataFrame:
        """Tabulate all jobs with their states; see `RunHandle.jobs`."""
        shown = self.stopped()
        jobs: pd.DataFrame = shown.tables()["jobs"].frame()
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

    # --- changes ----------------------------------------------------------------------

    def submit(self, job: Any) -> Any:
        """Add a job that arrives now or later; see `Simulation.submit`."""
        raise NotImplementedError

    def _refuse_late(self, job: Any) -> None:
        """Refuse a job that arrives in the past."""
        if job.arrival_s < self.now:
            raise InputError(f"job {job.id} arrives at {job.arrival_s:g} s, and it is "
                             f"{self.now:g} s already")

    def _with(self, job: JobSpec, fitted: Callable[[JobSpec], JobSpec]) -> tuple[Workload, int]:
        """Return the workload with another job, as `fitted` returns it, and the job's number."""
        jobs = self.workload.jobs
        if not isinstance(job, JobSpec):
            raise InputError(f"job must be a JobSpec, not {job!r}")
        if self.fabric is not None and self.fabric.allocator.plans_ahead:
            raise InputError(f"job {job.id}: allocator {self.fabric.allocator.title} has planned "
                             "for the jobs of the workload alone")
        self._refuse_late(job)
        ids, arrived = column(jobs, "id"), int(np.searchsorted(self.arrival_s, self.now, "right"))
        if job.id in ids:
            raise InputError(f"job {job.id}: the run has a job with this id")
        before = self.arrival_s < job.arrival_s
        tied = self.arrival_s == job.arrival_s
        index = int(np.count_nonzero(before | (tied & (np.asarray(ids) < job.id))))
        if self.begun and index < arrived:
            raise InputError(f"job {job.id} {ARRIVED_ALREADY}")
        job = fitted(with_drawn_ranks(job, self.workload.seed))
        given = Workload((*jobs[:index], job, *jobs[index:]), self.workload.name,
                         seed=self.workload.seed, history=self.workload.history)
        return given, index

    def change(self, event: FaultEvent) -> None:
        """Change links, hosts or switches now; see `RunHandle.fail`."""
        changes = changes_of([event], self.faults.where)  # several: of the GPUs of a server
        for change in changes:
            self._check_change(change)
        for change in changes:
            if self.fabric is not None and self.faults.goes_live(change):
                self._route_on(self.faults.network)
            self.faults.apply(change)

    def _check_change(self, change: Change) -> None:
        """Refuse a change that cannot be made during this run."""

    def _route_on(self, network: Topology) -> None:
        """Use the routes of a network with the same links from now on."""
        self._fabric.network = network
        self._fabric.table.add_links(network.usable)

    @property
    def allocator(self) -> Allocator:
        """The policy that decides the bandwidth of flows."""
        return self._fabric.allocator

    def set_allocator(self, given: Any) -> None:
        """Replace the policy by one that `make_allocator` takes."""
        self._take_over(self._fabric, make_allocator(given))

    def _take_over(self, fabric: FabricProcess, allocator: Allocator) -> None:
        """Replace the policy of the fabric, unless the run had to begin under the new one."""
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
        """The observe interval in seconds."""
        return self._fabric.observe_interval

    def set_observe_interval(self, given: Quantity) -> None:
        """Change the observe interval."""
        self._fabric.set_observe_interval(parse_seconds(given, "observe_interval"))

    @cached_property
    def listeners(self) -> Listeners:
        """What notifies listeners, made for the first of them."""
        return Listeners(self.env, self.recorder, self.fabric, self.starts)

    def listen(self, listener: Callable[[RunEvent], None] | None) -> None:
        """Call `listener` with each event from now on; None stops the calls."""
        self.listeners.listen(listener)

    def tell_capacities(self, links: Mapping[str, float]) -> None:
        """Notify listeners of new capacities of links, in bytes per second, by their names."""
        for link, capacity in links.items():
            self.listeners.notify("capacity", link=link, capacity=capacity)

    # --- the result -------------------------------------------------------------------

    def result(self, steps: int, wall_s: float) -> Result:
        """Return what has been recorded until now, after a number of events and some seconds."""
        ended = self.ended
        shown = self if ended else self.stopped()
        tables = shown.tables()
        run = {**shown.identity(), "seed": int(self.seed), "workload_seed": self.workload.seed,
               "version": __version__, "platform": platform.platform(),
               "python": platform.python_version(), "stopped_at_s": None if ended else self.now,
               "simpy_events": steps, "wall_s": wall_s, "overdue": 0, **shown.cost()}
        return result_of(tables, run)

    def identity(self) -> dict[str, Any]:
        """Return names of the workload, the network and the policies, for `Result.run`."""
        fabric = self._fabric
        return {"workload": self.workload.name, "network": self.network.name,
                "allocator": ALLOCATORS.to_dict(fabric.allocator), "sharing": leftover_of(fabric),
                "observe_interval": fabric.observe_interval}

    def cost(self) -> dict[str, Any]:
        """Return counts of decisions, overdue coflows and so on, for `Result.run`."""
        fabric, now = self._fabric, self.env.now
        return {"decisions": fabric.decisions,
                "overdue": sum(deadline_s < now for _, _, deadline_s in fabric.pending()),
                "counts": dict(fabric.allocator.counts)}

    def tables(self) -> dict[str, Any]:
        """Return the tables of the result by name; None for those that were not recorded."""
        raise NotImplementedError


def forecast_of(allocator: Allocator, history: History | None) -> Forecast | None:
    """Make the forecast of iterations for an allocator that uses predictions, else None."""
    if allocator.information != "predicted":
        return None
    from netsim.predictors import Forecast

    made = Forecast(allocator.predictor, history)
    if not history and not made.predictor.clairvoyant:
        raise InputError(
            f"allocator {allocator.title} goes by predictions, and the workload has no history to "
            "learn from; give one, such as by the option `train` of its format, or predictor = "
            '"perfect"')
    return made


def jobs_table(jobs: Sequence[Any], *, arrival_s: Floats, start_s: Floats, finish_s: Floats,
               coflows: ArrayLike, nbytes: ArrayLike, lower_bound_s: Floats,
               iterations: Sequence[int] | None = None, ranks: Sequence[int] | None = None,
               **more: Any) -> FrameColumns:
    """Make the table of jobs; see `netsim.Result`.

    Times are in seconds, and NaN for what has not happened; `more` has further columns. By default,
    `iterations` and `ranks` are those that jobs say.
    """
    if iterations is None:
        iterations, ranks = columns_of(jobs, "iterations", "ranks")
    ids, names = columns_of(jobs, "id", "name")
    return FrameColumns({
        "job": np.array(ids, np.int64), "name": names,
        "arrival_s": arrival_s, "start_s": start_s, "finish_s": finish_s,
        "jct_s": finish_s - arrival_s, "iterations": np.array(iterations, np.int64),
        "ranks": np.array(ranks, np.int64), "coflows": coflows, "bytes": nbytes,
        "lower_bound_s": lower_bound_s, **more, **chosen_algorithms(jobs)})
