"""What servers hold of the data of jobs (Section VI)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from netsim.edge.setting import CLOUD, EdgeSetting, Floats, Ints

__all__ = ["Storage"]

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
