"""Execution of jobs with given running times, to test schedulers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import simpy
from numpy.typing import NDArray

from netsim.cluster.context import RunContext
from netsim.engine.engine import Engine
from netsim.engine.view import Scheduler
from netsim.placements.placement import Placement
from netsim.workload import JobSpec

__all__ = ["run_timed"]


class _Timed:
    """An `Execution` in which each job takes a given time."""

    def __init__(self, env: simpy.Environment, seconds: Sequence[float]) -> None:
        self._env, self._seconds = env, seconds

    def add_job(self, job: int, jobs: Sequence[JobSpec]) -> None:
        raise NotImplementedError("all jobs are known beforehand")

    def start(self, job: int, gpus: NDArray, ended: Callable[[int], None]) -> None:
        self._env.timeout(self._seconds[job]).callbacks.append(partial(_end, ended, job))


def _end(ended: Callable[[int], None], job: int, _: simpy.Event) -> None:
    ended(job)


def run_timed(context: RunContext, scheduler: Scheduler, placement: Placement,
              seconds: Sequence[float], name: str) -> Engine:
    """Run all jobs to their ends.

    Parameters
    ----------
    context : RunContext
    scheduler : Scheduler
    placement : Placement
    seconds : sequence of float
        Running time of each job, in seconds.
    name : str
        Name of the scheduler in errors.

    Raises
    ------
    AllocationError
        If the scheduler starts jobs that do not wait, or on GPUs that they cannot have.
    StalledError
        If jobs wait and no event is left.
    """
    env = simpy.Environment(0.0)
    engine = Engine(env, context.cluster, context.jobs, scheduler, _Timed(env, seconds), placement,
                    name)
    while engine.ended < len(context.jobs):
        try:
            env.step()
        except simpy.core.EmptySchedule:
            raise engine.stalled() from None
    return engine
