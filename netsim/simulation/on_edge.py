"""Run jobs on an edge-cloud."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from netsim._version import __version__
from netsim.allocators import describe, make_allocator
from netsim.checks import check_sequence
from netsim.edge import EdgeCloud, EdgeWorkload
from netsim.edge.jobs import EdgeJob
from netsim.edge.registry import TRANSPORTS, make_transport
from netsim.edge.schedule import Held, Schedule
from netsim.edge.servers import hold_servers
from netsim.edge.setting import CLOUD, EdgeSetting, Floats, Ints
from netsim.edge.storage import peaks
from netsim.edge.transport import Sharing
from netsim.errors import InputError
from netsim.plugins import described
from netsim.recording.link_recorder import OF_LINKS, LinkRecorder
from netsim.results.result import Result
from netsim.schedulers.a_online import run_dispatcher
from netsim.schedulers.edge_registry import EDGE_SCHEDULERS, make_edge_scheduler, problem_between
from netsim.simulation.events import FaultEvent, capacities_of
from netsim.simulation.leftover import leftover_of
from netsim.simulation.progress import show_progress
from netsim.units import Quantity, parse_seconds

__all__ = ["as_edge_workload", "simulate_edge"]


def simulate_edge(system: EdgeCloud, workload: EdgeWorkload | Sequence[EdgeJob], *,
                  scheduler: Any = None, epsilon: float = 0.0,
                  transport: Any = "constant", seed: int = 0,
                  allocator: Any = "maxmin", observe_interval: Quantity = 0,
                  events: Sequence[FaultEvent | Mapping[str, Any]] = (),
                  record: Sequence[str] = (), check: bool = True,
                  progress: bool | Callable[[int, int], None] = False) -> Result:
    """Simulate jobs on an edge-cloud; what `netsim.simulate` does with one.

    Parameters
    ----------
    system : EdgeCloud
    workload : EdgeWorkload or sequence of EdgeJob
    scheduler : str, mapping or object, optional
        ``"a-online"`` if not given; see `netsim.schedulers.edge_registry.make_edge_scheduler`.
    epsilon : float
        Speed augmentation: training takes 1 / (1 + epsilon) of its time, uploads what they do.
    transport : str, mapping or object
        See `netsim.edge.registry.make_transport`.
    seed : int
        Of the draws of parameter servers.
    allocator, observe_interval, events, check
        As for `netsim.simulate`; for a transport with links.
    record : sequence of str
        Of a transport with links, ``"links"`` and ``"decisions"``, which are refused of another; no
        other name changes anything.
    progress
        As for `netsim.simulate`; in jobs.

    Returns
    -------
    Result

    Raises
    ------
    InputError
        If the edge-cloud, the workload or an argument cannot be simulated.
    """
    workload = as_edge_workload(workload)
    decider = make_edge_scheduler("a-online" if scheduler is None else scheduler)
    kind = make_transport(transport)
    moves_by = described(kind, TRANSPORTS)
    setting = EdgeSetting(system, workload.jobs, seed, epsilon)
    if (problem := problem_between(decider, kind)) is not None:
        raise InputError(problem)
    recorder = LinkRecorder(record, system.network.capacity)
    if not kind.shares_links:
        if on_links := ", ".join(name for name in OF_LINKS if name in record):
            _refuse(moves_by["name"], **{f"record of {on_links}": True})
        _refuse(moves_by["name"], allocator=allocator != "maxmin",
                observe_interval=observe_interval != 0, events=len(events) > 0)
    sharing = Sharing(allocator, parse_seconds(observe_interval, "observe_interval"),
                      capacities_of(events, system.network) if events else (), check,
                      recorder if recorder.watches_fabric else None)
    started = time.perf_counter()
    with show_progress(progress, len(workload), "jobs") as report:
        if hasattr(decider, "begin"):
            moved: Any = kind.begin(setting, sharing)
            schedule = run_dispatcher(decider, setting, moved, report)
        else:
            schedule = decider.run(setting)
            report(len(workload), len(workload))
    recorder.pack()
    tables = _Tables(setting, schedule, schedule.held or hold_servers(setting, schedule))
    run = {
        "workload": workload.name, "network": system.name,
        "allocator": (describe(make_allocator(allocator)) if kind.shares_links
                      else {"name": moves_by["name"]}),
        "sharing": leftover_of(moved.fabric) if kind.shares_links else {},
        "scheduler": described(decider, EDGE_SCHEDULERS), "placement": None,
        "execution": {**moves_by, "name": "edge", "transport": moves_by["name"],
                      "epsilon": float(epsilon)},
        "observe_interval": sharing.observe_interval, "seed": int(seed),
        "workload_seed": workload.seed,
        "version": __version__, "platform": platform.platform(),
        "python": platform.python_version(), "stopped_at_s": None,
        "decisions": moved.fabric.decisions if kind.shares_links else len(workload),
        "simpy_events": moved.steps if kind.shares_links else 0,
        "wall_s": time.perf_counter() - started, "overdue": 0, "counts": tables.counts()}
    links: dict[str, Any] = {name: recorder.table(name, system.network.link_names)
                             for name in ("links", "decisions")}
    links |= dict.fromkeys(("coflows", "flows"))
    return Result(jobs=tables.jobs(), run=run, **links, chunks=tables.chunks(),  # type: ignore[arg-type]
                  training=tables.training(), workers=tables.workers(),
                  servers=tables.servers(), ps=tables.ps())


def as_edge_workload(given: EdgeWorkload | Sequence[EdgeJob]) -> EdgeWorkload:
    """Return a workload that is given as it is, or by its jobs.

    Raises
    ------
    InputError
        If it is nothing of the kind.
    """
    if isinstance(given, EdgeWorkload):
        return given
    return EdgeWorkload(check_sequence(given, EdgeJob, "the workload of an edge-cloud", "EdgeJob"))


def _refuse(transport: str, **given: bool) -> None:
    """Refuse arguments for which a transport has no use."""
    if said := [name for name, is_given in given.items() if is_given]:
        raise InputError(f"{', '.join(said)}: not for transport {transport!r}, where delays and "
                         "rates are constant; for transport 'fabric'")


class _Tables:
    """The tables of a run."""

    def __init__(self, setting: EdgeSetting, schedule: Schedule, held: Held) -> None:
        self._setting, self._schedule, self._held = setting, schedule, held
        self._ids = np.array([job.id for job in setting.jobs], np.int64)
        makespan = schedule.finish.max() - setting.arrival.min()
        training = schedule.training
        edge = training.worker != CLOUD
        self._busy = np.bincount(training.worker[edge], (training.end - training.start)[edge],
                                 setting.system.total)
        self._makespan = float(makespan)

    def counts(self) -> dict[str, float]:
        """Return what the summary has beside what it has of all runs."""
        schedule, total = self._schedule, self._setting.system.total
        return {
            "preemptions": int(schedule.preemptions.sum()),
            "utilisation": float(self._busy.sum() / (total * self._makespan)) if total else 0.0,
            "communication_s": float(schedule.communication.sum()),
            "chunks": self._setting.total, "cloud_chunks": int(schedule.cloud_chunks.sum()),
            "ps_shortages": self._held.shortages, **self._errors(), **schedule.counts}

    def _errors(self) -> dict[str, float]:
        """Return how far delays and rates were from what jobs say: geometric means over chunks."""
        if self._schedule.chunks is None:
            return {}
        known = {name: values[values > 0] for name, values in self._estimates().items()}
        return {f"{name}_mean": float(np.exp(np.log(values).mean())) if len(values) else 1.0
                for name, values in known.items()}

    def jobs(self) -> pd.DataFrame:
        setting, schedule, specs = self._setting, self._schedule, self._setting.jobs
        at_edge = schedule.cloud_chunks < setting.chunks
        exchanged = np.array([2.0 * job.gradient_bytes * job.batches for job in specs])
        uploaded = np.array([job.chunk_bytes for job in specs])
        return pd.DataFrame({
            "job": self._ids, "name": [job.name for job in specs], "arrival_s": setting.arrival,
            "start_s": schedule.start, "finish_s": schedule.finish,
            "jct_s": schedule.finish - setting.arrival,
            "iterations": [job.batches for job in specs],
            "ranks": [job.workers for job in specs], "coflows": np.zeros(len(specs), np.int64),
            "bytes": setting.chunks * (uploaded + np.where(at_edge, exchanged, 0.0)),
            "lower_bound_s": self._lower_bounds(), "queue_s": schedule.start - setting.arrival,
            "type": [str(job.worker_type) for job in specs], "chunks": setting.chunks,
            "cloud_chunks": schedule.cloud_chunks, "zeta": (~at_edge).astype(np.int64),
            "uploaded_s": self._uploaded(), "preemptions": schedule.preemptions,
            "communication_s": schedule.communication})

    def _uploaded(self) -> Floats:
        """Return how long the data of each job took to be there, in seconds; NaN of whole jobs."""
        setting, chunks = self._setting, self._schedule.chunks
        if chunks is None:
            return np.full(len(setting.jobs), np.nan)
        return np.maximum.reduceat(chunks.ready, setting.first[:-1]) - setting.arrival

    def _lower_bounds(self) -> Floats:
        """Return what a chunk of each job takes where that is soonest done, with all else idle."""
        setting, system = self._setting, self._setting.system
        found = setting.cloud_delay + setting.p1 if system.cloud else np.full(
            len(setting.jobs), np.inf)
        for job, workers in enumerate(setting.workers_of):
            nearest = setting.delays[job, system.server_of[workers]].min(initial=np.inf)
            found[job] = min(found[job], nearest + setting.p0[job])
        return found

    def _where(self, workers: Ints) -> dict[str, Ints]:
        """Return the servers of workers, and their numbers there."""
        system, edge = self._setting.system, workers != CLOUD
        server, number = np.full(len(workers), CLOUD), np.full(len(workers), CLOUD)
        server[edge] = system.server_of[workers[edge]]
        number[edge] = workers[edge] - system.first[server[edge]]
        return {"server": server, "worker": number}

    def chunks(self) -> pd.DataFrame | None:
        setting, chunks = self._setting, self._schedule.chunks
        if chunks is None:
            return None
        job = np.repeat(np.arange(len(setting.jobs)), setting.chunks)
        return pd.DataFrame({
            "job": self._ids[job], "chunk": np.arange(setting.total) - setting.first[job],
            **self._where(chunks.worker), "dispatch_s": setting.arrival[job],
            "ready_s": chunks.ready, "start_s": chunks.start, "finish_s": chunks.finish,
            "preemptions": chunks.preemptions, "alpha_s": chunks.alpha, "t_star_s": chunks.t_star,
            **self._estimates()})

    def _estimates(self) -> dict[str, Floats]:
        """Return what delays were over those said, and rates over those said, of each chunk."""
        setting, schedule, chunks = self._setting, self._schedule, self._schedule.chunks
        assert chunks is not None
        job = np.repeat(np.arange(len(setting.jobs)), setting.chunks)
        zeta = (schedule.cloud_chunks == setting.chunks)[job]
        said = setting.cloud_delay[job]
        edge = chunks.worker != CLOUD
        said[edge] = setting.delays[job[edge], setting.system.server_of[chunks.worker[edge]]]
        training = schedule.training
        trained = np.bincount(setting.first[training.job] + training.chunk,
                              training.end - training.start, setting.total)
        takes = np.where(zeta, setting.p1[job], setting.p0[job])
        with np.errstate(invalid="ignore", divide="ignore"):
            delay = np.where(said > 0, (chunks.ready - setting.arrival[job]) / said, np.nan)
            # It trained for no time if that is less than instants have digits for.
            rate = np.where(trained > 0, takes / trained, np.nan)
        return {"delay_ratio": delay, "rate_ratio": rate}

    def training(self) -> pd.DataFrame:
        training = self._schedule.training
        return pd.DataFrame({
            "job": self._ids[training.job], "chunk": training.chunk,
            **self._where(training.worker), "start_s": training.start, "end_s": training.end})

    def workers(self) -> pd.DataFrame:
        system, schedule = self._setting.system, self._schedule
        training, chunks = schedule.training, schedule.chunks
        edge = training.worker != CLOUD
        pairs = np.unique(np.stack([training.worker[edge], training.job[edge]]), axis=1)
        preemptions = np.full(system.total, np.nan)
        if chunks is not None:
            placed = chunks.worker != CLOUD
            preemptions = np.bincount(chunks.worker[placed], chunks.preemptions[placed],
                                      system.total)
        return pd.DataFrame({
            **self._where(np.arange(system.total)),
            "type": [str(system.types[kind]) for kind in system.type_of],
            "busy_s": self._busy, "utilisation": self._busy / self._makespan,
            "jobs": np.bincount(pairs[0], minlength=system.total), "preemptions": preemptions})

    def servers(self) -> pd.DataFrame:
        system = self._setting.system
        workers = np.diff(system.first)
        busy = np.bincount(system.server_of, self._busy, system.servers)
        with np.errstate(invalid="ignore"):
            utilisation = busy / (workers * self._makespan)
        return pd.DataFrame({
            "server": np.arange(system.servers), "workers": workers,
            "ps": [len(each) for each in system.ps_types], "busy_s": busy,
            "utilisation": utilisation, "storage_bytes": system.capacity,
            "peak_bytes": peaks(self._setting, self._schedule)})

    def ps(self) -> pd.DataFrame:
        held = self._held
        return pd.DataFrame({"job": self._ids[held.job], "server": held.server, "ps": held.ps,
                             "start_s": held.start, "end_s": held.end})
