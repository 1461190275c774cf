"""Whole jobs on an edge-cloud: each type of workers is a cluster, with an engine of its own."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Floats
from netsim.cluster.contention import Contention
from netsim.edge.backend import EdgeBackend, EdgeExecution
from netsim.edge.edge_cloud import Kind
from netsim.edge.job_data import JobData
from netsim.edge.schedule import Holdings, Schedule, Training, begun_by, so_far
from netsim.edge.setting import CLOUD, EdgeSetting
from netsim.edge.stepped_run import SteppedRun
from netsim.edge.typed_jobs import EdgeContext, NearData, TypedJobs
from netsim.engine.engine import Engine
from netsim.engine.ledger import Segment
from netsim.engine.preemption import Preemption, on_edge
from netsim.engine.view import check_open, decider_of
from netsim.errors import InputError, StalledError
from netsim.fabric.clock import Clock
from netsim.ties import ROUNDING


def contexts_of(setting: EdgeSetting) -> Iterator[EdgeContext]:
    """Make the contexts that schedulers see: one for each type of workers that jobs need."""
    kinds = dict.fromkeys(job.worker_type for job in setting.jobs)
    every = [TypedJobs(setting, kind) for kind in kinds]
    return (_context(typed, every) for typed in every)


def _context(typed: TypedJobs, every: Iterable[TypedJobs]) -> EdgeContext:
    others = [spec for each in every if each is not typed for spec in each.specs]
    return EdgeContext(typed.cluster, typed.specs, Contention(time="continuous"),
                       seed=typed.setting.seed, others=others, typed=typed)


def check_room(setting: EdgeSetting) -> None:
    """Check that each job's data fits on empty servers, if it gets as many workers as it wants."""
    data = JobData(Clock(0.0), setting)
    if not data.storage.limited:
        return
    for context in contexts_of(setting):
        near = NearData(context.typed, data)
        for spec in context.jobs:
            workers = near.scope(context.cluster, spec, np.zeros(0))
            if near.some(spec, workers, spec.ranks) is None:
                job = setting.jobs[context.typed.numbers[context.typed.place_of(spec)]]
                raise InputError(
                    f"job {job.id} has {job.chunks} chunks of {job.chunk_bytes:g} bytes for "
                    f"{spec.ranks} workers of type {job.worker_type!r}, and their servers hold at "
                    f"most {setting.system.capacity.max():g}: storage is too small")


_NOBODY, _IN_CLOUD = np.array([], np.int64), np.array([CLOUD])


class _Lane(NamedTuple):
    """The jobs of one type of workers in a run, with their engine."""

    typed: TypedJobs
    execution: EdgeExecution
    decider: Any
    engine: Engine


