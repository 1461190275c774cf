"""Readable version of whole jobs at the edge under SRTF and Tiresias-L.

One loop over events, in which everything is computed from the beginning: tests compare
`netsim.edge.whole_jobs` with it. Numbers may be fractions, with which all arithmetic is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: An int, a float or a fraction.
Number = Any


@dataclass(frozen=True)
class Task:
    """A job: its arrival, the workers that it takes, its seconds of training, and upload delays.

    `delays` maps each server to the delay.
    """

    arrival: Number
    size: int
    seconds: Number
    delays: Mapping[int, Number]


@dataclass(eq=False)
class Gang:
    """The state of a job."""

    left: Number  #: seconds of training
    service: Number = 0  #: worker-seconds for which it has held workers
    workers: list[int] = field(default_factory=list)  #: those that it holds
    ready: Number = 0  #: when it trains on these
    #: When its data is on each server that it has used.
    there: dict[int, Number] = field(default_factory=dict)
    preemptions: int = 0
    #: Start and end of training, and the workers.
    spans: list[tuple[Number, Number, list[int]]] = field(default_factory=list)
    finish: Number | None = None


def whole_jobs(tasks: Sequence[Task], server_of: Sequence[int],
               thresholds: Sequence[Number] | None = None) -> list[Gang]:
    """Run jobs in order of their training left, or of the thresholds that they have reached.

    Tasks are in order of arrival, and `server_of` has the server of each worker. `thresholds` are
    ascending worker-seconds, under Tiresias-L; under SRTF there are none.
    """
    gangs = [Gang(task.seconds) for task in tasks]
    now: Number = min(task.arrival for task in tasks) - 1
    while any(gang.finish is None for gang in gangs):
        soonest = min(_events(tasks, gangs, now, thresholds or ()))
        for task, gang in zip(tasks, gangs, strict=True):
            _advance(task, gang, now, soonest)
        now = soonest
        there = [k for k, task in enumerate(tasks)
                 if task.arrival <= now and gangs[k].finish is None]
        _choose(tasks, gangs, sorted(there, key=lambda k: (_key(gangs[k], thresholds), k)),
                server_of, now)
    return gangs


def _key(gang: Gang, thresholds: Sequence[Number] | None) -> Number:
    if thresholds is None:
        return gang.left
    return sum(gang.service >= each for each in thresholds)


def _events(tasks: Sequence[Task], gangs: Sequence[Gang], now: Number,
            thresholds: Sequence[Number]) -> list[Number]:
    """List the instants of arrivals, ends and crossings of thresholds that are to come."""
    found = [task.arrival for task in tasks if task.arrival > now]
    for task, gang in zip(tasks, gangs, strict=True):
        if gang.workers:
            found.append(max(gang.ready, now) + gang.left)
            found += [now + (each - gang.service) / task.size for each in thresholds
                      if each > gang.service]
    return found


def _advance(task: Task, gang: Gang, now: Number, until: Number) -> None:
    """Advance a job that holds workers; it trains once it is ready, and may end."""
    if not gang.workers:
        return
    gang.service += task.size * (until - now)
    begin = max(gang.ready, now)
    if until > begin:
        if gang.spans and gang.spans[-1][1] == now and gang.spans[-1][2] is gang.workers:
            gang.spans[-1] = (gang.spans[-1][0], until, gang.workers)
        else:
            gang.spans.append((begin, until, gang.workers))
        gang.left -= until - begin
    if not gang.left:
        gang.finish, gang.workers = until, []


def _choose(tasks: Sequence[Task], gangs: Sequence[Gang], order: Sequence[int],
            server_of: Sequence[int], now: Number) -> None:
    """Give workers to the jobs that fit, in order; jobs that hold workers keep these."""
    left, chosen = len(server_of), []
    for k in order:
        if tasks[k].size <= left:
            chosen.append(k)
            left -= tasks[k].size
        elif gangs[k].workers:
            gangs[k].workers = []
            gangs[k].preemptions += 1
    held = {worker for gang in gangs for worker in gang.workers}
    for k in chosen:
        task, gang = tasks[k], gangs[k]
        if gang.workers:
            continue
        free = sorted((worker for worker in range(len(server_of)) if worker not in held),
                      key=lambda worker: (server_of[worker] not in gang.there,
                                          task.delays[server_of[worker]], worker))
        gang.workers = free[:task.size]
        held.update(gang.workers)
        for server in {server_of[worker] for worker in gang.workers}:
            gang.there.setdefault(server, now + task.delays[server])
        gang.ready = max(now, *(gang.there[server_of[worker]] for worker in gang.workers))
