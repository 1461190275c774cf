"""CASSINI beside any scheduler: jobs that share links begin so that they send in turn.

Rajasekaran, Ghobadi, Akella, "CASSINI: Network-Aware Job Scheduling in Machine Learning Clusters"
(NSDI'24).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from netsim.base.arrays import Bools, Ints
from netsim.base.streams import stream
from netsim.engine.as_coflows import CoflowExecution
from netsim.jobs.cassini import Begun, BestDelay, best_delay
from netsim.jobs.graph import IterationAlone, alone
from netsim.ties import EQUAL


class InterleavedExecution(CoflowExecution):
    """Execution as coflows of jobs that begin when their communication fits to that of others.

    A job that starts for the first time gets the best of at most `candidates` placements. Any job
    that starts is delayed by `best_delay`. Jobs that make a single iteration do not repeat
    themselves, so they neither wait nor are waited for.
    """

    def __init__(self, *args: Any, candidates: int, **named: Any) -> None:
        super().__init__(*args, **named)
        self.prefers = candidates > 1
        self._candidates, self._random = candidates, stream(self._seed, "candidate placements")
        #: Jobs that run or are delayed, with the begin of their first iteration on their GPUs.
        self._begun: dict[int, Begun] = {}

    # --- where and when jobs begin ----------------------------------------------------------

    def prefer(self, job: int, gpus: Ints, free: Bools) -> Ints:
        """Return the candidate whose links have the best mean score; see `Execution.prefer`.

        The first one of several counts, which is that of the scheduler if it is among them. Those
        on which an iteration alone would take longer are left out.
        """
        if self._jobs[job].iterations == 1 or not self._present():
            return gpus
        own = self._alone(job, gpus)
        best, found = self._best(own).score, gpus
        for other in self._others(gpus, free):
            if best >= 1 - EQUAL:
                break
            iteration = self._alone(job, other)
            if iteration.period_s <= own.period_s * (1 + EQUAL) and (
                    score := self._best(iteration).score) > best + EQUAL:
                best, found = score, other
        return found

    def delay_s(self, job: int, gpus: Ints) -> float:
        """By how much a job that could start now is delayed; see `Execution.delay_s`."""
        if self._jobs[job].iterations == 1:
            return 0.0
        iteration = self._alone(job, gpus)
        wait = self._best(iteration).delay_s
        self._begun[job] = Begun(iteration, self._env.now + wait)
        return wait

    def _best(self, iteration: IterationAlone) -> BestDelay:
        return best_delay(Begun(iteration, self._env.now), self._present(),
                          self._fabric.network.usable)

    def _alone(self, job: int, gpus: Ints) -> IterationAlone:
        spec = self._jobs[job]
        return alone(self._plan(spec, gpus).graph(0), spec.ranks)

    def _others(self, gpus: Ints, free: Bools) -> Iterator[Ints]:
        """Draw placements like that of a job, on servers with as many GPUs, and as many free ones.

        From each server come the first of its free GPUs.
        """
        cluster, seen = self._cluster, {tuple(gpus.tolist())}
        free_on = np.bincount(cluster.server_of[free], minlength=cluster.servers)
        _, kind = np.unique(np.stack((cluster.gpus, free_on)), axis=1, return_inverse=True)
        of_kind = np.argsort(kind.ravel(), kind="stable")
        servers = cluster.server_of[gpus]
        # The place of each GPU among those of the job on its server.
        place = np.array([int((servers[:k] == server).sum()) for k, server in enumerate(servers)])
        usable = np.flatnonzero(free)
        first = np.searchsorted(cluster.server_of[usable], np.arange(cluster.servers))
        for _ in range(self._candidates - 1):
            other = np.empty(cluster.servers, np.int64)
            other[of_kind] = of_kind[np.lexsort((self._random.random(len(kind)),
                                                 kind.ravel()[of_kind]))]
            found = usable[first[other[servers]] + place]
            if (key := tuple(found.tolist())) not in seen:
                seen.add(key)
                yield found

    # --- which jobs are there ---------------------------------------------------------------

    def _present(self) -> list[Begun]:
        """The jobs that run or are delayed, with the begin of an iteration of each.

        That of a running job is the current one, which others may have delayed.
        """
        found = []
        for job, (iteration, begin_s) in self._begun.items():
            process = self.processes.get(job)
            if process is not None and process.running:
                begin_s = self._env.now - process.in_iteration_s
            found.append(Begun(iteration, begin_s))
        return found

    def start(self, job: int, gpus: Ints, kept: float, ended: Callable[[int], None]) -> float:
        return super().start(job, gpus, kept, partial(self._end, ended))

    def _end(self, ended: Callable[[int], None], job: int) -> None:
        self._begun.pop(job, None)
        ended(job)

    def stop(self, job: int, kept: float, back: bool) -> float:
        self._begun.pop(job, None)
        return super().stop(job, kept, back)

    def stay(self, job: int) -> None:
        self._begun.pop(job, None)
        super().stay(job)
