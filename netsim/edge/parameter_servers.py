"""A_ps, which assigns a parameter server to each job while it trains, unless it uses a ring."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush

import numpy as np

from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.streams import stream
from netsim.base.values import Rows
from netsim.edge import kernels
from netsim.edge.edge_cloud import Kind
from netsim.edge.schedule import PSAssignments, Schedule, Training
from netsim.edge.setting import CLOUD, EdgeSetting
from netsim.ties import ROUNDING, merge_equal


def spans(training: Training) -> tuple[Ints, Floats, Floats]:
    """Merge the intervals in which chunks of the same job trained, if they overlap or touch.

    The result (job, start, end) is in order of (start, job); starts are equal within 1e-9.
    """
    order = np.lexsort((training.start, training.job))
    job, start, end = training.job[order], training.start[order], training.end[order]
    fresh = np.empty(len(job), np.bool_)
    kernels.begin_spans(job, start, end, fresh)
    first = np.flatnonzero(fresh)
    if not len(first):
        return job, start, end
    last = np.maximum.reduceat(end, first)
    by_start = np.lexsort((job[first], merge_equal(start[first])))
    return job[first][by_start], start[first][by_start], last[by_start]


class ParameterServers:
    """The PSs of the edge: keeps track of free ones, and assigns them at random."""

    def __init__(self, setting: EdgeSetting) -> None:
        kinds = [kind for each in setting.system.ps_types for kind in each]
        counts = [len(each) for each in setting.system.ps_types]
        self.server_of = np.repeat(np.arange(len(counts)), counts)  #: the server of each PS
        #: The number of each PS on its server.
        self.number = np.concatenate([np.array([], np.int64), *map(np.arange, counts)])
        self.shortages = 0  #: number of times that no PS was available for a job
        self._setting = setting
        self._kinds = kinds
        self._usable: dict[Kind | None, Bools] = {}  # by the type that a job needs
        self._free = np.ones(len(kinds), np.bool_)
        self._rng = stream(setting.seed, "parameter servers")

    def take(self, job: int) -> int:
        """Draw a free PS that the job can use, uniformly; `CLOUD` if there is none."""
        kind = self._setting.jobs[job].ps_type
        if kind not in self._usable:
            self._usable[kind] = np.array(
                [kind is None or each in (None, kind) for each in self._kinds], np.bool_)
        choices = np.flatnonzero(self._free & self._usable[kind])
        if not len(choices):
            self.shortages += 1
            return CLOUD
        held = int(choices[self._rng.integers(len(choices))])
        self._free[held] = False
        return held

    def give_back(self, held: int) -> None:
        """Free a PS."""
        if held != CLOUD:
            self._free[held] = True

    def assignments(self, job: Ints, start: Floats, end: Floats, held: Ints) -> PSAssignments:
        """Make the table of assignments; `held` has the PS of each interval, or `CLOUD`."""
        edge = held != CLOUD
        server, number = np.full(len(held), CLOUD), np.full(len(held), CLOUD)
        server[edge], number[edge] = self.server_of[held[edge]], self.number[held[edge]]
        return PSAssignments(job, start, end, server, number, self.shortages)


class HeldParameterServers(ParameterServers):
    """The PSs that jobs hold while they train, in a run whose training depends on them."""

    def __init__(self, setting: EdgeSetting) -> None:
        super().__init__(setting)
        self._of: dict[int, tuple[float, int]] = {}  # by job: since when it holds which PS
        self._rows: list[tuple[int, float, float, int]] = Rows()

    @property
    def jobs(self) -> list[int]:
        """The jobs that hold a PS."""
        return list(self._of)

    def change_hands(self, now: float, stopped: Mapping[int, float], starting: Mapping[int, bool]
                     ) -> None:
        """Take PSs from jobs that have stopped, then give PSs to those that start and have none.

        `stopped` has the times at which jobs stopped training; a job that starts again at once
        keeps its PS. `starting` says of each job that starts whether it is entirely in the cloud;
        its PS is then there, too. Jobs that exchange in rings get no PS.
        """
        for job in self.jobs:
            if job in stopped and job not in starting:
                since, held = self._of.pop(job)
                self.give_back(held)
                self._rows.append((job, since, stopped[job], held))
        for job in sorted(starting):
            if job not in self._of and not self._setting.ring[job]:
                self._of[job] = now, CLOUD if starting[job] else self.take(job)

    def server(self, job: int) -> int:
        """The server of the PS that a job holds; `CLOUD` also if the job uses a ring."""
        held = CLOUD if self._setting.ring[job] else self._of[job][1]
        return CLOUD if held == CLOUD else int(self.server_of[held])

    def assigned(self, stopped: Mapping[int, float]) -> PSAssignments:
        """The PSs that jobs have used so far; `stopped` as in `change_hands`."""
        rows = self._rows + [(job, since, stopped.get(job, np.inf), held)
                             for job, (since, held) in self._of.items()]
        rows.sort(key=lambda row: (row[1], row[0]))
        job, held = (np.array([row[k] for row in rows], np.int64) for k in (0, 3))
        start, end = (np.array([row[k] for row in rows], np.float64) for k in (1, 2))
        return self.assignments(job, start, end, held)


def assign_ps(setting: EdgeSetting, schedule: Schedule) -> PSAssignments:
    """Draw a PS for each interval in which a job trains, by A_ps.

    A job whose chunks are all in the cloud uses a PS there. Other jobs get a PS at the edge that is
    free and that they can use, drawn uniformly, or a PS in the cloud if there is no such PS. They
    keep it until the interval ends. Training times do not depend on the choice. Jobs that exchange
    in rings use no PS.
    """
    servers, busy = ParameterServers(setting), list[tuple[float, int]]()
    job, start, end = spans(schedule.training)
    with_ps = ~setting.ring[job]
    job, start, end = job[with_ps], start[with_ps], end[with_ps]
    held = np.full(len(job), CLOUD)
    in_cloud = schedule.cloud_chunks == setting.chunks
    for k in np.flatnonzero(~in_cloud[job]).tolist():
        while busy and busy[0][0] <= start[k] * (1 + ROUNDING):
            servers.give_back(heappop(busy)[1])
        held[k] = servers.take(int(job[k]))
        if held[k] != CLOUD:
            heappush(busy, (float(end[k]), int(held[k])))
    return servers.assignments(job, start, end, held)
