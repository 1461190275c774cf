"""What servers hold of the data of jobs (Section VI)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from netsim.edge.schedule import Schedule
from netsim.edge.setting import CLOUD, EdgeSetting, Floats, Ints

__all__ = ["Storage", "peaks"]

#: Relative: what sums of sizes may be off, and instants.
_ROUNDING = 1e-12


class Storage:
    """The storage of edge servers: a chunk holds its size from dispatch to the end of its job.

    Parameters
    ----------
    setting : EdgeSetting

    Attributes
    ----------
    limited : bool
        Whether there is a limit anywhere.
    used : ndarray of float, shape (servers,)
        Bytes.
    """

    def __init__(self, setting: EdgeSetting) -> None:
        self._setting = setting
        self._capacity = setting.system.capacity
        self.limited = bool(np.isfinite(self._capacity).any())
        self.used: Floats = np.zeros(setting.system.servers)
        self._held: dict[int, Ints] = {}

    def room(self, job: int) -> Ints:
        """Return how many chunks of a job each server can take in now; no more than it has."""
        size, most = self._setting.jobs[job].chunk_bytes, int(self._setting.chunks[job])
        if not self.limited or size == 0:
            return np.full(len(self.used), most)
        free = self._capacity * (1 + _ROUNDING) - self.used
        return np.clip(np.floor(free / size), 0, most).astype(np.int64)

    def take(self, job: int, workers: Ints) -> None:
        """Store chunks of a job with these workers; those in the cloud take nothing."""
        if self.limited and self._setting.jobs[job].chunk_bytes > 0:
            servers = self._setting.system.server_of[workers[workers != CLOUD]]
            self._held[job] = np.bincount(servers, minlength=len(self.used))
            self._count()

    def release(self, now: float, ended: Callable[[int], float]) -> None:
        """Give back what jobs held that have ended by now, as `ended` says of each, in seconds."""
        gone = [job for job in self._held if ended(job) <= now * (1 + _ROUNDING)]
        for job in gone:
            del self._held[job]
        if gone:
            self._count()

    def _count(self) -> None:
        # Anew each time, so that no rounding is left of who has gone.
        self.used = np.zeros(len(self.used))
        for job, chunks in self._held.items():
            self.used += chunks * self._setting.jobs[job].chunk_bytes


def peaks(setting: EdgeSetting, schedule: Schedule) -> Floats:
    """Return the most bytes that each server held at once; NaN where whole jobs were scheduled.

    Returns
    -------
    ndarray of float, shape (servers,)
    """
    servers = setting.system.servers
    if schedule.chunks is None:
        return np.full(servers, np.nan)
    size = np.repeat([job.chunk_bytes for job in setting.jobs], setting.chunks)
    job = np.repeat(np.arange(len(setting.jobs)), setting.chunks)
    edge = schedule.chunks.worker != CLOUD
    server = setting.system.server_of[schedule.chunks.worker[edge]]
    size, job = size[edge], job[edge]
    # What is released at an instant makes room for who arrives then.
    at = np.concatenate([schedule.finish[job] * (1 - _ROUNDING), setting.arrival[job]])
    change = np.concatenate([-size, size])
    where = np.tile(server, 2)
    order = np.lexsort((change, at, where))
    held = np.cumsum(change[order])
    most = np.zeros(servers)
    np.maximum.at(most, where[order], held)
    return most
