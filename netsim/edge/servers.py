"""A_ps: which parameter server a job has while it trains."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from netsim.edge import kernels
from netsim.edge.schedule import Schedule, Training
from netsim.edge.setting import CLOUD, EdgeSetting, Floats, Ints
from netsim.streams import stream

__all__ = ["Held", "hold_servers", "spans"]


@dataclass(frozen=True, eq=False)
class Held:
    """Which PS each job has had, and when.

    Attributes
    ----------
    job : ndarray of int, shape (spans,)
    start, end : ndarray of float, shape (spans,)
        The longest intervals in which a job trained without a break, in order of (start, job).
    server, ps : ndarray of int, shape (spans,)
        The server, and the number of the PS there; `CLOUD` both in the cloud.
    shortages : int
        How often no PS of the edge was free that the job could use, and the cloud helped out.
    """

    job: Ints
    start: Floats
    end: Floats
    server: Ints
    ps: Ints
    shortages: int


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


def hold_servers(setting: EdgeSetting, schedule: Schedule) -> Held:
    """Draw a PS for each interval in which a job trains: A_ps.

    A job whose chunks are all in the cloud has one there. Another gets one of those at the edge
    that are free and that it can use, each as likely as the others; if there is none, one in the
    cloud. It keeps it until it trains no more. Rates do not depend on it.
    """
    kinds = [kind for each in setting.system.ps_types for kind in each]
    counts = [len(each) for each in setting.system.ps_types]
    at = np.repeat(np.arange(len(counts)), counts)
    number = np.concatenate([np.array([], np.int64), *map(np.arange, counts)])
    usable = {kind: np.array([kind is None or each in (None, kind) for each in kinds], np.bool_)
              for kind in {job.ps_type: None for job in setting.jobs}}
    job, start, end = spans(schedule.training)
    in_cloud = schedule.cloud_chunks == setting.chunks
    free, busy = np.ones(len(kinds), np.bool_), list[tuple[float, int]]()
    held, shortages = np.full(len(job), CLOUD), 0
    rng = stream(setting.seed, "parameter servers")
    for k in np.flatnonzero(~in_cloud[job]).tolist():
        while busy and busy[0][0] <= start[k] * (1 + kernels.ROUNDING):
            free[heappop(busy)[1]] = True
        choices = np.flatnonzero(free & usable[setting.jobs[job[k]].ps_type])
        if not len(choices):
            shortages += 1
            continue
        held[k] = choices[rng.integers(len(choices))]
        free[held[k]] = False
        heappush(busy, (float(end[k]), int(held[k])))
    edge = held != CLOUD
    server, ps = np.full(len(job), CLOUD), np.full(len(job), CLOUD)
    server[edge], ps[edge] = at[held[edge]], number[held[edge]]
    return Held(job, start, end, server, ps, shortages)
