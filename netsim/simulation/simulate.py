"""Run one workload on one network under one allocator."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import simpy
from numpy.typing import NDArray

from netsim._version import __version__
from netsim.allocators import describe, make_allocator
from netsim.checks import check_whole
from netsim.cluster import Cluster
from netsim.edge import EdgeCloud, EdgeJob, EdgeWorkload
from netsim.errors import InputError, StalledError
from netsim.fabric.allocator import Allocator
from netsim.fabric.fabric import Fabric
from netsim.jobs.plan import JobPlan, check_all_fit, place_randomly
from netsim.jobs.process import JobProcess
from netsim.jobs.single import SingleCoflows, is_single
from netsim.jobs.stragglers import factors_of, slowed_job
from netsim.network import Topology
from netsim.network.files import as_network
from netsim.plain import plain_numbers
from netsim.recording.coflow_ids import CoflowNumbers
from netsim.recording.recorder import Recorder
from netsim.results.result import Result
from netsim.simulation.events import FaultEvent, end_at
from netsim.simulation.faults import Faults, JobsOnHosts, dead_links, listed
from netsim.simulation.interrupt import so_far, telling
from netsim.simulation.leftover import leftover_of
from netsim.simulation.on_cluster import simulate_cluster
from netsim.simulation.on_edge import simulate_edge
from netsim.simulation.progress import show_progress
from netsim.traces.formats import as_workload
from netsim.units import Quantity, parse_seconds
from netsim.workload import JobSpec, Workload

__all__ = ["simulate"]

_REPORT_EVERY = 4096

#: What a timeline shows beside the jobs.
TIMELINE = ("coflows", "links", "decisions")


@plain_numbers
def simulate(network: Topology | Cluster | EdgeCloud | str | Path,
             workload: Workload | Sequence[JobSpec] | EdgeWorkload | Sequence[EdgeJob] | str
             | Path, *,
             allocator: str | Mapping[str, Any] | Allocator | type[Allocator] = "maxmin",
             observe_interval: Quantity = 0, seed: int = 0, until: Quantity | None = None,
             record: Sequence[str] = ("jobs", "coflows"), timeline: bool = False,
             events: Sequence[FaultEvent | Mapping[str, Any]] = (),
             stragglers: Mapping[int, float] | None = None, check: bool = True,
             scheduler: Any = None, placement: Any = None, execution: Any = None,
             epsilon: float = 0.0, transport: Any = "constant",
             progress: bool | Callable[[int, int], None] = False) -> Result:
    """Simulate a workload on a network, on the servers of a cluster, or on an edge-cloud.

    Parameters
    ----------
    network : Topology, Cluster, EdgeCloud, str or path
        A network, or what `read_network` reads; or servers with GPUs; or an edge-cloud, for which
        `until`, `timeline`, `placement` and `execution` are not, and `allocator`,
        `observe_interval`, `events` and `record` only with ``transport="fabric"``.
    workload : Workload, sequence of JobSpec, str or path
        A workload, its jobs, or what `read_workload` reads. Of an edge-cloud, an `EdgeWorkload`,
        or a sequence of `EdgeJob`.
    allocator : str, mapping, Allocator or class
        Who gets which bandwidth; see `netsim.allocators.make_allocator`.
    observe_interval : quantity
        0: events are noticed, and bandwidth is decided, at exact instants. Otherwise at
        multiples of this interval, such as ``"10ms"``.
    seed : int
        Of the placement of jobs that do not say on which hosts they run, and of the
        workload if it is given by name or path.
    until : quantity, optional
        Stop then, finished or not.
    record : sequence of str
        Which tables to keep: jobs (always), coflows, flows, links, decisions.
    timeline : bool
        Keep coflows, links and decisions too, for `netsim.write_timeline`, where `record` does
        not name them. The run is the same to the last bit. To that end such links have mean rates
        from one event to the next, and decisions are not told apart while an allocation stands.
    events : sequence of FaultEvent or mapping
        Links and hosts that degrade, fail and are repaired: ``{"at": "5s", "kind": "fail", "host":
        3, "restart": True}``, ``{"at": "7s", "link": "egress-3", "capacity": "1Gbps"}``.
    stragglers : mapping of int to float, optional
        How many times as long hosts, or servers of a cluster, take to compute: ``{3: 2.0}``.
    check : bool
        Check that each allocation is feasible. Costs a few percent of the run.
    scheduler : str, mapping or object, optional
        On a cluster, who starts when; ``"fifo"`` if not given. See
        `netsim.schedulers.registry.make_scheduler`. On an edge-cloud, which chunks train where;
        ``"a-online"`` if not given. See `netsim.schedulers.edge_registry.make_edge_scheduler`.
    placement : str, mapping or Placement, optional
        On a cluster, which GPUs jobs get, for schedulers that leave it to that. If not given, the
        scheduler's own, which is ``"first-fit"`` where it does not say; see
        `netsim.placements.registry.make_placement`.
    execution : str or mapping, optional
        On a cluster, how placed jobs run: by the formulas of ``"rar-contention"`` (if not given) or
        ``"asrpt"``, for which there is no allocator; or as coflows on the ``"fabric"``, under
        the allocator. See `netsim.engine.registry.make_execution`.
    epsilon : float
        On an edge-cloud, by how much faster than the jobs say workers train: training takes
        1 / (1 + epsilon) of its time.
    transport : str, mapping or object
        On an edge-cloud, how chunks get to workers and exchange gradients: in the time that the
        jobs say (``"constant"``), or as flows over its links (``"fabric"``). See
        `netsim.edge.registry.make_transport`.
    progress : bool or callable
        Show a progress bar where a person is watching, on a terminal or in a notebook; or call with
        coflows done and in total; on a cluster, or an edge-cloud, jobs.

    Returns
    -------
    Result

    Raises
    ------
    InputError
        If the network, the workload or an argument cannot be simulated.
    AllocationError
        If the allocator returns rates that are not feasible; names it.
    StalledError
        If coflows are pending, nothing moves and nothing will happen any more.
    Interrupted
        On Ctrl-C, with how far the run was; a `KeyboardInterrupt`.

    Examples
    --------
    >>> import netsim
    >>> net = netsim.big_switch(2, "8Mbps")
    >>> job = netsim.JobSpec(0, stages=[netsim.Stage("push", [(0, 1, 3e6)])])
    >>> netsim.simulate(net, netsim.Workload([job])).jobs["jct_s"][0]
    np.float64(3.0)
    """
    if isinstance(network, EdgeCloud):
        _refuse_on_edge(until=until is not None, timeline=timeline,
                        stragglers=stragglers is not None,
                        placement=placement is not None, execution=execution is not None)
        return simulate_edge(network, cast(Any, workload), scheduler=scheduler, epsilon=epsilon,
                             transport=transport, seed=seed, allocator=allocator,
                             observe_interval=observe_interval, events=events, record=record,
                             check=check, progress=progress)
    if epsilon != 0 or transport != "constant":
        raise InputError("epsilon and transport are for jobs on a netsim.EdgeCloud")
    workload = cast("Workload | Sequence[JobSpec] | str | Path", workload)
    if isinstance(network, Cluster):
        if timeline:
            raise InputError("there is no timeline of a run on a cluster; its `gpus` say who had "
                             "what, from when to when")
        return simulate_cluster(
            network, as_workload(workload, seed), scheduler=scheduler, placement=placement,
            execution=execution, allocator=allocator, observe_interval=observe_interval,
            seed=seed, until=until, record=record, events=events, stragglers=stragglers,
            check=check, progress=progress)
    if not (scheduler is placement is execution is None):
        raise InputError("scheduler, placement and execution are for jobs on a netsim.Cluster; on "
                         "a network all jobs run when they arrive, as coflows")
    run = _Run(as_network(network), as_workload(workload, seed), make_allocator(allocator),
               observe_interval, seed, record, events, check, TIMELINE if timeline else (),
               stragglers)
    limit = math.inf if until is None else parse_seconds(until, "until", strict=True)
    started = time.perf_counter()
    with telling(run.so_far), show_progress(progress, run.numbers.total) as report:
        run.go(limit, report)
    return run.result(time.perf_counter() - started)


def _refuse_on_edge(**given: bool) -> None:
    """Refuse arguments that an edge-cloud has no use for."""
    if said := [name for name, is_given in given.items() if is_given]:
        raise InputError(f"{', '.join(said)}: not for a netsim.EdgeCloud, where schedulers place "
                         "chunks, and jobs run to their ends")


class _Run:
    """One simulation: its parts, its clock, its records."""

    def __init__(self, network: Topology, workload: Workload, allocator: Allocator,
                 observe_interval: Quantity, seed: int, record: Sequence[str],
                 events: Sequence[FaultEvent | Mapping[str, Any]], check: bool,
                 beside: Sequence[str] = (),
                 stragglers: Mapping[int, float] | None = None) -> None:
        self.workload, self.allocator, self.seed = workload, allocator, seed
        self.interval = parse_seconds(observe_interval, "observe_interval")
        check_whole(seed, "seed")
        check_all_fit(workload, network)
        self.faults = Faults(events, network)
        self.network = self.faults.network
        self.slowness = factors_of(stragglers, network.hosts)
        self.numbers = CoflowNumbers(workload)
        self.recorder = Recorder(record, len(workload), self.numbers, network.capacity, beside)
        self.steps = 0
        self.stopped_at_s: float | None = None
        self.env = simpy.Environment(0.0)
        finished = self.recorder.of_lines_finished
        # Who is told which jobs run needs processes that say when they begin and end.
        plain = not (allocator.sees_running or self.faults.touch_jobs)
        single = [k for k, job in enumerate(workload)
                  if plain and is_single(job) and not self._is_slow(job)]
        self.singles = SingleCoflows(workload.jobs, single, self._place, network,
                                     self.faults.most_capacity, finished,
                                     self._pass_empty)
        self.recorder.singles_begun(self.singles.members, self.singles.stages)
        self.fabric = Fabric(
            self.env, self.network, allocator, [job.arrival_s for job in workload],
            observe_interval=self.interval, check=check, source=self.singles,
            observer=self.recorder if self.recorder.watches_fabric else None, completed=finished)
        self.on_hosts = JobsOnHosts()
        self.faults.begin(self.env, self.on_hosts, self.fabric, self.recorder)
        others = np.delete(np.arange(len(workload)), self.singles.members).tolist()
        self.jobs = self.on_hosts.jobs
        self.jobs += [JobProcess(self.env, self.fabric, index, workload.jobs[index].arrival_s,
                                 self._plan, self.recorder, self.faults.touch_jobs,
                                 self.on_hosts.may_run) for index in others]

    def _pass_empty(self, at: float, tell: Callable[[], None]) -> None:
        """Tell of a coflow without bytes when it comes and ends, or now if that has passed."""
        def happen(_: simpy.Event) -> None:
            tell()
            self.fabric.pass_empty()
        self.env.timeout(max(at - self.env.now, 0.0)).callbacks.append(happen)

    def _is_slow(self, job: JobSpec) -> bool:
        return bool((self.slowness > 1).any() and (self._slowness(job) > 1).any())

    def _slowness(self, job: JobSpec) -> NDArray[np.float64]:
        return self.slowness[self._place(job)[:job.ranks]]

    def _plan(self, index: int) -> JobPlan:
        job = self.workload.jobs[index]
        spec, slowed = slowed_job(job, self._slowness(job))
        return JobPlan(spec, self.network, self._place(job), self.workload.seed,
                       self.faults.most_capacity, slowed)

    def _place(self, job: JobSpec) -> NDArray[np.int64]:
        return place_randomly(job, self.network, self.seed)

    def go(self, limit: float, report: Callable[[int, int], None]) -> None:
        """Step until every job is done, or until `limit`."""
        env, recorder, jobs = self.env, self.recorder, len(self.workload)
        if limit < math.inf:
            end_at(env, limit)
        told = 0
        while recorder.jobs_done < jobs and env.peek() <= limit:
            try:
                env.step()
            except simpy.core.EmptySchedule:
                raise self._stalled() from None
            self.steps += 1
            if self.steps % _REPORT_EVERY == 0 or recorder.coflows_done > told + _REPORT_EVERY:
                told = recorder.coflows_done
                report(told, self.numbers.total)
        if recorder.jobs_done < jobs:
            self.fabric.catch_up()
            self.stopped_at_s = limit
        report(recorder.coflows_done, self.numbers.total)

    def so_far(self) -> str:
        """Return in words how far the run is."""
        self.recorder.pack()
        return so_far(self.env.now, np.array([job.arrival_s for job in self.workload]),
                      self.recorder.finish_s)

    def _stalled(self) -> StalledError:
        pending, jobs, problems = self.fabric.pending(), self.workload.jobs, []
        if pending:
            problems.append(
                f"allocator {type(self.allocator).__name__} gives no bandwidth to {len(pending)} "
                "pending coflows, and nothing else will happen; coflows of " + listed(
                    f"job {jobs[job].id} (valid since {valid_s:g} s)"
                    for job, valid_s, _ in pending))
            problems += dead_links(self.fabric)
        if waiting := self.on_hosts.waiting():
            problems.append("lost hosts are not repaired; " + listed(
                f"job {jobs[job.index].id} waits for host {', '.join(map(str, hosts))}"
                for job, hosts in waiting))
        return StalledError(f"stalled at t = {self.fabric.decided_s:g} s: " + "; ".join(
            [*problems, "a run that may leave some needs an end, `until`"]))

    def result(self, wall_s: float) -> Result:
        """Return the records."""
        run = {
            "workload": self.workload.name, "network": self.network.name,
            "allocator": describe(self.allocator), "sharing": leftover_of(self.fabric),
            "observe_interval": self.interval,
            "seed": int(self.seed), "workload_seed": self.workload.seed,
            "version": __version__, "platform": platform.platform(),
            "python": platform.python_version(),
            "stopped_at_s": self.stopped_at_s,
            "decisions": self.fabric.decisions, "simpy_events": self.steps, "wall_s": wall_s,
            "overdue": self._overdue(), "counts": dict(self.allocator.counts),
        }
        for job in self.jobs:
            job.tell()
        self.recorder.pack()
        tables: dict[str, Any] = {name: self.recorder.table(name, self.network.link_names)
                  for name in ("coflows", "flows", "links", "decisions")}
        return Result(jobs=self._jobs_frame(), run=run, **tables)

    def _overdue(self) -> int:
        """Return how many coflows are not complete though their deadline has passed."""
        return sum(deadline_s < self.env.now for _, _, deadline_s in self.fabric.pending())

    def _jobs_frame(self) -> pd.DataFrame:
        specs, recorder = self.workload.jobs, self.recorder
        arrival_s = np.array([spec.arrival_s for spec in specs])
        start_s = recorder.start_s.copy()
        lower_bound_s = self.singles.lower_bounds(self.env.now)
        for job in self.jobs:
            lower_bound_s[job.index] = job.lower_bound_s
            start_s[job.index] = np.fmin(start_s[job.index], job.start_s)
        frame = pd.DataFrame({
            "job": self.numbers.job_ids,
            "name": [spec.name for spec in specs],
            "arrival_s": arrival_s,
            "start_s": start_s,
            "finish_s": recorder.finish_s,
            "jct_s": 0.0,
            "iterations": np.array([spec.iterations for spec in specs], np.int64),
            "ranks": np.array([spec.ranks for spec in specs], np.int64),
            "coflows": recorder.coflows_of_job,
            "bytes": recorder.bytes_of_job,
            "lower_bound_s": lower_bound_s,
        })
        frame["jct_s"] = frame["finish_s"] - frame["arrival_s"]
        if self.faults.restarts:  # all jobs are processes then
            for name in ("restarts", "lost_s", "lost_bytes"):
                frame[name] = [getattr(job, name) for job in self.jobs]
        return frame
