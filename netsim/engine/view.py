"""Who starts when, on which GPUs: what a scheduler is asked, and what it answers."""

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

#: A job, by its place in the workload, and the GPUs that it gets: the first one for rank 0.
Start = tuple[int, Ints]


@dataclass(frozen=True)
class Decision:
    """Who starts, and when to ask again at the latest.

    Attributes
    ----------
    starts : sequence of Start
        On GPUs that are free, each given once.
    wake_at : float
        An instant, in seconds, or in slotted time the next beginning of a slot; jobs that arrive
        or end make the engine ask anyway, and do so first if it is at that instant.
    """

    starts: Sequence[Start] = ()
    wake_at: float = math.inf

    __repr__ = brief


@dataclass(slots=True)  # made at every decision: a frozen one would take three times as long
class ClusterView:
    """What a scheduler sees; read-only, and as it is until the scheduler has answered.

    Attributes
    ----------
    cluster : Cluster
    jobs : sequence of JobSpec
        All, in order of (arrival, id); the others are places in it.
    now : float
        Seconds.
    arrived, ended : sequence of int
        Who has, since the scheduler was asked last. A job that a lost server has stopped arrives
        anew, with the iterations that it has not made.
    pending : collection of int
        Who has arrived and not started, or was stopped, in no order.
    running : mapping of int to ndarray of int
        Who runs, and on which GPUs.
    free : ndarray of bool, shape (GPUs,)
        Which GPUs nobody has, and are of no lost server.
    free_on : ndarray of int, shape (servers,)
        How many of each server.
    idle : int
        How many of all.
    load, estimates : ndarray of float, shape (GPUs,) and (jobs,)
        Seconds that GPUs have been promised to jobs so far, and that jobs are expected to take.
    placement : Placement
        That of the run.
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
        """Who has arrived and not started, in order of arrival, then id."""
        return tuple(sorted(self.pending))

    def room(self) -> Room:
        """Return what there is to give away, from which jobs can be placed one after the other."""
        return Room(self.cluster, self.jobs, self.placement, self.free, self.free_on, self.load,
                    self.estimates)


class Scheduler(Protocol):
    """Decides who starts; asked whenever a job has arrived or ended, and when it asked for it.

    One that prepares before a run, or remembers during one, has ``begin(context)`` instead, which
    returns one of these for a run. What no row of the table of needs says, ``suits(context)`` may:
    it is asked before a run, and refuses a cluster or jobs with an `InputError`.

    Attributes
    ----------
    needs : collection of str, optional
        What a run must have, by names of `netsim.simulation.compatibility.NEEDS`, such as
        ``"equal servers"``; a run without it is refused before it begins.
    chooses_gpus : bool, optional
        True for one that leaves nothing to a placement.
    placement : str or mapping, optional
        The placement of a run that names none; ``"first-fit"`` if it does not say.
    clairvoyant : bool, optional
        True for one that may know of jobs what nobody knows before the end: how many iterations
        they make, and which jobs are to come. `netsim.testing.check_scheduler` holds it to that.
    work_conserving : bool, optional
        True for one that claims to start whoever fits. Held to it likewise.
    """

    def decide(self, view: ClusterView) -> Decision | Sequence[Start]:
        """Return who starts now, on GPUs that are free and each given once."""


def decider_of(scheduler: Any, context: RunContext) -> Scheduler:
    """Return the object that decides in a run: what `begin` returns, or the scheduler itself."""
    decider: Scheduler = scheduler.begin(context) if hasattr(scheduler, "begin") else scheduler
    return decider
