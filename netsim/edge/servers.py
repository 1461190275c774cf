"""A_ps: which parameter server a job has while it trains."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from netsim.edge import kernels
from netsim.edge.schedule import PSAssignments, Schedule, Training
from netsim.edge.setting import CLOUD, EdgeSetting, Floats, Ints
from netsim.streams import stream

__all__ = ["ParameterServers", "hold_servers", "spans"]


def spans(training: Training) -> tuple[Ints, Floats, Floats]:
    """Return the longest intervals in which a chunk of a job trained, in order of (start, job).

    Those that touch are one.
    """
    order = np.lexsort((training.start, training.job))
    job, start, end = training.job[order], training.start[order], training.end[order]
    fresh = np.empty(len(job), np.bool_)
    kernels.begin_spans(job, start, end, fresh)
    first = np.flatnonzero(fresh)
    if not len(first):
        return job, start, end
    last = np.maximum.reduceat(end, first)
    by_start = np.lexsort((job[first], start[first]))
    return job[first][by_start], start[first][by_start], last[by_start]


class ParameterServers:
    """Those of the edge: who is free, and who gets which.

    Parameters
    ----------
    setting : EdgeSetting

    Attributes
    ----------
    server, number : ndarray of int, shape (PSs,)
        Where each is, and its number there.
    shortages : int
        How often there was none for a job.
    """

    def __init__(self, setting: EdgeSetting) -> None:
        kinds = [kind for each in setting.system.ps_types for kind in each]
        counts = [len(each) for each in setting.system.ps_types]
        self.server = np.repeat(np.arange(len(counts)), counts)
        self.number = np.concatenate([np.array([], np.int64), *map(np.arange, counts)])
        self.shortages = 0
        self._setting = setting
        self._usable = {kind: np.array([kind is None or each in (None, kind) for each in kinds],
                                       np.bool_)
                        for kind in {job.ps_type: None for job in setting.jobs}}
        self._free = np.ones(len(kinds), np.bool_)
        self._rng = stream(setting.seed, "parameter servers")

    def take(self, job: int) -> int:
        """Return a PS that is free and that the job can use, each as likely; `CLOUD` if none is."""
        choices = np.flatnonzero(self._free & self._usable[self._setting.jobs[job].ps_type])
        if not len(choices):
            self.shortages += 1
            return CLOUD
        held = int(choices[self._rng.integers(len(choices))])
        self._free[held] = False
        return held

    def give_back(self, held: int) -> None:
        """Let a PS be free again."""
        if held != CLOUD:
            self._free[held] = True

    def held(self, job: Ints, start: Floats, end: Floats, held: Ints) -> PSAssignments:
        """Return who has had which, `CLOUD` in the cloud, and when."""
        edge = held != CLOUD
        server, number = np.full(len(held), CLOUD), np.full(len(held), CLOUD)
        server[edge], number[edge] = self.server[held[edge]], self.number[held[edge]]
        return PSAssignments(job, start, end, server, number, self.shortages)


def hold_servers(setting: EdgeSetting, schedule: Schedule) -> PSAssignments:
    """Draw a PS for each interval in which a job trains: A_ps.

    A job whose chunks are all in the cloud has one there. Another gets one of those at the edge
    that are free and that it can use, each as likely as the others; if there is none, one in the
    cloud. It keeps it until it trains no more. Rates do not depend on it.
    """
    servers, busy = ParameterServers(setting), list[tuple[float, int]]()
    job, start, end = spans(schedule.training)
    held = np.full(len(job), CLOUD)
    in_cloud = schedule.cloud_chunks == setting.chunks
    for k in np.flatnonzero(~in_cloud[job]).tolist():
        while busy and busy[0][0] <= start[k] * (1 + kernels.ROUNDING):
            servers.give_back(heappop(busy)[1])
        held[k] = servers.take(int(job[k]))
        if held[k] != CLOUD:
            heappush(busy, (float(end[k]), int(held[k])))
    return servers.held(job, start, end, held)
