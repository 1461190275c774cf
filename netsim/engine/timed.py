"""Execution of jobs with given running times, to test schedulers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netsim.cluster.context import RunContext
from netsim.engine.by_time import TimedExecution
from netsim.engine.engine import Engine
from netsim.engine.preemption import Preemption
from netsim.engine.view import Scheduler
from netsim.late import simpy
from netsim.placements.placement import Placement
from netsim.workload import JobSpec


class _GivenTimes(TimedExecution):
    """An `Execution` in which each job takes a given time on any GPUs."""

    def __init__(self, env: simpy.Environment, jobs: Sequence[JobSpec], seconds: Sequence[float]
                 ) -> None:
        super().__init__(env, jobs)
        self._each_s = [total / job.iterations for total, job in zip(seconds, jobs, strict=True)]

    def seconds(self, job: int, gpus: NDArray[np.int64]) -> float:
        """The time per iteration of a job."""
        return self._each_s[job]


def timed_engine(context: RunContext, scheduler: Scheduler, placement: Placement,
                 seconds: Sequence[float], name: str, options: Preemption | None = None
                 ) -> tuple[simpy.Environment, Engine]:
    """Make an engine at the beginning of a run, with its environment; see `run_timed`."""
    env = simpy.Environment(0.0)
    return env, Engine(env, context.cluster, context.jobs, scheduler,
                       _GivenTimes(env, context.jobs, seconds), placement, name, options)


def run_timed(context: RunContext, scheduler: Scheduler, placement: Placement,
              seconds: Sequence[float], name: str) -> Engine:
    """Run all jobs to their ends, each in its given running time."""
    env, engine = timed_engine(context, scheduler, placement, seconds, name)
    run_to_end(env, engine)
    return engine


def run_to_end(env: simpy.Environment, engine: Engine) -> None:
    """Run an engine until all jobs have ended; see `run_timed` for errors."""
    while engine.ended < len(engine.end_s):
        try:
            env.step()
        except simpy.core.EmptySchedule:
            raise engine.stalled() from None
