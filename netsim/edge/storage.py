"""The storage of edge servers for the data of jobs (Section VI of A_online's paper)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from netsim.edge.schedule import Schedule
from netsim.edge.setting import CLOUD, EdgeSetting, Floats, Ints
from netsim.units import format_bytes

#: Relative tolerance for rounding errors of sums of sizes, and of instants.
_ROUNDING = 1e-12

_LISTED = 6  # most names in a message


class Storage:
    """The storage of edge servers, which a chunk occupies from dispatch to the end of its job."""

    def __init__(self, setting: EdgeSetting) -> None:
        self._setting = setting
        self._capacity = setting.system.capacity
        self.limited = bool(np.isfinite(self._capacity).any())
        self.used: Floats = np.zeros(setting.system.servers)  #: bytes
        self._held: dict[int, Ints] = {}

    def room(self, job: int) -> Ints:
        """The number of chunks of a job that each server can store now, at most all of them."""
        size, most = self._setting.jobs[job].chunk_bytes, int(self._setting.chunks[job])
        if not self.limited or size == 0:
            return np.full(len(self.used), most)
        free = self._capacity * (1 + _ROUNDING) - self.used
        return np.clip(np.floor(free / size), 0, most).astype(np.int64)

    def take(self, job: int, workers: Ints) -> None:
        """Store the chunks of a job on the servers of `workers`; chunks in the cloud need none."""
        if self.limited and self._setting.jobs[job].chunk_bytes > 0:
            servers = self._setting.system.server_of[workers[workers != CLOUD]]
            self._held[job] = np.bincount(servers, minlength=len(self.used))
            self._count()

    def release(self, now: float, ended: Callable[[int], float]) -> None:
        """Free the storage of jobs that have ended; `ended(job)` is the end in seconds, or inf."""
        gone = [job for job in self._held if ended(job) <= now * (1 + _ROUNDING)]
        for job in gone:
            del self._held[job]
        if gone:
            self._count()

    def _count(self) -> None:
        # Summed again each time, so that rounding errors of ended jobs do not accumulate.
        self.used = np.zeros(len(self.used))
        for job, chunks in self._held.items():
            self.used += chunks * self._setting.jobs[job].chunk_bytes


def peaks(setting: EdgeSetting, schedule: Schedule) -> Floats:
    """Compute the most bytes that each server stored; NaN if this is unknown, for whole jobs."""
    servers = setting.system.servers
    if schedule.most_bytes is not None:
        return schedule.most_bytes
    if schedule.chunks is None:
        return np.full(servers, np.nan)
    size = np.repeat([job.chunk_bytes for job in setting.jobs], setting.chunks)
    job = np.repeat(np.arange(len(setting.jobs)), setting.chunks)
    size, job = size[:len(schedule.chunks.worker)], job[:len(schedule.chunks.worker)]
    edge = schedule.chunks.worker != CLOUD
    server = setting.system.server_of[schedule.chunks.worker[edge]]
    size, job = size[edge], job[edge]
    # Storage that is released at an instant is available to jobs that arrive then.
    finish = np.where(np.isnan(schedule.finish), np.inf, schedule.finish)
    at = np.concatenate([finish[job] * (1 - _ROUNDING), setting.arrival[job]])
    change = np.concatenate([-size, size])
    where = np.tile(server, 2)
    order = np.lexsort((change, at, where))
    held = np.cumsum(change[order])
    most = np.zeros(servers)
    np.maximum.at(most, where[order], held)
    return most


def why_only_cloud(setting: EdgeSetting) -> str:
    """Explain why no job can train at the edge under any scheduler; "" if some job can."""
    system, chunk = setting.system, np.array([job.chunk_bytes for job in setting.jobs])
    room = np.array([system.capacity[system.server_of[workers]].max(initial=-1.0)
                     for workers in setting.workers_of])
    without = room < 0
    full = ~without & (room * (1 + _ROUNDING) < chunk)
    if not (without | full).all():
        return ""
    reasons = []
    if without.any():
        needed = dict.fromkeys(repr(setting.jobs[job].worker_type)
                               for job in np.flatnonzero(without).tolist())
        reasons.append(f"no worker of the edge has a type that {_jobs(without)} need, "
                       f"{_some(needed)}; the edge has {_some(map(repr, system.types)) or 'none'}")
    if full.any():
        reasons.append(f"no server can store a chunk of {_jobs(full)}: the smallest chunk has "
                       f"{format_bytes(chunk[full].min())}, the largest storage "
                       f"{format_bytes(room[full].max())}")
    return "; and ".join(reasons)


def _jobs(which: NDArray[np.bool_]) -> str:
    """Describe for a message how many jobs are meant."""
    return "the jobs" if which.all() else f"{np.count_nonzero(which):,} of {len(which):,} jobs"


def _some(names: Iterable[str]) -> str:
    """List names for a message, at most the first few."""
    listed = list(names)
    return ", ".join(listed[:_LISTED]) + (", ..." if len(listed) > _LISTED else "")
