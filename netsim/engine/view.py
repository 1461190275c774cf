"""The interface of schedulers: the view that they see and the decision that they return."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from netsim.brief import brief
from netsim.cluster.cluster import Cluster
from netsim.cluster.context import RunContext
from netsim.placements.placement import Placement, Room
from netsim.workload import JobSpec

__all__ = ["ClusterView", "Decision", "Scheduler", "Start", "decider_of"]

Ints = NDArray[np.int64]

#: The start of a job: its index in the workload and its GPUs, in order of ranks.
Start = tuple[int, Ints]


@dataclass(frozen=True)
class Decision:
    """The jobs to start, and the latest instant at which to ask again.

    Attributes
    ----------
    starts : sequence of Start
        Jobs with their GPUs, which must be free and distinct.
    wake_at : float
        Instant in seconds at which to ask again; in slotted time, the beginning of the next slot
        counts. Arrivals and ends always lead to a call, and come first if they are at that instant.
    """

    starts: Sequence[Start] = ()
    wake_at: float = math.inf

    __repr__ = brief


@dataclass(slots=True)  # made at every decision: a frozen one would take three times as long
class ClusterView:
    """The state of a cluster as a scheduler sees it; read-only, and valid during one call only.

    Attributes
    ----------
    cluster : Cluster
    jobs : sequence of JobSpec
        All jobs in order of (arrival, id). The other attributes refer to jobs by index.
    now : float
        Current time, in seconds.
    arrived, ended : sequence of int
        Jobs that have arrived, and ended, since the last call. A job that lost a server arrives
        again, with the iterations that it has not made.
    pending : collection of int
        Jobs that have arrived or were stopped and wait for GPUs, in no particular order.
    running : mapping of int to ndarray of int
        GPUs of each running job.
    free : ndarray of bool, shape (GPUs,)
        Mask of free GPUs; those of lost servers are not free.
    free_on : ndarray of int, shape (servers,)
        Number of free GPUs of each server.
    idle : int
        Number of all free GPUs.
    load, estimates : ndarray of float, shape (GPUs,) and (jobs,)
        Seconds of work that each GPU has been promised so far, and estimated seconds of each job.
    placement : Placement
        Placement of the run.
    """

    cluster: Cluster
    jobs: Sequence[JobSpec]
    now: float
    arrived: Sequence[int]
    ended: Sequence[int]
    pending: Mapping[int, None]
    running: Mapping[int, Ints]
    free: NDArray[np.bool_]
    free_on: Ints
    idle: int
    load: NDArray[np.float64]
    estimates: NDArray[np.float64]
    placement: Placement

    __repr__ = brief

    @property
    def waiting(self) -> tuple[int, ...]:
        """Pending jobs in order of arrival, then id."""
        return tuple(sorted(self.pending))

    def room(self) -> Room:
        """Return a copy-on-write `Room` from which several jobs can be placed one after another."""
        return Room(self.cluster, self.jobs, self.placement, self.free, self.free_on, self.load,
                    self.estimates)


class Scheduler(Protocol):
    """Decides which jobs start, whenever a job arrives or ends and at instants that it asks for.

    A scheduler that prepares before a run, or keeps state during one, has ``begin(context)``
    instead of ``decide``; it returns an object with ``decide`` for one run. If that has
    ``add_job(job, context)``, jobs can be submitted during the run: it is called with the number of
    the job, and others from there on have the next one. A scheduler that does not support all
    clusters and jobs declares what it needs in ``needs``. What no name there can say,
    ``suits(context)`` may check: it is called before a run and raises an `InputError`.

    Attributes
    ----------
    needs : collection of str, optional
        What a run must have, by names of `netsim.simulation.compatibility.NEEDS`, such as
        ``"equal servers"``; a run without it is refused before it begins.
    chooses_gpus : bool, optional
        Whether it chooses GPUs itself, so that no placement is used. False by default.
    placement : str or mapping, optional
        Default placement of its runs; ``"first-fit"`` if the scheduler has no such attribute.
    clairvoyant : bool, optional
        Whether it may use what is unknown in reality: the iterations that jobs will make, and jobs
        that have not arrived. `netsim.testing.check_scheduler` checks this. False by default.
    work_conserving : bool, optional
        Whether it claims to start every job that fits, which is checked too. False by default.
    """

    def decide(self, view: ClusterView) -> Decision | Sequence[Start]:
        """Return the jobs to start now, with GPUs that are free and distinct."""


def decider_of(scheduler: Any, context: RunContext) -> Scheduler:
    """Return the object that decides in a run: what `begin` returns, or the scheduler itself."""
    decider: Scheduler = scheduler.begin(context) if hasattr(scheduler, "begin") else scheduler
    return decider
