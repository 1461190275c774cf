"""Who starts when, on which GPUs: what a scheduler is asked, and what it answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from netsim.cluster.cluster import Cluster
from netsim.cluster.placement import Placement, Room
from netsim.cluster.plan import Plan
from netsim.model import JobSpec

__all__ = ["FIFO", "SJF", "ClusterView", "PlanFollower", "Scheduler", "Start"]

Ints = NDArray[np.int64]

#: A job, by its place in the workload, and the GPUs that it gets.
Start = tuple[int, Ints]


@dataclass(frozen=True)
class ClusterView:
    """What a scheduler sees; read-only.

    Attributes
    ----------
    cluster : Cluster
    jobs : sequence of JobSpec
        All, in order of (arrival, id); the others are places in it.
    now : float
        Seconds.
    waiting : tuple of int
        Who has arrived and not started, in that order.
    running : mapping of int to ndarray of int
        Who runs, and on which GPUs.
    free : ndarray of bool, shape (GPUs,)
        Which GPUs nobody has.
    load, estimates : ndarray of float, shape (GPUs,) and (jobs,)
        Seconds that GPUs have been promised to jobs so far, and that jobs are expected to take.
    placement : Placement
        That of the run.
    """

    cluster: Cluster
    jobs: Sequence[JobSpec]
    now: float
    waiting: tuple[int, ...]
    running: Mapping[int, Ints]
    free: NDArray[np.bool_]
    load: NDArray[np.float64]
    estimates: NDArray[np.float64]
    placement: Placement

    def room(self) -> Room:
        """Return what there is to give away, from which jobs can be placed one after the other."""
        return Room(self.cluster, self.jobs, self.placement, self.free, self.load, self.estimates)


class Scheduler(Protocol):
    """Decides who starts; asked whenever a job has arrived or ended."""

    def decide(self, view: ClusterView) -> Sequence[Start]:
        """Return who starts now, on GPUs that are free and each given once."""


class PlanFollower:
    """Starts jobs as a plan says, as soon as their GPUs are free.

    By the contention model that is when the plan says; where jobs run otherwise, as on a fabric,
    sooner or later.

    Parameters
    ----------
    plan : Plan

    Attributes
    ----------
    counts : dict of str to float
        For the summary of a run.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.counts = plan.counts
        self._left = deque(plan.order)

    def decide(self, view: ClusterView) -> list[Start]:
        """Return who is next and has all its GPUs; see `Scheduler.decide`."""
        free = view.free.copy()
        starts: list[Start] = []
        kept: deque[int] = deque()
        while self._left and not (self._plan.in_line and kept):
            job = self._left.popleft()
            gpus = self._plan.gpus[job]
            if free[gpus].all():
                starts.append((job, gpus))
            else:
                kept.append(job)
            free[gpus] = False  # those behind do not overtake on a GPU
        self._left.extendleft(reversed(kept))
        return starts


@dataclass(frozen=True)
class FIFO:
    """A queue in order of arrival; who does not fit holds up the others."""

    def order(self, view: ClusterView) -> Sequence[int]:
        """Return who waits, in order of the queue."""
        return view.waiting

    def decide(self, view: ClusterView) -> list[Start]:
        """Return those in front that fit; see `Scheduler.decide`."""
        room = view.room()
        starts: list[Start] = []
        for job in self.order(view):
            gpus = room.place(job)
            if gpus is None:
                break
            starts.append((job, gpus))
        return starts


@dataclass(frozen=True)
class SJF(FIFO):
    """A queue in order of GPUs, the fewest first; who does not fit holds up the others."""

    def order(self, view: ClusterView) -> Sequence[int]:
        """Return who waits, in order of the queue."""
        return sorted(view.waiting, key=lambda job: view.jobs[job].ranks)
