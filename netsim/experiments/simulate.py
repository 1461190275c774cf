"""Run one workload on one network under one allocator."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import simpy
from numpy.typing import NDArray

from netsim._version import __version__
from netsim.allocators import describe, make_allocator
from netsim.errors import InputError, StalledError
from netsim.experiments.progress import show_progress
from netsim.experiments.recorder import Recorder
from netsim.experiments.result import Result
from netsim.fabric.fabric import Fabric
from netsim.fabric.policy import Allocator
from netsim.jobs.patterns import make_pattern
from netsim.jobs.plan import JobPlan, check_fits, place_randomly
from netsim.jobs.process import JobProcess
from netsim.model import JobSpec, Workload
from netsim.network import Topology, read_network
from netsim.traces import read_workload
from netsim.units import Quantity, parse_rate, parse_seconds

__all__ = ["CapacityEvent", "simulate"]

_REPORT_EVERY = 4096


@dataclass(frozen=True)
class CapacityEvent:
    """A link's capacity changes during a run: degradation, failure (0) or repair.

    Parameters
    ----------
    at : quantity
        When: ``"5s"``, or seconds.
    link : str or int
        Name or id.
    capacity : quantity
        From then on: ``"1Gbps"``, or bytes per second. 0 is a failure.
    """

    at: Quantity
    link: str | int
    capacity: Quantity


def simulate(network: Topology | str | Path,
             workload: Workload | Sequence[JobSpec] | str | Path, *,
             allocator: str | Mapping[str, Any] | Allocator | type[Allocator] = "maxmin",
             observe_interval: Quantity = 0, seed: int = 0, until: Quantity | None = None,
             record: Sequence[str] = ("jobs", "coflows"),
             events: Sequence[CapacityEvent | Mapping[str, Any]] = (), check: bool = True,
             progress: bool | Callable[[int, int], None] = False) -> Result:
    """Simulate a workload on a network.

    Parameters
    ----------
    network : Topology, str or path
        A network, or what `read_network` reads.
    workload : Workload, sequence of JobSpec, str or path
        A workload, its jobs, or what `read_workload` reads.
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
    events : sequence of CapacityEvent or mapping
        Changes of link capacities: ``{"at": "5s", "link": "egress-3", "capacity": 0}``.
    check : bool
        Check that each allocation is feasible. Costs a few percent of the run.
    progress : bool or callable
        Show a progress bar on a terminal; or call with coflows done and in total.

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

    Examples
    --------
    >>> import netsim
    >>> net = netsim.big_switch(2, "8Mbps")
    >>> job = netsim.JobSpec(0, stages=[netsim.Stage("push", [(0, 1, 3e6)])])
    >>> netsim.simulate(net, netsim.Workload([job])).jobs["jct_s"][0]
    np.float64(3.0)
    """
    run = _Run(network if isinstance(network, Topology) else read_network(network),
               _workload(workload, seed),
               make_allocator(allocator), observe_interval, seed, record, events, check)
    limit = math.inf if until is None else parse_seconds(until, "until", strict=True)
    started = time.perf_counter()
    with show_progress(progress, run.coflows) as report:
        run.go(limit, report)
    return run.result(time.perf_counter() - started)


def _workload(given: Workload | Sequence[JobSpec] | str | Path, seed: int) -> Workload:
    if isinstance(given, Workload):
        return given
    if isinstance(given, str | Path):
        return read_workload(given, seed=seed)
    return Workload(given, seed=seed)


class _Run:
    """One simulation: its parts, its clock, its records."""

    def __init__(self, network: Topology, workload: Workload, allocator: Allocator,
                 observe_interval: Quantity, seed: int, record: Sequence[str],
                 events: Sequence[CapacityEvent | Mapping[str, Any]], check: bool) -> None:
        self.network, self.workload, self.allocator = network, workload, allocator
        self.seed = seed
        self.interval = parse_seconds(observe_interval, "observe_interval")
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise InputError(f"seed must be a whole number of at least 0, not {seed!r}")
        for job in workload:
            check_fits(job, network)
        changes = [_resolve(event, network) for event in events]
        self.first_coflow = self._number_coflows()
        self.coflows = self.first_coflow.pop()
        self.recorder = Recorder(record, self.first_coflow, network.capacity)
        self.steps = 0
        self.env = simpy.Environment()
        self.fabric = Fabric(
            self.env, network, allocator, [job.arrival_s for job in workload],
            observe_interval=self.interval, check=check,
            observer=self.recorder if self.recorder.watches_fabric else None)
        for at, link, capacity in sorted(changes, key=lambda change: change[0]):
            self.env.timeout(at).callbacks.append(partial(self._change, link, capacity))
        most = network.capacity.copy()
        for _, link, capacity in changes:
            most[link] = max(most[link], capacity)
        self.jobs = [
            JobProcess(self.env, self.fabric, index, job.arrival_s,
                       partial(self._plan, job, most), self.recorder)
            for index, job in enumerate(workload)]

    def _change(self, link: int, capacity: float, _: simpy.Event) -> None:
        self.fabric.set_capacity(link, capacity)
        self.recorder.capacity[link] = capacity

    def _plan(self, job: Any, capacity: NDArray[np.float64]) -> JobPlan:
        hosts = place_randomly(job, self.network, self.seed)
        return JobPlan(job, self.network, hosts, self.workload.seed, capacity)

    def _number_coflows(self) -> list[int]:
        """Return the number of the first coflow of each job, and of all coflows."""
        first = [0]
        rng = np.random.default_rng(0)
        for job in self.workload:
            stages = len(job.stages)
            if job.pattern is not None:
                stages = len(make_pattern(job.pattern).stages(job.ranks, job.nbytes, rng))
            first.append(first[-1] + stages * job.iterations)
        return first

    def go(self, limit: float, report: Callable[[int, int], None]) -> None:
        """Step until every job is done, or until `limit`."""
        env, recorder, jobs = self.env, self.recorder, len(self.jobs)
        if limit < math.inf:
            env.timeout(limit)  # so that the fabric does not run ahead of it
        while recorder.jobs_done < jobs and env.peek() <= limit:
            if env.peek() == math.inf:
                raise self._stalled()
            env.step()
            self.steps += 1
            if self.steps % _REPORT_EVERY == 0:
                report(recorder.coflows_done, self.coflows)
        if recorder.jobs_done < jobs:
            self.fabric.catch_up()
        report(recorder.coflows_done, self.coflows)

    def _stalled(self) -> StalledError:
        pending = self.fabric.pending()
        ids = [self.workload.jobs[transfer.job].id for transfer in pending]
        listed = ", ".join(f"job {job} (valid since {transfer.valid_s:g} s)"
                           for job, transfer in zip(ids[:5], pending, strict=False))
        more = f" and {len(pending) - 5} more" if len(pending) > 5 else ""
        name = type(self.allocator).__name__
        return StalledError(
            f"stalled at t = {self.fabric.decided_s:g} s: allocator {name} gives "
            f"no bandwidth to {len(pending)} pending coflows, and nothing else will happen; "
            f"coflows of {listed}{more}")

    def result(self, wall_s: float) -> Result:
        """Return the records."""
        run = {
            "workload": self.workload.name, "network": self.network.name,
            "allocator": describe(self.allocator), "observe_interval": self.interval,
            "seed": int(self.seed), "workload_seed": self.workload.seed,
            "version": __version__, "platform": platform.platform(),
            "python": platform.python_version(),
            "decisions": self.fabric.decisions, "events": self.steps, "wall_s": wall_s,
        }
        tables: dict[str, Any] = {name: self.recorder.frame(name, self.network.link_names)
                  for name in ("coflows", "flows", "links", "decisions")}
        return Result(jobs=self._jobs_frame(), run=run, **tables)

    def _jobs_frame(self) -> pd.DataFrame:
        rows = []
        for job, spec in zip(self.jobs, self.workload, strict=True):
            finish = job.finish_s if job.done else math.nan
            rows.append((spec.id, spec.name, spec.arrival_s, job.start_s, finish,
                         finish - spec.arrival_s, spec.iterations, spec.ranks,
                         self.recorder.coflows_of_job[job.index],
                         self.recorder.bytes_of_job[job.index], job.lower_bound_s))
        return pd.DataFrame(rows, columns=[
            "job", "name", "arrival_s", "start_s", "finish_s", "jct_s", "iterations", "ranks",
            "coflows", "bytes", "lower_bound_s"])


def _resolve(event: CapacityEvent | Mapping[str, Any], network: Topology
             ) -> tuple[float, int, float]:
    """Return an event as (seconds, link id, bytes per second)."""
    if isinstance(event, Mapping):
        try:
            event = CapacityEvent(**event)
        except TypeError:
            raise InputError("a capacity event has the keys at, link and capacity, not "
                             + ", ".join(map(str, event))) from None  # type: ignore[arg-type]
    if not isinstance(event, CapacityEvent):
        raise InputError(f"a capacity event is a CapacityEvent or a mapping, not {event!r}")
    return (parse_seconds(event.at, "event: at"), network.link(event.link),
            parse_rate(event.capacity, "event: capacity"))
