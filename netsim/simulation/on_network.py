"""The target of a simulation on a network: each job runs as coflows from its arrival on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import simpy
from numpy.typing import NDArray

from netsim.allocators import ALLOCATORS
from netsim.checks import check_whole
from netsim.errors import StalledError
from netsim.fabric.allocator import Allocator
from netsim.fabric.fabric_process import FabricProcess
from netsim.jobs.plan import JobPlan, check_all_fit, place_randomly
from netsim.jobs.process import JobProcess
from netsim.jobs.single import SingleCoflows
from netsim.jobs.single_columns import SingleColumns, is_single, of_columns, of_specs
from netsim.jobs.stragglers import factors_of, slowed_job
from netsim.network import Topology
from netsim.recording.coflow_ids import CoflowNumbers
from netsim.recording.recorder import Recorder
from netsim.simulation.events import FaultEvent
from netsim.simulation.faults import Faults, JobsOnHosts, dead_links, listed
from netsim.simulation.leftover import leftover_of
from netsim.simulation.simulation import Clocked, jobs_table
from netsim.units import Quantity, parse_seconds
from netsim.workload import JobColumns, JobSpec, Workload, column

__all__ = ["OnNetwork"]


class OnNetwork(Clocked):
    """A `Target` for jobs that run as coflows on a network when they arrive.

    Parameters
    ----------
    network : Topology
    workload : Workload
    allocator : Allocator
    observe_interval, seed, record, events, check, stragglers
        As for `netsim.simulate`.
    beside : sequence of str
        Further tables to record; see `netsim.recording.recorder.Recorder`.
    """

    counts = "coflows"

    def __init__(self, network: Topology, workload: Workload, allocator: Allocator,
                 observe_interval: Quantity = 0, seed: int = 0, record: Sequence[str] = (),
                 events: Sequence[FaultEvent | Mapping[str, Any]] = (), check: bool = True,
                 beside: Sequence[str] = (),
                 stragglers: Mapping[int, float] | None = None) -> None:
        self.workload, self.allocator, self.seed = workload, allocator, seed
        self.interval = parse_seconds(observe_interval, "observe_interval")
        check_whole(seed, "seed")
        check_all_fit(workload.jobs, network)
        self.faults = Faults(events, network)
        self.network = self.faults.network
        self.slowness = factors_of(stragglers, network.hosts)
        self.numbers = CoflowNumbers(workload)
        self.recorder = Recorder(record, len(workload), self.numbers, network.capacity, beside)
        self.arrival_s = np.array(column(workload.jobs, "arrival_s"))
        self.env = simpy.Environment(0.0)
        finished = self.recorder.chains_finished
        single = self._singles()
        self.singles = SingleCoflows(len(workload), single, network, self.faults.most_capacity,
                                     finished, self._pass_empty)
        self.recorder.singles_begun(single.members, single.coflow_id, single.stages)
        self.fabric = FabricProcess(
            self.env, self.network, allocator, self.arrival_s,
            observe_interval=self.interval, check=check, source=self.singles,
            observer=self.recorder if self.recorder.watches_fabric else None, completed=finished)
        self.on_hosts = JobsOnHosts()
        self.faults.begin(self.env, self.on_hosts, self.fabric, self.recorder)
        others = np.delete(np.arange(len(workload)), single.members).tolist()
        self.jobs = self.on_hosts.jobs
        self.jobs += [JobProcess(self.env, self.fabric, index, workload.jobs[index].arrival_s,
                                 self._plan, self.recorder, self.faults.touch_jobs,
                                 self.on_hosts.may_run) for index in others]

    def _singles(self) -> SingleColumns:
        """Return the jobs that need no process."""
        jobs = self.workload.jobs
        # Who is told which jobs run needs processes that say when they begin and end.
        plain = not (self.allocator.sees_running or self.faults.touch_jobs)
        if plain and isinstance(jobs, JobColumns) and not (self.slowness > 1).any():
            return of_columns(jobs)
        return of_specs(jobs, [k for k, job in enumerate(jobs)
                               if plain and is_single(job) and not self._is_slow(job)], self._place)

    def _pass_empty(self, at: float, tell: Callable[[], None]) -> None:
        """Record a coflow without bytes at the instant at which it begins and ends."""
        def happen(_: simpy.Event) -> None:
            tell()
            self.fabric.pass_empty()
        self.env.timeout(max(at - self.env.now, 0.0)).callbacks.append(happen)

    def _is_slow(self, job: JobSpec) -> bool:
        return bool((self.slowness > 1).any()
                    and (self.slowness[self._place(job)[:job.ranks]] > 1).any())

    def _plan(self, index: int) -> JobPlan:
        job = self.workload.jobs[index]
        hosts = self._place(job)
        spec, slowed = slowed_job(job, self.slowness[hosts[:job.ranks]])
        return JobPlan(spec, self.network, hosts, self.workload.seed,
                       self.faults.most_capacity, slowed)

    def _place(self, job: JobSpec) -> NDArray[np.int64]:
        return place_randomly(job, self.network, self.seed)

    @property
    def total(self) -> int:
        """See `Target`."""
        return self.numbers.total

    @property
    def done(self) -> int:
        """See `Target`."""
        return self.recorder.coflows_done

    @property
    def ended(self) -> bool:
        """See `Target`."""
        return self.recorder.jobs_done == len(self.arrival_s)

    @property
    def workload_seed(self) -> int:
        """See `Target`."""
        return self.workload.seed

    def stop(self) -> None:
        """See `Target.stop`."""
        self.fabric.catch_up()

    def finish_s(self) -> NDArray[np.float64]:
        """See `Clocked.finish_s`."""
        self.recorder.pack()
        return self.recorder.finish_s

    def stalled(self) -> StalledError:
        """See `Target.stalled`."""
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

    def identity(self) -> dict[str, Any]:
        """See `Target.identity`."""
        return {"workload": self.workload.name, "network": self.network.name,
                "allocator": ALLOCATORS.to_dict(self.allocator),
                "sharing": leftover_of(self.fabric), "observe_interval": self.interval}

    def cost(self) -> dict[str, Any]:
        """See `Target.cost`."""
        return {"decisions": self.fabric.decisions, "overdue": self._overdue(),
                "counts": dict(self.allocator.counts)}

    def tables(self) -> dict[str, Any]:
        """See `Target.tables`."""
        for job in self.jobs:
            job.tell()
        self.recorder.pack()
        tables: dict[str, Any] = {name: self.recorder.table(name, self.network.link_names)
                                  for name in ("coflows", "flows", "links", "decisions")}
        return tables | {"jobs": self._jobs()}

    def _overdue(self) -> int:
        """Count the coflows that are incomplete although their deadline has passed."""
        return sum(deadline_s < self.env.now for _, _, deadline_s in self.fabric.pending())

    def _jobs(self) -> pd.DataFrame:
        specs, recorder = self.workload.jobs, self.recorder
        start_s = recorder.start_s.copy()
        lower_bound_s = self.singles.lower_bounds(self.env.now)
        for job in self.jobs:
            lower_bound_s[job.index] = job.lower_bound_s
            start_s[job.index] = np.fmin(start_s[job.index], job.start_s)
        # Where jobs restart, all are processes.
        more = ("restarts", "lost_s", "lost_bytes") if self.faults.restarts else ()
        return jobs_table(
            specs, arrival_s=self.arrival_s, start_s=start_s, finish_s=recorder.finish_s,
            iterations=column(specs, "iterations"), ranks=column(specs, "ranks"),
            coflows=recorder.coflows_of_job, nbytes=recorder.bytes_of_job,
            lower_bound_s=lower_bound_s,
            **{name: [getattr(job, name) for job in self.jobs] for name in more})
