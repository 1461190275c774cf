"""What others tell the fabric and its policies: observers, sources, plans, jobs that run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError

if TYPE_CHECKING:
    from netsim.fabric.flow_table import FlowTable
    from netsim.fabric.routed_coflow import RoutedCoflow

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Observer(Protocol):
    """Is told what happens on the fabric, to record it; see `FabricProcess`. Changes nothing."""

    @property
    def pause(self) -> int:
        """When the event loop pauses for it; see `netsim.fabric.kernels.loop`.

        With ``AT_ENDS``, rates are constant between two calls of `moved`. With ``AT_ENDS`` or
        ``AT_DECISIONS``, `decided` is called for every decision, including those that the fabric
        makes by itself.
        """
        ...

    @property
    def carries(self) -> bool:
        """Whether `moved` needs the bytes of each link."""
        ...

    def decided(self, now: float, table: FlowTable,
                note: Callable[[], Mapping[str, float] | None]) -> None:
        """Record a decision; `note` returns the values that the policy inferred."""

    def moved(self, start: float, now: float, carried: NDArray[np.float64]) -> None:
        """Record the bytes that each link carried between two times.

        The observer may keep the array, which is empty unless `carries` is set.
        """

    def flows_finished(self, transfer: Any, flows: NDArray[Any]) -> None:
        """Record the FLOW rows of a completed coflow, given its `CoflowEvent`.

        If it was in step, ``remaining`` is above 0.
        """


class Source(Protocol):
    """Knows beforehand when coflows become valid; each is the only coflow of its job."""

    def more(self) -> RoutedCoflow | None:
        """Return the next coflows, in order of (validity, job); None if there are no more.

        Each coflow has bytes to send.
        """


class Steps(NamedTuple):
    """What jobs do, in steps that wait for each other; each sends at most one coflow at a time.

    Attributes
    ----------
    job : ndarray of int, shape (steps,)
        The job of each step; jobs are numbered by (arrival, id), as in a view.
    earliest_s : ndarray of float, shape (steps,)
        The earliest time at which a step can end, with every coflow alone on the network.
    begin_s : ndarray of float, shape (steps,)
        The earliest time at which it can begin to send.
    child, parent : ndarray of int, shape (pairs,)
        A step, and a step before it that it waits for; steps are in topological order.
    gap_s : ndarray of float, shape (pairs,)
        The least time from the end of the parent to that of the child, in seconds.
    owner, link : ndarray of int, shape (loads,)
        A step, and a link that it loads.
    seconds : ndarray of float, shape (loads,)
        For how long the load alone fills the link; 0 on a link that is always dead.
    """

    job: Ints
    earliest_s: Floats
    begin_s: Floats
    child: Ints
    parent: Ints
    gap_s: Floats
    owner: Ints
    link: Ints
    seconds: Floats


class Coming(Protocol):
    """All jobs of a run, as a policy with ``plans_ahead`` is told of them before it begins.

    Times are least times at the highest capacities during the run.

    Attributes
    ----------
    arrival_s : ndarray of float, shape (jobs,)
    weight : ndarray of float, shape (jobs,)
        That of each job, `netsim.JobSpec.weight`, times the largest of its stages.
    """

    @property
    def arrival_s(self) -> Floats: ...

    @property
    def weight(self) -> Floats: ...

    def jobs(self) -> Steps:
        """Return a step for each job, with the loads of all its coflows together."""
        ...

    def coflows(self) -> Steps:
        """Return a step for each stage or operation of each iteration."""
        ...


# --- jobs, as a view shows them ------------------------------------------------------------
class JobLabel(NamedTuple):
    """The id, name and group of a job."""

    id: int
    name: str = ""
    group: int | str | None = None


class JobHosts(NamedTuple):
    """Jobs and their hosts: one entry per job and host, in order of (job, host); read-only."""

    job: NDArray[np.int64]  #: numbered by (arrival, id)
    host: NDArray[np.int64]


class Running:
    """The running jobs with their hosts; `changed` is called after one has begun or ended."""

    def __init__(self, changed: Callable[[], None] | None = None) -> None:
        self._changed = changed
        self._hosts: dict[int, NDArray[np.int64]] = {}
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
