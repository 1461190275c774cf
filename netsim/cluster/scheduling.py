"""Who starts when, on which GPUs: what a scheduler is asked, and what it answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from netsim.cluster.cluster import Cluster
from netsim.cluster.plan import Plan
from netsim.model import JobSpec

__all__ = ["ClusterView", "PlanFollower", "Queue", "Scheduler", "Start"]

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
    """

    cluster: Cluster
    jobs: Sequence[JobSpec]
    now: float
    waiting: tuple[int, ...]
    running: Mapping[int, Ints]
    free: NDArray[np.bool_]


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
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
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
class Queue:
    """Jobs in a queue, each on the first GPUs that are free; who does not fit holds up the others.

    Parameters
    ----------
    by_size : bool
        The fewest GPUs first, and not in order of arrival.
    """

    by_size: bool = False

    def decide(self, view: ClusterView) -> list[Start]:
        """Return those in front that fit; see `Scheduler.decide`."""
        order = (sorted(view.waiting, key=lambda job: view.jobs[job].ranks) if self.by_size
                 else view.waiting)
        free = np.flatnonzero(view.free)
        starts: list[Start] = []
        for job in order:
            need = view.jobs[job].ranks
            if need > len(free):
                break
            starts.append((job, free[:need]))
            free = free[need:]
        return starts
