"""Jobs that run, and their hosts and labels, as a view shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from netsim.base.arrays import Ints
from netsim.errors import InputError


class JobLabel(NamedTuple):
    """The id, name and group of a job."""

    id: int
    name: str = ""
    group: int | str | None = None


class JobHosts(NamedTuple):
    """Jobs and their hosts: one entry per job and host, in order of (job, host); read-only."""

    job: Ints  #: numbered by (arrival, id)
    host: Ints


class Running:
    """The running jobs with their hosts; `changed` is called after one has begun or ended."""

    def __init__(self, changed: Callable[[], None] | None = None) -> None:
        self._changed = changed
        self._hosts: dict[int, Ints] = {}
        self._pairs: JobHosts | None = None

    def __contains__(self, job: int) -> bool:
        return job in self._hosts

    def begin(self, job: int, hosts: ArrayLike) -> None:
        """Add a job that begins to run; a host that is listed twice counts once."""
        if job in self._hosts:
            raise InputError(f"job number {job} has begun already, on the hosts "
                             f"{self._hosts[job].tolist()}; a job runs once at a time", "job")
        self._hosts[job] = np.unique(np.asarray(hosts, dtype=np.int64))
        self._change()

    def end(self, job: int) -> None:
        """Remove a job that has ended."""
        if job not in self._hosts:
            raise InputError(f"job number {job} does not run; those that do are "
                             f"{sorted(self._hosts)}", "job")
        del self._hosts[job]
        self._change()

    def _change(self) -> None:
        self._pairs = None
        if self._changed is not None:
            self._changed()

    def pairs(self) -> JobHosts:
        """Return the running jobs with their hosts."""
        if self._pairs is None:
            jobs = sorted(self._hosts)
            counts = [len(self._hosts[job]) for job in jobs]
            hosts = [self._hosts[job] for job in jobs] or [np.empty(0, np.int64)]
            self._pairs = JobHosts(np.repeat(np.array(jobs, np.int64), counts),
                                   np.concatenate(hosts))
            for array in self._pairs:
                array.flags.writeable = False
        return self._pairs
