"""Notifies listeners of the events of a run, at their times, also on edge-clouds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Bools, Floats
from netsim.fabric.clock import CoflowEvent, call_at
from netsim.fabric.fabric_process import FabricProcess
from netsim.fabric.records import WAITED
from netsim.jobs.process import JobProcess
from netsim.simulation.events import RunEvent

if TYPE_CHECKING:
    from netsim.edge.setting import EdgeSetting


class Listeners:
    """Makes events from what the parts of a run report; a `netsim.results.recorder.Listener`.

    The fabric may process events before the clock reaches them. Listeners are notified of these
    when the fabric reports that the clock has reached them. Copies have no listeners. With
    `starts`, a job counts as started when it sends its first byte, as nothing else reports starts.
    """

    def __init__(self, env: Any, recorder: Any, fabric: FabricProcess | None, starts: bool) -> None:
        self._env, self._recorder, self._fabric = env, recorder, fabric
        self._starts = starts
        self._listener: Callable[[RunEvent], None] | None = None
        self._done: list[tuple[NDArray[Any], Bools]] = []
        self._last_key = self._decisions = 0
        self._started: set[int] = set()

    def __deepcopy__(self, memo: dict[int, Any]) -> Listeners:
        return Listeners(*deepcopy((self._env, self._recorder, self._fabric), memo), self._starts)

    def listen(self, listener: Callable[[RunEvent], None] | None) -> None:
        """Call `listener` with each event from now on; None stops the calls."""
        if (listener is None) != (self._listener is None):
            self._recorder.listener = None if listener is None else self
            if self._fabric is not None:
                self._listen_to(self._fabric, listener is not None)
        self._listener = listener

    def _listen_to(self, fabric: FabricProcess, listens: bool) -> None:
        fabric.stepwise, fabric.notify = listens, self.flush if listens else None
        self._done.clear()
        if listens:
            table, _ = fabric.look()
            rows = table.coflows
            self._last_key, self._decisions = table.last_key, fabric.decisions
            self._recorder.pack()
            self._started = {*np.flatnonzero(self._recorder.coflows_of_job).tolist(),
                             *rows["job"][rows["start"] >= 0].tolist()}

    def notify(self, kind: str, job: int | None = None, **about: Any) -> None:
        """Notify listeners of an event of now; `job` is the number of a job, not its id."""
        if self._listener is not None:
            number = None if job is None else int(self._recorder.job_ids[job])
            self._deliver(RunEvent(kind, float(self._env.now), number, **about))

    def _deliver(self, event: RunEvent) -> None:
        assert self._listener is not None
        self._listener(event)

    # --- what processes of jobs do, now ------------------------------------------------

    def coflow_valid(self, job: JobProcess, iteration: int, stage: int) -> None:
        """Tell listeners that a job process submits a coflow."""
        demand = job.graph.demands[stage]
        wait = 0.0 if demand is None else demand.overhead_s
        self.notify_at(self._env.now + wait, "coflow-valid", job.index,
                       self._recorder.number(job, iteration, stage))

    def coflow_done(self, job: JobProcess, iteration: int, stage: int) -> None:
        """Tell listeners that a coflow submitted by a job process has ended."""
        self.notify("coflow-done", job.index, coflow=self._recorder.number(job, iteration, stage))

    def job_done(self, job: int) -> None:
        """Notify listeners of a job that has ended."""
        if self._starts:
            self.notify("job-done", job)

    # --- what the fabric does by itself, maybe ahead of the clock -----------------------

    def done_without_process(self, done: NDArray[Any], last: Bools) -> None:
        """Keep completed coflows, to report each when the clock reaches its end."""
        self._done.append((done, last))

    def flush(self) -> None:
        """Notify listeners of all events that the fabric has processed up to now."""
        done, self._done = self._done, []
        fabric = self._fabric
        assert fabric is not None
        first, self._last_key = self._last_key, fabric.table.last_key
        decisions, self._decisions = self._decisions, fabric.decisions
        for rows, last in done:
            self._notify_valid(rows, first)
            self._notify_started(rows["job"].tolist())
            self._notify_done(rows, last)
        self._notify_valid(fabric.table.coflows.copy(), first)
        if fabric.decisions > decisions:
            self.notify("decision")
        if self._starts and not self._started.issuperset(fabric.table.coflows["job"].tolist()):
            table, _ = fabric.look()
            _, owner = table.open_flows()
            self._notify_started(table.coflows["job"][owner[table.flow_rates() > 0]].tolist())

    def _notify_started(self, jobs: Iterable[int]) -> None:
        if self._starts:
            for job in sorted(set(jobs) - self._started):
                self._started.add(job)
                self.notify("job-started", job)

    def _notify_valid(self, rows: NDArray[Any], first: int) -> None:
        """Notify listeners of coflows with keys above `first` that no process has submitted."""
        came = (rows["key"] > first) | (rows["key"] == 0)  # one without bytes has no key
        for job, coflow in self._which(rows[came & (rows["waited"] != WAITED)]):
            self.notify("coflow-valid", job, coflow=coflow)

    def _notify_done(self, rows: NDArray[Any], last: Bools) -> None:
        for (job, coflow), at, ends in zip(self._which(rows), rows["arrives"].tolist(),
                                           last.tolist(), strict=True):
            self.notify_at(at, "coflow-done", job, coflow)
            if ends:
                self.notify_at(at, "job-done", job)

    def notify_at(self, at: float, kind: str, job: int, coflow: int | None = None) -> None:
        """Notify listeners of something at a given time, or now if that is past."""
        if self._listener is None:
            return
        if at > self._env.now:
            call_at(self._env, at, partial(self._notify_then, kind, job, coflow))
        else:
            self._notify_then(kind, job, coflow)

    def _notify_then(self, kind: str, job: int, coflow: int | None, *_: Any) -> None:
        self.notify(kind, job, **({} if coflow is None else {"coflow": coflow}))

    def _which(self, rows: NDArray[Any]) -> list[tuple[int, int]]:
        """Return the jobs' numbers and the ids of coflows without a process."""
        if not len(rows):
            return []
        ids = self._recorder.coflows_of(rows)["coflow"]
        return list(zip(rows["job"].tolist(), ids.tolist(), strict=True))


