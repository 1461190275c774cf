"""Queueing schedulers: first in, first out, and smallest job first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from netsim.engine.view import ClusterView, Start

__all__ = ["FIFO", "SJF"]


@dataclass(frozen=True)
class FIFO:
    """A queue in order of arrival; the first job blocks the others if it does not fit."""

    def order(self, view: ClusterView) -> Sequence[int]:
        """Return the waiting jobs in the order of the queue."""
        return view.waiting

    def decide(self, view: ClusterView) -> list[Start]:
        """Return the jobs at the head of the queue that fit; see `Scheduler.decide`."""
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
    """A queue by GPUs, fewest first; the first job blocks the others if it does not fit."""

    def order(self, view: ClusterView) -> Sequence[int]:
        """Return the waiting jobs in the order of the queue."""
        return sorted(view.waiting, key=lambda job: view.jobs[job].ranks)