class WholeJobs(SteppedRun):
    """A run of whole jobs under a scheduler of clusters, such as SRTF.

    Each job gets all its workers at once, and trains when its data is on all their servers.
    `preemption` defines what a job keeps when it is preempted, and what that costs; by default, it
    keeps the part of an iteration, at no cost. Jobs of different types share no workers, so each
    type of workers is a cluster with its own engine and its own copy of the scheduler. All engines
    have the same clock.
    """

    def __init__(self, setting: EdgeSetting, scheduler: Any, name: str, backend: EdgeBackend,
                 preemption: Preemption | None = None) -> None:
        self._setting, self._scheduler, self._name = setting, scheduler, name
        self._backend, self._env, self._data = backend, backend.env, backend.data
        self._preemption = on_edge(preemption)
        self._lanes: dict[Kind, _Lane] = {}
        for context in contexts_of(setting):
            self._open(context)

    def _open(self, context: EdgeContext) -> None:
        """Start with the jobs of one type of workers."""
        typed = context.typed
        execution = self._backend.execution(typed)
        decider = decider_of(copy.deepcopy(self._scheduler), context)
        engine = Engine(self._env, typed.cluster, typed.specs, decider, execution,
                        NearData(typed, self._data), self._name, self._preemption)
        if not len(typed.workers):
            engine.lose(0)
        self._lanes[self._setting.jobs[typed.numbers[0]].worker_type] = _Lane(
            typed, execution, decider, engine)

    @property
    def arrived(self) -> int:
        last = -1
        for lane in self._lanes.values():
            if lane.engine.arrived:
                last = max(last, lane.typed.numbers[lane.engine.arrived - 1])
        return last + 1

    @property
    def over(self) -> bool:
        return all(lane.engine.ended == len(lane.typed.specs) for lane in self._lanes.values())

    def next_at(self) -> float:
        return self._env.peek()

    def step(self) -> None:
        self._backend.step()

    def times(self) -> tuple[Floats, Floats]:
        start, finish = (np.full(len(self._setting.jobs), np.nan) for _ in range(2))
        for lane in self._lanes.values():
            rows, begun = lane.engine.ledger.rows, lane.execution.begun
            trained = (~np.isnan(rows["end"]) | (rows["ready"] <= self._env.now)
                       | (rows["run_s"] > begun * ROUNDING))
            start[lane.typed.numbers] = np.where(trained, begun, np.nan)
            finish[lane.typed.numbers] = rows["end"]
        return start, finish

    # --- results --------------------------------------------------------------------------

    def schedule(self, until: float) -> Schedule:
        setting, jobs = self._setting, len(self._setting.jobs)
        start, finish = self.times()
        preemptions, in_cloud = np.zeros(jobs, np.int64), np.zeros(jobs, np.bool_)
        for lane in self._lanes.values():
            ledger, numbers = lane.engine.ledger, np.array(lane.typed.numbers)
            preemptions[numbers] = ledger.rows["preemptions"]
            in_cloud[numbers[[job for job, gpus in lane.engine.gpus.items() if not len(gpus)]]
                     ] = True
        exchanged, held = ~in_cloud & ~np.isnan(finish), self._holdings()
        got, there, run, stop, free = (so_far(each, until) for each in (
            held.got, held.there, held.run, held.stop, held.free))
        return Schedule(
            start, finish, np.where(in_cloud, setting.chunks, 0), preemptions,
            self._data.uploads + np.where(exchanged, self._backend.exchange(), 0.0),
            begun_by(_training(held), until), held=self._backend.held(),
            holdings=Holdings(held.job, held.worker, got, there, run, stop, free, held.reason),
            most_bytes=self._data.most.copy(), ring_bytes=self._backend.ring_bytes(),
            counts={"preempted_workers": int(np.count_nonzero(
                (held.reason == "preempt") & (held.worker != CLOUD))),
                    "migrations": self._data.migrations, "cloud_jobs": int(in_cloud.sum())},
            accounts=self._accounts(until))

    def _segments(self) -> Iterator[tuple[TypedJobs, Segment]]:
        """Iterate over the times for which jobs held workers, also those that have not ended."""
        for lane in self._lanes.values():
            ledger = lane.engine.ledger
            yield from ((lane.typed, each) for each in (*ledger.segments, *ledger.open.values()))

    def _accounts(self, until: float) -> dict[str, Any]:
        """Make the columns on held workers up to an instant; see `Result.jobs`."""
        now = until if np.isfinite(until) else float(self._env.now)
        jobs = len(self._setting.jobs)
        promotions, waited = np.zeros(jobs, np.int64), np.zeros(jobs)
        gpu_s = np.zeros((3, jobs))  # held, of progress, and of progress that was lost
        for lane in self._lanes.values():
            ledger, numbers = lane.engine.ledger, np.array(lane.typed.numbers)
            there = np.fmin(ledger.rows["end"], now) - self._setting.arrival[numbers]
            waited[numbers] = np.maximum(there, 0.0) - ledger.held_s(slice(None), now)
            for job, count in getattr(lane.decider, "promotions", {}).items():
                promotions[numbers[job]] = count
        for typed, each in self._segments():
            gpu_s[:, typed.numbers[each.job]] += len(each.gpus) * _seconds_of(each, now)
        held, ran, lost = gpu_s
        return {"promotions": promotions, "waited_s": waited, "held_gpu_s": held,
                "useful_gpu_s": ran - lost, "lost_gpu_s": lost, "overhead_gpu_s": held - ran}

    def _holdings(self) -> Holdings:
        """Make the table of workers that jobs have held."""
        rows = sorted(self._segments(), key=lambda row: (row[0].numbers[row[1].job], row[1].got))
        workers = [typed.workers[segment.gpus] if len(segment.gpus) else _IN_CLOUD
                   for typed, segment in rows]
        counts = [len(each) for each in workers]

        def each(values: list[Any], kind: Any = np.float64) -> NDArray[Any]:
            return np.repeat(np.array(values, kind), counts)

        got, there, run, stop, free = (
            each([getattr(segment, name) for _, segment in rows])
            for name in ("got", "there", "run", "stop", "free"))
        return Holdings(each([typed.numbers[segment.job] for typed, segment in rows], np.int64),
                        np.concatenate([_NOBODY, *workers]), got, there, run, stop, free,
                        each([segment.reason for _, segment in rows], object))

    # --- more jobs ------------------------------------------------------------------------

    def check_open(self) -> None:
        for lane in self._lanes.values():
            check_open(self._scheduler, lane.decider)

    def submit(self, place: int) -> None:
        kind = self._setting.jobs[place].worker_type
        self._backend.make_room(place)
        for lane in self._lanes.values():
            lane.typed.make_room(place)
        every = [lane.typed for lane in self._lanes.values()]
        if kind not in self._lanes:
            self._open(_context(TypedJobs(self._setting, kind), every))
            return
        typed, _, decider, engine = self._lanes[kind]
        job = typed.insert(place)
        if hasattr(decider, "add_job"):
            decider.add_job(job, _context(typed, every))
        engine.add_job(job, typed.specs)

    def shared(self) -> list[Any]:
        clusters = [lane.typed.cluster for lane in self._lanes.values()]
        return [*clusters, *(cluster.network for cluster in clusters)]

    def stalled(self) -> StalledError:
        if (error := self._backend.stalled()) is not None:
            return error
        waits = (lane.engine for lane in self._lanes.values()
                 if lane.engine.ended < len(lane.typed.specs))
        return next(waits).stalled()


def _seconds_of(segment: Segment, now: float) -> Floats:
    """Seconds in which a job held its workers, made progress, and made progress that it lost."""
    free = now if np.isnan(segment.free) else segment.free
    stop = now if np.isnan(segment.stop) else segment.stop
    ran = 0.0 if np.isnan(segment.run) else stop - segment.run
    return np.array([free - segment.got, ran, segment.lost_s])


def _training(held: Holdings) -> Training:
    """Make the table of intervals in which jobs trained; unfinished ones end at infinity."""
    # A job that was preempted as it began has not trained.
    at_once = (held.stop - held.run <= held.stop * ROUNDING) & (held.reason != "finish")
    trained = np.flatnonzero(~np.isnan(held.run) & ~at_once)
    end = np.where(np.isnan(held.stop), np.inf, held.stop)
    rows = trained[np.lexsort([each[trained] for each in (end, held.worker, held.run, held.job)])]
    return Training(held.job[rows], np.full(len(rows), -1), held.worker[rows], held.run[rows],
                    end[rows])