class ListenersInProgram(Listeners):
    """Listeners in a user's environment: each call is an event, in which anything may be done."""

    def _deliver(self, event: RunEvent) -> None:
        call_at(self._env, self._env.now, partial(self._call, event))

    def _call(self, event: RunEvent, _: Any) -> None:
        super()._deliver(event)


#: Events of jobs, in the order in which listeners are notified.
_KINDS = ("job-arrived", "job-started", "job-done")

#: When each job first trains, and when it ends, so far as known; else NaN.
Times = tuple[Floats, Floats]


class EdgeListeners:
    """Compares the state after each step with what listeners know, and reports the changes.

    `now` is the time up to which events have been reported, in seconds; -inf before the first step.
    The first `links` links of the fabric are those of the network.
    """

    def __init__(self, listener: Callable[[RunEvent], None], setting: EdgeSetting, now: float,
                 arrived: int, times: Times, fabric: FabricProcess | None, links: int) -> None:
        self.listener, self._setting = listener, setting
        self._fabric, self._links = fabric, links
        self._reported = [each <= now for each in self._instants(times)]
        self._reported[0][arrived:] = False
        if fabric is not None:
            self._see(fabric)

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        """Return None: listeners are not copied."""

    def _instants(self, times: Times) -> tuple[Floats, Floats, Floats]:
        return self._setting.arrival, *times

    def _see(self, fabric: FabricProcess) -> None:
        """Save the state of the fabric, to find what changes."""
        self._decisions, self._last_key = fabric.decisions, fabric.table.last_key
        self._active: dict[int, CoflowEvent] = fabric.in_flight.active.copy()
        self._capacity = fabric.table.capacity[:self._links].copy()

    def make_room(self, place: int) -> None:
        """Make room for a job that has been inserted in the setting."""
        self._reported = [np.insert(reported, place, False) for reported in self._reported]

    def next_at(self, times: Times) -> float:
        """Return the time of the next event of a job, in seconds; inf if not known."""
        return min(float(np.nanmin(each[~reported], initial=np.inf))
                   for each, reported in zip(self._instants(times), self._reported, strict=True))

    def notify(self, now: float, times: Times) -> None:
        """Notify listeners of what has happened since the last call."""
        for event in [*self._of_jobs(now, times), *self._of_fabric(now)]:
            self.listener(event)

    def _of_jobs(self, now: float, times: Times) -> Iterator[RunEvent]:
        for kind, instants, reported in zip(_KINDS, self._instants(times), self._reported,
                                            strict=True):
            for job in np.flatnonzero((instants <= now) & ~reported).tolist():
                reported[job] = True
                yield RunEvent(kind, now, job=self._setting.jobs[job].id)

    def _of_fabric(self, now: float) -> Iterator[RunEvent]:
        fabric = self._fabric
        if fabric is None:
            return
        decisions, last_key = self._decisions, self._last_key
        active, capacity = self._active, self._capacity
        self._see(fabric)
        for key, coflow in active.items():
            # A coflow that was withdrawn has not finished.
            if key not in self._active and coflow.finish_s >= 0:
                yield self._of_coflow("coflow-done", now, coflow)
        for key, coflow in self._active.items():
            if key > last_key:
                yield self._of_coflow("coflow-valid", now, coflow)
        if fabric.decisions > decisions:
            yield RunEvent("decision", now)
        for link in np.flatnonzero(self._capacity != capacity).tolist():
            yield RunEvent("capacity", now, link=fabric.network.link_names[link],
                           capacity=float(self._capacity[link]))

    def _of_coflow(self, kind: str, now: float, coflow: CoflowEvent) -> RunEvent:
        return RunEvent(kind, now, job=self._setting.jobs[coflow.job].id, coflow=coflow.key)
